"""One generation of a bucket, and what each operation does to it."""

import re

from checks import LIMITS, PIECE_BYTES, Failure, too_large
from wit_world.imports import types as t

# Records that are replaced at a time.
MAX_REPLACED = 10_000
COUNTER = re.compile(r"0|-?[1-9][0-9]{0,18}")
TOP = 2**63 - 1


def length(text):
    return len(text.encode())


def entries(found, size=None):
    missing = t.MissingEntries([], "", t.Size(*size)) if size else None
    return t.Outcome_Entries(t.FoundEntries([t.Entry(key, text) for key, text in found], missing))


class Room:
    """What all outcomes of a transaction may still hold."""

    def __init__(self):
        self.pieces, self.bytes = LIMITS["reply-pieces"], LIMITS["reply-bytes"]

    def fitting(self, texts, max_bytes):
        """The longest beginning of `texts` that there is room for, and at least one if there is any."""
        fit, total = [], 0
        for text in texts[: min(self.pieces, LIMITS["reply-pieces-each"]) if self.bytes > 0 else 0]:
            total += length(text)
            if fit and total > min(max_bytes, self.bytes):
                break
            fit.append(text)
        return fit

    def take(self, texts):
        self.pieces = max(0, self.pieces - len(texts))
        self.bytes = max(0, self.bytes - sum(PIECE_BYTES + length(text) for text in texts))


