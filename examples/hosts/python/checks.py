"""What can be refused before the store is looked at: names, limits, and two writes to one place.

The rules are those of wit/key-value.wit, section by section. The component is not trusted with them.
"""

import re
import traceback

# Of a call, and of the answers to a transaction.
MAX_PIECES = 20_000
MAX_BYTES = 16 << 20
# What each piece counts beside its bytes.
PIECE_BYTES = 96
MAX_TEXT_BYTES = 8 << 20
MAX_RECORD_BYTES = 2 << 20
MAX_RANGES = 16
MAX_PARTS = 64
MAX_TRANSACTIONS = 128
MAX_TIME_TO_LIVE = 3_162_240_000_000

# `fullmatch` throughout: `$` would accept a line feed at the end.
BUCKET = re.compile(r"[A-Za-z0-9_-]{1,128}")
PART = re.compile(r"[a-z][a-z0-9-]{0,31}")
VALUE = re.compile(r"(?!__.*__$|__$|___$)[A-Za-z0-9_.-]{1,256}")
TOKEN = re.compile(r"[!-~]{1,256}")


class Failure(Exception):
    """A `failure` of the contract. Raised inside the store, and answered as a value where it leaves (host.py)."""

    def __init__(self, code, subject, message, limit=0):
        super().__init__(message)
        self.record = {"code": code, "subject": subject, "limit": limit, "message": message}


def as_failure(error):
    """What an import answers in place of raising. An error that is no `Failure` is a mistake in the store: the filter
    is told that it failed, and nothing that could contain a stored text."""
    if isinstance(error, Failure):
        return error.record
    traceback.print_tb(error.__traceback__)
    return {"code": "other", "subject": "", "limit": 0, "message": "the store made a mistake"}


def check_name(what, rule, name):
    if not rule.fullmatch(name):
        raise Failure("invalid", what, f"the {what} name {ascii(name[:64])} is not allowed")


def check_part(what, name):
    check_name(what, PART, name)


def check_key(map_name, key):
    check_name("key", VALUE if map_name == "values" else TOKEN, key)


def twice(what, name):
    return Failure("invalid", name, f"the {what} {name} would be written twice")


class Size:
    """What a call comes to: counted before anything is done for each piece."""

    def __init__(self, transactions):
        self.pieces = self.bytes = self.ranges = 0
        for transaction in transactions:
            for _, expected in transaction["expectations"]:
                self.piece(expected)
                self.text(expected.get("text", ""))
            for tag, step in transaction["operations"]:
                self.operation(tag, step)
        for subject, size, limit in (
            ("pieces", self.pieces, MAX_PIECES), ("reads", self.ranges, MAX_RANGES), ("bytes", self.bytes, MAX_BYTES)
        ):
            if size > limit:
                raise Failure("too-large", subject, f"too many {subject} in a call", limit)

    def operation(self, tag, step):
        self.piece(step)
        self.ranges += tag in ("get-all", "page", "read", "read-at", "overflow")
        if tag == "describe" and step["parts"]:
            self.pieces += MAX_PARTS - 1
        self.pieces += len(step.get("spans", []))
        for key in step.get("keys", []):
            self.piece({"key": key})
        for entry in step.get("entries", []):
            self.piece(entry)
            self.text(entry["text"])
        for record in step.get("records", []):
            text = record if isinstance(record, str) else record["text"]
            if len(text.encode()) > MAX_RECORD_BYTES:
                raise Failure("too-large", "record", "a record is too long", MAX_RECORD_BYTES)
            self.piece({"key": text})
        for mark in step.get("marks", []):
            self.piece(mark)

    def piece(self, named):
        self.pieces += 1
        names = (named.get(name, "") for name in ("map-name", "log", "lease", "key", "holder", "cursor"))
        self.bytes += PIECE_BYTES + sum(len(name.encode()) for name in names)

    def text(self, text):
        if len(text.encode()) > MAX_TEXT_BYTES:
            raise Failure("too-large", "text", "a text is too long", MAX_TEXT_BYTES)
        self.bytes += len(text.encode())


