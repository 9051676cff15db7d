//! `keepline session` changes and shows the sessions of the lanes, and reports misuse in the component's words.

use std::process::Command;

use keepline_local_redis::RedisServer;
use keepline_tests::servers;
use serde_json::json;

use crate::{HASTY, PATIENT, Ran, answer, call_with, dead_url, finish, keepline, question};

fn call(redis: &RedisServer, arguments: &[&str]) -> Ran {
    with_store(redis, &[&["session"], arguments].concat(), "")
}

fn with_store(redis: &RedisServer, arguments: &[&str], input: &str) -> Ran {
    let url = servers::url(redis);
    let environment = [PATIENT, ("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &*url)];
    finish(keepline(arguments.iter().copied()).envs(environment).spawn().unwrap(), input.as_bytes())
}

#[test]
fn sessions_are_created_changed_shown_and_deleted() {
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

/// What no reader of numbers, characters or trees gives back as it was.
fn odd_values() -> Vec<String> {
    let deep = "[".repeat(130) + &"]".repeat(130);
    [
        "18446744073709551616",
        "1e400",
        "-0",
        "1.50",
        r#""\ud800""#,
        r#""\u00e9\/""#,
        r#"{"a":1,"a":[2.0, NULL],"A":-0.0}"#,
    ]
    .map(|value| value.replace("NULL", "null"))
    .into_iter()
    .chain([deep])
    .collect()
}

fn is_for_strict_parsers(value: &str) -> bool {
    !value.contains("\\ud800") && !value.starts_with("[[[")
}

#[test]
fn values_are_shown_as_they_are_stored() {
    let redis = servers::start();
    call(&redis, &["create", "a"]).ok();
    for (number, value) in odd_values().iter().enumerate() {
        let key = format!("k{number}");
        if is_for_strict_parsers(value) {
            call(&redis, &["put", "a", &key, value]).ok();
        } else {
            // Only other programs write such a value.
            let refused = call(&redis, &["put", "a", &key, value]);
            assert!(refused.code == 1 && refused.err.contains("strict JSON parsers"), "{refused:?}");
            redis_cli(&redis, &["SET", &format!("rr:memory:a:{key}"), value]);
            redis_cli(&redis, &["SADD", "rr:memory:a:__keys__", &key]);
        }
        assert_eq!(call(&redis, &["get", "a", &key]).ok().text(), format!("{value}\n"));
        assert_eq!(
            call(&redis, &["get", "a", &key, "--json"]).ok().text(),
            format!("{{\"session\":\"a\",\"key\":\"{key}\",\"value\":{value}}}\n")
        );
    }
    let (plain, json) = (call(&redis, &["show", "a"]).ok(), call(&redis, &["show", "a", "--json"]).ok());
    for (number, value) in odd_values().iter().enumerate() {
        assert!(plain.text().contains(&format!(".k{number}\t{value}\n")), "{}", plain.text());
        assert!(json.text().contains(&format!("\"k{number}\":{value}")), "{}", json.text());
    }
    assert_eq!(call(&redis, &["get", "a", "k4", "--text"]).ok().text(), "\u{fffd}\n");
}

#[test]
fn history_records_of_others_are_shown_as_far_as_they_can_be_read() {
    let redis = servers::start();
    call(&redis, &["create", "a"]).ok();
    let (mut stored, mut shown) = (Vec::new(), Vec::new());
    // Members that the contract's records don't have don't hide the others.
    for value in odd_values() {
        stored.push(format!(r#"{{"x":{value}, "timestamp": 1.5, "op":"put", "key":"k", "y":{value}}}"#));
        shown.push(r#"{"op":"put","key":"k","timestamp":1.500}"#.to_owned());
    }
    for (record, as_shown) in [
        (
            r#"{"op":"renamed","key":"\u00e9\/\"","timestamp":"x"}"#,
            r#"{"op":"renamed","key":"é/\"","timestamp":0.000}"#,
        ),
        (
            r#"{"op":"clear","key":null,"cleared":["\u0061",1],"timestamp":2}"#,
            r#"{"op":"clear","key":null,"cleared":["a"],"timestamp":2.000}"#,
        ),
        (
            r#"{"op":"summary","op_counts":{"put":18446744073709551616},"keys_touched":["k"],"timestamp":2}"#,
            r#"{"op":"summary","summarized_count":9007199254740991,"op_counts":{"put":9007199254740991},"keys_touched":["k"],"timestamp":2.000}"#,
        ),
        ("nonsense", "{}"),
    ] {
        stored.push(record.to_owned());
        shown.push(as_shown.to_owned());
    }
    for record in &stored {
        redis_cli(&redis, &["RPUSH", "rr:memory:a:__history__", record]);
    }
    assert_eq!(call(&redis, &["history", "a"]).ok().text(), shown.join("\n") + "\n");
    assert_eq!(
        call(&redis, &["history", "a", "--json"]).ok().text(),
        format!(
            "{{\"session\":\"a\",\"entries\":[{}],\"first\":0,\"oldest\":0,\"next\":{}}}\n",
            shown.join(","),
            shown.len()
        )
    );
}

#[test]
fn an_unreadable_value_does_not_hide_the_others() {
    let redis = servers::start();
    call(&redis, &["create", "a"]).ok();
    call(&redis, &["put", "a", "good", "1"]).ok();
    call(&redis, &["put", "a", "bad", "1"]).ok();
    redis_cli(&redis, &["SET", "rr:memory:a:bad", "NaN"]);
    let plain = call(&redis, &["show", "a"]).ok();
    assert!(plain.text().contains(".good\t1\n") && !plain.text().contains(".bad"), "{}", plain.text());
    assert!(plain.err.starts_with("warning: key 'bad' is left out"), "{}", plain.err);
    let json = call(&redis, &["show", "a", "--json"]).ok().json();
    assert_eq!((&json["values"], &json["unreadable"]), (&json!({"good": 1}), &json!(["bad"])));
}

fn redis_cli(redis: &RedisServer, arguments: &[&str]) {
    let mut command = Command::new("redis-cli");
    let ran = command.args(["-p", &redis.port().to_string()]).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn session_commands_show_the_sessions_of_a_run() {
    let redis = servers::start();
    let url = servers::url(&redis);
    let mut run = keepline(["run", "--profile", "redis"]);
    finish(run.env("KEEPLINE_REDIS_URL", &url).spawn().unwrap(), (question("ben", "1") + &answer("x")).as_bytes()).ok();
    assert_eq!(call(&redis, &["get", "ben", "last_answer", "--text"]).ok().text(), "x\n");
    assert_eq!(call(&redis, &["get", "ben", "answer_count"]).ok().text(), "1\n");
}

#[test]
fn sessions_are_listed_page_by_page() {
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
fn invalid_arguments_are_reported_with_the_components_messages() {
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
fn the_memory_backend_is_noted_not_to_persist() {
    let ran = crate::call(&["session", "list"], b"").ok();
    assert!(ran.out.is_empty() && ran.err.starts_with("note: ") && ran.err.contains("--profile redis"), "{ran:?}");
}

#[test]
fn an_unreachable_redis_is_one_error() {
    let ran =
        call_with(&[("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &dead_url())], &["session", "list", HASTY]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

#[test]
fn listing_accepts_any_cursor() {
    // Of the memory backend, a cursor is the last id of a page, and an id may begin with a hyphen.
    crate::call(&["session", "list", "--cursor", "-a"], b"").ok();
}

#[test]
fn damaged_sessions_can_be_deleted() {
    let redis = servers::start();
    let conversation = ["--set=conversation=true", "--set=recall=user"];
    let entries = format!(
        "{}\n{}\n",
        json!({"lane": "questions", "text": "My dog is called Bruno.", "metadata": {"session_id": "a", "user_id": "anna"}}),
        json!({"lane": "answers", "text": "A nice name."})
    );
    let parts = [
        "__keys__",
        "__meta__",
        "__history__",
        "__writers__",
        "__log.transcript__",
        "__map.session__",
        "__map.messages__",
    ];
    for part in parts {
        for damage in [["SET", "x"], ["RPUSH", "x"]] {
            redis_cli(&redis, &["FLUSHALL"]);
            with_store(&redis, &[&["run"][..], &conversation].concat(), &entries).ok();
            let key = format!("rr:memory:a:{part}");
            redis_cli(&redis, &["UNLINK", &key]);
            redis_cli(&redis, &[damage[0], &key, damage[1]]);
            call(&redis, &[&["delete", "a"][..], &conversation].concat()).ok();
            let left = call(&redis, &["list"]).ok();
            assert_eq!(left.text(), "", "{part} {damage:?}");
            // What its owner's memory has of it goes, too, where the owner can still be read.
            if !["__meta__", "__map.session__"].contains(&part) {
                let ask = ["recall", "What is my dog called?", "--user", "anna"];
                let recalled = with_store(&redis, &[&ask[..], &conversation].concat(), "").ok();
                assert_eq!(recalled.text(), "", "{part} {damage:?}");
            }
        }
    }
}
