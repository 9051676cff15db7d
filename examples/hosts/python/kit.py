"""The conformance kit's format: abbreviations, patterns, and values as the store takes them and answers.

conformance/README.md describes it.
"""

import json

# Members that are integers even where the kit, for the sake of JSON, spells them as texts.
INTEGERS = {"milliseconds", "max-bytes", "max-entries", "max-records", "limit", "only-over", "leave", "count", "position",
            "from-position", "positions", "first", "next", "amount", "newest"}
SAFE = 2**53 - 1


def expand(value, limits=None):
    """Replaces the kit's abbreviations. `limits`: those of the store, by name."""
    if isinstance(value, list):
        return [expand(one, limits) for one in value]
    if not isinstance(value, dict):
        return value
    if "$limit" in value:
        name, more = value["$limit"]
        return limits[name] + more
    value = {name: expand(one, limits) if name in ("$text", "$list") else one for name, one in value.items()}
    if "$text" in value:
        text, times = value["$text"]
        return text * times
    if "$list" in value:
        count, template, sign = [*value["$list"], "#"][:3]
        return [numbered(template, sign, place) for place in range(count)]
    return {name: expand(one, limits) for name, one in value.items()}


def numbered(value, sign, place):
    if isinstance(value, str):
        return value.replace(sign, str(place))
    if isinstance(value, list):
        return [numbered(one, sign, place) for one in value]
    return {name: numbered(one, sign, place) for name, one in value.items()} if isinstance(value, dict) else value


def is_name(value):
    return isinstance(value, str) and len(value) > 1 and value.startswith("$")


def argument(value, known, name=""):
    """A value of the kit as the host would hand it in: variants are pairs."""
    if is_name(value):
        value = known[value]
    if isinstance(value, str) and name in INTEGERS:
        return int(value)
    if name == "precondition":
        return variant(value, known)
    if name in ("operations", "expectations", "steps"):
        return [variant(one, known) for one in value]
    if isinstance(value, list):
        return [argument(one, known, name) for one in value]
    if isinstance(value, dict) and "$sum" in value:
        return str(sum(int(argument(one, known)) for one in value["$sum"]))
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
    if "$each" in expected:
        return None if isinstance(found, list) and all(holds(expected["$each"], one) for one in found) else complaint
    if "$distinct" in expected:
        members = [json.dumps(one, sort_keys=True) for one in found] if isinstance(found, list) else []
        return None if len(set(members)) == len(members) == expected["$distinct"] else complaint
    if "$between" in expected:
        low, high = map(int, expected["$between"])
        return None if type(found) is int and low <= found <= high else complaint
    if not isinstance(found, dict) or not expected.keys() <= found.keys():
        return complaint
    members = (differs(one, found[name], known, f"{path}.{name}") for name, one in expected.items())
    return next(filter(None, members), None)
