//! Signals end each command cleanly: accepted work is finished within the grace period or reported. A hang-up reloads
//! the plugin.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Stdio},
    thread,
    time::Duration,
};

use keepline::plugin::BUNDLED;
use keepline_local_redis::RedisServer;
use keepline_tests::{
    guests::HOSTILE,
    programs::{children, end, is_alive, number, signal, until_it_listens, until_it_rests},
    until::until,
};

use crate::{answer, context, keepline, question};

struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = keepline(arguments.iter().copied()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, output, errors }
    }

    /// Over that Redis, and patient with it.
    fn over(server: &RedisServer, arguments: &[&str]) -> Self {
        let url = format!("redis_url={}", server.url());
        let patient = ["--profile", "redis", "--set", &url, "--set", "store_timeout_ms=60000"];
        Self::start(&[arguments, &patient].concat())
    }

    fn send(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Returns when it has read all of it and has done with it what it can.
    fn send_and_wait(&mut self, text: &str) {
        let read = |child: &Child| number(child, "io", "rchar:", 10);
        let all = read(&self.child) + text.len() as u64;
        self.send(text);
        until("it has read", || (read(&self.child) >= all).then_some(()));
        until_it_rests(&self.child);
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn told(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    /// The exit code, and what else was told.
    fn end(mut self) -> (Option<i32>, String) {
        let code = end(&mut self.child);
        let mut told = String::new();
        self.errors.read_to_string(&mut told).unwrap();
        (code, told)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In place of the one before, at once.
fn write_plugin(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(&new, file).unwrap();
}

#[test]
fn a_hang_up_reloads_the_plugin_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    write_plugin(&file, BUNDLED);
    for pipes in ["1", "4"] {
        let mut running = Running::start(&["run", "--pipes", pipes, "--plugin", file.to_str().unwrap()]);
        running.send(&(question("a", "1") + &answer("one")));
        running.line();
        running.line();

        // Neither what is no plugin nor what is not there ends the one that works.
        for content in [&b"nonsense"[..], b"(component)", &BUNDLED[..BUNDLED.len() / 2], b""] {
            write_plugin(&file, content);
            signal(&running.child, "-HUP");
            let told = running.told();
            assert!(told.starts_with("warning: ") && told.contains("not replaced"), "{told}");
            running.send(&question("a", "2"));
            assert_eq!(context(&running.line())["last_answer"], "one");
        }
        fs::remove_file(&file).unwrap();
        signal(&running.child, "-HUP");
        let told = running.told();
        assert!(told.contains("can't read the plugin"), "{told}");
        assert_eq!(told.matches("No such file").count(), 1, "{told}");

        write_plugin(&file, HOSTILE);
        signal(&running.child, "-HUP");
        let told = running.told();
        assert!(told.starts_with("note: ") && told.contains(file.to_str().unwrap()), "{told}");
        // That one adds nothing.
        running.send(&question("a", "3"));
        assert_eq!(running.line(), question("a", "3"));

        write_plugin(&file, BUNDLED);
        signal(&running.child, "-HUP");
        running.told();
        running.send(&question("a", "4"));
        assert_eq!(context(&running.line())["last_answer"], "one");
        drop(running.child.stdin.take());
        let told = "note: 1 of 8 entries passed without memory: 1 without a session, or with memory off\n".to_owned();
        assert_eq!(running.end(), (Some(0), told));
    }
}

#[test]
fn a_hang_up_loads_a_pinned_plugin_only_with_the_bytes_that_were_pinned() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (file, trust) = (path("plugin.wasm"), path("plugins.json"));
    write_plugin(Path::new(&file), BUNDLED);
    crate::call(&["plugin", "add", "mine", &file, "--yes", "--trust", &trust], b"").ok();
    let mut running = Running::start(&["run", "--plugin", "@mine", "--trust", &trust]);
    running.send(&(question("a", "1") + &answer("one")));
    running.line();
    running.line();
    for (bytes, expected) in
        [(HOSTILE, "has changed since it was pinned as @mine"), (BUNDLED, "note: the plugin was replaced")]
    {
        write_plugin(Path::new(&file), bytes);
        signal(&running.child, "-HUP");
        let told = running.told();
        assert!(told.contains(expected), "{told}");
        running.send(&question("a", "2"));
        assert_eq!(context(&running.line())["last_answer"], "one");
    }
}

#[test]
fn hang_ups_under_load_lose_no_line_and_no_answer() {
    const ROUNDS: usize = 3000;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    write_plugin(&file, BUNDLED);
    let server = RedisServer::start().unwrap();
    let mut running = Running::over(&server, &["run", "--pipes", "8", "--plugin", file.to_str().unwrap()]);
    let mut stdin = running.child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for round in 0..ROUNDS {
            let session = format!("s{}", round % 50);
            stdin.write_all((question(&session, "?") + &answer(&round.to_string())).as_bytes()).unwrap();
        }
    });
    for round in 0..ROUNDS {
        let line = running.line();
        if round >= 50 {
            assert_eq!(context(&line)["answer_count"], round / 50, "{round}: {line}");
            assert_eq!(context(&line)["last_answer"], (round - 50).to_string());
        }
        assert_eq!(running.line(), answer(&round.to_string()));
        if round % 500 == 250 {
            signal(&running.child, "-HUP");
        }
    }
    writer.join().unwrap();
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.is_empty() && told.lines().all(|line| line.starts_with("note: the plugin was replaced")), "{told}");
}

