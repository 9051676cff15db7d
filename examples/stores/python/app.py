"""A store at the plain level as a component: `core` of `keepline:store`, in the instance's memory."""

import traceback

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types as t
from wit_world.imports import log, shared, wall_clock

from bucket import Bucket, Room
from checks import LIMITS, Failure, Size, check_bucket, check_each, check_transaction
from plain import plain

# Keys that a deletion names.
MAX_NAMES = 10_000


class Buckets:
    """What the instance keeps. Each exported function has a `Core` of its own."""

    def __init__(self):
        self.buckets, self.created, self.latest = {}, 0, 0

    def now(self):
        """The host's clock may be set back; the store's does not go back."""
        time = wall_clock.now()
        self.latest = max(self.latest, time.seconds * 1000 + time.nanoseconds // 1_000_000)
        return self.latest

    def find(self, place, now):
        """The bucket, or none and why."""
        bucket = self.buckets.get(place)
        if bucket is None:
            return None, t.Status.ABSENT
        if bucket.expires_at is None or bucket.expires_at > now:
            return bucket, None
        del self.buckets[place]
        return None, t.Status.EXPIRED

    def create(self, time_to_live, now):
        self.created += 1
        return Bucket(f"{now}-{self.created}", now, time_to_live)


STORE = Buckets()


class Core(exports.Core):
    def about(self):
        return t.StoreInfo(["atomic", "compare", "expiring", "exactly-once"], [])

    def transact(self, transaction):
        outcome = attempt(t.Attempt_Receipt, t.Attempt_Problem, lambda: self.transact_one(plain(transaction)))
        if isinstance(outcome, t.Attempt_Problem):
            raise Err(outcome.value)
        return outcome.value

    def transact_each(self, transactions):
        transactions = plain(transactions)

        def check():
            check_each([one["bucket"] for one in transactions], LIMITS)
            Size([(None, one) for one in transactions], LIMITS)

        return attempts(t.Attempt_Receipt, t.Attempt_Problem, transactions, check, self.transact_one)

    def transact_one(self, transaction):
        check_transaction(None, transaction, LIMITS)
        place = (transaction["bucket"]["kind"], transaction["bucket"]["name"])
        tag, precondition = transaction["precondition"]
        operations = transaction["operations"]
        now = STORE.now()
        before, gone = STORE.find(place, now)
        asked = precondition.get("generation")

        def receipt(status, bucket=None, created=False, unmet=None, outcomes=()):
            named = bucket is None or bucket.generation == asked
            return t.Receipt(status, now, None if named else bucket.generation, created, unmet, list(outcomes))

        if tag == "existing" and before is None:
            return receipt(gone)
        if asked is not None and asked != before.generation:
            return receipt(t.Status.GENERATION_MISMATCH, before)
        if tag == "create-new" and before is not None:
            return receipt(t.Status.EXISTS, before)
        seen = before or Bucket("", now, None)
        for index, (kind, expected) in enumerate(transaction["expectations"]):
            if not seen.holds(kind, expected, operations):
                return receipt(t.Status.UNMET, before, unmet=index)

        created = before is None or tag == "replace"
        bucket = STORE.create(precondition["time-to-live"], now) if created else before
        bucket.probe(operations)
        if created:
            STORE.buckets[place] = bucket
        elif bucket.time_to_live and bucket.time_to_live["sliding"] and precondition.get("renew", True):
            bucket.renew(now)
        room = Room()
        outcomes = [bucket.apply(tag, step, now, room) for tag, step in operations]
        return receipt(t.Status.APPLIED, bucket, created, outcomes=outcomes)

    def delete_each(self, requests):
        requests = plain(requests)
        check = lambda: check_each([one["bucket"] for one in requests], LIMITS)  # noqa: E731
        return attempts(t.DeleteAttempt_Deletion, t.DeleteAttempt_Problem, requests, check, self.delete_one)

    def delete_one(self, request):
        check_bucket(request["bucket"], request["generation"])
        place, now = (request["bucket"]["kind"], request["bucket"]["name"]), STORE.now()
        bucket, gone = STORE.find(place, now)
        if bucket is None:
            return t.Deletion(gone, now, 0, [])
        if request["generation"] not in (None, bucket.generation):
            return t.Deletion(t.Status.GENERATION_MISMATCH, now, 0, [])
        keys = sorted(bucket.map("values"))
        del STORE.buckets[place]
        return t.Deletion(t.Status.APPLIED, now, len(keys), keys[: min(request["max-keys"], MAX_NAMES)])


def attempt(success, failure, work):
    """What `work` returns, or why it failed: nothing that could contain a stored text."""
    try:
        return success(work())
    except Failure as error:
        problem = error.problem
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__))
        log.write(log.Level.ERROR, "keepline.store", f"the store made a mistake: {type(error).__name__}\n{where}")
        problem = {"code": "other", "subject": "", "limit": 0, "message": "the store made a mistake"}
    return failure(shared.Problem(**problem))


def attempts(success, failure, requests, check, work):
    """One attempt for each request; what `check` refuses, it refuses for all of them."""
    refused = attempt(success, failure, check)
    if isinstance(refused, failure):
        return [refused] * len(requests)
    return [attempt(success, failure, lambda one=one: work(one)) for one in requests]
