"""What can be refused before the store is looked at: names, limits, and two writes to one place.

The rules are those of wit/key-value.wit, section by section. The component is not trusted with them.
"""

import re
import traceback

MAX_PIECES = 20_000
MAX_TEXT_BYTES = 16 << 20
MAX_BYTES = 32 << 20
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


class Tally:
    """What one transaction asks for so far, and where it writes."""

    def __init__(self):
        self.pieces = self.bytes = 0
        self.keys, self.maps, self.resets, self.parts = set(), set(), set(), set()

    def piece(self):
        self.pieces += 1
        if self.pieces > MAX_PIECES:
            raise Failure("too-large", "pieces", "too many pieces in a transaction", MAX_PIECES)

    def count(self, text):
        self.bytes += len(text.encode())
        if self.bytes > MAX_BYTES:
            raise Failure("too-large", "bytes", "too many bytes in a transaction", MAX_BYTES)

    def text(self, text):
        if len(text.encode()) > MAX_TEXT_BYTES:
            raise Failure("too-large", "text", "a text is too long", MAX_TEXT_BYTES)
        self.count(text)

    def key(self, map_name, key):
        check_key(map_name, key)
        if map_name in self.resets or (map_name, key) in self.keys:
            raise twice("key", key)
        self.maps.add(map_name)
        self.keys.add((map_name, key))

    def named_keys(self, map_name, keys):
        check_part("map", map_name)
        for key in keys:
            self.piece()
            self.count(key)
            self.key(map_name, key)

    def entries(self, map_name, entries):
        check_part("map", map_name)
        for entry in entries:
            self.piece()
            self.count(entry["key"])
            self.text(entry["text"])
            self.key(map_name, entry["key"])

    def part(self, what, name):
        check_part(what, name)
        if (what, name) in self.parts:
            raise twice(what, name)
        self.parts.add((what, name))

    def records(self, step):
        self.part("log", step["log"])
        for record in step["records"]:
            self.piece()
            self.text(record)
        for mark in step.get("marks", []):
            self.piece()
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
                tally.piece()
                tally.count(key)
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
            tally.count(step["key"])
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
        case "read":
            check_part("log", step["log"])
        case "read-at":
            check_part("log", step["log"])
            for _ in step["spans"]:
                tally.piece()
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
                tally.piece()
                tally.text(record["text"])
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
    _, opening = transaction["opening"]
    if opening.get("incarnation") is not None:
        check_name("incarnation", TOKEN, opening["incarnation"])
    life = opening.get("time-to-live")
    if life is not None and not 1 <= life["milliseconds"] <= MAX_TIME_TO_LIVE:
        raise Failure("invalid", "time-to-live", f"a time to live is 1 to {MAX_TIME_TO_LIVE} milliseconds")
    tally = Tally()
    for tag, expected in transaction["expectations"]:
        tally.piece()
        check_part("log" if tag == "log" else "map", expected["log" if tag == "log" else "map-name"])
        if tag == "entry":
            check_key(expected["map-name"], expected["key"])
            tally.count(expected["key"])
            tally.text(expected["text"])
    for tag, step in transaction["operations"]:
        tally.piece()
        check_operation(tag, step, tally)


def check_each(transactions):
    """What makes all of `transact-each` fail."""
    if len(transactions) > MAX_TRANSACTIONS:
        raise Failure("too-large", "transactions", "too many transactions at a time", MAX_TRANSACTIONS)
    buckets = set()
    for transaction in transactions:
        bucket = (transaction["bucket"]["kind"], transaction["bucket"]["name"])
        if bucket in buckets:
            raise Failure("invalid", bucket[1], "two transactions are about the same bucket")
        buckets.add(bucket)
