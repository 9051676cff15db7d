//! Our layout, byte for byte, and the original node working on it.

use super::*;

#[tokio::test]
async fn our_keys_have_the_original_layout_byte_for_byte() {
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
async fn keys_have_the_originals_names_by_default() {
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

/// Records of a history with their times as exact as the contract's records have them.
fn to_milliseconds(mut history: Vec<Value>) -> Vec<Value> {
    for record in &mut history {
        let seconds = record["timestamp"].as_f64().unwrap();
        record["timestamp"] = ((seconds * 1000.0).floor() / 1000.0).into();
    }
    history
}

#[tokio::test]
async fn the_original_reads_our_sessions_and_continues_them() {
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
        assert_eq!(to_milliseconds(original.history(session)), node.history(session).await);

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
async fn clearing_leaves_the_originals_keys_and_history_records() {
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
