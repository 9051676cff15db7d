//! `keepline run` as a coprocess: each line is answered at once, and the other end can end the run at any time.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    thread,
};

use keepline_tests::{
    programs::{self, number, until_it_rests},
    until::until,
};

use crate::{answer, context, keepline, question, signal};

pub(crate) struct Running {
    pub(crate) child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(keepline(arguments.iter().copied()))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// The first line of what is told.
    pub(crate) fn error_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// The exit code, in time, and what was told.
    pub(crate) fn end_with_errors(&mut self) -> (Option<i32>, String) {
        let (code, mut told) = (self.end(), String::new());
        self.child.stderr.as_mut().unwrap().read_to_string(&mut told).unwrap();
        (code, told)
    }

    /// The exit code, in time.
    pub(crate) fn end(&mut self) -> Option<i32> {
        programs::end(&mut self.child)
    }
}

#[test]
fn each_line_comes_back_before_the_next_is_sent() {
    for pipes in ["1", "4"] {
        let mut running = Running::start(&["run", "--pipes", pipes]);
        for number in 1..=20 {
            running.send(&question("a", "x"));
            let line = running.line();
            if number > 1 {
                assert_eq!(context(&line)["answer_count"], number - 1);
            }
            running.send(&answer("y"));
            assert_eq!(running.line(), answer("y"));
        }
        drop(running.child.stdin.take());
        assert_eq!(running.end(), Some(0));
    }
}

#[test]
fn whole_lines_come_back_while_half_a_line_is_pending() {
    let mut running = Running::start(&["run"]);
    running.send(&format!("{}{{\"lane\":", answer("y")));
    assert_eq!(running.line(), answer("y"));
    running.send("\"open\"}\n");
    assert_eq!(running.line(), "{\"lane\":\"open\"}\n");
}

#[test]
fn a_signal_ends_a_coprocess_after_all_read_lines_were_written() {
    for name in ["-TERM", "-INT"] {
        let mut running = Running::start(&["run"]);
        running.send(&answer("y").repeat(500));
        for _ in 0..500 {
            assert_eq!(running.line(), answer("y"));
        }
        // Input stays open: the signal alone ends it.
        signal(&running.child, name);
        assert_eq!(running.end(), Some(0));
        assert_eq!(running.line(), "");
    }
}

#[test]
fn a_closed_output_ends_a_coprocess_quietly() {
    let mut running = Running::start(&["run", "--pipes", "2"]);
    let mut stdin = running.child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let line = question("a", &"x".repeat(1000));
        while stdin.write_all(line.as_bytes()).is_ok() {}
    });
    running.line();
    let mut stderr = running.child.stderr.take().unwrap();
    drop(std::mem::replace(
        &mut running.output,
        BufReader::new(Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.unwrap()),
    ));
    assert_eq!(running.end(), Some(0));
    writer.join().unwrap();
    let mut told = String::new();
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(told, "");
}

/// So that not all of it can come out; of what nobody takes, several times as much is read.
fn until_more_is_read_than_a_pipe_holds(running: &Running, before: u64) {
    until("it has read", || (read(running) > before + 150_000).then_some(()));
}

fn read(running: &Running) -> u64 {
    number(&running.child, "io", "rchar:", 10)
}

#[test]
fn memory_does_not_grow_with_a_slow_reader() {
    let mut running = Running::start(&["run"]);
    // It is at work, and has read all that it needs beside its input.
    running.send(&answer("first"));
    assert_eq!(running.line(), answer("first"));
    let before = read(&running);
    let mut stdin = running.child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let line = answer(&"x".repeat(100_000));
        let mut sent = 0;
        while sent < 1_000_000_000 && stdin.write_all(line.as_bytes()).is_ok() {
            sent += line.len();
        }
        sent
    });
    until_more_is_read_than_a_pipe_holds(&running, before);
    // It waits for its reader.
    until_it_rests(&running.child);
    let status = fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim();
    let kilobytes: u64 = resident.split(' ').next().unwrap().parse().unwrap();
    assert!(kilobytes < 400_000, "{resident}");
    signal(&running.child, "-KILL");
    assert!(running.end().is_none());
    assert!(writer.join().unwrap() < 1_000_000_000, "all of it was read");
}

#[test]
fn a_signal_ends_a_coprocess_whose_output_is_blocked() {
    let mut running = Running::start(&["run"]);
    // It is at work, and has read all that it needs beside its input.
    running.send(&answer("first"));
    assert_eq!(running.line(), answer("first"));
    let before = read(&running);
    let mut stdin = running.child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let line = answer(&"x".repeat(10_000));
        while stdin.write_all(line.as_bytes()).is_ok() {}
    });
    until_more_is_read_than_a_pipe_holds(&running, before);
    signal(&running.child, "-TERM");
    // What was read can't come out, and it says so instead of waiting for ever.
    assert_eq!(running.end(), Some(143));
    writer.join().unwrap();
}
