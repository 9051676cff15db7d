//! Every store is guarded and monitored; tenants share connections and the number of instances; one clock drives
//! everything.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    FilterOptions, Keepline, KeeplineError, Memory, Options, TtlMode,
    pipe::{Effect, ProblemCode},
    store::{
        BreakerState, Deadline, Failure, FailureCode, IndexedReceipt, IndexedTransaction, ManualClock, MemoryLimits,
        MemoryStore, RedisOptions, RedisStore, Store, Writer,
    },
};
use keepline_local_redis::RedisServer;
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    lanes::{Node, metadata_of, plugin},
};
use parking_lot::Mutex;

use super::PATIENCE;

/// What the store does in place of its work.
#[derive(Clone, Copy, Debug, Default)]
enum Mood {
    #[default]
    Works,
    Fails,
    Panics,
}

#[derive(Debug, Default)]
struct Moody {
    mood: Mutex<Mood>,
    asked: Mutex<u64>,
}

#[async_trait]
impl Intercept for Moody {
    async fn before(&self) -> Result<(), Failure> {
        self.answer()
    }

    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        *self.asked.lock() += 1;
        self.answer()?;
        store.transact(writer, transaction, deadline).await
    }
}

impl Moody {
    fn answer(&self) -> Result<(), Failure> {
        let mood = *self.mood.lock();
        match mood {
            Mood::Works => Ok(()),
            Mood::Fails => Err(Failure::new(FailureCode::Unavailable, "", "nobody is there")),
            Mood::Panics => panic!("as it was told to"),
        }
    }
}

fn moody_store() -> Arc<Intercepted<Moody>> {
    Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), Moody::default()))
}

async fn moody() -> (Node, Arc<Intercepted<Moody>>) {
    // Longer than the test, so that nobody looks whether it is back.
    moody_with(Duration::from_secs(3600), |_| {}).await
}

async fn moody_with(cooldown: Duration, change: impl FnOnce(&mut Options)) -> (Node, Arc<Intercepted<Moody>>) {
    let store = moody_store();
    let guarded: Arc<dyn Store> = store.clone();
    let change = |options: &mut Options| {
        (options.breaker.failures, options.breaker.cooldown) = (3, cooldown);
        change(options);
    };
    (Node::with(&guarded, "{}", change).await, store)
}

#[tokio::test]
async fn health_reports_the_store_as_an_entry_would_find_it() {
    let (mut node, store) = moody().await;
    let health = node.keepline.health(None).await;
    assert!(health.is_good() && health.breaker == BreakerState::Closed, "{health:?}");
    *store.mood.lock() = Mood::Fails;
    let failure = node.keepline.health(None).await.problem.unwrap();
    assert_eq!((failure.code, &*failure.message), (FailureCode::Unavailable, "nobody is there"));
    for _ in 0..2 {
        assert_eq!(node.ask("s").await.effect, Effect::Failed);
    }
    // The look was the first of three failures in a row.
    *store.mood.lock() = Mood::Works;
    let health = node.keepline.health(None).await;
    assert_eq!((health.is_good(), health.breaker), (false, BreakerState::Open));
    let metrics = node.keepline.metrics().store;
    assert_eq!((metrics.succeeded, metrics.failed, metrics.left_alone, metrics.consecutive_failures), (1, 3, 1, 4));
}

