//! Applies a transaction to a store in memory: the order of its checks, and the bytes that it takes.

use super::{
    SessionLimitPolicy,
    slots::{is_session, slot_cost},
    state::MemoryState,
};
use crate::{
    Failure, IndexedReceipt, IndexedTransaction, Precondition, Receipt, Status, Transaction, Writer,
    bucket::{
        Answers, Bucket, FoundBucket, PreconditionDecision, build_receipt, decide_precondition, may_write,
        receipt_without, renews_expiry,
    },
    check,
    clock::ClockReading,
    failure::expiry_in_doubt,
};

impl MemoryState {
    pub(super) fn apply_transaction(
        &mut self,
        at: ClockReading,
        writer: &Writer,
        request: &IndexedTransaction,
    ) -> Result<IndexedReceipt, Failure> {
        let Transaction { bucket: id, precondition, .. } = &request.transaction;
        let (clock, clock_ms) = (at.now, at.now_ms());
        let writes = request.has_writes();
        // A second round only when room had to be made first.
        while let Some(slot) = self.slots.by_id.get_mut(id) {
            let now_ms = slot.bucket.as_mut().map_or(clock_ms, |bucket| bucket.advance_time(clock_ms));
            let Some(bucket) = slot.bucket.as_mut().filter(|bucket| !bucket.expiry.is_over(now_ms)) else {
                let found = if slot.bucket.is_some() { FoundBucket::Expired } else { FoundBucket::Absent };
                let step = decide_precondition(precondition, found, slot.writers.has_seen(writer, now_ms));
                if let FoundBucket::Expired = found {
                    self.retire_bucket(now_ms, id);
                }
                if let PreconditionDecision::Refuse(status) = step {
                    return Ok(receipt_without(status, now_ms).into());
                }
                break;
            };
            if bucket.expiry.is_over(at.shown_ms()) {
                return Err(expiry_in_doubt());
            }
            let repeated = may_write(request) && slot.writers.has_seen(writer, now_ms);
            let step = decide_precondition(precondition, FoundBucket::Alive(&bucket.generation), repeated);
            if let PreconditionDecision::Refuse(status) = step {
                return Ok(build_receipt(status, now_ms, precondition, &bucket.generation, Vec::new()).into());
            }

            if is_session(id) {
                self.recency.to_back(id);
            }
            let mut growth = 0;
            if step != PreconditionDecision::Repeat {
                if let Some(unmet) = bucket.find_unmet_expectation(request) {
                    let receipt = build_receipt(Status::Unmet, now_ms, precondition, &bucket.generation, Vec::new());
                    return Ok(Receipt { unmet: Some(unmet), ..receipt }.into());
                }
                if step == PreconditionDecision::Replace {
                    return self.replace(clock, now_ms, writer, request);
                }
                self.used.shrink_bucket(id, bucket.drop_outdated_leases(now_ms));
                growth = bucket.probe_growth(request, now_ms)?;
                if writes {
                    slot.writers.check_room(writer, now_ms, 1)?;
                }
                if growth > 0 && self.used.all.saturating_add_signed(growth) > self.limits.max_bytes {
                    self.make_room(clock_ms, growth, id)?;
                    continue;
                }
            }

            if renews_expiry(precondition)
                && let Some((old, new)) = bucket.expiry.renew(now_ms)
            {
                self.expiries.remove(&(old, slot.id.clone()));
                self.expiries.insert((new, slot.id.clone()));
            }
            if step == PreconditionDecision::Repeat {
                return Ok(answered(Status::Repeated, now_ms, precondition, bucket, bucket.answer(request, now_ms)));
            }
            let answers = bucket.apply(request, growth, now_ms);
            let receipt = answered(Status::Applied, now_ms, precondition, bucket, answers);
            self.removed.append(&mut bucket.take_removed());
            self.used.grow_bucket(id, growth);
            if writes {
                self.used.grow_beside(slot.writers.remember(writer, now_ms));
            }
            return Ok(receipt);
        }
        match decide_precondition(precondition, FoundBucket::Absent, false) {
            PreconditionDecision::Refuse(status) => Ok(receipt_without(status, clock_ms).into()),
            _ => self.create(clock, writer, request),
        }
    }

