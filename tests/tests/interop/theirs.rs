//! Sessions that the original node wrote, and what it leaves behind.

use super::*;

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
        assert_eq!(state.generation, "1795186917.032595");
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
    assert_eq!(node.sessions.get("s1", "a").await.unwrap().value(), Some(r#""\u00e9""#));
    assert_eq!(node.sessions.increment("s1", "b", 41).await.unwrap().value, 42);
    assert_eq!(node.history("s1").await.len(), 3);
    assert_eq!(node.sessions.create("s1").await.unwrap_err().code, Code::AlreadyExists);
    assert_eq!(node.sessions.delete("s1").await.unwrap().keys, ["a", "b"]);
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
async fn leftovers_of_the_original_do_not_reach_the_next_session() {
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
async fn non_utf8_and_nan_values_are_skipped_and_kept() {
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
async fn unreadable_history_records_are_counted_and_block_nothing() {
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
