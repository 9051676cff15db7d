//! Checks expectations: conditions that a transaction requires to be applied.

use std::{cell::LazyCell, collections::HashMap, convert::Infallible};

use super::Bucket;
use crate::{EntryState, Expectation, ExpectedEntry, ExpectedLog, ExpectedRoom, IndexedTransaction, LogExtent};

/// What a bucket holds, as far as expectations ask, wherever it is kept.
pub(crate) trait BucketContents {
    type Error;

    /// Whether an entry has this text; none: it is not there.
    fn entry_equals(&self, map: &str, key: &str, text: &str) -> Result<Option<bool>, Self::Error>;

    /// Whether an entry is there.
    fn contains_entry(&self, map: &str, key: &str) -> Result<bool, Self::Error>;

    /// How many entries a map has.
    fn count_entries(&self, map: &str) -> Result<u64, Self::Error>;

    /// Where a log stands.
    fn log_extent(&self, log: &str) -> Result<LogExtent, Self::Error>;
}

/// The index of the first expectation that does not hold.
pub(crate) fn find_unmet_expectation<C: BucketContents>(
    contents: &C,
    request: &IndexedTransaction,
) -> Result<Option<u32>, C::Error> {
    // Both once for all maps, so that the work is bounded however many expectations speak of room.
    let entries_set = LazyCell::new(|| request.set_entries().count() as u64);
    let mut created = None;
    for (place, expectation) in (0..).zip(&request.transaction.expectations) {
        let holds = match expectation {
            Expectation::Entry(expected) => meets_entry(contents, expected)?,
            Expectation::Log(expected) => meets_log(contents, expected)?,
            Expectation::Room(ExpectedRoom { map_name, limit }) => {
                let entries = contents.count_entries(map_name)?;
                // If there is room for all entries that are set, none of them need be looked up.
                entries.saturating_add(*entries_set) <= *limit || {
                    let created = match &mut created {
                        Some(created) => created,
                        none => none.insert(count_created(contents, request)?),
                    };
                    created.get(&**map_name).is_none_or(|created: &u64| entries.saturating_add(*created) <= *limit)
                }
            }
        };
        if !holds {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// How many entries the transaction creates in each map.
fn count_created<'a, C: BucketContents>(
    contents: &C,
    request: &'a IndexedTransaction,
) -> Result<HashMap<&'a str, u64>, C::Error> {
    let mut created = HashMap::new();
    for (map, key) in request.set_entries() {
        if !contents.contains_entry(map, key)? {
            *created.entry(map).or_default() += 1;
        }
    }
    Ok(created)
}

fn meets_entry<C: BucketContents>(contents: &C, expected: &ExpectedEntry) -> Result<bool, C::Error> {
    let ExpectedEntry { map_name, key, state, text } = expected;
    Ok(match state {
        EntryState::Absent => !contents.contains_entry(map_name, key)?,
        EntryState::Present => contents.contains_entry(map_name, key)?,
        EntryState::Equal => contents.entry_equals(map_name, key, text)? == Some(true),
        EntryState::AbsentOrEqual => contents.entry_equals(map_name, key, text)? != Some(false),
    })
}

fn meets_log<C: BucketContents>(contents: &C, expected: &ExpectedLog) -> Result<bool, C::Error> {
    let extent = contents.log_extent(&expected.log)?;
    Ok(expected.first.is_none_or(|first| first == extent.first)
        && expected.next.is_none_or(|next| next == extent.first.saturating_add(extent.length)))
}

impl Bucket {
    /// The index of the first expectation that does not hold.
    pub(crate) fn find_unmet_expectation(&self, request: &IndexedTransaction) -> Option<u32> {
        let Ok(unmet) = find_unmet_expectation(self, request);
        unmet
    }
}

impl BucketContents for Bucket {
    type Error = Infallible;

    fn entry_equals(&self, map: &str, key: &str, text: &str) -> Result<Option<bool>, Infallible> {
        Ok(self.map(map).get(key).map(|found| found == text))
    }

    fn contains_entry(&self, map: &str, key: &str) -> Result<bool, Infallible> {
        Ok(self.map(map).get(key).is_some())
    }

    fn count_entries(&self, map: &str) -> Result<u64, Infallible> {
        Ok(self.map(map).len())
    }

    fn log_extent(&self, log: &str) -> Result<LogExtent, Infallible> {
        Ok(self.log(log).extent())
    }
}
