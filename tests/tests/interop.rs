//! One Redis shared with the original node: what it wrote we read and continue, what we write is its
//! layout byte for byte, and it can go on from there. Redis only, with a client that looks behind both.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use futures::future::join_all;
use keepline::{
    pipe::Effect,
    sessions::SessionErrorCode as Code,
    store::{RedisStore, Store},
};
use keepline_tests::{
    lanes::{Node, StillClock, operations_told},
    servers,
    stores::{RawRedis, StoreUnderTest},
};
use redis::cmd;
use serde_json::{Value, json};

const DAY: &str = r#"{"session_ttl_hours": 24}"#;
const DAY_MS: i64 = 86_400_000;

/// The original node at work on the same keys, command by command.
struct Original<'a>(&'a RawRedis);

impl Original<'_> {
    fn at(session: &str, rest: &str) -> String {
        format!("{session}:{rest}")
    }

    fn transaction(&self, commands: &[(&str, String, Vec<String>)]) {
        self.0.run::<redis::Value>(&cmd("MULTI"));
        for (name, rest, arguments) in commands {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            self.0.on::<redis::Value>(name, rest, &arguments);
        }
        self.0.run::<redis::Value>(&cmd("EXEC"));
    }

    fn create(&self, session: &str, ttl_seconds: Option<f64>) {
        let meta = Self::at(session, "__meta__");
        let ttl = ttl_seconds.map_or("None".into(), |seconds| format!("{seconds:?}"));
        self.transaction(&[
            ("SADD", "__sessions__".into(), vec![session.into()]),
            ("HSET", meta.clone(), vec!["created_at".into(), "1795186917.032595".into(), "ttl_seconds".into(), ttl]),
        ]);
        if let Some(seconds) = ttl_seconds {
            let milliseconds = format!("{:.0}", (seconds * 1000.0).ceil().max(1.0));
            for name in ["__keys__", "__history__", "__meta__"] {
                self.0.on::<i64>("PEXPIRE", &Self::at(session, name), &[&milliseconds]);
            }
        }
    }

    /// What is left of the session's life, in milliseconds; panics if it is over.
    fn guard(&self, session: &str) -> Option<i64> {
        assert!(self.0.on::<bool>("SISMEMBER", "__sessions__", &[session]));
        let left: i64 = self.0.on("PTTL", &Self::at(session, "__meta__"), &[]);
        assert_ne!(left, -2);
        (left > 0).then_some(left)
    }

    fn history_record(&self, session: &str, record: &str) {
        self.0.on::<i64>("RPUSH", &Self::at(session, "__history__"), &[record]);
    }

    fn put(&self, session: &str, key: &str, value: &Value) {
        let left = self.guard(session);
        let data = Self::at(session, key);
        let record = format!(r#"{{"op": "put", "key": "{key}", "timestamp": 1795186918.25}}"#);
        let mut commands = vec![
            ("SET", data.clone(), vec![python(value)]),
            ("SADD", Self::at(session, "__keys__"), vec![key.into()]),
            ("RPUSH", Self::at(session, "__history__"), vec![record]),
        ];
        if let Some(left) = left {
            for name in [key, "__keys__", "__history__"] {
                commands.push(("PEXPIRE", Self::at(session, name), vec![left.to_string()]));
            }
        }
        self.transaction(&commands);
    }

    fn increment(&self, session: &str, key: &str) -> i64 {
        let left = self.guard(session);
        let value = self.0.on("INCRBY", &Self::at(session, key), &["1"]);
        self.0.on::<i64>("SADD", &Self::at(session, "__keys__"), &[key]);
        self.history_record(session, &format!(r#"{{"op": "put", "key": "{key}", "timestamp": 1795186918.25}}"#));
        if let Some(left) = left {
            for name in [key, "__keys__", "__history__"] {
                self.0.on::<i64>("PEXPIRE", &Self::at(session, name), &[&left.to_string()]);
            }
        }
        value
    }

    /// What a question would be told: resume, list the keys, get each.
    fn read(&self, session: &str) -> Option<BTreeMap<String, Value>> {
        let is_listed: bool = self.0.on("SISMEMBER", "__sessions__", &[session]);
        if !is_listed || !self.0.on::<bool>("EXISTS", &Self::at(session, "__meta__"), &[]) {
            return None;
        }
        self.guard(session);
        let keys: Vec<String> = self.0.on("SMEMBERS", &Self::at(session, "__keys__"), &[]);
        let get = |key: String| {
            let text: String = self.0.on("GET", &Self::at(session, &key), &[]);
            (key, serde_json::from_str(&text).unwrap())
        };
        Some(keys.into_iter().map(get).collect())
    }

    fn history(&self, session: &str) -> Vec<Value> {
        self.guard(session);
        let entries: Vec<String> = self.0.on("LRANGE", &Self::at(session, "__history__"), &["0", "-1"]);
        entries.iter().map(|entry| serde_json::from_str(entry).unwrap()).collect()
    }

    fn delete(&self, session: &str) {
        let keys: Vec<String> = self.0.on("SMEMBERS", &Self::at(session, "__keys__"), &[]);
        for key in keys.iter().map(String::as_str).chain(["__keys__", "__history__", "__meta__"]) {
            self.0.on::<i64>("DEL", &Self::at(session, key), &[]);
        }
        self.0.on::<i64>("SREM", "__sessions__", &[session]);
    }
}

/// JSON as Python's `json.dumps` writes it.
fn python(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{}: {}", python_string(key), python(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => python_string(text),
        other => other.to_string(),
    }
}

fn python_string(text: &str) -> String {
    let mut out = String::new();
    for c in serde_json::to_string(text).unwrap().chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").unwrap();
            }
        }
    }
    out
}

