//! What the contract asks of a transaction, and what stops it before it changes anything.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use keepline_filter::contract::VALUES;
use keepline_filter::contract::bindings::keepline::memory::key_value::*;

use super::{Bucket, Fake, apply::extent};

/// Terms are below this.
const TERMS: u32 = 1 << 22;

/// A transaction writes each key, log and index once, and is of a bounded size.
pub(super) fn assert_allowed(transaction: &Transaction<'_>) {
    let mut seen = HashSet::new();
    let mut pieces = transaction.expectations.len();
    let mut bytes = 0;
    let (mut posted_terms, mut unposted_runs, mut matched_terms) = (0, 0, 0);
    for operation in transaction.operations {
        pieces += 2;
        let written: Vec<String> = match operation {
            Operation::Increment(it) => vec![format!("{}/{}", it.map_name, it.key)],
            Operation::Remove(RemoveOperation { map_name: map, keys }) => {
                pieces += keys.len();
                keys.iter().map(|key| format!("{map}/{key}")).collect()
            }
            Operation::Put(PutOperation { map_name: map, entries }) => {
                assert!(entries.iter().all(|entry| entry.text.len() <= 8 << 20), "a text is too long");
                pieces += entries.len();
                bytes += entries.iter().map(|entry| entry.key.len() + entry.text.len()).sum::<usize>();
                entries.iter().map(|entry| format!("{map}/{}", entry.key)).collect()
            }
            Operation::ResetMap(ResetMapOperation { map_name: map, entries }) => {
                pieces += entries.len();
                bytes += entries.iter().map(|entry| entry.key.len() + entry.text.len()).sum::<usize>();
                vec![format!("map {map}")]
            }
            Operation::ResetLog(ResetLogOperation { log, records, .. }) => {
                pieces += records.len();
                bytes += records.iter().map(|record| record.len()).sum::<usize>();
                vec![format!("log {log}")]
            }
            Operation::Append(AppendOperation { log, records, marks }) => {
                pieces += records.len() + marks.len();
                let longest = records.iter().map(|record| record.len()).max();
                assert!(longest.is_none_or(|bytes| bytes <= 2 << 20), "a record of {longest:?} bytes");
                bytes += records.iter().map(|record| record.len()).sum::<usize>();
                bytes += marks.iter().map(|mark| mark.key.len()).sum::<usize>();
                assert!(
                    marks.iter().all(|mark| (mark.record_index as usize) < records.len() && mark.map_name != VALUES)
                );
                let marks = marks.iter().map(|mark| format!("{}/{}", mark.map_name, mark.key));
                marks.chain([format!("log {log}")]).collect()
            }
            Operation::Rewrite(RewriteOperation { log, records }) => {
                pieces += records.len();
                bytes += records.iter().map(|record| record.text.len()).sum::<usize>();
                let positions: HashSet<_> = records.iter().map(|record| record.position).collect();
                assert!(positions.len() == records.len(), "a position is written twice");
                vec![format!("log {log}")]
            }
            Operation::ReplaceOldest(it) => vec![format!("log {}", it.log)],
            Operation::Post(PostOperation { index, documents }) => {
                pieces += documents.len();
                let terms = assert_documents(documents);
                posted_terms += terms;
                bytes += 4 * terms;
                vec![format!("index {index}")]
            }
            Operation::Unpost(UnpostOperation { index, positions }) => {
                pieces += positions.len();
                unposted_runs += runs(positions);
                vec![format!("index {index}")]
            }
            Operation::Match(MatchOperation { terms, .. }) => {
                let each: HashSet<_> = terms.iter().collect();
                assert!(each.len() == terms.len() && terms.iter().all(|term| *term < TERMS), "terms {terms:?}");
                matched_terms += terms.len();
                bytes += 4 * terms.len();
                continue;
            }
            Operation::Overflow(OverflowOperation { limit, keep, .. }) => {
                assert!(keep <= limit);
                continue;
            }
            _ => continue,
        };
        for place in written {
            assert!(seen.insert(place), "written twice: {:?}", transaction.operations);
        }
    }
    assert!(posted_terms <= 32_768, "{posted_terms} terms are posted");
    assert!(unposted_runs <= 32, "{unposted_runs} runs of positions are taken out");
    assert!(matched_terms <= 256, "{matched_terms} terms are looked for");
    assert!(pieces <= 20_000, "{pieces} pieces");
    assert!(bytes + 96 * pieces <= 16 << 20, "{bytes} bytes in {pieces} pieces");
    let incarnation = match transaction.opening {
        Opening::Existing(life) => life.incarnation,
        _ => None,
    };
    assert!(incarnation.is_none_or(|life| !life.is_empty() && life.bytes().all(|byte| byte.is_ascii_graphic())));
}

