//! Events reach whoever follows a store, in this process or another one: each once, in order, or with a word where
//! some are missing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use keepline::{
    events::{Delivery, EventId, EventLog, EventOptions, Subscription},
    store::{
        BucketId, Deadline, DeleteRequest, DirectoryOptions, DirectoryStore, Failure, FailureCode, IndexedReceipt,
        IndexedTransaction, MemoryStore, RedisStore, Store, Writer, kind,
    },
};
use keepline_tests::{
    intercept::{Intercept, Intercepted},
    stores::StoreUnderTest,
};

use super::PATIENCE;

fn options() -> EventOptions {
    let mut options = EventOptions::default();
    options.poll = Duration::from_millis(20);
    options
}

/// Two services that share a store, as two processes would: each has a connection of its own where there are any.
struct Services {
    name: &'static str,
    stores: [Arc<dyn Store>; 2],
    _held: Box<dyn std::any::Any>,
}

fn services() -> Vec<Services> {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let place = tempfile::tempdir().unwrap();
    let directory =
        || Arc::new(DirectoryStore::open(place.path(), DirectoryOptions::default()).unwrap()) as Arc<dyn Store>;
    let directories = [directory(), directory()];
    let in_redis = |given: StoreUnderTest| {
        let store = || Arc::new(RedisStore::new(given.raw().options.clone()).unwrap()) as Arc<dyn Store>;
        Services { name: given.name, stores: [store(), store()], _held: Box::new(given) }
    };
    vec![
        Services { name: "memory", stores: [memory.clone(), memory], _held: Box::new(()) },
        Services { name: "directory", stores: directories, _held: Box::new(place) },
        in_redis(StoreUnderTest::redis()),
        in_redis(StoreUnderTest::cluster()),
    ]
}

async fn next(subscription: &mut Subscription) -> Delivery {
    tokio::time::timeout(PATIENCE, subscription.next()).await.expect("an event comes").unwrap()
}

async fn next_event(subscription: &mut Subscription) -> (EventId, String) {
    match next(subscription).await {
        Delivery::Event { id, text } => (id, text.to_string()),
        Delivery::Gap => panic!("nothing is missing"),
    }
}

#[tokio::test]
async fn everyone_who_follows_a_store_gets_the_same_events_in_the_same_order() {
    for Services { name, stores, _held } in services() {
        let logs = stores.map(|store| EventLog::new(store, options()));
        logs[0].announce("before anybody follows");
        logs[0].flush().await;
        let mut followers = Vec::new();
        for log in &logs {
            followers.push(log.subscribe(None).await.unwrap());
            followers.push(log.subscribe(None).await.unwrap());
        }
        let announced = 100;
        for number in 0..announced {
            for (service, log) in logs.iter().enumerate() {
                log.announce(format!("{service} {number}"));
            }
            tokio::task::yield_now().await;
        }
        let mut first: Option<Vec<_>> = None;
        for follower in &mut followers {
            let mut seen = Vec::new();
            for _ in 0..2 * announced {
                seen.push(next_event(follower).await);
            }
            for service in 0..2 {
                let own: Vec<_> = seen.iter().filter(|(_, text)| text.starts_with(&format!("{service} "))).collect();
                let in_order = own.iter().enumerate().all(|(number, (_, text))| *text == format!("{service} {number}"));
                assert!(in_order && own.len() == announced, "{name}: {own:?}");
            }
            assert_eq!(first.get_or_insert_with(|| seen.clone()), &seen, "{name}");
        }
    }
}

#[tokio::test]
async fn a_follower_goes_on_at_any_service_where_it_was() {
    for Services { name, stores, _held } in services() {
        let logs = stores.map(|store| EventLog::new(store, options()));
        let mut follower = logs[0].subscribe(None).await.unwrap();
        for number in 0..3_000 {
            logs[0].announce(number.to_string());
        }
        let (mut id, text) = next_event(&mut follower).await;
        assert_eq!(text, "0", "{name}");
        drop(follower);
        logs[0].flush().await;
        // More than are held in memory, from the store, and then those that come.
        let mut elsewhere = logs[1].subscribe(Some(id.to_string().parse().unwrap())).await.unwrap();
        logs[1].announce("3000");
        for number in 1..=3_000 {
            let event = next_event(&mut elsewhere).await;
            assert_eq!(event.1, number.to_string(), "{name}");
            assert_ne!(event.0, id, "{name}");
            id = event.0;
        }
        let mut at_the_end = logs[0].subscribe(Some(id)).await.unwrap();
        logs[0].announce("3001");
        assert_eq!(next_event(&mut at_the_end).await.1, "3001", "{name}");
    }
}

