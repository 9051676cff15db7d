//! With `--json`, results and messages are JSON.

use std::fs;

use serde_json::Value;

use crate::{Ran, call, call_with, dead_url};

/// The error that ended it; each line of standard error is an object.
fn error(ran: &Ran) -> (String, String) {
    let lines =
        ran.err.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ran:?}")));
    let objects: Vec<Value> = lines.collect();
    assert!(objects.iter().all(Value::is_object), "{ran:?}");
    let error = &objects.last().unwrap_or_else(|| panic!("{ran:?}"))["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_else(|| panic!("{ran:?}")).to_owned();
    (text("code"), text("message"))
}

#[test]
fn errors_have_codes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keepline.json");
    fs::write(&file, r#"{"profile":"redis","key_prefix":"b"}"#).unwrap();
    let file = file.to_str().unwrap();
    for (arguments, exit, code, told) in [
        (&["session", "show", "nobody"][..], 1, "not-found", "Session 'nobody' not found"),
        (&["session", "create", "no id"], 1, "invalid-session", "Invalid session_id: 'no id'"),
        (&["session", "put", "a", "no key", "1"], 1, "invalid-key", "Invalid key: 'no key'"),
        (&["session", "put", "a", "k", "no json"], 2, "usage", "--text"),
        (&["session", "clear", "a"], 2, "usage", "required arguments were not provided"),
        (&["session", "frobnicate"], 2, "usage", "frobnicate"),
        (&["session"], 2, "usage", "requires a subcommand"),
        (&["session", "list", "--limit", "0"], 2, "usage", "'0'"),
        (&["session", "list", "--set", "no_such_field=1"], 2, "configuration", "no_such_field"),
        (&["session", "list", "--plugin", "/does/not/exist.wasm"], 3, "plugin", "/does/not/exist.wasm"),
        (&["config", "--set", "backend=x"], 2, "configuration", "Unknown backend"),
        (&["config", "--config", file], 2, "configuration", "key_prefix"),
        (&["config", "--config", "/does/not/exist.json"], 2, "configuration", "/does/not/exist.json"),
        (&["inspect", "/does/not/exist.wasm"], 3, "plugin", "/does/not/exist.wasm"),
        (&["migrate", "--to", "redis_database=1"], 2, "usage", "exists only within a process"),
        (&["migrate"], 2, "usage", "--to"),
    ] {
        let ran = call(&[arguments, &["--json"]].concat(), b"");
        let (found, message) = error(&ran);
        assert!(ran.code == exit && found == code && message.contains(told), "{arguments:?}: {ran:?}");
        assert!(ran.out.is_empty(), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn store_failures_have_the_code_store() {
    let environment =
        [("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &dead_url()), ("KEEPLINE_STORE_TIMEOUT_MS", "500")];
    for command in ["list", "show a", "get a k", "put a k 1", "delete a", "history a"] {
        let arguments: Vec<&str> = ["session", "--json", "-v"].into_iter().chain(command.split(' ')).collect();
        let ran = call_with(&environment, &arguments);
        assert!(ran.code == 1 && ran.out.is_empty(), "{ran:?}");
        assert_eq!(error(&ran).0, "store", "{ran:?}");
    }
}

#[test]
fn warnings_and_notes_are_objects() {
    let ran = call_with(&[("KEEPLINE_REDIS_URL", "redis://a")], &["session", "list", "--json"]).ok();
    let kinds: Vec<String> = ran
        .err
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap().as_object().unwrap().keys().next().unwrap().clone())
        .collect();
    assert_eq!(kinds, ["warning", "note"], "{ran:?}");
    assert_eq!(ran.text(), "{\"cursor\":\"\",\"sessions\":[]}\n");
}

#[test]
fn help_lists_the_codes() {
    for command in ["session", "config", "migrate", "inspect"] {
        let help = call(&[command, "--help"], b"").ok();
        assert!(help.text().contains("\"code\":\"not-found\""), "{}", help.text());
    }
}