#[test]
fn a_hang_up_ends_a_run_of_the_bundled_plugin() {
    let mut running = Running::start(&["run"]);
    running.send(&answer("x"));
    running.line();
    signal(&running.child, "-HUP");
    assert_eq!(running.end(), (None, String::new()));
}

/// A run over a Redis that does not answer, and so many answers that it has read.
fn stuck(server: &RedisServer, arguments: &[&str], answers: usize) -> Running {
    let mut running = Running::over(server, &[&["run"], arguments].concat());
    running.send(&question("a", "1"));
    running.line();
    server.pause().unwrap();
    running.send_and_wait(&answer("x").repeat(answers));
    running
}

#[test]
fn lines_that_were_read_are_written_within_the_grace_period() {
    let server = RedisServer::start().unwrap();
    for (pipes, name) in [("1", "-TERM"), ("4", "-INT")] {
        let mut running = stuck(&server, &["--pipes", pipes, "--grace", "60"], 3);
        signal(&running.child, name);
        thread::sleep(Duration::from_millis(100));
        server.resume().unwrap();
        for _ in 0..3 {
            assert_eq!(running.line(), answer("x"));
        }
        assert_eq!(running.line(), "");
        // Nothing is left, so that nothing was interrupted.
        assert_eq!(running.end(), (Some(0), String::new()));
    }
}

#[test]
fn an_interrupted_run_of_a_pipe_reports_unread_input() {
    let mut running = Running::start(&["run"]);
    running.send(&question("a", "x"));
    running.line();
    running.send_and_wait("{\"lane\":\"answers\"");
    signal(&running.child, "-TERM");
    let told = "warning: interrupted by SIGTERM before all input was processed: 1 line was written; 17 bytes of the input were \
                not read\n";
    assert_eq!(running.end(), (Some(143), told.to_owned()));
}

#[test]
fn an_interrupted_run_of_a_file_reports_how_much_is_left() {
    // More than fits into what is under way while nobody takes the output.
    const LINES: usize = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.jsonl");
    let line = question("a", &"x".repeat(1000));
    fs::write(&file, line.repeat(LINES)).unwrap();
    let mut running = Running::start(&["run", file.to_str().unwrap()]);
    running.line();
    signal(&running.child, "-INT");
    let mut written = 1;
    while !running.line().is_empty() {
        written += 1;
    }
    let (code, told) = running.end();
    assert_eq!(code, Some(130), "{told}");
    let left = (LINES - written) * line.len();
    let told_left = format!("{written} lines were written; {left} bytes of the input were not read\n");
    assert!(written < LINES && told.ends_with(&told_left), "{told_left}: {told}");
}