fn text(raw: &RawRedis, rest: &str) -> String {
    raw.on("GET", rest, &[])
}

fn list(raw: &RawRedis, rest: &str) -> Vec<String> {
    raw.on("LRANGE", rest, &["0", "-1"])
}

fn set(raw: &RawRedis, rest: &str) -> Vec<String> {
    let mut members: Vec<String> = raw.on("SMEMBERS", rest, &[]);
    members.sort_unstable();
    members
}

fn kind(raw: &RawRedis, rest: &str) -> String {
    raw.on("TYPE", rest, &[])
}

/// Every key of a session but the writers' bookkeeping, which has an expiry of its own.
fn keys_of(raw: &RawRedis, session: &str) -> Vec<String> {
    let prefix = format!("{session}:");
    let writers = format!("{session}:__writers__");
    raw.keys().into_iter().filter(|key| key.starts_with(&prefix) && *key != writers).collect()
}

// What the original wrote. ----------------------------------------------------------------------------

#[tokio::test]
async fn a_session_of_the_original_is_resumed_enriched_and_continued() {
    let given = StoreUnderTest::redis();
    let (raw, original) = (given.raw(), Original(given.raw()));
    let mut node = Node::new(&given.store, "{}").await;
    for (session, ttl) in [("for-ever", None), ("a-day", Some(86400.0))] {
        original.create(session, ttl);
        original.put(session, "last_answer", &json!("Héllo, 世界 🎉 \"quoted\"\n"));
        assert_eq!(original.increment(session, "answer_count"), 1);
        original.put(session, "profile", &json!({ "name": "Zoë", "scores": [1.0, -2, 1e30, null, true] }));
        original.put(session, "big", &json!(9_007_199_254_740_993_u64));

        // As it stands there, byte for byte.
        let passed = node.ask(session).await;
        assert_eq!((passed.effect, passed.attached), (Effect::Enriched, 4));
        assert_eq!(
            passed.metadata.unwrap(),
            format!(
                "{{\"session_id\":\"{session}\",\"memory_context\":{{\"answer_count\":1,\"big\":9007199254740993,{}{}}}}}",
                r#""last_answer":"H\u00e9llo, \u4e16\u754c \ud83c\udf89 \"quoted\"\n","#,
                r#""profile":{"name": "Zo\u00eb", "scores": [1.0, -2, 1e+30, null, true]}"#
            )
        );

        // And goes on, as the same session.
        assert_eq!(node.reply("Ça va").await.effect, Effect::Stored);
        let state = node.sessions.resume(session).await.unwrap();
        assert_eq!((state.key_count, state.history_length), (4, 6));
        assert_eq!(state.incarnation, "1795186917.032595");
        assert_eq!(state.expires_in.is_some(), ttl.is_some());
        assert_eq!(text(raw, &format!("{session}:last_answer")), "\"Ça va\"");
        assert_eq!(text(raw, &format!("{session}:answer_count")), "2");
        let meta: BTreeMap<String, String> = raw.on("HGETALL", &format!("{session}:__meta__"), &[]);
        let ttl_seconds = ttl.map_or("None".into(), |seconds| format!("{seconds:?}"));
        assert_eq!(
            meta,
            BTreeMap::from([
                ("created_at".to_owned(), "1795186917.032595".to_owned()),
                ("ttl_seconds".into(), ttl_seconds)
            ])
        );
        let end = raw.expires_at(&format!("{session}:__meta__"));
        for key in keys_of(raw, session) {
            let expires = raw.expires_at(&key);
            assert!(if ttl.is_some() { (expires - end).abs() < 1000 } else { expires == -1 }, "{key} {expires}");
        }
    }
    let listed = node.sessions.list("", 100).await.unwrap().sessions;
    assert_eq!(listed, ["a-day", "for-ever"]);
}

