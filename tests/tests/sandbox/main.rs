//! An untrusted plugin harms only itself: each misdeed is stopped within its limit and reported in one line, its entry
//! goes on unchanged, and the next one is served.

mod compiled;
mod log;
mod memory;
mod refused;
mod replies;
mod store;
mod time;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use keepline::{
    CodeCache, Isolation, Keepline, KeeplineError, OnStoreError, Options, Passed, Plugin, PluginError, Sandbox,
    logging::{LogLevel, is_printable},
    maintenance::{Job, Step},
    pipe::{Effect, ProblemCode},
    plugin::{BUNDLED, inspect},
    sessions::SessionErrorCode,
    store::{
        Clock, Deadline, Failure, IndexedReceipt, IndexedTransaction, ManualClock, MemoryLimits, MemoryStore,
        RedisOptions, RedisStore, Store, Writer, kind,
    },
};
use keepline_tests::{
    guests::{HOSTILE, core_guest, told},
    intercept::{Intercept, Intercepted},
    lanes::{self, task},
    requests::{create, deletion_of, describe, description, session, transaction, unused},
    watch::{KeptLog, in_own_process, peak_bytes, resident_bytes},
};
use tokio::time::timeout;

/// More than any of this takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// Metadata that must come back as they are: by not coming back.
const METADATA: &str = r#"{"a":1,"session_id":"s1"}"#;

fn sandbox() -> Sandbox {
    let mut sandbox = lanes::sandbox();
    sandbox.cpu_time = Duration::from_millis(200);
    // One that looks at the clock again and again is stopped by its time.
    sandbox.host_calls_per_entry = u32::MAX;
    sandbox
}

/// What a plugin does is stopped by the sandbox alone.
fn patient() -> Options {
    let mut options = Options::default();
    options.entry_timeout = PATIENCE;
    options.plugin_breaker.failures = u32::MAX;
    options
}

/// A plugin at work, and what it logs.
struct Cell {
    keepline: Keepline,
    log: Arc<KeptLog>,
    store: Arc<MemoryStore>,
}

impl Cell {
    async fn of(component: &[u8], sandbox: &Sandbox) -> Self {
        Self::with(component, sandbox, |_| {}).await.unwrap()
    }

    async fn hostile() -> Self {
        Self::of(HOSTILE, &sandbox()).await
    }

    async fn with(
        component: &[u8],
        sandbox: &Sandbox,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, KeeplineError> {
        let plugin = Plugin::from_bytes(component, sandbox).unwrap();
        let (log, store) = (Arc::new(KeptLog::default()), Arc::new(MemoryStore::new(MemoryLimits::default())));
        let mut options = patient();
        options.log = log.clone();
        change(&mut options);
        let keepline = timeout(PATIENCE, Keepline::new(plugin, store.clone(), options)).await.unwrap()?;
        Ok(Self { keepline, log, store })
    }

    async fn ask(&self, text: &str) -> Passed {
        timeout(PATIENCE, self.keepline.pipe().question(text, METADATA)).await.unwrap().unwrap()
    }

    /// What the plugin tells in its reply's metadata.
    async fn told(&self, text: &str) -> String {
        let passed = self.ask(text).await;
        told(&passed).unwrap_or_else(|| panic!("{text}: {:?}", passed.problem))
    }

    /// The misdeed is stopped for that reason, and nothing else happens to anybody.
    async fn stops(&self, misdeed: &str, reason: &str) {
        let (mut pipe, mut other) = (self.keepline.pipe(), self.keepline.pipe());
        let before = (self.keepline.counters(), self.log.of("keepline.plugin").len());
        assert_eq!(pipe.question("nothing", METADATA).await.unwrap().effect, Effect::Passed);

        let passed = timeout(PATIENCE, pipe.question(misdeed, METADATA)).await.unwrap().unwrap();
        let problem = passed.problem.unwrap();
        assert_eq!((passed.metadata, passed.effect, passed.attached), (None, Effect::Failed, 0), "{misdeed}");
        assert_eq!(problem.code, ProblemCode::Plugin);
        assert!(problem.message.contains(reason), "{misdeed}: {}", problem.message);
        assert!(problem.message.len() < 300 && !problem.message.contains('\n'), "{:?}", problem.message);

        let lines = self.log.of("keepline.plugin").split_off(before.1);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].level, &lines[0].message), (LogLevel::Error, &problem.message));
        let after = self.keepline.counters();
        assert_eq!((after.faults - before.0.faults, after.failed - before.0.failed), (1, 1));

        for pipe in [&mut pipe, &mut other] {
            assert_eq!(pipe.question("nothing", METADATA).await.unwrap().effect, Effect::Passed);
            assert_eq!(pipe.answer("nothing", METADATA).await.unwrap().effect, Effect::Passed);
        }
    }
}

impl Cell {
    /// As `stops`, of a core guest that does harm whenever a question has a text.
    async fn stops_core(&self, reason: &str) {
        let passed = self.ask("x").await;
        let problem = passed.problem.unwrap();
        assert_eq!((passed.metadata, passed.effect, problem.code), (None, Effect::Failed, ProblemCode::Plugin));
        assert!(problem.message.contains(reason), "{}", problem.message);
        assert_eq!(self.log.of("keepline.plugin").len(), 1);
        assert_eq!(self.ask("").await.effect, Effect::Passed);
    }
}

/// A store that takes its time.
#[derive(Debug)]
struct Slow(Duration);

#[async_trait]
impl Intercept for Slow {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        tokio::time::sleep(self.0).await;
        store.transact(writer, transaction, deadline).await
    }
}
