//! The whole: a plugin, a store and a configuration, from which pipes are opened.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    contract::filter::Effect,
    lend::{Clock, Log, MAX_MESSAGE, MAX_NAME, RateLimitedLog, SystemClock, TracingLog, tame},
    pipe::Pipe,
    plugin::Plugin,
    runtime::{Lent, Pool},
    sessions::Sessions,
    store::Store,
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
            clock: Arc::new(SystemClock),
            log: Arc::new(TracingLog),
        }
    }
}

/// Why a Keepline can't be made.
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

/// A plugin with a store and a configuration. Cheap to clone, safe to use from many tasks.
#[derive(Clone)]
pub struct Keepline {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) pool: Arc<Pool>,
    pub(crate) effective: String,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) max_entry_bytes: usize,
    pub(crate) tally: Tally,
}

impl Keepline {
    /// Configures a first instance of the plugin. The store is not asked for anything yet.
    ///
    /// # Errors
    /// When the component refuses the options, or can't be instantiated.
    pub async fn new(plugin: Plugin, store: Arc<dyn Store>, options: Options) -> Result<Self, KeeplineError> {
        let lent = Lent { store, clock: options.clock, log: Arc::new(RateLimitedLog::new(options.log)) };
        let made = Pool::new(plugin, lent, options.filter).await;
        let (pool, effective) =
            made.map_err(|fault| KeeplineError::Plugin(fault.to_string()))?.map_err(|mut problem| {
                tame(&mut problem.field, MAX_NAME);
                tame(&mut problem.message, MAX_MESSAGE);
                KeeplineError::Config { field: problem.field, message: problem.message }
            })?;
        let shared = Shared {
            pool,
            effective,
            on_store_error: options.on_store_error,
            max_entry_bytes: options.max_entry_bytes,
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
    pub fn filter_options(&self) -> &str {
        &self.shared.effective
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
        }

        #[derive(Default)]
        pub(crate) struct Tally {
            $($name: AtomicU64,)*
            faults: AtomicU64,
        }

        impl Tally {
            pub(crate) fn count(&self, effect: Effect) {
                let counter = match effect { $(Effect::$effect => &self.$name,)* };
                counter.fetch_add(1, Ordering::Relaxed);
            }

            pub(crate) fn count_fault(&self) {
                self.faults.fetch_add(1, Ordering::Relaxed);
            }

            fn read(&self) -> Counters {
                Counters {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    faults: self.faults.load(Ordering::Relaxed),
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
    /// The store or the plugin failed.
    failed: Failed;
}
