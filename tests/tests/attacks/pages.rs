//! Lists that a plugin returns to operators: pages that don't end or are too large together, and texts that pose as
//! someone else's.

use keepline_tests::confined::Ended;

use super::*;

fn ended(arguments: &[&str]) -> Ended {
    // However busy the machine is: nothing here is about time.
    hostile(&[&["--set", "store_timeout_ms=60000"][..], arguments].concat()).run()
}

#[test]
fn pages_without_progress_end_with_an_error() {
    for arguments in [
        &["session", "history", "repeats", "--limit", "0"][..],
        &["session", "messages", "repeats", "--limit", "0"],
        &["session", "messages", "nothing", "--limit", "0"],
        &["session", "list", "--all", "--limit", "9999"],
        &["session", "list", "--all", "--limit", "9999", "--json"],
        &["user", "search", "repeats", "word", "--limit", "1"],
        &["user", "forget", "repeats", "--yes"],
    ] {
        let ended = ended(arguments);
        assert_eq!((ended.code, ended.timed_out), (Some(1), false), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("the plugin makes no progress"), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn pages_that_are_too_large_together_end_with_an_error() {
    for arguments in [
        &["session", "history", "large 4000000", "--limit", "0"][..],
        &["session", "messages", "large 4000000", "--limit", "0", "--json"],
    ] {
        let ended = ended(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("more than 256 MiB: use --limit"), "{arguments:?}: {}", ended.stderr);
        assert!(ended.peak_bytes < 700 << 20, "{arguments:?}: {}", ended.peak_bytes);
    }
    // A part of it is shown.
    let ended = ended(&["session", "history", "large 1000", "--limit", "3"]);
    let key = "1".repeat(1000);
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 3), "{}", ended.stderr);
    assert!(ended.stdout.lines().all(|line| line.contains(&key)), "{}", ended.stdout);
}

#[test]
fn an_item_is_printed_on_one_line() {
    let keys = ended(&["session", "keys", "two lines"]);
    assert_eq!((keys.code, &*keys.stdout), (Some(0), "one\\nforged\\r\\u009b\n"), "{}", keys.stderr);
}

#[test]
fn json_holds_no_control_characters() {
    let config = ended(&["--set", "odd=\u{202e}\u{7f}\u{9b}2J", "config", "--json"]);
    assert_eq!(config.code, Some(0), "{}", config.stderr);
    assert!(config.stdout.contains(r#""\u202e\u007f\u009b2J""#), "{}", config.stdout);
    assert!(config.stdout.chars().all(|c| c == '\n' || keepline::logging::is_printable(c)), "{}", config.stdout);
}
