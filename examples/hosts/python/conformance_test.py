"""Checks that the kit's races find what they are for: `python conformance_test.py [FOLDER]`.

A store that neither locks nor compares has to fail each of them. That takes some luck, so each is replayed until it fails. The
store also has to take over a file of an earlier version.
"""

import sqlite3
import sys
import tempfile
import time

from checks import Failure
from conformance import TRIES, cases, folder_of, is_skipped, replay
from store import SqliteStore


class Hesitant:
    """A connection that waits before it writes, so that others come in between."""

    def __init__(self, db):
        self.db = db

    def __getattr__(self, name):
        return getattr(self.db, name)

    def execute(self, sql, *values):
        if not sql.startswith("select"):
            time.sleep(0.001)
        return self.db.execute(sql, *values)


class Unlocked(SqliteStore):
    """Reads and writes one statement after the other, without a transaction around them."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.db = Hesitant(self.db)

    def _atomic(self, work):
        try:
            return work(self.clock())
        except sqlite3.Error:
            raise Failure("unavailable", "", "somebody else came in between") from None


def is_caught(case, scratch):
    for attempt in range(TRIES):
        path = f"{scratch}/{attempt}.db"
        if replay(case["steps"], lambda clock: Unlocked(path, clock=clock)) is not None:
            return True
    return False


# Of the version before generations had this name.
EARLIER = """
create table bucket (
    id integer primary key autoincrement, kind text not null, name text not null, incarnation text not null,
    milliseconds integer, sliding integer not null, expires_at integer, unique (kind, name));
insert into bucket values (1, 'session', 'b', 'g', null, 0, null);
"""


def takes_over_earlier_file(scratch):
    path = f"{scratch}/earlier.db"
    db = sqlite3.connect(path)
    db.executescript(EARLIER)
    db.close()
    precondition = "existing", {"generation": "g", "renew": True}
    transaction = {"bucket": {"kind": "session", "name": "b"}, "precondition": precondition, "expectations": [],
                   "operations": [("describe", {"parts": False})]}
    receipt = SqliteStore(path).transact(transaction)
    return receipt["status"] == "applied" and receipt["outcomes"][0][1]["created-at"] == 0


def main():
    about = SqliteStore(":memory:").about()
    caught, missed = 0, []
    for _, case in cases(folder_of(sys.argv[1:]), about):
        if any(step["call"] == "race" for step in case["steps"]) and not is_skipped(case, about):
            with tempfile.TemporaryDirectory() as scratch:
                if is_caught(case, scratch):
                    caught += 1
                else:
                    missed.append(case["name"])
    for name in missed:
        print(f"a store without transactions passes {name!r}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        if not takes_over_earlier_file(scratch):
            missed.append("a file of an earlier version")
            print("a file of an earlier version is not taken over", file=sys.stderr)
    print(f"conformance of the kit (Python): {caught} mistakes caught, {len(missed)} problems")
    sys.exit(len(missed) > 0 or caught == 0)


if __name__ == "__main__":
    main()
