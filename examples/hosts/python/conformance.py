"""Replays the conformance kit against the store: `python conformance.py [FOLDER]`. The kit's README has the format.

The store's file is opened anew for each step, as by another process: whatever one step acknowledged, the next must
find. Calls here are never repeated, so cases that repeat one are skipped.
"""

import json
import pathlib
import sys
import tempfile
import time

from checks import Failure
from store import SqliteStore

# Members that are integers even where the kit, for the sake of JSON, spells them as texts.
INTEGERS = {"milliseconds", "max-bytes", "max-entries", "max-records", "limit", "keep", "count", "position", "first",
            "next", "amount", "newest"}
SAFE = 2**53 - 1


def expand(value, place=None):
    """Replaces the kit's two abbreviations."""
    if isinstance(value, str):
        return value if place is None else value.replace("#", str(place))
    if isinstance(value, list):
        return [expand(one, place) for one in value]
    if not isinstance(value, dict):
        return value
    if "$text" in value:
        text, times = expand(value["$text"], place)
        return text * times
    if "$list" in value:
        count, one = value["$list"]
        return [expand(one, index) for index in range(count)]
    return {name: expand(one, place) for name, one in value.items()}


def is_name(value):
    return isinstance(value, str) and len(value) > 1 and value.startswith("$")


def argument(value, known, name=""):
    """A value of the kit as the host would hand it in: variants are pairs."""
    if is_name(value):
        return known.get(value, value)
    if isinstance(value, str) and name in INTEGERS:
        return int(value)
    if name == "opening":
        return variant(value, known)
    if name in ("operations", "expectations"):
        return [variant(one, known) for one in value]
    if isinstance(value, list):
        return [argument(one, known) for one in value]
    if isinstance(value, dict):
        return {inner: argument(one, known, inner) for inner, one in value.items()}
    return value


def variant(value, known):
    ((tag, record),) = value.items()
    return tag, argument(record, known)


def spelled(value):
    """An answer of the store as the kit spells it."""
    if isinstance(value, tuple):
        return {value[0]: spelled(value[1])}
    if isinstance(value, list):
        return [spelled(one) for one in value]
    if isinstance(value, dict):
        return {name: spelled(one) for name, one in value.items()}
    if isinstance(value, int) and not -SAFE <= value <= SAFE:
        return str(value)
    return value


def differs(expected, found, known, path="answer"):
    """What of an answer is not as expected, with the path to it; none: it is."""
    complaint = f"{path}: {json.dumps(found)[:200]} in place of {json.dumps(expected)[:200]}"

    def holds(pattern, value):
        return differs(pattern, value, dict(known)) is None

    if is_name(expected):
        same = known.setdefault(expected, found) == found
        return None if same else complaint
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return complaint
        pairs = enumerate(zip(expected, found))
        return next(filter(None, (differs(*pair, known, f"{path}[{place}]") for place, pair in pairs)), None)
    if not isinstance(expected, dict):
        # In Python `True == 1`: not in the contract.
        return None if expected == found and type(expected) is type(found) else complaint
    if "$not" in expected:
        return complaint if holds(expected["$not"], found) else None
    if "$one-of" in expected:
        return None if any(holds(one, found) for one in expected["$one-of"]) else complaint
    if "$any-order" in expected:
        left = list(found) if isinstance(found, list) else []
        for pattern in expected["$any-order"]:
            place = next((place for place, one in enumerate(left) if holds(pattern, one)), None)
            if place is None:
                return complaint
            left.pop(place)
        return complaint if left or not isinstance(found, list) else None
    if "$between" in expected:
        low, high = map(int, expected["$between"])
        try:
            return None if low <= int(found) <= high else complaint
        except (TypeError, ValueError):
            return complaint
    if not isinstance(found, dict) or not expected.keys() <= found.keys():
        return complaint
    members = (differs(one, found[name], known, f"{path}.{name}") for name, one in expected.items())
    return next(filter(None, members), None)


def call(store, step, known):
    def given(name):
        return argument(step[name], known, name)

    def result(work):
        try:
            return {"ok": spelled(work())}
        except Failure as failure:
            return {"err": spelled(failure.record)}

    match step["call"]:
        case "transact":
            return result(lambda: store.transact(given("transaction")))
        case "transact-each":
            return spelled(store.transact_each(given("transactions")))
        case "list-buckets":
            return result(lambda: store.list_buckets(step["kind"], given("cursor"), step["limit"]))
        case "delete-bucket":
            bucket, incarnation = given("bucket"), given("incarnation")
            return result(lambda: store.delete_bucket(bucket, incarnation, step["max-keys"]))
        case "capabilities":
            return spelled(store.capabilities())
        case unknown:
            raise SystemExit(f"the kit has a call that this replayer does not know: {unknown}")


def replay(steps, path):
    """None: the case holds. Otherwise what does not."""
    ahead, known = 0, {}
    for place, step in enumerate(steps, 1):
        if step["call"] == "advance":
            ahead += step["milliseconds"]
            continue
        store = SqliteStore(path, clock=lambda: int(time.time() * 1000) + ahead)
        problem = differs(step["expect"], call(store, step, known), known)
        store.db.close()
        if problem:
            return f"step {place}: {problem}"
    return None


# This host never repeats a call, and its store keeps no second clock to see by that the first one was set.
LEFT_OUT = ("repeat", "set-clock-ahead")


def main():
    default = pathlib.Path(__file__).resolve().parents[3] / "conformance"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as scratch:
        capabilities = SqliteStore(":memory:").capabilities()
        for file in sorted(folder.glob("*.json")):
            for case in json.loads(file.read_text())["cases"]:
                fits = all(capabilities[name] for name in case.get("needs", []))
                fits = fits and not any(capabilities[name] for name in case.get("lacks", []))
                if not fits or any(step["call"] in LEFT_OUT for step in case["steps"]):
                    skipped += 1
                    continue
                problem = replay(expand(case["steps"]), f"{scratch}/{passed + failed}.db")
                if problem:
                    print(f"{file.name}: {case['name']}: {problem}", file=sys.stderr)
                passed, failed = passed + (problem is None), failed + (problem is not None)
    print(f"conformance (Python, SQLite): {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    main()
