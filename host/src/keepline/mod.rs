//! The library's centre: a plugin, a store and a configuration, from which pipes are opened.

pub(crate) mod inner;
pub(crate) mod metrics;
pub(crate) mod options;
mod store_probe;

use std::{sync::Arc, time::Duration};

use keepline_json as json;
use keepline_options::bucket_names::SessionIds;
use tokio::time::Instant;

use self::metrics::Metrics;
use crate::{
    contract::shared,
    embedding::{EmbeddingMetrics, EmbeddingScheduler},
    entry::{
        Problem, Vector,
        task::{Job, ModelError, NeedResult, Progress},
    },
    keepline::inner::{
        IdleWriters, KeeplineInner, UnusableIds,
        counters::{Counters, Tally},
    },
    keepline::options::Options,
    logging::{MAX_MESSAGE, MAX_NAME, RateLimitedLog, make_printable},
    pipe::{OpenTurns, Pipe},
    plugin::Plugin,
    runtime::{
        CallDeadline, Exports, HostServices, InstancePool, PluginFault, PluginInstance, PluginWorld, PoolLimits,
        TaskSubject, is_valid_task,
    },
    sessions::Sessions,
    store::{BreakerOptions, Deadline, Failure, Health, Store, StoreGuard},
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
    /// [`Options::require_store`], and the store can't be used.
    #[error("the store can't be used: {} (require_store)", .0.message)]
    StoreUnusable(Failure),
    /// The component failed before its first entry.
    #[error("{0}")]
    Plugin(String),
}

impl From<PluginFault> for KeeplineError {
    fn from(fault: PluginFault) -> Self {
        Self::Plugin(fault.to_string())
    }
}

impl From<shared::Problem> for KeeplineError {
    /// The one of `configure`.
    fn from(shared::Problem { mut subject, mut message, .. }: shared::Problem) -> Self {
        make_printable(&mut subject, MAX_NAME);
        make_printable(&mut message, MAX_MESSAGE);
        Self::Config { field: subject, message }
    }
}

/// A plugin with a store and a configuration. Cheap to clone, safe to use from many tasks.
#[derive(Clone)]
pub struct Keepline {
    pub(crate) inner: Arc<KeeplineInner>,
    pub(crate) store: Arc<StoreGuard>,
    breaker: BreakerOptions,
    world: PluginWorld,
}

/// # Errors
/// When the plugin is something else.
fn require_world(plugin: &Plugin, world: PluginWorld) -> Result<(), KeeplineError> {
    if plugin.program().world() == world {
        return Ok(());
    }
    let (is, wanted) = match world {
        PluginWorld::Filter => ("pipelines", "a filter: it does not export keepline:memory/lanes@0.3.0"),
        PluginWorld::Pipelines => ("a filter", "pipelines: it does not export keepline:pipelines/runs@0.3.0"),
    };
    Err(KeeplineError::Plugin(format!("the plugin is {is} and not {wanted}")))
}

impl Keepline {
    /// Configures a first instance of the plugin. The store is not asked for anything yet, unless
    /// [`Options::require_store`] says so.
    ///
    /// # Errors
    /// When the component refuses the options, or can't be instantiated; when the store can't be used and is required.
    pub async fn new(plugin: Plugin, store: Arc<dyn Store>, options: Options) -> Result<Self, KeeplineError> {
        Self::of_world(PluginWorld::Filter, plugin, store, options).await
    }

