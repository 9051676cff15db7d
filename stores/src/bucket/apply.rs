//! Applies each operation to a bucket, and answers it.

use compact_str::ToCompactString;

use super::{Bucket, counter, logs::BucketLog, maps::BucketMap, room::TransactionBudget};
use crate::{
    ChangedEntries, CounterValue, FoundDocuments, IndexStep, IndexedReceipt, IndexedTransaction, LeaseRequest,
    LeaseState, Operation, Outcome, PositionMark, Receipt, SetOperation, index, names::VALUES,
};

/// The answers to a transaction that is applied, or was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) lease: Option<LeaseState>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) found: Vec<FoundDocuments>,
}

impl Answers {
    /// The whole receipt: `receipt` makes the part of it that every transaction has.
    pub(crate) fn into_receipt(self, receipt: impl FnOnce(Vec<Outcome>) -> Receipt) -> IndexedReceipt {
        let Self { lease, outcomes, found } = self;
        IndexedReceipt { lease, receipt: receipt(outcomes), found }
    }
}

impl Bucket {
    /// Apply a transaction that can be applied, as [`probe_growth`](Self::probe_growth) found, and by which the bucket
    /// grows as much as it said.
    pub(crate) fn apply(&mut self, request: &IndexedTransaction, growth: i64, now_ms: u64) -> Answers {
        let IndexedTransaction { lease, transaction, steps } = request;
        self.cost = self.cost.saturating_add_signed(growth);
        let mut room = TransactionBudget::new();
        let operations = transaction.operations.iter();
        let outcomes = operations.map(|operation| self.apply_operation(operation, now_ms, &mut room)).collect();
        let found = steps.iter().map(|step| self.apply_step(step)).collect();
        if let Some(lease) = lease {
            self.leases.apply(lease, now_ms);
        }
        Answers { lease: self.lease_state(lease.as_ref(), now_ms), outcomes, found }
    }

    /// Answer a transaction that was applied before.
    pub(crate) fn answer(&self, request: &IndexedTransaction, now_ms: u64) -> Answers {
        let IndexedTransaction { lease, transaction, steps } = request;
        let mut room = TransactionBudget::new();
        let operations = transaction.operations.iter();
        let outcomes = operations.map(|operation| self.answer_operation(operation, now_ms, &mut room)).collect();
        let found = steps.iter().map(|step| self.answer_step(step)).collect();
        Answers { lease: self.lease_state(lease.as_ref(), now_ms), outcomes, found }
    }

    fn lease_state(&self, lease: Option<&LeaseRequest>, now_ms: u64) -> Option<LeaseState> {
        lease.map(|lease| self.leases.state(&lease.name, &lease.holder, now_ms))
    }

    fn apply_operation(&mut self, operation: &Operation, now_ms: u64, room: &mut TransactionBudget) -> Outcome {
        match operation {
            Operation::Set(set) => return Outcome::Changed(self.set(set)),
            Operation::Add(add) => {
                let text = self.map(&add.map_name).get(&add.key).map(|text| &**text);
                // Probed before, so this is always a number.
                let value = counter::add_to_counter(text, add).unwrap_or_default();
                self.map_to_write(&add.map_name).set(&add.key, &value.to_compact_string());
                return Outcome::Counter(CounterValue { value });
            }
            Operation::Append(append) => {
                // A log exists from its first record on.
                if !append.records.is_empty() || (append.reset && self.logs.contains_key(&*append.log)) {
                    let log = self.log_to_write(&append.log);
                    let first = log.next();
                    let before = append.reset.then(|| log.take_records());
                    log.append(&append.records);
                    if let Some(before) = before {
                        self.removed.push(Box::new(before));
                    }
                    self.write_position_marks(first, &append.marks);
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
            Operation::Get(_)
            | Operation::GetAll(_)
            | Operation::Read(_)
            | Operation::ReadAt(_)
            | Operation::Describe(_) => {}
        }
        self.answer_operation(operation, now_ms, room)
    }

    /// Answer an operation from what is there and write nothing: for one that reads, its whole work.
    fn answer_operation(&self, operation: &Operation, now_ms: u64, room: &mut TransactionBudget) -> Outcome {
        match operation {
            Operation::Get(get) => {
                Outcome::Entries(self.map(&get.map_name).read_entries(&get.keys, get.max_bytes, room))
            }
            Operation::GetAll(all) => Outcome::Entries(self.map(&all.map_name).read_all_entries(all, room)),
            Operation::Set(_) => Outcome::Changed(ChangedEntries { added: 0, removed: 0 }),
            Operation::Add(add) => {
                let text = self.map(&add.map_name).get(&add.key);
                let value = text.and_then(|text| counter::parse_counter(text)).unwrap_or_default();
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(append) => Outcome::Extent(self.log(&append.log).extent()),
            Operation::ReplaceOldest(replace) => Outcome::Extent(self.log(&replace.log).extent()),
            Operation::Rewrite(rewrite) => Outcome::Extent(self.log(&rewrite.log).extent()),
            Operation::Read(read) => {
                let log = self.log(&read.log);
                log.read_records(read, room).map_or_else(|| Outcome::Extent(log.extent()), Outcome::Records)
            }
            Operation::ReadAt(read) => Outcome::Records(self.log(&read.log).read_at(read, room)),
            Operation::Describe(describe) => Outcome::Described(self.describe(now_ms, describe.parts)),
        }
    }

    fn apply_step(&mut self, step: &IndexStep) -> FoundDocuments {
        match step {
            IndexStep::AddDocuments(add) => {
                if !add.documents.is_empty() {
                    self.indexes.entry(add.index.as_str().into()).or_default().add_documents(add);
                }
            }
            IndexStep::RemoveDocuments(remove) => {
                if let Some(index) = self.indexes.get_mut(&*remove.index) {
                    index.remove_documents(remove);
                }
            }
            IndexStep::Search(_) | IndexStep::ReadMarks(_) => {}
        }
        self.answer_step(step)
    }

    fn answer_step(&self, step: &IndexStep) -> FoundDocuments {
        match step {
            IndexStep::AddDocuments(add) => index::found_nothing(self.index(&add.index).extent()),
            IndexStep::RemoveDocuments(remove) => index::found_nothing(self.index(&remove.index).extent()),
            IndexStep::Search(search) => self.index(&search.index).search(search),
            IndexStep::ReadMarks(read) => self.index(&read.index).read_marks(read),
        }
    }

    /// Remove entries, all others, too, if the map is reset, and put others. Tells how many came and went.
    fn set(&mut self, set: &SetOperation) -> ChangedEntries {
        let SetOperation { map_name: name, reset, remove, put } = set;
        let (mut added, mut removed) = (0, 0);
        if let Some(map) = self.map_mut(name) {
            if *reset {
                let before = std::mem::take(map);
                let kept = put.iter().filter(|entry| before.get(&entry.key).is_some()).count() as u64;
                (added, removed) = (put.len() as u64 - kept, before.len() - kept);
                self.removed.push(Box::new(before));
            } else {
                removed = remove.iter().filter(|key| map.remove(key)).count() as u64;
            }
        } else if *reset {
            added = put.len() as u64;
        }
        if !put.is_empty() {
            let map = self.map_to_write(name);
            let new = put.iter().filter(|entry| map.set(&entry.key, &entry.text)).count() as u64;
            if !*reset {
                added = new;
            }
        }
        if self.maps.get(&**name).is_some_and(BucketMap::is_empty) {
            self.maps.remove(&**name);
        }
        ChangedEntries { added, removed }
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
