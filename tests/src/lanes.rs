//! The whole filter, as an embedder has it: the compiled component on a store, with a clock that stands
//! still, a log that is kept, and a store that is watched and can be made to fail.

use std::{
    env,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use keepline::{
    CodeCache, Counters, Deadline, EntryError, Keepline, KeeplineError, Options, Passed, Pipe, Plugin, PluginError,
    Sandbox, Sessions,
    logging::{Clock, Log, LogLevel},
    pipe::{Answer, Effect, ProblemCode, Question, Task, TaskBucket},
    store::{
        DeleteRequest, Deletion, Failure, FailureCode, IndexedReceipt, IndexedTransaction, Receipt, Store, Writer,
    },
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    intercept::{Intercept, Intercepted},
    requests::{describe, transaction, unused},
};

/// The default sandbox, with compiled code kept in the target directory for all tests; unless that is where others can
/// write to, as with a umask of 002: then each process compiles.
pub fn sandbox() -> Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    let make = || {
        // target/<profile>/deps/<test>
        let test = env::current_exe().unwrap();
        let mut sandbox = Sandbox::default();
        // A compiler of a test build takes half of the usual time, and on a busy machine all of it.
        sandbox.plugin.compile_time = Duration::from_secs(60);
        sandbox.cache = CodeCache::At(test.ancestors().nth(3).unwrap().join("tmp/compiled"));
        if let Err(PluginError::UntrustedCache { .. }) = Plugin::bundled(&sandbox) {
            sandbox.cache = CodeCache::Off;
        }
        sandbox
    };
    SANDBOX.get_or_init(make).clone()
}

/// The bundled filter, compiled once a process.
pub fn plugin() -> Plugin {
    static PLUGIN: OnceLock<Plugin> = OnceLock::new();
    PLUGIN.get_or_init(|| Plugin::bundled(&sandbox()).unwrap()).clone()
}

/// A filter at work: one pipe, the operator's calls, and all that is lent.
pub struct Node {
    /// The host.
    pub keepline: Keepline,
    /// A pipe that nobody else uses.
    pub pipe: Pipe,
    /// The operator's calls.
    pub sessions: Sessions,
    /// The store, watched.
    pub store: Arc<Watched>,
    /// All that was logged.
    pub log: Arc<KeptLog>,
    /// What the component takes for the time.
    pub clock: Arc<StillClock>,
}

impl Node {
    /// A filter with these options on a store.
    pub async fn new(store: &Arc<dyn Store>, filter: &str) -> Self {
        Self::with(store, filter, |_| {}).await
    }

    /// A filter whose host has options of its own, too.
    pub async fn with(store: &Arc<dyn Store>, filter: &str, change: impl FnOnce(&mut Options)) -> Self {
        Self::of(plugin(), store, filter, change).await.unwrap()
    }

