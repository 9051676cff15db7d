//! The state of a store in memory: all buckets within its limits, and how they end.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use hashlink::LinkedHashSet;

use super::{
    MemoryLimits,
    slots::{BucketSlot, BucketSlots, is_session, slot_cost},
    writers::MEMORY_MS,
};
use crate::{
    BucketId, DeleteRequest, Deletion, Failure, FailureCode, Status, Writer,
    bucket::{Bucket, Removed},
    clock::{ClockReading, ClockWatch},
    failure::{expiry_in_doubt, failure},
};

/// How many dead buckets a creation clears away at most. More than one, so that the dead become fewer
/// even while buckets are created as fast as they can be.
pub(super) const PRUNED_PER_CREATION: usize = 4;
/// How many deleted or expired buckets have their writers remembered at most.
pub(super) const MAX_RETIRED: usize = 4096;
/// How many buckets that are no sessions there may be for each session that there may be.
pub(super) const OTHERS_PER_SESSION: u64 = 100;

/// A bucket and an instant, in milliseconds.
type Appointment = (u64, Arc<BucketId>);

/// Bytes in use.
#[derive(Debug, Default)]
pub(super) struct UsedBytes {
    pub(super) all: u64,
    /// Of these, what is in sessions: what could be had by ending them. Their places are not in it.
    pub(super) in_sessions: u64,
}

impl UsedBytes {
    /// A bucket holds so much more, or less.
    pub(super) fn grow_bucket(&mut self, id: &BucketId, growth: i64) {
        self.grow_beside(growth);
        if is_session(id) {
            self.in_sessions = self.in_sessions.saturating_add_signed(growth);
        }
    }

    pub(super) fn shrink_bucket(&mut self, id: &BucketId, bytes: u64) {
        self.grow_bucket(id, bytes.cast_signed().saturating_neg());
    }

    /// What is beside the buckets takes so much more, or less.
    pub(super) fn grow_beside(&mut self, growth: i64) {
        self.all = self.all.saturating_add_signed(growth);
    }
}

#[derive(Debug)]
pub(super) struct MemoryState {
    pub(super) limits: MemoryLimits,
    pub(super) watch: ClockWatch,
    pub(super) slots: BucketSlots,
    /// The buckets that expire, soonest first.
    pub(super) expiries: BTreeSet<Appointment>,
    /// Slots without a bucket, longest ago first. One that is used again leaves its entry behind, to be
    /// ignored when its turn comes.
    retired: VecDeque<Appointment>,
    pub(super) used: UsedBytes,
    /// The sessions, least recently used first, if those may be ended for others. Else it is empty.
    pub(super) recency: LinkedHashSet<Arc<BucketId>>,
    /// What has ended, to be freed after the lock is released.
    pub(super) removed: Vec<Removed>,
    /// Microseconds; so that two creations never share a stamp.
    pub(super) last_stamp: u64,
}

impl MemoryState {
    pub(super) fn new(limits: MemoryLimits, watch: ClockWatch) -> Self {
        Self {
            recency: LinkedHashSet::new(),
            limits,
            watch,
            slots: BucketSlots::default(),
            expiries: BTreeSet::new(),
            retired: VecDeque::new(),
            used: UsedBytes::default(),
            removed: Vec::new(),
            last_stamp: 0,
        }
    }

    pub(super) fn slot_mut(&mut self, id: &BucketId) -> Option<&mut BucketSlot> {
        self.slots.by_id.get_mut(id)
    }

    /// The bucket's slot, there from now on, with the writer's transaction noted as applied.
    pub(super) fn slot_to_write(&mut self, now_ms: u64, writer: &Writer, id: &BucketId) -> &mut BucketSlot {
        let slot = self.slots.by_id.entry(Arc::new(id.clone())).or_insert_with_key(|id| {
            self.used.grow_beside(slot_cost(id).cast_signed());
            BucketSlot::new(id.clone())
        });
        self.used.grow_beside(slot.writers.remember(writer, now_ms));
        slot
    }

    pub(super) fn delete_bucket(
        &mut self,
        at: ClockReading,
        writer: &Writer,
        request: &DeleteRequest,
    ) -> Result<Deletion, Failure> {
        let DeleteRequest { bucket: id, generation, max_keys } = request;
        let clock_ms = at.now_ms();
        let mut now_ms = clock_ms;
        if let Some(slot) = self.slot_mut(id) {
            now_ms = slot.bucket.as_mut().map_or(clock_ms, |bucket| bucket.advance_time(clock_ms));
            if slot.writers.has_seen(writer, now_ms) {
                return Ok(deleted_nothing(Status::Repeated, now_ms));
            }
            let bucket = slot.bucket.as_ref().filter(|bucket| !bucket.expiry.is_over(now_ms));
            if bucket.is_some_and(|bucket| bucket.expiry.is_over(at.shown_ms())) {
                return Err(expiry_in_doubt());
            }
            if let (Some(bucket), Some(asked)) = (bucket, generation)
                && bucket.generation != *asked
            {
                return Ok(deleted_nothing(Status::GenerationMismatch, now_ms));
            }
        }
        // What deletes nothing is not recorded.
        let Some(slot) = self.slot_mut(id) else { return Ok(deleted_nothing(Status::Absent, now_ms)) };
        let deletion = match &slot.bucket {
            None => return Ok(deleted_nothing(Status::Absent, now_ms)),
            Some(bucket) if bucket.expiry.is_over(now_ms) => deleted_nothing(Status::Expired, now_ms),
            Some(bucket) => {
                let deletion = bucket.deletion_reply(now_ms, *max_keys);
                // More room than for transactions: a bucket that is flooded by them can still be deleted.
                slot.writers.check_room(writer, now_ms, 2)?;
                self.slot_to_write(now_ms, writer, id);
                deletion
            }
        };
        self.retire_bucket(now_ms, id);
        Ok(deletion)
    }

