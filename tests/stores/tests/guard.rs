//! A guard keeps its promises for any store: one that hangs, panics, fails, or is slow now and then.

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
    BreakerOptions, BreakerState, BucketId, Deadline, ExistingBucket, Failure, FailureCode, IndexedReceipt,
    MemoryStore, Precondition, Store, StoreCounters, StoreGuard, Transaction, Writer, guard::Missed,
};
use keepline_stores_tests::intercept::{Intercept, Intercepted};

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
}

#[async_trait]
impl Intercept for Moody {
    async fn before(&self) -> Result<(), Failure> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let does = *self.does.lock();
        match does {
            Does::Answer => Ok(()),
            Does::AnswerLate => {
                tokio::time::sleep(Duration::from_millis(40)).await;
                Ok(())
            }
            Does::Hang => pending().await,
            Does::Panic => panic!("as it was told to"),
            Does::Fail(code) => Err(Failure::new(code, "", "as it was told to")),
        }
    }

    fn breaker(&self, _: Option<BreakerState>) -> Option<BreakerState> {
        self.own_breaker.then_some(BreakerState::HalfOpen)
    }
}

/// Long enough for a hundred calls that cost nothing, on any machine.
const COOLDOWN: Duration = Duration::from_secs(2);

fn guarded(own_breaker: bool) -> (StoreGuard, Arc<Intercepted<Moody>>) {
    let moody = Moody { does: Does::Answer.into(), asked: AtomicUsize::new(0), own_breaker };
    let store = Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), moody));
    (StoreGuard::new(store.clone(), BreakerOptions { failures: 3, cooldown: COOLDOWN }), store)
}

/// A call that changes nothing.
async fn ask_of(store: &dyn Store) -> Result<IndexedReceipt, Failure> {
    let transaction = Transaction {
        bucket: BucketId::session("s"),
        precondition: Precondition::Existing(ExistingBucket { generation: None, renew: true }),
        expectations: vec![],
        operations: vec![],
    };
    store.transact(&Writer::new(), &transaction.into(), Deadline::NEVER).await
}

async fn ask(guard: &StoreGuard) -> Result<Result<IndexedReceipt, Failure>, Missed> {
    guard.call(soon(), |store| Box::pin(ask_of(store))).await
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_millis(200))
}

#[tokio::test]
async fn calls_to_a_hung_store_end_at_the_deadline_until_the_store_is_left_alone() {
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
    assert_eq!((counters.left_alone, counters.breaker), (101, BreakerState::Open));
    assert_eq!(counters.abandoned, asked as u64);
    assert_eq!(counters.waits.count(), asked as u64);
    // Back again.
    *store.does.lock() = Does::Answer;
    while ask(&guard).await.is_err() {
        tokio::time::sleep(COOLDOWN / 10).await;
    }
    assert!(ask(&guard).await.is_ok());
    assert_eq!(guard.counters().breaker, BreakerState::Closed);
}

#[tokio::test]
async fn a_panic_in_a_store_is_caught_and_counted_as_a_failure() {
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
    assert_eq!(guard.counters().breaker, BreakerState::HalfOpen, "the store's own");
    assert_eq!(store.asked.load(Ordering::Relaxed), 50);
}

#[tokio::test]
async fn only_calls_that_had_to_wait_are_counted_as_waits() {
    let (guard, store) = guarded(false);
    assert!(ask(&guard).await.unwrap().is_ok());
    assert_eq!(guard.counters().waits.count(), 0);
    *store.does.lock() = Does::AnswerLate;
    assert!(ask(&guard).await.unwrap().is_ok());
    let counters = guard.counters();
    assert_eq!((counters.calls, counters.waits.count()), (2, 1));
    assert!(counters.waits.quantile(1.0).unwrap() > Duration::from_millis(40));
}

#[tokio::test]
async fn a_check_reports_the_state_of_a_store_and_closes_the_breaker_on_recovery() {
    let (guard, store) = guarded(false);
    assert!(guard.check(soon()).await.is_good());
    *store.does.lock() = Does::AnswerLate;
    let late = guard.check(soon()).await;
    assert!(late.is_good() && late.round_trip >= Duration::from_millis(40), "{late:?}");

    for (does, code) in [
        (Does::Fail(FailureCode::Unavailable), FailureCode::Unavailable),
        (Does::Panic, FailureCode::Other),
        (Does::Fail(FailureCode::Unavailable), FailureCode::Unavailable),
    ] {
        *store.does.lock() = does;
        assert_eq!(guard.check(soon()).await.problem.unwrap().code, code);
    }
    let asked = store.asked.load(Ordering::Relaxed);
    let left_alone = guard.check(soon()).await;
    assert_eq!((left_alone.problem.unwrap().code, left_alone.breaker), (FailureCode::Unavailable, BreakerState::Open));
    assert_eq!(store.asked.load(Ordering::Relaxed), asked, "the store is left alone");

    *store.does.lock() = Does::Answer;
    while !guard.check(soon()).await.is_good() {
        tokio::time::sleep(COOLDOWN / 10).await;
    }
    assert_eq!(guard.breaker(), BreakerState::Closed);
}

#[tokio::test]
async fn consecutive_failures_count_store_failures_and_end_with_an_answer() {
    let (guard, store) = guarded(true);
    let told = async |does| {
        *store.does.lock() = does;
        let _ = ask(&guard).await;
        guard.counters().consecutive_failures
    };
    for (does, failures) in [
        (Does::Answer, 0),
        (Does::Fail(FailureCode::Unavailable), 1),
        (Does::Fail(FailureCode::Full), 2),
        (Does::Hang, 3),
        (Does::Panic, 4),
        (Does::Fail(FailureCode::NotACounter), 0),
        (Does::Fail(FailureCode::TimedOut), 1),
        (Does::Answer, 0),
    ] {
        assert_eq!(told(does).await, failures, "{does:?}");
    }
    let StoreCounters { calls, succeeded, failed, abandoned, panicked, .. } = guard.counters();
    assert_eq!((calls, succeeded, failed, abandoned, panicked), (8, 2, 4, 1, 1));
    let (guard, store) = guarded(false);
    *store.does.lock() = Does::Fail(FailureCode::Unavailable);
    for _ in 0..20 {
        let _ = ask(&guard).await;
    }
    assert_eq!(guard.counters().consecutive_failures, 20, "those that were not made are among them");
}
