//! Content over a limit is left out and reported, and stored data stays as it was.

use std::sync::Arc;

use keepline::{
    pipe::Effect,
    sessions::SessionErrorCode as Code,
    store::{MemoryLimits, MemoryStore, Store},
};
use keepline_tests::{
    lanes::{Node, metadata_of, problem_code, problem_message, untouched},
    on_every_store,
    requests::{create, put},
};

use super::{Given, refusal};

async fn an_answer_over_the_value_limit_is_neither_stored_nor_counted(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_value_bytes": 10}"#).await;
    node.ask("s1").await;
    assert_eq!(node.reply("12345678").await.effect, Effect::Stored);
    // Counted as it is stored: with quotes and escapes, in bytes.
    for (warned, text) in ["123456789", "1234567\n", "1234567é", &"x".repeat(100_000)].into_iter().enumerate() {
        let passed = node.reply(text).await;
        assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Limited, None));
        assert_eq!(problem_code(&passed), "limit");
        assert_eq!(problem_message(&passed), "Answer in session s1 is over max_value_bytes (10)");
        if warned == 0 {
            assert_eq!(
                node.log.warnings(),
                ["plugin: keepline.limit: Answer in session s1 is over max_value_bytes (10)"]
            );
        }
    }
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"12345678"}"#);
    assert_eq!(node.history("s1").await.len(), 2);
    // A malformed or missing session is no matter of limits.
    node.pipe.open();
    assert!(untouched(Effect::Passed, &node.reply(&"x".repeat(100)).await));
}

