//! A question ends the turn before it, whatever its outcome: an answer that names no session is stored in the session
//! of the latest question, or nowhere.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use keepline::{Keepline, OnStoreError, Options, pipe::Effect, store::Store};
use keepline_tests::{
    guests::{HOSTILE, told},
    lanes::{KeptLog, Node, metadata_of, problem_code, untouched},
};

use super::{Gate, Gated, PATIENCE, begin, begin_until, replacement::loaded};

/// A host whose pipe has the turn of session "before", and a gate that is closed again.
async fn host(change: impl FnOnce(&mut Options)) -> (Node, Arc<Gated>) {
    let gate = Gate::closed();
    let store: Arc<dyn Store> = gate.clone();
    let mut node = Node::with(&store, "{}", |options| {
        (options.max_instances, options.max_wait) = (1, PATIENCE);
        change(options);
    })
    .await;
    gate.admit(1);
    assert_eq!(node.ask("before").await.effect, Effect::Resumed);
    (node, gate)
}

/// An answer to it is stored nowhere.
async fn has_no_turn(mut node: Node, gate: &Gated) {
    gate.open();
    let asked = gate.arrived().len();
    assert!(untouched(Effect::Passed, &node.reply("x").await));
    assert_eq!(gate.arrived().len(), asked);
    assert!(node.sessions.keys("before").await.unwrap().keys.is_empty());
}

#[tokio::test]
async fn a_question_that_is_too_large_ends_the_turn() {
    let (mut node, gate) = host(|options| options.max_entry_bytes = 1000).await;
    let large = format!(r#"{{"session_id":"s","x":"{}"}}"#, "x".repeat(1000));
    assert_eq!(node.question(&large).await.effect, Effect::Limited);
    has_no_turn(node, &gate).await;
}

#[tokio::test]
async fn a_question_that_names_no_session_or_a_malformed_one_ends_the_turn() {
    for metadata in [r#"{"session_id":"a b"}"#, r#"{"session_id":""}"#, r#"{"session_id":7}"#, "{}", "[]", "", "{"] {
        let (mut node, gate) = host(|_| {}).await;
        assert!(matches!(node.question(metadata).await.effect, Effect::Ignored | Effect::Passed), "{metadata}");
        has_no_turn(node, &gate).await;
    }
}

#[tokio::test]
async fn a_question_that_gets_no_instance_ends_the_turn() {
    for (waiting, wait) in [(0, PATIENCE), (1, Duration::from_millis(1))] {
        let limits = |options: &mut Options| (options.max_waiting, options.max_wait) = (waiting, wait);
        let (mut node, gate) = host(limits).await;
        let (mut other, metadata) = (node.keepline.pipe(), metadata_of("other"));
        let mut at_work = other.answer("x", &metadata).boxed_local();
        begin([&mut at_work]).await;
        assert_eq!(problem_code(&node.ask("s").await), "busy");
        gate.open();
        assert_eq!(at_work.await.unwrap().effect, Effect::Stored);
        has_no_turn(node, &gate).await;
    }
}

#[tokio::test]
async fn a_dropped_question_ends_the_turn_at_any_stage() {
    // Before it began.
    let (mut node, gate) = host(|_| {}).await;
    drop(node.pipe.question("?", &metadata_of("s")));
    has_no_turn(node, &gate).await;
    // With an instance, while the store is at work.
    let (mut node, gate) = host(|_| {}).await;
    let metadata = metadata_of("s");
    let mut dropped = node.pipe.question("?", &metadata).boxed_local();
    begin([&mut dropped]).await;
    drop(dropped);
    assert_eq!(gate.arrived(), ["before", "s"]);
    has_no_turn(node, &gate).await;
    // In the line.
    let (mut node, gate) = host(|_| {}).await;
    let (mut other, metadata) = (node.keepline.pipe(), metadata_of("other"));
    let mut at_work = other.answer("x", &metadata).boxed_local();
    begin([&mut at_work]).await;
    assert!(node.pipe.question("?", &metadata_of("s")).now_or_never().is_none());
    gate.open();
    assert_eq!(at_work.await.unwrap().effect, Effect::Stored);
    has_no_turn(node, &gate).await;
}

/// It has a session of its own, though nobody knows which life of it: not that of the question before.
#[tokio::test]
async fn an_answer_after_a_failed_question_goes_to_that_questions_session() {
    for on_store_error in [OnStoreError::Forward, OnStoreError::Fail] {
        let (mut node, gate) = host(|options| options.on_store_error = on_store_error).await;
        gate.refuse_next();
        let passed = node.pipe.question("?", &metadata_of("s")).await;
        assert_eq!(passed.is_ok(), on_store_error == OnStoreError::Forward);
        gate.open();
        assert_eq!(node.pipe.answer("x", "{}").await.unwrap().effect, Effect::Stored);
        assert_eq!(gate.arrived(), ["before", "s", "s"]);
    }
}

/// What the plugin said of the turn is what this one tells with its answer.
#[tokio::test]
async fn a_question_whose_plugin_was_stopped_ends_the_turn() {
    let mut options = Options::default();
    (options.log, options.entry_timeout) = (Arc::new(KeptLog::default()), PATIENCE);
    let keepline = Keepline::new(loaded(HOSTILE), Gate::closed(), options).await.unwrap();
    let mut pipe = keepline.pipe();
    for misdeed in ["trap", "loop", "turn-of 4097"] {
        pipe.question("turn mine", "{}").await.unwrap();
        assert_eq!(told(&pipe.answer("nothing", "{}").await.unwrap()).as_deref(), Some("mine"));
        assert_eq!(problem_code(&pipe.question(misdeed, "{}").await.unwrap()), "plugin");
        assert_eq!(told(&pipe.answer("nothing", "{}").await.unwrap()).as_deref(), Some(""), "{misdeed}");
    }
}

#[tokio::test]
async fn a_question_after_shutdown_ends_the_turn() {
    let (mut node, gate) = host(|_| {}).await;
    assert_eq!(node.keepline.shutdown(PATIENCE).await, 0);
    assert_eq!(problem_code(&node.ask("s").await), "closed");
    assert_eq!(problem_code(&node.reply("x").await), "closed");
    assert_eq!(gate.arrived(), ["before"]);
}

/// What a dropped call leaves behind: its place, and nothing that counts.
#[tokio::test]
async fn a_dropped_call_is_not_counted_and_frees_its_place() {
    let gate = Gate::closed();
    let store: Arc<dyn Store> = gate.clone();
    let limits = |options: &mut Options| (options.max_instances, options.max_waiting) = (2, 2);
    let mut node = Node::with(&store, "{}", limits).await;
    let metadata = metadata_of("s");
    for _ in 0..10 {
        let mut pipes: Vec<_> = (0..4).map(|_| node.keepline.pipe()).collect();
        let mut calls: Vec<_> = pipes.iter_mut().map(|pipe| pipe.answer("x", &metadata).boxed_local()).collect();
        begin_until(&mut calls, &gate, 2).await;
        assert_eq!(gate.at_work(), 2);
        drop(calls);
        assert_eq!(gate.at_work(), 0);
    }
    let counters = node.counters();
    assert_eq!((counters.stored, counters.failed, counters.busy, counters.faults), (0, 0, 0, 0));
    // Each had a writer of its own, for its number may be in use.
    let mut writers = gate.writers();
    writers.sort_unstable();
    writers.dedup();
    assert_eq!(writers.len(), 20);
    gate.open();
    assert_eq!(node.say("s", "x").await.effect, Effect::Stored);
}
