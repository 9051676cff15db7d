//! The contract, word for word and without a thought for cost.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    CounterValue, Description, Entry, EntryCount, EntryPage, EntryState, Expectation, ExpectedEntry, FailureCode,
    FoundEntries, FoundMatches, IndexDescription, IndexExtent, LeaseOperation, LeaseState, LogDescription, LogEnd,
    LogExtent, LogRecords, LogSpans, MapDescription, MatchOperation, Operation, Outcome, PositionMark, Size,
    SpanRecords, TermMatches, names::VALUES,
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
        IndexExtent { next: self.next, documents: self.marks.len() as u64 }
    }

    fn matches(&self, step: &MatchOperation) -> FoundMatches {
        let occurs = |term: &u32, position: &u64| self.positions.get(term).is_some_and(|at| at.contains(position));
        let mut first = self.next;
        let mut bytes = 0;
        while first > self.next.saturating_sub(step.newest) {
            let occurrences = step.terms.iter().filter(|term| occurs(term, &(first - 1))).count() as u64;
            bytes += 2 + 4 * occurrences;
            if bytes > step.max_bytes {
                break;
            }
            first -= 1;
        }
        let offsets = |term| {
            let found = (first..self.next).filter(|position| occurs(term, position));
            found.map(|position| u32::try_from(position - first).unwrap()).collect()
        };
        FoundMatches {
            extent: self.extent(),
            first,
            marks: (first..self.next).map(|position| self.marks.get(&position).copied().unwrap_or(0)).collect(),
            terms: step.terms.iter().map(|term| TermMatches { offsets: offsets(term) }).collect(),
        }
    }
}

impl Model {
    /// One more than the highest position that an index has had.
    pub(super) fn next_position(&self, index: &str) -> u64 {
        self.indexes.get(index).map_or(0, |index| index.next)
    }

