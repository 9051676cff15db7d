"""Replays the host kit against this host: `python host_kit.py KEEPLINE.WASM [FOLDER [CASE]]`. The kit's README has
the format.

The host is what `conversations.py` and `administration.py` hold, with a store in a file of its own for each case and a model
that says what the case has it say. A case that fails is printed with its duty.
"""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import time

from administration import administer, forget_user
from checks import Failure
from conversations import Conversations
from filter import Filter, Plugin
from kit import differs, expand, spelled
from store import SqliteStore

# What an entry has, however busy the machine is; and one whose store gets stuck.
PATIENCE, SHORT = 60.0, 0.1
MAX_TURNS = 8
# In what an unexpected exception of the store says, and in nothing that the host says.
SECRET = "secret of the store"
# Parameters that are integers even where the kit, for the sake of JSON, spells them as texts.
INTEGERS = {"amount", "before", "branch", "from-line", "next", "offset", "position"}


class FaultyStore(SqliteStore):
    """Its transactions meet with the fault of a step."""

    fault = None

    def transact(self, transaction):
        return self.broken() or super().transact(transaction)

    def transact_each(self, transactions):
        return self.broken() or super().transact_each(transactions)

    def transact_each_leased(self, requests):
        return self.broken() or super().transact_each_leased(requests)

    def broken(self):
        if self.fault == "stuck":
            time.sleep(2 * SHORT)
        # No record of the contract: the instance ends.
        return "nothing" if self.fault == "trap" else None

    def _atomic(self, work):
        if self.fault in ("unavailable", "timed-out"):
            raise Failure(self.fault, "", "the kit has it fail")
        if self.fault == "exception":
            raise RuntimeError(SECRET)
        return super()._atomic(work)


class InspectedFilter(Filter):
    """Stands between host and component: changes replies as a step has it, and keeps the results of needs."""

    def __init__(self, plugin, store, options, report, replies):
        self.replies, self.results = replies, []
        super().__init__(plugin, store, options, "critical", report)

    def call(self, interface, name, *given):
        if name == "advance":
            self.results += given[0]["results"]
        reply, changed = super().call(interface, name, *given), self.replies.pop(name, {})
        if name == "configure":
            reply[1].update(changed)
        elif changed:
            reply.update(changed | ({"needs": list(map(variant, changed["needs"]))} if "needs" in changed else {}))
        return reply


def variant(value):
    return next(iter(value.items()))


class ScriptedModel:
    """Says what a case has it say, and keeps what it was asked."""

    def __init__(self, script):
        self.script, self.asked = script, []

    def complete(self, need):
        self.asked.append(need)
        said = self.script.get(need["purpose"])
        if said == {"failed": True}:
            raise RuntimeError(SECRET)
        return said


