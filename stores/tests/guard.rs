//! A guard keeps its promises for any store: one that hangs, panics, fails, or is slow now and then.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use keepline_stores::{
    BreakerOptions, BucketId, BucketKind, BucketPage, Deadline, Deletion, ExistingLife, Failure, FailureCode, Guard,
    MemoryStore, Opening, Receipt, Store, StoreCapabilities, Transaction, Writer, guard::Missed,
};

/// What the store does when it is asked.
#[derive(Clone, Copy, Debug)]
enum Does {
    Answer,
    AnswerLate,
    Hang,
    Panic,
    Fail(FailureCode),
}

#[derive(Debug)]
struct Moody {
    does: parking_lot::Mutex<Does>,
    asked: AtomicUsize,
    own_breaker: bool,
    memory: MemoryStore,
}

#[async_trait]
impl Store for Moody {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &Transaction,
        deadline: Deadline,
    ) -> Result<Receipt, Failure> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let does = *self.does.lock();
        match does {
            Does::Answer => {}
            Does::AnswerLate => tokio::time::sleep(Duration::from_millis(40)).await,
            Does::Hang => pending().await,
            Does::Panic => panic!("as it was told to"),
            Does::Fail(code) => return Err(Failure::new(code, "", "as it was told to")),
        }
        self.memory.transact(writer, transaction, deadline).await
    }

    async fn list_buckets(
        &self,
        kind: BucketKind,
        cursor: &str,
        limit: u32,
        by: Deadline,
    ) -> Result<BucketPage, Failure> {
        self.memory.list_buckets(kind, cursor, limit, by).await
    }

    async fn delete_bucket(
        &self,
        writer: &Writer,
        bucket: &BucketId,
        incarnation: Option<&str>,
        max_keys: u32,
        by: Deadline,
    ) -> Result<Deletion, Failure> {
        self.memory.delete_bucket(writer, bucket, incarnation, max_keys, by).await
    }

    fn capabilities(&self) -> StoreCapabilities {
        self.memory.capabilities()
    }

    fn has_breaker(&self) -> bool {
        self.own_breaker
    }
}

/// Long enough for a hundred calls that cost nothing, on any machine.
const COOLDOWN: Duration = Duration::from_secs(2);

fn guarded(own_breaker: bool) -> (Guard, Arc<Moody>) {
    let store = Arc::new(Moody {
        does: Does::Answer.into(),
        asked: AtomicUsize::new(0),
        own_breaker,
        memory: MemoryStore::default(),
    });
    (Guard::new(store.clone(), BreakerOptions { failures: 3, cooldown: COOLDOWN }), store)
}

async fn ask(guard: &Guard) -> Result<Result<Receipt, Failure>, Missed> {
    let transaction = Transaction {
        bucket: BucketId { kind: BucketKind::Session, name: "s".into() },
        opening: Opening::Existing(ExistingLife { incarnation: None, renew: true }),
        expectations: vec![],
        operations: vec![],
    };
    let deadline = Deadline::after(Duration::from_millis(200));
    let writer = Writer::new();
    let store = guard.store().clone();
    guard.call(deadline, |_| Box::pin(async move { store.transact(&writer, &transaction, deadline).await })).await
}

#[tokio::test]
async fn a_store_that_never_answers_is_left_at_the_deadline_and_then_alone() {
    let (guard, store) = guarded(false);
    *store.does.lock() = Does::Hang;
    while ask(&guard).await.unwrap_err() == Missed::Abandoned {
        assert!(store.asked.load(Ordering::Relaxed) < 1000, "it is asked for ever");
    }
    let asked = store.asked.load(Ordering::Relaxed);
    for _ in 0..100 {
        assert_eq!(ask(&guard).await.unwrap_err(), Missed::LeftAlone);
    }
    assert_eq!(store.asked.load(Ordering::Relaxed), asked, "nobody waits for a store that hangs");
    let counters = guard.counters();
    assert_eq!((counters.left_alone, counters.is_left_alone), (101, Some(true)));
    assert_eq!(counters.abandoned, asked as u64);
    assert_eq!(counters.waits.count(), asked as u64);
    // Back again.
    *store.does.lock() = Does::Answer;
    while ask(&guard).await.is_err() {
        tokio::time::sleep(COOLDOWN / 10).await;
    }
    assert!(ask(&guard).await.is_ok());
    assert_eq!(guard.counters().is_left_alone, Some(false));
}

#[tokio::test]
async fn a_panic_of_a_store_does_not_pass() {
    let (guard, store) = guarded(false);
    *store.does.lock() = Does::Panic;
    assert_eq!(ask(&guard).await.unwrap_err(), Missed::Panicked);
    *store.does.lock() = Does::Answer;
    assert!(ask(&guard).await.unwrap().is_ok());
    *store.does.lock() = Does::Panic;
    for _ in 0..3 {
        assert_eq!(ask(&guard).await.unwrap_err(), Missed::Panicked);
    }
    assert_eq!(ask(&guard).await.unwrap_err(), Missed::LeftAlone);
    assert_eq!(guard.counters().panicked, 4);
}

#[tokio::test]
async fn failures_are_counted_by_code_and_only_those_of_the_store_itself_open_the_breaker() {
    let (guard, store) = guarded(false);
    let count = |code| guard.counters().failures().find(|(each, _)| *each == code).unwrap().1;
    *store.does.lock() = Does::Fail(FailureCode::NotACounter);
    for _ in 0..50 {
        assert!(ask(&guard).await.unwrap().is_err());
    }
    assert_eq!(count(FailureCode::NotACounter), 50);
    *store.does.lock() = Does::Fail(FailureCode::Unavailable);
    for _ in 0..3 {
        assert!(ask(&guard).await.unwrap().is_err());
    }
    assert_eq!(ask(&guard).await.unwrap_err(), Missed::LeftAlone);
    assert_eq!((count(FailureCode::Unavailable), count(FailureCode::Other)), (3, 0));
}

#[tokio::test]
async fn a_store_with_a_breaker_of_its_own_is_always_asked() {
    let (guard, store) = guarded(true);
    *store.does.lock() = Does::Fail(FailureCode::Unavailable);
    for _ in 0..50 {
        assert!(ask(&guard).await.unwrap().is_err());
    }
    assert_eq!(guard.counters().is_left_alone, None);
    assert_eq!(store.asked.load(Ordering::Relaxed), 50);
}

#[tokio::test]
async fn only_what_was_waited_for_is_a_wait() {
    let (guard, store) = guarded(false);
    assert!(ask(&guard).await.unwrap().is_ok());
    assert_eq!(guard.counters().waits.count(), 0);
    *store.does.lock() = Does::AnswerLate;
    assert!(ask(&guard).await.unwrap().is_ok());
    let counters = guard.counters();
    assert_eq!((counters.calls, counters.waits.count()), (2, 1));
    assert!(counters.waits.quantile(1.0).unwrap() > Duration::from_millis(40));
}