#[test]
fn lines_not_written_within_the_grace_period_are_reported() {
    let server = RedisServer::start().unwrap();
    for pipes in ["1", "4"] {
        let mut running = stuck(&server, &["--pipes", pipes, "--grace", "0.2"], 3);
        signal(&running.child, "-TERM");
        assert_eq!(running.line(), "");
        let (code, told) = running.end();
        assert_eq!((code, told.contains("3 lines were not written")), (Some(143), true), "{told}");
        server.resume().unwrap();
    }
}

#[test]
fn a_second_signal_ends_run_at_once() {
    let server = RedisServer::start().unwrap();
    let mut running = stuck(&server, &["--grace", "3600"], 2);
    // One that comes before the first was heard does not count.
    until("it ends", || {
        signal(&running.child, "-TERM");
        thread::sleep(Duration::from_millis(50));
        running.child.try_wait().unwrap()
    });
    let (code, told) = running.end();
    assert_eq!((code, told.contains("2 lines were not written")), (Some(143), true), "{told}");
    server.resume().unwrap();
}

/// The second signal came before the tasks had ended, and a run that had written all lines counted as interrupted.
#[test]
fn two_signals_at_once_interrupt_no_run_that_has_written_all_lines() {
    for pipes in ["1", "4"] {
        let mut running = Running::start(&["run", "--pipes", pipes, "--summary"]);
        running.send(&(question("a", "Where is it?") + &answer("In Leipzig.")));
        running.line();
        running.line();
        for name in ["-STOP", "-TERM", "-INT", "-CONT"] {
            signal(&running.child, name);
        }
        let (code, told) = running.end();
        assert_eq!(code, Some(0), "{pipes}: {told}");
        assert!(!told.contains("interrupted") && told.contains("2 entries"), "{pipes}: {told}");
    }
}

#[test]
fn an_interrupted_change_is_finished_or_reported() {
    let server = RedisServer::start().unwrap();
    let put = |value| {
        server.pause().unwrap();
        let running = Running::over(&server, &["session", "put", "a", "k", value]);
        until_it_listens(&running.child);
        running
    };
    Running::over(&server, &["session", "create", "a"]).end();
    let running = put("1");
    signal(&running.child, "-TERM");
    thread::sleep(Duration::from_millis(100));
    server.resume().unwrap();
    assert_eq!(running.end().0, Some(0));
    let mut found = Running::over(&server, &["session", "get", "a", "k"]);
    assert_eq!(found.line(), "1\n");

    let mut running = put("2");
    until("it ends", || {
        signal(&running.child, "-INT");
        thread::sleep(Duration::from_millis(50));
        running.child.try_wait().unwrap()
    });
    let (code, told) = running.end();
    assert_eq!((code, told.contains("may or may not have been applied")), (Some(1), true), "{told}");

    // Whoever only looks has nothing to finish.
    let running = Running::over(&server, &["session", "list"]);
    until_it_rests(&running.child);
    signal(&running.child, "-TERM");
    assert_eq!(running.end(), (None, String::new()));
    server.resume().unwrap();
}

/// It starts a redis-server of its own; at a signal both are gone, and nothing is left on disk.
#[test]
fn the_demo_ends_with_its_server() {
    let directory = tempfile::tempdir().unwrap();
    let chat = directory.path().join("long.jsonl");
    fs::write(&chat, (question("a", "?") + &answer("x")).repeat(50_000)).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let mut command = keepline(["demo", chat.to_str().unwrap()]);
    let mut child = command.env("TMPDIR", temporary.path()).stdout(Stdio::null()).spawn().unwrap();
    let server = until("it has a server", || children(child.id(), "redis-server").pop());
    signal(&child, "-TERM");
    assert_eq!(end(&mut child), Some(1));
    until("the server is gone", || (!is_alive(server)).then_some(()));
    let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "error: terminated by a signal\n");
}