#[tokio::test]
async fn the_operators_calls_work_on_a_session_of_the_original() {
    let given = StoreUnderTest::redis();
    let original = Original(given.raw());
    let mut node = Node::new(&given.store, "{}").await;
    original.create("s1", Some(3600.5));
    original.put("s1", "b", &json!(1));
    original.put("s1", "a", &json!("é"));
    assert_eq!(node.sessions.keys("s1").await.unwrap().keys, ["a", "b"]);
    assert_eq!(node.sessions.get("s1", "a").await.unwrap().value.as_deref(), Some(r#""\u00e9""#));
    assert_eq!(node.sessions.increment("s1", "b", 41).await.unwrap().value, 42);
    assert_eq!(node.history("s1").await.len(), 3);
    assert_eq!(node.sessions.create("s1").await.unwrap_err().code, Code::AlreadyExists);
    assert_eq!(node.sessions.delete("s1").await.unwrap().keys_cleared, ["a", "b"]);
    assert_eq!(keys_of(given.raw(), "s1"), [""; 0]);
    assert_eq!(set(given.raw(), "__sessions__"), [""; 0]);
}

#[tokio::test]
async fn a_summary_of_the_original_is_merged_and_counts_add_up() {
    let given = StoreUnderTest::redis();
    let (raw, original) = (given.raw(), Original(given.raw()));
    original.create("s1", None);
    // As the original writes it, one that had swallowed another included.
    original.history_record(
        "s1",
        r#"{"op": "summary", "summarized_count": 4, "op_counts": {"summary": 1, "put": 3}, "keys_touched": ["k7", "k8", "k9"], "timestamp": 1795186918.25}"#,
    );
    original.put("s1", "k10", &json!(1));
    original.history_record("s1", r#"{"op": "clear", "key": "k7", "timestamp": 1795186919.0}"#);
    original
        .history_record("s1", r#"{"op": "clear", "key": null, "cleared": ["k3", "k8"], "timestamp": 1795186919.0}"#);
    let mut node = Node::new(&given.store, r#"{"max_history": 5}"#).await;
    node.sessions.put("s1", "k1", "1").await.unwrap();
    assert_eq!(node.history("s1").await.len(), 5);
    node.sessions.put("s1", "k2", "1").await.unwrap();
    let start = StillClock::START;
    assert_eq!(
        list(raw, "s1:__history__"),
        [
            format!(
                r#"{{"op": "summary", "summarized_count": 7, "op_counts": {{"summary": 1, "put": 4, "clear": 2}}, "keys_touched": ["k10", "k3", "k7", "k8", "k9"], "timestamp": {start}}}"#
            ),
            format!(r#"{{"op": "put", "key": "k1", "timestamp": {start}}}"#),
            format!(r#"{{"op": "put", "key": "k2", "timestamp": {start}}}"#),
        ]
    );
}

#[tokio::test]
async fn a_session_that_the_original_let_expire_is_reported_once_and_forgotten() {
    let given = StoreUnderTest::redis();
    let (raw, original) = (given.raw(), Original(given.raw()));
    let mut node = Node::new(&given.store, "{}").await;
    original.create("s1", Some(0.001));
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(node.sessions.get("s1", "k").await.unwrap_err().message, "Session 's1' has expired");
    assert_eq!(node.sessions.get("s1", "k").await.unwrap_err().message, "Session 's1' not found");
    assert_eq!(set(raw, "__sessions__"), [""; 0]);
}

#[tokio::test]
async fn what_the_original_leaves_behind_is_not_given_to_the_next_session() {
    let given = StoreUnderTest::redis();
    let (raw, original) = (given.raw(), Original(given.raw()));
    // Its writes in the last millisecond of a life can lose their expiry.
    original.create("s1", Some(86400.0));
    original.put("s1", "last_answer", &json!("of the first life"));
    original.put("s1", "secret", &json!("of the first life"));
    for key in ["last_answer", "secret", "__keys__", "__history__"] {
        raw.on::<bool>("PERSIST", &format!("s1:{key}"), &[]);
    }
    raw.on::<i64>("DEL", "s1:__meta__", &[]);

    let mut node = Node::new(&given.store, DAY).await;
    assert_eq!(node.ask("s1").await.effect, Effect::Resumed);
    assert_eq!(keys_of(raw, "s1"), ["s1:__meta__"]);
    node.reply("of the second").await;
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"of the second"}"#);
    assert_eq!(node.history("s1").await.len(), 2);
}

#[tokio::test]
async fn what_is_no_utf8_or_only_pythons_json_is_skipped_and_left_as_it_is() {
    let given = StoreUnderTest::redis();
    let (raw, original) = (given.raw(), Original(given.raw()));
    original.create("s1", None);
    original.put("s1", "good", &json!(1));
    let broken: [(&str, &[u8]); 3] = [("nan", b"NaN"), ("bytes", b"\"\xff\xfe\""), ("many", b"[Infinity, -Infinity]")];
    for (key, value) in broken {
        raw.run::<()>(cmd("SET").arg(raw.address(&format!("s1:{key}"))).arg(value));
        raw.on::<i64>("SADD", "s1:__keys__", &[key]);
    }
    let mut node = Node::new(&given.store, "{}").await;
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"good":1}"#);
    let warnings = node.log.warnings();
    assert_eq!(warnings.len(), 1);
    for key in ["'nan'", "'bytes'", "'many'"] {
        assert!(warnings[0].contains(key), "{warnings:?}");
    }
    for (key, value) in broken {
        assert_eq!(node.sessions.get("s1", key).await.unwrap_err().code, Code::InvalidValue);
        assert_eq!(raw.on::<Vec<u8>>("GET", &format!("s1:{key}"), &[]), value);
    }
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    assert_eq!(node.sessions.resume("s1").await.unwrap().key_count, 6);
}

#[tokio::test]
async fn history_that_is_no_json_or_no_text_is_counted_and_never_in_the_way() {
    let given = StoreUnderTest::redis();
    let (raw, original) = (given.raw(), Original(given.raw()));
    original.create("s1", None);
    for record in ["", "not json", "[1]", "{\"op\": 5}", "{\"key\": \"a\"}", "{\"op\": \"put\", \"key\": null}"] {
        original.history_record("s1", record);
    }
    raw.run::<i64>(cmd("RPUSH").arg(raw.address("s1:__history__")).arg(b"\xff\xfe"));
    let mut node = Node::new(&given.store, r#"{"max_history": 4}"#).await;
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    let history = node.history("s1").await;
    assert_eq!((history.len(), operations_told(&history)), (3, 9), "{history:?}");
}

// What we write. --------------------------------------------------------------------------------------

#[tokio::test]
async fn what_we_write_is_the_layout_byte_for_byte() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    for (session, options, ttl_seconds) in [
        ("for-ever", "{}", "None"),
        ("a-day", DAY, "86400.0"),
        ("half-an-hour", r#"{"session_ttl_hours": 0.5}"#, "1800.0"),
        ("odd", r#"{"session_ttl_hours": 0.0100001}"#, "36.001"),
        ("sliding", r#"{"session_ttl_hours": 24, "session_ttl_mode": "sliding"}"#, "86400.0"),
    ] {
        let at = |key: &str| format!("{session}:{key}");
        let mut node = Node::new(&given.store, options).await;
        let before = raw.now();
        node.ask(session).await;
        node.reply("Grüße \"🎉\"\n").await;
        node.reply("{\"a\": 1}").await;
        node.sessions.put(session, "profile", " {\"a\":[1 , 2]} ").await.unwrap();

        let keys = ["__history__", "__keys__", "__meta__", "answer_count", "last_answer", "profile"].map(at);
        assert_eq!(keys_of(raw, session), keys);
        for (key, expected) in keys.iter().zip(["list", "set", "hash", "string", "string", "string"]) {
            assert_eq!(kind(raw, key), expected, "{key}");
        }
        // An answer that is JSON is a string all the same, as the original's is.
        assert_eq!(text(raw, &at("last_answer")), r#""{\"a\": 1}""#);
        assert_eq!(text(raw, &at("answer_count")), "2");
        assert_eq!(text(raw, &at("profile")), "{\"a\":[1 , 2]}");
        assert_eq!(set(raw, &at("__keys__")), ["answer_count", "last_answer", "profile"]);
        let start = StillClock::START;
        let put = |key: &str| format!(r#"{{"op": "put", "key": "{key}", "timestamp": {start}}}"#);
        let increment = format!(r#"{{"op": "increment", "key": "answer_count", "timestamp": {start}}}"#);
        assert_eq!(
            list(raw, &at("__history__")),
            [put("last_answer"), increment.clone(), put("last_answer"), increment, put("profile")]
        );

        let mut meta: BTreeMap<String, String> = raw.on("HGETALL", &at("__meta__"), &[]);
        assert_eq!(meta.remove("ttl_seconds").unwrap(), ttl_seconds);
        let created_at = meta.remove("created_at").unwrap();
        let (seconds, micros) = created_at.split_once('.').unwrap();
        assert_eq!(micros.len(), 6);
        let created = seconds.parse::<i64>().unwrap() * 1000 + micros[..3].parse::<i64>().unwrap();
        assert!((before..=raw.now()).contains(&created));
        assert_eq!(meta.remove("sliding_ms").as_deref(), (session == "sliding").then_some("86400000"));
        assert_eq!(meta, BTreeMap::new());

        // Everything ends at one instant.
        let end = raw.expires_at(&at("__meta__"));
        match ttl_seconds.parse::<f64>() {
            #[allow(clippy::cast_possible_truncation, reason = "whole milliseconds")]
            Ok(seconds) => assert_eq!(end, created + (seconds * 1000.0).round() as i64),
            Err(_) => assert_eq!(end, -1),
        }
        for key in &keys {
            assert_eq!(raw.expires_at(key), end, "{key}");
        }
        // The bookkeeping of writers has an expiry of its own.
        assert_eq!(kind(raw, &at("__writers__")), "hash");
        assert!(raw.expires_at(&at("__writers__")) > 0);
    }
    assert_eq!(set(raw, "__sessions__"), ["a-day", "for-ever", "half-an-hour", "odd", "sliding"]);
    assert_eq!((kind(raw, "__sessions__").as_str(), raw.expires_at("__sessions__")), ("set", -1));
}

#[tokio::test]
async fn without_options_our_keys_have_the_originals_names() {
    let server = servers::start();
    let store: Arc<dyn Store> = Arc::new(RedisStore::new(servers::options(server.port())).unwrap());
    let mut node = Node::new(&store, "{}").await;
    node.say("s1", "x").await;
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut keys: Vec<String> = cmd("KEYS").arg("*").query(&mut connection).unwrap();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "__sessions__",
            "s1:__history__",
            "s1:__keys__",
            "s1:__meta__",
            "s1:__writers__",
            "s1:answer_count",
            "s1:last_answer"
        ]
        .map(|key| format!("rr:memory:{key}"))
    );
}

#[tokio::test]
async fn the_original_reads_what_we_wrote_and_goes_on_from_there() {
    let given = StoreUnderTest::redis();
    let original = Original(given.raw());
    for (session, options) in [("for-ever", "{}"), ("a-day", DAY)] {
        let mut node = Node::new(&given.store, options).await;
        node.ask(session).await;
        node.reply("Grüße 🎉\u{2028}\0").await;
        node.sessions.put(session, "big", "123456789012").await.unwrap();
        let read = original.read(session).unwrap();
        assert_eq!(
            read,
            BTreeMap::from([
                ("answer_count".to_owned(), json!(1)),
                ("big".into(), json!(123_456_789_012_u64)),
                ("last_answer".into(), json!("Grüße 🎉\u{2028}\0"))
            ])
        );
        assert_eq!(original.history(session), node.history(session).await);

        assert_eq!(original.increment(session, "answer_count"), 2);
        original.put(session, "last_answer", &json!("né"));
        original.put(session, "new", &json!({ "a": [1, 2] }));
        assert_eq!(
            node.memory(session).await.unwrap(),
            r#"{"answer_count":2,"big":123456789012,"last_answer":"n\u00e9","new":{"a": [1, 2]}}"#
        );
        assert_eq!(node.reply("and we again").await.effect, Effect::Stored);
        assert_eq!(original.read(session).unwrap()["answer_count"], 3);
        assert_eq!(node.history(session).await.len(), 8);
        assert_eq!(original.history(session).len(), 8);
    }
    original.delete("a-day");
    assert_eq!(keys_of(given.raw(), "a-day"), [""; 0]);
    let mut node = Node::new(&given.store, "{}").await;
    assert_eq!(node.sessions.resume("a-day").await.unwrap_err().code, Code::NotFound);
}

#[tokio::test]
async fn clearing_has_the_originals_shapes() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let mut node = Node::new(&given.store, DAY).await;
    node.sessions.create("s1").await.unwrap();
    for key in ["b", "a", "c"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    node.sessions.clear("s1", Some("b")).await.unwrap();
    assert_eq!(set(raw, "s1:__keys__"), ["a", "c"]);
    assert_eq!(kind(raw, "s1:b"), "none");
    node.sessions.clear("s1", Some("absent")).await.unwrap();
    node.sessions.clear("s1", None).await.unwrap();
    assert_eq!(keys_of(raw, "s1"), ["s1:__history__", "s1:__meta__"]);
    node.sessions.clear("s1", None).await.unwrap();
    let start = StillClock::START;
    assert_eq!(
        list(raw, "s1:__history__")[3..],
        [
            format!(r#"{{"op": "clear", "key": "b", "timestamp": {start}}}"#),
            format!(r#"{{"op": "clear", "key": "absent", "timestamp": {start}}}"#),
            format!(r#"{{"op": "clear", "key": null, "cleared": ["a", "c"], "timestamp": {start}}}"#),
            format!(r#"{{"op": "clear", "key": null, "cleared": [], "timestamp": {start}}}"#),
        ]
    );
    assert_eq!(Original(raw).read("s1").unwrap(), BTreeMap::new());
}

// Expiry. ---------------------------------------------------------------------------------------------

#[tokio::test]
async fn every_key_of_a_session_that_expires_ends_at_the_sessions_instant() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let mut random = fastrand::Rng::with_seed(7);
    for mode in ["fixed", "sliding"] {
        let options = format!(r#"{{"session_ttl_hours": 24, "session_ttl_mode": "{mode}", "max_history": 4}}"#);
        let mut node = Node::new(&given.store, &options).await;
        node.ask(mode).await;
        for _ in 0..300 {
            let key = format!("k{}", random.u8(0..6));
            match random.u8(0..8) {
                0 => node.sessions.clear(mode, None).await.map(drop).unwrap(),
                1 => node.sessions.clear(mode, Some(&key)).await.map(drop).unwrap(),
                2 => node.sessions.put(mode, &key, "1").await.map(drop).unwrap(),
                3 => node.sessions.increment(mode, &key, 1).await.map(drop).unwrap(),
                4 => given.pass_time(Duration::from_secs(random.u64(0..120))),
                5 => drop(node.ask(mode).await),
                _ => assert_eq!(node.reply("x").await.effect, Effect::Stored),
            }
            let end = raw.expires_at(&format!("{mode}:__meta__"));
            assert!(end > 0 && end <= raw.now() + DAY_MS);
            for key in keys_of(raw, mode) {
                assert_eq!(raw.expires_at(&key), end, "{key}");
            }
        }
    }
}

/// Options for a life of some milliseconds.
fn brief(milliseconds: f64) -> String {
    format!("{{\"session_ttl_hours\": {}, \"max_history\": 6}}", milliseconds / 3_600_000.0)
}

#[tokio::test]
async fn writing_through_the_end_of_a_life_leaves_nothing_behind() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let node = Node::new(&given.store, &brief(20.0)).await;
    for round in 0..25 {
        let answers = (0..8).map(async |number| {
            let (session, mut pipe, mut sessions) =
                (format!("s{round}-{number}"), node.keepline.pipe(), node.keepline.sessions());
            pipe.question("", &format!("{{\"session_id\":\"{session}\"}}")).await.unwrap();
            loop {
                // Refused once the life is over; whichever of the two finds out first.
                let _ = sessions.increment(&session, "n", 1).await;
                match pipe.answer("x", "{}").await.unwrap().effect {
                    Effect::Stored => {}
                    Effect::Ended => return session,
                    other => panic!("{other:?}"),
                }
            }
        });
        let sessions = join_all(answers).await;
        // In the very millisecond we say that it is over; Redis still shows the keys, and drops them after.
        tokio::time::sleep(Duration::from_millis(2)).await;
        for session in sessions {
            assert_eq!(keys_of(raw, &session), [""; 0]);
        }
    }
    assert_eq!(set(raw, "__sessions__"), [""; 0]);
}

#[tokio::test]
async fn lives_that_follow_each_other_without_a_pause_do_not_mix() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let node = Node::new(&given.store, &brief(10.0)).await;
    let answers = (0..6).map(async |_| {
        let mut pipe = node.keepline.pipe();
        for _ in 0..400 {
            let passed = pipe.answer("x", "{\"session_id\":\"s1\"}").await.unwrap();
            assert_eq!(passed.effect, Effect::Stored, "{passed:?}");
        }
    });
    let check = async {
        for _ in 0..200 {
            // One script, so that all of it is of one moment.
            const UNEQUAL: &str = r"
                local unequal, last = {}, redis.call('PEXPIRETIME', ARGV[1] .. '__meta__')
                for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
                    if not string.find(key, '__writers__$') and redis.call('PEXPIRETIME', key) ~= last then
                        unequal[#unequal + 1] = key
                    end
                end
                return unequal";
            let unequal: Vec<String> = raw.run(cmd("EVAL").arg(UNEQUAL).arg(0).arg(raw.address("s1:")));
            assert_eq!(unequal, [""; 0]);
            // The count and the history are of one life.
            let history = node.keepline.sessions().history("s1", None, 0).await;
            if let Ok(page) = history {
                let first: Value = serde_json::from_str(&page.entries[0]).unwrap();
                assert!(first["op"] == "summary" || first["key"] == "last_answer", "{first}");
            }
            tokio::task::yield_now().await;
        }
    };
    futures::join!(join_all(answers), check);
    tokio::time::sleep(Duration::from_millis(15)).await;
    assert_eq!(keys_of(raw, "s1"), [""; 0]);
}

#[tokio::test]
async fn expired_sessions_do_not_stay_in_the_registry() {
    let given = StoreUnderTest::redis();
    let raw = given.raw();
    let registered = || raw.on::<usize>("SCARD", "__sessions__", &[]);
    // Not by waiting: sessions that live for milliseconds are dead before the next is made, on a busy machine.
    let mut brief = Node::new(&given.store, &brief(60_000.0)).await;
    let mut lasting = Node::new(&given.store, "{}").await;
    let minute = Duration::from_secs(60);
    for number in 0..50 {
        brief.sessions.create(&format!("brief{number}")).await.unwrap();
    }
    given.pass_time(minute);
    assert_eq!(registered(), 50);
    for number in 0..600 {
        lasting.sessions.create(&format!("lasting{number}")).await.unwrap();
    }
    assert!(registered() <= 610, "{}", registered());

    // However many come and go, the dead are no more than the living.
    for number in 0..600 {
        brief.sessions.create(&format!("more{number}")).await.unwrap();
        if number % 10 == 9 {
            given.pass_time(minute);
        }
    }
    let dead = registered() - 600;
    assert!(dead < 500, "{dead}");

    // And a walk through the list drops them all.
    let mut cursor = String::new();
    loop {
        cursor = lasting.sessions.list(&cursor, 100).await.unwrap().cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(registered(), 600);
}
