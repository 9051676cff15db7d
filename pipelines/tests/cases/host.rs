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
    /// How often the store was asked so far.
    pub waits: Cell<u32>,
    /// The store fails from so many waits on.
    pub fails_from: Cell<u32>,
}

impl TestHost {
    pub fn new() -> Self {
        Self {
            memory: Memory::new(Arc::new(stores::MemoryStore::default())),
            waits: Cell::new(0),
            fails_from: Cell::new(u32::MAX),
        }
    }

    fn wait(&self) -> Result<(), Problem> {
        let waits = self.waits.replace(self.waits.get() + 1);
        if waits < self.fails_from.get() {
            return Ok(());
        }
        Err(Problem {
            code: "unavailable".into(),
            subject: String::new(),
            limit: 0,
            message: "the store is away".into(),
        })
    }
}

impl Host for TestHost {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Problem> {
        self.wait()?;
        self.memory.transact(&(*transaction).into()).map(|reply| reply.receipt)
    }

    fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>> {
        match self.wait() {
            Ok(()) => transactions.iter().map(|transaction| self.memory.transact(transaction)).collect(),
            Err(problem) => vec![Err(problem); transactions.len()],
        }
    }

    fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>> {
        let _ = self.wait();
        requests.iter().map(|request| self.memory.delete(*request)).collect()
    }

    fn list_buckets(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, Problem> {
        self.wait()?;
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
