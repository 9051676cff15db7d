//! Observes what replies don't show: the log, the process's memory, and a process of the test's own.

use std::{env, fs, process::Command};

use keepline::logging::{Log, LogLevel};
use parking_lot::Mutex;

/// Keeps every message.
#[derive(Debug, Default)]
pub struct KeptLog(Mutex<Vec<Line>>);

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How urgent.
    pub level: LogLevel,
    /// Of what kind.
    pub context: String,
    /// What it says.
    pub message: String,
}

impl KeptLog {
    /// All of them so far.
    pub fn lines(&self) -> Vec<Line> {
        self.0.lock().clone()
    }

    /// Those of one kind.
    pub fn of(&self, context: &str) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.context == context).collect()
    }
}

impl Log for KeptLog {
    fn enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn log(&self, level: LogLevel, context: &str, message: &str) {
        self.0.lock().push(Line { level, context: context.into(), message: message.into() });
    }
}

/// What this process holds in memory, bytes.
pub fn resident_bytes() -> u64 {
    of_status("VmRSS:")
}

/// The most that this process ever held in memory, bytes.
pub fn peak_bytes() -> u64 {
    of_status("VmHWM:")
}

fn of_status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

const CHILD: &str = "KEEPLINE_TEST_CHILD";

/// Runs the body in a process of its own, where other tests don't disturb it and it can't hurt them.
/// `test` is the name of the test that calls this.
pub fn in_own_process(test: &str, body: impl FnOnce()) {
    if is_child_for(test) {
        return body();
    }
    let output = child(test, &[]).output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// This program again, running one test. Whether it is the child, [`is_child`] tells it.
pub fn child(test: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, test).envs(variables.iter().copied());
    command
}

/// Whether this process was started by [`child`] to run that test.
pub fn is_child_for(test: &str) -> bool {
    env::var(CHILD).is_ok_and(|child| child == test)
}

/// Whether this process was started by [`child`].
pub fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}