    /// Create a bucket that is not there, with all that the transaction does to it. `clock` is in microseconds.
    fn create(&mut self, clock: u64, writer: &Writer, request: &IndexedTransaction) -> Result<IndexedReceipt, Failure> {
        let Transaction { bucket: id, precondition, .. } = &request.transaction;
        let now_ms = clock / 1000;
        let bucket = self.new_bucket(clock, now_ms, precondition);
        if let Some(unmet) = bucket.find_unmet_expectation(request) {
            return Ok(Receipt { unmet: Some(unmet), ..receipt_without(Status::Unmet, now_ms) }.into());
        }
        let growth = bucket.probe_growth(request, now_ms)?;
        if let Some(slot) = self.slot_mut(id) {
            slot.writers.check_room(writer, now_ms, 1)?;
        }
        // A write that has no room must not have ended a session to make place.
        self.make_room(now_ms, growth.saturating_add_unsigned(slot_cost(id)), id)?;
        self.make_place(now_ms, id)?;
        Ok(self.settle(now_ms, writer, request, bucket, growth))
    }

    /// Create a bucket in the place of one that is there and meets the expectations.
    fn replace(
        &mut self,
        clock: u64,
        now_ms: u64,
        writer: &Writer,
        request: &IndexedTransaction,
    ) -> Result<IndexedReceipt, Failure> {
        let Transaction { bucket: id, precondition, .. } = &request.transaction;
        let bucket = self.new_bucket(clock, now_ms, precondition);
        let growth = bucket.probe_growth(request, now_ms)?;
        let mut freed = 0;
        if let Some(slot) = self.slot_mut(id) {
            slot.writers.check_room(writer, now_ms, 1)?;
            freed = slot.bucket.as_ref().map_or(0, Bucket::cost);
        }
        self.make_room(clock / 1000, growth.saturating_sub_unsigned(freed), id)?;
        if let Some(slot) = self.slot_mut(id)
            && let Some(old) = slot.bucket.take()
        {
            let id = slot.id.clone();
            self.forget_bucket(old, &id);
        }
        Ok(self.settle(now_ms, writer, request, bucket, growth))
    }

    /// A stamp that is used up for nothing does no harm.
    fn new_bucket(&mut self, clock: u64, now_ms: u64, precondition: &Precondition) -> Bucket {
        let stamp = clock.max(self.last_stamp.saturating_add(1));
        self.last_stamp = stamp;
        Bucket::new(stamp, now_ms, check::new_bucket(precondition).and_then(|life| life.time_to_live))
    }

    /// Put a new bucket in its place, for which there is room.
    fn settle(
        &mut self,
        now_ms: u64,
        writer: &Writer,
        request: &IndexedTransaction,
        mut bucket: Bucket,
        growth: i64,
    ) -> IndexedReceipt {
        let Transaction { bucket: id, precondition, .. } = &request.transaction;
        let answers = bucket.apply(request, growth, now_ms);
        let mut receipt = answered(Status::Applied, now_ms, precondition, &bucket, answers);
        receipt.receipt.created = true;
        self.used.grow_bucket(id, growth);
        let expires_at = bucket.expiry.at;
        let slot = self.slot_to_write(now_ms, writer, id);
        slot.bucket = Some(bucket);
        let id = slot.id.clone();
        if let Some(expires_at) = expires_at {
            self.expiries.insert((expires_at, id.clone()));
        }
        if is_session(&id) && self.limits.session_limit_policy == SessionLimitPolicy::Evict {
            self.recency.insert(id.clone());
        }
        self.slots.list(id);
        receipt
    }
}

/// The receipt of a transaction that is applied, or was before.
fn answered(
    status: Status,
    now_ms: u64,
    precondition: &Precondition,
    bucket: &Bucket,
    answers: Answers,
) -> IndexedReceipt {
    answers.into_receipt(|outcomes| build_receipt(status, now_ms, precondition, &bucket.generation, outcomes))
}
