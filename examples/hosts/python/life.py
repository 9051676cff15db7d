"""One life of a bucket in SQLite: its row, what hangs on it, and what each operation does to it.

Nothing here begins or ends a transaction: whatever raises, store.py rolls back.
"""

import re

from checks import PIECE_BYTES, Failure

# Records that are replaced at a time.
MAX_REPLACED = 10_000
PAGE = 100
COUNTER = re.compile(r"0|-?[1-9][0-9]{0,18}")
TOP = 2**63 - 1

# Texts are kept as their bytes, because then SQLite tells their length without reading them.
SCHEMA = """
create table if not exists clock (one integer primary key, now integer not null);
create table if not exists bucket (
    id integer primary key autoincrement, kind text not null, name text not null, generation text not null,
    milliseconds integer, sliding integer not null, expires_at integer, created_at integer not null default 0,
    unique (kind, name));
create index if not exists expiry on bucket (expires_at) where expires_at is not null;
create table if not exists entry (
    bucket integer references bucket on delete cascade, map text, key text, text blob not null,
    primary key (bucket, map, key)) without rowid;
create table if not exists log (
    bucket integer references bucket on delete cascade, name text, first integer not null, next integer not null,
    primary key (bucket, name)) without rowid;
create table if not exists record (
    bucket integer references bucket on delete cascade, log text, position integer, text blob not null,
    primary key (bucket, log, position)) without rowid;
create table if not exists lease (
    bucket integer references bucket on delete cascade, name text, holder text not null, until integer not null,
    primary key (bucket, name)) without rowid;
"""

# What adds the columns that files of earlier versions lack.
MIGRATION = {
    "generation": "alter table bucket rename column incarnation to generation",
    "created_at": "alter table bucket add column created_at integer not null default 0",
}


class Room:
    """What all outcomes of a transaction may hold, together."""

    def __init__(self, limits):
        self.pieces, self.bytes, self.each = limits["reply-pieces"], limits["reply-bytes"], limits["reply-pieces-each"]

    def limited(self, tag, operation):
        """The operation, asking for no more than there is room for."""
        most = min(self.each, self.pieces)
        limits = {"max-pieces": most}
        if "max-bytes" in operation:
            limits["max-bytes"] = min(operation["max-bytes"], self.bytes)
        if "max-entries" in operation:
            limits["max-entries"] = min(operation["max-entries"], most)
            if operation["cursor"] is not None:  # A page is a step forward, room or not.
                limits["max-entries"] = min(operation["max-entries"] or PAGE, most) or 1
        if "max-records" in operation:
            limits["max-records"] = min(operation["max-records"], most) if self.bytes > 0 else 0
        if tag == "read-at" and self.bytes == 0:
            limits["max-pieces"] = 0
        return operation | limits

    def take(self, tag, outcome):
        """Makes room for what an operation returned."""
        _, answer = outcome
        texts = [record for run in answer.get("runs", []) for record in run["records"]]
        for entry in answer.get("entries", []):
            texts.append(entry["text"] if tag == "get" else entry["key"] + entry["text"])
        count = len(texts) + len((answer.get("missing") or {}).get("unreadable", []))
        self.pieces = max(0, self.pieces - count)
        self.bytes = max(0, self.bytes - count * PIECE_BYTES - sum(len(text.encode()) for text in texts))


def fitting(texts, max_bytes, at_least=1):
    """The longest beginning of `texts` that is no longer than `max_bytes`, but at least one."""
    total, fit = 0, []
    for text in texts:
        total += len(text)
        if total > max_bytes and len(fit) >= at_least:
            break
        fit.append(text)
    return fit