class Host:
    """A host as the kit has it: each method is a step."""

    def __init__(self, plugin, path, case):
        self.plugin, self.path, self.options = plugin, path, json.dumps(case["options"])
        self.model, self.reported, self.store = ScriptedModel(case.get("model", {})), [], None
        self.restart({})

    def report(self, code, message):
        self.reported.append((code, message))

    def restart(self, step):
        self.close()
        self.store = FaultyStore(self.path)
        self.filter = InspectedFilter(self.plugin, self.store, self.options, self.report, step.get("replies", {}))
        self.filter.entry_seconds = PATIENCE
        self.conversations = Conversations(self.filter, self.model, self.report, MAX_TURNS)

    def close(self):
        if self.store:
            self.store.close()

    def open(self, step):
        self.conversations.open(step["metadata"])

    def unreadable(self, _):
        self.conversations.unreadable()

    def question(self, step):
        return {"metadata": self.conversations.question(step["text"], step["metadata"])}

    def answer(self, step):
        status = step.get("status", "complete")
        return {"metadata": self.conversations.answer(step["text"], step["metadata"], status)}

    def tool(self, step):
        rest = dict.fromkeys(("arguments", "output", "error")) | {"name": "", "details": None}
        self.conversations.tool(rest | step["tool"], step["metadata"])

    def work(self, step):
        self.model.script = step.get("model", self.model.script)
        self.model.asked = []
        self.conversations.work()
        return {"asked": self.model.asked, "results": spelled(self.filter.results)}

    def administer(self, step):
        arguments = [int(one) if name in INTEGERS and one is not None else one for name, one in step["arguments"].items()]
        return answered(administer(self.filter, step["function"], arguments))

    def forget_user(self, step):
        return answered(forget_user(self.filter, step["user"]))

    def fill_turns(self, _):
        for place in range(MAX_TURNS):
            self.conversations.question("?", json.dumps({"session_id": f"filler-{place}"}))

    def take(self, step):
        """What came of a step, and what was reported."""
        self.reported, self.store.fault = [], step.get("fault")
        self.filter.replies, self.filter.results = dict(step.get("replies", {})), []
        if self.store.fault == "stuck":
            self.filter.entry_seconds = SHORT
        # Where an exception was raised is printed: that of the kit's is nothing to look at.
        with contextlib.redirect_stderr(io.StringIO()) if self.store.fault == "exception" else contextlib.nullcontext():
            came = getattr(self, step["call"].replace("-", "_"))(step) or {}
        self.store.fault, self.filter.entry_seconds = None, PATIENCE
        return came | {"reported": [code for code, _ in self.reported], "said": json.dumps(self.reported)}


def answered(answer):
    return {"answer": answer and spelled(answer)}


def wrong(step, came, known):
    """What of a step did not come as expected; none: it did."""
    # What a store can't promise is its own affair.
    silent = {} if step["call"] == "restart" else {"reported": []}
    expected = silent | step.get("expect", {})
    if step["call"] == "answer":
        expected["metadata"] = step["metadata"]
    whole = came.get("metadata") or json.dumps(came, ensure_ascii=False)
    for text in expected.pop("verbatim", []):
        if text not in whole:
            return f"there is no {text!r} in {whole[:2000]!r}"
    for text in expected.pop("lacks", []):
        if text in whole:
            return f"there is {text!r} in {whole[:2000]!r}"
    if isinstance(expected.get("metadata"), dict):
        came["metadata"] = json.loads(came["metadata"])
    if SECRET in came["said"]:
        return f"what was reported holds a message of the store's: {came['said']}"
    problem = differs(expected, came, known, step["call"])
    return problem and f"{problem}\n  reported: {came['said'][:2000]}"


def flat(steps):
    for step in steps:
        yield from flat(step) if isinstance(step, list) else [step]


def replay(plugin, path, case):
    """None: the case holds. Otherwise what does not, and which duty that is."""
    host, known = Host(plugin, path, case), {}
    try:
        for place, step in enumerate(flat(expand(case["steps"])), 1):
            try:
                problem = wrong(step, host.take(step), known)
            except Exception as error:
                problem = f"{step['call']}: the host raised {error!r}"
            if problem:
                return f"{case['name']}: step {place}: {problem}\n  duty: {case['duty']}"
    finally:
        host.close()
    return None


def main():
    plugin = Plugin(sys.argv[1])
    folder = pathlib.Path(*sys.argv[2:3] or [pathlib.Path(__file__).resolve().parents[3], "conformance/host"])
    capabilities = SqliteStore(":memory:").about()["capabilities"]
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as scratch:
        for file in sorted(folder.glob("*.json")):
            for case in json.loads(file.read_text())["cases"]:
                if len(sys.argv) > 3 and case["name"] != sys.argv[3]:
                    continue
                if not all(name == "inspection" or name in capabilities for name in case.get("needs", [])):
                    skipped += 1
                    continue
                problem = replay(plugin, f"{scratch}/{passed + failed}.db", case)
                if problem:
                    print(f"{file.name}: {problem}", file=sys.stderr)
                passed, failed = passed + (problem is None), failed + (problem is not None)
    print(f"host kit (Python, SQLite): {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    main()
