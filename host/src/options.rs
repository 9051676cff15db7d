//! How a Keepline behaves.

use std::{sync::Arc, time::Duration};

use crate::{
    lend::{Clock, Log, SystemClock, TracingLog},
    store::BreakerOptions,
};

/// What becomes of an entry whose memory failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// It goes on without; the failure is logged and counted.
    #[default]
    Forward,
    /// The caller gets the error.
    Fail,
}

/// How a Keepline behaves. Start from [`Options::default`].
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Options of the component's `configure`: a JSON object. Default `{}`.
    pub filter: String,
    /// Default: forward.
    pub on_store_error: OnStoreError,
    /// Text and metadata of an entry together, bytes: a larger entry is forwarded without memory.
    /// Default 4 MiB.
    pub max_entry_bytes: usize,
    /// Instances of the plugin, which is calls that are served at one time: an instance is busy until the
    /// store has answered. Each of the bundled filter's holds some 100 KiB at rest, and 1 MiB at most: one that a
    /// large entry made grow beyond four times its first size is not kept, nor are those that are not needed for
    /// long. Default 256.
    pub max_instances: u32,
    /// Calls that may wait for an instance, in line. One more is forwarded without memory. Default 4096.
    pub max_waiting: usize,
    /// How long a call may wait for an instance; then it is forwarded without memory. Default 1 s. An entry's deadline
    /// may come before.
    pub max_wait: Duration,
    /// How long an entry, or a call of [`Sessions`](crate::Sessions), may take in total: waiting for an instance, making one, and
    /// each of its transactions with their retries. When that time is over the store is not waited for any longer,
    /// and not asked any more, whichever store it is: the entry is forwarded without memory, with the problem code
    /// `timed-out`; a write that was under way may or may not have been applied. What a stored answer leaves
    /// undone, such as a summary of its history, is done by the next one. Default 1 s. [`Pipe::ask`](crate::Pipe::ask),
    /// [`Pipe::reply`](crate::Pipe::reply) and [`Sessions::by`](crate::Sessions::by) take a deadline per call instead. The clock for it is tokio's.
    ///
    /// A store may have shorter limits of its own, as Redis has its `store_timeout`: the earlier one counts. What
    /// the plugin itself computes is limited by [`Sandbox::cpu_time`](crate::Sandbox::cpu_time), and to a quarter of
    /// a second when the time is over.
    pub entry_timeout: Duration,
    /// When a store without a circuit breaker of its own is left alone, and for how long; Redis has its own. Default:
    /// after 3 failures in a row, for half a second and then longer.
    pub breaker: BreakerOptions,
    /// The clock that the component sees, for histories. Default: the machine's. A test with a clock of its own, such as
    /// a [`ManualClock`](crate::store::ManualClock), gives it to
    /// [`MemoryStore::with_clock`](crate::store::MemoryStore::with_clock) as well, and sees sessions expire.
    pub clock: Arc<dyn Clock>,
    /// Default: [`tracing`].
    pub log: Arc<dyn Log>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: "{}".into(),
            on_store_error: OnStoreError::Forward,
            max_entry_bytes: 4 << 20,
            max_instances: 256,
            max_waiting: 4096,
            max_wait: Duration::from_secs(1),
            entry_timeout: Duration::from_secs(1),
            breaker: BreakerOptions::default(),
            clock: Arc::new(SystemClock),
            log: Arc::new(TracingLog),
        }
    }
}