class Life:
    """One life of a bucket: its row and what hangs on it."""

    def __init__(self, db, row):
        self.db = db
        self.id, self.generation, self.milliseconds, self.sliding, self.expires_at, self.created_at = row

    def one(self, sql, *values):
        return self.db.execute(sql, (self.id, *values)).fetchone()

    def all(self, sql, *values):
        return self.db.execute(sql, (self.id, *values)).fetchall()

    def text(self, map_name, key):
        found = self.one("select text from entry where bucket = ? and map = ? and key = ?", map_name, key)
        return found and found[0]

    def entries(self, map_name):
        return self.one("select count(*) from entry where bucket = ? and map = ?", map_name)[0]

    def set(self, map_name, key, text):
        self.db.execute("replace into entry values (?, ?, ?, ?)", (self.id, map_name, key, text.encode()))

    def bounds(self, log):
        return self.one("select first, next from log where bucket = ? and name = ?", log) or (0, 0)

    def extent(self, log):
        first, end = self.bounds(log)
        return {"first": first, "length": end - first}

    def move(self, log, first, end):
        """Note where a log stands, and forget the records that lie before."""
        self.db.execute("replace into log values (?, ?, ?, ?)", (self.id, log, first, end))
        self.db.execute("delete from record where bucket = ? and log = ? and position < ?", (self.id, log, first))

    def write(self, log, position, texts):
        rows = ((self.id, log, place, text.encode()) for place, text in enumerate(texts, position))
        self.db.executemany("replace into record values (?, ?, ?, ?)", rows)

    def texts(self, log, start, end, newest_first=False):
        order = "desc" if newest_first else "asc"
        span = "bucket = ? and log = ? and position >= ? and position < ?"
        sql = f"select text from record where {span} order by position {order}"
        return (text for (text,) in self.db.execute(sql, (self.id, log, start, end)))

    def holds(self, tag, expected, operations):
        if tag == "entry":
            found, state = self.text(expected["map-name"], expected["key"]), expected["state"]
            if found is None:
                return state in ("absent", "absent-or-equal")
            return state == "present" or (state != "absent" and found == expected["text"].encode())
        if tag == "log":
            first, end = self.bounds(expected["log"])
            return expected["first"] in (None, first) and expected["next"] in (None, end)
        name = expected["map-name"]
        created = sum(self.text(name, key) is None for key in keys_set(operations, name))
        return created == 0 or self.entries(name) + created <= expected["limit"]

    def parts(self, now):
        """What there is at most so many of: maps beside the values, logs, and leases that have not run out."""
        sql = ("select distinct 'map', map from entry where bucket = ?1 and map <> 'values'"
               " union select 'log', name from log where bucket = ?1"
               " union select 'lease', name from lease where bucket = ?1 and until > ?2")
        return set(self.all(sql, now))

    def apply(self, tag, operation, now, room):
        outcome = getattr(self, "do_" + tag.replace("-", "_"))(room.limited(tag, operation), now)
        if "max-bytes" in operation:
            room.take(tag, outcome)
        return outcome

    def do_get(self, step, _):
        found = [(key, self.text(step["map-name"], key)) for key in step["keys"]]
        found = [(key, text) for key, text in found if text is not None]
        size = sum(len(text) for _, text in found)
        if size > step["max-bytes"] or len(found) > step["max-pieces"]:
            return oversize(size, len(found))
        return entries(found)

    def do_get_all(self, step, _):
        text = "x''" if step["keys-only"] else "text"
        if step["cursor"] is not None:
            return self.page(step, text)
        count = self.entries(step["map-name"])
        if count > step["max-entries"]:
            return oversize(0, count)
        sql = f"select coalesce(sum(length(key) + length({text})), 0) from entry where bucket = ? and map = ?"
        size = self.one(sql, step["map-name"])[0]
        if size > step["max-bytes"]:
            return oversize(size, count)
        sql = f"select key, {text} from entry where bucket = ? and map = ? order by key"
        return entries(self.all(sql, step["map-name"]))

    def page(self, step, text):
        limit = step["max-entries"]
        sql = f"select key, {text} from entry where bucket = ? and map = ? and key > ? order by key limit ?"
        rows = self.all(sql, step["map-name"], step["cursor"], limit + 1)
        size, found, unreadable = 0, [], []
        for key, text in rows[:limit]:
            if size + len(key) + len(text) > step["max-bytes"]:
                unreadable.append(key)
            else:
                size += len(key) + len(text)
                found.append((key, text))
        return entries(found, unreadable, rows[limit - 1][0] if len(rows) > limit else "")

    def do_set(self, step, _):
        name, before = step["map-name"], self.entries(step["map-name"])
        added = sum(self.text(name, entry["key"]) is None for entry in step["put"])
        if step["reset"]:
            self.db.execute("delete from entry where bucket = ? and map = ?", (self.id, name))
        sql = "delete from entry where bucket = ? and map = ? and key = ?"
        self.db.executemany(sql, [(self.id, name, key) for key in step["remove"]])
        for entry in step["put"]:
            self.set(name, entry["key"], entry["text"])
        return "changed", {"added": added, "removed": before + added - self.entries(name)}

    def do_add(self, step, _):
        key = step["key"]
        found = self.text(step["map-name"], key)
        before = "0" if found is None else found.decode()
        if not COUNTER.fullmatch(before) or not -TOP - 1 <= int(before) <= TOP:
            raise Failure("not-a-counter", key, f"{key} is no counter")
        value = int(before) + step["amount"]
        if not -TOP - 1 <= value <= TOP:
            raise Failure("counter-overflow", key, f"{key} would leave its range")
        self.set(step["map-name"], key, str(value))
        return "counter", {"value": value}

    def do_append(self, step, _):
        log, texts = step["log"], step["records"]
        first, end = self.bounds(log)
        start = end if step["reset"] else first
        if texts or start != first:
            self.move(log, start, end + len(texts))
            self.write(log, end, texts)
        for mark in step["marks"]:
            self.set(mark["map-name"], mark["key"], str(end + mark["record-index"]))
        return "extent", self.extent(log)

    def do_read(self, step, _):
        log = step["log"]
        first, end = self.bounds(log)
        stop = max(first, end - step["leave"])
        count = min(step["max-records"], stop - first)
        if end - first <= step["only-over"] or count == 0:
            return "extent", self.extent(log)
        if step["newest"]:
            fit = fitting(self.texts(log, stop - count, stop, newest_first=True), step["max-bytes"])[::-1]
            return self.records(log, [(stop - len(fit), fit)])
        return self.records(log, [(first, fitting(self.texts(log, first, first + count), step["max-bytes"]))])

    def do_read_at(self, step, _):
        log = step["log"]
        first, end = self.bounds(log)
        runs, size, count = [], 0, 0
        for span in step["spans"]:
            # A run may begin before the log does, and end after it.
            start = max(span["position"], first)
            stop = min(span["position"] + span["count"], end, start + step["max-pieces"] - count)
            if start >= stop:
                continue
            fit = fitting(self.texts(log, start, stop), step["max-bytes"] - size, at_least=0 if runs else 1)
            if fit:
                runs.append((start, fit))
            size, count = size + sum(map(len, fit)), count + len(fit)
            if len(fit) < stop - start:
                break
        return self.records(log, runs)

    def records(self, log, runs):
        runs = [{"first": first, "records": [text.decode() for text in texts]} for first, texts in runs]
        return "records", {"extent": self.extent(log), "runs": runs}

    def do_replace_oldest(self, step, _):
        log, texts = step["log"], step["records"]
        first, end = self.bounds(log)
        count = min(step["count"], end - first, MAX_REPLACED)
        if len(texts) > count:
            raise Failure("invalid", log, f"there are only {count} records to replace")
        if count > 0:
            self.move(log, first + count - len(texts), end)
            self.write(log, first + count - len(texts), texts)
        return "extent", self.extent(log)

    def do_rewrite(self, step, _):
        first, end = self.bounds(step["log"])
        for record in step["records"]:
            if not first <= record["position"] < end:
                raise Failure("invalid", step["log"], f"there is no record at {record['position']}")
            self.write(step["log"], record["position"], [record["text"]])
        return "extent", self.extent(step["log"])

    def do_describe(self, step, now):
        parts = []
        if step["parts"]:
            for (name,) in self.all("select name from log where bucket = ? order by name"):
                first, end = self.bounds(name)
                parts.append({"kind": "log", "name": name, "position": first, "count": end - first, "bytes": 0})
            sql = "select map, count(*) from entry where bucket = ? and map <> 'values' group by map order by map"
            parts += ({"kind": "map", "name": name, "position": 0, "count": count, "bytes": 0} for name, count in self.all(sql))
        ttl = self.milliseconds and {"milliseconds": self.milliseconds, "sliding": bool(self.sliding)}
        expires_in = self.expires_at and self.expires_at - now
        return "described", {"time-to-live": ttl, "created-at": self.created_at, "expires-in": expires_in,
                             "values": self.entries("values"), "parts": parts}

    def lease(self, request, now):
        """Takes, renews or gives back a lease, and returns its state."""
        name, mine, until = request["name"], request["holder"], now + request["milliseconds"]
        # Those that have run out, and one's own.
        sql = "delete from lease where bucket = ? and (until <= ? or (name = ? and holder = ?))"
        self.db.execute(sql, (self.id, now, name, mine))
        holder, ends = self.one("select holder, until from lease where bucket = ? and name = ?", name) or ("", now)
        if holder == "" and request["milliseconds"] > 0:
            self.db.execute("insert into lease values (?, ?, ?, ?)", (self.id, name, mine, until))
            holder, ends = mine, until
        return {"held": holder == mine, "holder": holder, "expires-in": ends - now}


def entries(found, unreadable=(), cursor="", size=None):
    missing = {"unreadable": list(unreadable), "cursor": cursor, "oversize": size}
    texts = [{"key": key, "text": text.decode()} for key, text in found]
    return "entries", {"entries": texts, "missing": missing if unreadable or cursor or size else None}


def oversize(total, count):
    return entries([], size={"bytes": total, "entries": count})


def keys_set(operations, map_name):
    """The keys of a map to which the operations give a text."""
    for tag, step in operations:
        if tag in ("add", "set") and step["map-name"] == map_name:
            yield from [step["key"]] if tag == "add" else (entry["key"] for entry in step["put"])
        yield from (mark["key"] for mark in step.get("marks", []) if mark["map-name"] == map_name)
