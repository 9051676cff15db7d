//! `keepline migrate` copies sessions between servers, clusters and directories, whatever they contain, and continues
//! after an interruption.

use std::{collections::BTreeMap, thread, time::Duration};

use keepline_local_redis::RedisServer;
use keepline_tests::stores::{MASTERS, shared_cluster};
use redis::Connection;
use serde_json::json;

use crate::{Ran, call_with, finish, keepline, signal};

mod directory;
mod directory_failures;
mod removal;
mod same_store;
mod scan;

/// A migration from a server to somewhere else.
fn migrate(from: &RedisServer, arguments: &[&str]) -> Ran {
    call_with(
        &[("KEEPLINE_BACKEND", "redis"), ("KEEPLINE_REDIS_URL", &from.url())],
        &[&["migrate"], arguments].concat(),
    )
}

/// A command on the sessions of a server, which succeeds.
fn session(server: &RedisServer, arguments: &[&str]) -> Ran {
    let environment = [("KEEPLINE_BACKEND", "redis"), ("KEEPLINE_REDIS_URL", &*server.url())];
    call_with(&environment, &[&["session"], arguments].concat()).ok()
}

/// What a migration says at its end, but for the bytes: a history has times in it.
fn told(ran: &Ran) -> String {
    let (before, rest) = ran.text().split_once(" (").unwrap();
    before.to_owned() + rest.split_once(')').unwrap().1
}

/// What `--to` says for the cluster, under a prefix of one's own.
fn to_cluster(prefix: &str) -> Vec<String> {
    let nodes = shared_cluster().addresses().join(",");
    vec!["--to=redis_cluster=true".into(), format!("--to=redis_nodes={nodes}"), format!("--to=key_prefix={prefix}")]
}

fn texts(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

fn prefix() -> String {
    format!("test-{:016x}", fastrand::u64(..))
}

fn connect(server: &RedisServer) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

fn send(server: &RedisServer, words: &[&[u8]]) {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| _ = command.arg(*word));
    command.exec(&mut connect(server)).unwrap();
}

/// All keys but the writers' numbers, each with its type, its contents and its expiry.
fn dump(server: &RedisServer) -> BTreeMap<String, (String, Vec<Vec<u8>>, i64)> {
    let connection = &mut connect(server);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    let mut all = BTreeMap::new();
    for key in keys.into_iter().filter(|key| !key.ends_with(":__writers__")) {
        let kind: String = redis::cmd("TYPE").arg(&key).query(connection).unwrap();
        let mut parts: Vec<Vec<u8>> = match &*kind {
            "string" => vec![redis::cmd("GET").arg(&key).query(connection).unwrap()],
            "list" => redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query(connection).unwrap(),
            "set" => redis::cmd("SMEMBERS").arg(&key).query(connection).unwrap(),
            _ => {
                let fields: BTreeMap<Vec<u8>, Vec<u8>> = redis::cmd("HGETALL").arg(&key).query(connection).unwrap();
                fields.into_iter().map(|(field, value)| [field, value].join(&b'=')).collect()
            }
        };
        if kind != "list" {
            parts.sort_unstable();
        }
        let expires: i64 = redis::cmd("PEXPIRETIME").arg(&key).query(connection).unwrap();
        all.insert(key, (kind, parts, expires));
    }
    all
}

/// Sessions of every kind, written by the product itself and by the original.
fn fill(server: &RedisServer) {
    let (url, quiet) = (server.url(), [("KEEPLINE_BACKEND", "redis")]);
    let session = |options: &[&str], arguments: &[&str], input: &[u8]| {
        let mut command = keepline([&["session"], arguments, options].concat());
        command.envs(quiet).env("KEEPLINE_REDIS_URL", &url);
        finish(command.spawn().unwrap(), input).ok()
    };
    session(&["--set=session_ttl_hours=5"], &["create", "fixed"], b"");
    session(&[], &["put", "fixed", "k", "\"v\""], b"");
    session(&["--set=session_ttl_hours=7", "--set=session_ttl_mode=sliding"], &["create", "sliding"], b"");
    session(&[], &["increment", "sliding", "n", "7"], b"");
    session(&[], &["create", "empty"], b"");
    session(&[], &["create", "large"], b"");
    // Larger than a part.
    session(
        &["--set=max_value_bytes=8388608"],
        &["put", "large", "k", "-", "--text"],
        "größer ".repeat(400_000).as_bytes(),
    );
    let mut entries = String::new();
    for n in 0..3000 {
        entries.push_str(&format!(
            "{}\n",
            json!({"lane": "answers", "text": "é", "metadata": {"session_id": format!("many-{}", n % 50)}})
        ));
        entries.push_str(&format!(
            "{}\n",
            json!({"lane": "answers", "text": n.to_string(), "metadata": {"session_id": "long"}})
        ));
    }
    let mut run = keepline(["run", "--set=max_history=100000", "--pipes=8"]);
    finish(run.envs(quiet).env("KEEPLINE_REDIS_URL", &url).spawn().unwrap(), entries.as_bytes()).ok();
    let mut wide = redis::pipe();
    for n in 0..1200 {
        wide.set(format!("rr:memory:wide:k{n}"), n).sadd("rr:memory:wide:__keys__", format!("k{n}"));
    }
    wide.exec(&mut connect(server)).unwrap();
    // As the original writes it; a value that is not UTF-8; a key whose value was evicted.
    send(server, &[b"HSET", b"rr:memory:wide:__meta__", b"created_at", b"1700000000.5", b"ttl_seconds", b"None"]);
    send(server, &[b"SET", b"rr:memory:wide:bytes", b"\xff\x00\r\n"]);
    send(server, &[b"SADD", b"rr:memory:wide:__keys__", b"bytes"]);
    send(server, &[b"SADD", b"rr:memory:__sessions__", b"wide", b"dead"]);
}

