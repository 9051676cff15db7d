//! The command line, as a shell uses it: exit codes, output, signals, completions.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
};

use serde_json::{Value, json};

#[path = "cli/a_store_that_fails.rs"]
mod a_store_that_fails;
#[path = "cli/configuration.rs"]
mod configuration;
#[path = "cli/coprocess.rs"]
mod coprocess;
#[path = "cli/exit_codes.rs"]
mod exit_codes;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/lines.rs"]
mod lines;
#[path = "cli/migrate.rs"]
mod migrate;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/plugins.rs"]
mod plugins;
#[path = "cli/sessions.rs"]
mod sessions;

/// The binary of this build. Cargo tells its place only to tests of the binary's own package; it is built
/// here, in the profile and the directory of this test, once a process.
fn binary() -> &'static Path {
    // None: it could not be built, and is not tried again for each test.
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BINARY.get_or_init(|| {
        let test = env::current_exe().unwrap();
        // target/<profile>/deps/cli-<hash>
        let profile = test.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "keepline", "--bin", "keepline", "--target-dir"]);
        build.arg(profile.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
        let name = profile.file_name().unwrap().to_str().unwrap();
        build.args(["--profile", if name == "debug" { "dev" } else { name }]);
        build.status().unwrap().success().then(|| profile.join("keepline"))
    });
    built.as_deref().expect("keepline could not be built")
}

/// A `keepline` that sees nothing of this process's configuration.
fn keepline<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(binary());
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KEEPLINE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[derive(Debug)]
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

fn call(arguments: &[&str], input: &[u8]) -> Ran {
    finish(keepline(arguments.iter().copied()).spawn().unwrap(), input)
}

fn call_with(environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
    finish(keepline(arguments.iter().copied()).envs(environment.iter().copied()).spawn().unwrap(), b"")
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
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

/// A port on which nobody answers.
fn dead_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port())
}
