//! Replays the conformance kit for stores against this host's store.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what can't be converted ends the test")]

mod convert;

use std::sync::Arc;

use async_trait::async_trait;
use convert::To;
use keepline_example_host::{bindings::types, filter::KeepStore, store::MemoryStore};
use keepline_stores::{
    BucketPage, Deadline, DeleteRequest, Deletion, Failure, FailureCode, IndexedReceipt, IndexedTransaction,
    ManualClock, Store, StoreInfo, Writer, capability,
};
use keepline_stores_tests::{kit, stores::StoreUnderTest};
use parking_lot::Mutex;

/// The store as the kit calls it. Each call reaches it once, so it knows no identities: what repeats a call is left out.
struct UnderKit(Mutex<MemoryStore>);

impl std::fmt::Debug for UnderKit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("UnderKit")
    }
}

impl UnderKit {
    fn new(clock: ManualClock) -> Self {
        Self(Mutex::new(MemoryStore::with_clock(move || {
            u64::try_from(keepline_stores::Clock::now(&clock).as_millis()).unwrap()
        })))
    }
}

#[async_trait]
impl Store for UnderKit {
    async fn transact(
        &self,
        writer: &Writer,
        transaction: &IndexedTransaction,
        deadline: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        self.transact_each(writer, std::slice::from_ref(transaction), deadline).await.remove(0)
    }

    async fn transact_each(
        &self,
        _: &Writer,
        transactions: &[IndexedTransaction],
        _: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        // The host links interfaces that the store lacks to traps.
        let lacks = |indexed: &IndexedTransaction| match indexed {
            IndexedTransaction { lease: Some(_), .. } => Some(capability::LEASES),
            IndexedTransaction { steps, .. } if !steps.is_empty() => Some(capability::INDEXES),
            _ => None,
        };
        if let Some(lacking) = transactions.iter().find_map(lacks) {
            let unsupported = || Failure::new(FailureCode::Unsupported, lacking, "the store lacks this capability");
            return transactions.iter().map(|_| Err(unsupported())).collect();
        }
        let own: Vec<types::Transaction> =
            transactions.iter().map(|indexed| indexed.transaction.clone().to()).collect();
        let receipts = self.0.lock().transact_each(&own);
        let receipt = |receipt| IndexedReceipt { lease: None, receipt, found: Vec::new() };
        receipts.into_iter().map(|result| convert::result(result).map(receipt)).collect()
    }

    async fn delete(&self, writer: &Writer, request: &DeleteRequest, deadline: Deadline) -> Result<Deletion, Failure> {
        self.delete_each(writer, std::slice::from_ref(request), deadline).await.remove(0)
    }

    async fn delete_each(&self, _: &Writer, requests: &[DeleteRequest], _: Deadline) -> Vec<Result<Deletion, Failure>> {
        let own: Vec<types::DeleteRequest> = requests.iter().cloned().map(To::to).collect();
        self.0.lock().delete_each(&own).into_iter().map(convert::result).collect()
    }

    async fn list_buckets(&self, kind: &str, cursor: &str, limit: u32, _: Deadline) -> Result<BucketPage, Failure> {
        convert::result(self.0.lock().list_buckets(kind, cursor, limit))
    }

    fn about(&self) -> StoreInfo {
        let mut about: StoreInfo = self.0.lock().about().to();
        about.capabilities.retain(|name| name != capability::EXACTLY_ONCE);
        about
    }
}

#[tokio::test]
async fn the_store_passes_the_store_kit() {
    for topic in kit::topics() {
        println!("{topic}");
        kit::replay(&topic, || {
            let clock = ManualClock::new();
            StoreUnderTest::component(Arc::new(UnderKit::new(clock.clone())), clock)
        })
        .await;
    }
}