    /// The same for a plugin of either world.
    pub(crate) async fn of_world(
        world: PluginWorld,
        plugin: Plugin,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Self, KeeplineError> {
        require_world(&plugin, world)?;
        let store = Arc::new(StoreGuard::new(store, options.breaker));
        let tally = Tally::default();
        let services = HostServices {
            store: store.clone(),
            clock: options.clock,
            log: Arc::new(RateLimitedLog::new(options.log)),
            memory: Arc::default(),
            denied: tally.denied.clone(),
            named: Arc::default(),
        };
        let limits = PoolLimits {
            instances: options.max_instances,
            waiting: options.max_waiting,
            wait: options.max_wait,
            breaker: options.plugin_breaker,
        };
        let due = CallDeadline::within(Instant::now(), options.entry_timeout);
        let embeddings = options
            .embedder
            .map(|embedder| EmbeddingScheduler::new(embedder, options.embedding_wait, services.log.clone()));
        let session_ids = SessionIds::of_options(&options.filter);
        let inner = KeeplineInner {
            session_ids,
            unusable_ids: UnusableIds::default(),
            requires_node: json::member(&options.filter, "require_node") == Some("true"),
            pool: InstancePool::new(plugin.program().clone(), services, options.filter, limits, due).await??,
            on_store_error: options.on_store_error,
            max_entry_bytes: options.max_entry_bytes,
            entry_timeout: options.entry_timeout,
            tally,
            token_counter: options.token_counter,
            file_resolver: options.file_resolver,
            assembly: options.assembly,
            embeddings,
            writers: IdleWriters::default(),
        };
        if options.require_store
            && let Some(problem) = store.check(Deadline::after(options.entry_timeout)).await.problem
        {
            return Err(KeeplineError::StoreUnusable(problem));
        }
        if let Some(interval) = options.probe_interval {
            let log = inner.pool.services().log.clone();
            tokio::spawn(store_probe::probe_idle_store(Arc::downgrade(&store), log, interval, options.entry_timeout));
        }
        Ok(Self { inner: Arc::new(inner), store, breaker: options.breaker, world })
    }

    /// A pipe: the lanes of one stream of entries. Make as many as are wanted; they cost little.
    pub fn pipe(&self) -> Pipe {
        Pipe::new(self.inner.clone(), self.store.clone())
    }

    /// The turns of a stream of entries that several pipes serve.
    pub fn open_turns(&self) -> OpenTurns {
        OpenTurns::new(self.inner.clone())
    }

    /// What an operator does to sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.inner.clone(), self.store.clone())
    }

    /// The filter's options in force, as the component tells them: one JSON object, on one line. `{}` if it tells
    /// anything else, or more than 1 MiB.
    pub fn filter_options(&self) -> Arc<str> {
        self.inner.pool.plugin_info().effective
    }

    /// What the store can't promise and the filter's configuration relies on.
    pub fn warnings(&self) -> Vec<Problem> {
        self.inner.pool.plugin_info().warnings.iter().cloned().map(Problem::from).collect()
    }

    /// Which ids sessions may have, and what their buckets are called.
    pub fn session_ids(&self) -> SessionIds {
        self.inner.session_ids
    }

    /// Whether questions should come with a [`Vector`](crate::pipe::Vector), as the filter is configured.
    pub fn wants_vectors(&self) -> bool {
        self.inner.pool.plugin_info().wants_vectors
    }

    /// Whether entries should come with token counts, as the filter is configured.
    pub fn wants_tokens(&self) -> bool {
        self.inner.pool.plugin_info().wants_tokens
    }

    /// One step of a [`Task`](crate::pipe::Task) that an entry's reply named, or that an earlier step goes on with. It
    /// always answers: what went wrong is its problem, and the task will be due again. Without a deadline it has
    /// [`Options::entry_timeout`]. A task about a session and a user reaches the user's bucket only if entries of both have named
    /// it, or the user's list has the session. Cost: at most three transactions one after the other, and one more to look at
    /// that list.
    pub async fn advance(&self, job: &Job, by: Option<Deadline>) -> Progress {
        let subject = TaskSubject::of(&job.task.buckets).filter(|_| is_valid_task(&job.task));
        let Some(subject) = subject else { return Progress::invalid_task(job) };
        let sessions = match by {
            Some(deadline) => self.sessions().by(deadline),
            None => self.sessions(),
        };
        let scope = match sessions.task_scope(subject).await {
            Ok(scope) => scope,
            Err(error) => return Progress::failed(job, error.into()),
        };
        let due = self.inner.call_deadline(Instant::now(), by);
        let vectors: Vec<_> = job.results.iter().map(NeedResult::vectors).collect();
        let results: Vec<_> =
            job.results.iter().zip(&vectors).map(|(result, vectors)| result.to_contract(vectors)).collect();
        let call = async |instance: &mut PluginInstance, writer, due| {
            let call = async |exports: &Exports, store: &mut _| match exports.tasks() {
                Ok(tasks) => tasks.call_advance(store, job.to_contract(&results)).await,
                Err(problem) => Ok(job.refused(problem)),
            };
            instance.call(writer, due, scope, call).await
        };
        self.inner
            .call_instance(&self.store, due, call)
            .await
            .map_or_else(|refusal| Progress::refused(job, &refusal), Progress::from)
    }

