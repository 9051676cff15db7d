//! Implements [`Host`] on the component's imports.

use crate::component::exports::{CAPABILITIES, LOG_FROM};
use crate::contract::bindings::keepline::host::log;
use crate::contract::bindings::keepline::memory::key_value as store;
use crate::contract::bindings::wasi::clocks::wall_clock;
use crate::contract::{
    BucketId, BucketKind, BucketPage, Deletion, Failure, Host, Level, Receipt, StoreCapabilities, Transaction,
};

/// What the host lends.
#[derive(Clone, Copy)]
pub(super) struct Imports;

impl Host for Imports {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        store::transact(*transaction)
    }

    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
        let attempts = store::transact_each(transactions).into_iter().map(|attempt| match attempt {
            store::Attempt::Receipt(receipt) => Ok(receipt),
            store::Attempt::Failure(failure) => Err(failure),
        });
        attempts.collect()
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        store::list_buckets(BucketKind::Session, cursor, limit)
    }

    fn delete(&self, bucket: BucketId<'_>, generation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure> {
        store::delete_bucket(bucket, generation, max_keys)
    }

    fn capabilities(&self) -> StoreCapabilities {
        CAPABILITIES.get().unwrap_or_else(|| {
            let capabilities = store::capabilities();
            CAPABILITIES.set(Some(capabilities));
            capabilities
        })
    }

    fn now_micros(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1_000_000).saturating_add(u64::from(now.nanoseconds / 1000))
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        log::write(level, context, message);
    }

    fn logs(&self, level: Level) -> bool {
        level >= LOG_FROM.get()
    }
}
