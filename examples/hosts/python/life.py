"""One life of a bucket in SQLite: its row, what hangs on it, and what each operation does to it.

Nothing here begins or ends a transaction: whatever raises, store.py rolls back.
"""

import re

from checks import MAX_BYTES, MAX_PIECES, PIECE_BYTES, Failure

MAX_RECORDS = 10_000
MAX_VALUES = 20_000
COUNTER = re.compile(r"0|-?[1-9][0-9]{0,18}")
TOP = 2**63 - 1

# Texts are kept as their bytes, because then SQLite tells their length without reading them.
SCHEMA = """
create table if not exists clock (one integer primary key, now integer not null);
create table if not exists bucket (
    id integer primary key autoincrement, kind text not null, name text not null, generation text not null,
    milliseconds integer, sliding integer not null, expires_at integer, unique (kind, name));
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


class Room:
    """What all answers of a transaction may have, together."""

    def __init__(self):
        self.pieces, self.bytes = MAX_PIECES, MAX_BYTES

    def limited(self, tag, step):
        """The operation, asking for no more than there is room for."""
        most = min(MAX_RECORDS, self.pieces)
        limits = {"max-pieces": most}
        if "max-bytes" in step:
            limits["max-bytes"] = min(step["max-bytes"], self.bytes)
        if "max-entries" in step:
            limits["max-entries"] = min(step["max-entries"], most)
        if tag == "page":  # A page is a step forward, room or not.
            limits["max-entries"] = min(step["max-entries"] or 100, most) or 1
        if "max-records" in step:
            limits["max-records"] = min(step["max-records"], most) if self.bytes > 0 else 0
        if tag == "read-at" and self.bytes == 0:
            limits["max-pieces"] = 0
        return step | limits

    def take(self, asked, outcome):
        """What an operation is answered with takes its room."""
        tag, answer = outcome
        if tag == "oversize":
            return
        records = list(answer.get("records", []))
        for span in answer.get("spans", []):
            records += span["records"]
        for entry in answer.get("entries", []):
            records.append(entry["text"] if asked == "get" else entry["key"] + entry["text"])
        count = len(records) + len(answer.get("unreadable", []))
        self.pieces = max(0, self.pieces - count)
        self.bytes = max(0, self.bytes - count * PIECE_BYTES - sum(len(text.encode()) for text in records))


def fitting(texts, max_bytes, at_least=1):
    """The longest beginning of `texts` that is no longer than `max_bytes`, but at least one."""
    total, fit = 0, []
    for text in texts:
        total += len(text)
        if total > max_bytes and len(fit) >= at_least:
            break
        fit.append(text)
    return fit


def decoded(texts):
    return [text.decode() for text in texts]


class Life:
    """One life of a bucket: its row and what hangs on it."""

    def __init__(self, db, row):
        self.db = db
        self.id, self.generation, self.milliseconds, self.sliding, self.expires_at = row

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

    def append(self, step, first, end):
        texts = step["records"]
        if texts or first != self.bounds(step["log"])[0]:
            self.move(step["log"], first, end + len(texts))
            self.write(step["log"], end, texts)
        for mark in step["marks"]:
            self.set(mark["map-name"], mark["key"], str(end + mark["record-index"]))
        return "extent", self.extent(step["log"])

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

    def apply(self, tag, step, now, room):
        outcome = getattr(self, "do_" + tag.replace("-", "_"))(room.limited(tag, step), now)
        if "max-bytes" in step:
            room.take(tag, outcome)
        return outcome

    def do_get(self, step, _):
        found = [(key, self.text(step["map-name"], key)) for key in step["keys"]]
        found = [(key, text) for key, text in found if text is not None]
        size = sum(len(text) for _, text in found)
        if size > step["max-bytes"] or len(found) > step["max-pieces"]:
            return "oversize", {"bytes": size, "entries": len(found)}
        return "entries", {"entries": [{"key": k, "text": t.decode()} for k, t in found], "unreadable": []}

    def do_get_all(self, step, _):
        count = self.entries(step["map-name"])
        if count > step["max-entries"]:
            return "oversize", {"bytes": 0, "entries": count}
        sql = "select coalesce(sum(length(key) + length(text)), 0) from entry where bucket = ? and map = ?"
        size = self.one(sql, step["map-name"])[0]
        if size > step["max-bytes"]:
            return "oversize", {"bytes": size, "entries": count}
        rows = self.all("select key, text from entry where bucket = ? and map = ? order by key", step["map-name"])
        return "entries", {"entries": [{"key": k, "text": t.decode()} for k, t in rows], "unreadable": []}

    def do_page(self, step, _):
        limit = step["max-entries"]
        text = "x''" if step["keys-only"] else "text"
        sql = f"select key, {text} from entry where bucket = ? and map = ? and key > ? order by key limit ?"
        rows = self.all(sql, step["map-name"], step["cursor"], limit + 1)
        size, entries, unreadable = 0, [], []
        for key, text in rows[:limit]:
            if size + len(key) + len(text) > step["max-bytes"]:
                unreadable.append(key)
            else:
                size += len(key) + len(text)
                entries.append({"key": key, "text": text.decode()})
        cursor = rows[limit - 1][0] if len(rows) > limit else ""
        return "page", {"entries": entries, "unreadable": unreadable, "cursor": cursor}

    def do_put(self, step, _):
        new = sum(self.text(step["map-name"], entry["key"]) is None for entry in step["entries"])
        for entry in step["entries"]:
            self.set(step["map-name"], entry["key"], entry["text"])
        return "changed", {"count": new}

    def do_increment(self, step, _):
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

    def do_remove(self, step, _):
        sql = "delete from entry where bucket = ? and map = ? and key = ?"
        removed = sum(self.db.execute(sql, (self.id, step["map-name"], key)).rowcount for key in step["keys"])
        return "changed", {"count": removed}

    def do_reset_map(self, step, now):
        sql = "delete from entry where bucket = ? and map = ?"
        removed = self.db.execute(sql, (self.id, step["map-name"])).rowcount
        self.do_put(step, now)
        return "changed", {"count": removed}

    def do_append(self, step, _):
        return self.append(step, *self.bounds(step["log"]))

    def do_reset_log(self, step, _):
        end = self.bounds(step["log"])[1]
        return self.append(step, end, end)

    def records(self, log, start, texts):
        return "records", {"extent": self.extent(log), "first": start, "records": decoded(texts)}

    def do_read(self, step, _):
        first, end = self.bounds(step["log"])
        count = step["max-records"]
        if step["end"] == "newest":
            texts = self.texts(step["log"], max(first, end - count), end, newest_first=True)
            fit = fitting(texts, step["max-bytes"])[::-1]
            return self.records(step["log"], end - len(fit), fit)
        fit = fitting(self.texts(step["log"], first, first + count), step["max-bytes"])
        return self.records(step["log"], first if fit else end, fit)

    def do_overflow(self, step, _):
        first, end = self.bounds(step["log"])
        count = min(end - first - step["keep"], step["max-records"])
        if end - first <= step["limit"] or count <= 0:
            return "extent", self.extent(step["log"])
        fit = fitting(self.texts(step["log"], first, first + count), step["max-bytes"])
        return self.records(step["log"], first, fit)

    def do_read_at(self, step, _):
        first, end = self.bounds(step["log"])
        spans, size, count = [], 0, 0
        for span in step["spans"]:
            # A run may begin before the log does, and end after it.
            start = max(span["position"], first)
            stop = min(span["position"] + span["count"], end, start + step["max-pieces"] - count)
            if start >= stop:
                continue
            texts = self.texts(step["log"], start, stop)
            fit = fitting(texts, step["max-bytes"] - size, at_least=0 if spans else 1)
            if fit:
                spans.append({"first": start, "records": decoded(fit)})
            size, count = size + sum(map(len, fit)), count + len(fit)
            if len(fit) < stop - start:
                break
        return "spans", {"extent": self.extent(step["log"]), "spans": spans}

    def do_replace_oldest(self, step, _):
        log, texts = step["log"], step["records"]
        first, end = self.bounds(log)
        count = min(step["count"], end - first, MAX_RECORDS)
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

    def do_lease(self, step, now):
        name, mine, until = step["lease"], step["holder"], now + step["milliseconds"]
        # Those that have run out, and one's own.
        sql = "delete from lease where bucket = ? and (until <= ? or (name = ? and holder = ?))"
        self.db.execute(sql, (self.id, now, name, mine))
        held = self.one("select holder, until from lease where bucket = ? and name = ?", name)
        holder, ends = held or ("", now)
        if held is None and step["milliseconds"] > 0:
            self.db.execute("insert into lease values (?, ?, ?, ?)", (self.id, name, mine, until))
            holder, ends = mine, until
        return "lease", {"held": holder == mine, "holder": holder, "expires-in": ends - now}

    def do_describe(self, step, now):
        maps = logs = []
        if step["parts"]:
            sql = "select map, count(*) from entry where bucket = ? and map <> 'values' group by map order by map"
            maps = [{"map-name": name, "entries": count} for name, count in self.all(sql)]
            names = self.all("select name from log where bucket = ? order by name")
            logs = [{"log": name, "extent": self.extent(name)} for (name,) in names]
        ttl = self.milliseconds and {"milliseconds": self.milliseconds, "sliding": bool(self.sliding)}
        expires_in = self.expires_at and self.expires_at - now
        described = {"time-to-live": ttl, "expires-in": expires_in, "values": self.entries("values")}
        return "described", described | {"maps": maps, "logs": logs, "indexes": []}


def keys_set(operations, map_name):
    """The keys of a map that the operations set."""
    for tag, step in operations:
        sets = [step] if tag == "increment" else step.get("marks", [])
        if tag in ("put", "reset-map"):
            sets = [{"map-name": step["map-name"]} | entry for entry in step["entries"]]
        yield from (one["key"] for one in sets if one["map-name"] == map_name)
