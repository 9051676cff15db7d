//! Keepline's memory store as a component, which a filter can be composed with: the world `store-provider`.
//!
//! What is stored lives as long as the instance, which serves one call at a time.

mod convert;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::FutureExt;
use keepline_stores::{Clock, Deadline, IndexedTransaction, MemoryLimits, MemoryStore, Store as _, Writer};

use self::{
    bindings::{
        exports::keepline::store::{core, indexes, leases, listing},
        keepline::{common::shared::Problem, store::types},
        wasi::clocks::wall_clock,
    },
    convert::Convert,
};

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit/provider", world: "store-provider", generate_all });
}

struct Component;

bindings::export!(Component with_types_in bindings);

/// The host's clock.
#[derive(Debug)]
struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Duration {
        let now = wall_clock::now();
        Duration::new(now.seconds, now.nanoseconds)
    }
}

fn store() -> &'static MemoryStore {
    static STORE: OnceLock<MemoryStore> = OnceLock::new();
    STORE.get_or_init(|| {
        // The only thing here that differs from instance to instance.
        let now = HostClock.now();
        fastrand::seed(now.as_secs() ^ u64::from(now.subsec_nanos()).rotate_left(32));
        MemoryStore::with_clock(MemoryLimits::default(), Arc::new(HostClock))
    })
}

fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("the memory store never waits")
}

fn apply_each<A: Convert<IndexedTransaction>, R>(transactions: Vec<A>) -> Vec<R>
where
    Result<keepline_stores::IndexedReceipt, keepline_stores::Failure>: Convert<R>,
{
    let transactions: Vec<IndexedTransaction> = transactions.into_iter().map(Convert::convert).collect();
    let answers = at_once(store().transact_each(Writer::new().advance(), &transactions, Deadline::NEVER));
    answers.into_iter().map(Convert::convert).collect()
}

impl core::Guest for Component {
    fn about() -> types::StoreInfo {
        let mut about = store().about();
        // A call of the import has no identity: one that is sent again counts again.
        about.capabilities.retain(|name| name != "exactly-once");
        about.convert()
    }

    fn transact(transaction: types::Transaction) -> Result<types::Receipt, Problem> {
        let transaction: IndexedTransaction = transaction.convert();
        let answer = at_once(store().transact(Writer::new().advance(), &transaction, Deadline::NEVER));
        answer.map(|indexed| indexed.receipt.convert()).map_err(Convert::convert)
    }

    fn transact_each(transactions: Vec<types::Transaction>) -> Vec<types::Attempt> {
        apply_each(transactions)
    }

    fn delete_each(requests: Vec<types::DeleteRequest>) -> Vec<types::DeleteAttempt> {
        let requests: Vec<_> = requests.into_iter().map(Convert::convert).collect();
        let answers = at_once(store().delete_each(Writer::new().advance(), &requests, Deadline::NEVER));
        answers.into_iter().map(Convert::convert).collect()
    }
}

impl leases::Guest for Component {
    fn transact_each(transactions: Vec<leases::LeasedTransaction>) -> Vec<leases::LeasedAttempt> {
        apply_each(transactions)
    }
}

impl indexes::Guest for Component {
    fn transact_each(transactions: Vec<indexes::IndexedTransaction>) -> Vec<indexes::IndexedAttempt> {
        apply_each(transactions)
    }
}

impl listing::Guest for Component {
    fn list_buckets(kind: String, cursor: String, limit: u32) -> Result<listing::BucketPage, Problem> {
        at_once(store().list_buckets(&kind, &cursor, limit, Deadline::NEVER)).convert()
    }
}
