//! What each operation does to a bucket, and how it is answered.

use compact_str::ToCompactString;

use super::{Bucket, NOWHERE, counter, logs::Log, maps::Map};
use crate::{
    CounterValue, Entry, EntryCount, EntryPage, FoundEntries, FoundMatches, IndexExtent, LogRecords, LogSpans,
    Operation, Outcome, PositionMark, TermMatches, names::VALUES,
};

impl Bucket {
    /// Apply operations that can be applied, as [`probe`](Self::probe) found, and by which the bucket grows as much as
    /// it said.
    pub(crate) fn apply(&mut self, operations: &[Operation], growth: i64, now_ms: u64) -> Vec<Outcome> {
        self.cost = self.cost.saturating_add_signed(growth);
        operations.iter().map(|operation| self.apply_one(operation, now_ms)).collect()
    }

    /// Answer operations that were applied before.
    pub(crate) fn repeat(&self, operations: &[Operation], now_ms: u64) -> Vec<Outcome> {
        operations.iter().map(|operation| self.answer(operation, now_ms)).collect()
    }

    fn apply_one(&mut self, operation: &Operation, now_ms: u64) -> Outcome {
        match operation {
            Operation::Put(put) => changed(self.set_all(&put.map_name, &put.entries)),
            Operation::Increment(increment) => {
                let text = self.entry(&increment.map_name, &increment.key).map(|text| &**text);
                // Probed before, so this is always a number.
                let value = counter::counted(text, increment).unwrap_or_default();
                self.map_to_write(&increment.map_name).set(&increment.key, &value.to_compact_string());
                Outcome::Counter(CounterValue { value })
            }
            Operation::Remove(remove) => {
                let Some(map) = self.map_mut(&remove.map_name) else { return changed(0) };
                let removed = remove.keys.iter().filter(|key| map.remove(key)).count();
                if map.is_empty() {
                    self.maps.remove(&*remove.map_name);
                }
                changed(removed as u64)
            }
            Operation::ResetMap(reset) => {
                let before = self.map_mut(&reset.map_name).map(std::mem::take);
                self.set_all(&reset.map_name, &reset.entries);
                if reset.entries.is_empty() {
                    self.maps.remove(&*reset.map_name);
                }
                changed(before.map_or(0, |map| map.len()))
            }
            Operation::Append(append) => {
                if append.records.is_empty() {
                    return self.answer(operation, now_ms);
                }
                let log = self.log_to_write(&append.log);
                let first = log.next();
                log.append(&append.records);
                let extent = log.extent();
                self.mark(first, &append.marks);
                Outcome::Extent(extent)
            }
            Operation::ResetLog(reset) => {
                if !reset.records.is_empty() || self.logs.contains_key(&*reset.log) {
                    let log = self.log_to_write(&reset.log);
                    let first = log.next();
                    log.reset(&reset.records);
                    self.mark(first, &reset.marks);
                }
                self.answer(operation, now_ms)
            }
            Operation::ReplaceOldest(replace) => {
                if let Some(log) = self.logs.get_mut(&*replace.log) {
                    log.replace_oldest(log.surplus(0, replace.count), &replace.records);
                }
                self.answer(operation, now_ms)
            }
            Operation::Rewrite(rewrite) => {
                if let Some(log) = self.logs.get_mut(&*rewrite.log) {
                    log.rewrite(&rewrite.records);
                }
                self.answer(operation, now_ms)
            }
            Operation::Lease(lease) => {
                self.leases.apply(lease, now_ms);
                self.answer(operation, now_ms)
            }
            _ => self.answer(operation, now_ms),
        }
    }

    /// Answer an operation from what is there and write nothing: for one that reads, its whole work.
    fn answer(&self, operation: &Operation, now_ms: u64) -> Outcome {
        match operation {
            Operation::Get(get) => {
                self.map(&get.map_name).map_or_else(no_entries, |map| map.some(&get.keys, get.max_bytes))
            }
            Operation::GetAll(all) => {
                self.map(&all.map_name).map_or_else(no_entries, |map| map.all(all.max_entries, all.max_bytes))
            }
            Operation::Page(page) => Outcome::Page(match self.map(&page.map_name) {
                Some(map) => map.page(page),
                None => EntryPage { entries: Vec::new(), unreadable: Vec::new(), cursor: String::new() },
            }),
            Operation::Put(_) | Operation::Remove(_) | Operation::ResetMap(_) => changed(0),
            Operation::Increment(increment) => {
                let text = self.entry(&increment.map_name, &increment.key);
                let value = text.and_then(|text| counter::integer(text)).unwrap_or_default();
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(append) => Outcome::Extent(self.extent(&append.log)),
            Operation::ReplaceOldest(replace) => Outcome::Extent(self.extent(&replace.log)),
            Operation::Rewrite(rewrite) => Outcome::Extent(self.extent(&rewrite.log)),
            Operation::ResetLog(reset) => Outcome::Extent(self.extent(&reset.log)),
            Operation::Read(read) => records(self.logs.get(&*read.log).map(|log| log.read(read))),
            Operation::Overflow(overflow) => records(self.logs.get(&*overflow.log).map(|log| log.overflow(overflow))),
            Operation::ReadAt(read) => Outcome::Spans(match self.logs.get(&*read.log) {
                Some(log) => log.read_at(read),
                None => LogSpans { extent: NOWHERE, spans: Vec::new() },
            }),
            Operation::Lease(lease) => Outcome::Lease(self.leases.state(&lease.lease, &lease.holder, now_ms)),
            Operation::Describe(describe) => Outcome::Described(self.describe(now_ms, describe.parts)),
            // There are no indexes here, and whoever asks for one is refused before.
            Operation::Post(_) | Operation::Unpost(_) => Outcome::Indexed(NO_INDEX),
            Operation::Match(found) => {
                let terms = found.terms.iter().map(|_| TermMatches { offsets: Vec::new() }).collect();
                Outcome::Matches(FoundMatches { extent: NO_INDEX, first: 0, marks: Vec::new(), terms })
            }
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

    fn mark(&mut self, first: u64, marks: &[PositionMark]) {
        for mark in marks {
            let position = first.saturating_add(mark.record_index.into());
            self.map_to_write(&mark.map_name).set(&mark.key, &position.to_compact_string());
        }
    }

    fn map_mut(&mut self, name: &str) -> Option<&mut Map> {
        if name == VALUES { Some(&mut self.values) } else { self.maps.get_mut(name) }
    }

    /// The map, there from now on.
    fn map_to_write(&mut self, name: &str) -> &mut Map {
        if name == VALUES { &mut self.values } else { self.maps.entry(name.into()).or_default() }
    }

    /// The log, there from now on.
    fn log_to_write(&mut self, name: &str) -> &mut Log {
        self.logs.entry(name.into()).or_default()
    }
}

const NO_INDEX: IndexExtent = IndexExtent { next: 0, documents: 0 };

fn changed(count: u64) -> Outcome {
    Outcome::Changed(EntryCount { count })
}

fn no_entries() -> Outcome {
    Outcome::Entries(FoundEntries { entries: Vec::new(), unreadable: Vec::new() })
}

fn records(found: Option<LogRecords>) -> Outcome {
    Outcome::Records(found.unwrap_or(LogRecords { extent: NOWHERE, first: 0, records: Vec::new() }))
}
