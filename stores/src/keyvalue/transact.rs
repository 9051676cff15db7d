//! A transaction on a bucket: the order of its checks, and the order in which it writes.

use super::{
    Fault, Lent, TRIES,
    contents::Contents,
    head::Head,
    parts::{Parts, creation_key, head_key},
    sweep::wait_for_sweep,
    trash::CALL_SECONDS,
    tree::{Flushed, Tree},
};
use crate::{
    BucketId, Clock, DeleteRequest, Deletion, Failure, FailureCode, IndexedReceipt, IndexedTransaction, Receipt,
    Status, Transaction,
    bucket::{
        Answers, FoundBucket, PreconditionDecision, build_receipt, decide_precondition, find_unmet_expectation,
        receipt_without, renews_expiry,
    },
    check, failure,
    limits::MAX_NAMES,
    names::VALUES,
};

/// A call, and when it began.
struct Call<'a> {
    lent: &'a Lent,
    clock: &'a dyn Clock,
    bucket: &'a BucketId,
    began_ms: u64,
}

impl Lent {
    /// Apply a transaction that is valid to a bucket with this head.
    pub(super) fn transact(
        &self,
        clock: &dyn Clock,
        indexed: &IndexedTransaction,
        mut head: Option<Vec<u8>>,
    ) -> Result<IndexedReceipt, Failure> {
        let bucket = &indexed.transaction.bucket;
        for _ in 1..TRIES {
            match Call::new(self, clock, bucket).apply(indexed, head.as_deref()) {
                // Parts are read before anything is written.
                Err(Fault::Missing) => head = self.store.get(&head_key(bucket))?,
                answer => return Ok(answer?),
            }
        }
        Ok(Call::new(self, clock, bucket).apply(indexed, head.as_deref())?)
    }

    /// Delete a bucket, or just this generation of it.
    pub(super) fn delete(&self, clock: &dyn Clock, request: &DeleteRequest) -> Result<Deletion, Failure> {
        for _ in 1..TRIES {
            match Call::new(self, clock, &request.bucket).delete(request) {
                Err(Fault::Missing) => {}
                answer => return Ok(answer?),
            }
        }
        Ok(Call::new(self, clock, &request.bucket).delete(request)?)
    }
}

/// All parts of a bucket.
pub(super) fn all_parts(mut head: Head, parts: Parts<'_>) -> Result<Vec<u64>, Fault> {
    let root = std::mem::replace(&mut head.root, super::node::Node::EMPTY);
    let mut all = Tree::new(parts, root).into_parts()?;
    all.append(&mut head.trash.into_parts(parts)?);
    Ok(all)
}

fn read_head(bytes: Option<&[u8]>) -> Result<Option<Head>, Fault> {
    bytes.map(|bytes| Head::decode(bytes).ok_or(Fault::Damaged)).transpose()
}

fn clock_ms(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.now().as_millis()).unwrap_or(u64::MAX)
}

impl<'a> Call<'a> {
    fn new(lent: &'a Lent, clock: &'a dyn Clock, bucket: &'a BucketId) -> Self {
        Self { lent, clock, bucket, began_ms: clock_ms(clock) }
    }

