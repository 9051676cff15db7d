"""What operators do to sessions, transcripts and users: one call of the component, arguments and answer as JSON.

    python administration.py keepline.wasm memory.db sessions.get '{"session": "anna", "key": "last_answer"}'

The functions are those of `wit/deps/admin`, with all their parameters in their order, but for `extras`, which is none. An
option that is none is null, and a variant an object with one member.
"""

import json
import os
import sys

from filter import Filter, Plugin
from store import SqliteStore


# Their last parameter is `extras`.
WRITES = {f"sessions.{name}" for name in ("create", "delete", "put", "clear", "increment")}
WRITES |= {f"transcripts.{name}" for name in ("rewrite", "clear", "set-messages", "register", "set-title", "set-settings")}
WRITES |= {"users.put", "users.forget"}


def argument(value):
    """Messages are a variant."""
    if isinstance(value, list):
        return [argument(one) for one in value]
    if isinstance(value, dict) and value.keys() <= {"message", "chat"}:
        return next(iter(value.items()))
    return value


def administer(filter, function, arguments):
    """("ok", record) or ("err", problem). None: the component failed."""
    interface, _, name = function.partition(".")
    extras = [None] if function in WRITES else []
    return filter.entry(interface, name, *map(argument, arguments), *extras)


def forget_user(filter, user):
    """Forgets a user altogether: one call takes so many sessions, and is to be repeated until nothing is left."""
    total = {"sessions": 0, "nodes": 0}
    while True:
        answer = administer(filter, "users.forget", [user])
        if answer is None or answer[0] == "err":
            return answer
        total = {name: count + answer[1][name] for name, count in total.items()}
        if answer[1]["remaining"] == 0:
            return "ok", answer[1] | total


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: python administration.py COMPONENT DATABASE FUNCTION ARGUMENTS")
    component, database, function, arguments = sys.argv[1:]
    filter = Filter(Plugin(component), SqliteStore(database), os.environ.get("KEEPLINE_OPTIONS", "{}"))
    arguments = list(json.loads(arguments).values())
    answer = forget_user(filter, *arguments) if function == "users.forget" else administer(filter, function, arguments)
    if answer is None:
        sys.exit("the component failed")
    status, record = answer
    print(json.dumps(record, ensure_ascii=False))
    sys.exit(status == "err")


if __name__ == "__main__":
    main()
