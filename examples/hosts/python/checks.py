"""What can be refused before the store is looked at: names, limits, and two writes to one place.

The rules are those of wit/deps/store/core.wit, section by section. The component is not trusted with them.
"""

import re
import traceback

# What a store without lower limits takes, and what no store may go below.
LIMITS = {
    "text-bytes": 8 << 20, "record-bytes": 2 << 20, "call-bytes": 16 << 20, "call-pieces": 20_000,
    "reply-bytes": 16 << 20, "reply-pieces": 20_000, "reply-pieces-each": 10_000, "reads": 16, "values": 20_000,
    "parts": 64, "transactions": 128,
}
FLOORS = {
    "text-bytes": 16 << 10, "record-bytes": 16 << 10, "call-bytes": 256 << 10, "call-pieces": 1000,
    "reply-bytes": 256 << 10, "reply-pieces": 1000, "reply-pieces-each": 1000, "reads": 16, "values": 1000,
    "parts": 32, "transactions": 16,
}
# What each piece counts beside its bytes, and what a description of all parts counts.
PIECE_BYTES = 96
DESCRIBED_PIECES = 64
MAX_TIME_TO_LIVE = 3_162_240_000_000

# `fullmatch` throughout: `$` would accept a line feed at the end.
BUCKET = re.compile(r"[A-Za-z0-9_-]{1,128}")
PART = re.compile(r"[a-z][a-z0-9-]{0,31}")
VALUE = re.compile(r"(?!__.*__$|__$|___$)[A-Za-z0-9_.-]{1,256}")
TOKEN = re.compile(r"[!-~]{1,256}")


class Failure(Exception):
    """A call that fails with a `problem` of the contract. Raised inside the store, and answered as a value where it
    leaves (filter.py)."""

    def __init__(self, code, subject, message, limit=0):
        super().__init__(message)
        self.problem = {"code": code, "subject": subject, "limit": limit, "message": message}


def as_problem(error):
    """What an import answers in place of raising. An error that is no `Failure` is a mistake in the store: the filter
    is told that it failed, and nothing that could contain a stored text."""
    if isinstance(error, Failure):
        return error.problem
    traceback.print_tb(error.__traceback__)
    return {"code": "other", "subject": "", "limit": 0, "message": "the store made a mistake"}


def too_large(name, limits):
    return Failure("too-large", name, f"over the limit {name}", limits[name])


def check_name(what, rule, name):
    if not rule.fullmatch(name):
        raise Failure("invalid", what, f"the {what} name {ascii(name[:64])} is not allowed")


def check_part(what, name):
    check_name(what, PART, name)


def check_key(map_name, key):
    check_name("key", VALUE if map_name == "values" else TOKEN, key)


def check_bucket(bucket, generation=None):
    check_part("kind", bucket["kind"])
    check_name("bucket", BUCKET, bucket["name"])
    if generation is not None:
        check_name("generation", TOKEN, generation)


def twice(what, name):
    return Failure("invalid", name, f"the {what} {name} would be written twice")


class Size:
    """The size of a call, counted before anything is done for each piece. `requests`: pairs of lease and transaction."""

    def __init__(self, requests, limits):
        self.pieces = self.bytes = self.reads = 0
        self.limits = limits
        for lease, transaction in requests:
            if lease is not None:
                self.piece(lease["name"], lease["holder"])
            for _, expected in transaction["expectations"]:
                self.piece(*(expected.get(name, "") for name in ("map-name", "log", "key")))
                self.text(expected.get("text", ""))
            for tag, operation in transaction["operations"]:
                self.operation(tag, operation)
        size = {"call-pieces": self.pieces, "reads": self.reads, "call-bytes": self.bytes + PIECE_BYTES * self.pieces}
        for name, found in size.items():
            if found > limits[name]:
                raise too_large(name, limits)

    def operation(self, tag, operation):
        self.piece(*(operation.get(name) or "" for name in ("map-name", "log", "cursor")))
        self.reads += tag in ("get-all", "read", "read-at")
        if tag == "describe" and operation["parts"]:
            self.pieces += DESCRIBED_PIECES - 1
        self.pieces += len(operation.get("spans", []))
        if tag == "add":
            self.bytes += len(operation["key"])
        for key in operation.get("keys", []) + operation.get("remove", []):
            self.piece(key)
        for entry in operation.get("put", []):
            self.piece(entry["key"])
            self.text(entry["text"])
        for record in operation.get("records", []):
            text = record if isinstance(record, str) else record["text"]
            if len(text.encode()) > self.limits["record-bytes"]:
                raise too_large("record-bytes", self.limits)
            self.piece(text)
        for mark in operation.get("marks", []):
            self.piece(mark["map-name"], mark["key"])

    def piece(self, *names):
        self.pieces += 1
        self.bytes += sum(len(name.encode()) for name in names)

    def text(self, text):
        length = len(text.encode())
        if length > self.limits["text-bytes"]:
            raise too_large("text-bytes", self.limits)
        self.bytes += length


