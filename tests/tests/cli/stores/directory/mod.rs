//! Sessions in a directory: kept across runs, crashes and processes. One that can't be used is refused at the start;
//! one that fails later costs memory but no entry.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use keepline_tests::programs::signal;
use serde_json::json;
use tempfile::TempDir;

use crate::{Ran, answer, call, call_with, context, finish, keepline, question, run::coprocess::Running};

mod failures;
mod mounted;
mod refused;

/// A place for a store, and its path as an argument. There is none yet.
fn place() -> (TempDir, String) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    (parent, path)
}

/// A run of some lines on a directory.
fn run(path: &str, input: &str) -> Ran {
    call(&["run", "--dir", path], input.as_bytes())
}

/// What a question of the session gets.
fn memory(path: &str, session: &str) -> serde_json::Value {
    let ran = run(path, &question(session, "?")).ok();
    assert_eq!(ran.err, "");
    context(ran.text())
}

#[test]
fn sessions_survive_from_run_to_run() {
    let (_parent, path) = place();
    let ran = run(&path, &(question("a", "1") + &answer("one"))).ok();
    assert_eq!((ran.text(), &*ran.err), (&*(question("a", "1") + &answer("one")), ""));
    assert_eq!(memory(&path, "a"), json!({"answer_count": 1, "last_answer": "one"}));
    // Before the command as well as after it.
    let listed = call(&["--dir", &path, "session", "list"], b"").ok();
    assert_eq!((listed.text().trim(), &*listed.err), ("a", ""));
    // Nobody else's.
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn changes_of_operators_are_kept() {
    let (_parent, path) = place();
    run(&path, &(question("anna", "Where is my parcel?") + &answer("In Leipzig."))).ok();
    let session = |arguments: &[&str]| call(&[&["session", "--dir", &path], arguments].concat(), b"").ok();
    session(&["put", "anna", "city", "\"Leipzig\""]);
    assert_eq!(session(&["keys", "anna"]).text(), "answer_count\ncity\nlast_answer\n");
    assert_eq!(session(&["get", "anna", "city"]).text(), "\"Leipzig\"\n");
    session(&["delete", "anna"]);
    assert_eq!(session(&["list"]).text(), "");
}

#[test]
fn a_flag_the_environment_or_a_file_selects_the_directory() {
    let (parent, path) = place();
    call(&["session", "create", "a", "--dir", &path], b"").ok();
    let file = parent.path().join("keepline.json");
    fs::write(&file, json!({"backend": "directory", "directory": path, "directory_sync": "always"}).to_string())
        .unwrap();
    let file = file.to_str().unwrap();
    let environment = [("KEEPLINE_BACKEND", "directory"), ("KEEPLINE_DIRECTORY", &*path)];
    for ran in [
        call_with(&environment, &["session", "list"]),
        call(&["session", "list", "--config", file], b""),
        call(&["session", "list", "--set=backend=directory", &format!("--set=directory={path}")], b""),
        // The flag is the strongest.
        call_with(
            &[("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_BACKEND", "redis")],
            &["session", "list", "--dir", &path],
        ),
        call(
            &["session", "list", "--dir", &path, "--set=directory_sync=off", "--set=directory_max_bytes=10000000"],
            b"",
        ),
    ] {
        let ran = ran.ok();
        assert_eq!((ran.text().trim(), &*ran.err), ("a", ""));
    }
}

#[test]
fn config_shows_a_directory_without_creating_it() {
    let (_parent, path) = place();
    let ran = call(&["config", "--json", "--dir", &path, "--set=directory_sync=off"], b"").ok();
    let host = &ran.json()["host"];
    assert_eq!(host["backend"], json!({"value": "directory", "source": "command line"}));
    assert_eq!(host["directory"], json!({"value": path, "source": "command line"}));
    assert_eq!(host["directory_sync"], json!({"value": "off", "source": "command line"}));
    assert_eq!(host["directory_max_bytes"], json!({"value": 64_u64 << 30, "source": "default"}));
    assert!(!Path::new(&path).exists());
}

#[test]
fn an_unused_directory_setting_is_warned_of() {
    let (_parent, path) = place();
    let ran = call_with(&[("KEEPLINE_DIRECTORY", &path)], &["config", "--json"]).ok();
    assert!(
        ran.err.contains("directory is set (KEEPLINE_DIRECTORY), but the backend is") && ran.err.contains("--dir"),
        "{ran:?}"
    );
    // Who sets a backend means it.
    let ran = call_with(&[("KEEPLINE_DIRECTORY", &path), ("KEEPLINE_BACKEND", "memory")], &["config", "--json"]).ok();
    assert_eq!(ran.err, "");
}

#[test]
fn all_passed_entries_survive_a_kill() {
    for sync in ["group", "always", "off"] {
        let (_parent, path) = place();
        let sync = format!("--set=directory_sync={sync}");
        for round in 1..=3 {
            let mut running = Running::start(&["run", "--dir", &path, &sync]);
            for number in 1..=20 {
                running.send(&question("a", "?"));
                let count = context(&running.line())["answer_count"].as_u64().unwrap_or_default();
                assert_eq!(count, (round - 1) * 20 + number - 1, "{sync}");
                running.send(&answer(&format!("{round}/{number}")));
                running.line();
            }
            signal(&running.child, "-KILL");
            assert_eq!(running.end(), None);
        }
        assert_eq!(memory(&path, "a"), json!({"answer_count": 60, "last_answer": "3/20"}));
        let checked = call(&["store", "check", "--dir", &path], b"").ok();
        assert!(checked.text().starts_with("no problems: 1 bucket ("), "{checked:?}");
    }
}

#[test]
fn processes_share_a_directory() {
    let (_parent, path) = place();
    let mut running = Running::start(&["run", "--dir", &path]);
    running.send(&(question("a", "?") + &answer("one")));
    running.line();
    running.line();
    // An operator sees what a run has stored, and the run what the operator stores.
    let shown = call(&["session", "get", "a", "last_answer", "--text", "--dir", &path], b"").ok();
    assert_eq!(shown.text().trim(), "one");
    call(&["session", "put", "a", "name", "\"Anna\"", "--dir", &path], b"").ok();
    running.send(&question("a", "?"));
    assert_eq!(context(&running.line()), json!({"answer_count": 1, "last_answer": "one", "name": "Anna"}));
    // Two runs that write to one session lose nothing.
    let lines = (0..200).map(|n| question("b", "?") + &answer(&n.to_string())).collect::<String>();
    let start = || keepline(["run", "--pipes=4", "--dir", &path]).spawn().unwrap();
    let both = [start(), start()].map(|child| {
        let lines = lines.clone();
        std::thread::spawn(move || finish(child, lines.as_bytes()))
    });
    for ran in both {
        let ran = ran.join().unwrap().ok();
        assert_eq!(ran.err, "");
    }
    assert_eq!(memory(&path, "b")["answer_count"], 400);
}

#[test]
fn a_command_that_adds_nothing_creates_no_store() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("mmeory").to_str().unwrap().to_owned();
    for command in [
        "session list",
        "session show a",
        "session get a k",
        "session messages a",
        "session describe a",
        "session grep a 0 word",
        "session window a",
        "session delete a",
        "session clear a --all",
        "session clear-all --yes",
        "session upkeep a",
        "session remove a 0",
        "user list u",
        "user sessions u",
        "user search u word",
        "user forget u --yes",
        "stats",
        "explain a",
        "recall a word",
        "recall rebuild --all",
        "memories --user u word",
        "health",
        "store check",
    ] {
        let arguments = ["--profile", "chat", "--set=recall=session", "--dir", &path];
        let ran = call(&[&command.split(' ').collect::<Vec<_>>()[..], &arguments].concat(), b"");
        assert_ne!(ran.code, 0, "{command}: {ran:?}");
        let told = format!("{}{}", ran.err, ran.text());
        assert!(told.contains("there is no store in") && told.contains("mmeory"), "{command}: {ran:?}");
        assert!(!Path::new(&path).exists(), "{command}");
    }
    call(&["session", "create", "a", "--dir", &path], b"").ok();
    assert_eq!(call(&["session", "list", "--dir", &path], b"").ok().text(), "a\n");
}
