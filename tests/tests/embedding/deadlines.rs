//! An entry has one deadline for everything that it needs: an instance, its transactions, a summary. It holds for every
//! store, even one that never answers.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use keepline::{
    Deadline, OnStoreError, Options,
    pipe::Effect,
    sessions::SessionErrorCode,
    store::{FailureCode, MemoryStore, Store},
};
use keepline_tests::{
    guests::HOSTILE,
    lanes::{
        Node, answer_by, metadata_of, operations_told, problem_code, problem_message, question_by, refused_with,
        untouched,
    },
};
use tokio::time::{Instant, timeout};

use super::{Gate, Gated, PATIENCE, begin, replacement::loaded};

/// For an entry that is not meant to be answered.
const SHORT: Duration = Duration::from_millis(50);

/// A host on a store behind a gate, that gives an entry so long.
async fn host(entry_timeout: Duration, change: impl FnOnce(&mut Options)) -> (Node, Arc<Gated>) {
    let gate = Gate::closed();
    let store: Arc<dyn Store> = gate.clone();
    let node = Node::with(&store, r#"{"max_history":4}"#, |options| {
        (options.entry_timeout, options.max_wait) = (entry_timeout, PATIENCE);
        change(options);
    });
    (node.await, gate)
}

async fn in_time<T>(call: impl Future<Output = T>) -> T {
    timeout(PATIENCE, call).await.unwrap()
}