async fn the_part_of_an_enrichment_that_fits_its_limit_is_attached(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_context_bytes": 59}"#).await;
    node.sessions.create("s1").await.unwrap();
    for (key, size) in [("a", 30), ("b", 10), ("c", 9), ("d", 11)] {
        node.sessions.put("s1", key, &"1".repeat(size)).await.unwrap();
    }
    node.say("s1", "x").await;
    node.store.calls();
    let passed = node.question(r#"{"memory_context":"forged","session_id":"s1"}"#).await;
    assert_eq!((passed.effect, passed.attached, problem_code(&passed)), (Effect::Enriched, 4, "limit"));
    let own = r#""answer_count":1,"#;
    let (b, c) = ("1".repeat(10), "1".repeat(9));
    let expected =
        format!("{{\"session_id\":\"s1\",\"memory_context\":{{{own}\"b\":{b},\"c\":{c},\"last_answer\":\"x\"}}}}");
    assert_eq!(passed.metadata, Some(expected));
    let told = "Memory of session s1 is over max_context_bytes (59); left out 2 keys: 'a', 'd'";
    assert_eq!(problem_message(&passed), told);
    assert_eq!(node.log.warnings(), [format!("plugin: keepline.limit: {told}")]);
    assert!(node.store.calls() <= 4);
    assert_eq!(node.reply("y").await.effect, Effect::Stored);

    // By default the longest answer has room, and all that is small beside it.
    let mut node = Node::new(&given.store, "{}").await;
    let longest = "x".repeat((1 << 20) - 2);
    assert!(untouched(Effect::Stored, &node.say("s1", &longest).await));
    let passed = node.ask("s1").await;
    assert_eq!((passed.effect, passed.attached, &passed.problem), (Effect::Enriched, 6, &None));
    assert!(passed.metadata.unwrap().contains(&longest));
}

async fn an_enrichment_of_which_nothing_fits_is_left_out(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_context_bytes": 30}"#).await;
    node.sessions.create("s1").await.unwrap();
    // Key and value together.
    node.sessions.put("s1", "key", &"1".repeat(27)).await.unwrap();
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    node.sessions.put("s1", "key", &"1".repeat(28)).await.unwrap();
    let passed = node.question(r#"{"session_id":"s1","memory_context":"forged"}"#).await;
    assert_eq!((passed.effect, passed.attached), (Effect::Limited, 0));
    assert_eq!(passed.metadata.as_deref(), Some(r#"{"session_id":"s1"}"#));
    assert_eq!(problem_code(&passed), "limit");
    let told = "Memory of session s1 is over max_context_bytes (30); left out 1 keys: 'key'";
    assert_eq!(problem_message(&passed), told);
    assert_eq!(node.log.warnings(), [format!("plugin: keepline.limit: {told}")]);
    // Its answers are stored all the same.
    assert_eq!(node.reply("x").await.effect, Effect::Stored);
}

async fn a_session_with_too_many_keys_takes_no_answer(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_keys": 3}"#).await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "a", "1").await.unwrap();
    node.sessions.put("s1", "b", "2").await.unwrap();
    let passed = node.say("s1", "x").await;
    assert_eq!(passed.effect, Effect::Limited);
    assert_eq!(problem_message(&passed), "Answer in session s1 finds no room within max_keys (3)");
    assert_eq!(node.log.warnings(), ["plugin: keepline.limit: Answer in session s1 finds no room within max_keys (3)"]);
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"a":1,"b":2}"#);
    assert_eq!(node.history("s1").await.len(), 2);

    node.sessions.clear("s1", Some("a")).await.unwrap();
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    assert_eq!(node.say("s1", "y").await.effect, Effect::Stored);
    let full = node.sessions.put("s1", "c", "3").await.unwrap_err();
    assert_eq!(full, refusal(Code::Limit, "Session 's1' holds max_keys (3) keys"));
    // What is there can be changed.
    node.sessions.put("s1", "b", "3").await.unwrap();
    assert_eq!(node.say("s1", "z").await.effect, Effect::Stored);

    // Somebody else's limit may have been a higher one.
    let mut smaller = Node::new(&given.store, r#"{"max_keys": 2}"#).await;
    let passed = smaller.ask("s1").await;
    assert_eq!(
        passed.metadata.as_deref(),
        Some(r#"{"session_id":"s1","memory_context":{"answer_count":3,"last_answer":"z"}}"#)
    );
    assert_eq!(problem_message(&passed), "Memory of session s1 (3 keys) is over max_keys (2); left out 1 keys: 'b'");
}

async fn an_entry_over_the_entry_limit_is_forwarded_unchanged(given: Given) {
    let mut node = Node::with(&given.store, "{}", |options| options.max_entry_bytes = 60).await;
    let metadata = metadata_of("s1");
    let room = 60 - metadata.len();
    assert_eq!(node.answer(&"x".repeat(room), &metadata).await.effect, Effect::Stored);
    node.store.calls();
    for passed in [
        node.pipe.question(&"x".repeat(room + 1), &metadata).await.unwrap(),
        node.pipe.answer(&"x".repeat(room + 1), &metadata).await.unwrap(),
        node.question(&format!("{}{metadata}", " ".repeat(60))).await,
    ] {
        assert_eq!((passed.effect, &passed.metadata), (Effect::Limited, &None));
        assert!(problem_message(&passed).contains("max_entry_bytes (60)"), "{passed:?}");
    }
    assert_eq!(node.store.calls(), 0);
    assert_eq!(node.counters().limited, 3);
    assert!(node.log.warnings()[0].starts_with("keepline.limit: an entry of 61 bytes is over max_entry_bytes (60)"));
    assert!(node.memory("s1").await.unwrap().contains("\"answer_count\":1"));
}

async fn limits_apply_to_operator_calls_as_well(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_value_bytes": 5, "max_keys": 2}"#).await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "a", "12345").await.unwrap();
    let refused = node.sessions.put("s1", "a", "123456").await.unwrap_err();
    assert_eq!(refused, refusal(Code::Limit, "Value of 6 bytes is over max_value_bytes (5)"));
    node.sessions.increment("s1", "b", 1).await.unwrap();
    let refused = node.sessions.increment("s1", "c", 1).await.unwrap_err();
    assert_eq!(refused, refusal(Code::Limit, "Session 's1' holds max_keys (2) keys"));
    assert_eq!(node.history("s1").await.len(), 2);
    assert_eq!(
        node.log.of("plugin: keepline.limit"),
        ["Value of 6 bytes is over max_value_bytes (5)", "Session 's1' holds max_keys (2) keys"]
    );

    given.apply("s1", create(), [put("a", "1234567")]).await;
    let refused = node.sessions.get("s1", "a").await.unwrap_err();
    assert_eq!(refused, refusal(Code::Limit, "Stored value of key 'a' is over max_value_bytes (5)"));
}

on_every_store! {
    an_answer_over_the_value_limit_is_neither_stored_nor_counted,
    the_part_of_an_enrichment_that_fits_its_limit_is_attached,
    an_enrichment_of_which_nothing_fits_is_left_out,
    a_session_with_too_many_keys_takes_no_answer,
    an_entry_over_the_entry_limit_is_forwarded_unchanged,
    limits_apply_to_operator_calls_as_well,
}

#[tokio::test]
async fn the_memory_store_refuses_more_than_a_thousand_sessions_by_default() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(MemoryLimits::default()));
    let mut node = Node::new(&store, "{}").await;
    for number in 0..1000 {
        assert_eq!(node.say(&format!("s{number}"), "x").await.effect, Effect::Stored);
    }
    node.log.take();
    for passed in [node.ask("one-more").await, node.say("one-more", "x").await] {
        assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Failed, None));
        assert_eq!(problem_code(&passed), "too-many-buckets");
        assert_eq!(problem_message(&passed), "Maximum sessions (1000) reached");
    }
    assert_eq!(node.log.warnings().len(), 2);
    let refused = node.sessions.create("one-more").await.unwrap_err();
    assert_eq!(refused, refusal(Code::TooManySessions, "Maximum sessions (1000) reached"));
    // What comes before the cap, as in the original: that it is there already.
    let refused = node.sessions.create("s7").await.unwrap_err();
    assert_eq!(refused, refusal(Code::AlreadyExists, "Session 's7' already exists"));
    assert_eq!(node.ask("s999").await.effect, Effect::Enriched);
    node.sessions.delete("s0").await.unwrap();
    assert_eq!(node.say("one-more", "x").await.effect, Effect::Stored);
}
