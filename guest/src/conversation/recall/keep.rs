//! The deferred work of recall: what was said is cut into passages, and their terms are folded into the index.
//!
//! Promises that each message is read once, whoever works on it: what was read, and that no message was changed since, is
//! expected by the transaction that appends its passages. What the transcript holds no more goes, text and terms. One
//! step does one of these things, and the next step the next. Refuses nothing: a record that can't be read has no passages.

use super::super::record::{Record, integer};
use super::super::upkeep::{self, Basis, Job, Progress, Step};
use super::super::{REVISION, SESSION, TRANSCRIPT};
use super::passage::{Cut, Passage, milliseconds, read_terms};
use super::remove::ANEW;
use super::vectors::{VECTORS, keys};
use super::{FOLD, INDEX, MATCH_BYTES, PASSAGES, RECALLED, TERMS};
use crate::filter::Filter;
use crate::reply::Outcomes;
use crate::store::{
    Bucket, Expectation, Failure, FoundMatches, Host, LogEnd, LogRecords, Opening, Operation, Posting, Transaction,
};

/// The task, and its lease.
pub(in super::super) const TASK: &str = "recall";
/// To forget all that was kept, so that the task above makes it anew. Nobody but an operator asks for it.
pub(in super::super) const RESET: &str = "recall-reset";
/// What one step reads of the transcript, and how many passages it makes, but for those of one more message.
const READ_RECORDS: u64 = 64;
const READ_BYTES: u64 = 2 << 20;
const PASSAGES_MAX: usize = 512;
/// Messages that one step reads once more.
const AGAIN: usize = 4;
/// Positions that one step takes out of the index: so many runs a call may have, of so many positions each.
const RUNS: u64 = 32;
const RUN: u64 = 1024;
/// All that a store looks at.
const ALL: u64 = 131_072;
/// After so long without a word, or where what was said at other times was put together, something else is talked about.
const PAUSE: u64 = 4 * 3600 * 1000;

impl<H: Host> Filter<H> {
    pub(in super::super) fn recollect(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        mut basis: Basis,
    ) -> Result<Progress, Failure> {
        if !self.host.capabilities().indexes {
            return Ok(Progress::of(Step::Done));
        }
        let (log, end) = (TRANSCRIPT, LogEnd::Newest);
        let operations = [
            Operation::GetSome { map: SESSION, keys: &[RECALLED, REVISION], max_bytes: 8192 },
            Operation::Read { log: TERMS, end, max_records: 0, max_bytes: 0 },
            Operation::Read { log: PASSAGES, end: LogEnd::Oldest, max_records: 1, max_bytes: 64 << 10 },
            Operation::Read { log, end, max_records: READ_RECORDS, max_bytes: READ_BYTES },
        ];
        let mut outcomes = match self.read_leased(bucket, job, &mut basis, &operations)? {
            Ok(outcomes) => outcomes,
            Err(progress) => return Ok(progress),
        };
        (basis.before, basis.revision) = (None, None);
        for entry in outcomes.readable()? {
            let place = if entry.key == RECALLED { &mut basis.before } else { &mut basis.revision };
            *place = Some(entry.text);
        }
        let terms = outcomes.records()?.extent;
        let oldest = outcomes.records()?;
        let newest = outcomes.records()?;
        let is_gone = |text: &String| is_gone(text, newest.extent.first);
        let step = if oldest.records.first().is_some_and(is_gone) {
            self.drop_oldest(bucket, job, &basis, newest.extent.first)?
        } else if terms.length >= 2 * FOLD {
            self.fold(bucket, job, &basis)?
        } else {
            self.append(bucket, job, &basis, newest)?
        };
        Ok(Progress { state: Some(upkeep::state(&basis.incarnation)), ..Progress::of(step) })
    }

    /// Forget what was kept: the logs first, then what the index has of them.
    pub(in super::super) fn reset_recall(
        &self,
        bucket: Bucket<'_>,
        job: &Job<'_>,
        mut basis: Basis,
    ) -> Result<Progress, Failure> {
        if !self.host.capabilities().indexes {
            return Ok(Progress::of(Step::Done));
        }
        let is_begun = basis.to > 0;
        let operations =
            [Operation::Read { log: PASSAGES, end: LogEnd::Newest, max_records: 0, max_bytes: 0 }, WHERE_DOCUMENTS_ARE];
        let mut outcomes = match self.read_leased(bucket, job, &mut basis, &operations)? {
            Ok(outcomes) => outcomes,
            Err(progress) => return Ok(progress),
        };
        let first = outcomes.records()?.extent.first;
        let positions = below(&outcomes.matches()?, first);
        let step = if !is_begun {
            let mut operations = ANEW.to_vec();
            operations.push(Operation::Remove { map: SESSION, keys: &[RECALLED] });
            basis.to = 1;
            self.write_back(bucket, job, &basis, &[], &operations)?
        } else if positions.is_empty() {
            return Ok(Progress::of(self.write_back(bucket, job, &basis, &[], &[])?));
        } else {
            self.write_back(bucket, job, &basis, &[], &[Operation::Unpost { index: INDEX, positions: &positions }])?
        };
        let step = if step == Step::Done { Step::Again } else { step };
        Ok(Progress { state: Some(basis.write()), ..Progress::of(step) })
    }

