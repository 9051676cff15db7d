//! The kit of `conformance/`, replayed on every store; and on stores with a mistake, which have to fail the cases that
//! are about it. `examples/hosts/` have more of those.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use keepline_stores::{Deadline, Failure, FailureCode, IndexStep, IndexedReceipt, IndexedTransaction, Store, Writer};
use keepline_stores_tests::{
    intercept::{Intercept, Intercepted},
    kit,
    stores::{StoreUnderTest, new_writer},
};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

macro_rules! topics {
    ($($topic:ident,)*) => {
        /// A file that is replayed by nobody promises nothing.
        #[test]
        fn every_topic_is_replayed() {
            let mut replayed = [$(stringify!($topic).replace('_', "-"),)*];
            replayed.sort_unstable();
            assert_eq!(kit::topics(), replayed);
        }

        topics!(memory: $($topic,)*);
        topics!(memory_evicting: $($topic,)*);
        topics!(directory: $($topic,)*);
        topics!(redis: $($topic,)*);
        topics!(redis_general: $($topic,)*);
        topics!(cluster: $($topic,)*);
        topics!(key_value: $($topic,)*);
    };
    ($store:ident: $($topic:ident,)*) => {
        mod $store {
            $(#[test] fn $topic() { super::replay(stringify!($topic), super::StoreUnderTest::$store); })*
        }
    };
}

fn replay(topic: &str, store: fn() -> StoreUnderTest) {
    runtime().block_on(kit::replay(&topic.replace('_', "-"), store));
}

topics![
    about,
    buckets,
    concurrency,
    counters,
    exactly_once,
    expectations,
    expiry,
    indexes,
    leases,
    limits,
    logs,
    maps,
    preconditions,
    short_times,
    transactions,
    values,
];

/// Several threads, for the writers of a race.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

/// A race is a matter of luck.
const TRIES: usize = 50;

/// Ends the test unless each case of the topic whose name begins like that fails on the store some time.
fn assert_fails<I: Intercept>(topic: &str, beginning: &str, mistake: fn() -> I) {
    let cases: Vec<_> = kit::cases(topic).into_iter().filter(|case| name(case).starts_with(beginning)).collect();
    assert!(!cases.is_empty(), "no case begins with {beginning:?}");
    for case in cases {
        let store = || {
            let mut mutant = StoreUnderTest::memory();
            mutant.store = Arc::new(Intercepted::new(mutant.store.clone(), mistake()));
            mutant
        };
        let fails = (0..TRIES).any(|_| runtime().block_on(kit::replay_case(&case, store)).is_err());
        assert!(fails, "a mistake passes {:?}", name(&case));
    }
}

fn name(case: &serde_json::Value) -> &str {
    case["name"].as_str().unwrap()
}

/// Looks up a call, lets others come in between, and remembers it afterwards.
#[derive(Debug, Default)]
struct LateMemory(Mutex<HashMap<(String, u64), Writer>>);

#[async_trait]
impl Intercept for LateMemory {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        let identity = (writer.id().to_owned(), writer.sequence());
        let known = self.0.lock().get(&identity).cloned();
        tokio::task::yield_now().await;
        let writer = known.unwrap_or_else(new_writer);
        let receipt = store.transact(&writer, transaction, deadline).await;
        self.0.lock().insert(identity, writer);
        receipt
    }
}

#[test]
fn a_store_that_remembers_calls_too_late_fails_races_of_tries() {
    assert_fails("concurrency", "tries of one ", LateMemory::default);
}

/// Takes a document at a position that is taken, and loses it.
#[derive(Debug)]
struct LostDocuments;

#[async_trait]
impl Intercept for LostDocuments {
    async fn transact(
        &self,
        store: &dyn Store,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        match store.transact(writer, transaction, deadline).await {
            Err(failure) if failure.code == FailureCode::Invalid => {
                let mut without = transaction.clone();
                for step in &mut without.steps {
                    if let IndexStep::AddDocuments(add) = step {
                        add.documents.clear();
                    }
                }
                store.transact(writer, &without, deadline).await
            }
            answer => answer,
        }
    }
}

#[test]
fn a_store_that_loses_documents_fails_the_race_for_positions() {
    assert_fails("concurrency", "no position of an index", || LostDocuments);
}
