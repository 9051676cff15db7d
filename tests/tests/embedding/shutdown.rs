//! Accepted calls are finished within the limit, and counted otherwise; later ones go on without memory.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, poll};
use keepline::{OnStoreError, Options, pipe::Effect, sessions::SessionErrorCode, store::Store};
use keepline_tests::lanes::{Node, metadata_of, problem_code, refused_with, untouched};
use tokio::time::timeout;

use super::{Gate, Gated, PATIENCE, begin_until};

/// Two instances, and a store behind a gate.
async fn host(change: impl FnOnce(&mut Options)) -> (Node, Arc<Gated>) {
    let gate = Gate::closed();
    let store: Arc<dyn Store> = gate.clone();
    let node = Node::with(&store, "{}", |options| {
        (options.max_instances, options.max_wait) = (2, PATIENCE);
        change(options);
    });
    (node.await, gate)
}

#[tokio::test]
async fn accepted_entries_are_finished_and_no_new_ones_begin() {
    let (mut node, gate) = host(|_| {}).await;
    let keepline = node.keepline.clone();
    let mut pipes: Vec<_> = (0..5).map(|_| keepline.pipe()).collect();
    let metadata = metadata_of("s");
    let mut calls: Vec<_> = pipes.iter_mut().map(|pipe| pipe.answer("x", &metadata).boxed_local()).collect();
    begin_until(&mut calls, &gate, 2).await;
    let mut shutdown = keepline.shutdown(PATIENCE).boxed_local();
    assert!(poll!(&mut shutdown).is_pending());

    // Of this Keepline and its clones: what comes now is told so at once.
    let late = node.pipe.question("?", &metadata).now_or_never().unwrap().unwrap();
    assert_eq!((late.effect, problem_code(&late), &late.metadata), (Effect::Failed, "closed", &None));
    let late = node.sessions.keys("s").now_or_never().unwrap().unwrap_err();
    assert!(late.code == SessionErrorCode::Closed && late.message.contains("shut down"), "{late}");

    gate.open();
    for call in calls {
        assert!(untouched(Effect::Stored, &timeout(PATIENCE, call).await.unwrap().unwrap()));
    }
    assert_eq!(timeout(PATIENCE, shutdown).await.unwrap(), 0);
    assert_eq!((node.counters().stored, node.counters().failed, node.counters().busy), (5, 1, 0));
    assert!(node.log.of("keepline.closed").len() >= 2);
    // For good, and as often as one likes.
    assert_eq!(problem_code(&node.reply("x").await), "closed");
    assert_eq!(keepline.shutdown(PATIENCE).now_or_never(), Some(0));
}

#[tokio::test]
async fn calls_unfinished_within_the_limit_are_counted() {
    let (node, gate) = host(|_| {}).await;
    let keepline = node.keepline.clone();
    let mut pipes: Vec<_> = (0..5).map(|_| keepline.pipe()).collect();
    let metadata = metadata_of("s");
    let mut calls: Vec<_> = pipes.iter_mut().map(|pipe| pipe.answer("x", &metadata).boxed_local()).collect();
    begin_until(&mut calls, &gate, 2).await;
    assert_eq!(timeout(PATIENCE, keepline.shutdown(Duration::from_millis(20))).await.unwrap(), 5);
    // Those that still waited go on without memory, at once; those at work hang on the store.
    for call in calls.drain(2..) {
        assert_eq!(problem_code(&call.now_or_never().unwrap().unwrap()), "closed");
    }
    gate.open();
    for call in calls {
        assert!(untouched(Effect::Stored, &timeout(PATIENCE, call).await.unwrap().unwrap()));
    }
    assert_eq!(keepline.shutdown(PATIENCE).await, 0);
}

#[tokio::test]
async fn a_call_after_shutdown_is_an_error_with_on_store_error_fail() {
    let (node, gate) = host(|options| options.on_store_error = OnStoreError::Fail).await;
    gate.open();
    assert_eq!(node.keepline.shutdown(Duration::ZERO).await, 0);
    assert!(refused_with("closed", &node.keepline.pipe().question("?", &metadata_of("s")).await));
}
