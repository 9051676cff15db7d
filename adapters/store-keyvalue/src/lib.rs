//! Exports Keepline's store (the world `store-provider`) on a host's `wasi:keyvalue`, so that a filter composed with it runs
//! where a host lends that and knows nothing of Keepline. How it keeps buckets, and what it can't promise, is in
//! `stores/src/keyvalue/`.

#[path = "../../../examples/stores/rust/src/convert.rs"]
mod convert;
mod lent;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::FutureExt;
use keepline_stores::{
    Clock, Deadline, Failure, IndexedReceipt, IndexedTransaction, KeyValueStore, Store as _, Writer, capability,
};

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
    wit_bindgen::generate!({
        path: ["../../wit/provider", "../wit/keyvalue"],
        inline: "
            package keepline:adapters;

            world store-keyvalue {
                include keepline:provider/store-provider@0.3.0;
                import wasi:keyvalue/store@0.2.0-draft;
                import wasi:keyvalue/atomics@0.2.0-draft;
                import wasi:keyvalue/batch@0.2.0-draft;
            }
        ",
        world: "keepline:adapters/store-keyvalue",
        generate_all,
    });
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

fn store() -> &'static KeyValueStore {
    static STORE: OnceLock<KeyValueStore> = OnceLock::new();
    STORE.get_or_init(|| KeyValueStore::with_clock(lent::LentKeyValue::default(), Arc::new(HostClock)))
}

/// Stands for all calls: an import is called once for each, so the store needs no identities.
fn writer() -> Writer {
    Writer::placeholder()
}

fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("this store never waits but in its imports")
}

fn apply_each<A: Convert<IndexedTransaction>, R>(transactions: Vec<A>) -> Vec<R>
where
    Result<IndexedReceipt, Failure>: Convert<R>,
{
    let transactions: Vec<IndexedTransaction> = transactions.into_iter().map(Convert::convert).collect();
    let answers = at_once(store().transact_each(&writer(), &transactions, Deadline::NEVER));
    answers.into_iter().map(Convert::convert).collect()
}

impl core::Guest for Component {
    fn about() -> types::StoreInfo {
        let mut about = store().about();
        // Whoever is composed with this calls it once each.
        about.capabilities.push(capability::EXACTLY_ONCE.to_owned());
        about.convert()
    }

    fn transact(transaction: types::Transaction) -> Result<types::Receipt, Problem> {
        let transaction: IndexedTransaction = transaction.convert();
        let answer = at_once(store().transact(&writer(), &transaction, Deadline::NEVER));
        answer.map(|indexed| indexed.receipt.convert()).map_err(Convert::convert)
    }

    fn transact_each(transactions: Vec<types::Transaction>) -> Vec<types::Attempt> {
        apply_each(transactions)
    }

    fn delete_each(requests: Vec<types::DeleteRequest>) -> Vec<types::DeleteAttempt> {
        let requests: Vec<_> = requests.into_iter().map(Convert::convert).collect();
        let answers = at_once(store().delete_each(&writer(), &requests, Deadline::NEVER));
        answers.into_iter().map(Convert::convert).collect()
    }
}

/// Without that capability: whoever asks for a lease is refused.
impl leases::Guest for Component {
    fn transact_each(transactions: Vec<leases::LeasedTransaction>) -> Vec<leases::LeasedAttempt> {
        apply_each(transactions)
    }
}

/// Without that capability, too.
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