class Tally:
    """Where a transaction writes."""

    def __init__(self):
        self.keys, self.maps, self.resets, self.logs = set(), set(), set(), set()

    def key(self, map_name, key):
        check_key(map_name, key)
        if map_name in self.resets or (map_name, key) in self.keys:
            raise twice("key", key)
        self.maps.add(map_name)
        self.keys.add((map_name, key))

    def set(self, operation):
        name = operation["map-name"]
        check_part("map", name)
        if operation["reset"] and name in self.resets | self.maps:
            raise twice("map", name)
        for key in operation["remove"] + [entry["key"] for entry in operation["put"]]:
            self.key(name, key)
        if operation["reset"]:
            self.resets.add(name)

    def log(self, name):
        check_part("log", name)
        if name in self.logs:
            raise twice("log", name)
        self.logs.add(name)

    def append(self, operation):
        self.log(operation["log"])
        for mark in operation["marks"]:
            check_part("map", mark["map-name"])
            if mark["map-name"] == "values":
                raise Failure("invalid", "marks", "values hold no positions")
            if mark["record-index"] >= len(operation["records"]):
                raise Failure("invalid", "marks", f"there is no record {mark['record-index']}")
            self.key(mark["map-name"], mark["key"])


def check_operation(tag, operation, tally):
    match tag:
        case "get":
            check_part("map", operation["map-name"])
            seen = set()
            for key in operation["keys"]:
                check_key(operation["map-name"], key)
                if key in seen:
                    raise Failure("invalid", key, f"the key {key} is asked for twice")
                seen.add(key)
        case "get-all":
            check_part("map", operation["map-name"])
            if len((operation["cursor"] or "").encode()) > 512:
                raise Failure("invalid", "cursor", "no store gave this cursor")
        case "set":
            tally.set(operation)
        case "add":
            check_part("map", operation["map-name"])
            tally.key(operation["map-name"], operation["key"])
        case "append":
            tally.append(operation)
        case "read" | "read-at":
            check_part("log", operation["log"])
        case "replace-oldest":
            tally.log(operation["log"])
            if len(operation["records"]) > operation["count"]:
                raise Failure("invalid", "records", "there are more records than they replace")
        case "rewrite":
            tally.log(operation["log"])
            positions = set()
            for record in operation["records"]:
                if record["position"] in positions:
                    raise twice("position", str(record["position"]))
                positions.add(record["position"])


def check_lease(lease):
    check_part("lease", lease["name"])
    check_name("holder", TOKEN, lease["holder"])
    if lease["milliseconds"] > MAX_TIME_TO_LIVE:
        raise Failure("invalid", "milliseconds", "a lease does not last that long")


def check_transaction(lease, transaction, limits):
    _, precondition = transaction["precondition"]
    check_bucket(transaction["bucket"], precondition.get("generation"))
    time_to_live = precondition.get("time-to-live")
    if time_to_live is not None and not 1 <= time_to_live["milliseconds"] <= MAX_TIME_TO_LIVE:
        raise Failure("invalid", "time-to-live", f"a time to live is 1 to {MAX_TIME_TO_LIVE} milliseconds")
    Size([(lease, transaction)], limits)
    if lease is not None:
        check_lease(lease)
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
    for tag, operation in transaction["operations"]:
        check_operation(tag, operation, tally)


def check_each(buckets, limits):
    """Refuses a call as a whole that is about too many buckets, or about one of them twice."""
    if len(buckets) > limits["transactions"]:
        raise too_large("transactions", limits)
    seen = set()
    for bucket in buckets:
        if (bucket["kind"], bucket["name"]) in seen:
            raise Failure("invalid", bucket["name"], f"the bucket {bucket['name']} is named twice in a call")
        seen.add((bucket["kind"], bucket["name"]))
