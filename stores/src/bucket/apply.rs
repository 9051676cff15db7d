//! Applies each operation to a bucket, and answers it.

use compact_str::ToCompactString;

use super::{Bucket, counter, logs::BucketLog, maps::BucketMap, room::TransactionBudget};
use crate::{CounterValue, Entry, EntryCount, Operation, Outcome, PositionMark, names::VALUES};

impl Bucket {
    /// Apply operations that can be applied, as [`probe`](Self::probe) found, and by which the bucket grows as much as
    /// it said.
    pub(crate) fn apply_operations(&mut self, operations: &[Operation], growth: i64, now_ms: u64) -> Vec<Outcome> {
        self.cost = self.cost.saturating_add_signed(growth);
        let mut room = TransactionBudget::new();
        operations.iter().map(|operation| self.apply_one(operation, now_ms, &mut room)).collect()
    }

    /// Answer operations that were applied before.
    pub(crate) fn answer_operations(&self, operations: &[Operation], now_ms: u64) -> Vec<Outcome> {
        let mut room = TransactionBudget::new();
        operations.iter().map(|operation| self.answer_operation(operation, now_ms, &mut room)).collect()
    }

    fn apply_one(&mut self, operation: &Operation, now_ms: u64, room: &mut TransactionBudget) -> Outcome {
        match operation {
            Operation::Put(put) => return changed_outcome(self.set_all(&put.map_name, &put.entries)),
            Operation::Increment(increment) => {
                let text = self.map(&increment.map_name).get(&increment.key).map(|text| &**text);
                // Probed before, so this is always a number.
                let value = counter::increment_counter(text, increment).unwrap_or_default();
                self.map_to_write(&increment.map_name).set(&increment.key, &value.to_compact_string());
                return Outcome::Counter(CounterValue { value });
            }
            Operation::Remove(remove) => return changed_outcome(self.remove(&remove.map_name, &remove.keys)),
            Operation::ResetMap(reset) => return changed_outcome(self.reset_map(&reset.map_name, &reset.entries)),
            Operation::Append(append) if append.records.is_empty() => {}
            Operation::Append(append) => {
                let log = self.log_to_write(&append.log);
                let first = log.next();
                log.append(&append.records);
                let extent = log.extent();
                self.write_position_marks(first, &append.marks);
                return Outcome::Extent(extent);
            }
            Operation::ResetLog(reset) => {
                if !reset.records.is_empty() || self.logs.contains_key(&*reset.log) {
                    let log = self.log_to_write(&reset.log);
                    let first = log.next();
                    let before = log.reset(&reset.records);
                    self.removed.push(Box::new(before));
                    self.write_position_marks(first, &reset.marks);
                }
            }
            Operation::ReplaceOldest(replace) => {
                if let Some(log) = self.logs.get_mut(&*replace.log) {
                    log.replace_oldest(log.count_replaceable(replace.count), &replace.records);
                }
            }
            Operation::Rewrite(rewrite) => {
                if let Some(log) = self.logs.get_mut(&*rewrite.log) {
                    log.rewrite(&rewrite.records);
                }
            }
            Operation::Lease(lease) => self.leases.apply(lease, now_ms),
            Operation::Post(post) => {
                if !post.documents.is_empty() {
                    self.indexes.entry(post.index.as_str().into()).or_default().post_documents(post);
                }
            }
            Operation::Unpost(unpost) => {
                if let Some(index) = self.indexes.get_mut(&*unpost.index) {
                    index.unpost_documents(unpost);
                }
            }
            Operation::Get(_)
            | Operation::GetAll(_)
            | Operation::Page(_)
            | Operation::Read(_)
            | Operation::ReadAt(_)
            | Operation::Overflow(_)
            | Operation::Match(_)
            | Operation::Describe(_) => {}
        }
        self.answer_operation(operation, now_ms, room)
    }

