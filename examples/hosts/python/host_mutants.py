"""Checks that the host kit notices what a host forgets: `python host_mutants.py KEEPLINE.WASM [FOLDER]`.

Each mutant is this host with one duty left out: a text of a file in the place of another. A case is named for it that has to
fail, and to say which duty it was. Every duty of the kit has a mutant.
"""

import importlib
import json
import pathlib
import shutil
import sys
import tempfile

from filter import Plugin

HERE = pathlib.Path(__file__).resolve().parent

# A host that parses metadata and writes them anew.
REWRITTEN = 'else __import__("json").dumps(__import__("turns").members(reply["metadata"]))'

# The file, what stands there, what stands there in the mutant, and the case that must fail.
MUTANTS = [
    # Metadata.
    ("conversations.py", 'else reply["metadata"]', REWRITTEN, "the spelling of numbers stays"),
    ("conversations.py", 'else reply["metadata"]', REWRITTEN, "duplicate members stay"),
    ("conversations.py", 'if reply["metadata"] is None', 'if not reply["attached"]', "a client's own memory is removed"),
    ("turns.py", 'json.loads(metadata.removeprefix("\\ufeff"))', 'json.loads(metadata)',
     "an answer names its session in metadata that are no strict JSON"),
    ("turns.py", 'json.loads(metadata.removeprefix("\\ufeff"))',
     'json.loads(metadata.removeprefix("\\ufeff"), parse_constant=lambda name: json.loads("x"))',
     "an answer names its session in metadata that are no strict JSON"),
    ("filter.py", '{"text": text, "metadata": metadata, "turn"', '{"text": text.strip(), "metadata": metadata, "turn"',
     "texts are handed in as they are"),
    ("turns.py", "self.begin(metadata, text, waits=True)", "self.begin(metadata, text.strip(), waits=True)",
     "texts are handed in as they are"),
    # Turns.
    ("turns.py", "return self.find(named) or Turn(None)", "return self.last or Turn(None)", "two sessions are interleaved"),
    ("turns.py", "return self.find(named) or Turn(None)", "return self.find(named) or self.last or Turn(None)",
     "an answer names a session that has not asked"),
    ("turns.py", "(self.app, self.node) if self.is_node else None", "None", "two nodes of a session are interleaved"),
    ("filter.py", '== "node"', '== "nodes"', "nodes by the option memory_mode"),
    ("turns.py", "return self.session, self.user,", "return self.session,", "another user asks in between"),
    ("turns.py", "self.last = self.begin(metadata, text, waits=True)",
     "self.last = self.last or self.begin(metadata, text, waits=True)",
     "an answer without a session follows the last question"),
    ("turns.py", "        self.last = self.begin(metadata, text, waits=True)\n        return self.last",
     "        turn = self.begin(metadata, text, waits=True)\n        self.last = turn if turn.at else self.last\n        return turn",
     "a question without a session ends the turn before"),
    ("conversations.py", "        self.turns.forget_last()\n", "", "an entry that can't be read ends the turn before"),
    ("filter.py", 'turn.text if self.wants_turns else ""', '""', "a question is remembered with its answer"),
    ("conversations.py", "        # An effect that this host", "        turn.text = ''\n        # An effect that this host",
     "a question is handed in until an answer was stored"),
    ("conversations.py", 'if reply and reply["effect"] not in NOT_STORED:', "if reply:",
     "tools are handed in until an answer was stored"),
    ("conversations.py", 'if reply and reply["effect"] not in NOT_STORED:', "if False:", "tools are handed in once"),
    ("conversations.py", 'if reply and reply["effect"] not in NOT_STORED:',
     'if reply and reply["effect"] in ("stored", "repeated"):', "an effect of an answer that the host does not know"),
    ("conversations.py", 'if reply["metadata"] is None else', 'if reply["effect"] != "enriched" else',
     "an effect of a question that the host does not know"),
    ("turns.py", "if len(self.turns) > self.max_turns:", "if False:", "the oldest turn is dropped"),
    ("turns.py", "if dropped.waits:", "if False:", "the oldest turn is dropped"),
    ("conversations.py", '        turn.state = reply["turn"]\n', "", "a session is deleted before its answer"),
    ("conversations.py", "        self.turns.open(metadata)\n", "        pass\n", "a new conversation of all"),
    ("conversations.py", "self.turns.open(metadata)", 'self.turns.open("{}")', "a new conversation of one session"),
    # Tools.
    ("conversations.py", "            turn.tools.append(activity)\n", "", "a call and its result are remembered"),
    ("conversations.py", "turn.tools.append(activity)", "turn.tools.insert(0, activity)", "a result comes after its call"),
    ("turns.py", "return self.find(named) or self.begin(metadata)", "return self.last",
     "tools of two sessions are interleaved"),
    ("turns.py", "return having[0] if len(having) == 1 else None if having else self.last", "return self.last",
     "a result names no session"),
    ("turns.py", "return having[0] if len(having) == 1 else None if having else self.last",
     "return having[0] if having else self.last", "a result that two turns may have called for is reported"),
    ("turns.py", "return self.find(named) or self.begin(metadata)", "return self.find(named)",
     "a tool names its session after a restart"),
    ("turns.py", "self.waits, self.tools = False, []", "self.waits = False", "tools are handed in once"),
    ("filter.py", '"status": status,', '"status": None,', "an answer is cut off"),
    # Branches.
    ("conversations.py", "self.filter.answer(text, turn.completed(metadata), turn, status)",
     'self.filter.answer(text, "{}", turn, status)', "a question is edited"),
    ("conversations.py", "            turn.is_stored()\n", "            turn.is_stored()\n            turn.state = ''\n",
     "a question has two answers"),
    # Deferred work.
    ("conversations.py", "        for task in due:\n", "        for task in due[:0]:\n", "the model gives a summary"),
    ("conversations.py", 'self.due += reply["due"]', 'self.due = reply["due"]', "two sessions have work"),
    ("maintenance.py", 'not in ("needs", "again")', 'not in ("needs",)', "a transcript is cut back"),
    ("maintenance.py", 'return "failed", {', 'return "missing", {', "the model fails"),
    ("maintenance.py", 'else ("missing", {', 'else ("failed", {', "there is no model"),
    ("maintenance.py", "    try:\n        text = model", "    try:\n        assert kind != 'call'\n        text = model",
     "a need that the host does not know"),
    ("maintenance.py", '"id": need["id"]', '"id": 0', "a need that the host does not know"),
    ("maintenance.py", "filter.advance(task, holder,", "filter.advance(task, str(uuid.uuid4()),",
     "a task of several steps has one holder"),
    ("maintenance.py", "        if progress is None or", "        if", "an instance ends at work"),
    ("maintenance.py", '            report(progress["problem"]["code"], progress["problem"]["message"])', "            pass", "the store fails at work"),
    # Administration.
    ("administration.py", "return filter.entry(interface, name, *map(argument, arguments), *extras)",
     'return {"ok": filter.entry(interface, name, *map(argument, arguments), *extras)[1]}.popitem()', "problems are values"),
    ("filter.py", "    if isinstance(value, str):\n        # Halves",
     "    if type(value) is int:\n        return value & 0xFFFFFFFF\n    if isinstance(value, str):\n        # Halves",
     "a counter is at its limit"),
    ("administration.py", 'if answer[1]["remaining"] == 0:', "if True:", "a user of forty sessions is forgotten"),
    # Faults.
    ("filter.py", "        except Exception as error:\n            return \"err\", as_problem(error)",
     "        except ZeroDivisionError as error:\n            return \"err\", as_problem(error)",
     "the store is unavailable for a question"),
    ("checks.py", '"message": "the store made a mistake"', '"message": str(error)', "the store makes a mistake"),
    ("filter.py", "            self.instance = None\n", "", "an instance ends at a question"),
    ("filter.py", '"configure", self.options,', '"configure", self.__dict__.pop("options", "{}"),',
     "an instance that replaces another has the options"),
    ("turns.py", 'if self.state or self.at is None or "session_id" not in members(metadata):', "if True:",
     "a question that an instance ended at keeps its owner"),
    ("filter.py", "set_epoch_deadline(int(self.entry_seconds / TICK_SECONDS))", "set_epoch_deadline(10**9)",
     "an instance is stuck at a question"),
    # Restarts.
    ("conversations.py", "        reply = self.finish(self.filter.answer(",
     "        if turn.at is None:\n            return metadata\n        reply = self.finish(self.filter.answer(",
     "an answer names its session after a restart"),
    ("store.py", 'self.db.execute("commit")\n                return answer', 'self.db.execute("rollback")\n                return answer',
     "the memory lasts"),
    # Reports.
    ("conversations.py", "if is_id and (code, subject) in self.reported:", "if False:", "malformed ids are reported once"),
    ("conversations.py", "if is_id and (code, subject) in self.reported:", "if is_id and self.reported:",
     "malformed ids are reported once"),
    ("conversations.py", " or (code, subject) == (\"invalid\", \"user_id\")", "", "malformed ids of users are reported once"),
    ("filter.py", "            report(warning[\"code\"], warning[\"message\"])", "            pass",
     "a warning of configure is reported"),
    ("conversations.py", 'if reply and reply["problem"]:', 'if reply and reply["problem"] and reply["effect"] == "failed":',
     "an answer is stored in part"),
]


