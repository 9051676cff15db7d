"""The capability `key-value`, kept in an SQLite file: durable, and shared by all processes that open it.

Records of the contract are dicts here, with its names; variants are pairs of case and record. Indexes are left out.

Each transaction of the contract is one of SQLite, begun with the lock for writing: so nobody else comes in between,
and whatever raises rolls all of it back. A transaction that can't begin, because other processes keep the lock, has
done nothing and may be tried again; SQLite does that until the deadline. Once begun it is never sent a second time. So
no call can count twice, and no writer has to be remembered.
"""

import sqlite3
import sys
import time
import uuid

from checks import BUCKET, MAX_PARTS, TOKEN, Failure, as_failure, check_each, check_name, check_transaction
from life import MAX_RECORDS, MAX_VALUES, SCHEMA, Life, Room, keys_set



class SqliteStore:
    """`clock` returns milliseconds since 1970. Whoever calls sets `deadline`, by the monotonic clock, for all calls of
    an entry together; no call waits for longer than `timeout` seconds."""

    def __init__(self, path, timeout=1.0, clock=lambda: int(time.time() * 1000)):
        self.clock, self.timeout, self.deadline = clock, timeout, float("inf")
        self.db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        # An acknowledged write survives the machine, not only the process.
        self.db.executescript("pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on;")
        self.db.executescript(SCHEMA)

    def _atomic(self, work):
        """Runs `work(now)` as one transaction. It raises nothing but `Failure`, with no text of SQLite's or of ours."""
        wait = int(1000 * max(0, min(self.timeout, self.deadline - time.monotonic())))
        try:
            self.db.execute(f"pragma busy_timeout = {wait}")
            self.db.execute("begin immediate")
            try:
                # The machine's clock may be set back, also between two processes; the store's does not go back.
                last = self.db.execute("select now from clock").fetchone() or (0,)
                now = max(self.clock(), last[0])
                before = self.db.total_changes
                answer = work(now)
                if self.db.total_changes != before:
                    self.db.execute("replace into clock values (1, ?)", (now,))
                self.db.execute("commit")
                return answer
            finally:
                if self.db.in_transaction:
                    self.db.execute("rollback")
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_BUSY"):
                raise Failure("timed-out", "", "other processes keep the store busy", wait) from None
            print(f"keepline: SQLite failed: {name or type(error).__name__}", file=sys.stderr)
            codes = {"SQLITE_FULL": "full", "SQLITE_READONLY": "read-only"}
            raise Failure(codes.get(name, "unavailable"), "", "the store's file can't be used") from None

    def _find(self, bucket, now):
        """The bucket's life, or none and why."""
        sql = "select id, generation, milliseconds, sliding, expires_at from bucket where kind = ? and name = ?"
        row = self.db.execute(sql, (bucket["kind"], bucket["name"])).fetchone()
        if row is None:
            return None, "absent"
        life = Life(self.db, row)
        if life.expires_at is None or life.expires_at > now:
            return life, ""
        self._delete(life)
        return None, "expired"

    def _delete(self, life):
        self.db.execute("delete from bucket where id = ?", (life.id,))

    def _create(self, bucket, ttl, now):
        # Buckets that nobody asks for again: two for each that is created, so that they can't pile up.
        self.db.execute("delete from bucket where id in (select id from bucket where expires_at <= ? limit 2)", (now,))
        ttl = ttl or {"milliseconds": None, "sliding": False}
        expires_at = ttl["milliseconds"] and now + ttl["milliseconds"]
        row = (str(uuid.uuid4()), ttl["milliseconds"], ttl["sliding"], expires_at)
        sql = "insert into bucket values (null, ?, ?, ?, ?, ?, ?)"
        return Life(self.db, (self.db.execute(sql, (bucket["kind"], bucket["name"], *row)).lastrowid, *row))

    def transact(self, transaction):
        check_transaction(transaction)
        return self._atomic(lambda now: self._transact(transaction, now))

    def _transact(self, transaction, now):
        bucket, operations = transaction["bucket"], transaction["operations"]
        tag, precondition = transaction["precondition"]
        asked = precondition.get("generation")
        before, gone = self._find(bucket, now)

        def receipt(status, life, created=False, unmet=None, outcomes=()):
            named = life is None or life.generation == asked
            return {"status": status, "now": now, "generation": "" if named else life.generation,
                    "created": created, "unmet": unmet, "outcomes": list(outcomes)}

        if tag == "existing" and before is None:
            return receipt(gone, None)
        if asked is not None and asked != before.generation:
            return receipt("generation-mismatch", before)
        if tag == "create-new" and before is not None:
            return receipt("exists", before)

        # A bucket that is not there is as empty as one with this id, which SQLite gives to none.
        seen = before or Life(self.db, (0, "", None, False, None))
        for index, (kind, expected) in enumerate(transaction["expectations"]):
            if not seen.holds(kind, expected, operations):
                return receipt("unmet", before, unmet=index)

        created = before is None or tag == "replace"
        if created and before is not None:
            self._delete(before)
        life = self._create(bucket, precondition["time-to-live"], now) if created else before
        if not created and life.sliding and precondition.get("renew", True):
            life.expires_at = now + life.milliseconds
            self.db.execute("update bucket set expires_at = ? where id = ?", (life.expires_at, life.id))
        parts = life.parts(now)
        new = sum(life.text("values", key) is None for key in keys_set(operations, "values"))
        if new > 0 and life.entries("values") + new > MAX_VALUES:
            raise Failure("too-large", "values", "too many values", MAX_VALUES)
        room = Room()
        outcomes = [life.apply(kind, step, now, room) for kind, step in operations]
        # What the transaction removes makes no room for what it creates.
        made = life.parts(now) - parts
        if made and len(parts | made) > MAX_PARTS:
            raise Failure("too-large", "parts", "too many maps, logs and leases", MAX_PARTS)
        return receipt("applied", life, created=created, outcomes=outcomes)

    def transact_each(self, transactions):
        def attempt(work):
            try:
                return "receipt", work()
            except Exception as error:
                return "failure", as_failure(error)

        refused = attempt(lambda: check_each(transactions))
        if refused[0] == "failure":
            return [refused] * len(transactions)
        return [attempt(lambda one=one: self.transact(one)) for one in transactions]

    def list_buckets(self, kind, cursor, limit):
        limit = min(limit, MAX_RECORDS) or 100
        sql = ("select name from bucket where kind = ? and name > ? and (expires_at is null or expires_at > ?)"
               " order by name limit ?")
        rows = self._atomic(lambda now: self.db.execute(sql, (kind, cursor, now, limit + 1)).fetchall())
        names = [name for (name,) in rows]
        return {"names": names[:limit], "cursor": names[limit - 1] if len(names) > limit else ""}

    def delete_bucket(self, bucket, generation, max_keys):
        check_name("bucket", BUCKET, bucket["name"])
        if generation is not None:
            check_name("generation", TOKEN, generation)

        def work(now):
            def deletion(status, values=0, keys=()):
                return {"status": status, "now": now, "values": values, "keys": [key for (key,) in keys]}

            life, gone = self._find(bucket, now)
            if life is None:
                return deletion(gone)
            if generation not in (None, life.generation):
                return deletion("generation-mismatch")
            values = life.entries("values")
            sql = "select key from entry where bucket = ? and map = 'values' order by key limit ?"
            keys = life.all(sql, min(max_keys, MAX_RECORDS))
            self._delete(life)
            return deletion("applied", values, keys)

        return self._atomic(work)

    def capabilities(self):
        return {"atomic": True, "expiring": True, "exactly-once": True, "durable": True, "listing": True,
                "leases": True, "indexes": False}