    fn indexed(&self, index: &str) -> Outcome {
        Outcome::Indexed(self.indexes.get(index).cloned().unwrap_or_default().extent())
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

    fn found(&self, log: &str, found: Vec<(u64, String)>) -> Outcome {
        let extent = self.extent(log);
        let first = found.first().map_or(extent.first + extent.length, |(position, _)| *position);
        Outcome::Records(LogRecords { extent, first, records: found.into_iter().map(|(_, text)| text).collect() })
    }

    fn put(&mut self, map: &str, key: &str, text: String) -> bool {
        self.maps.entry(map.into()).or_default().insert(key.into(), text).is_none()
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
                    Operation::Put(put) => pairs(&put.map_name, put.entries.iter().map(|entry| &entry.key)),
                    Operation::ResetMap(reset) => pairs(&reset.map_name, reset.entries.iter().map(|entry| &entry.key)),
                    Operation::Increment(step) => vec![(&step.map_name, &step.key)],
                    Operation::Append(step) => step.marks.iter().map(|mark| (&mark.map_name, &mark.key)).collect(),
                    Operation::ResetLog(step) => step.marks.iter().map(|mark| (&mark.map_name, &mark.key)).collect(),
                    _ => vec![],
                });
                let new = set.filter(|(map, key)| **map == expected.map_name && !before.contains(key)).count();
                new == 0 || (before.len() + new) as u64 <= expected.limit
            }
        }
    }

    pub(super) fn apply(&mut self, operation: &Operation, now: u64) -> Result<Outcome, FailureCode> {
        Ok(match operation {
            Operation::Put(put) => {
                let new = put.entries.iter().filter(|entry| self.put(&put.map_name, &entry.key, entry.text.clone()));
                changed(new.count())
            }
            Operation::Increment(step) => {
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
            Operation::Remove(step) => {
                let map = self.maps.entry(step.map_name.clone()).or_default();
                changed(step.keys.iter().filter(|key| map.remove(*key).is_some()).count())
            }
            Operation::ResetMap(step) => {
                let before = self.maps.remove(&step.map_name).unwrap_or_default().len();
                for entry in &step.entries {
                    self.put(&step.map_name, &entry.key, entry.text.clone());
                }
                changed(before)
            }
            Operation::Append(step) => self.append(&step.log, &step.records, &step.marks),
            Operation::ResetLog(step) => {
                if let Some((first, records)) = self.logs.get_mut(&step.log) {
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
            Operation::Lease(LeaseOperation { lease, holder, milliseconds }) => {
                let current = self.leases.get(lease).filter(|(_, end)| *end > now);
                if current.is_none_or(|(has, _)| has == holder) {
                    self.leases.insert(lease.clone(), (holder.clone(), now + milliseconds));
                }
                Outcome::Lease(match self.leases.get(lease).filter(|(_, end)| *end > now) {
                    Some((has, end)) => LeaseState { held: has == holder, holder: has.clone(), expires_in: end - now },
                    None => LeaseState { held: false, holder: String::new(), expires_in: 0 },
                })
            }
            Operation::Post(step) => {
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
                self.indexed(&step.index)
            }
            Operation::Unpost(step) => {
                for position in &step.positions {
                    if let Some(index) = self.indexes.get_mut(&step.index) {
                        index.marks.remove(position);
                        index.positions.values_mut().for_each(|positions| _ = positions.remove(position));
                    }
                }
                self.indexed(&step.index)
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
                if bytes > get.max_bytes {
                    Outcome::Oversize(Size { bytes, entries: found.len() as u64 })
                } else {
                    Outcome::Entries(FoundEntries { entries: found, unreadable: vec![] })
                }
            }
            Operation::GetAll(all) => {
                let found: Vec<_> = entries(&all.map_name).collect();
                let bytes = found.iter().map(length).sum();
                if bytes > all.max_bytes || found.len() as u64 > all.max_entries {
                    Outcome::Oversize(Size { bytes, entries: found.len() as u64 })
                } else {
                    Outcome::Entries(FoundEntries { entries: found, unreadable: vec![] })
                }
            }
            Operation::Page(page) => {
                let most = if page.max_entries == 0 { 100 } else { usize::try_from(page.max_entries).unwrap() };
                let mut rest: Vec<_> = entries(&page.map_name).filter(|entry| entry.key > page.cursor).collect();
                let more = rest.len() > most;
                rest.truncate(most);
                let cursor = rest.last().filter(|_| more).map_or(String::new(), |entry| entry.key.clone());
                if page.keys_only {
                    rest.iter_mut().for_each(|entry| entry.text.clear());
                }
                let mut left = page.max_bytes;
                let (fit, unfit): (Vec<_>, Vec<_>) = rest.into_iter().partition(|entry| {
                    let fits = length(entry) <= left;
                    left -= if fits { length(entry) } else { 0 };
                    fits
                });
                let unreadable = unfit.into_iter().map(|entry| entry.key).collect();
                Outcome::Page(EntryPage { entries: fit, unreadable, cursor })
            }
            Operation::Read(read) => {
                let mut records = self.records(&read.log);
                if read.end == LogEnd::Newest {
                    records.reverse();
                }
                let mut found = fit(records, read.max_records, read.max_bytes);
                found.sort();
                self.found(&read.log, found)
            }
            Operation::Overflow(step) => {
                let mut records = self.records(&step.log);
                let keep =
                    if records.len() as u64 > step.limit { usize::try_from(step.keep).unwrap() } else { usize::MAX };
                records.truncate(records.len().saturating_sub(keep));
                match fit(records, step.max_records, step.max_bytes) {
                    found if found.is_empty() => Outcome::Extent(self.extent(&step.log)),
                    found => self.found(&step.log, found),
                }
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
                let mut spans: BTreeMap<usize, SpanRecords> = BTreeMap::new();
                for (n, (position, text)) in numbers.into_iter().zip(fit(records, 10_000, read.max_bytes)) {
                    let new = SpanRecords { first: position, records: vec![] };
                    spans.entry(n).or_insert(new).records.push(text);
                }
                Outcome::Spans(LogSpans { extent: self.extent(&read.log), spans: spans.into_values().collect() })
            }
            Operation::Match(step) => {
                Outcome::Matches(self.indexes.get(&step.index).cloned().unwrap_or_default().matches(step))
            }
            Operation::Describe(step) => {
                let others = self.maps.iter().filter(|(name, map)| *name != VALUES && !map.is_empty());
                let maps =
                    others.map(|(name, map)| MapDescription { map_name: name.clone(), entries: map.len() as u64 });
                let logs = self.logs.keys().map(|log| LogDescription { log: log.clone(), extent: self.extent(log) });
                let indexes = self.indexes.iter().map(|(name, index)| IndexDescription {
                    index: name.clone(),
                    extent: index.extent(),
                    bytes: (4 * index.marks.len() + 3 * index.positions.values().map(BTreeSet::len).sum::<usize>())
                        as u64,
                });
                Outcome::Described(Description {
                    time_to_live: None,
                    expires_in: None,
                    values: entries(VALUES).count() as u64,
                    maps: maps.filter(|_| step.parts).collect(),
                    logs: logs.filter(|_| step.parts).collect(),
                    indexes: indexes.filter(|_| step.parts).collect(),
                })
            }
            other => panic!("{other:?} writes"),
        }
    }
}

fn pairs<'a>(map: &'a String, keys: impl Iterator<Item = &'a String>) -> Vec<(&'a String, &'a String)> {
    keys.map(|key| (map, key)).collect()
}

fn entry((key, text): (&String, &String)) -> Entry {
    Entry { key: key.clone(), text: text.clone() }
}

fn length(entry: &Entry) -> u64 {
    (entry.key.len() + entry.text.len()) as u64
}

pub(super) fn changed(count: usize) -> Outcome {
    Outcome::Changed(EntryCount { count: count as u64 })
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