    /// Answer an operation from what is there and write nothing: for one that reads, its whole work.
    fn answer_operation(&self, operation: &Operation, now_ms: u64, room: &mut TransactionBudget) -> Outcome {
        match operation {
            Operation::Get(get) => self.map(&get.map_name).read_entries(&get.keys, get.max_bytes, room),
            Operation::GetAll(all) => self.map(&all.map_name).read_all_entries(all.max_entries, all.max_bytes, room),
            Operation::Page(page) => Outcome::Page(self.map(&page.map_name).page(page, room)),
            Operation::Put(_) | Operation::Remove(_) | Operation::ResetMap(_) => changed_outcome(0),
            Operation::Increment(increment) => {
                let text = self.map(&increment.map_name).get(&increment.key);
                let value = text.and_then(|text| counter::parse_counter(text)).unwrap_or_default();
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(append) => Outcome::Extent(self.log(&append.log).extent()),
            Operation::ReplaceOldest(replace) => Outcome::Extent(self.log(&replace.log).extent()),
            Operation::Rewrite(rewrite) => Outcome::Extent(self.log(&rewrite.log).extent()),
            Operation::ResetLog(reset) => Outcome::Extent(self.log(&reset.log).extent()),
            Operation::Read(read) => Outcome::Records(self.log(&read.log).read_records(read, room)),
            Operation::Overflow(overflow) => {
                let log = self.log(&overflow.log);
                log.read_overflow(overflow, room).map_or_else(|| Outcome::Extent(log.extent()), Outcome::Records)
            }
            Operation::ReadAt(read) => Outcome::Spans(self.log(&read.log).read_at(read, room)),
            Operation::Lease(lease) => Outcome::Lease(self.leases.state(&lease.lease, &lease.holder, now_ms)),
            Operation::Describe(describe) => Outcome::Described(self.describe(now_ms, describe.parts)),
            Operation::Post(post) => Outcome::Indexed(self.index(&post.index).extent()),
            Operation::Unpost(unpost) => Outcome::Indexed(self.index(&unpost.index).extent()),
            Operation::Match(step) => Outcome::Matches(self.index(&step.index).find_matches(step)),
        }
    }

    /// Set entries and tell how many are new.
    fn set_all(&mut self, map: &str, entries: &[Entry]) -> u64 {
        if entries.is_empty() {
            return 0;
        }
        let map = self.map_to_write(map);
        entries.iter().filter(|entry| map.set(&entry.key, &entry.text)).count() as u64
    }

    /// Remove entries and tell how many there were.
    fn remove(&mut self, name: &str, keys: &[String]) -> u64 {
        let Some(map) = self.map_mut(name) else { return 0 };
        let removed = keys.iter().filter(|key| map.remove(key)).count();
        if map.is_empty() {
            self.maps.remove(name);
        }
        removed as u64
    }

    /// Remove all entries, then set these. Tells how many there were.
    fn reset_map(&mut self, name: &str, entries: &[Entry]) -> u64 {
        let before = self.map_mut(name).map(std::mem::take);
        self.set_all(name, entries);
        if entries.is_empty() {
            self.maps.remove(name);
        }
        let Some(before) = before else { return 0 };
        let count = before.len();
        self.removed.push(Box::new(before));
        count
    }

    fn write_position_marks(&mut self, first: u64, marks: &[PositionMark]) {
        for mark in marks {
            let position = first.saturating_add(mark.record_index.into());
            self.map_to_write(&mark.map_name).set(&mark.key, &position.to_compact_string());
        }
    }

    fn map_mut(&mut self, name: &str) -> Option<&mut BucketMap> {
        if name == VALUES { Some(&mut self.values) } else { self.maps.get_mut(name) }
    }

    /// The map, there from now on.
    fn map_to_write(&mut self, name: &str) -> &mut BucketMap {
        if name == VALUES { &mut self.values } else { self.maps.entry(name.into()).or_default() }
    }

    /// The log, there from now on.
    fn log_to_write(&mut self, name: &str) -> &mut BucketLog {
        self.logs.entry(name.into()).or_default()
    }
}

fn changed_outcome(count: u64) -> Outcome {
    Outcome::Changed(EntryCount { count })
}
