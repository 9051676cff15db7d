//! The whole: a plugin, a store and a configuration, from which pipes are opened.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    contract::filter::{ConfigProblem, Effect},
    lend::{Clock, Log, MAX_MESSAGE, MAX_NAME, RateLimitedLog, SystemClock, TracingLog, tame},
    pipe::Pipe,
    plugin::Plugin,
    runtime::{Due, Fault, Lent, Limits, Pool},
    sessions::Sessions,
    store::{Deadline, Store},
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
    /// How long an entry, or a call of [`Sessions`], may take in total: waiting for an instance, making one, and
    /// each of its transactions with their retries. When that time is over the store is not waited for any longer,
    /// and not asked any more, whichever store it is: the entry is forwarded without memory, with the problem code
    /// `timed-out`; a write that was under way may or may not have been applied. What a stored answer leaves
    /// undone, such as a summary of its history, is done by the next one. Default 1 s. [`Pipe::question_by`],
    /// [`Pipe::answer_by`] and [`Sessions::by`] take a deadline per call instead. The clock for it is tokio's.
    ///
    /// A store may have shorter limits of its own, as Redis has its `store_timeout`: the earlier one counts. What
    /// the plugin itself computes is limited by [`Sandbox::cpu_time`](crate::Sandbox::cpu_time), and to a quarter of
    /// a second when the time is over.
    pub entry_timeout: Duration,
    /// Default: the machine's.
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
            clock: Arc::new(SystemClock),
            log: Arc::new(TracingLog),
        }
    }
}

/// Why a Keepline can't be made, or its plugin not be replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeplineError {
    /// The component refuses an option.
    #[error("{message}")]
    Config {
        /// The option, or empty.
        field: String,
        /// What was wrong and what is allowed.
        message: String,
    },
    /// The component failed before its first entry.
    #[error("{0}")]
    Plugin(String),
}

impl From<Fault> for KeeplineError {
    fn from(fault: Fault) -> Self {
        Self::Plugin(fault.to_string())
    }
}

impl From<ConfigProblem> for KeeplineError {
    fn from(mut problem: ConfigProblem) -> Self {
        tame(&mut problem.field, MAX_NAME);
        tame(&mut problem.message, MAX_MESSAGE);
        Self::Config { field: problem.field, message: problem.message }
    }
}

/// A plugin with a store and a configuration. Cheap to clone, safe to use from many tasks.
#[derive(Clone)]
pub struct Keepline {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) max_entry_bytes: usize,
    entry_timeout: Duration,
    pub(crate) tally: Tally,
}

impl Shared {
    /// For a call that comes in now, perhaps with a deadline of its caller's.
    pub(crate) fn due(&self, deadline: Option<Deadline>) -> Due {
        deadline.map_or_else(|| Due::within(self.entry_timeout), Due::by)
    }
}

impl Keepline {
    /// Configures a first instance of the plugin. The store is not asked for anything yet.
    ///
    /// # Errors
    /// When the component refuses the options, or can't be instantiated.
    pub async fn new(plugin: Plugin, store: Arc<dyn Store>, options: Options) -> Result<Self, KeeplineError> {
        let lent = Lent { store, clock: options.clock, log: Arc::new(RateLimitedLog::new(options.log)) };
        let limits = Limits { instances: options.max_instances, waiting: options.max_waiting, wait: options.max_wait };
        let due = Due::within(options.entry_timeout);
        let shared = Shared {
            pool: Pool::new(plugin, lent, options.filter, limits, due).await??,
            on_store_error: options.on_store_error,
            max_entry_bytes: options.max_entry_bytes,
            entry_timeout: options.entry_timeout,
            tally: Tally::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A pipe: the lanes of one conversation at a time. Make as many as are wanted; they cost little.
    pub fn pipe(&self) -> Pipe {
        Pipe::new(self.shared.clone())
    }

    /// What an operator does to sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.shared.clone())
    }

    /// The filter's options in force: a JSON object, as the component tells it.
    pub fn filter_options(&self) -> Arc<str> {
        self.shared.pool.effective()
    }

    /// Goes on with another plugin, such as a new version: for all pipes and sessions of this Keepline and its
    /// clones, with the same options, store and limits. A first instance of it is configured before anything
    /// changes. Then new calls are served by the new plugin; those under way finish with the old one, whose
    /// instances are dropped as they come back. No entry fails or loses its memory by that.
    ///
    /// What the old plugin told a pipe of its question (the turn) is handed to the new one with the answer:
    /// one that can't read it has to take it for none, as the bundled filter does.
    ///
    /// # Errors
    /// When the new one refuses the options, or can't be instantiated: then the old one goes on.
    pub async fn replace_plugin(&self, plugin: Plugin) -> Result<(), KeeplineError> {
        Ok(self.shared.pool.replace(plugin, self.shared.due(None)).await??)
    }

    /// Takes no new calls, of this Keepline and its clones, and lets those under way finish within the limit.
    /// Returns how many did not: those that still waited for an instance go on without memory; those that have
    /// one, the store may still answer, if they are not dropped. A call that comes later is forwarded
    /// unchanged, as one whose store failed, with the problem code `closed`.
    pub async fn shutdown(&self, limit: Duration) -> usize {
        self.shared.pool.shut_down(limit).await
    }

    /// The store that is lent.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.pool.lent().store
    }

    /// What has become of the entries of all pipes so far.
    pub fn counters(&self) -> Counters {
        self.shared.tally.read()
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $effect:ident;)*) => {
        /// How many entries met with each fate.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// Instances of the plugin that were stopped.
            pub faults: u64,
            /// Calls that got no instance in time, those of [`Sessions`] among them.
            pub busy: u64,
        }

        #[derive(Default)]
        pub(crate) struct Tally {
            $($name: AtomicU64,)*
            faults: AtomicU64,
            busy: AtomicU64,
        }

        impl Tally {
            pub(crate) fn count(&self, effect: Effect) {
                let counter = match effect { $(Effect::$effect => &self.$name,)* };
                counter.fetch_add(1, Ordering::Relaxed);
            }

            pub(crate) fn count_fault(&self) {
                self.faults.fetch_add(1, Ordering::Relaxed);
            }

            pub(crate) fn count_busy(&self) {
                self.busy.fetch_add(1, Ordering::Relaxed);
            }

            fn read(&self) -> Counters {
                Counters {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    faults: self.faults.load(Ordering::Relaxed),
                    busy: self.busy.load(Ordering::Relaxed),
                }
            }
        }
    };
}

counters! {
    /// No session.
    passed: Passed;
    /// A malformed session id.
    ignored: Ignored;
    /// Questions of sessions with nothing to tell.
    resumed: Resumed;
    /// Questions that got their session's memory.
    enriched: Enriched;
    /// Answers stored.
    stored: Stored;
    /// Kept from being enriched or stored by a limit.
    limited: Limited;
    /// Answers whose session had ended.
    ended: Ended;
    /// The store or the plugin failed, or no instance was to be had.
    failed: Failed;
}
