"""Replays the conformance kit against the store: `python conformance.py [--real-time] [--floors] [FOLDER]`. The kit's README has
the format.

With `--floors` its limits are as low as the contract allows. The store's file is opened anew for each step, as by another process: whatever one step acknowledged, the next must
find. The writers of a race have a thread and a connection each. With `--real-time` the clock is not moved but waited
for, and cases that would take long are skipped. Calls here are never repeated, so cases that repeat one are skipped.
"""

import json
import pathlib
import sys
import tempfile
import threading
import time

from checks import FLOORS, LIMITS, Failure
from kit import argument, differs, expand, spelled
from store import SqliteStore

# Nothing in the kit takes that long: writers that are at it still are waiting for each other.
PATIENCE = 60
OVERTIME = f"the race is not over after {PATIENCE} seconds"
# The longest `advance` to wait for, in milliseconds.
SHORT = 1000
# How often a case is begun again that the machine was too busy for.
TRIES = 20

# This host never repeats a call, and its store keeps no second clock to see by that the first one was set.
LEFT_OUT = {"repeat", "set-clock-ahead"}
# Calls of interfaces that a store may lack.
OPTIONAL = {"leases.transact-each": "leases", "indexes.transact-each": "indexes", "list-buckets": "listing"}


def send(store, step, known):
    """The answer to a call of the store."""

    def given(name):
        return argument(step[name], known, name)

    def result(work):
        try:
            return {"ok": spelled(work())}
        except Failure as failure:
            return {"err": spelled(failure.problem)}

    match step["call"]:
        case "transact":
            return result(lambda: store.transact(given("transaction")))
        case "transact-each":
            return spelled(store.transact_each(given("transactions")))
        case "leases.transact-each":
            return spelled(store.transact_each_leased(given("transactions")))
        case "indexes.transact-each":
            return spelled(store.transact_each_indexed(given("transactions")))
        case "delete-each":
            return spelled(store.delete_each(given("requests")))
        case "list-buckets":
            return result(lambda: store.list_buckets(step["kind"], given("cursor"), step["limit"]))
        case "about":
            return spelled(store.about())
        case unknown:
            raise SystemExit(f"the kit has a call that this replayer does not know: {unknown}")


class Failed(Exception):
    """What does not hold."""


class Late(Exception):
    """A step that had to be answered early was not: the machine is busy, and nothing is known."""


class Replay:
    """A case under way."""

    def __init__(self, open_store, real_time):
        self.open, self.real_time = open_store, real_time
        self.ahead, self.began = 0, time.monotonic()

    def clock(self):
        return int(time.time() * 1000) + self.ahead

    def run(self, steps):
        known = {}
        for place, step in enumerate(steps, 1):
            try:
                if step["call"] == "advance":
                    self.advance(step["milliseconds"])
                elif step["call"] == "race":
                    self.race(step, known)
                else:
                    store = self.open(self.clock)
                    try:
                        self.take(step, store, known)
                    finally:
                        store.close()
            except Failed as problem:
                raise Failed(f"step {place}: {problem}") from None

    def advance(self, milliseconds):
        if self.real_time:
            time.sleep(milliseconds / 1000)
        else:
            self.ahead += milliseconds

    def take(self, step, store, known):
        answer = send(store, step, known)
        if (time.monotonic() - self.began) * 1000 + self.ahead > step.get("within", float("inf")):
            raise Late
        problem = differs(step["expect"], answer, known)
        if problem:
            raise Failed(problem)
        return answer

    def race(self, step, known):
        """Takes the steps of all writers at once."""
        writers = step["writers"]
        start, end = threading.Barrier(len(writers)), time.monotonic() + PATIENCE
        answers, problems = [None] * len(writers), []

        def write(number):
            store = self.open(self.clock)
            try:
                start.wait()
                own, given = dict(known), []
                for one in writers[number]:
                    if problems:
                        return
                    given.append(self.write(one, store, own, end))
                answers[number] = given
            except Exception as problem:
                problems.append(f"writer {number + 1}: {problem or type(problem).__name__}")
            finally:
                store.close()

        threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(len(writers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0, end + 1 - time.monotonic()))
        if problems or None in answers:
            raise Failed("; ".join(problems) or OVERTIME)
        problem = differs(step["expect"], answers, known) if "expect" in step else None
        if problem:
            raise Failed(problem)

    def write(self, step, store, known, end):
        """A step of a writer in a race; a `retry` until none of its answers asks for another round."""
        if step["call"] != "retry":
            return self.take(step, store, known)
        while time.monotonic() < end:
            own, answers = dict(known), []
            for one in step["steps"]:
                answer = send(store, one, own)
                if "again" in one and differs(one["again"], answer, dict(own)) is None:
                    break
                problem = differs(one["expect"], answer, own)
                if problem:
                    raise Failed(problem)
                answers.append(answer)
            else:
                return answers
        raise Failed(OVERTIME)


