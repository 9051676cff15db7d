//! As many concurrent calls as instances; a queue that is bounded in length and time, first come, first served; and an
//! entry that gets no instance goes on without memory.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::{LocalBoxFuture, join_all},
    stream::FuturesUnordered,
};
use keepline::{Keepline, OnStoreError, Options, Passed, pipe::Effect, sessions::SessionErrorCode, store::Store};
use keepline_tests::{
    lanes::{KeptLog, Node, metadata_of, plugin, problem_code, problem_message, refused_with, untouched},
    until::until,
    watch::{in_own_process, resident_bytes},
};
use tokio::time::timeout;

use super::{Gate, Gated, PATIENCE, begin, begin_until};

/// A host with so many instances, and room for so many to wait, on a store behind a gate.
async fn host(instances: u32, waiting: usize) -> (Node, Arc<Gated>) {
    host_with(instances, waiting, |_| {}).await
}

async fn host_with(instances: u32, waiting: usize, change: impl FnOnce(&mut Options)) -> (Node, Arc<Gated>) {
    let gate = Gate::closed();
    let store: Arc<dyn Store> = gate.clone();
    let node = Node::with(&store, "{}", |options| {
        (options.max_instances, options.max_waiting, options.max_wait) = (instances, waiting, PATIENCE);
        change(options);
    });
    (node.await, gate)
}

/// An answer of a session, on a pipe of its own.
fn say(keepline: &Keepline, session: &str) -> LocalBoxFuture<'static, Passed> {
    let (mut pipe, metadata) = (keepline.pipe(), metadata_of(session));
    async move { pipe.answer("x", &metadata).await.unwrap() }.boxed_local()
}

#[tokio::test]
async fn concurrent_calls_are_limited_to_max_instances() {
    let (node, gate) = host(3, 100).await;
    let mut calls: Vec<_> = (0..10).map(|n| say(&node.keepline, &format!("s{n}"))).collect();
    begin_until(&mut calls, &gate, 3).await;
    assert_eq!((gate.at_work(), gate.most()), (3, 3));
    gate.open();
    let passed = timeout(PATIENCE, join_all(calls)).await.unwrap();
    assert!(passed.iter().all(|passed| untouched(Effect::Stored, passed)), "{passed:?}");
    assert_eq!(gate.most(), 3);
    assert_eq!((node.counters().stored, node.counters().busy), (10, 0));
}

#[tokio::test]
async fn a_call_beyond_the_queue_is_forwarded_unchanged_and_counted() {
    let (node, gate) = host(2, 3).await;
    let mut calls: Vec<_> = (0..5).map(|n| say(&node.keepline, &format!("s{n}"))).collect();
    begin_until(&mut calls, &gate, 2).await;
    for n in 0..20 {
        // At once, while the store answers nobody.
        let passed = say(&node.keepline, &format!("over-{n}")).now_or_never().unwrap();
        assert_eq!((passed.effect, problem_code(&passed)), (Effect::Failed, "busy"));
        assert!(passed.metadata.is_none());
        assert_eq!(problem_message(&passed), "all 2 instances are busy and 3 calls are already waiting");
    }
    assert_eq!((node.counters().failed, node.counters().busy), (20, 20));
    let told = node.log.of("keepline.busy").len();
    assert!((1..=3).contains(&told), "{told} warnings");
    let refused = node.keepline.sessions().keys("s0").now_or_never().unwrap().unwrap_err();
    assert_eq!((refused.code, node.counters().busy), (SessionErrorCode::Busy, 21));

    gate.open();
    let passed = timeout(PATIENCE, join_all(calls)).await.unwrap();
    assert!(passed.iter().all(|passed| untouched(Effect::Stored, passed)), "{passed:?}");
    let mut arrived = gate.arrived();
    arrived.sort();
    assert_eq!(arrived, ["s0", "s1", "s2", "s3", "s4"]);
    // There is room again.
    assert_eq!(say(&node.keepline, "s0").await.effect, Effect::Stored);
}

