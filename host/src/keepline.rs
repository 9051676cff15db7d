//! The whole: a plugin, a store and a configuration, from which pipes are opened.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    contract::filter::ConfigProblem,
    counters::{Counters, Tally},
    lend::{MAX_MESSAGE, MAX_NAME, RateLimitedLog, tame},
    maintenance::{Job, Progress},
    metrics::Metrics,
    options::Options,
    pipe::Pipe,
    plugin::Plugin,
    runtime::{Due, Fault, Instance, Lent, Limits, Pool, bounds::is_task},
    sessions::Sessions,
    shared::Shared,
    store::{BreakerOptions, Deadline, Guard, Store},
};

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
    /// A store that can't take the place of another.
    #[error("{0}")]
    Store(String),
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
    store: Arc<Guard>,
    breaker: BreakerOptions,
}

impl Keepline {
    /// Configures a first instance of the plugin. The store is not asked for anything yet.
    ///
    /// # Errors
    /// When the component refuses the options, or can't be instantiated.
    pub async fn new(plugin: Plugin, store: Arc<dyn Store>, options: Options) -> Result<Self, KeeplineError> {
        let store = Arc::new(Guard::new(store, options.breaker));
        let lent = Lent { store: store.clone(), clock: options.clock, log: Arc::new(RateLimitedLog::new(options.log)) };
        let limits = Limits { instances: options.max_instances, waiting: options.max_waiting, wait: options.max_wait };
        let due = Due::within(Instant::now(), options.entry_timeout);
        let shared = Shared {
            pool: Pool::new(plugin.program().clone(), lent, options.filter, limits, due).await??,
            on_store_error: options.on_store_error,
            max_entry_bytes: options.max_entry_bytes,
            entry_timeout: options.entry_timeout,
            tally: Tally::default(),
        };
        Ok(Self { shared: Arc::new(shared), store, breaker: options.breaker })
    }

    /// A pipe: the lanes of one conversation at a time. Make as many as are wanted; they cost little.
    pub fn pipe(&self) -> Pipe {
        Pipe::new(self.shared.clone(), self.store.clone())
    }

    /// What an operator does to sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.shared.clone(), self.store.clone())
    }

    /// The filter's options in force: a JSON object, as the component tells it.
    pub fn filter_options(&self) -> Arc<str> {
        self.shared.pool.told().effective
    }

    /// Whether questions should come with a [`Vector`](crate::pipe::Vector), as the filter is configured.
    pub fn wants_vectors(&self) -> bool {
        self.shared.pool.told().wants_vectors
    }

    /// Whether entries should come with token counts, as the filter is configured.
    pub fn wants_tokens(&self) -> bool {
        self.shared.pool.told().wants_tokens
    }

    /// One step of a [`Task`](crate::pipe::Task) that an entry's reply named, or that an earlier step goes on with. It
    /// always answers: what went wrong is its problem, and the task will be due again. Without a deadline it has
    /// [`Options::entry_timeout`]. Cost: at most three transactions one after the other.
    pub async fn advance(&self, job: &Job, by: Option<Deadline>) -> Progress {
        if !is_task(&job.task) {
            return Progress::no_task(job);
        }
        let due = self.shared.due(Instant::now(), by);
        let mut writer = None;
        let call = async |instance: &mut Instance, writer, due| instance.advance(writer, due, job).await;
        self.shared
            .call(&self.store, &mut writer, due, call)
            .await
            .map_or_else(|refusal| Progress::refused(job, &refusal), Progress::from)
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
        Ok(self.shared.pool.replace(plugin.program().clone(), self.shared.due(Instant::now(), None)).await??)
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
        self.store.store()
    }

    /// The same plugin, instances, options and limits over another store, for a tenant of its own:
    /// [`RedisStore::with_key_prefix`](crate::store::RedisStore::with_key_prefix) makes one that shares the connections,
    /// too. It costs next to nothing. What becomes of entries is counted for all together, and what the store does for
    /// each of its own.
    ///
    /// # Errors
    /// When the other store has other capabilities: the plugin was told of the first one's.
    pub fn with_store(&self, store: Arc<dyn Store>) -> Result<Self, KeeplineError> {
        if store.capabilities() != self.store.store().capabilities() {
            return Err(KeeplineError::Store("the other store has other capabilities".into()));
        }
        let store = Arc::new(Guard::new(store, self.breaker));
        Ok(Self { shared: self.shared.clone(), store, breaker: self.breaker })
    }

    /// Counters, latencies and gauges.
    pub fn metrics(&self) -> Metrics {
        let (instances_at_work, instances_idle, calls_waiting) = self.shared.pool.gauges();
        Metrics {
            entries: self.counters(),
            questions: self.shared.tally.questions.read(),
            answers: self.shared.tally.answers.read(),
            store: self.store.counters(),
            instances_at_work,
            instances_idle,
            calls_waiting,
        }
    }

    /// What has become of the entries of all pipes so far.
    pub fn counters(&self) -> Counters {
        self.shared.tally.read()
    }
}