def replay(steps, open_store, real_time=False):
    """None: the case holds. Otherwise what does not. `open_store(clock)` opens the same store, which is empty, anew."""
    try:
        Replay(open_store, real_time).run(steps)
        return None
    except Failed as problem:
        return str(problem)


def is_skipped(case, about, real_time=False):
    """Whether a case is not for this store, or not for this replayer."""
    has, needs, lacks = set(about["capabilities"]), set(case.get("needs", [])), set(case.get("lacks", []))
    fits = needs <= has and not lacks & has and differs(case.get("limits", {}), limits_of(about), {}) is None
    steps = case["steps"] + [one for step in case["steps"] for writer in step.get("writers", []) for one in writer]
    calls = {step["call"] for step in steps}
    left_out = calls & LEFT_OUT or any("identity" in step for step in steps)
    # Without the capability there is no function that could be called.
    left_out = left_out or any(call in calls and capability not in has for call, capability in OPTIONAL.items())
    is_long = any(step["call"] == "advance" and step["milliseconds"] > SHORT for step in case["steps"])
    return not fits or left_out or (real_time and is_long)


def limits_of(about):
    return LIMITS | {limit["name"]: limit["value"] for limit in about["limits"]}


def folder_of(arguments):
    default = pathlib.Path(__file__).resolve().parents[3] / "conformance"
    return pathlib.Path(arguments[0]) if arguments else default


def cases(folder, about):
    """All cases of a folder, each with the name of its file, for a store that says this about itself."""
    limits = limits_of(about)
    for file in sorted(folder.glob("*.json")):
        for case in json.loads(file.read_text(encoding="utf-8"))["cases"]:
            yield file.name, expand(case, limits)


def replay_until_in_time(case, make, real_time=False):
    """What of a case does not hold. It is begun again, with an empty store, while the machine is too busy for it.
    `make(scratch)` makes what opens the store, as `replay` takes it; `scratch` is a folder for its file."""
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                return replay(case["steps"], make(scratch), real_time)
            except Late:
                pass
    return f"the machine was too busy {TRIES} times"


def replay_all(what, folder, about, make, real_time=False):
    """Replays all cases and exits."""
    passed = failed = skipped = 0
    for file, case in cases(folder, about):
        if is_skipped(case, about, real_time):
            skipped += 1
            continue
        problem = replay_until_in_time(case, make, real_time)
        if problem:
            print(f"{file}: {case['name']}: {problem}", file=sys.stderr)
        passed, failed = passed + (problem is None), failed + (problem is not None)
    print(f"conformance ({what}): {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0 or passed == 0)


def main():
    arguments = sys.argv[1:]
    flags = {flag for flag in ("--real-time", "--floors") if flag in arguments}
    limits = FLOORS if "--floors" in flags else {}
    folder = folder_of([one for one in arguments if one not in flags])
    about = SqliteStore(":memory:", limits=limits).about()

    def make(scratch):
        return lambda clock: SqliteStore(f"{scratch}/store.db", PATIENCE, clock, limits)

    replay_all("Python, SQLite", folder, about, make, "--real-time" in flags)


if __name__ == "__main__":
    main()