    /// Read on in the transcript, and keep the passages of what is there.
    fn append(&self, bucket: Bucket<'_>, job: &Job<'_>, basis: &Basis, newest: LogRecords) -> Result<Step, Failure> {
        let Read { to, mut again } = Read::parse(basis.before.as_deref().unwrap_or_default());
        let later = again.split_off(again.len().min(AGAIN));
        let extent = newest.extent;
        let to = to.clamp(extent.first, extent.next());
        if again.is_empty() && to == extent.next() {
            return self.write_back(bucket, job, basis, &[], &[]);
        }
        let (log, max_bytes) = (TRANSCRIPT, READ_BYTES);
        let once_more = again.iter().map(|&position| crate::store::Span { position, count: 1 }).collect::<Vec<_>>();
        let read = if !again.is_empty() {
            Some(Operation::ReadSpans { log, spans: &once_more, max_bytes })
        } else if to < newest.first {
            // The message before tells whether something new begins.
            let position = to.saturating_sub(1).max(extent.first);
            Some(Operation::ReadAt { log, position, count: 65, max_bytes })
        } else {
            None
        };
        let runs = match read {
            None => vec![newest],
            Some(read) => match self.read_on(bucket, basis, read)? {
                Some(mut outcomes) => outcomes.spans()?,
                None => return Ok(Step::Ended),
            },
        };
        let (mut cut, mut next) = (Cut::default(), to);
        for run in &runs {
            let mut before = None;
            for (position, text) in (run.first..).zip(&run.records) {
                let record = Record::parse(text);
                let at = record.as_ref().and_then(|record| milliseconds(&record.at));
                if again.is_empty() && position < to {
                    before = at.or(before);
                    continue;
                }
                if again.is_empty() && cut.passages.len() >= PASSAGES_MAX {
                    break;
                }
                let is_first = before.zip(at).is_none_or(|(before, at)| at.abs_diff(before) > PAUSE);
                if let Some(record) = &record {
                    cut.add(position, record, is_first);
                }
                before = at.or(before);
                if again.is_empty() {
                    next = position + 1;
                }
            }
        }
        // What can't be read is passed over.
        if again.is_empty() && next == to {
            next = runs.last().map_or(extent.next(), |run| (run.first + run.records.len() as u64).max(to + 1));
        }
        let text = Read { to: next, again: later }.write();
        let passages = cut.passages.iter().map(String::as_str).collect::<Vec<_>>();
        let terms: Vec<&str> = cut.terms.iter().map(String::as_str).collect();
        let operations = [
            Operation::Append { log: PASSAGES, records: &passages, marks: &[] },
            Operation::Append { log: TERMS, records: &terms, marks: &[] },
            Operation::Put { map: SESSION, key: RECALLED, text: &text },
        ];
        let step = self.write_back(bucket, job, basis, &basis.unchanged(RECALLED), &operations)?;
        let is_more = next < extent.next() || !again.is_empty() || terms.len() as u64 >= FOLD;
        Ok(if step == Step::Done && is_more { Step::Again } else { step })
    }

    /// The oldest terms that no index has yet become a part of it.
    fn fold(&self, bucket: Bucket<'_>, job: &Job<'_>, basis: &Basis) -> Result<Step, Failure> {
        let read = Operation::Read { log: TERMS, end: LogEnd::Oldest, max_records: FOLD, max_bytes: 1 << 20 };
        let Some(mut outcomes) = self.read_on(bucket, basis, read)? else { return Ok(Step::Ended) };
        let run = outcomes.records()?;
        let found: Vec<_> = (run.first..)
            .zip(&run.records)
            .filter_map(|(position, text)| Some((position, read_terms(text)?)))
            .collect();
        let documents: Vec<Posting<'_>> = found
            .iter()
            .map(|(position, found)| Posting { position: *position, mark: found.mark, terms: &found.terms })
            .collect();
        let count = run.records.len() as u64;
        let operations = [
            Operation::Post { index: INDEX, documents: &documents },
            Operation::ReplaceOldest { log: TERMS, count, records: &[] },
        ];
        let next = Some(run.extent.next());
        let expectations = [Expectation::Log { log: TERMS, first: Some(run.extent.first), next }];
        let step = self.write_back(bucket, job, basis, &expectations, &operations)?;
        Ok(if step == Step::Done { Step::Again } else { step })
    }