    fn parts(&self) -> Parts<'a> {
        Parts { store: &*self.lent.store, bucket: self.bucket, ids: &self.lent.ids, now_seconds: self.began_ms / 1000 }
    }

    /// The time for a bucket: never earlier than it was.
    fn now_ms(&self, head: Option<&Head>) -> u64 {
        self.began_ms.max(head.map_or(0, |head| head.latest))
    }

    fn apply(&self, indexed: &IndexedTransaction, bytes: Option<&[u8]>) -> Result<IndexedReceipt, Fault> {
        let precondition = &indexed.transaction.precondition;
        let found = read_head(bytes)?;
        let now_ms = self.now_ms(found.as_ref());
        let gone = if found.is_some() { FoundBucket::Expired } else { FoundBucket::Absent };
        let mut head = match found {
            Some(head) if !head.expiry.is_over(now_ms) => head,
            expired => {
                return match decide_precondition(precondition, gone, false) {
                    PreconditionDecision::Refuse(status) => Ok(receipt_without(status, now_ms).into()),
                    _ => self.create(indexed, expired, now_ms, true),
                };
            }
        };
        let generation = head.generation_name();
        let step = decide_precondition(precondition, FoundBucket::Alive(&generation), false);
        let receipt = |status, now, outcomes| build_receipt(status, now, precondition, &generation, outcomes);
        if let PreconditionDecision::Refuse(status) = step {
            return Ok(receipt(status, now_ms, Vec::new()).into());
        }
        let is_renewed =
            step == PreconditionDecision::Use && renews_expiry(precondition) && head.expiry.renew(now_ms).is_some();
        let contents = Contents::of(&mut head, self.parts(), now_ms);
        contents.prefetch(indexed)?;
        if let Some(unmet) = find_unmet_expectation(&contents, indexed)? {
            return Ok(Receipt { unmet: Some(unmet), ..receipt(Status::Unmet, now_ms, Vec::new()) }.into());
        }
        if step == PreconditionDecision::Replace {
            contents.into_head(&mut head);
            return self.create(indexed, Some(head), now_ms, false);
        }
        let answers = contents.apply(indexed)?;
        contents.check_limits()?;
        let is_changed = contents.tree.borrow().is_changed();
        // What writes nothing keeps no time, so it could go back: it tells none.
        let now = if is_changed || is_renewed { now_ms } else { 0 };
        if is_changed || is_renewed {
            self.commit(head, contents, Vec::new(), now_ms)?;
        }
        Ok(answers.into_receipt(|outcomes| receipt(Status::Applied, now, outcomes)))
    }

    /// Create a bucket with all that the transaction does to it, in the place of another if there is one. `is_expected`: whether
    /// the expectations are about the new one.
    fn create(
        &self,
        indexed: &IndexedTransaction,
        other: Option<Head>,
        now_ms: u64,
        is_expected: bool,
    ) -> Result<IndexedReceipt, Fault> {
        let Transaction { precondition, .. } = &indexed.transaction;
        let time_to_live = check::new_bucket(precondition).and_then(|life| life.time_to_live);
        let mut head = Head::new(self.parts().take_id()?, now_ms, time_to_live);
        let generation = head.generation_name();
        let contents = Contents::of(&mut head, self.parts(), now_ms);
        if is_expected && let Some(unmet) = find_unmet_expectation(&contents, indexed)? {
            return Ok(Receipt { unmet: Some(unmet), ..receipt_without(Status::Unmet, now_ms) }.into());
        }
        let answers: Answers = contents.apply(indexed)?;
        contents.check_limits()?;
        let has_expired = other.as_ref().is_some_and(|other| other.expiry.is_over(now_ms));
        let dropped = other.map_or(Ok(Vec::new()), |other| all_parts(other, self.parts()))?;
        if has_expired {
            self.lent.store.set(&creation_key(self.bucket), (self.began_ms / 1000).to_string().as_bytes())?;
            wait_for_sweep(&*self.lent.store, self.clock)?;
        }
        self.commit(head, contents, dropped, now_ms)?;
        if has_expired {
            self.lent.store.delete_many(&[creation_key(self.bucket)])?;
        }
        // Whether or not this can be done now, the bucket has been created.
        let _ = self.lent.sweep(self.clock);
        Ok(answers.into_receipt(|outcomes| {
            let receipt = build_receipt(Status::Applied, now_ms, precondition, &generation, outcomes);
            Receipt { created: true, ..receipt }
        }))
    }

    /// Write the parts that have changed, then the head; then delete what was dropped long ago.
    fn commit(&self, mut head: Head, contents: Contents<'_>, other: Vec<u64>, now_ms: u64) -> Result<(), Fault> {
        let Flushed { mut written, dropped } = contents.tree.borrow_mut().flush()?;
        contents.into_head(&mut head);
        head.latest = now_ms;
        head.trash.add(&dropped, self.began_ms / 1000);
        head.trash.add(&other, self.began_ms / 1000);
        let deleted = head.trash.collect(self.parts(), &mut written)?;
        if !written.is_empty() {
            let keys = self.parts().keys(&written.iter().map(|(id, _)| *id).collect::<Vec<_>>());
            let values: Vec<_> = keys.into_iter().zip(written.into_iter().map(|(_, bytes)| bytes)).collect();
            self.lent.store.set_many(&values)?;
        }
        // A head that is written long after it was read could list parts that others have deleted since.
        if clock_ms(self.clock).saturating_sub(self.began_ms) > CALL_SECONDS * 1000 {
            let message =
                "the key-value store took so long that another writer may have been here; nothing was changed";
            return Err(Failure { limit: CALL_SECONDS * 1000, ..failure(FailureCode::TimedOut, "", message) }.into());
        }
        self.lent.store.set(&head_key(self.bucket), &head.encode())?;
        if !deleted.is_empty() {
            // What is left behind now goes with the bucket.
            let _ = self.lent.store.delete_many(&self.parts().keys(&deleted));
        }
        Ok(())
    }

    fn delete(&self, request: &DeleteRequest) -> Result<Deletion, Fault> {
        let store = &*self.lent.store;
        let found = read_head(store.get(&head_key(self.bucket))?.as_deref())?;
        let now = self.now_ms(found.as_ref());
        let nothing = |status| Deletion { status, now, values: 0, keys: Vec::new() };
        let Some(mut head) = found else { return Ok(nothing(Status::Absent)) };
        let mut deletion = nothing(Status::Expired);
        if !head.expiry.is_over(now) {
            if request.generation.as_ref().is_some_and(|asked| *asked != head.generation_name()) {
                return Ok(nothing(Status::GenerationMismatch));
            }
            let contents = Contents::of(&mut head, self.parts(), now);
            let keys = contents.keys(VALUES, MAX_NAMES.min(request.max_keys.into()))?;
            deletion = Deletion { status: Status::Applied, values: contents.map(VALUES).entries, keys, ..deletion };
            contents.into_head(&mut head);
        }
        let parts = self.parts().keys(&all_parts(head, self.parts())?);
        store.delete_many(&[head_key(self.bucket)])?;
        if !parts.is_empty() {
            store.delete_many(&parts)?;
        }
        Ok(deletion)
    }
}