#[tokio::test]
async fn a_call_without_an_instance_is_an_error_with_on_store_error_fail() {
    let (node, gate) = host_with(1, 0, |options| options.on_store_error = OnStoreError::Fail).await;
    let mut first = say(&node.keepline, "s");
    begin([&mut first]).await;
    let mut pipe = node.keepline.pipe();
    assert!(refused_with("busy", &pipe.question("?", &metadata_of("s")).await));
    gate.open();
    assert_eq!(first.await.effect, Effect::Stored);
    assert_eq!(pipe.question("?", &metadata_of("s")).await.unwrap().effect, Effect::Enriched);
}

#[tokio::test]
async fn a_call_that_waits_too_long_is_forwarded_unchanged_and_counted() {
    let (node, gate) = host_with(1, 10, |options| options.max_wait = Duration::from_millis(20)).await;
    let mut first = say(&node.keepline, "first");
    begin([&mut first]).await;
    let passed = timeout(PATIENCE, say(&node.keepline, "late")).await.unwrap();
    assert_eq!((passed.effect, problem_code(&passed)), (Effect::Failed, "busy"));
    assert_eq!(problem_message(&passed), "no instance became free within 20 ms");
    assert_eq!((node.counters().failed, node.counters().busy), (1, 1));
    gate.open();
    // Who has an instance is the store's time-out's business.
    assert_eq!(first.await.effect, Effect::Stored);
    assert_eq!(gate.arrived(), ["first"]);
}

#[tokio::test]
async fn calls_are_served_in_order() {
    // With two instances, a call that is met by a tick while it computes may arrive at the store after the next.
    let (node, gate) = host(1, 100).await;
    let names: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
    let mut calls: Vec<_> = names.iter().map(|name| say(&node.keepline, name)).collect();
    begin_until(&mut calls, &gate, 1).await;
    let mut calls: FuturesUnordered<_> = calls.into_iter().collect();
    for served in 1..=names.len() {
        gate.admit(1);
        assert_eq!(timeout(PATIENCE, calls.next()).await.unwrap().unwrap().effect, Effect::Stored);
        // Who comes now comes last, and finds nothing to be had.
        if served == 10 {
            let mut pusher = say(&node.keepline, "pusher");
            begin([&mut pusher]).await;
            assert!(!gate.arrived().contains(&"pusher".to_owned()));
        }
    }
    assert_eq!(gate.arrived(), names);
}

#[tokio::test]
async fn a_dropped_call_leaves_the_queue() {
    let (node, gate) = host(1, 2).await;
    let keepline = &node.keepline;
    let (mut at_work, mut second, mut third) = (say(keepline, "a"), say(keepline, "b"), say(keepline, "c"));
    begin([&mut at_work, &mut second, &mut third]).await;
    assert_eq!(problem_code(&say(keepline, "d").await), "busy");
    drop(second);
    let mut fourth = say(keepline, "e");
    begin([&mut fourth]).await;
    assert_eq!(problem_code(&say(keepline, "f").await), "busy");
    gate.open();
    for call in [at_work, third, fourth] {
        assert_eq!(timeout(PATIENCE, call).await.unwrap().effect, Effect::Stored);
    }
    assert_eq!(gate.arrived(), ["a", "c", "e"]);
}

#[tokio::test]
async fn a_dropped_call_with_an_instance_frees_its_place() {
    let (node, gate) = host(1, 10).await;
    let (mut first, mut second) = (say(&node.keepline, "a"), say(&node.keepline, "b"));
    begin([&mut first, &mut second]).await;
    drop(first);
    begin([&mut second]).await;
    assert_eq!(gate.arrived(), ["a", "b"]);
    gate.open();
    assert_eq!(timeout(PATIENCE, second).await.unwrap().effect, Effect::Stored);
}

