//! Help texts and shell completions.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::{call, call_with, sessions::transcripts::Place};

/// The subcommands that a help text lists.
fn listed_commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    commands.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn every_command_has_help() {
    let help = call(&["--help"], b"").ok();
    assert!(help.text().contains("Exit codes:") && help.text().contains("KEEPLINE_<FIELD>"));
    assert!(help.text().contains("--dir PATH"), "how sessions are kept comes first: {}", help.text());
    let commands = listed_commands(help.text());
    assert!(["run", "session", "explain", "completions"].iter().all(|name| commands.contains(name)), "{commands:?}");
    for command in commands.into_iter().filter(|name| *name != "help") {
        let help = call(&[command, "--help"], b"").ok();
        assert!(help.text().contains("Usage: keepline"), "{command}");
        for subcommand in listed_commands(help.text()).into_iter().filter(|name| *name != "help") {
            let help = call(&[command, subcommand, "--help"], b"").ok();
            assert!(help.text().contains(&format!("Usage: keepline {command} {subcommand}")), "{command} {subcommand}");
        }
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

/// What is offered at the end of a command line, as bash asks for it.
fn completed(words: &[&str]) -> Vec<String> {
    let index = words.len().to_string();
    let environment = [("_KEEPLINE_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", &*index), ("_CLAP_IFS", "\n")];
    let ran = call_with(&environment, &[&["--", "keepline"], words].concat()).ok();
    assert_eq!(ran.err, "");
    ran.text().lines().map(str::to_owned).collect()
}

#[test]
fn every_shell_has_completions() {
    for (shell, checker) in
        [("bash", Some("bash")), ("zsh", None), ("fish", None), ("elvish", None), ("powershell", None)]
    {
        let script = call(&["completions", shell], b"").ok();
        assert!(script.text().contains("_KEEPLINE_COMPLETE"), "{shell}: {script:?}");
        if let Some(checker) = checker {
            let mut check = Command::new(checker).arg("-n").stdin(Stdio::piped()).spawn().unwrap();
            check.stdin.take().unwrap().write_all(&script.out).unwrap();
            assert!(check.wait().unwrap().success(), "{shell}");
        }
    }
    let commands = completed(&[""]);
    let help = call(&["--help"], b"").ok();
    let listed = listed_commands(help.text());
    assert!(listed.iter().all(|command| commands.iter().any(|offered| offered == command)), "{commands:?}");
    assert!(!commands.iter().any(|offered| offered == "bench"), "{commands:?}");
}

#[test]
fn profiles_fields_sessions_and_users_are_completed() {
    assert_eq!(completed(&["run", "--profile", "c"]), ["custom", "chat"]);
    assert_eq!(completed(&["run", "--set", "max_context_t"]), ["max_context_tokens="]);
    assert_eq!(completed(&["run", "--set", "breaker_f"]), ["breaker_failures="]);
    assert_eq!(completed(&["run", "--set", "backend=d"]), ["backend=directory"]);

    let place = Place::new();
    place.append("anna-parcel", "?", "!", &["--user", "anna"]);
    place.append("ben", "?", "!", &["--user", "eva@example.org"]);
    let sessions = completed(&["--dir", &place.path, "session", "show", ""]);
    assert!(["anna-parcel", "ben"].iter().all(|name| sessions.iter().any(|offered| offered == name)), "{sessions:?}");
    assert_eq!(completed(&["explain", "--dir", &place.path, "a"]), ["anna-parcel"]);
    assert_eq!(completed(&["user", "sessions", "--dir", &place.path, "a"]), ["anna"]);
    // Where there is no store, there is nothing to offer, and none is made.
    let missing = format!("{}-missing", place.path);
    assert_eq!(completed(&["session", "show", "--dir", &missing, "a"]), [""; 0]);
    assert!(!std::path::Path::new(&missing).exists());
}

#[test]
fn pinned_plugins_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trust, file) = (path("plugins.json"), path("keepline.wasm"));
    std::fs::write(&file, keepline::plugin::BUNDLED).unwrap();
    let with_trust = ["--trust", &*trust];
    // Where nothing is pinned, there is nothing to offer.
    assert_eq!(
        completed(&[&with_trust[..], &["plugin", "show", ""]].concat()).iter().filter(|word| **word == "mine").count(),
        0
    );
    for name in ["mine", "other"] {
        call(&[&["plugin", "add", name, &file, "--yes"][..], &with_trust].concat(), b"").ok();
    }
    for command in ["show", "verify", "remove"] {
        assert_eq!(completed(&[&with_trust[..], &["plugin", command, "m"]].concat()), ["mine"], "{command}");
    }
    assert_eq!(completed(&[&with_trust[..], &["run", "--plugin", "@o"]].concat()), ["@other"]);
    assert_eq!(completed(&[&with_trust[..], &["run", "--pipelines", "@"]].concat()), ["@mine", "@other"]);
    assert_eq!(completed(&[&with_trust[..], &["inspect", "@m"]].concat()), ["@mine"]);
    // As bash hands it over, which ends a word at `@`.
    assert_eq!(completed(&[&with_trust[..], &["run", "--plugin", "@", "@m"]].concat()), ["@mine"]);
    assert_eq!(completed(&[&with_trust[..], &["--plugin", "@", "mine", "plugin", "show", "o"]].concat()), ["other"]);
    // Files are offered as before.
    assert_eq!(completed(&[&with_trust[..], &["run", "--plugin", &path("keep")]].concat()), [&*file]);
}