    /// What [`Options::embedder`] makes of these texts, in order, however long it takes: for those who run tasks by
    /// themselves, and for questions that may wait. A vector without data is that of a text that the model refuses; where
    /// it refuses several, the last texts may have none yet, and a task needs them again. None: there is no embedder.
    ///
    /// # Errors
    /// When it fails, or what it makes is of no use.
    pub async fn embed(&self, texts: &[String]) -> Result<Option<Vec<Vector>>, ModelError> {
        match &self.inner.embeddings {
            Some(desk) => desk.embed(texts).await.map(Some),
            None => Ok(None),
        }
    }

    /// Goes on with another plugin, such as a new version: for all pipes and sessions of this Keepline and its
    /// clones, with the same options, store and limits. A first instance of it is configured before anything
    /// changes. Then new calls are served by the new plugin; those under way finish with the old one, whose
    /// instances are dropped as they come back. No entry fails or loses its memory by that.
    ///
    /// The turn state that the old plugin returned for a question is passed to the new one with the answer:
    /// one that can't read it has to take it for none, as the bundled filter does.
    ///
    /// # Errors
    /// When the new one refuses the options, or can't be instantiated: then the old one goes on.
    pub async fn replace_plugin(&self, plugin: Plugin) -> Result<(), KeeplineError> {
        require_world(&plugin, self.world)?;
        Ok(self
            .inner
            .pool
            .replace_program(plugin.program().clone(), self.inner.call_deadline(Instant::now(), None))
            .await??)
    }

    /// Takes no new calls, of this Keepline and its clones, and lets those under way finish within the limit.
    /// Returns how many did not: those that still waited for an instance go on without memory; those that have
    /// one, the store may still answer, if they are not dropped. A call that comes later is forwarded
    /// unchanged, as one whose store failed, with the problem code `closed`.
    pub async fn shutdown(&self, limit: Duration) -> usize {
        self.inner.pool.shut_down(limit).await
    }

    /// The store that is lent.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.store.store()
    }

    /// The same plugin, options and limits over another store, for a tenant of its own, and under the default
    /// [`Isolation`](crate::Isolation) with instances of its own out of the same number:
    /// [`RedisStore::with_key_prefix`](crate::store::RedisStore::with_key_prefix) makes one that shares the connections,
    /// too. It costs next to nothing. What becomes of entries is counted for all together, and what the store does for
    /// each of its own.
    ///
    /// # Errors
    /// When the other store has other capabilities or limits: the plugin was configured for the first one's.
    pub fn with_store(&self, store: Arc<dyn Store>) -> Result<Self, KeeplineError> {
        if store.about() != *self.store.about() {
            return Err(KeeplineError::Store("the other store has other capabilities or limits".into()));
        }
        let store = Arc::new(StoreGuard::new(store, self.breaker));
        Ok(Self { inner: self.inner.clone(), store, breaker: self.breaker, world: self.world })
    }

    /// The same over a store that is guarded already.
    pub(crate) fn over(&self, store: &Arc<StoreGuard>) -> Self {
        Self { store: store.clone(), ..self.clone() }
    }

    /// Looks whether the store can be used, as an entry would find it, by the deadline or else within
    /// [`Options::entry_timeout`]. It is a call of the store as others are: one that the circuit breaker keeps back is
    /// reported as a problem, and one that succeeds closes it. Cost: one request to each server; for a store in this
    /// process none.
    pub async fn health(&self, by: Option<Deadline>) -> Health {
        self.store.check(by.unwrap_or_else(|| Deadline::after(self.inner.entry_timeout))).await
    }

    /// Counters, latencies and gauges.
    pub fn metrics(&self) -> Metrics {
        let (instances_at_work, instances_idle, calls_waiting) = self.inner.pool.read_gauges();
        Metrics {
            entries: self.counters(),
            skips: *self.inner.tally.skips.lock(),
            questions: self.inner.tally.questions.read(),
            answers: self.inner.tally.answers.read(),
            memories: *self.inner.tally.memories.lock(),
            store: self.store.counters(),
            instances_at_work,
            instances_idle,
            instances_bytes: self.inner.pool.held_bytes(),
            is_plugin_left_alone: self.inner.pool.is_left_alone(),
            calls_waiting,
            embeddings: self.inner.embeddings.as_ref().map_or_else(EmbeddingMetrics::default, |desk| desk.metrics()),
        }
    }

    /// What has become of the entries of all pipes so far.
    pub fn counters(&self) -> Counters {
        self.inner.tally.read_entries()
    }
}
