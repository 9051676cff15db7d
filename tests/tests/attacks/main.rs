//! Attacks by an untrusted plugin, or by whoever supplies it, on the built binary and on the library. None takes more
//! than its limit, ends the host, or passes without a line that says what was refused and why.
//!
//! Attacks that could harm the machine run under limits of their own ([`keepline_tests::confined`]): one that succeeds
//! fails its test, not the machine.

mod at_work;
mod breaker;
mod claims;
mod confinement;
mod isolation;
mod loading;
mod log;
mod memory;
mod output;
mod pages;
mod pipelines;
mod replies;
mod time;
mod work;

use std::{fs, path::PathBuf, sync::Arc, sync::LazyLock, time::Instant};

use keepline::{
    Isolation, Keepline, Options, Plugin,
    logging::LogLevel,
    maintenance::{Job, Step},
    store::{Deadline, MemoryStore},
};
use keepline_tests::{
    confined::Confined,
    guests::{HOSTILE, told},
    lanes::{sandbox, task},
    programs::program,
    watch::KeptLog,
};
use serde_json::{Value, json};

const METADATA: &str = r#"{"session_id":"s1"}"#;

/// The built program with the hostile plugin.
fn hostile(arguments: &[&str]) -> Confined {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{}.wasm", std::process::id()));
        fs::write(&file, HOSTILE).unwrap();
        file
    });
    Confined::new(program("--bin", "keepline")).args(["--plugin".as_ref(), FILE.as_os_str()]).args(arguments)
}

/// A line of input.
fn question(session: &str, text: &str) -> String {
    json!({"lane": "questions", "text": text, "metadata": {"session_id": session}}).to_string() + "\n"
}

/// What was reported of single entries: stderr without the line at the end that counts those that passed without memory.
fn reports(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| !line.contains(" passed without memory: ")).collect()
}