#[tokio::test]
async fn probes_detect_a_recovered_store_without_an_entry() {
    let change = |options: &mut Options| options.probe_interval = Some(Duration::from_millis(20));
    let (mut node, store) = moody_with(Duration::from_millis(50), change).await;
    *store.mood.lock() = Mood::Fails;
    while node.keepline.metrics().store.breaker != BreakerState::Open {
        assert_eq!(node.ask("s").await.effect, Effect::Failed);
    }
    *store.mood.lock() = Mood::Works;
    let asked = node.keepline.counters();
    let closed = async {
        while node.keepline.metrics().store.breaker != BreakerState::Closed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.unwrap();
    assert_eq!(node.keepline.counters(), asked);
    assert_eq!(node.ask("s").await.effect, Effect::Resumed);
}

#[tokio::test]
async fn probes_log_the_start_and_the_end_of_an_outage() {
    let change = |options: &mut Options| options.probe_interval = Some(Duration::from_millis(20));
    let (node, store) = moody_with(Duration::from_millis(20), change).await;
    let told = async |lines: usize| {
        let told = async {
            while node.log.of("keepline.store").len() < lines {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.unwrap();
        node.log.of("keepline.store")
    };
    *store.mood.lock() = Mood::Fails;
    assert_eq!(told(1).await, ["the store can't be used, as found while idle: nobody is there"]);
    *store.mood.lock() = Mood::Works;
    assert_eq!(told(2).await[1], "the store can be used again");
}

#[tokio::test]
async fn a_required_store_must_be_usable_at_the_start() {
    let store = moody_store();
    for (require_store, mood, is_made) in
        [(true, Mood::Works, true), (true, Mood::Fails, false), (true, Mood::Panics, false), (false, Mood::Fails, true)]
    {
        *store.mood.lock() = mood;
        let mut options = Options::default();
        options.require_store = require_store;
        match Keepline::new(plugin(), store.clone(), options).await {
            Ok(_) => assert!(is_made, "{mood:?}"),
            Err(KeeplineError::StoreUnusable(_)) => assert!(!is_made, "{mood:?}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_repeatedly_failing_store_is_not_called_while_its_breaker_is_open() {
    let (mut node, store) = moody().await;
    *store.mood.lock() = Mood::Fails;
    for _ in 0..50 {
        let asked = node.ask("s").await;
        assert_eq!((asked.effect, asked.metadata), (Effect::Failed, None));
    }
    assert_eq!(*store.asked.lock(), 3, "nobody asks a store that is down");
    let metrics = node.keepline.metrics();
    assert_eq!((metrics.store.left_alone, metrics.store.breaker), (47, BreakerState::Open));
    assert_eq!(metrics.store.failures().find(|(code, _)| *code == FailureCode::Unavailable).unwrap().1, 3);
    assert_eq!((metrics.entries.failed, metrics.questions.count(), metrics.answers.count()), (50, 50, 0));
}

#[tokio::test]
async fn a_store_that_panics_costs_an_entry_its_memory_and_nothing_else() {
    let (mut node, store) = moody().await;
    node.say("s", "one").await;
    *store.mood.lock() = Mood::Panics;
    let question = node.ask("s").await;
    assert_eq!((question.effect, question.metadata), (Effect::Failed, None));
    assert_eq!(question.problem.unwrap().code, ProblemCode::Store(FailureCode::Other));
    *store.mood.lock() = Mood::Works;
    assert_eq!(node.ask("s").await.effect, Effect::Enriched);
    let metrics = node.keepline.metrics();
    assert_eq!((metrics.store.panicked, metrics.instances_at_work), (1, 0));
    assert!(metrics.instances_idle > 0, "the instance is not to blame");
}

#[tokio::test]
async fn one_clock_drives_the_store_and_the_histories() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::with_clock(MemoryLimits::default(), clock.clone().into()));
    let mut options = Options::default();
    options.clock = clock.clone().into();
    let filter = FilterOptions {
        session_ttl_hours: Some(1.0),
        session_ttl_mode: Some(TtlMode::Sliding),
        ..FilterOptions::default()
    };
    options.filter = filter.into();
    let keepline = Keepline::new(plugin(), store, options).await.unwrap();
    let mut pipe = keepline.pipe();
    pipe.answer("In Leipzig.", &metadata_of("anna")).await.unwrap();
    clock.advance(Duration::from_secs(3599));
    let asked = pipe.question("And now?", &metadata_of("anna")).await.unwrap();
    let memory = Memory::read(&asked.metadata.unwrap()).unwrap().unwrap();
    assert_eq!((memory.last_answer(), memory.answer_count()), (Some("In Leipzig."), 1));
    clock.advance(Duration::from_secs(3600));
    let asked = pipe.question("And now?", &metadata_of("anna")).await.unwrap();
    assert_eq!((asked.effect, asked.metadata), (Effect::Resumed, None));
}

#[tokio::test]
async fn tenants_share_only_connections_and_the_instance_limit() {
    let server = RedisServer::start().unwrap();
    let options = RedisOptions { port: server.port(), key_prefix: "one".into(), ..RedisOptions::default() };
    let one = RedisStore::new(options).unwrap();
    let two = one.with_key_prefix("two").unwrap();
    for refused in ["", "a b", "a:@user", "{a}"] {
        assert!(one.with_key_prefix(refused).is_err(), "{refused}");
    }
    let first = Keepline::new(plugin(), Arc::new(one), Options::default()).await.unwrap();
    let second = first.with_store(Arc::new(two)).unwrap();
    for (keepline, answer) in [(&first, "of one"), (&second, "of two")] {
        keepline.pipe().answer(answer, &metadata_of("s")).await.unwrap();
    }
    for (keepline, answer) in [(&first, "\"of one\""), (&second, "\"of two\"")] {
        let found = keepline.sessions().get("s", "last_answer").await.unwrap();
        assert_eq!(found.value(), Some(answer));
    }
    assert_eq!(first.counters().stored, 2, "entries are counted for all");
    assert_eq!((first.metrics().store.calls, second.metrics().store.calls), (2, 2));
    assert_eq!((first.metrics().instances_at_work, first.metrics().instances_idle), (0, 2), "each its own");
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*:s:last_answer").query(&mut connection).unwrap();
    assert_eq!(keys.len(), 2);
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
    assert_eq!(clients.lines().count(), 2, "one connection for both, and this one: {clients}");
    let other = Arc::new(MemoryStore::default());
    assert!(first.with_store(other).is_err(), "a store that is not durable is told to be another");
}
