//! `keepline health`: reports whether the store can be reached, also by its exit code. A run can require that at its
//! start.

use std::{fs, net::TcpListener};

use keepline_local_redis::RedisServer;
use serde_json::json;

use crate::{Ran, answer, call, dead_url, question};

/// Some that open a store.
const COMMANDS: &[&[&str]] =
    &[&["session", "list"], &["session", "export", "--all"], &["user", "sessions", "anna"], &["stats"]];

fn health(arguments: &[&str]) -> Ran {
    call(&[&["health", "--json"], arguments].concat(), b"")
}

#[test]
fn healthy_if_the_store_answers() {
    let server = RedisServer::start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (url, path) = (format!("redis_url={}", server.url()), directory.path().to_str().unwrap());
    call(&["run", "--dir", path], question("a", "1").as_bytes()).ok();
    for (backend, arguments) in
        [("memory", &[][..]), ("directory", &["--dir", path]), ("redis", &["--profile", "redis", "--set", &url])]
    {
        let ran = health(arguments).ok();
        let told = ran.json();
        assert_eq!(
            (&told["backend"], &told["reachable"], &told["breaker"]),
            (&json!(backend), &json!(true), &json!("closed"))
        );
        assert!(told["problem"].is_null() && told["round_trip_ms"].is_f64() && ran.err.is_empty(), "{ran:?}");
        let ran = call(&[&["health"], arguments].concat(), b"").ok();
        assert!(ran.text().contains("reachable   yes") && ran.text().contains("round trip"), "{}", ran.text());
    }
}

#[test]
fn unhealthy_with_the_reason_if_the_store_does_not_answer() {
    // One that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://127.0.0.1:{}", silent.local_addr().unwrap().port());
    for (url, code) in [(dead_url(), "unavailable"), (silent, "timed-out")] {
        let url = format!("redis_url={url}");
        let set = ["--profile", "redis", "--set", &url, "--set", "store_timeout_ms=200"];
        let ran = health(&set);
        let told = ran.json();
        assert_eq!(
            (ran.code, &told["reachable"], &told["problem"]["code"]),
            (1, &json!(false), &json!(code)),
            "{ran:?}"
        );
        assert!(told["problem"]["message"].as_str().unwrap().contains("Redis"), "{ran:?}");
        let ran = call(&[&["health"], &set[..]].concat(), b"");
        assert!(ran.code == 1 && ran.text().contains("reachable   no: "), "{ran:?}");
    }
}

#[test]
fn warns_of_a_redis_that_evicts_keys() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]).unwrap();
    let url = format!("redis_url={}", server.url());
    let ran = call(&["health", "--profile", "redis", "--set", &url], b"").ok();
    assert!(ran.err.contains("evicts keys") && ran.err.contains("maxmemory-policy allkeys-lru"), "{ran:?}");
    assert!(ran.text().contains(&format!("store       Redis at 127.0.0.1:{}", server.port())), "{ran:?}");
}

#[test]
fn health_creates_no_directory() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory");
    let ran = health(&["--dir", path.to_str().unwrap()]);
    assert!(ran.code == 2 && ran.err.contains("there is no store in"), "{ran:?}");
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    fs::write(path.join("keepline.db"), "no database").unwrap();
    assert_ne!(health(&["--dir", path.to_str().unwrap()]).code, 0);
}

#[test]
fn a_run_can_require_a_healthy_store() {
    let url = format!("redis_url={}", dead_url());
    let input = question("a", "1") + &answer("x");
    let run = |required: &str| {
        let set = ["run", "--profile", "redis", "--set", &url, "--set", required, "--set", "store_timeout_ms=200"];
        call(&set, input.as_bytes())
    };
    let ran = run("require_store=true");
    assert!(ran.code == 1 && ran.out.is_empty(), "{ran:?}");
    assert!(
        ran.err.contains("the store can't be used: Redis can't be used") && ran.err.contains("(require_store)"),
        "{ran:?}"
    );
    assert_eq!(run("require_store=false").ok().text(), input);
    let server = RedisServer::start().unwrap();
    let url = format!("redis_url={}", server.url());
    let set = ["run", "--profile", "redis", "--set", &url, "--set", "require_store=true"];
    assert_eq!(call(&set, input.as_bytes()).ok().text(), input);
}

#[test]
fn the_address_of_the_store_and_the_cause_are_named() {
    let server = RedisServer::start().unwrap();
    let port = server.port();
    let dead = dead_url();
    let address = dead.strip_prefix("redis://").unwrap();
    let plain = format!("redis_port={port}");
    for (fields, code, cause, place) in [
        (
            vec![format!("redis_url={dead}"), "store_timeout_ms=500".to_owned()],
            1,
            "connection refused",
            format!("Redis at {address}"),
        ),
        (
            vec!["redis_host=no-such-host.invalid".to_owned(), "store_timeout_ms=5000".to_owned()],
            1,
            "its host name can't be resolved",
            "Redis at no-such-host.invalid:6379".to_owned(),
        ),
        (
            vec![
                "redis_host=127.0.0.1".to_owned(),
                plain,
                "redis_tls=true".to_owned(),
                "store_timeout_ms=500".to_owned(),
            ],
            1,
            "is this Redis's TLS port",
            format!("Redis at 127.0.0.1:{port}"),
        ),
        (vec!["redis_url=localhost:6379".to_owned()], 2, "does not begin with redis:// or rediss://", String::new()),
    ] {
        let set: Vec<_> = fields.iter().flat_map(|field| ["--set", field]).collect();
        // A command names what its store reports: for one cause, each command is asked.
        let commands = if cause == "connection refused" { COMMANDS } else { &COMMANDS[..1] };
        for command in commands {
            let ran = call(&[*command, &["--profile", "redis"], &set].concat(), b"");
            assert_eq!(ran.code, code, "{ran:?}");
            assert!(ran.err.contains(cause) && ran.err.contains(&place), "{ran:?}");
        }
    }
}
