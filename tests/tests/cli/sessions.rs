//! `keepline session` changes and shows the sessions of the lanes, and tells misuse in the component's words.

use keepline::local_redis::RedisServer;
use keepline_tests::servers;
use serde_json::json;

use super::{Ran, answer, call_with, dead_url, finish, keepline, question};

fn call(redis: &RedisServer, arguments: &[&str]) -> Ran {
    let url = servers::url(redis);
    call_with(&[("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &url)], &[&["session"], arguments].concat())
}

#[test]
fn are_created_changed_shown_and_deleted() {
    let redis = servers::start();
    assert_eq!(call(&redis, &["create", "anna"]).ok().text(), "anna\n");
    let twice = call(&redis, &["create", "anna"]);
    assert!(twice.code == 1 && twice.err.contains("Session 'anna' already exists"), "{twice:?}");

    call(&redis, &["put", "anna", "address", r#"{"city":"Köln","n":12345678901234567890123}"#]).ok();
    call(&redis, &["put", "anna", "note", "say \"hi\"", "--text"]).ok();
    assert_eq!(call(&redis, &["increment", "anna", "visits"]).ok().text(), "1\n");
    assert_eq!(call(&redis, &["increment", "anna", "visits", "-5"]).ok().text(), "-4\n");
    assert_eq!(
        call(&redis, &["get", "anna", "address"]).ok().text(),
        "{\"city\":\"Köln\",\"n\":12345678901234567890123}\n"
    );
    assert_eq!(call(&redis, &["get", "anna", "note"]).ok().text(), "\"say \\\"hi\\\"\"\n");
    assert_eq!(call(&redis, &["get", "anna", "note", "--text"]).ok().text(), "say \"hi\"\n");
    assert_eq!(call(&redis, &["keys", "anna"]).ok().text(), "address\nnote\nvisits\n");

    let shown = call(&redis, &["show", "anna", "--json"]).ok().json();
    assert_eq!((&shown["key_count"], &shown["values"]["visits"]), (&json!(3), &json!(-4)));
    assert!(shown["expires_in_ms"].as_u64().unwrap() > 86_000_000);
    assert!(call(&redis, &["show", "anna"]).ok().text().contains(".visits\t-4\n"));
    let history = call(&redis, &["history", "anna", "--json"]).ok().json();
    let operations: Vec<&str> =
        history["entries"].as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap()).collect();
    assert_eq!(operations, ["address", "note", "visits", "visits"]);
    assert_eq!(call(&redis, &["history", "anna", "--limit", "1"]).ok().text().lines().count(), 1);

    assert_eq!(call(&redis, &["clear", "anna", "note"]).ok().text(), "note\n");
    assert_eq!(
        call(&redis, &["clear", "anna", "--all", "--json"]).ok().json()["cleared"],
        json!(["address", "visits"])
    );
    assert_eq!(call(&redis, &["delete", "anna"]).ok().text(), "");
    let gone = call(&redis, &["delete", "anna"]);
    assert!(gone.code == 1 && gone.err.contains("Session 'anna' not found"), "{gone:?}");
}

#[test]
fn are_those_of_the_lanes() {
    let redis = servers::start();
    let url = servers::url(&redis);
    let mut run = keepline(["run", "--profile", "redis"]);
    finish(run.env("KEEPLINE_REDIS_URL", &url).spawn().unwrap(), (question("ben", "1") + &answer("x")).as_bytes()).ok();
    assert_eq!(call(&redis, &["get", "ben", "last_answer", "--text"]).ok().text(), "x\n");
    assert_eq!(call(&redis, &["get", "ben", "answer_count"]).ok().text(), "1\n");
}

#[test]
fn are_listed_page_by_page() {
    let redis = servers::start();
    let url = servers::url(&redis);
    let input: String = (0..250).map(|number| question(&format!("s{number:03}"), "x")).collect();
    let mut run = keepline(["run", "--profile", "redis"]);
    finish(run.env("KEEPLINE_REDIS_URL", &url).spawn().unwrap(), input.as_bytes()).ok();
    let expected: Vec<String> = (0..250).map(|number| format!("s{number:03}")).collect();

    let all = call(&redis, &["list", "--all", "--limit", "20"]).ok();
    let mut listed: Vec<&str> = all.text().lines().collect();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed, expected);

    let mut cursor = String::new();
    let mut paged = Vec::new();
    loop {
        let page = call(&redis, &["list", "--json", "--limit", "20", "--cursor", &cursor]).ok().json();
        paged.extend(page["sessions"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()));
        cursor = page["cursor"].as_str().unwrap().to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    paged.sort_unstable();
    paged.dedup();
    assert_eq!(paged, expected);
    assert!(call(&redis, &["list", "--limit", "20"]).ok().err.contains("--cursor"));
}

#[test]
fn that_are_misused_are_told_in_the_components_words() {
    let redis = servers::start();
    call(&redis, &["create", "a"]).ok();
    for (arguments, told) in [
        (&["show", "nobody"][..], "Session 'nobody' not found"),
        (
            &["create", "bad id"],
            "Invalid session_id: 'bad id'. Must be 1-128 alphanumeric characters, hyphens, or underscores.",
        ),
        (
            &["put", "a", "b c", "1"],
            "Invalid key: 'b c'. Must be 1-256 alphanumeric characters, hyphens, underscores, or dots.",
        ),
        (&["get", "a", "nothing"], "Session 'a' has no key 'nothing'"),
    ] {
        let ran = call(&redis, arguments);
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains(told), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn of_the_memory_backend_come_with_a_note_that_they_do_not_stay() {
    let ran = super::call(&["session", "list"], b"").ok();
    assert!(ran.out.is_empty() && ran.err.starts_with("note: ") && ran.err.contains("--profile redis"), "{ran:?}");
}

#[test]
fn whose_redis_is_away_are_told_so_without_a_stack_of_noise() {
    let ran = call_with(&[("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &dead_url())], &["session", "list"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}
