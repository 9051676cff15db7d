//! Checks expectations: conditions that a transaction requires to be applied.

use std::{collections::HashMap, convert::Infallible};

use super::{Bucket, maps::BucketMap};
use crate::{EntryState, Expectation, ExpectedEntry, ExpectedLog, ExpectedRoom, LogExtent, Operation};

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
    expectations: &[Expectation],
    operations: &[Operation],
) -> Result<Option<u32>, C::Error> {
    let mut created = Creations::default();
    for (place, expectation) in expectations.iter().enumerate() {
        let holds = match expectation {
            Expectation::Entry(expected) => meets_entry(contents, expected)?,
            Expectation::Log(expected) => meets_log(contents, expected)?,
            Expectation::Room(expected) => {
                let entries = contents.count_entries(&expected.map_name)?;
                // If there is room for an entry of each operation, none of them need be looked up.
                entries.saturating_add(created.most(operations)) <= expected.limit
                    || match created.count_created_in_map(contents, expected, operations)? {
                        0 => true,
                        created => entries.saturating_add(created) <= expected.limit,
                    }
            }
        };
        if !holds {
            return Ok(Some(u32::try_from(place).unwrap_or(u32::MAX)));
        }
    }
    Ok(None)
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
    pub(crate) fn find_unmet_expectation(&self, expectations: &[Expectation], operations: &[Operation]) -> Option<u32> {
        let Ok(unmet) = find_unmet_expectation(self, expectations, operations);
        unmet
    }
}

impl BucketContents for Bucket {
    type Error = Infallible;

    fn entry_equals(&self, map: &str, key: &str, text: &str) -> Result<Option<bool>, Infallible> {
        Ok(self.find_entry(map, key).map(|found| found == text))
    }

    fn contains_entry(&self, map: &str, key: &str) -> Result<bool, Infallible> {
        Ok(self.find_entry(map, key).is_some())
    }

    fn count_entries(&self, map: &str) -> Result<u64, Infallible> {
        Ok(self.find_map(map).map_or(0, BucketMap::len))
    }

    fn log_extent(&self, log: &str) -> Result<LogExtent, Infallible> {
        Ok(Bucket::log_extent(self, log))
    }
}

/// How many entries the operations create in a map. The first time this is asked, for one map; after that for all
/// at once, so that the work is bounded however many expectations speak of room.
#[derive(Default)]
struct Creations<'a> {
    asked: u32,
    /// If each operation creates an entry.
    most: Option<u64>,
    by_map: Option<HashMap<&'a str, u64>>,
}

impl<'a> Creations<'a> {
    fn most(&mut self, operations: &[Operation]) -> u64 {
        *self.most.get_or_insert_with(|| most_entries(operations))
    }

    fn count_created_in_map<C: BucketContents>(
        &mut self,
        contents: &C,
        expected: &ExpectedRoom,
        operations: &'a [Operation],
    ) -> Result<u64, C::Error> {
        self.asked = self.asked.saturating_add(1);
        if self.asked == 1 {
            let mut count = 0;
            each_entry(operations, |map, key| {
                count += u64::from(map == expected.map_name && !contents.contains_entry(map, key)?);
                Ok(())
            })?;
            return Ok(count);
        }
        let by_map = match &mut self.by_map {
            Some(by_map) => by_map,
            none => {
                let mut by_map = HashMap::new();
                each_entry(operations, |map, key| {
                    if !contents.contains_entry(map, key)? {
                        *by_map.entry(map).or_default() += 1;
                    }
                    Ok(())
                })?;
                none.insert(by_map)
            }
        };
        Ok(by_map.get(&*expected.map_name).copied().unwrap_or(0))
    }
}

/// How many entries the operations set, in all maps.
fn most_entries(operations: &[Operation]) -> u64 {
    let set = operations.iter().filter_map(Operation::describe_writes).map(|writes| writes.entries.count());
    set.sum::<usize>() as u64
}

/// All the entries that the operations set.
fn each_entry<'a, E>(
    operations: &'a [Operation],
    mut see: impl FnMut(&'a str, &'a str) -> Result<(), E>,
) -> Result<(), E> {
    operations.iter().filter_map(Operation::describe_writes).try_for_each(|writes| writes.entries.try_each(&mut see))
}
