//! Lends pipelines a memory store, and counts the waits for it.

#[path = "../../../guest/tests/logic/memory.rs"]
mod memory;

use std::{cell::Cell, sync::Arc};

use keepline_store_client::{
    BucketPage, DeleteRequest, Deletion, Host, IndexedReceipt, IndexedTransaction, Level, Problem, Receipt,
    StoreProfile, Transaction,
};
use keepline_stores as stores;

use self::memory::Memory;

pub struct TestHost {
    memory: Memory,
    pub waits: Cell<u32>,
}

impl TestHost {
    pub fn new() -> Self {
        Self { memory: Memory::new(Arc::new(stores::MemoryStore::default())), waits: Cell::new(0) }
    }

    fn wait(&self) {
        self.waits.set(self.waits.get() + 1);
    }
}

impl Host for TestHost {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Problem> {
        self.wait();
        self.memory.transact(&(*transaction).into()).map(|reply| reply.receipt)
    }

    fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>> {
        self.wait();
        transactions.iter().map(|transaction| self.memory.transact(transaction)).collect()
    }

    fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>> {
        self.wait();
        requests.iter().map(|request| self.memory.delete(*request)).collect()
    }

    fn list_buckets(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, Problem> {
        self.wait();
        self.memory.list(kind, cursor, limit)
    }

    fn store_profile(&self) -> StoreProfile {
        StoreProfile::of(&self.memory.about())
    }

    fn now_micros(&self) -> u64 {
        0
    }

    fn log(&self, _: Level, _: &str, message: &str) {
        eprintln!("{message}");
    }
}
