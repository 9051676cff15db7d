//! A question gets everything that its session holds, unchanged, and nothing that a client forged.

use keepline::pipe::Effect;
use keepline_tests::{
    lanes::{Node, untouched},
    on_every_store,
};
use serde_json::{Value, json};

use super::Given;

async fn a_question_gets_all_that_its_session_holds(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "Hello, wörld").await;
    node.sessions.put("s1", "user.name", "\"Ada\"").await.unwrap();
    node.sessions.put("s1", "Z", "[1, 2]").await.unwrap();
    node.log.take();

    let passed = node.question("{ \"session_id\" : \"s1\", \"k\": 1.50 }").await;
    assert_eq!((passed.effect, passed.attached, &passed.problem), (Effect::Enriched, 4, &None));
    assert_eq!(
        passed.metadata.as_deref(),
        Some(concat!(
            "{ \"session_id\" : \"s1\", \"k\": 1.50,\"memory_context\":{",
            "\"Z\":[1, 2],\"answer_count\":1,\"last_answer\":\"Hello, wörld\",\"user.name\":\"Ada\"} }",
        ))
    );
    assert_eq!(node.log.take(), ["plugin: keepline.session: Attached 4 memory keys to question for session s1"]);
}

async fn a_question_of_a_new_session_gets_nothing_and_creates_it(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    assert!(untouched(Effect::Resumed, &node.ask("s1").await));
    assert!(untouched(Effect::Resumed, &node.ask("s1").await));
    assert_eq!(given.list(100).await, ["s1"]);
    assert_eq!(node.sessions.resume("s1").await.unwrap().key_count, 0);
}

async fn a_clients_memory_context_is_always_removed_in_a_session(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let forged = r#"{"memory_context":{"a":"forged"},"session_id":"s1","memory_context":"forged","b":2}"#;
    let empty = node.question(forged).await;
    assert_eq!((empty.effect, empty.metadata.as_deref()), (Effect::Resumed, Some(r#"{"session_id":"s1","b":2}"#)));

    node.sessions.put("s1", "a", "true").await.unwrap();
    let enriched = node.question(forged).await;
    assert_eq!(enriched.metadata.as_deref(), Some(r#"{"session_id":"s1","b":2,"memory_context":{"a":true}}"#));

    node.sessions.clear("s1", None).await.unwrap();
    assert_eq!(node.question(forged).await.metadata.as_deref(), Some(r#"{"session_id":"s1","b":2}"#));
}

async fn a_memory_context_without_a_session_is_kept_or_stripped_as_configured(given: Given) {
    let cases = [
        (r#"{"memory_context":1}"#, "{}"),
        (r#"{"a":1, "memory_context":{"x":[1,2]}, "b":2}"#, r#"{"a":1, "b":2}"#),
        (r#"{"session_id":"","memory_context":1}"#, r#"{"session_id":""}"#),
        (r#"{"session_id":"a b","memory_context":1}"#, r#"{"session_id":"a b"}"#),
        (r#"{"memory\u005fcontext":1,"a":0}"#, r#"{"a":0}"#),
        (r#"{"memory_context":NaN,"a":-Infinity}"#, r#"{"a":-Infinity}"#),
        (r#"{"memory_context":1"#, "{}"),
    ];
    let mut keep = Node::new(&given.store, "{}").await;
    let mut strip = Node::new(&given.store, r#"{"unbound_context": "strip"}"#).await;
    for (metadata, stripped) in cases {
        assert_eq!(keep.question(metadata).await.metadata, None, "{metadata}");
        assert_eq!(strip.question(metadata).await.metadata.as_deref(), Some(stripped), "{metadata}");
    }
    for nothing_to_strip in ["{}", r#"{"a":{"memory_context":1}}"#, "nonsense", r#"["memory_context"]"#] {
        assert_eq!(strip.question(nothing_to_strip).await.metadata, None, "{nothing_to_strip}");
    }
}

async fn the_next_question_of_another_process_sees_a_stored_answer(given: Given) {
    let mut one = Node::new(&given.store, "{}").await;
    let mut other = Node::new(&given.store, "{}").await;
    for round in 1..=20 {
        one.say("s1", &format!("round {round}")).await;
        let seen = other.memory("s1").await.unwrap();
        assert_eq!(seen, format!(r#"{{"answer_count":{},"last_answer":"round {round}"}}"#, 2 * round - 1));
        other.say("s1", "other").await;
        let seen = one.memory("s1").await.unwrap();
        assert_eq!(seen, format!(r#"{{"answer_count":{},"last_answer":"other"}}"#, 2 * round));
    }
}

async fn numbers_and_texts_are_returned_as_they_were_put(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let digits = "9".repeat(100);
    for value in [
        "9007199254740993",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "1.0",
        "1e400",
        "-0",
        "0.1000000000000000055511151231257827",
        "\"Grüße, 世界 🎉\"",
        r#""\ud83c\udf89 \u0000 \/""#,
        r#"{"b":1,"a":2,"b":3}"#,
        "[ 1 ,\t2 ]",
        "\"\u{2028}\u{7f}\"",
        "null",
        &digits,
    ] {
        node.sessions.put("s1", "v", value).await.unwrap();
        assert_eq!(node.sessions.get("s1", "v").await.unwrap().value(), Some(value));
        assert_eq!(node.memory("s1").await.unwrap(), format!("{{\"v\":{value}}}"));
    }
    // On one line, whatever blanks were between the tokens: entries are lines.
    node.sessions.put("s1", "v", "\n[1,\r\n 2]\n").await.unwrap();
    let memory = node.memory("s1").await.unwrap();
    assert!(!memory.contains(['\n', '\r']));
    assert_eq!(serde_json::from_str::<Value>(&memory).unwrap(), json!({ "v": [1, 2] }));
}

on_every_store! {
    a_question_gets_all_that_its_session_holds,
    a_question_of_a_new_session_gets_nothing_and_creates_it,
    a_clients_memory_context_is_always_removed_in_a_session,
    a_memory_context_without_a_session_is_kept_or_stripped_as_configured,
    the_next_question_of_another_process_sees_a_stored_answer,
    numbers_and_texts_are_returned_as_they_were_put,
}