#[tokio::test]
async fn who_was_away_for_too_long_is_told_so_and_goes_on_with_what_is_kept() {
    for Services { name, stores, _held } in services() {
        let mut options = options();
        options.keep = 100;
        let logs = stores.map(|store| EventLog::new(store, options.clone()));
        let mut follower = logs[0].subscribe(None).await.unwrap();
        logs[0].announce("first");
        let (first, _) = next_event(&mut follower).await;
        for number in 0..1_000 {
            logs[0].announce(number.to_string());
        }
        logs[0].flush().await;
        let mut late = logs[1].subscribe(Some(first.clone())).await.unwrap();
        assert_eq!(next(&mut late).await, Delivery::Gap, "{name}");
        let (_, text) = next_event(&mut late).await;
        let kept = 1_000 - text.parse::<u64>().unwrap();
        assert!((100..=112).contains(&kept), "{name}: {kept}");
        for number in text.parse::<u64>().unwrap() + 1..1_000 {
            assert_eq!(next_event(&mut late).await.1, number.to_string(), "{name}");
        }
        // An id of another log means nothing here.
        let own = EventLog::new(Arc::new(MemoryStore::default()), options);
        let mut stranger = own.subscribe(Some(first)).await.unwrap();
        own.announce("1");
        assert_eq!(next(&mut stranger).await, Delivery::Gap, "{name}");
        assert_eq!(next_event(&mut stranger).await.1, "1", "{name}");
    }
}

#[tokio::test]
async fn followers_are_told_when_the_log_they_followed_has_ended() {
    for Services { name, stores, _held } in services() {
        let [store, other] = stores;
        let logs = [store.clone(), other].map(|store| EventLog::new(store, options()));
        let mut followers = Vec::new();
        for log in &logs {
            followers.push(log.subscribe(None).await.unwrap());
        }
        logs[0].announce("1");
        logs[0].flush().await;
        for follower in &mut followers {
            assert_eq!(next_event(follower).await.1, "1", "{name}");
        }
        let request = DeleteRequest { bucket: BucketId::new(kind::SERVICE, "events"), generation: None, max_keys: 0 };
        store.delete(Writer::new().advance(), &request, Deadline::NEVER).await.unwrap();
        logs[1].announce("2");
        for follower in &mut followers {
            assert_eq!(next(follower).await, Delivery::Gap, "{name}");
            assert_eq!(next_event(follower).await.1, "2", "{name}");
        }
    }
}

/// Fails so many transactions that write, every second one after it was applied.
#[derive(Debug, Default)]
struct Failing {
    left: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

#[async_trait]
impl Intercept for Failing {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        let fails = |left: u64| left.checked_sub(1).filter(|_| transaction.has_writes());
        let counter = if transaction.has_writes() { &self.writes } else { &self.reads };
        counter.fetch_add(1, SeqCst);
        match self.left.fetch_update(SeqCst, SeqCst, fails) {
            Ok(left) => {
                if left % 2 == 0 {
                    store.transact(writer, transaction, deadline).await?;
                }
                Err(Failure::new(FailureCode::Unavailable, "", "the store is away"))
            }
            Err(_) => store.transact(writer, transaction, deadline).await,
        }
    }
}

fn failing(patience: Duration) -> (Arc<Intercepted<Failing>>, EventLog) {
    let store = Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), Failing::default()));
    let mut options = options();
    options.patience = patience;
    (store.clone(), EventLog::new(store, options))
}

#[tokio::test]
async fn an_event_is_announced_once_however_often_the_store_fails_meanwhile() {
    let (store, log) = failing(PATIENCE);
    let mut follower = log.subscribe(None).await.unwrap();
    for number in 0..20 {
        store.left.store(number % 4, SeqCst);
        log.announce(number.to_string());
        assert_eq!(next_event(&mut follower).await.1, number.to_string());
    }
}

#[tokio::test]
async fn followers_are_told_of_events_that_could_not_be_announced() {
    let (store, log) = failing(Duration::ZERO);
    let mut follower = log.subscribe(None).await.unwrap();
    log.announce("1");
    assert_eq!(next_event(&mut follower).await.1, "1");
    store.left.store(1, SeqCst);
    log.announce("lost");
    log.flush().await;
    log.announce("2");
    log.announce("x".repeat(2 << 20));
    log.announce("");
    log.announce("3");
    assert_eq!(next(&mut follower).await, Delivery::Gap);
    assert_eq!(next_event(&mut follower).await.1, "2");
    assert_eq!(next(&mut follower).await, Delivery::Gap);
    assert_eq!(next_event(&mut follower).await.1, "3");
}

#[tokio::test]
async fn a_log_that_nobody_follows_is_not_read() {
    let (store, log) = failing(PATIENCE);
    let follower = log.subscribe(None).await.unwrap();
    while store.reads.load(SeqCst) < 3 {
        tokio::time::sleep(options().poll).await;
    }
    drop(follower);
    let mut before = u64::MAX;
    while before != store.reads.load(SeqCst) {
        before = store.reads.load(SeqCst);
        tokio::time::sleep(options().poll * 5).await;
    }
}

#[tokio::test]
async fn events_of_a_busy_service_gather_so_that_few_transactions_write_them() {
    let (store, log) = failing(PATIENCE);
    let mut follower = log.subscribe(None).await.unwrap();
    let (began, mut announced) = (Instant::now(), 0_u32);
    while announced < 1_000 {
        log.announce(announced.to_string());
        announced += 1;
        // As between one answer and the next: a transaction would find the time.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    log.flush().await;
    // The first two don't find one before them.
    let most = 3 + began.elapsed().as_millis() / 10;
    let writes = store.writes.load(SeqCst);
    assert!(u128::from(writes) <= most && writes < 500, "{writes} transactions, at most {most}");
    for number in 0..announced {
        assert_eq!(next_event(&mut follower).await.1, number.to_string());
    }
}