    /// What the transcript has no more goes: a stretch of it.
    fn drop_oldest(&self, bucket: Bucket<'_>, job: &Job<'_>, basis: &Basis, first: u64) -> Result<Step, Failure> {
        let read = [
            Operation::Read { log: PASSAGES, end: LogEnd::Oldest, max_records: RUN, max_bytes: READ_BYTES },
            Operation::Read { log: TERMS, end: LogEnd::Oldest, max_records: 0, max_bytes: 0 },
        ];
        let opening = Opening::life(&basis.incarnation);
        let look = Transaction { bucket, opening, expectations: &[], operations: &read };
        let receipt = crate::reply::transact(&self.host, &look)?;
        if !receipt.is_applied() {
            return Ok(Step::Ended);
        }
        let mut outcomes = Outcomes::of(receipt);
        let run = outcomes.records()?;
        let terms = outcomes.records()?.extent;
        let count = run.records.iter().take_while(|text| is_gone(text, first)).count() as u64;
        let positions: Vec<u64> = (run.first..run.first + count).collect();
        let tail = (run.first + count).saturating_sub(terms.first).min(terms.length);
        let keys = keys(&positions);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let operations = [
            Operation::Remove { map: VECTORS, keys: &keys },
            Operation::ReplaceOldest { log: PASSAGES, count, records: &[] },
            Operation::ReplaceOldest { log: TERMS, count: tail, records: &[] },
            Operation::Unpost { index: INDEX, positions: &positions },
        ];
        let expected = |log, first| Expectation::Log { log, first: Some(first), next: None };
        let expectations = [expected(PASSAGES, run.extent.first), expected(TERMS, terms.first)];
        let step = self.write_back(bucket, job, basis, &expectations, &operations)?;
        Ok(if step == Step::Done { Step::Again } else { step })
    }

    pub(super) fn read_on(
        &self,
        bucket: Bucket<'_>,
        basis: &Basis,
        read: Operation<'_>,
    ) -> Result<Option<Outcomes>, Failure> {
        let opening = Opening::life(&basis.incarnation);
        let look = Transaction { bucket, opening, expectations: &[], operations: &[read] };
        let receipt = crate::reply::transact(&self.host, &look)?;
        Ok(receipt.is_applied().then(|| Outcomes::of(receipt)))
    }
}

/// A passage of a message that the transcript has no more, or none at all.
fn is_gone(passage: &str, first: u64) -> bool {
    Passage::parse(passage).is_none_or(|passage| passage.position < first)
}

/// Positions of an index that are below `first`, as many as one call takes out. The index as it was found without asking
/// for any terms.
pub(super) fn below(found: &FoundMatches, first: u64) -> Vec<u64> {
    let mut runs: Vec<u64> = Vec::new();
    let mut positions = Vec::new();
    for (position, _) in (found.first..).zip(&found.marks).filter(|(_, mark)| **mark != 0) {
        if position >= first {
            break;
        }
        let is_next = positions.last().is_some_and(|last| last + 1 == position) && !position.is_multiple_of(RUN);
        if !is_next {
            if runs.len() as u64 == RUNS {
                break;
            }
            runs.push(position);
        }
        positions.push(position);
        if positions.len() >= 16 * 1024 {
            break;
        }
    }
    positions
}

/// Where there are documents in an index.
pub(super) const WHERE_DOCUMENTS_ARE: Operation<'static> =
    Operation::Match { index: INDEX, terms: &[], newest: ALL, max_bytes: MATCH_BYTES };

/// How far the transcript was read.
#[derive(Default)]
pub(super) struct Read {
    /// The position to go on from.
    pub to: u64,
    /// Positions before it that are to be read once more.
    pub again: Vec<u64>,
}

impl Read {
    /// Of what can't be read: nothing was.
    pub(super) fn parse(text: &str) -> Self {
        let mut numbers = text.split(' ').map_while(integer);
        Self { to: numbers.next().unwrap_or(0), again: numbers.collect() }
    }

    pub(super) fn write(&self) -> String {
        let mut out = self.to.to_string();
        for position in &self.again {
            out.push(' ');
            keepline_json::push_number(&mut out, *position);
        }
        out
    }
}