#[test]
fn every_kind_of_session_goes_to_a_cluster_and_back_unchanged() {
    let (from, back, prefix) = (RedisServer::start().unwrap(), RedisServer::start().unwrap(), prefix());
    fill(&from);
    let before = dump(&from);
    let there = migrate(&from, &[&texts(&to_cluster(&prefix))[..], &["--json"]].concat()).ok().json();
    assert_eq!((&there["copied"], &there["already_there"], &there["left"]), (&json!(56), &json!(0), &json!([])));

    // All three masters have got some of it.
    for node in &shared_cluster().nodes()[..MASTERS] {
        let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{prefix}:*")).query(&mut connect(node)).unwrap();
        assert!(!keys.is_empty());
    }
    let to = to_cluster(&prefix);
    let as_source: Vec<_> = to.iter().map(|field| field.replace("--to=", "--set=")).collect();
    let url = format!("--to=redis_url={}", back.url());
    let arguments = [&["migrate"], &texts(&as_source)[..], &["--to=redis_cluster=false", "--to=redis_nodes="]].concat();
    let arguments = [&arguments[..], &["--to=key_prefix=rr:memory", &url]].concat();
    let returned = call_with(&[("KEEPLINE_BACKEND", "redis")], &arguments).ok();
    assert!(returned.text().starts_with("56 sessions copied ("), "{returned:?}");
    assert!(returned.text().ends_with("; all that the source lists is in the target, with the same contents\n"));

    let after = dump(&back);
    for (key, was) in before {
        match key.as_str() {
            // The dead name is gone; nobody misses it.
            "rr:memory:__sessions__" => assert_eq!(after[&key].1.len(), was.1.len() - 1),
            _ => assert_eq!(after.get(&key), Some(&was), "{key}"),
        }
    }
}

#[test]
fn existing_sessions_are_left_alone_and_differences_reported() {
    let (from, prefix) = (RedisServer::start().unwrap(), prefix());
    let session = |arguments: &[&str]| session(&from, arguments);
    for name in ["a", "b", "c"] {
        session(&["create", name]);
        session(&["put", name, "k", "1"]);
    }
    let to = to_cluster(&prefix);
    assert!(migrate(&from, &texts(&to)).ok().text().starts_with("3 sessions copied ("));
    assert!(migrate(&from, &texts(&to)).ok().text().starts_with("0 sessions copied (0 B), 3 already there; "));

    session(&["put", "b", "k", "2"]);
    send(&from, &[b"LPUSH", b"rr:memory:c:broken", b"x"]);
    send(&from, &[b"SADD", b"rr:memory:c:__keys__", b"broken"]);
    let told = migrate(&from, &texts(&to));
    assert_eq!(told.code, 1);
    assert!(told.err.contains("session b: the target has one of that name with different contents"), "{told:?}");
    assert!(told.err.contains("session c: what is stored under broken has the wrong type"), "{told:?}");
    assert!(told.text().contains("1 already there, 2 not migrated; see above"), "{told:?}");

    let replaced = migrate(&from, &[&texts(&to)[..], &["--overwrite", "--delete", "--json"]].concat());
    let json = replaced.json();
    assert_eq!((&json["copied"], &json["already_there"], &json["deleted"]), (&json!(1), &json!(1), &json!(2)));
    assert_eq!(replaced.code, 1, "c is still broken");
    assert_eq!(session(&["list"]).text(), "c\n", "what has arrived is gone here");
}

#[test]
fn a_killed_migration_continues() {
    let (from, prefix) = (RedisServer::start().unwrap(), prefix());
    fill(&from);
    let to = to_cluster(&prefix);
    let mut copied = 0;
    for (after, name) in [(40, "-KILL"), (80, "-TERM"), (160, "-KILL")] {
        let mut command = keepline([&["migrate"], &texts(&to)[..]].concat());
        command.env("KEEPLINE_BACKEND", "redis").env("KEEPLINE_REDIS_URL", from.url());
        let child = command.spawn().unwrap();
        thread::sleep(Duration::from_millis(after));
        signal(&child, name);
        let ended = finish(child, b"");
        if name == "-TERM" && ended.code == 1 {
            assert!(ended.err.contains("run the same command again"), "{ended:?}");
        }
    }
    let rest = migrate(&from, &[&texts(&to)[..], &["--json"]].concat()).ok().json();
    copied += rest["copied"].as_u64().unwrap();
    assert_eq!(copied + rest["already_there"].as_u64().unwrap(), 56);
}

#[test]
fn missing_options_are_reported() {
    let server = RedisServer::start().unwrap();
    let nothing_else = migrate(&server, &["--to=backend=redis"]);
    assert!(nothing_else.code == 2 && nothing_else.err.contains("source and target are the same"), "{nothing_else:?}");
    let memory = migrate(&server, &["--to=backend=memory"]);
    assert!(memory.code == 2 && memory.err.contains("exists only within a process"), "{memory:?}");
    let nowhere = migrate(&server, &[]);
    assert!(nowhere.code == 2 && nowhere.err.contains("--to"), "{nowhere:?}");
    let no_cluster = migrate(&server, &["--to=redis_cluster=true"]);
    assert!(
        no_cluster.code == 1 && no_cluster.err.contains("the target can't be used: this Redis is not a cluster node"),
        "{no_cluster:?}"
    );
}
