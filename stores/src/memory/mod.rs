//! The store in this process's memory: a real one, with limits and expiry, gone when the process is.
//!
//! One mutex guards all of it. A transaction holds it for about a microsecond: one hash look-up, and
//! then what its operations take. Nothing on that way costs more with more buckets, but for the
//! logarithm that creating one and renewing a sliding expiry pay. Expired buckets go when somebody asks
//! for them, when room is needed, and a few with each creation. What a bucket is, and what a transaction makes of
//! it, is in `bucket`; here is the table of buckets, with its limits.

mod shelves;
mod state;
#[cfg(test)]
mod tests;
mod transact;
mod writers;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;

use self::state::State;
use super::{
    BucketId, BucketKind, BucketPage, Clock, Deadline, Deletion, Failure, Receipt, Store, StoreCapabilities,
    SystemClock, Transaction, Writer,
    clock::micros,
    names::{check_bucket, check_token},
    request,
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
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { max_sessions: 1000, max_bytes: 256 * 1024 * 1024 }
    }
}

const CAPABILITIES: StoreCapabilities = StoreCapabilities {
    atomic: true,
    expiring: true,
    exactly_once: true,
    durable: false,
    listing: true,
    leases: true,
    indexes: false,
};

/// A store in memory. See [`Store`]. It has no indexes, and what it keeps is gone when the process is.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store that goes by the machine's clock.
    pub fn new(limits: MemoryLimits) -> Self {
        Self::with_clock(limits, Arc::new(SystemClock))
    }

    /// An empty store that goes by the given clock.
    pub fn with_clock(limits: MemoryLimits, clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::new(State::new(limits)) }
    }

    /// Microseconds since 1970.
    fn now(&self) -> u64 {
        micros(self.clock.now())
    }

    /// How many bytes are in use, counted as [`MemoryLimits::max_bytes`] counts them.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().bytes
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemoryLimits::default())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn transact(&self, writer: &Writer, transaction: &Transaction, _: Deadline) -> Result<Receipt, Failure> {
        request::check(transaction, &CAPABILITIES)?;
        // The clock is read under the lock: time must not run backwards between two transactions.
        let mut state = self.state.lock();
        state.transact(self.now(), writer, transaction)
    }

    async fn list_buckets(
        &self,
        kind: BucketKind,
        cursor: &str,
        limit: u32,
        _: Deadline,
    ) -> Result<BucketPage, Failure> {
        let state = self.state.lock();
        Ok(state.shelves.of(kind).list(self.now() / 1000, cursor, limit))
    }

    async fn delete_bucket(
        &self,
        writer: &Writer,
        bucket: &BucketId,
        incarnation: Option<&str>,
        max_keys: u32,
        _: Deadline,
    ) -> Result<Deletion, Failure> {
        check_bucket(bucket)?;
        if let Some(incarnation) = incarnation {
            check_token("incarnation", incarnation)?;
        }
        let mut state = self.state.lock();
        state.delete(self.now() / 1000, writer, bucket, incarnation, max_keys)
    }

    fn capabilities(&self) -> StoreCapabilities {
        CAPABILITIES
    }
}
