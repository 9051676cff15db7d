//! Stores: what the host lends the component as `keepline:store`.
//!
//! A store knows buckets, keys, logs, indexes, atomicity, expiry and its own key layout, and never the meaning of
//! what it keeps. The rules that all stores share are those of `wit/deps/store`; the types are the
//! contract's own. One conformance suite (`conformance/` and `tests/stores/`) holds every store to them.

#![deny(clippy::too_many_lines)]

mod bucket;
pub mod check;
mod clock;
pub mod contract;
mod deadline;
#[cfg(feature = "directory")]
pub mod directory;
mod failure;
pub mod guard;
mod index;
mod keyvalue;
pub mod limits;
mod memory;
pub mod names;
#[cfg(feature = "redis")]
mod redis;
mod secret;
#[cfg(any(feature = "directory", feature = "redis"))]
pub mod transfer;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::future::join_all;

#[doc(inline)]
pub use self::contract::*;
#[cfg(feature = "directory")]
pub use self::directory::{DirectoryError, DirectoryOptions, DirectoryStore, DirectorySync};
use self::failure::failure;
pub use self::failure::{Failure, FailureCode};
#[doc(hidden)]
pub use self::guard::breaker::{Breaker, BreakerPermit};
#[cfg(feature = "redis")]
#[doc(hidden)]
pub use self::redis::fuzzing;
#[cfg(feature = "redis")]
pub use self::redis::{BucketDamage, CheckedBuckets, RedisOptions, RedisOptionsError, RedisStore, RepairedBuckets};
#[cfg(any(feature = "directory", feature = "redis"))]
#[doc(inline)]
pub use self::transfer::{Arrival, NotApart, RemovalOutcome, Transfer, TransferStore, Transferred};
pub use self::{
    clock::{Clock, ManualClock, SystemClock},
    deadline::Deadline,
    guard::breaker::{BreakerOptions, BreakerState},
    guard::histogram::{Histogram, Latencies},
    guard::{Health, StoreCounters, StoreGuard},
    keyvalue::{KeyValue, KeyValueError, KeyValueStore},
    memory::{MemoryLimits, MemoryStore, SessionLimitPolicy},
    secret::{Secret, masked_url},
};

/// Who sends a transaction, and which of its transactions this is: what makes a retry recognisable.
///
/// A writer has one transaction outstanding at a time and numbers them upwards. One pipe is one writer.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Random, 96 bits in base 16. Shared by all clones, so that a store in this process can tell when the last
    /// of them is gone; `None`: a placeholder.
    id: Option<Arc<str>>,
    sequence: u64,
}

impl Writer {
    /// A new writer, with a random id.
    pub fn new() -> Self {
        Self { id: Some(format!("{:024x}", fastrand::u128(..) >> 32).into()), sequence: 0 }
    }

    /// A stand-in that costs nothing to make, for where no transaction is possible.
    #[doc(hidden)]
    pub fn placeholder() -> Self {
        Self { id: None, sequence: 0 }
    }

    /// The writer that another process was: what it sent last can be sent again.
    #[doc(hidden)]
    pub fn resumed(id: &str, sequence: u64) -> Self {
        Self { id: Some(id.into()), sequence }
    }

    /// Begin a transaction: the number that all its tries carry.
    pub fn advance(&mut self) -> &Self {
        self.sequence += 1;
        self
    }

    /// The writer's name.
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// The number of the transaction at hand, from 1.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

/// A store of buckets. See the module `wit/deps/store` for what each method promises.
///
/// Each call has a deadline, by which it has to end, with [`FailureCode::TimedOut`] if need be; a store may have
/// shorter limits of its own.
///
/// Methods may be called from many tasks at once. They validate what they are given: a request may
/// come from an untrusted component.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Apply operations and steps to one bucket, all or none, in one round trip. A second call with the same
    /// writer and sequence counts once, if the store has the capability `exactly-once`.
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure>;

    /// Apply independent transactions, each on a bucket of its own, and wait once: one answer for each, in the order
    /// given. All carry the same writer and sequence, which are about their buckets. Side by side by default.
    async fn transact_each(
        &self,
        writer: &Writer,
        transactions: &[IndexedTransaction],
        deadline: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        if let Err(failure) = check::validate_batch(transactions) {
            return vec![Err(failure); transactions.len()];
        }
        join_all(transactions.iter().map(|transaction| self.transact(writer, transaction, deadline))).await
    }

    /// Delete a bucket, or just this generation of it, with all that is in it.
    async fn delete(&self, writer: &Writer, request: &DeleteRequest, deadline: Deadline) -> Result<Deletion, Failure>;

    /// Delete buckets, and wait once: one answer for each, as in [`transact_each`](Self::transact_each). Side by side by
    /// default.
    async fn delete_each(
        &self,
        writer: &Writer,
        requests: &[DeleteRequest],
        deadline: Deadline,
    ) -> Vec<Result<Deletion, Failure>> {
        if let Err(failure) = check::validate_deletions(requests) {
            return vec![Err(failure); requests.len()];
        }
        join_all(requests.iter().map(|request| self.delete(writer, request, deadline))).await
    }

    /// A page of the names of the buckets of a kind; a limit of 0 means 100.
    async fn list_buckets(
        &self,
        kind: &str,
        cursor: &str,
        limit: u32,
        deadline: Deadline,
    ) -> Result<BucketPage, Failure>;

    /// What this store can do: its capabilities, and the limits that differ from the default.
    fn about(&self) -> StoreInfo;

    /// How the store's own circuit breaker stands, if it has one, as one over several servers should: of several the
    /// worst. None: its caller's [`StoreGuard`] has one.
    fn breaker(&self) -> Option<BreakerState> {
        None
    }

    /// How many requests this store has sent over a network in its life: with retries, without what only probes a connection
    /// that is slow to answer. 0 by default.
    fn round_trips(&self) -> u64 {
        0
    }

    /// What is wrong with how the store is set up, in a sentence each, for people who operate it: as far as that can be
    /// found out. Nothing by default. Never shown to a component: it may name addresses.
    async fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the store can be used right now, for people who set it up: the error says what to mend. It is asked for
    /// something, the way entries ask, so that a circuit breaker whose cool-down is over closes when the store is back.
    /// That it can be written to is not tried. Yes by default.
    async fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}