def check(mutant, cases, plugin, scratch):
    """None: the kit notices. Otherwise what is wrong."""
    file, text, other, name = mutant
    what = f"{file}, {other.strip() or 'without ' + text.strip()!r}"
    if name not in cases:
        return f"{what}: the kit has no case {name!r}"
    shutil.copytree(HERE, scratch, ignore=lambda _, names: [one for one in names if not one.endswith(".py")])
    source = (HERE / file).read_text()
    if source.count(text) != 1:
        return f"{what}: {text!r} is there {source.count(text)} times, and not once"
    pathlib.Path(scratch, file).write_text(source.replace(text, other))
    # The mutant's modules, in the place of those that are loaded.
    for module in HERE.glob("*.py"):
        sys.modules.pop(module.stem, None)
    sys.path[0] = scratch
    failure = importlib.import_module("host_kit").replay(plugin, f"{scratch}/memory.db", cases[name])
    if failure is None:
        return f"{what}: the case {name!r} passes"
    return None if cases[name]["duty"] in failure else f"{what}: the case {name!r} does not name its duty: {failure}"


def main():
    plugin = Plugin(sys.argv[1])
    folder = pathlib.Path(*sys.argv[2:3] or [HERE.parents[2], "conformance/host"])
    files = (json.loads(file.read_text()) for file in folder.glob("*.json"))
    cases = {case["name"]: case for file in files for case in file["cases"]}
    with tempfile.TemporaryDirectory() as scratch:
        checks = [check(one, cases, plugin, f"{scratch}/{place}") for place, one in enumerate(MUTANTS)]
    left_out = {case["duty"] for case in cases.values()} - {cases[one[-1]]["duty"] for one in MUTANTS if one[-1] in cases}
    problems = [problem for problem in checks if problem] + [f"no mutant leaves this out: {duty}" for duty in left_out]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"mutants of the Python host: {len(MUTANTS)}, of which {sum(map(bool, checks))} go unnoticed")
    sys.exit(len(problems) > 0)


if __name__ == "__main__":
    main()
