//! Options of a Keepline: limits, time-outs, and the services that an embedder brings.

pub(crate) mod filter;

use std::{sync::Arc, time::Duration};

use crate::{
    embedding::Embedder,
    entry::{files::FileResolver, sections::Assembly, tokens::TokenCounter},
    logging::{Clock, Log, SystemClock, TracingLog},
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
    /// the plugin itself computes is limited by [`Sandbox::cpu_time`](crate::Sandbox::cpu_time); it is stopped a quarter
    /// of a second after the time is over.
    pub entry_timeout: Duration,
    /// Whether a Keepline can be made only if the store can be used then. Without it, the store is not asked for anything
    /// before the first entry. Default false: the memory is never the reason that nothing goes on.
    pub require_store: bool,
    /// How long the store must be idle before it is probed ([`Keepline::health`](crate::Keepline::health)):
    /// so a circuit breaker closes without an entry, and an outage is logged before one meets it. A task of tokio's does
    /// it, for the store that the Keepline was made with. Default none: it is not looked at.
    pub probe_interval: Option<Duration>,
    /// When a store without a circuit breaker of its own is left alone, and for how long; Redis has its own. Default:
    /// after 3 failures in a row, for half a second and then longer.
    pub breaker: BreakerOptions,
    /// When a plugin that is stopped time after time is left alone, and for how long. Meanwhile entries are forwarded
    /// without memory, with the problem code `plugin`, at no cost; then one entry tries again. Default: after 5 entries
    /// in a row, for a second and then longer, up to ten.
    pub plugin_breaker: BreakerOptions,
    /// The clock that the component sees, for histories. Default: the machine's. A test with a clock of its own, such as
    /// a [`ManualClock`](crate::store::ManualClock), gives it to
    /// [`MemoryStore::with_clock`](crate::store::MemoryStore::with_clock) as well, and sees sessions expire.
    pub clock: Arc<dyn Clock>,
    /// Default: [`tracing`].
    pub log: Arc<dyn Log>,
    /// Who counts the tokens of what is said in conversations. Counts that an entry comes with are kept. Default none: they
    /// are estimated.
    pub token_counter: Option<Arc<dyn TokenCounter>>,
    /// Who makes embeddings, if the filter wants them. Default none: questions and passages go without.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// How long a question may wait for its embedding; then it goes without. What comes later is kept for the next time.
    /// It is part of [`Self::entry_timeout`]. Default 150 ms; zero: questions always go without.
    pub embedding_wait: Duration,
    /// What questions gain from declared memories: their metadata's `memory_sections`. It is assembled beside the filter's work,
    /// within the entry's deadline; what is late is left out, and logged. Default none.
    pub assembly: Option<Assembly>,
    /// Who knows where the files are that messages refer to. Default none: references are attached as they were given.
    pub file_resolver: Option<Arc<dyn FileResolver>>,
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
            require_store: false,
            probe_interval: None,
            breaker: BreakerOptions::default(),
            plugin_breaker: BreakerOptions { failures: 5, cooldown: Duration::from_secs(1) },
            clock: Arc::new(SystemClock),
            log: Arc::new(TracingLog),
            token_counter: None,
            embedder: None,
            embedding_wait: Duration::from_millis(150),
            assembly: None,
            file_resolver: None,
        }
    }
}
