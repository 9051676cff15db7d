//! Applies a transaction's operations to a bucket's contents and answers them. What they need is read first, all at once.
//!
//! Nothing is checked before the first write: a transaction that can't be applied writes no head, and so has not happened.

use super::{
    Fault,
    contents::{Contents, entry_key, map_range, record_key, record_range},
    logs::{READ_FIRST, next, readable},
    tree::KeyRange,
};
use crate::{
    CounterValue, EntryState, Expectation, IndexedTransaction, Operation, Outcome, ReadAtOperation, ReadOperation,
    bucket::{Answers, add_to_counter},
};

/// The longest counter, -2^63, has as many.
const COUNTER_BYTES: u64 = 20;

impl Contents<'_> {
    /// Reads what a transaction is known to need.
    pub(super) fn prefetch(&self, indexed: &IndexedTransaction) -> Result<(), Fault> {
        let mut ranges = Vec::new();
        for expectation in &indexed.transaction.expectations {
            if let Expectation::Entry(expected) = expectation
                && (self.map(&expected.map_name).entries > 0 || expected.state != EntryState::Present)
            {
                ranges.push(KeyRange::only(&entry_key(&expected.map_name, &expected.key)));
            }
        }
        for operation in &indexed.transaction.operations {
            self.find_ranges(operation, &mut ranges);
        }
        self.tree.borrow_mut().load(&ranges)
    }

    fn find_ranges(&self, operation: &Operation, ranges: &mut Vec<KeyRange>) {
        let entry = |map: &str, key: &str| KeyRange::only(&entry_key(map, key));
        match operation {
            Operation::Get(get) => ranges.extend(get.keys.iter().map(|key| entry(&get.map_name, key))),
            Operation::GetAll(all) => {
                let map = self.map(&all.map_name);
                if all.cursor.is_none() && map.entries <= all.max_entries && map.bytes <= all.max_bytes {
                    ranges.push(map_range(&all.map_name));
                }
            }
            Operation::Set(set) if set.reset => {}
            Operation::Set(set) => {
                let keys = set.remove.iter().chain(set.put.iter().map(|entry| &entry.key));
                ranges.extend(keys.map(|key| entry(&set.map_name, key)));
            }
            Operation::Add(add) => ranges.push(entry(&add.map_name, &add.key)),
            Operation::Append(append) => {
                if !append.records.is_empty() {
                    ranges.push(KeyRange::only(&record_key(&append.log, next(self.log(&append.log)))));
                }
                ranges.extend(append.marks.iter().map(|mark| entry(&mark.map_name, &mark.key)));
            }
            Operation::Read(read) => ranges.extend(self.first_read(read)),
            Operation::ReadAt(read) => ranges.extend(self.first_spans(read)),
            Operation::ReplaceOldest(replace) => {
                let first = self.log(&replace.log).first;
                ranges.extend(replace.records.first().map(|_| KeyRange::only(&record_key(&replace.log, first))));
            }
            Operation::Rewrite(rewrite) => {
                let record = |position| KeyRange::only(&record_key(&rewrite.log, position));
                ranges.extend(rewrite.records.iter().map(|one| record(one.position)));
            }
            Operation::Describe(_) => {}
        }
    }

    fn first_read(&self, read: &ReadOperation) -> Option<KeyRange> {
        let log = self.log(&read.log);
        let count = readable(log, read);
        let first = count.min(read.max_records).min(READ_FIRST);
        let start = if read.newest { count.saturating_sub(first) } else { 0 };
        let from = log.first.saturating_add(start);
        (first > 0).then(|| record_range(&read.log, from, from.saturating_add(first)))
    }

    fn first_spans<'o>(&self, read: &'o ReadAtOperation) -> impl Iterator<Item = KeyRange> + 'o {
        let log = self.log(&read.log);
        read.spans.iter().filter_map(move |span| {
            let from = span.position.max(log.first);
            let to =
                span.position.saturating_add(span.count.into()).min(next(log)).min(from.saturating_add(READ_FIRST));
            (from < to).then(|| record_range(&read.log, from, to))
        })
    }

    /// Apply a transaction in order.
    pub(super) fn apply(&self, indexed: &IndexedTransaction) -> Result<Answers, Fault> {
        // The store has neither leases nor indexes: whoever asks for them has been refused.
        let IndexedTransaction { lease: _, transaction, steps: _ } = indexed;
        let outcomes = transaction.operations.iter().map(|operation| self.apply_operation(operation));
        Ok(Answers { lease: None, outcomes: outcomes.collect::<Result<_, _>>()?, found: Vec::new() })
    }

    fn apply_operation(&self, operation: &Operation) -> Result<Outcome, Fault> {
        Ok(match operation {
            Operation::Get(get) => Outcome::Entries(self.read_entries(get)?),
            Operation::GetAll(all) => Outcome::Entries(self.read_map(all)?),
            Operation::Set(set) => Outcome::Changed(self.set(set)?),
            Operation::Add(add) => {
                let found = self.entry(&add.map_name, &add.key)?;
                // A longer one is no counter, and neither is an empty text.
                let text = found.map(|text| {
                    if text.bytes() > COUNTER_BYTES { String::new() } else { self.tree.borrow().read_text(text) }
                });
                let value = add_to_counter(text.as_deref(), add)?;
                self.set_entry(&add.map_name, &add.key, &value.to_string())?;
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(append) => {
                self.append(append)?;
                Outcome::Extent(self.log(&append.log))
            }
            Operation::ReplaceOldest(replace) => {
                self.replace_oldest(replace)?;
                Outcome::Extent(self.log(&replace.log))
            }
            Operation::Rewrite(rewrite) => {
                self.rewrite(rewrite)?;
                Outcome::Extent(self.log(&rewrite.log))
            }
            Operation::Read(read) => self.read_records(read)?,
            Operation::ReadAt(read) => Outcome::Records(self.read_at(read)?),
            Operation::Describe(describe) => Outcome::Described(self.describe(describe.parts)),
        })
    }
}