    /// A filter of a certain plugin.
    ///
    /// # Errors
    /// When the component refuses the options.
    pub async fn of(
        plugin: Plugin,
        store: &Arc<dyn Store>,
        filter: &str,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, KeeplineError> {
        let store = Arc::new(Intercepted::new(store.clone(), Watch::default()));
        let (log, clock) = (Arc::new(KeptLog::default()), Arc::new(StillClock::default()));
        let mut options = Options::default();
        options.filter = filter.into();
        (options.log, options.clock) = (log.clone(), clock.clone());
        // However busy the machine is: who tests the time that an entry has sets it.
        options.entry_timeout = Duration::from_secs(60);
        // Nor is a store left alone because it fails: who tests that sets it.
        options.breaker.failures = u32::MAX;
        change(&mut options);
        let keepline = Keepline::new(plugin, store.clone(), options).await?;
        Ok(Self { pipe: keepline.pipe(), sessions: keepline.sessions(), keepline, store, log, clock })
    }

    /// A question with any metadata.
    pub async fn question(&mut self, metadata: &str) -> Passed {
        self.pipe.question("What do you remember?", metadata).await.unwrap()
    }

    /// A question of a session.
    pub async fn ask(&mut self, session: &str) -> Passed {
        self.question(&metadata_of(session)).await
    }

    /// An answer with any metadata.
    pub async fn answer(&mut self, text: &str, metadata: &str) -> Passed {
        self.pipe.answer(text, metadata).await.unwrap()
    }

    /// An answer of a session.
    pub async fn say(&mut self, session: &str, text: &str) -> Passed {
        self.answer(text, &metadata_of(session)).await
    }

    /// An answer to the question before.
    pub async fn reply(&mut self, text: &str) -> Passed {
        self.answer(text, "{}").await
    }

    /// What a question of the session would get as its `memory_context`, as JSON text; none: nothing.
    pub async fn memory(&self, session: &str) -> Option<String> {
        let passed = self.keepline.pipe().question("", &metadata_of(session)).await.unwrap();
        passed.metadata.map(|metadata| {
            let head = format!("{{\"session_id\":\"{session}\",\"memory_context\":");
            let rest = metadata.strip_prefix(&head).unwrap_or_else(|| panic!("{metadata}"));
            rest.strip_suffix('}').unwrap().to_owned()
        })
    }

    /// The whole history of a session, parsed.
    pub async fn history(&self, session: &str) -> Vec<Value> {
        let page = self.keepline.sessions().history(session, None, 0).await.unwrap();
        assert_eq!(page.first, page.oldest, "it fits on one page");
        page.records.iter().map(|record| serde_json::from_str(&record.to_json()).unwrap()).collect()
    }

    /// What has become of the entries so far.
    pub fn counters(&self) -> Counters {
        self.keepline.counters()
    }
}

/// A task on these buckets: `session/a user/b`.
pub fn task(buckets: &str, name: &str, state: &str) -> Task {
    let bucket = |text: &str| {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        TaskBucket { kind: kind.to_owned(), name: name.to_owned() }
    };
    let buckets = buckets.split(' ').map(bucket).collect();
    Task { buckets, name: name.to_owned(), state: state.to_owned() }
}

/// No test may end with a filter that was stopped: it always answers.
impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.counters().faults, 0, "the plugin was stopped: {:?}", self.log.warnings());
        }
    }
}

/// Looks at a session without using it: what it takes to reach the store, and nothing else.
///
/// # Errors
/// When the store fails.
pub async fn look(store: &Arc<dyn Store>, session: &str, deadline: Deadline) -> Result<Receipt, Failure> {
    let look = transaction(session, unused(), [describe()]);
    Ok(store.transact(Writer::new().advance(), &look, deadline).await?.receipt)
}

/// Metadata that name a session, and nothing else.
pub fn metadata_of(session: &str) -> String {
    format!("{{\"session_id\":\"{session}\"}}")
}

/// An entry that passed just as it came.
pub fn untouched(effect: Effect, passed: &Passed) -> bool {
    passed.effect == effect
        && passed.metadata.is_none()
        && passed.attached == 0
        && passed.due.is_empty()
        // An id that can't be used is told why.
        && (effect == Effect::Ignored) == problem_code(passed).starts_with("session-id-")
        && (effect == Effect::Ignored || passed.problem.is_none())
}

/// The code of the problem that an entry met with, as it is displayed.
pub fn problem_code(passed: &Passed) -> &str {
    passed.problem.as_ref().map_or("", |problem| spelled(&problem.code))
}

/// A code, as it is displayed.
fn spelled(code: &ProblemCode) -> &str {
    match code {
        ProblemCode::Store(code) => code.name(),
        ProblemCode::Limit => "limit",
        ProblemCode::Busy => "busy",
        ProblemCode::Closed => "closed",
        ProblemCode::Plugin => "plugin",
        ProblemCode::Other(code) => code,
        unknown => panic!("{unknown:?}"),
    }
}

/// A question with a deadline.
pub async fn question_by(
    pipe: &mut Pipe,
    text: &str,
    metadata: &str,
    deadline: Deadline,
) -> Result<Passed, EntryError> {
    pipe.ask(Question { text, metadata, ..Question::default() }, Some(deadline)).await
}