class Tally:
    """Where a transaction writes."""

    def __init__(self):
        self.keys, self.maps, self.resets, self.parts = set(), set(), set(), set()

    def key(self, map_name, key):
        check_key(map_name, key)
        if map_name in self.resets or (map_name, key) in self.keys:
            raise twice("key", key)
        self.maps.add(map_name)
        self.keys.add((map_name, key))

    def named_keys(self, map_name, keys):
        check_part("map", map_name)
        for key in keys:
            self.key(map_name, key)

    def entries(self, map_name, entries):
        check_part("map", map_name)
        for entry in entries:
            self.key(map_name, entry["key"])

    def part(self, what, name):
        check_part(what, name)
        if (what, name) in self.parts:
            raise twice(what, name)
        self.parts.add((what, name))

    def records(self, step):
        self.part("log", step["log"])
        for mark in step.get("marks", []):
            check_part("map", mark["map-name"])
            if mark["map-name"] == "values":
                raise Failure("invalid", "marks", "values hold no positions")
            if mark["record-index"] >= len(step["records"]):
                raise Failure("invalid", "marks", f"there is no record {mark['record-index']}")
            self.key(mark["map-name"], mark["key"])


def check_operation(tag, step, tally):
    match tag:
        case "get":
            check_part("map", step["map-name"])
            seen = set()
            for key in step["keys"]:
                check_key(step["map-name"], key)
                if key in seen:
                    raise Failure("invalid", key, f"the key {key} is asked for twice")
                seen.add(key)
        case "get-all":
            check_part("map", step["map-name"])
        case "page":
            check_part("map", step["map-name"])
            if len(step["cursor"].encode()) > 512:
                raise Failure("invalid", "cursor", "no store gave this cursor")
        case "put":
            tally.entries(step["map-name"], step["entries"])
        case "increment":
            check_part("map", step["map-name"])
            tally.key(step["map-name"], step["key"])
        case "remove":
            tally.named_keys(step["map-name"], step["keys"])
        case "reset-map":
            name = step["map-name"]
            check_part("map", name)
            if name in tally.resets | tally.maps:
                raise twice("map", name)
            tally.entries(name, step["entries"])
            tally.resets.add(name)
        case "append" | "reset-log":
            tally.records(step)
        case "read" | "read-at":
            check_part("log", step["log"])
        case "overflow":
            check_part("log", step["log"])
            if step["keep"] > step["limit"]:
                raise Failure("invalid", "keep", f"keep ({step['keep']}) is more than limit ({step['limit']})")
        case "replace-oldest":
            tally.records(step)
            if len(step["records"]) > step["count"]:
                raise Failure("invalid", "records", "there are more records than they replace")
        case "rewrite":
            tally.part("log", step["log"])
            positions = set()
            for record in step["records"]:
                if record["position"] in positions:
                    raise twice("position", str(record["position"]))
                positions.add(record["position"])
        case "lease":
            tally.part("lease", step["lease"])
            check_name("holder", TOKEN, step["holder"])
            if step["milliseconds"] > MAX_TIME_TO_LIVE:
                raise Failure("invalid", "milliseconds", "a lease does not last that long")
        case "post" | "unpost" | "match":
            raise Failure("unsupported", "indexes", "this store has no indexes")


def check_transaction(transaction):
    check_name("bucket", BUCKET, transaction["bucket"]["name"])
    _, precondition = transaction["precondition"]
    if precondition.get("generation") is not None:
        check_name("generation", TOKEN, precondition["generation"])
    life = precondition.get("time-to-live")
    if life is not None and not 1 <= life["milliseconds"] <= MAX_TIME_TO_LIVE:
        raise Failure("invalid", "time-to-live", f"a time to live is 1 to {MAX_TIME_TO_LIVE} milliseconds")
    Size([transaction])
    rooms = set()
    for tag, expected in transaction["expectations"]:
        check_part("log" if tag == "log" else "map", expected["log" if tag == "log" else "map-name"])
        if tag == "entry":
            check_key(expected["map-name"], expected["key"])
        if tag == "room":
            if expected["map-name"] in rooms:
                raise Failure("invalid", expected["map-name"], "the room in a map is expected twice")
            rooms.add(expected["map-name"])
    tally = Tally()
    for tag, step in transaction["operations"]:
        check_operation(tag, step, tally)


def check_each(transactions):
    """What makes all of `transact-each` fail."""
    if len(transactions) > MAX_TRANSACTIONS:
        raise Failure("too-large", "transactions", "too many transactions at a time", MAX_TRANSACTIONS)
    Size(transactions)
    buckets = set()
    for transaction in transactions:
        bucket = (transaction["bucket"]["kind"], transaction["bucket"]["name"])
        if bucket in buckets:
            raise Failure("invalid", bucket[1], "two transactions are about the same bucket")
        buckets.add(bucket)
