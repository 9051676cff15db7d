//! Expectations: what must hold, before a transaction, for it to be applied.

use std::collections::HashMap;

use super::{Bucket, maps::Map};
use crate::{EntryState, Expectation, ExpectedEntry, ExpectedLog, ExpectedRoom, Operation};

impl Bucket {
    /// The index of the first expectation that does not hold.
    pub(crate) fn unmet(&self, expectations: &[Expectation], operations: &[Operation]) -> Option<u32> {
        let mut created = Creations { asked: 0, by_map: None };
        let unmet = expectations.iter().position(|expectation| !match expectation {
            Expectation::Entry(expected) => self.meets_entry(expected),
            Expectation::Log(expected) => self.meets_log(expected),
            Expectation::Room(expected) => {
                self.has_room_for_all(expected, operations)
                    || self.meets_room(expected, created.of(self, expected, operations))
            }
        })?;
        Some(u32::try_from(unmet).unwrap_or(u32::MAX))
    }

    fn meets_entry(&self, expected: &ExpectedEntry) -> bool {
        let found = self.entry(&expected.map_name, &expected.key);
        match expected.state {
            EntryState::Absent => found.is_none(),
            EntryState::Present => found.is_some(),
            EntryState::Equal => found.is_some_and(|text| *text == *expected.text),
            EntryState::AbsentOrEqual => found.is_none_or(|text| *text == *expected.text),
        }
    }

    fn meets_log(&self, expected: &ExpectedLog) -> bool {
        let extent = self.extent(&expected.log);
        expected.first.is_none_or(|first| first == extent.first)
            && expected.next.is_none_or(|next| next == extent.first.saturating_add(extent.length))
    }

    /// Whether there is room even if each operation creates an entry: then none of them need be looked up.
    fn has_room_for_all(&self, expected: &ExpectedRoom, operations: &[Operation]) -> bool {
        let entries = self.map(&expected.map_name).map_or(0, Map::len);
        entries.saturating_add(most_entries(operations)) <= expected.limit
    }

    fn meets_room(&self, expected: &ExpectedRoom, created: u64) -> bool {
        let entries = self.map(&expected.map_name).map_or(0, |map| map.len());
        created == 0 || entries.saturating_add(created) <= expected.limit
    }

    /// Whether an entry is not there yet.
    fn lacks(&self, map: &str, key: &str) -> bool {
        self.entry(map, key).is_none()
    }
}

/// How many entries the operations create in a map. The first time this is asked, for one map; after that for all
/// at once, so that the work is bounded however many expectations speak of room.
struct Creations<'a> {
    asked: u32,
    by_map: Option<HashMap<&'a str, u64>>,
}

impl<'a> Creations<'a> {
    fn of(&mut self, bucket: &Bucket, expected: &ExpectedRoom, operations: &'a [Operation]) -> u64 {
        self.asked = self.asked.saturating_add(1);
        if self.asked == 1 {
            let mut count = 0;
            each_entry(operations, |map, key| count += u64::from(map == expected.map_name && bucket.lacks(map, key)));
            return count;
        }
        let by_map = self.by_map.get_or_insert_with(|| {
            let mut by_map = HashMap::new();
            each_entry(operations, |map, key| {
                if bucket.lacks(map, key) {
                    *by_map.entry(map).or_default() += 1;
                }
            });
            by_map
        });
        by_map.get(&*expected.map_name).copied().unwrap_or(0)
    }
}

/// How many entries the operations set, in all maps.
fn most_entries(operations: &[Operation]) -> u64 {
    let entries = |operation: &Operation| match operation {
        Operation::Put(put) => put.entries.len(),
        Operation::ResetMap(reset) => reset.entries.len(),
        Operation::Increment(_) => 1,
        Operation::Append(append) => append.marks.len(),
        Operation::ResetLog(reset) => reset.marks.len(),
        _ => 0,
    };
    operations.iter().map(entries).sum::<usize>() as u64
}

/// All the entries that the operations set.
fn each_entry<'a>(operations: &'a [Operation], mut see: impl FnMut(&'a str, &'a str)) {
    for operation in operations {
        match operation {
            Operation::Put(put) => put.entries.iter().for_each(|entry| see(&put.map_name, &entry.key)),
            Operation::ResetMap(reset) => reset.entries.iter().for_each(|entry| see(&reset.map_name, &entry.key)),
            Operation::Increment(increment) => see(&increment.map_name, &increment.key),
            Operation::Append(append) => append.marks.iter().for_each(|mark| see(&mark.map_name, &mark.key)),
            Operation::ResetLog(reset) => reset.marks.iter().for_each(|mark| see(&mark.map_name, &mark.key)),
            _ => {}
        }
    }
}
