//! The exit code says whether all went well, a line or a command failed, or nothing could begin.

use std::fs;

use super::{answer, call, question};

#[test]
fn zero_when_all_went_well() {
    assert_eq!(call(&["run"], (question("a", "x") + &answer("y")).as_bytes()).code, 0);
    assert_eq!(call(&["run"], b"").code, 0);
    assert_eq!(call(&["--version"], b"").code, 0);
}

#[test]
fn one_when_a_line_is_no_entry_or_a_command_failed() {
    assert_eq!(call(&["run"], b"nonsense\n").code, 1);
    assert_eq!(call(&["session", "show", "nobody"], b"").code, 1);
}

#[test]
fn two_when_the_command_line_or_the_configuration_is_wrong() {
    for arguments in [
        &["frobnicate"][..],
        &["run", "--pipes", "0"],
        &["run", "--pipes", "9999"],
        &["run", "--set", "novalue"],
        &["run", "--set", "backend=x"],
        &["run", "--set", "max_history=-1"],
        &["run", "--set", "no_such_field=1"],
        &["run", "--set", "backend=redis", "--set", "key_prefix=a b"],
        &["run", "--profile", "prod"],
        &["run", "--profile", "custom"],
        &["run", "--config", "/does/not/exist.json"],
        &["run", "/does/not/exist.jsonl"],
        &["run", "/"],
        &["session", "put", "a", "k", "not json"],
        &["session", "clear", "a"],
    ] {
        let ran = call(arguments, b"");
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("error: ") && ran.out.is_empty(), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn three_when_the_plugin_can_not_be_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text.wasm");
    fs::write(&text, "not a component").unwrap();
    for file in [text.to_str().unwrap(), "/does/not/exist.wasm"] {
        for command in [&["run"][..], &["config"], &["session", "list"], &["inspect"]] {
            let ran = call(&[command, &["--plugin", file]].concat(), b"");
            assert_eq!(ran.code, 3, "{command:?} {file}: {ran:?}");
            assert!(ran.err.contains(file), "{ran:?}");
        }
    }
}
