//! A transaction of the contract within one of SQLite's: the order of its checks, and what it does to the tables.
//!
//! Whatever stops it, its savepoint is rolled back, so that nothing has to be looked at twice.

use super::{
    error::TransactionError,
    rows::{BucketRows, buckets::BucketRow},
    time::TransactionContext,
};
use crate::{
    BucketId, DeleteRequest, Deletion, Failure, IndexedReceipt, IndexedTransaction, Receipt, Status, Transaction,
    Writer,
    bucket::{
        BucketContents as _, FoundBucket, PreconditionDecision, build_receipt, decide_precondition,
        find_unmet_expectation, may_write, receipt_without, renews_expiry,
    },
    check,
    limits::MAX_NAMES,
    names::VALUES,
};

impl TransactionContext<'_> {
    /// Apply a transaction. `memory` is for how long its number has to be kept, in milliseconds. A reader may try it, too, if
    /// it asks for no writes: it [needs a writer](TransactionError::NeedsWriter) where it turns out to make some nevertheless.
    pub(super) fn apply_transaction(
        &self,
        writer: &Writer,
        memory: u64,
        indexed: &IndexedTransaction,
    ) -> Result<IndexedReceipt, TransactionError> {
        let Transaction { bucket: id, precondition, .. } = &indexed.transaction;
        let found = self.find_bucket(id)?;
        let is_there = found.is_some();
        let Some(mut life) = self.retire_if_expired(found, id)? else {
            let found = if is_there { FoundBucket::Expired } else { FoundBucket::Absent };
            let repeated = !self.reads_only && self.has_seen(writer, id)?;
            return match decide_precondition(precondition, found, repeated) {
                PreconditionDecision::Refuse(status) => Ok(receipt_without(status, self.now_ms).into()),
                _ => self.create(writer, memory, indexed, None),
            };
        };
        let repeated = may_write(indexed) && self.has_seen(writer, id)?;
        let step = decide_precondition(precondition, FoundBucket::Alive(&life.generation), repeated);
        let renewed = matches!(step, PreconditionDecision::Use | PreconditionDecision::Repeat)
            && renews_expiry(precondition)
            && life.expiry.renew(self.now_ms).is_some();
        let receipt = |status, outcomes| build_receipt(status, self.now_ms, precondition, &life.generation, outcomes);
        if let PreconditionDecision::Refuse(status) = step {
            return Ok(receipt(status, Vec::new()).into());
        }
        let rows = BucketRows::new(self, &life);
        if step != PreconditionDecision::Repeat
            && let Some(unmet) = find_unmet_expectation(&rows, indexed)?
        {
            return Ok(Receipt { unmet: Some(unmet), ..receipt(Status::Unmet, Vec::new()) }.into());
        }
        if step == PreconditionDecision::Replace {
            return self.create(writer, memory, indexed, Some(&life));
        }
        if renewed {
            self.require_writer()?;
            self.put_expiry(id, life.expiry)?;
        }
        if step == PreconditionDecision::Repeat {
            return Ok(rows.answer(indexed)?.into_receipt(|outcomes| receipt(Status::Repeated, outcomes)));
        }
        let answers = rows.apply(indexed)?;
        rows.flush_and_check_limits()?;
        if indexed.has_writes() {
            self.remember(writer, id, memory)?;
        }
        Ok(answers.into_receipt(|outcomes| receipt(Status::Applied, outcomes)))
    }

    /// Delete buckets. One that is refused keeps no other from being deleted.
    pub(super) fn delete_each(
        &self,
        writer: &Writer,
        memory: u64,
        requests: &[DeleteRequest],
    ) -> Result<Vec<Result<Deletion, Failure>>, TransactionError> {
        let deleted = requests.iter().map(|request| match self.delete_bucket(writer, memory, request) {
            // Before it has written anything.
            Err(TransactionError::Refused(failure)) => Ok(Err(failure)),
            deleted => deleted.map(Ok),
        });
        deleted.collect()
    }

    /// Delete a bucket, or just this generation of it.
    fn delete_bucket(
        &self,
        writer: &Writer,
        memory: u64,
        request: &DeleteRequest,
    ) -> Result<Deletion, TransactionError> {
        check::validate_deletion(request)?;
        let DeleteRequest { bucket: id, generation, max_keys } = request;
        let nothing = |status| Deletion { status, now: self.now_ms, values: 0, keys: Vec::new() };
        if self.has_seen(writer, id)? {
            return Ok(nothing(Status::Repeated));
        }
        let found = self.find_bucket(id)?;
        let gone = if found.is_some() { Status::Expired } else { Status::Absent };
        let life = self.retire_if_expired(found, id)?;
        if let (Some(life), Some(asked)) = (&life, generation)
            && life.generation != *asked
        {
            return Ok(nothing(Status::GenerationMismatch));
        }
        // What deletes nothing is not recorded.
        let Some(life) = life else { return Ok(nothing(gone)) };
        self.remember(writer, id, memory)?;
        let rows = BucketRows::new(self, &life);
        let values = rows.count_entries(VALUES)?;
        let keys = rows.keys(VALUES, MAX_NAMES.min((*max_keys).into()))?;
        self.retire_bucket(id, life.stamp)?;
        Ok(Deletion { status: Status::Applied, now: self.now_ms, values, keys })
    }

    /// A bucket that lives; one that has expired is buried first: a later call may go by an earlier clock.
    fn retire_if_expired(
        &self,
        found: Option<BucketRow>,
        id: &BucketId,
    ) -> Result<Option<BucketRow>, TransactionError> {
        match found {
            Some(life) if life.expiry.is_over(self.now_ms) => {
                self.require_writer()?;
                self.retire_bucket(id, life.stamp)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Create a bucket with all that the transaction does to it, in the place of another if there is one. What is
    /// expected of that one was looked at before.
    fn create(
        &self,
        writer: &Writer,
        memory: u64,
        indexed: &IndexedTransaction,
        other: Option<&BucketRow>,
    ) -> Result<IndexedReceipt, TransactionError> {
        self.require_writer()?;
        let Transaction { bucket: id, precondition, .. } = &indexed.transaction;
        let life = self.new_bucket(check::new_bucket(precondition).and_then(|life| life.time_to_live));
        let rows = BucketRows::new(self, &life);
        if let Some(other) = other {
            self.retire_bucket(id, other.stamp)?;
        } else if let Some(unmet) = find_unmet_expectation(&rows, indexed)? {
            return Ok(Receipt { unmet: Some(unmet), ..receipt_without(Status::Unmet, self.now_ms) }.into());
        }
        self.settle(id, &life)?;
        let answers = rows.apply(indexed)?;
        rows.flush_and_check_limits()?;
        self.remember(writer, id, memory)?;
        Ok(answers.into_receipt(|outcomes| {
            let receipt = build_receipt(Status::Applied, self.now_ms, precondition, &life.generation, outcomes);
            Receipt { created: true, ..receipt }
        }))
    }
}
