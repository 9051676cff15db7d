//! The store in this process's memory: a real one, with limits and expiry, gone when the process is.
//!
//! One mutex guards all of it. A transaction holds it for about a microsecond: one hash look-up, and
//! then what its operations take. Nothing on that way costs more with more buckets, but for the
//! logarithm that creating one and renewing a sliding expiry pay. What a transaction takes in bytes and pieces is
//! bounded by the contract's limits, and what ends is freed after the lock is given back. Expired buckets go when somebody asks
//! for them, when room is needed, and a few with each creation; where the limits ask for it, so do the sessions that were
//! used longest ago. A bucket that has expired only by a clock that was set ahead within the last minute is
//! left alone. What a bucket is, and what a transaction makes of it, is in `bucket`; here is the table of buckets, with its
//! limits.

mod slots;
mod state;
#[cfg(test)]
mod tests;
mod transact;
mod writers;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use self::state::{MemoryState, OTHERS_PER_SESSION};
use super::{
    BucketPage, Clock, Deadline, DeleteRequest, Deletion, Failure, IndexedReceipt, IndexedTransaction, Store,
    StoreInfo, SystemClock, Writer, capability, check,
    clock::{ClockReading, ClockWatch},
    limit,
    names::check_kind,
};

/// How much a [`MemoryStore`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Sessions at a time; expired ones don't count. Of buckets of other kinds there may be a hundred times as many,
    /// all kinds together.
    pub max_sessions: u64,
    /// Bytes of names, texts and records, with a fixed sum for each bucket, map, entry, log, record, lease and
    /// remembered writer that stands for what the data structures take.
    pub max_bytes: u64,
    /// What becomes of a session, or of a write, for which there is no room within them.
    pub session_limit_policy: SessionLimitPolicy,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { max_sessions: 1000, max_bytes: 256 * 1024 * 1024, session_limit_policy: SessionLimitPolicy::default() }
    }
}

/// What a store in memory does at its limits, when nothing has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionLimitPolicy {
    /// It refuses, with the failure that names the limit, and keeps what it has.
    #[default]
    Refuse,
    /// It ends the sessions that were used longest ago, whole and as few as make room: reading is use as well. Buckets of
    /// other kinds stay, and a write that could not have room without all other sessions is refused and ends none. A
    /// write that belongs to a session that was ended does not revive it. Cost: one look-up for each use.
    Evict,
}

/// All but `durable`.
const CAPABILITIES: [&str; 8] = [
    capability::ATOMIC,
    capability::COMPARE,
    capability::EXPIRING,
    capability::EXACTLY_ONCE,
    capability::POSITIONS,
    capability::LEASES,
    capability::INDEXES,
    capability::LISTING,
];

/// A store in memory. See [`Store`]. What it keeps is gone when the process is.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<MemoryState>,
}

impl MemoryStore {
    /// An empty store that uses the machine's clock.
    pub fn new(limits: MemoryLimits) -> Self {
        Self::with_clock(limits, Arc::new(SystemClock))
    }

    /// An empty store that uses the given clock.
    pub fn with_clock(limits: MemoryLimits, clock: Arc<dyn Clock>) -> Self {
        let watch = ClockWatch::new(&*clock);
        Self { clock, state: Mutex::new(MemoryState::new(limits, watch)) }
    }

    /// Works on the state, and frees what ends by that after it has released the lock.
    fn locked<T>(&self, work: impl FnOnce(&mut MemoryState, ClockReading) -> T) -> T {
        let mut state = self.state.lock();
        // The clock is read under the lock: time must not run backwards between two calls.
        let at = state.watch.read_clock(&*self.clock);
        let result = work(&mut state, at);
        let removed = std::mem::take(&mut state.removed);
        drop(state);
        drop(removed);
        result
    }

    /// How many bytes are in use, counted as [`MemoryLimits::max_bytes`] counts them.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used.all
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemoryLimits::default())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        _: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        check::validate_transaction(transaction, &CAPABILITIES)?;
        self.locked(|state, at| state.apply_transaction(at, writer, transaction))
    }

    async fn delete(&self, writer: &Writer, request: &DeleteRequest, _: Deadline) -> Result<Deletion, Failure> {
        check::validate_deletion(request)?;
        self.locked(|state, at| state.delete_bucket(at, writer, request))
    }

    async fn list_buckets(&self, kind: &str, cursor: &str, limit: u32, _: Deadline) -> Result<BucketPage, Failure> {
        check_kind(kind)?;
        Ok(self.locked(|state, at| state.slots.page(at.now_ms(), kind, cursor, limit)))
    }

    fn about(&self) -> StoreInfo {
        let max_sessions = self.state.lock().limits.max_sessions;
        let info = StoreInfo::new(&CAPABILITIES);
        match max_sessions.checked_mul(OTHERS_PER_SESSION + 1) {
            Some(buckets) => info.limited(limit::BUCKETS, buckets),
            None => info,
        }
    }
}
