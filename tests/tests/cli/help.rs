//! Help texts and shell completions.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use super::call;

const COMMANDS: [&str; 13] = [
    "run",
    "session",
    "recall",
    "remember",
    "memories",
    "store",
    "migrate",
    "health",
    "config",
    "inspect",
    "component",
    "demo",
    "completions",
];

#[test]
fn every_command_has_help() {
    let help = call(&["--help"], b"").ok();
    assert!(help.text().contains("Exit codes:") && help.text().contains("KEEPLINE_<FIELD>"));
    assert!(help.text().contains("--dir PATH"), "how sessions are kept comes first: {}", help.text());
    for command in COMMANDS {
        assert!(help.text().contains(command), "{command}");
        assert!(call(&[command, "--help"], b"").ok().text().contains("Usage: keepline"));
    }
    for command in ["check", "compact", "backup", "repair"] {
        assert!(call(&["store", command, "--help"], b"").ok().text().contains("Usage: keepline store"));
    }
    for command in [
        "list",
        "show",
        "create",
        "delete",
        "put",
        "get",
        "keys",
        "clear",
        "increment",
        "upkeep",
        "history",
        "clear-all",
    ] {
        assert!(call(&["session", command, "--help"], b"").ok().text().contains("Usage: keepline session"));
    }
}

#[test]
fn every_shell_has_completions() {
    for (shell, checker) in [("bash", Some("bash")), ("zsh", None), ("fish", None)] {
        let script = call(&["completions", shell], b"").ok();
        for command in COMMANDS {
            assert!(script.text().contains(command), "{shell} {command}");
        }
        if let Some(checker) = checker {
            let mut check = Command::new(checker).arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            check.stdin.take().unwrap().write_all(&script.out).unwrap();
            assert!(check.wait().unwrap().success(), "{shell}");
        }
    }
}
