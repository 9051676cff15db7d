//! Implements [`Host`] on the component's imports.

mod lift;
mod lower;

use self::lower::{Lists, lower_bucket};
use crate::component::exports::bindings::keepline::memory::key_value as wit;
use crate::component::exports::bindings::wasi::clocks::wall_clock;
use crate::component::exports::bindings::wasi::logging::logging;
use crate::component::exports::{CAPABILITIES, LOG_FROM};
use crate::contract::{Bucket, BucketPage, Capabilities, Deletion, Failure, Host, Level, Receipt, Transaction};

/// What the host lends.
#[derive(Clone, Copy)]
pub(super) struct Imports;

impl Host for Imports {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        let lists = Lists::of(transaction);
        let parts = lists.parts(transaction);
        received(wit::transact(parts.transaction(transaction)))
    }

    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
        let lists: Vec<_> = transactions.iter().map(Lists::of).collect();
        let parts: Vec<_> = lists.iter().zip(transactions).map(|(lists, of)| lists.parts(of)).collect();
        let lowered: Vec<_> = parts.iter().zip(transactions).map(|(parts, of)| parts.transaction(of)).collect();
        let attempts = wit::transact_each(&lowered).into_iter().map(|attempt| match attempt {
            wit::Attempt::Receipt(receipt) => received(Ok(receipt)),
            wit::Attempt::Failure(failure) => received(Err(failure)),
        });
        attempts.collect()
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        let page = wit::list_buckets(wit::BucketKind::Session, cursor, limit)?;
        Ok(BucketPage { names: page.names, cursor: page.cursor })
    }

    fn delete(&self, bucket: Bucket<'_>, incarnation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure> {
        let deletion = wit::delete_bucket(lower_bucket(bucket), incarnation, max_keys)?;
        Ok(Deletion { status: deletion.status.into(), values: deletion.values, keys: deletion.keys })
    }

    fn capabilities(&self) -> Capabilities {
        if let Some(known) = CAPABILITIES.get() {
            return known;
        }
        let told = wit::capabilities();
        let capabilities = Capabilities {
            atomic: told.atomic,
            expiring: told.expiring,
            exactly_once: told.exactly_once,
            listing: told.listing,
            leases: told.leases,
            indexes: told.indexes,
        };
        CAPABILITIES.set(Some(capabilities));
        capabilities
    }

    fn now_micros(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1_000_000).saturating_add(u64::from(now.nanoseconds / 1000))
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        logging::log(level.into(), context, message);
    }

    fn logs(&self, level: Level) -> bool {
        logging::Level::from(level) as u8 >= LOG_FROM.get() as u8
    }
}

impl From<Level> for logging::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Warn => Self::Warn,
        }
    }
}

#[inline(never)]
fn received(answer: Result<wit::Receipt, wit::Failure>) -> Result<Receipt, Failure> {
    Ok(answer?.into())
}
