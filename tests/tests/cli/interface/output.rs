//! Messages beside the lines: without colour for programs, verbose on request, as a summary, and the demo.

use std::fs;

use keepline_tests::servers;

use crate::{HASTY, answer, call, dead_url, finish, keepline, question};

#[test]
fn programs_get_no_colour_and_no_progress_bar() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("entries.jsonl");
    fs::write(&file, question("a", "1") + "nonsense\n").unwrap();
    let ran = call(&["run", file.to_str().unwrap(), "--summary", "-v"], b"");
    assert!(!ran.err.contains('\x1b') && !ran.text().contains('\x1b'), "{ran:?}");
    assert!(ran.err.contains("invalid") && ran.err.contains("resumed 1"), "{}", ran.err);
}

#[test]
fn verbose_messages_say_more() {
    let input = question("a", "2") + &answer("x");
    assert_eq!(call(&["run"], input.as_bytes()).ok().err, "");
    let ran = call(&["run", "--verbose"], input.as_bytes()).ok();
    assert!(ran.err.contains("debug: ") && ran.err.contains("Stored answer in session a"), "{}", ran.err);
}

#[test]
fn the_summary_counts_entries_round_trips_and_times() {
    let redis = servers::start();
    let url = format!("redis_url={}", servers::url(&redis));
    let input = (question("a", "1") + &answer("x")).repeat(50) + "{\"lane\":\"open\"}\n";
    let ran = call(&["run", "--summary", "--profile", "redis", "--set", &url], input.as_bytes()).ok();
    for told in [
        "100 entries",
        "questions",
        "answers",
        "enriched 49, resumed 1, stored 50",
        "opened",
        "p50",
        "p99",
        "round trips, 1.0",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}

#[test]
fn reports_of_failed_entries_are_bounded_and_all_are_counted() {
    let url = format!("redis_url={}", dead_url());
    let input = question("a", "1").repeat(3000);
    let arguments = ["run", "--profile", "redis", "--set", "on_store_error=fail", "--set", &url, HASTY, "--summary"];
    let ran = call(&arguments, input.as_bytes());
    assert_eq!(ran.code, 1);
    assert_eq!(ran.text().lines().filter(|line| line.contains("\"error\":{\"code\"")).count(), 3000);
    assert!(ran.err.contains("line 1: ") && ran.err.contains("in total, 3000 entries failed"), "{}", ran.err);
    assert!(ran.err.lines().count() < 60, "{}", ran.err);
}

#[test]
fn the_demo_fits_a_screen_and_shows_the_memory_after_the_crash() {
    let ran = call(&["demo"], b"").ok();
    let lines: Vec<&str> = ran.text().lines().collect();
    assert!(lines.len() <= 24, "{}", ran.text());
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", ran.text());
    for told in [
        "KiB",
        "keepline:store",
        "wasi:clocks",
        "keepline:host",
        "SIGKILL",
        "memory in place",
        "\"answer_count\":2",
        "Try next",
    ] {
        assert!(ran.text().contains(told), "{told}: {}", ran.text());
    }
    assert_eq!(ran.err, "");
}

#[test]
fn the_demo_says_if_there_is_no_redis() {
    let mut demo = keepline(["demo"]);
    let ran = finish(demo.env("PATH", "/nonexistent").spawn().unwrap(), b"").ok();
    assert!(ran.text().contains("redis-server"), "{}", ran.text());
}

#[test]
fn the_demo_plays_a_given_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("entries.jsonl");
    fs::write(&file, (question("zoe", "Hello?") + &answer("Hi.")).repeat(15) + "nonsense").unwrap();
    let ran = call(&["demo", file.to_str().unwrap()], b"").ok();
    assert!(ran.text().contains("zoe") && ran.text().contains("5 more turns"), "{}", ran.text());
}

#[test]
fn run_reports_in_json_with_the_option() {
    let input = question("a", "1") + &answer("x") + "nonsense\n" + &question("bad id!", "2");
    let ran = call(&["run", "--json", "--summary", "-v"], input.as_bytes());
    assert_eq!(ran.code, 1, "{ran:?}");
    let lines: Vec<serde_json::Value> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().flat_map(|line| line.as_object().unwrap().keys()).map(String::as_str).collect();
    for kind in ["debug", "warning", "summary"] {
        assert!(kinds.contains(&kind), "{ran:?}");
    }
    let summary = lines.iter().find_map(|line| line.get("summary")).unwrap();
    assert_eq!((&summary["questions"]["count"], &summary["answers"]["count"]), (&2.into(), &1.into()));
    assert_eq!((&summary["invalid"], &summary["effects"]["stored"]), (&1.into(), &1.into()), "{summary}");
}

#[test]
fn verbose_commands_log_their_steps() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory").to_str().unwrap().to_owned();
    call(&["run", "--dir", &path], (question("a", "1") + &answer("x")).as_bytes()).ok();
    let ran = call(&["session", "show", "a", "--dir", &path, "-v"], b"").ok();
    for told in [&*format!("the store is the directory {path}"), "was loaded in", "to the store in"] {
        assert!(ran.err.contains(told), "{told}: {ran:?}");
    }
    assert!(ran.err.lines().all(|line| line.starts_with("debug: ")), "{ran:?}");
}
