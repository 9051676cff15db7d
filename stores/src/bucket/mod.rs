//! What a bucket is and what each rule of the contract makes of it, as plain data and plain functions: for stores
//! within this process.
//!
//! Nothing here waits, locks, reads a clock or knows of other buckets: a store says what time it is, and in what
//! order things happen. A transaction goes through [`open`], [`Bucket::unmet`] and [`Bucket::probe`], which change
//! nothing, and then through [`Bucket::apply`], which can't fail.

mod apply;
mod counter;
mod expectations;
mod expiry;
mod leases;
mod logs;
mod maps;
mod opening;
mod probe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use compact_str::{CompactString, format_compact};

pub(crate) use self::{
    expiry::Expiry,
    opening::{Found, Step, open, renews},
};
use self::{leases::Leases, logs::Log, maps::Map};
use crate::{
    Deletion, Description, LogDescription, LogExtent, MapDescription, Status, TimeToLive, names::VALUES, request,
};

/// Where a log stands that is not there.
const NOWHERE: LogExtent = LogExtent { first: 0, length: 0 };

/// A bucket from its creation to its end.
///
/// Short texts are where they are used, not behind a pointer: of many buckets few are in the CPU's cache, and each
/// place in memory that a transaction goes to then costs as much as a tenth of its logic.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// When it was created; no other life has the same.
    pub(crate) incarnation: CompactString,
    pub(crate) expiry: Expiry,
    /// The latest time that anybody was told, in milliseconds.
    latest: u64,
    values: Map,
    /// The other maps, none of them empty.
    maps: BTreeMap<CompactString, Map>,
    /// A log that was emptied stays, because its positions go on.
    logs: BTreeMap<CompactString, Log>,
    leases: Leases,
    /// Bytes of all that it holds, each with a fixed sum for what the data structures take.
    cost: u64,
}

impl Bucket {
    /// An empty bucket that begins now. `stamp` is in microseconds.
    pub(crate) fn new(stamp: u64, now_ms: u64, time_to_live: Option<TimeToLive>) -> Self {
        Self {
            incarnation: format_compact!("{}.{:06}", stamp / 1_000_000, stamp % 1_000_000),
            expiry: Expiry::new(time_to_live, now_ms),
            latest: now_ms,
            values: Map::default(),
            maps: BTreeMap::new(),
            logs: BTreeMap::new(),
            leases: Leases::default(),
            cost: 0,
        }
    }

    /// The time for this bucket, where a clock shows this one: never earlier than it was.
    pub(crate) fn time(&mut self, clock_ms: u64) -> u64 {
        self.latest = self.latest.max(clock_ms);
        self.latest
    }

    /// Bytes in use.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Drop the leases that have run out, which nobody can see any more. Returns how many bytes that frees.
    pub(crate) fn drop_outdated_leases(&mut self, now_ms: u64) -> u64 {
        let freed = self.leases.drop_outdated(now_ms);
        self.cost = self.cost.saturating_sub(freed);
        freed
    }

    /// What whoever deletes it is told.
    pub(crate) fn deletion(&self, now: u64, max_keys: u32) -> Deletion {
        let most = request::MAX_NAMES.min(max_keys.into());
        Deletion { status: Status::Applied, now, values: self.values.len(), keys: self.values.keys(most) }
    }

    fn map(&self, name: &str) -> Option<&Map> {
        if name == VALUES { Some(&self.values) } else { self.maps.get(name) }
    }

    fn entry(&self, map: &str, key: &str) -> Option<&CompactString> {
        self.map(map)?.get(key)
    }

    fn extent(&self, log: &str) -> LogExtent {
        self.logs.get(log).map_or(NOWHERE, Log::extent)
    }

    fn describe(&self, now_ms: u64, parts: bool) -> Description {
        let (mut maps, mut logs) = (Vec::new(), Vec::new());
        if parts {
            maps.extend(
                self.maps.iter().map(|(name, map)| MapDescription { map_name: name.to_string(), entries: map.len() }),
            );
            logs.extend(
                self.logs.iter().map(|(name, log)| LogDescription { log: name.to_string(), extent: log.extent() }),
            );
        }
        Description {
            time_to_live: self.expiry.time_to_live,
            expires_in: self.expiry.left(now_ms),
            values: self.values.len(),
            maps,
            logs,
            indexes: Vec::new(),
        }
    }

    /// The cost, counted anew from what is there.
    #[cfg(test)]
    pub(crate) fn counted_cost(&self) -> u64 {
        let maps: u64 = self.maps.iter().map(|(name, map)| maps::map_cost(name) + map.counted_cost()).sum();
        let logs: u64 = self.logs.iter().map(|(name, log)| logs::log_cost(name) + log.cost()).sum();
        self.values.counted_cost() + maps + logs + self.leases.counted_cost()
    }
}

/// What can't be addressed is more than there is.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