/// An answer with a deadline.
pub async fn answer_by(pipe: &mut Pipe, text: &str, metadata: &str, deadline: Deadline) -> Result<Passed, EntryError> {
    pipe.reply(Answer { text, metadata, ..Answer::default() }, Some(deadline)).await
}

/// What the problem says that an entry met with.
pub fn problem_message(passed: &Passed) -> &str {
    passed.problem.as_ref().map_or("", |problem| &problem.message)
}

/// How many operations the records of a history stand for, summaries included.
pub fn operations_told(history: &[Value]) -> u64 {
    history.iter().map(|record| record["summarized_count"].as_u64().unwrap_or(1)).sum()
}

/// Whether a failed entry was refused with this code.
pub fn refused_with(code: &str, result: &Result<Passed, EntryError>) -> bool {
    matches!(result, Err(error) if spelled(&error.code) == code)
}

/// A clock that shows one moment until it is set.
pub struct StillClock(AtomicU64);

impl StillClock {
    /// What it shows at first, in seconds, as history tells it.
    pub const START: &str = "1795186917.032595";

    /// Let time pass.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

impl Default for StillClock {
    fn default() -> Self {
        Self(AtomicU64::new(1_795_186_917_032_595))
    }
}

impl Clock for StillClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// A log of all levels, in memory.
#[derive(Default)]
pub struct KeptLog(Mutex<Vec<(LogLevel, String, String)>>);

impl KeptLog {
    /// Every message of a context, oldest first.
    pub fn of(&self, context: &str) -> Vec<String> {
        let lines = self.0.lock();
        lines.iter().filter(|line| line.1 == context).map(|line| line.2.clone()).collect()
    }

    /// Every warning and error, as `context: message`, oldest first.
    pub fn warnings(&self) -> Vec<String> {
        let lines = self.0.lock();
        let is_warning = |level| matches!(level, LogLevel::Warn | LogLevel::Error | LogLevel::Critical);
        lines.iter().filter(|line| is_warning(line.0)).map(|line| format!("{}: {}", line.1, line.2)).collect()
    }

    /// All messages of all levels, taken away.
    pub fn take(&self) -> Vec<String> {
        self.0.lock().drain(..).map(|(_, context, message)| format!("{context}: {message}")).collect()
    }
}

impl Log for KeptLog {
    fn enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn log(&self, level: LogLevel, context: &str, message: &str) {
        self.0.lock().push((level, context.into(), message.into()));
    }
}

/// A store, with its calls counted, that can be made to fail.
pub type Watched = Intercepted<Watch>;

/// Counts calls of a store, and fails them when it is told to.
#[derive(Debug, Default)]
pub struct Watch {
    calls: AtomicU64,
    failure: Mutex<Option<FailureCode>>,
}

impl Watch {
    /// From now on every call fails like this; none: no more.
    pub fn fail(&self, code: Option<FailureCode>) {
        *self.failure.lock() = code;
    }

    /// How many calls there were since the last time this was asked.
    pub fn calls(&self) -> u64 {
        self.calls.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl Intercept for Watch {
    async fn before(&self) -> Result<(), Failure> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match *self.failure.lock() {
            None => Ok(()),
            Some(code) => {
                Err(Failure { code, subject: String::new(), limit: 0, message: "the store is out of order".into() })
            }
        }
    }

    /// One call, as whoever makes it waits once.
    async fn transact_each(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transactions: &[IndexedTransaction],
        deadline: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        match self.before().await {
            Ok(()) => store.transact_each(writer, transactions, deadline).await,
            Err(failure) => vec![Err(failure); transactions.len()],
        }
    }

    /// Likewise.
    async fn delete_each(
        &self,
        store: &dyn Store,
        writer: &Writer,
        requests: &[DeleteRequest],
        deadline: Deadline,
    ) -> Vec<Result<Deletion, Failure>> {
        match self.before().await {
            Ok(()) => store.delete_each(writer, requests, deadline).await,
            Err(failure) => vec![Err(failure); requests.len()],
        }
    }
}
