//! A bucket as plain data, and the rules of the contract as plain functions on it: for the store in memory, and in part
//! for the store in a directory.
//!
//! Nothing here waits, locks, reads a clock or knows of other buckets: a store says what time it is, and in what
//! order things happen. A transaction goes through [`decide_precondition`],
//! [`Bucket::find_unmet_expectation`] and [`Bucket::probe_growth`], which change nothing, and then through
//! [`Bucket::apply`], which can't fail.

mod apply;
mod counter;
mod expectations;
mod expiry;
mod indexes;
mod leases;
mod logs;
mod maps;
mod precondition;
mod probe;
mod room;
#[cfg(test)]
mod tests;

use std::{any::Any, collections::BTreeMap};

use compact_str::{CompactString, format_compact};

pub(crate) use self::{
    apply::Answers,
    expiry::Expiry,
    precondition::{
        FoundBucket, PreconditionDecision, build_receipt, decide_precondition, may_write, receipt_without,
        renews_expiry,
    },
};
pub(crate) use self::{
    counter::add_to_counter,
    expectations::{BucketContents, find_unmet_expectation},
    maps::page_entry_limit,
    probe::{check_parts, check_replacement, check_values, no_record_at},
    room::{AnswerBudget, TransactionBudget},
};
#[cfg(feature = "directory")]
pub(crate) use self::{
    counter::parse_counter,
    leases::{LeaseChange, lease_change, lease_state},
};
use self::{indexes::BucketIndex, leases::LeaseTable, logs::BucketLog, maps::BucketMap};
use crate::{
    BucketPart, Deletion, Description, Status, TimeToLive, index::estimate_bytes, limits::MAX_NAMES, names::VALUES,
    part,
};

/// What is read of a map, a log or an index that is not there.
static NO_MAP: BucketMap = BucketMap::EMPTY;
static NO_LOG: BucketLog = BucketLog::EMPTY;
static NO_INDEX: BucketIndex = BucketIndex::EMPTY;

/// A bucket from its creation to its end.
///
/// Short texts are where they are used, not behind a pointer: of many buckets few are in the CPU's cache, and each
/// place in memory that a transaction goes to then costs as much as a tenth of its logic.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// When it was created; no other life has the same.
    pub(crate) generation: CompactString,
    pub(crate) expiry: Expiry,
    /// Milliseconds since 1970.
    created_at: u64,
    /// The latest time in any answer, in milliseconds.
    latest: u64,
    values: BucketMap,
    /// The other maps, none of them empty.
    maps: BTreeMap<CompactString, BucketMap>,
    /// A log that was emptied stays, because its positions go on.
    logs: BTreeMap<CompactString, BucketLog>,
    /// One that was emptied stays, for the same reason.
    indexes: BTreeMap<CompactString, BucketIndex>,
    leases: LeaseTable,
    /// Bytes of all that it holds, each with a fixed sum for what the data structures take.
    cost: u64,
    /// What was removed as a whole, until somebody has the time to free it.
    removed: Vec<Removed>,
}

/// Something that takes long to free.
pub(crate) type Removed = Box<dyn Any + Send>;

impl Bucket {
    /// An empty bucket that begins now. `stamp` is in microseconds.
    pub(crate) fn new(stamp: u64, now_ms: u64, time_to_live: Option<TimeToLive>) -> Self {
        Self {
            generation: format_generation(stamp),
            expiry: Expiry::new(time_to_live, now_ms),
            created_at: now_ms,
            latest: now_ms,
            values: BucketMap::EMPTY,
            maps: BTreeMap::new(),
            logs: BTreeMap::new(),
            indexes: BTreeMap::new(),
            leases: LeaseTable::default(),
            cost: 0,
            removed: Vec::new(),
        }
    }

    /// The time for this bucket, where a clock shows this one: never earlier than it was.
    pub(crate) fn advance_time(&mut self, clock_ms: u64) -> u64 {
        self.latest = self.latest.max(clock_ms);
        self.latest
    }

    /// Bytes in use.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// What was removed as a whole since this was last asked, to be freed off the callers' path.
    pub(crate) fn take_removed(&mut self) -> Vec<Removed> {
        std::mem::take(&mut self.removed)
    }

    /// Drops the leases that have run out. Returns how many bytes that frees.
    pub(crate) fn drop_outdated_leases(&mut self, now_ms: u64) -> u64 {
        let freed = self.leases.drop_outdated(now_ms);
        self.cost = self.cost.saturating_sub(freed);
        freed
    }

    /// The reply to its deletion.
    pub(crate) fn deletion_reply(&self, now: u64, max_keys: u32) -> Deletion {
        let most = MAX_NAMES.min(max_keys.into());
        Deletion { status: Status::Applied, now, values: self.values.len(), keys: self.values.keys(most) }
    }

    fn map(&self, name: &str) -> &BucketMap {
        if name == VALUES { &self.values } else { self.maps.get(name).unwrap_or(&NO_MAP) }
    }

    fn log(&self, name: &str) -> &BucketLog {
        self.logs.get(name).unwrap_or(&NO_LOG)
    }

    fn index(&self, name: &str) -> &BucketIndex {
        self.indexes.get(name).unwrap_or(&NO_INDEX)
    }

    fn describe(&self, now_ms: u64, parts: bool) -> Description {
        Description {
            time_to_live: self.expiry.time_to_live,
            created_at: self.created_at,
            expires_in: self.expiry.remaining_ms(now_ms),
            values: self.values.len(),
            parts: if parts { self.parts() } else { Vec::new() },
        }
    }

    /// Sorted by kind and name.
    fn parts(&self) -> Vec<BucketPart> {
        let part = |kind: &str, name: &str, position, count, bytes| BucketPart {
            kind: kind.to_owned(),
            name: name.to_owned(),
            position,
            count,
            bytes,
        };
        let indexes = self.indexes.iter().map(|(name, index)| {
            let extent = index.extent();
            part(part::INDEX, name, extent.next, extent.documents, estimate_bytes(&extent))
        });
        let logs = self.logs.iter().map(|(name, log)| {
            let extent = log.extent();
            part(part::LOG, name, extent.first, extent.length, 0)
        });
        let maps = self.maps.iter().map(|(name, map)| part(part::MAP, name, 0, map.len(), 0));
        indexes.chain(logs).chain(maps).collect()
    }

    /// The cost, counted again from what is there.
    #[cfg(test)]
    pub(crate) fn counted_cost(&self) -> u64 {
        let maps: u64 = self.maps.iter().map(|(name, map)| maps::map_cost(name) + map.counted_cost()).sum();
        let logs: u64 = self.logs.iter().map(|(name, log)| logs::log_cost(name) + log.counted_cost()).sum();
        let indexes: u64 = self.indexes.iter().map(|(name, index)| index.counted_cost(name)).sum();
        self.values.counted_cost() + maps + logs + indexes + self.leases.counted_cost()
    }
}

/// The name of a life that began at this instant, in microseconds.
pub(crate) fn format_generation(stamp: u64) -> CompactString {
    format_compact!("{}.{:06}", stamp / 1_000_000, stamp % 1_000_000)
}

/// What can't be addressed is more than there is.
fn saturating_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
