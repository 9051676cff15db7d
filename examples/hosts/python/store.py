"""The interfaces `core`, `leases` and `listing` of `keepline:store`, over an SQLite file: durable, and shared by all processes that open it.

Records of the contract are dicts here, with its names; variants are pairs of case and record.

Each transaction of the contract is one of SQLite, begun with the lock for writing: so nobody else comes in between,
and whatever raises rolls all of it back. A transaction that can't begin, because other processes keep the lock, has
done nothing and may be tried again; SQLite does that until the deadline. Once begun it is never sent a second time. So
no call can count twice, and no writer has to be remembered.
"""

import sqlite3
import sys
import time
import uuid

from checks import LIMITS, Failure, Size, as_problem, check_bucket, check_each, check_part, check_transaction, too_large
from life import MIGRATION, PAGE, SCHEMA, Life, Room, keys_set

# Names on one page of a listing, and keys that a deletion names.
MAX_NAMES = 10_000


class SqliteStore:
    """`clock` returns milliseconds since 1970. Whoever calls sets `deadline`, by the monotonic clock, for all calls of
    an entry together; no call waits for longer than `timeout` seconds. `limits` are lower than the contract's."""

    def __init__(self, path, timeout=1.0, clock=lambda: int(time.time() * 1000), limits=None):
        self.limits = LIMITS | (limits or {})
        self.clock, self.timeout, self.deadline = clock, timeout, float("inf")
        self.db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        # An acknowledged write survives the machine, not only the process.
        self.db.executescript("pragma synchronous = full; pragma foreign_keys = on;")
        self._use_log(time.monotonic() + timeout)
        self.db.executescript(SCHEMA)
        if self._missing():
            self.db.execute("begin immediate")
            for statement in self._missing():
                self.db.execute(statement)
            self.db.execute("commit")

    def close(self):
        self.db.close()

    def _use_log(self, end):
        """Has SQLite keep a write-ahead log. While another process does the same with a new file, it doesn't wait by itself."""
        while True:
            try:
                return self.db.execute("pragma journal_mode = wal")
            except sqlite3.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _missing(self):
        """Statements that a file of an earlier version still needs."""
        columns = [row[1] for row in self.db.execute("pragma table_info(bucket)")]
        return [statement for column, statement in MIGRATION.items() if column not in columns]

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
        sql = "select id, generation, milliseconds, sliding, expires_at, created_at from bucket where kind = ? and name = ?"
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
        row = (str(uuid.uuid4()), ttl["milliseconds"], ttl["sliding"], expires_at, now)
        sql = "insert into bucket values (null, ?, ?, ?, ?, ?, ?, ?)"
        return Life(self.db, (self.db.execute(sql, (bucket["kind"], bucket["name"], *row)).lastrowid, *row))

    def about(self):
        names = ["atomic", "compare", "expiring", "exactly-once", "positions", "durable", "leases", "listing"]
        lower = [{"name": name, "value": limit} for name, limit in self.limits.items() if limit != LIMITS[name]]
        return {"capabilities": names, "limits": lower}

    def transact(self, transaction):
        return self.transact_leased({"lease": None, "transaction": transaction})["receipt"]

    def transact_each(self, transactions):
        requests = [{"lease": None, "transaction": transaction} for transaction in transactions]
        return [(tag, answer["receipt"] if tag == "receipt" else answer)
                for tag, answer in self.transact_each_leased(requests)]

    def transact_leased(self, request):
        check_transaction(request["lease"], request["transaction"], self.limits)
        return self._atomic(lambda now: self._transact(request["lease"], request["transaction"], now))

    def transact_each_leased(self, requests):
        """`leases.transact-each`."""

        def check():
            check_each([request["transaction"]["bucket"] for request in requests], self.limits)
            Size([(request["lease"], request["transaction"]) for request in requests], self.limits)

        return attempts(requests, "receipt", check, self.transact_leased)

    def _transact(self, lease, transaction, now):
        bucket, operations = transaction["bucket"], transaction["operations"]
        tag, precondition = transaction["precondition"]
        asked = precondition.get("generation")
        before, gone = self._find(bucket, now)

        def receipt(status, life, created=False, unmet=None, outcomes=(), state=None):
            named = life is None or life.generation == asked
            answer = {"status": status, "now": now, "generation": None if named else life.generation,
                      "created": created, "unmet": unmet, "outcomes": list(outcomes)}
            return {"lease": state, "receipt": answer}

        if tag == "existing" and before is None:
            return receipt(gone, None)
        if asked is not None and asked != before.generation:
            return receipt("generation-mismatch", before)
        if tag == "create-new" and before is not None:
            return receipt("exists", before)

        # A bucket that is not there is as empty as one with this id, which SQLite gives to none.
        seen = before or Life(self.db, (0, "", None, False, None, 0))
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
        if new > 0 and life.entries("values") + new > self.limits["values"]:
            raise too_large("values", self.limits)
        room = Room(self.limits)
        outcomes = [life.apply(kind, step, now, room) for kind, step in operations]
        state = lease and life.lease(lease, now)
        # What the transaction removes makes no room for what it creates.
        made = life.parts(now) - parts
        if made and len(parts | made) > self.limits["parts"]:
            raise too_large("parts", self.limits)
        return receipt("applied", life, created=created, outcomes=outcomes, state=state)

    def delete_each(self, requests):
        def check():
            check_each([request["bucket"] for request in requests], self.limits)

        return attempts(requests, "deletion", check, self._delete_one)

    def _delete_one(self, request):
        generation = request["generation"]
        check_bucket(request["bucket"], generation)

        def work(now):
            def deletion(status, values=0, keys=()):
                return {"status": status, "now": now, "values": values, "keys": [key for (key,) in keys]}

            life, gone = self._find(request["bucket"], now)
            if life is None:
                return deletion(gone)
            if generation not in (None, life.generation):
                return deletion("generation-mismatch")
            sql = "select key from entry where bucket = ? and map = 'values' order by key limit ?"
            values, keys = life.entries("values"), life.all(sql, min(request["max-keys"], MAX_NAMES))
            self._delete(life)
            return deletion("applied", values, keys)

        return self._atomic(work)

    def list_buckets(self, kind, cursor, limit):
        check_part("kind", kind)
        limit = min(limit, MAX_NAMES) or PAGE
        sql = ("select name from bucket where kind = ? and name > ? and (expires_at is null or expires_at > ?)"
               " order by name limit ?")
        rows = self._atomic(lambda now: self.db.execute(sql, (kind, cursor, now, limit + 1)).fetchall())
        names = [name for (name,) in rows]
        return {"names": names[:limit], "cursor": names[limit - 1] if len(names) > limit else ""}


def attempts(requests, case, check, work):
    """One attempt for each request; what `check` refuses, it refuses for all of them."""

    def attempt(work):
        try:
            return case, work()
        except Exception as error:
            return "problem", as_problem(error)

    refused = attempt(check)
    if refused[0] == "problem":
        return [refused] * len(requests)
    return [attempt(lambda one=one: work(one)) for one in requests]
