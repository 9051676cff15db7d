//! Helpers to run plugins in the built binary and in the library.

use std::{fs, path::Path, sync::Arc, time::Duration};

use keepline::{
    CodeCache, Keepline, KeeplineError, Options, Passed, Plugin, Sandbox,
    store::{MemoryLimits, MemoryStore},
};
use keepline_tests::{confined::Confined, programs::program, watch::KeptLog};
use tempfile::TempDir;

/// More than any of this takes, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const METADATA: &str = r#"{"a":1,"session_id":"s1"}"#;
/// What these plugins need to get past the loader, so that it is not the loader that stops them.
const MAX_DEFINITIONS: u64 = 1_000_000;

/// Where compiled code is kept, for all tests.
fn cache() -> String {
    format!("{}/compiled", env!("CARGO_TARGET_TMPDIR"))
}

/// `keepline run` with that plugin.
pub fn run(component: &[u8], arguments: &[&str]) -> (Confined, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    fs::write(&file, component).unwrap();
    let confined = Confined::new(program("--bin", "keepline"))
        .args(["run", "--summary", "--set", &format!("cache_dir={}", cache())])
        .args(["--plugin", file.to_str().unwrap()])
        .args(arguments);
    (confined, directory)
}

/// So many questions, each of a session of its own: they are spread over the pipes.
pub fn questions(text: &str, count: usize) -> String {
    let line = |n| format!("{{\"lane\":\"questions\",\"text\":\"{text}\",\"metadata\":{{\"session_id\":\"s{n}\"}}}}\n");
    (0..count).map(line).collect()
}

pub fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::default();
    sandbox.cache = CodeCache::At(Path::new(&cache()).to_owned());
    sandbox.plugin.max_definitions = MAX_DEFINITIONS;
    sandbox
}

/// A plugin in this process.
pub struct AtWork {
    pub keepline: Keepline,
    pub log: Arc<KeptLog>,
    pub store: Arc<MemoryStore>,
}

impl AtWork {
    /// Its entries have all the time that they want, and nobody leaves it alone: what stops it is the sandbox.
    pub async fn of(component: &[u8], sandbox: &Sandbox) -> Self {
        Self::with(component, sandbox, |_| {}).await.unwrap()
    }

    pub async fn with(
        component: &[u8],
        sandbox: &Sandbox,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, KeeplineError> {
        let log = Arc::new(KeptLog::default());
        let limits = MemoryLimits { max_sessions: 100_000, max_bytes: 1 << 30, ..MemoryLimits::default() };
        let store = Arc::new(MemoryStore::new(limits));
        let mut options = Options::default();
        (options.entry_timeout, options.log) = (PATIENCE, log.clone());
        options.plugin_breaker.failures = u32::MAX;
        change(&mut options);
        let plugin = Plugin::from_bytes(component, sandbox).unwrap();
        let keepline = Keepline::new(plugin, store.clone(), options).await?;
        Ok(Self { keepline, log, store })
    }

    pub async fn ask(&self, text: &str) -> Passed {
        tokio::time::timeout(PATIENCE, self.keepline.pipe().question(text, METADATA)).await.unwrap().unwrap()
    }

    /// Why it was stopped.
    pub async fn stopped(&self, text: &str) -> String {
        let passed = self.ask(text).await;
        assert_eq!(passed.metadata, None, "{text}");
        passed.problem.unwrap_or_else(|| panic!("{text} passed")).message
    }
}
