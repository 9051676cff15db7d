//! Implements [`Host`] on the component's imports.

use std::cell::Cell;

use crate::bindings::keepline::host::log;
use crate::bindings::keepline::store::{core, indexes, leases, listing, types};
use crate::bindings::wasi::clocks::wall_clock;
use crate::{
    BucketPage, DeleteRequest, Deletion, Host, IndexedReceipt, IndexedTransaction, Level, Problem, Receipt,
    StoreProfile, Transaction,
};

thread_local! {
    /// The lowest level that the host wants.
    static LOG_FROM: Cell<Level> = const { Cell::new(Level::Debug) };
    /// What the store said of itself, once it was asked.
    static STORE: Cell<Option<StoreProfile>> = const { Cell::new(None) };
}

/// Write no lines below this level. Returns the one of before.
pub fn replace_log_level(level: Level) -> Level {
    LOG_FROM.replace(level)
}

/// What the host lends.
#[derive(Clone, Copy, Debug)]
pub struct Imports;

impl Host for Imports {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Problem> {
        core::transact(*transaction)
    }

    /// Through the narrowest interface that has all of it.
    fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>> {
        if transactions.iter().any(|one| !one.steps.is_empty()) {
            let attempts = indexes::transact_each(transactions).into_iter().map(|attempt| match attempt {
                indexes::IndexedAttempt::Receipt(receipt) => Ok(receipt),
                indexes::IndexedAttempt::Problem(problem) => Err(problem),
            });
            return attempts.collect();
        }
        if transactions.iter().any(|one| one.lease.is_some()) {
            let mut leased = Vec::with_capacity(transactions.len());
            for &IndexedTransaction { lease, transaction, .. } in transactions {
                leased.push(leases::LeasedTransaction { lease, transaction });
            }
            let attempts = leases::transact_each(&leased).into_iter().map(|attempt| match attempt {
                leases::LeasedAttempt::Receipt(leases::LeasedReceipt { lease, receipt }) => {
                    Ok(IndexedReceipt { lease, ..receipt.into() })
                }
                leases::LeasedAttempt::Problem(problem) => Err(problem),
            });
            return attempts.collect();
        }
        let mut plain = Vec::with_capacity(transactions.len());
        for one in transactions {
            plain.push(one.transaction);
        }
        let attempts = core::transact_each(&plain).into_iter().map(|attempt| match attempt {
            types::Attempt::Receipt(receipt) => Ok(receipt.into()),
            types::Attempt::Problem(problem) => Err(problem),
        });
        attempts.collect()
    }

    fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>> {
        let attempts = core::delete_each(requests).into_iter().map(|attempt| match attempt {
            types::DeleteAttempt::Deletion(deletion) => Ok(deletion),
            types::DeleteAttempt::Problem(problem) => Err(problem),
        });
        attempts.collect()
    }

    fn list_buckets(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, Problem> {
        listing::list_buckets(kind, cursor, limit)
    }

    fn store_profile(&self) -> StoreProfile {
        STORE.get().unwrap_or_else(|| {
            let profile = StoreProfile::of(&core::about());
            STORE.set(Some(profile));
            profile
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
