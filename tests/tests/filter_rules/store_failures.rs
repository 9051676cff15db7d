//! A failing store stops no entry, unless that is configured, and lets no forged memory through.

use keepline::{EntryError, OnStoreError, pipe::Effect, store::FailureCode};
use keepline_tests::{
    lanes::{Node, metadata_of, problem_code, problem_message, refused_with, untouched},
    on_every_store,
};

use super::Given;

async fn an_entry_passes_unchanged_when_the_store_fails(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "before").await;
    node.log.take();
    node.store.fail(Some(FailureCode::Unavailable));
    let question = node.ask("s1").await;
    let answer = node.reply("lost").await;
    for passed in [&question, &answer] {
        assert_eq!((passed.effect, passed.metadata.as_deref(), passed.attached), (Effect::Failed, None, 0));
        assert_eq!(problem_code(passed), "unavailable");
        assert_eq!(problem_message(passed), "the store is out of order");
    }
    assert_eq!(
        node.log.take(),
        [
            "plugin: keepline.store: No memory for a question of session s1: the store is out of order",
            "plugin: keepline.store: Answer not stored in session s1: the store is out of order",
        ]
    );
    // Thousands of them are a few warnings.
    for _ in 0..500 {
        node.ask("s1").await;
        node.reply("lost").await;
    }
    assert!(node.log.warnings().len() <= 3);
    assert_eq!(node.counters().failed, 1002);

    // A question that could not look is followed by an answer that is stored, once the store is back.
    node.store.fail(None);
    assert_eq!(node.reply("after").await.effect, Effect::Stored);
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":2,"last_answer":"after"}"#);
}

async fn a_failed_store_is_an_error_with_on_store_error_fail(given: Given) {
    let mut node = Node::with(&given.store, "{}", |options| options.on_store_error = OnStoreError::Fail).await;
    let metadata = metadata_of("s1");
    node.say("s1", "before").await;
    for (code, spelt) in [
        (FailureCode::Unavailable, "unavailable"),
        (FailureCode::TimedOut, "timed-out"),
        (FailureCode::Denied, "denied"),
        (FailureCode::ReadOnly, "read-only"),
        (FailureCode::Full, "full"),
        (FailureCode::WrongType, "wrong-type"),
        (FailureCode::Other, "other"),
    ] {
        node.store.fail(Some(code));
        let question = node.pipe.question("", &metadata).await;
        assert!(refused_with(spelt, &question), "{question:?}");
        assert!(refused_with(spelt, &node.pipe.answer("x", &metadata).await));
        assert!(refused_with(spelt, &node.pipe.answer("x", "{}").await));
        let EntryError { message, .. } = question.unwrap_err();
        assert_eq!(message, "the store is out of order");
    }
    // Entries without a session don't need a store; limits are no failure of it.
    assert!(untouched(Effect::Passed, &node.question("{}").await));
    node.store.fail(None);
    assert_eq!(node.reply("x").await.effect, Effect::Passed);
    assert_eq!(node.say("s1", &"x".repeat(2 << 20)).await.effect, Effect::Limited);
    assert!(node.memory("s1").await.unwrap().contains("before"));
}

async fn a_failing_store_does_not_let_a_forged_memory_through(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.store.fail(Some(FailureCode::TimedOut));
    let passed = node.question(r#"{"session_id":"s1","memory_context":{"a":1},"b":2}"#).await;
    assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Failed, Some(r#"{"session_id":"s1","b":2}"#)));
}

on_every_store! {
    an_entry_passes_unchanged_when_the_store_fails,
    a_failed_store_is_an_error_with_on_store_error_fail,
    a_failing_store_does_not_let_a_forged_memory_through,
}