#[tokio::test]
async fn a_store_that_never_answers_does_not_hold_up_an_entry() {
    let (mut node, gate) = host(SHORT, |_| {}).await;
    let began = Instant::now();
    let question = in_time(node.ask("s")).await;
    let answer = in_time(node.say("s", "x")).await;
    assert!(began.elapsed() >= 2 * SHORT);
    for passed in [question, answer] {
        assert_eq!((passed.effect, problem_code(&passed), &passed.metadata), (Effect::Failed, "timed-out", &None));
        assert!(problem_message(&passed).contains("did not answer before the deadline"), "{passed:?}");
    }
    let error = in_time(node.sessions.put("s", "a", "1")).await.unwrap_err();
    assert_eq!(error.code, SessionErrorCode::Store(FailureCode::TimedOut));
    // Nothing is at work for it any longer, and its number is never used again.
    assert_eq!(gate.at_work(), 0);
    let mut writers = gate.writers();
    writers.sort_unstable();
    writers.dedup();
    assert_eq!(writers.len(), 3);
    gate.open();
    assert_eq!(node.say("s", "y").await.effect, Effect::Stored);
    assert_eq!(node.memory("s").await.unwrap(), r#"{"answer_count":1,"last_answer":"y"}"#);
}

#[tokio::test]
async fn a_store_that_never_answers_is_an_error_with_on_store_error_fail() {
    let (mut node, _gate) = host(SHORT, |options| options.on_store_error = OnStoreError::Fail).await;
    assert!(refused_with("timed-out", &in_time(node.pipe.question("?", &metadata_of("s"))).await));
    assert!(refused_with("timed-out", &in_time(node.pipe.answer("x", &metadata_of("s"))).await));
}

#[tokio::test]
async fn all_transactions_of_an_entry_have_its_deadline() {
    let (mut node, gate) = host(PATIENCE, |_| {}).await;
    gate.open();
    let metadata = metadata_of("s");
    // The third answer is the first that is summarised.
    for _ in 0..2 {
        assert_eq!(node.say("s", "x").await.effect, Effect::Stored);
    }
    let deadline = Deadline::after(PATIENCE * 2);
    let before = gate.deadlines().len();
    assert_eq!(answer_by(&mut node.pipe, "x", &metadata, deadline).await.unwrap().effect, Effect::Stored);
    assert_eq!(question_by(&mut node.pipe, "?", &metadata, deadline).await.unwrap().effect, Effect::Enriched);
    let mut sessions = node.keepline.sessions().by(deadline);
    sessions.put("s", "a", "1").await.unwrap();
    sessions.put("s", "b", "1").await.unwrap();
    let deadlines = gate.deadlines().split_off(before);
    assert!(deadlines.len() >= 5 && deadlines.iter().all(|of_one| *of_one == deadline), "{deadlines:?}");

    answer_by(&mut node.pipe, "x", &metadata, Deadline::NEVER).await.unwrap();
    assert_eq!(gate.deadlines().pop(), Some(Deadline::NEVER));
    // Without one of the caller's, each call has its own.
    let (mut own, earliest) = (Vec::new(), Instant::now() + PATIENCE);
    for _ in 0..2 {
        node.sessions.put("s", "a", "1").await.unwrap();
        own.extend(gate.deadlines().pop().and_then(Deadline::instant));
    }
    assert!(own[0] >= earliest && own[1] > own[0] && own[1] <= Instant::now() + PATIENCE);
}

#[tokio::test]
async fn waiting_for_an_instance_counts_towards_an_entrys_deadline() {
    let (node, gate) = host(PATIENCE, |options| options.max_instances = 1).await;
    let (metadata, mut first, mut second) = (metadata_of("s"), node.keepline.pipe(), node.keepline.pipe());
    let mut first = first.answer("x", &metadata).boxed_local();
    begin([&mut first]).await;
    let mut second = second.answer("y", &metadata).boxed_local();
    begin([&mut second]).await;
    let latest = Instant::now() + PATIENCE;
    tokio::time::sleep(SHORT).await;
    gate.open();
    assert_eq!((first.await.unwrap().effect, second.await.unwrap().effect), (Effect::Stored, Effect::Stored));
    assert!(gate.deadlines()[1].instant().unwrap() <= latest);
}

#[tokio::test]
async fn a_call_without_an_instance_in_time_is_forwarded_unchanged() {
    let (node, gate) = host(PATIENCE, |options| options.max_instances = 1).await;
    let (metadata, mut first, mut second) = (metadata_of("s"), node.keepline.pipe(), node.keepline.pipe());
    let mut first = first.answer("x", &metadata).boxed_local();
    begin([&mut first]).await;
    // The line is more patient than the entry.
    let passed = in_time(answer_by(&mut second, "y", &metadata, Deadline::after(SHORT))).await.unwrap();
    assert_eq!((passed.effect, problem_code(&passed)), (Effect::Failed, "busy"));
    assert!(problem_message(&passed).starts_with("no instance became free within "), "{passed:?}");
    let passed =
        answer_by(&mut second, "y", &metadata, Deadline::after(Duration::ZERO)).now_or_never().unwrap().unwrap();
    assert_eq!(problem_code(&passed), "busy");
    let refused = in_time(node.keepline.sessions().by(Deadline::after(SHORT)).keys("s")).await.unwrap_err();
    assert_eq!((refused.code, node.counters().busy), (SessionErrorCode::Busy, 3));
    gate.open();
    assert_eq!(first.await.unwrap().effect, Effect::Stored);
}

/// The filter still replies: what a client forged does not pass, though no store was asked.
#[tokio::test]
async fn an_entry_past_its_deadline_gets_a_reply_without_a_store_call() {
    let (mut node, gate) = host(Duration::ZERO, |_| {}).await;
    gate.open();
    let forged = r#"{"session_id":"s","memory_context":{"forged":true}}"#;
    let passed = node.question(forged).await;
    assert_eq!((passed.effect, problem_code(&passed)), (Effect::Failed, "timed-out"));
    assert_eq!(passed.metadata.as_deref(), Some(r#"{"session_id":"s"}"#));
    assert!(problem_message(&passed).contains("the store was not asked"), "{passed:?}");
    assert_eq!(problem_code(&node.say("s", "x").await), "timed-out");
    let large = format!(r#"{{"session_id":"s","x":"{}"}}"#, "é".repeat(1 << 20));
    assert_eq!(problem_code(&node.answer("x", &large).await), "timed-out");
    let refused = node.sessions.keys("s").await.unwrap_err();
    assert_eq!(refused.code, SessionErrorCode::Store(FailureCode::TimedOut));
    assert_eq!(gate.arrived(), [""; 0]);
    // Another entry has another time.
    let passed = answer_by(&mut node.pipe, "x", &metadata_of("s"), Deadline::after(PATIENCE)).await.unwrap();
    assert!(untouched(Effect::Stored, &passed));
}

#[tokio::test]
async fn after_the_deadline_no_further_transaction_is_begun() {
    let gate = Gate::closed();
    let store: Arc<dyn Store> = gate.clone();
    let short = |options: &mut Options| options.entry_timeout = SHORT;
    let mut node = Node::of(loaded(HOSTILE), &store, "{}", short).await.unwrap();
    let passed = in_time(node.pipe.question("store 10", r#"{"session_id":"s1"}"#)).await.unwrap();
    assert_eq!((passed.effect, gate.arrived().len()), (Effect::Passed, 1));
}

#[tokio::test]
async fn a_summary_that_misses_the_deadline_is_made_by_the_next_answer() {
    let (mut node, gate) = host(SHORT, |_| {}).await;
    gate.admit(3);
    for answers in 1..=3 {
        assert!(untouched(Effect::Stored, &in_time(node.say("s", "x")).await), "{answers}");
    }
    // Three answers, and what was to summarise the third one's history.
    assert_eq!((gate.arrived().len(), gate.at_work()), (4, 0));
    assert!(node.log.of("plugin: keepline.store").iter().any(|line| line.contains("not summarized")));
    gate.open();
    assert_eq!(node.history("s").await.len(), 6);
    assert_eq!(node.say("s", "x").await.effect, Effect::Stored);
    let history = node.history("s").await;
    assert_eq!((history.len(), operations_told(&history)), (3, 8));
    assert_eq!(node.memory("s").await.unwrap(), r#"{"answer_count":4,"last_answer":"x"}"#);
}

/// A store that answers at once needs no clock to be watched: so there need be none.
#[test]
fn the_memory_store_needs_no_timer() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut node = Node::new(&store, "{}").await;
        assert_eq!(node.ask("s").await.effect, Effect::Resumed);
        assert_eq!(node.reply("x").await.effect, Effect::Stored);
    });
}