/// How many terms documents have that an index may take.
fn assert_documents(documents: &[Posting<'_>]) -> usize {
    assert!(documents.is_sorted_by(|one, other| one.position < other.position), "positions out of order");
    for Posting { position, terms, .. } in documents {
        assert!(*position < 1 << 53, "position {position}");
        assert!(terms.len() <= 512, "{} terms of a document", terms.len());
        assert!(terms.is_sorted_by(|one, other| one < other), "terms out of order: {terms:?}");
        assert!(terms.last().is_none_or(|term| *term < TERMS), "terms {terms:?}");
    }
    documents.iter().map(|document| document.terms.len()).sum()
}

/// Runs of consecutive positions, which end before each multiple of 1,024.
fn runs(positions: &[u64]) -> usize {
    let positions: BTreeSet<_> = positions.iter().copied().collect();
    let begins = |position: &&u64| position.is_multiple_of(1024) || !positions.contains(&(**position - 1));
    positions.iter().filter(begins).count()
}

impl Fake {
    /// What of a wrong type an operation can't do with.
    pub(super) fn spoilt<'a>(&self, operation: &Operation<'a>) -> Option<&'a str> {
        let wrong = self.wrong.borrow();
        let is_wrong = |name: &&str| wrong.contains(*name);
        match *operation {
            Operation::Put(PutOperation { map_name: VALUES, entries }) => {
                entries.iter().map(|entry| entry.key).find(is_wrong)
            }
            Operation::Increment(IncrementOperation { map_name: VALUES, key, .. }) => Some(key).filter(is_wrong),
            Operation::Put(PutOperation { map_name: map, .. })
            | Operation::Increment(IncrementOperation { map_name: map, .. })
            | Operation::ResetMap(ResetMapOperation { map_name: map, .. }) => Some(map).filter(is_wrong),
            Operation::Append(AppendOperation { log, marks, .. }) => {
                [log].into_iter().chain(marks.iter().map(|mark| mark.map_name)).find(is_wrong)
            }
            Operation::Read(ReadOperation { log, .. })
            | Operation::ReadAt(ReadAtOperation { log, .. })
            | Operation::Overflow(OverflowOperation { log, .. })
            | Operation::ReplaceOldest(ReplaceOldestOperation { log, .. })
            | Operation::Rewrite(RewriteOperation { log, .. })
            | Operation::ResetLog(ResetLogOperation { log, .. }) => Some(log).filter(is_wrong),
            _ => None,
        }
    }

    pub(super) fn holds(
        &self,
        bucket: &Bucket,
        expectation: &Expectation<'_>,
        operations: &[Operation<'_>],
    ) -> Result<bool, Failure> {
        let entry = |map: &str, key: &str| bucket.maps.get(map).and_then(|entries| entries.get(key));
        let has = |map: &str, key: &str| entry(map, key).is_some();
        Ok(match *expectation {
            Expectation::Entry(ExpectedEntry { map_name: map, .. }) if self.wrong.borrow().contains(map) => {
                return Err(Self::failure(FailureCode::WrongType, map));
            }
            Expectation::Entry(ExpectedEntry { map_name, key, state, text }) => {
                let found = entry(map_name, key);
                match state {
                    EntryState::Absent => found.is_none(),
                    EntryState::Present => found.is_some(),
                    EntryState::Equal => found.is_some_and(|found| found == text.as_bytes()),
                    EntryState::AbsentOrEqual => found.is_none_or(|found| found == text.as_bytes()),
                }
            }
            Expectation::Log(ExpectedLog { log, first, next }) => {
                let (at, all) = bucket.log(log);
                let extent = extent(at, &all);
                first.is_none_or(|first| first == at) && next.is_none_or(|next| next == extent.next())
            }
            Expectation::Room(ExpectedRoom { map_name: room, limit }) => {
                let is_new = |map: &str, key: &str| usize::from(map == room && !has(map, key));
                let created = |operation: &Operation<'_>| match operation {
                    Operation::Put(put) => put.entries.iter().map(|entry| is_new(put.map_name, entry.key)).sum(),
                    Operation::Increment(counter) => is_new(counter.map_name, counter.key),
                    _ => 0,
                };
                let created: usize = operations.iter().map(created).sum();
                created == 0 || (bucket.maps.get(room).map_or(0, BTreeMap::len) + created) as u64 <= limit
            }
        })
    }
}
