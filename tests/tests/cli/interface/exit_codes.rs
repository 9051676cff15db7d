//! Exit codes.

use std::fs;

use serde_json::Value;

use crate::{HASTY, answer, call, dead_url, question};

#[test]
fn zero_on_success() {
    assert_eq!(call(&["run"], (question("a", "x") + &answer("y")).as_bytes()).code, 0);
    assert_eq!(call(&["run"], b"").code, 0);
    assert_eq!(call(&["--version"], b"").code, 0);
}

#[test]
fn bench_says_where_the_benchmarks_are() {
    for arguments in [&["bench"][..], &["bench", "--only", "growth", "--quick"]] {
        let ran = call(arguments, b"");
        assert!(ran.code == 2 && ran.err.contains("`make bench`"), "{ran:?}");
    }
    assert!(!call(&["--help"], b"").text().contains("bench"));
}

#[test]
fn one_if_a_line_is_invalid_or_a_command_fails() {
    assert_eq!(call(&["run"], b"nonsense\n").code, 1);
    assert_eq!(call(&["session", "show", "nobody"], b"").code, 1);
}

#[test]
fn entries_without_memory_are_counted_and_fail_a_run_that_requires_it() {
    let named = |id: &str| format!("{{\"lane\":\"questions\",\"text\":\"x\",\"metadata\":{{\"session_id\":{id}}}}}\n");
    let redis = format!("redis_url={}", dead_url());
    let over_redis = ["--profile", "redis", "--set", &redis, HASTY];
    let good = question("a", "x") + &answer("y");
    let odd = good.clone() + &named("\"telegram:42\"") + &named("\"eva@example.org\"") + &named("123");
    let sessionless = "{\"lane\":\"questions\",\"text\":\"x\"}\n";
    for (input, arguments, told) in [
        (&*good, &[][..], None),
        (&*odd, &[], Some("warning: 3 of 5 entries passed without memory: 3 with an invalid session_id")),
        (sessionless, &[], Some("note: 1 of 1 entry passed without memory: 1 without a session, or with memory off")),
        (
            &*good,
            &over_redis,
            Some("warning: 2 of 2 entries passed without memory: 2 because the store or the plugin failed"),
        ),
    ] {
        for requires in [false, true] {
            let option = if requires { &["--require-memory"][..] } else { &[] };
            let ran = call(&[&["run"], arguments, option].concat(), input.as_bytes());
            assert_eq!(ran.code, i32::from(requires && told.is_some()), "{ran:?}");
            assert_eq!(ran.err.lines().last().filter(|line| line.contains("without memory")), told, "{ran:?}");
        }
    }
    // What an id has to be is told once a kind.
    let ran = call(&["run"], odd.repeat(3).as_bytes()).ok();
    let told: Vec<&str> = ran.err.lines().filter(|line| line.contains("session_ids")).collect();
    assert!(told.len() == 2 && told[0].contains("'telegram:42'") && told[1].contains("123"), "{ran:?}");
    let hashed =
        call(&["run", "--set", "session_ids=hash", "--require-memory"], odd.replace(":123", ":\"123\"").as_bytes());
    assert_eq!((hashed.code, &*hashed.err), (0, ""));
}

#[test]
fn one_if_an_entry_fails_by_option() {
    let node = ["--set", "conversation=true", "--set", "memory_mode=node", "--set", "require_node=true"];
    let redis = format!("redis_url={}", dead_url());
    let store = ["--profile", "redis", "--set", &redis, "--set", "on_store_error=fail", HASTY];
    for (arguments, code) in [(&node[..], "no-node"), (&store, "unavailable")] {
        let ran = call(&[&["run"], arguments].concat(), (question("a", "x") + &answer("y")).as_bytes());
        assert_eq!(ran.code, 1, "{ran:?}");
        let lines: Vec<Value> = ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[0]["error"]["code"]), (2, &code.into()), "{ran:?}");
    }
}

#[test]
fn two_if_the_command_line_or_the_configuration_is_wrong() {
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
fn three_if_the_plugin_can_not_be_loaded() {
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
