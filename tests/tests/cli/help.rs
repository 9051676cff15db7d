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
fn merged_commands_are_hidden_and_a_session_comes_first() {
    let help = call(&["session", "--help"], b"").ok();
    let is_listed =
        |command: &str| help.text().lines().any(|line| line.trim_start().starts_with(&format!("{command} ")));
    for (command, is_shown) in [("show", true), ("nodes", true), ("describe", false), ("window", false)] {
        assert_eq!(is_listed(command), is_shown, "{command}: {}", help.text());
        call(&["session", command, "--help"], b"").ok();
    }
    for (command, usage) in [
        ("clear", "keepline session clear [OPTIONS] <SESSION> <KEY|--all>\n"),
        ("clear-messages", "keepline session clear-messages [OPTIONS] <SESSION> <--branch N|--all>\n"),
        ("show", "session show [OPTIONS] <SESSION>\n"),
    ] {
        let help = call(&["session", command, "--help"], b"").ok();
        assert!(help.text().contains(usage), "{}", help.text());
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
