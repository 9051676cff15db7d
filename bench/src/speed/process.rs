//! A whole process of `keepline run`: the time until its first answer, and its memory.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use keepline_local_redis::RedisServer;

use crate::{
    contenders::{ANSWER, answer_of},
    measure::{Effort, median},
    report::Section,
    resident::resident_mib,
};

pub(super) fn start(effort: Effort) -> Result<Section> {
    let caches = tempfile::tempdir()?;
    let mut cold = Vec::new();
    let mut cached = Vec::new();
    for round in 0..effort.rounds {
        let cache = caches.path().join(round.to_string());
        cold.push(time_to_first_answer(&cache)?);
        // wasmtime writes its cache in the background.
        std::thread::sleep(std::time::Duration::from_millis(200));
        cached.push(time_to_first_answer(&cache)?);
    }
    let mut section = Section::new("From process start to the first answer", "", vec!["median ms".into()]);
    section.row("compiling the component", vec![Some(median(&cold))]);
    section.row("with cached code", vec![Some(median(&cached))]);
    Ok(section)
}

fn time_to_first_answer(cache: &Path) -> Result<f64> {
    let begin = Instant::now();
    let mut harness = Harness::start(&[&format!("--set=cache_dir={}", cache.display())])?;
    harness.pass(r#"{"lane":"questions","text":"q","metadata":{"session_id":"s"}}"#)?;
    harness.pass(r#"{"lane":"answers","text":"a","metadata":{}}"#)?;
    Ok(begin.elapsed().as_secs_f64() * 1000.0)
}

pub(super) fn memory(effort: Effort) -> Result<Section> {
    let mut section = Section::new("Memory of the process", "", vec!["resident MiB".into()]);
    let mut idle = Harness::start(&[])?;
    idle.pass(r#"{"lane":"questions","text":"q","metadata":{"session_id":"s"}}"#)?;
    section.row("idle, after one entry", vec![Some(idle.resident_mib()?)]);

    let mut sessions = Harness::start(&[])?;
    let answers = if effort.is_quick { 5 } else { 50 };
    sessions.fill(1000, answers)?;
    section.row(format!("memory store, 1000 sessions of {answers} answers"), vec![Some(sessions.resident_mib()?)]);

    if RedisServer::is_installed() {
        let server = RedisServer::start()?;
        let url = format!("--set=redis_url={}", server.url());
        let mut pipes = Harness::start(&["--set=backend=redis", &url, "--pipes=100"])?;
        pipes.fill(1000, answers)?;
        section.row("Redis, 100 warm pipes", vec![Some(pipes.resident_mib()?)]);
    }
    section.note(format!("answers of {ANSWER} characters; the process is `keepline run`"));
    Ok(section)
}

/// `keepline run` as a coprocess.
struct Harness {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Harness {
    fn start(arguments: &[&str]) -> Result<Self> {
        // Built into the same directory: `make bench` builds both.
        let program = std::env::current_exe()?.with_file_name("keepline");
        let mut child = Command::new(&program)
            .arg("run")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("can't start {}", program.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else { bail!("no pipes") };
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    fn pass(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}")?;
        self.input.flush()?;
        self.read()
    }

    fn read(&mut self) -> Result<()> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("keepline run ended early");
        }
        Ok(())
    }

    /// So many answers in each of so many sessions, some hundred under way at a time.
    fn fill(&mut self, sessions: usize, answers: usize) -> Result<()> {
        const UNDER_WAY: usize = 200;
        let text = answer_of(ANSWER);
        let total = sessions * answers;
        for n in 0..total {
            let session = n % sessions;
            writeln!(self.input, r#"{{"lane":"answers","text":"{text}","metadata":{{"session_id":"s{session}"}}}}"#)?;
            if n >= UNDER_WAY {
                self.input.flush()?;
                self.read()?;
            }
        }
        self.input.flush()?;
        (0..UNDER_WAY.min(total)).try_for_each(|_| self.read())
    }

    fn resident_mib(&self) -> Result<f64> {
        resident_mib(self.child.id())
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // It would end by itself at the end of its input; the figures are taken.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