/// Calls are dropped wherever they are: every place is still there afterwards, and no more than that.
#[test]
fn dropped_calls_neither_lose_nor_gain_places() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let (node, gate) = host(4, 8).await;
        let tasks = (0..16).map(|n| {
            let keepline = node.keepline.clone();
            let gate = gate.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    let patience = Duration::from_micros(fastrand::u64(0..2000));
                    let (mut pipe, metadata) = (keepline.pipe(), metadata_of(&format!("s{n}")));
                    let _ = timeout(patience, pipe.answer("x", &metadata)).await;
                    gate.admit(usize::from(fastrand::bool()));
                }
            })
        });
        join_all(tasks.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
        assert_eq!((gate.at_work(), gate.most()), (0, 4));
        gate.gate.forget_permits(usize::MAX >> 4);

        let mut calls: Vec<_> = (0..12).map(|n| say(&node.keepline, &format!("t{n}"))).collect();
        begin_until(&mut calls, &gate, 4).await;
        assert_eq!(gate.at_work(), 4);
        assert_eq!(problem_code(&say(&node.keepline, "over").await), "busy");
        gate.open();
        assert!(join_all(calls).await.iter().all(|passed| passed.effect == Effect::Stored));
    });
}

/// Only the entry loses its memory: not the turn, and not the pipe.
#[tokio::test]
async fn a_dropped_answer_leaves_the_turn_to_the_next_answer() {
    let (mut node, gate) = host(1, 10).await;
    gate.admit(1);
    assert_eq!(node.ask("s").await.effect, Effect::Resumed);
    let mut other = say(&node.keepline, "other");
    // Once with an instance, and once in the line.
    assert!(node.pipe.answer("dropped", "{}").now_or_never().is_none());
    begin([&mut other]).await;
    assert!(node.pipe.answer("dropped", "{}").now_or_never().is_none());
    gate.open();
    assert_eq!(other.await.effect, Effect::Stored);
    assert_eq!(node.reply("kept").await.effect, Effect::Stored);
    assert_eq!(node.sessions.get("s", "last_answer").await.unwrap().value().unwrap(), "\"kept\"");
}

/// As `Options::max_instances` says.
#[test]
fn an_instance_takes_less_than_200_kib() {
    const INSTANCES: u32 = 100;
    in_own_process("pool::an_instance_takes_less_than_200_kib", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (node, gate) = host(INSTANCES, 0).await;
            gate.admit(1);
            assert_eq!(say(&node.keepline, "s").await.effect, Effect::Stored);
            let before = resident_bytes();
            let mut calls: Vec<_> = (0..INSTANCES).map(|n| say(&node.keepline, &format!("s{n}"))).collect();
            begin_until(&mut calls, &gate, 100).await;
            assert_eq!(gate.at_work(), 100);
            let each = ((resident_bytes() - before) / u64::from(INSTANCES)) >> 10;
            println!("{each} KiB an instance");
            assert!((10..200).contains(&each), "{each} KiB an instance");
            gate.open();
            assert!(join_all(calls).await.iter().all(|passed| passed.effect == Effect::Stored));
        });
    });
}

#[test]
fn unneeded_instances_are_dropped() {
    /// Each instance reserves gigabytes of addresses, and a few pages of memory.
    fn reserved_gib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmSize:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 20
    }
    in_own_process("pool::unneeded_instances_are_dropped", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let gate = Gate::closed();
            let mut options = Options::default();
            (options.log, options.entry_timeout) = (Arc::new(KeptLog::default()), PATIENCE);
            let keepline = Keepline::new(plugin(), gate.clone(), options).await.unwrap();
            let before = reserved_gib();
            let mut calls: Vec<_> = (0..64).map(|n| say(&keepline, &format!("s{n}"))).collect();
            begin(&mut calls).await;
            gate.open();
            assert!(join_all(calls).await.iter().all(|passed| passed.effect == Effect::Stored));
            let at_most = reserved_gib();
            assert!(at_most > before + 100, "{before} {at_most}");

            for _ in 0..3000 {
                assert_eq!(say(&keepline, "s").await.effect, Effect::Stored);
            }
            // Each is unmapped in its own time.
            let is_given_back = || reserved_gib() - before < (at_most - before) / 16;
            until("they are gone", || is_given_back().then_some(()));
            // What is needed is there again.
            let calls = (0..64).map(|n| say(&keepline, &format!("s{n}")));
            assert!(join_all(calls).await.iter().all(|passed| passed.effect == Effect::Stored));
        });
    });
}
