//! `examples/pipelines/`, from file to prompt, as its README has it.

use std::{
    io::Write,
    path::Path,
    process::{Output, Stdio},
};

use keepline_tests::programs::{self, program};
use serde_json::{Value, json};

/// Runs a command in the examples' folder. Its output.
fn call(directory: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = programs::command(program("--bin", "keepline"));
    command.args(arguments).arg("--dir").arg(directory);
    command.env("KEEPLINE_STORE_TIMEOUT_MS", "30000");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/pipelines"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn the_examples_go_from_file_to_prompt() {
    let folder = tempfile::tempdir().unwrap();
    let call = |arguments: &[&str], input: &str| call(folder.path(), arguments, input);
    for file in ["conventions.json", "preferences.yaml", "task.json"] {
        assert!(call(&["pipeline", "create", file], "").ends_with("was stored as revision 1\n"), "{file}");
    }
    call(&["pipeline", "create", "rules.json", "--rules"], "");
    call(&["pipeline", "put", "values", "conventions", "--namespace", "code", "--file", "conventions.jsonl"], "");
    call(&["pipeline", "put", "events", "tasks", "--file", "events.jsonl"], "");
    call(&["pipeline", "ingest", "handbook.md", "--collection", "handbook"], "");
    call(&["user", "put", "ann", "language", "\"German\""], "");
    let conventions = call(&["pipeline", "run", "conventions", "--query", "Which errors does a function list?"], "");
    for part in ["- Indent with four spaces.", "- Every fault gets a test", "its documentation lists the errors"] {
        assert!(conventions.contains(part), "{conventions}");
    }
    assert_eq!(call(&["pipeline", "run", "preferences", "--user", "ann"], ""), "- German\n");
    assert_eq!(call(&["pipeline", "run", "preferences", "--user", "bob"], ""), "");
    assert_eq!(call(&["pipeline", "run", "task", "--thread-id", "task-7"], "").trim(), "printer: begun\nparser: done");
    let question = |session: &str, text: &str| {
        let metadata = json!({"session_id": session, "user_id": "ann"});
        let line = json!({"lane": "questions", "text": text, "metadata": metadata}).to_string();
        let passed = call(&["run", "--set", "assemble=preferences,rules/when"], &line);
        let passed: Value = serde_json::from_str(&passed).unwrap();
        passed["metadata"]["memory_sections"]["text"].as_str().unwrap().to_owned()
    };
    let text = question("task-7", "Which test does this function need?");
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings, ["## State", "## Constraints", "## Working memory"], "{text}");
    assert!(text.contains("- German") && text.contains("printer: begun"), "{text}");
    assert_eq!(question("s", "What time is it?"), "## State\n- German");
}
