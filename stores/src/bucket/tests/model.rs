//! The contract, word for word and without a thought for cost.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    BucketPart, ChangedEntries, CounterValue, Description, Entry, EntryState, Expectation, ExpectedEntry, FailureCode,
    FoundDocuments, FoundEntries, IndexExtent, IndexStep, IndexedTransaction, LeaseRequest, LeaseState, LogExtent,
    LogRecords, MarkRun, Operation, Outcome, PositionMark, RecordRun, SearchStep, Size, TermHits, bucket::Answers,
    names::VALUES, part,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    maps: BTreeMap<String, BTreeMap<String, String>>,
    /// The position of the first record, and the records.
    logs: BTreeMap<String, (u64, Vec<String>)>,
    indexes: BTreeMap<String, Index>,
    /// Holder and end.
    leases: BTreeMap<String, (String, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Index {
    next: u64,
    marks: BTreeMap<u64, u16>,
    positions: BTreeMap<u32, BTreeSet<u64>>,
}

impl Index {
    fn extent(&self) -> IndexExtent {
        let occurrences = self.positions.values().map(BTreeSet::len).sum::<usize>() as u64;
        IndexExtent { next: self.next, documents: self.marks.len() as u64, occurrences }
    }

    fn occurs(&self, term: u32, position: u64) -> bool {
        self.positions.get(&term).is_some_and(|at| at.contains(&position))
    }

    /// From the oldest position for which the answer fits.
    fn search(&self, step: &SearchStep) -> FoundDocuments {
        let oldest = self.next.saturating_sub(step.newest);
        let is_hit = |position: &u64| step.terms.iter().any(|term| self.occurs(*term, *position));
        let hits: Vec<u64> = (oldest..self.next).filter(is_hit).collect();
        let around = u64::from(step.around.min(8));
        // Elsewhere the answer is as long as it is one position further down.
        let near_hits = hits.iter().flat_map(|hit| hit.saturating_sub(around).max(oldest)..=hit + 1);
        for from_position in [oldest].into_iter().chain(near_hits.collect::<BTreeSet<_>>()) {
            let hits = hits.iter().filter(|hit| **hit >= from_position);
            let near: BTreeSet<u64> = hits
                .clone()
                .flat_map(|hit| hit.saturating_sub(around).max(from_position)..=(hit + around).min(self.next - 1))
                .collect();
            let occurrences = hits.flat_map(|hit| step.terms.iter().filter(|term| self.occurs(**term, *hit)));
            let bytes = 2 * near.len() + 8 * runs(&near).len() + 4 * occurrences.count();
            if bytes as u64 <= step.max_bytes {
                return self.found(from_position, &near, &step.terms);
            }
        }
        unreachable!("an answer without hits always fits")
    }

    fn found(&self, from_position: u64, positions: &BTreeSet<u64>, terms: &[u32]) -> FoundDocuments {
        let offset = |position: u64| u32::try_from(position - from_position).unwrap();
        let mark = |position: u64| self.marks.get(&position).copied().unwrap_or(0);
        let offsets =
            |term: u32| (from_position..self.next).filter(|at| self.occurs(term, *at)).map(offset).collect::<Vec<_>>();
        FoundDocuments {
            extent: self.extent(),
            from_position,
            runs: runs(positions)
                .into_iter()
                .map(|run| MarkRun { offset: offset(run[0]), marks: run.into_iter().map(mark).collect() })
                .collect(),
            terms: terms.iter().map(|term| TermHits { offsets: offsets(*term) }).collect(),
        }
    }
}

/// Positions as runs of consecutive ones.
fn runs(positions: &BTreeSet<u64>) -> Vec<Vec<u64>> {
    let positions: Vec<_> = positions.iter().copied().collect();
    positions.chunk_by(|one, other| one + 1 == *other).map(<[u64]>::to_vec).collect()
}

impl Model {
    /// One more than the highest position that an index has had.
    pub(super) fn next_position(&self, index: &str) -> u64 {
        self.indexes.get(index).map_or(0, |index| index.next)
    }

    fn extent(&self, log: &str) -> LogExtent {
        let (first, records) = self.logs.get(log).cloned().unwrap_or_default();
        LogExtent { first, length: records.len() as u64 }
    }

    /// What is at each position.
    fn records(&self, log: &str) -> Vec<(u64, String)> {
        let (first, records) = self.logs.get(log).cloned().unwrap_or_default();
        (first..).zip(records).collect()
    }

    fn put(&mut self, map: &str, key: &str, text: String) {
        self.maps.entry(map.into()).or_default().insert(key.into(), text);
    }

    pub(super) fn meets(&self, expectation: &Expectation, operations: &[Operation]) -> bool {
        match expectation {
            Expectation::Entry(ExpectedEntry { map_name, key, state, text }) => {
                match (self.maps.get(map_name).and_then(|map| map.get(key)), state) {
                    (None, EntryState::Absent | EntryState::AbsentOrEqual) | (Some(_), EntryState::Present) => true,
                    (Some(found), EntryState::Equal | EntryState::AbsentOrEqual) => found == text,
                    _ => false,
                }
            }
            Expectation::Log(expected) => {
                let LogExtent { first, length } = self.extent(&expected.log);
                [None, Some(first)].contains(&expected.first) && [None, Some(first + length)].contains(&expected.next)
            }
            Expectation::Room(expected) => {
                let before: BTreeSet<_> =
                    self.maps.get(&expected.map_name).into_iter().flat_map(BTreeMap::keys).collect();
                let set = operations.iter().flat_map(|operation| match operation {
                    Operation::Set(set) => set.put.iter().map(|entry| (&set.map_name, &entry.key)).collect(),
                    Operation::Add(add) => vec![(&add.map_name, &add.key)],
                    Operation::Append(step) => step.marks.iter().map(|mark| (&mark.map_name, &mark.key)).collect(),
                    _ => vec![],
                });
                let new = set.filter(|(map, key)| **map == expected.map_name && !before.contains(key)).count();
                new == 0 || (before.len() + new) as u64 <= expected.limit
            }
        }
    }

    pub(super) fn apply(&mut self, request: &IndexedTransaction, now: u64) -> Result<Answers, FailureCode> {
        let operations = request.transaction.operations.iter();
        let outcomes = operations.map(|operation| self.apply_operation(operation)).collect::<Result<_, _>>()?;
        let found = request.steps.iter().map(|step| self.apply_step(step)).collect::<Result<_, _>>()?;
        Ok(Answers { lease: request.lease.as_ref().map(|lease| self.take_lease(lease, now)), outcomes, found })
    }

    fn take_lease(&mut self, LeaseRequest { name, holder, milliseconds }: &LeaseRequest, now: u64) -> LeaseState {
        let current = self.leases.get(name).filter(|(_, end)| *end > now);
        if current.is_none_or(|(has, _)| has == holder) {
            self.leases.insert(name.clone(), (holder.clone(), now + milliseconds));
        }
        match self.leases.get(name).filter(|(_, end)| *end > now) {
            Some((has, end)) => LeaseState { held: has == holder, holder: has.clone(), expires_in: end - now },
            None => LeaseState { held: false, holder: String::new(), expires_in: 0 },
        }
    }

    fn apply_step(&mut self, step: &IndexStep) -> Result<FoundDocuments, FailureCode> {
        let (name, is_read) = match step {
            IndexStep::AddDocuments(step) => {
                if step.documents.first().is_some_and(|first| first.position < self.next_position(&step.index)) {
                    return Err(FailureCode::Invalid);
                }
                for document in &step.documents {
                    let index = self.indexes.entry(step.index.clone()).or_default();
                    index.next = document.position + 1;
                    index.marks.insert(document.position, document.mark);
                    for term in &document.terms {
                        index.positions.entry(*term).or_default().insert(document.position);
                    }
                }
                (&step.index, false)
            }
            IndexStep::RemoveDocuments(step) => {
                for position in &step.positions {
                    if let Some(index) = self.indexes.get_mut(&step.index) {
                        index.marks.remove(position);
                        index.positions.values_mut().for_each(|positions| _ = positions.remove(position));
                    }
                }
                (&step.index, false)
            }
            IndexStep::Search(step) => (&step.index, true),
            IndexStep::ReadMarks(step) => (&step.index, true),
        };
        let index = self.indexes.get(name).cloned().unwrap_or_default();
        Ok(match step {
            IndexStep::Search(search) => index.search(search),
            IndexStep::ReadMarks(read) => {
                let end = (read.from_position + u64::from(read.count)).min(index.next);
                let positions: BTreeSet<_> = (read.from_position..end).collect();
                index.found(if positions.is_empty() { index.next } else { read.from_position }, &positions, &[])
            }
            _ => {
                assert!(!is_read);
                index.found(index.next, &BTreeSet::new(), &[])
            }
        })
    }

    fn apply_operation(&mut self, operation: &Operation) -> Result<Outcome, FailureCode> {
        Ok(match operation {
            Operation::Set(set) => {
                let map = self.maps.entry(set.map_name.clone()).or_default();
                let before: BTreeSet<_> = map.keys().cloned().collect();
                map.retain(|key, _| !set.reset && !set.remove.contains(key));
                map.extend(set.put.iter().map(|entry| (entry.key.clone(), entry.text.clone())));
                let after: BTreeSet<_> = map.keys().cloned().collect();
                let (added, removed) = (after.difference(&before).count(), before.difference(&after).count());
                Outcome::Changed(ChangedEntries { added: added as u64, removed: removed as u64 })
            }
            Operation::Add(step) => {
                let text = self.maps.get(&step.map_name).and_then(|map| map.get(&step.key)).map_or("0", |text| text);
                let before: i64 = text
                    .parse()
                    .ok()
                    .filter(|number: &i64| number.to_string() == text)
                    .ok_or(FailureCode::NotACounter)?;
                let value = before.checked_add(step.amount).ok_or(FailureCode::CounterOverflow)?;
                self.put(&step.map_name, &step.key, value.to_string());
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(step) => {
                if let Some((first, records)) = self.logs.get_mut(&step.log).filter(|_| step.reset) {
                    *first += records.len() as u64;
                    records.clear();
                }
                self.append(&step.log, &step.records, &step.marks)
            }
            Operation::ReplaceOldest(step) => {
                let (first, records) = self.logs.get(&step.log).cloned().unwrap_or_default();
                let count = usize::try_from(step.count).unwrap_or(usize::MAX).min(records.len());
                if step.records.len() > count {
                    return Err(FailureCode::Invalid);
                }
                if let Some(log) = self.logs.get_mut(&step.log) {
                    let first = first + (count - step.records.len()) as u64;
                    *log = (first, [&step.records[..], &records[count..]].concat());
                }
                Outcome::Extent(self.extent(&step.log))
            }
            Operation::Rewrite(step) => {
                for record in &step.records {
                    let (first, records) = self.logs.get_mut(&step.log).ok_or(FailureCode::Invalid)?;
                    let place = record.position.checked_sub(*first).and_then(|place| usize::try_from(place).ok());
                    *place.and_then(|place| records.get_mut(place)).ok_or(FailureCode::Invalid)? = record.text.clone();
                }
                Outcome::Extent(self.extent(&step.log))
            }
            _ => self.answer(operation),
        })
    }

    fn append(&mut self, log: &str, records: &[String], marks: &[PositionMark]) -> Outcome {
        if !records.is_empty() {
            let extent = self.extent(log);
            self.logs.entry(log.into()).or_default().1.extend_from_slice(records);
            for mark in marks {
                let position = extent.first + extent.length + u64::from(mark.record_index);
                self.put(&mark.map_name, &mark.key, position.to_string());
            }
        }
        Outcome::Extent(self.extent(log))
    }

    pub(super) fn answer(&self, operation: &Operation) -> Outcome {
        let entries = |map: &str| self.maps.get(map).into_iter().flatten().map(entry);
        match operation {
            Operation::Get(get) => {
                let map = self.maps.get(&get.map_name).cloned().unwrap_or_default();
                let found: Vec<_> = get.keys.iter().filter_map(|key| map.get_key_value(key)).map(entry).collect();
                let bytes: u64 = found.iter().map(|entry| entry.text.len() as u64).sum();
                Outcome::Entries(if bytes > get.max_bytes {
                    FoundEntries::oversize(Size { bytes, entries: found.len() as u64 })
                } else {
                    FoundEntries { entries: found, missing: None }
                })
            }
            Operation::GetAll(all) => {
                let shown =
                    |entry: Entry| Entry { text: if all.keys_only { String::new() } else { entry.text }, ..entry };
                let found: Vec<_> = entries(&all.map_name).collect();
                let Some(cursor) = &all.cursor else {
                    let whole: u64 = found.iter().map(length).sum();
                    let count = found.len() as u64;
                    let shown: Vec<_> = found.into_iter().map(shown).collect();
                    let bytes = if count > all.max_entries { whole } else { shown.iter().map(length).sum() };
                    return Outcome::Entries(if bytes > all.max_bytes || count > all.max_entries {
                        FoundEntries::oversize(Size { bytes, entries: count })
                    } else {
                        FoundEntries { entries: shown, missing: None }
                    });
                };
                let most = if all.max_entries == 0 { 100 } else { usize::try_from(all.max_entries).unwrap() };
                let mut rest: Vec<_> = found.into_iter().map(shown).filter(|entry| entry.key > *cursor).collect();
                let more = rest.len() > most;
                rest.truncate(most);
                let cursor = rest.last().filter(|_| more).map_or(String::new(), |entry| entry.key.clone());
                let mut left = all.max_bytes;
                let (fit, unfit): (Vec<_>, Vec<_>) = rest.into_iter().partition(|entry| {
                    let fits = length(entry) <= left;
                    left -= if fits { length(entry) } else { 0 };
                    fits
                });
                let unreadable = unfit.into_iter().map(|entry| entry.key).collect();
                Outcome::Entries(FoundEntries::page(fit, unreadable, cursor))
            }
            Operation::Read(read) => {
                let mut records = self.records(&read.log);
                if records.len() as u64 <= read.only_over {
                    records.clear();
                }
                records.truncate(records.len().saturating_sub(usize::try_from(read.leave).unwrap()));
                if read.newest {
                    records.reverse();
                }
                let mut found = fit(records, read.max_records, read.max_bytes);
                found.sort();
                let extent = self.extent(&read.log);
                let Some((first, _)) = found.first() else { return Outcome::Extent(extent) };
                let run = RecordRun { first: *first, records: found.iter().map(|(_, text)| text.clone()).collect() };
                Outcome::Records(LogRecords { extent, runs: vec![run] })
            }
            Operation::ReadAt(read) => {
                let all: BTreeMap<_, _> = self.records(&read.log).into_iter().collect();
                let asked = read.spans.iter().enumerate().flat_map(|(n, span)| {
                    let positions = span.position..span.position.saturating_add(span.count.into());
                    positions
                        .filter_map(|position| Some((n, (position, all.get(&position)?.clone()))))
                        .collect::<Vec<_>>()
                });
                let (numbers, records): (Vec<_>, Vec<_>) = asked.unzip();
                let mut runs: BTreeMap<usize, RecordRun> = BTreeMap::new();
                for (n, (position, text)) in numbers.into_iter().zip(fit(records, 10_000, read.max_bytes)) {
                    let new = RecordRun { first: position, records: vec![] };
                    runs.entry(n).or_insert(new).records.push(text);
                }
                Outcome::Records(LogRecords { extent: self.extent(&read.log), runs: runs.into_values().collect() })
            }
            Operation::Describe(step) => Outcome::Described(self.describe(step.parts)),
            other => panic!("{other:?} writes"),
        }
    }

    fn describe(&self, parts: bool) -> Description {
        let part = |kind: &str, name: &String, position, count: usize, bytes| BucketPart {
            kind: kind.into(),
            name: name.clone(),
            position,
            count: count as u64,
            bytes,
        };
        let indexes = self.indexes.iter().map(|(name, index)| {
            let extent = index.extent();
            part(part::INDEX, name, index.next, index.marks.len(), 4 * extent.documents + 3 * extent.occurrences)
        });
        let logs = self.logs.iter().map(|(name, (first, records))| part(part::LOG, name, *first, records.len(), 0));
        let others = self.maps.iter().filter(|(name, map)| *name != VALUES && !map.is_empty());
        let maps = others.map(|(name, map)| part(part::MAP, name, 0, map.len(), 0));
        Description {
            time_to_live: None,
            created_at: 0,
            expires_in: None,
            values: self.maps.get(VALUES).map_or(0, BTreeMap::len) as u64,
            parts: indexes.chain(logs).chain(maps).filter(|_| parts).collect(),
        }
    }
}

fn entry((key, text): (&String, &String)) -> Entry {
    Entry { key: key.clone(), text: text.clone() }
}

fn length(entry: &Entry) -> u64 {
    (entry.key.len() + entry.text.len()) as u64
}

/// The first records, at most so many and together no longer than that, but one at least.
fn fit(records: Vec<(u64, String)>, max_records: u64, max_bytes: u64) -> Vec<(u64, String)> {
    let mut bytes = 0;
    let fits = |(n, (_, text)): &(usize, (u64, String))| {
        bytes += text.len() as u64;
        (*n as u64) < max_records && (*n == 0 || bytes <= max_bytes)
    };
    records.into_iter().enumerate().take_while(fits).map(|(_, record)| record).collect()
}
