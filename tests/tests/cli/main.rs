//! The command line, as a shell uses it: exit codes, output, signals, completions.

use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
    thread,
};

use keepline_tests::{
    programs::{self, program, signal},
    servers,
};
use serde_json::{Value, json};

mod interface;
mod run;
mod session_files;
mod sessions;
mod stores;

/// A `keepline` that sees nothing of this process's configuration.
fn keepline<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = programs::command(program("--bin", "keepline"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[derive(Debug, PartialEq)]
struct Ran {
    code: i32,
    out: Vec<u8>,
    err: String,
}

impl Ran {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

fn finish(mut child: Child, input: &[u8]) -> Ran {
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A child may end without reading all.
    let writer = thread::spawn(move || _ = stdin.write_all(&input));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran { code: status.code().unwrap_or(-1), out: stdout, err: String::from_utf8(stderr).unwrap() }
}

/// However busy the machine is: who tests the time that a store has sets it, and who has none.
const PATIENT: (&str, &str) = ("KEEPLINE_STORE_TIMEOUT_MS", "30000");
/// For a store that is not there, which each entry waits for.
const HASTY: &str = "--set=store_timeout_ms=500";

fn call(arguments: &[&str], input: &[u8]) -> Ran {
    finish(keepline(arguments.iter().copied()).envs([PATIENT]).spawn().unwrap(), input)
}

fn call_with(environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
    finish(keepline(arguments.iter().copied()).envs(environment.iter().copied()).spawn().unwrap(), b"")
}

fn question(session: &str, text: &str) -> String {
    format!("{}\n", json!({"lane": "questions", "text": text, "metadata": {"session_id": session}}))
}

fn answer(text: &str) -> String {
    format!("{}\n", json!({"lane": "answers", "text": text, "metadata": {}}))
}

fn context(line: &str) -> Value {
    serde_json::from_str::<Value>(line).unwrap()["metadata"]["memory_context"].clone()
}

/// Of a Redis that is not there.
fn dead_url() -> String {
    format!("redis://127.0.0.1:{}", servers::dead_port())
}
