//! Programs under limits that fail a test rather than the machine.
//!
//! [`Confined`] runs a program with limits on each of its processes (memory, processor time) and on all of it (time on
//! the clock), and tells how it ended and what it took, the processes that it started included. Nothing of it is left
//! when [`Confined::run`] returns.
//!
//! ```no_run
//! use keepline_tests::{confined::Confined, programs::program};
//!
//! let ended = Confined::new(program("--bin", "keepline")).args(["inspect", "plugin.wasm"]).run();
//! assert_eq!(ended.code, Some(3), "{ended:?}");
//! assert!(ended.peak_bytes < 600 << 20 && ended.cpu.as_secs() < 10, "{ended:?}");
//! ```

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{programs, watch};

/// A program, and what it may take.
#[derive(Debug)]
pub struct Confined {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    memory_bytes: u64,
    cpu: Duration,
    time: Duration,
}

/// How it ended, and what it took.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; none: a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it: 6 when it could get no more memory, 9 when its processor time or its time was up.
    pub signal: Option<i32>,
    /// Whether it was killed because its time was up.
    pub timed_out: bool,
    /// What it wrote, at most [`OUTPUT_BYTES`].
    pub stdout: String,
    /// What it wrote, at most [`OUTPUT_BYTES`].
    pub stderr: String,
    /// The most memory that it held, bytes: resident, of all its processes together. What the last milliseconds before
    /// its end added may be missing.
    pub peak_bytes: u64,
    /// Processor time of it and of the processes that it waited for.
    pub cpu: Duration,
}

/// How much of an output is kept; the rest is read and dropped.
pub const OUTPUT_BYTES: usize = 1 << 20;

/// As the kernel counts processor time in `/proc`: `USER_HZ`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

impl Confined {
    /// A program with 2 GiB of data for each process, 60 s of processor time for each, and two minutes for everything.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
            input: Vec::new(),
            memory_bytes: 2 << 30,
            cpu: Duration::from_secs(60),
            time: Duration::from_secs(120),
        }
    }

    /// More arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// A variable of its environment, which otherwise is that of [`programs::command`].
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// What it finds on standard input; nothing unless told.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// The data that each of its processes may have (`RLIMIT_DATA`), bytes: heap, stacks and whatever else it can
    /// write to. Address space that is only reserved does not count.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The processor time of each of its processes, in whole seconds.
    pub fn cpu(mut self, limit: Duration) -> Self {
        self.cpu = limit;
        self
    }

    /// The time on the clock after which all of it is killed.
    pub fn time(mut self, limit: Duration) -> Self {
        self.time = limit;
        self
    }

    /// The process, started: for a test that talks to it. It leads a process group of its own. What it took,
    /// [`Usage::look`] tells.
    pub fn spawn(&self) -> Child {
        let mut command = programs::command("prlimit");
        command.arg(format!("--data={}", self.memory_bytes)).arg(format!("--cpu={}", self.cpu.as_secs().max(1)));
        command.args(["--core=0", "--"]).arg(&self.program).args(&self.arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).spawn().unwrap()
    }

    /// Runs it to its end.
    pub fn run(self) -> Ended {
        let end = Instant::now() + self.time;
        let mut child = self.spawn();
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input;
        // It need not read all of it.
        let written = thread::spawn(move || drop(stdin.write_all(&input)));
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let mut usage = Usage::default();
        let mut timed_out = false;
        while usage.look(child.id()) {
            if Instant::now() >= end {
                timed_out = true;
                kill_group(&child);
            }
            thread::sleep(Duration::from_millis(2));
        }
        let status = child.wait().unwrap();
        // Whatever it started and left behind: it would hold the outputs open, and go on.
        kill_group(&child);
        written.join().unwrap();
        Ended {
            code: status.code(),
            signal: status.signal(),
            timed_out,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
            peak_bytes: usage.peak_bytes,
            cpu: usage.cpu,
        }
    }
}

/// Runs the body of a test under limits, in a process of its own: this program again, with that one test. `test` is the
/// full name of the test that calls this (`loading::it_holds`), `limits` changes what [`Confined::new`] allows.
///
/// In the test's own process it returns what that took, after having seen it succeed; in the other it returns nothing.
pub fn in_confinement(test: &str, limits: impl FnOnce(Confined) -> Confined, body: impl FnOnce()) -> Option<Ended> {
    if watch::is_child_for(test) {
        body();
        return None;
    }
    let again = watch::child(test, &[]);
    let mut confined = Confined::new(env::current_exe().unwrap()).args(again.get_args());
    for (name, value) in again.get_envs() {
        confined = confined.env(name, value.unwrap_or_default());
    }
    // Where cargo, and what it built, are found.
    for name in ["CARGO", "CARGO_HOME", "RUSTUP_HOME"] {
        if let Some(value) = env::var_os(name) {
            confined = confined.env(name, value);
        }
    }
    let ended = limits(confined).run();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    Some(ended)
}

/// What a process and those that it started have taken so far.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// The most memory that they held together at any look, bytes.
    pub peak_bytes: u64,
    /// Processor time; of those that it started, what it has waited for.
    pub cpu: Duration,
}

impl Usage {
    /// Looks at a process that nobody has waited for. Returns whether it still runs.
    pub fn look(&mut self, id: u32) -> bool {
        // Each process's own peak: what it took between two looks counts, too.
        let mut held = 0;
        let mut family = vec![id];
        while let Some(member) = family.pop() {
            held += peak_of(member);
            family.extend(children(member));
        }
        self.peak_bytes = self.peak_bytes.max(held);
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
        let (_, tail) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<_> = tail.split_ascii_whitespace().collect();
        // utime, stime, cutime, cstime
        self.cpu = TICK * fields[11..15].iter().map(|field| field.parse::<u32>().unwrap()).sum();
        !matches!(fields[0], "Z" | "X")
    }
}

fn children(id: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else { return Vec::new() };
    let lists = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>()).collect()
}

fn peak_of(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Kills a process that [`Confined::spawn`] started, and all that it started.
pub fn kill_group(child: &Child) {
    // It may be gone.
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status().unwrap();
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        from.by_ref().take(OUTPUT_BYTES as u64).read_to_end(&mut kept).unwrap();
        std::io::copy(&mut from, &mut std::io::sink()).unwrap();
        String::from_utf8_lossy(&kept).into_owned()
    })
}