class Bucket:
    def __init__(self, generation, now, time_to_live):
        self.generation, self.created_at, self.time_to_live = generation, now, time_to_live
        self.maps, self.logs = {}, {}
        self.renew(now)

    def renew(self, now):
        self.expires_at = self.time_to_live and now + self.time_to_live["milliseconds"]

    def map(self, name):
        return self.maps.get(name, {})

    def log(self, name):
        """The position of its oldest record, and its records."""
        return self.logs.get(name, (0, []))

    def extent(self, name):
        first, records = self.log(name)
        return t.LogExtent(first, len(records))

    def set(self, name, texts):
        if texts:
            self.maps.setdefault(name, {}).update(texts)

    def holds(self, kind, expected, operations):
        if kind == "entry":
            found, state = self.map(expected["map-name"]).get(expected["key"]), expected["state"]
            if found is None:
                return state in ("absent", "absent-or-equal")
            return state == "present" or (state != "absent" and found == expected["text"])
        if kind == "log":
            first, records = self.log(expected["log"])
            return expected["first"] in (None, first) and expected["next"] in (None, first + len(records))
        found = self.map(expected["map-name"])
        created = sum(name == expected["map-name"] and key not in found for name, key in keys_set(operations))
        return created == 0 or len(found) + created <= expected["limit"]

    def probe(self, operations):
        """Raises what keeps the operations from being applied, in their order; nothing can fail afterwards. Each place is
        written once, so it still is what it was when its operation comes."""
        for tag, step in operations:
            if tag in ("read-at", "rewrite"):
                raise Failure("unsupported", "positions", "this store is at the plain level")
            if tag == "add":
                self.counted(step)
            if tag == "replace-oldest":
                count = min(step["count"], len(self.log(step["log"])[1]), MAX_REPLACED)
                if len(step["records"]) > count:
                    raise Failure("invalid", step["log"], f"there are only {count} records to replace")
        keys, values = keys_set(operations), self.map("values")
        created = sum(name == "values" and key not in values for name, key in keys)
        if created and len(values) + created > LIMITS["values"]:
            raise too_large("values", LIMITS)
        parts = {("map", name) for name in self.maps} | {("log", name) for name in self.logs}
        made = {("map", name) for name, _ in keys}
        made |= {("log", step["log"]) for tag, step in operations if tag == "append" and step["records"]}
        # What a transaction removes makes no room for what it creates.
        if made - parts - {("map", "values")} and len((parts | made) - {("map", "values")}) > LIMITS["parts"]:
            raise too_large("parts", LIMITS)

    def counted(self, step):
        before = self.map(step["map-name"]).get(step["key"], "0")
        if not COUNTER.fullmatch(before) or not -TOP - 1 <= int(before) <= TOP:
            raise Failure("not-a-counter", step["key"], f"{step['key']} is no counter")
        value = int(before) + step["amount"]
        if not -TOP - 1 <= value <= TOP:
            raise Failure("counter-overflow", step["key"], f"{step['key']} would leave its range")
        return value

    def apply(self, tag, step, now, room):
        return getattr(self, "do_" + tag.replace("-", "_"))(step, now, room)

    def do_get(self, step, _, room):
        texts = self.map(step["map-name"])
        found = [(key, texts[key]) for key in step["keys"] if key in texts]
        return self.found(found, [text for _, text in found], room.pieces, step["max-bytes"], room)

    def do_get_all(self, step, _, room):
        """A map of any size is one page, as the plain level allows; but each page has a limit of bytes."""
        texts = self.map(step["map-name"])
        found = [(key, "" if step["keys-only"] else texts[key]) for key in sorted(texts)]
        sizes = [key + text for key, text in found]
        if step["cursor"] is None:
            return self.found(found, sizes, min(step["max-entries"], room.pieces), step["max-bytes"], room)
        kept, unreadable, total = [], [], 0
        for (key, text), size in zip(found, sizes):
            if total + length(size) > min(step["max-bytes"], room.bytes):
                unreadable.append(key)
            else:
                total += length(size)
                kept.append((key, text))
        room.take(sizes)
        missing = t.MissingEntries(unreadable, "", None) if unreadable else None
        return t.Outcome_Entries(t.FoundEntries([t.Entry(key, text) for key, text in kept], missing))

    def found(self, found, texts, most, max_bytes, room):
        size = sum(map(length, texts))
        if len(found) > min(most, LIMITS["reply-pieces-each"]) or size > min(max_bytes, room.bytes):
            return entries([], (size, len(found)))
        room.take(texts)
        return entries(found)

    def do_set(self, step, _, __):
        name, put = step["map-name"], {entry["key"]: entry["text"] for entry in step["put"]}
        before = self.map(name)
        kept = {} if step["reset"] else {key: text for key, text in before.items() if key not in step["remove"]}
        after = kept | put
        self.maps[name] = after
        if not after:
            del self.maps[name]
        return t.Outcome_Changed(t.ChangedEntries(len(after.keys() - before.keys()), len(before.keys() - after.keys())))

    def do_add(self, step, _, __):
        value = self.counted(step)
        self.set(step["map-name"], {step["key"]: str(value)})
        return t.Outcome_Counter(t.CounterValue(value))

    def do_append(self, step, _, __):
        name, (first, records) = step["log"], self.log(step["log"])
        end = first + len(records)
        if step["reset"]:
            first, records = end, []
        if step["records"] or name in self.logs:
            self.logs[name] = (first, records + step["records"])
        for mark in step["marks"]:
            self.set(mark["map-name"], {mark["key"]: str(end + mark["record-index"])})
        return t.Outcome_Extent(self.extent(name))

    def do_read(self, step, _, room):
        name, (first, records) = step["log"], self.log(step["log"])
        rest = records[: max(0, len(records) - step["leave"])]
        count = min(step["max-records"], len(rest))
        asked = rest[len(rest) - count :][::-1] if step["newest"] else rest[:count]
        fit = room.fitting(asked, step["max-bytes"]) if len(records) > step["only-over"] else []
        if not fit:
            return t.Outcome_Extent(self.extent(name))
        room.take(fit)
        if step["newest"]:
            first, fit = first + len(rest) - len(fit), fit[::-1]
        return t.Outcome_Records(t.LogRecords(self.extent(name), [t.RecordRun(first, fit)]))

    def do_replace_oldest(self, step, _, __):
        name, (first, records) = step["log"], self.log(step["log"])
        count = min(step["count"], len(records), MAX_REPLACED)
        if count:
            self.logs[name] = (first + count - len(step["records"]), step["records"] + records[count:])
        return t.Outcome_Extent(self.extent(name))

    def do_describe(self, step, now, _):
        parts = [t.BucketPart("log", name, *[self.log(name)[0], len(self.log(name)[1])], 0) for name in sorted(self.logs)]
        parts += [t.BucketPart("map", name, 0, len(self.maps[name]), 0) for name in sorted(self.maps) if name != "values"]
        ttl = self.time_to_live and t.TimeToLive(self.time_to_live["milliseconds"], self.time_to_live["sliding"])
        left = self.expires_at and self.expires_at - now
        values = len(self.map("values"))
        return t.Outcome_Described(t.Description(ttl, self.created_at, left, values, parts if step["parts"] else []))


def keys_set(operations):
    """Pairs of map and key to which the operations give a text."""
    keys = []
    for tag, step in operations:
        if tag == "add":
            keys.append((step["map-name"], step["key"]))
        keys += ((step["map-name"], entry["key"]) for entry in step.get("put", []))
        keys += ((mark["map-name"], mark["key"]) for mark in step.get("marks", []))
    return keys