    /// Clear away some of what is dead, and make sure that there may be one more bucket.
    pub(super) fn make_place(&mut self, clock_ms: u64, id: &BucketId) -> Result<(), Failure> {
        for _ in 0..PRUNED_PER_CREATION {
            if !self.bury_an_expired_one(clock_ms) {
                break;
            }
        }
        for _ in 0..PRUNED_PER_CREATION {
            if self.retired.front().is_none_or(|(at, ..)| at.saturating_add(MEMORY_MS) > clock_ms) {
                break;
            }
            self.forget_a_retired_one();
        }
        let is_session = is_session(id);
        if is_session && self.slots.count_sessions() as u64 >= self.limits.max_sessions {
            self.evict(clock_ms, None);
        }
        let (there, limit, what) = if is_session {
            (self.slots.count_sessions(), self.limits.max_sessions, "sessions")
        } else {
            let limit = self.limits.max_sessions.saturating_mul(OTHERS_PER_SESSION);
            (self.slots.count_others(), limit, "buckets that are no sessions")
        };
        if there as u64 >= limit {
            let message = format!("Maximum {what} ({limit}) reached");
            return Err(Failure { limit, ..failure(FailureCode::TooManyBuckets, "", message) });
        }
        Ok(())
    }

    /// Make sure that a bucket can take `growth` bytes more, or fail and say that the store is full. What is
    /// cleared away for it was dead already, or is a session that was used longest ago, so each bucket pays for its own
    /// clearing once.
    pub(super) fn make_room(&mut self, clock_ms: u64, growth: i64, id: &BucketId) -> Result<(), Failure> {
        while growth > 0 && self.used.all.saturating_add_signed(growth) > self.limits.max_bytes {
            if !self.bury_an_expired_one(clock_ms)
                && !self.forget_a_retired_one()
                && !self.evict_for_room(clock_ms, growth, id)
            {
                let limit = self.limits.max_bytes;
                let message = format!("the store in memory is full ({limit} bytes)");
                return Err(Failure { limit, ..failure(FailureCode::Full, "", message) });
            }
        }
        Ok(())
    }

    /// End the session that was used longest ago, but not the one at hand, if sessions may be ended for others.
    fn evict(&mut self, clock_ms: u64, at_hand: Option<&BucketId>) -> bool {
        let oldest = self.recency.iter().find(|session| Some(&***session) != at_hand).cloned();
        let Some(oldest) = oldest else { return false };
        self.retire_bucket(clock_ms, &oldest);
        true
    }

    /// The same to have room for a bucket; not if there would be none even without all other sessions.
    fn evict_for_room(&mut self, clock_ms: u64, growth: i64, id: &BucketId) -> bool {
        let at_hand = is_session(id).then_some(id);
        let own = at_hand.and_then(|id| self.slots.by_id.get(id)?.bucket.as_ref());
        let others = self.used.in_sessions.saturating_sub(own.map_or(0, Bucket::cost));
        let least = self.used.all.saturating_sub(others).saturating_add_signed(growth);
        least <= self.limits.max_bytes && self.evict(clock_ms, at_hand)
    }

    /// End the bucket that expired first, if one has.
    fn bury_an_expired_one(&mut self, clock_ms: u64) -> bool {
        let first = self.expiries.first().filter(|(expires_at, ..)| *expires_at <= clock_ms);
        let Some((_, id)) = first.cloned() else { return false };
        self.retire_bucket(clock_ms, &id);
        true
    }

    /// End a bucket, if it is there, and keep its writers in mind if one may still retry.
    pub(super) fn retire_bucket(&mut self, now_ms: u64, id: &BucketId) {
        let Some(slot) = self.slots.by_id.get_mut(id) else { return };
        let id = slot.id.clone();
        let remembers_any = slot.writers.remembers_any(now_ms);
        slot.retired_at = now_ms;
        if let Some(bucket) = slot.bucket.take() {
            self.forget_bucket(bucket, &id);
        }
        if !remembers_any {
            self.vacate(&id);
            return;
        }
        self.retired.push_back((now_ms, id));
        if self.retired.len() > MAX_RETIRED {
            self.forget_a_retired_one();
        }
    }

    /// Give back what a bucket took that has been taken from its slot.
    pub(super) fn forget_bucket(&mut self, bucket: Bucket, id: &Arc<BucketId>) {
        self.used.shrink_bucket(id, bucket.cost());
        self.recency.remove(id);
        self.slots.unlist(id);
        if let Some(expires_at) = bucket.expiry.at {
            self.expiries.remove(&(expires_at, id.clone()));
        }
        self.removed.push(Box::new(bucket));
    }

    /// Forget the writers of the bucket that ended longest ago.
    pub(super) fn forget_a_retired_one(&mut self) -> bool {
        let Some((at, id)) = self.retired.pop_front() else { return false };
        let slot = self.slots.by_id.get(&id);
        if slot.is_some_and(|slot| slot.bucket.is_none() && slot.retired_at == at) {
            self.vacate(&id);
        }
        true
    }

    fn vacate(&mut self, id: &BucketId) {
        if let Some(slot) = self.slots.by_id.remove(id) {
            self.used.grow_beside(slot.cost().cast_signed().saturating_neg());
        }
    }
}

fn deleted_nothing(status: Status, now: u64) -> Deletion {
    Deletion { status, now, values: 0, keys: Vec::new() }
}
