//! Passages that have to go: texts, terms and vectors.
//!
//! Promises that all of them are found: by terms that the passages of a message, and of a session, have and few others,
//! and compared. Positions stay taken. Refuses to take out more in one transaction than stores can: what is left is found
//! again.

use crate::contract::{
    BucketId, Expectation, Host, IndexStep, IndexedTransaction, LogEnd, LogRun, Operation, PositionedRecord,
    Precondition, Problem, Span, Status, StoreLimits, Transaction,
};
use crate::options::conversation::bounded;
use crate::recall::passage::Passage;
use crate::recall::schema::{ALL_POSITIONS, INDEX, MATCH_BYTES, PASSAGES, RUN, TERMS};
use crate::recall::vectors::{RESET_VECTORS, VECTORS, vector_keys};
use crate::store;
use crate::store::Outcomes;
use keepline_recall::Posting;

/// What is read at once of terms that no index has yet, and of passages.
const TAIL: u32 = 2000;

const TAIL_BYTES: u64 = 4 << 20;

const CANDIDATES: usize = 4096;

const READ_BYTES: u64 = 8 << 20;

/// Lists are walked from their nearer end: so far in all.
const DEPTH: u64 = 1 << 20;

/// Some passages.
#[derive(Default)]
struct FoundPassages {
    /// Ascending.
    positions: Vec<u64>,
    /// Where both logs began.
    first: [u64; 2],
    /// Whether there are no more of them.
    is_whole: bool,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalResult {
    /// All of them are out.
    Complete,
    /// Some are.
    Partial,
    /// It was not as expected.
    Unmet,
    /// There is no such bucket.
    NoBucket,
}

/// What is taken out of a bucket: passages that have one of these terms, and are meant.
pub(crate) struct PassageRemoval<'a> {
    pub bucket: BucketId<'a>,
    pub precondition: Precondition<'a>,
    pub facets: &'a [u32],
    pub is_meant: &'a dyn Fn(&Passage<'_>) -> bool,
}

impl PassageRemoval<'_> {
    /// Those that have one of these terms, and are meant. None: the bucket is not there. Two waits; one, if there are none.
    fn find(&self, host: &impl Host) -> Result<Option<FoundPassages>, Box<Problem>> {
        let Self { bucket, precondition, is_meant, .. } = *self;
        // Two may be the same number, and each is asked for once.
        let mut once: Vec<u32> = Vec::with_capacity(self.facets.len());
        for facet in self.facets {
            if !once.contains(facet) {
                once.push(*facet);
            }
        }
        let facets = &*once;
        let look = |operations: &[Operation<'_>]| store::read_bucket(host, bucket, precondition, operations);
        let tail = Operation::read(TERMS, LogEnd::Newest, TAIL.into(), TAIL_BYTES);
        let transaction =
            Transaction { bucket, precondition, expectations: &[], operations: &[tail, WHERE_PASSAGES_ARE] };
        let steps = [IndexStep::search(INDEX, facets, ALL_POSITIONS, MATCH_BYTES)];
        let reply = store::transact_indexed(host, &IndexedTransaction { steps: &steps, ..transaction.into() })?;
        if !reply.receipt.is_applied() {
            return Ok(None);
        }
        let mut outcomes = Outcomes::of_indexed(reply);
        let found = outcomes.take_found()?;
        let mut tail = outcomes.take_records()?;
        let passages = outcomes.take_records()?.extent;
        let first = [passages.first, tail.extent.first];
        let offsets = found.terms.iter().flat_map(|term| &term.offsets);
        let mut candidates: Vec<u64> = offsets.map(|offset| found.from_position + u64::from(*offset)).collect();
        let has_facet = |text: &String| {
            Posting::from_text(text).is_some_and(|it| facets.iter().any(|facet| it.terms.binary_search(facet).is_ok()))
        };
        let mut is_whole = true;
        while is_whole {
            let LogRun { extent, first, records } = &tail;
            candidates.extend((*first..).zip(records).filter(|(_, text)| has_facet(text)).map(|(at, _)| at));
            if *first <= extent.first || records.is_empty() {
                break;
            }
            let position = first.saturating_sub(TAIL.into()).max(extent.first);
            let count = u32::try_from(first - position).unwrap_or(TAIL);
            let span = [Span { position, count }];
            let older = Operation::read_at(TERMS, &span, TAIL_BYTES);
            let Some(mut outcomes) = look(&[older])? else { return Ok(None) };
            tail = outcomes.take_records()?;
            // A store may give less than is asked for.
            is_whole = tail.end() == position + u64::from(count);
        }
        let mut candidates = store::heap_sorted(candidates);
        candidates.dedup();
        // Each is a key, two records and a position.
        let limits = host.store_profile().limits;
        let most = bounded(CANDIDATES, (limits.call_pieces / 4).saturating_sub(100));
        let mut removal =
            FoundPassages { first, is_whole: is_whole && candidates.len() <= most, ..FoundPassages::default() };
        candidates.truncate(most);
        candidates.retain(|&position| position >= passages.first && position < passages.next());
        if candidates.is_empty() {
            return Ok(Some(removal));
        }
        let spans: Vec<Span> = candidates.iter().map(|&position| Span { position, count: 1 }).collect();
        let read = [Operation::read_at(PASSAGES, &spans, READ_BYTES)];
        let Some(mut outcomes) = look(&read)? else { return Ok(None) };
        let runs = outcomes.take_spans()?;
        removal.is_whole &= runs.len() == candidates.len();
        let mut cut = RemovalRuns::new(limits);
        let mut depth = 0;
        for run in &runs {
            let passage = run.records.first().and_then(|text| Passage::parse(text));
            if !passage.is_some_and(|passage| is_meant(&passage)) {
                continue;
            }
            depth += (run.first - passages.first).min(passages.next() - run.first);
            if (depth > DEPTH && !cut.positions.is_empty()) || !cut.try_push(run.first) {
                removal.is_whole = false;
                break;
            }
        }
        removal.positions = cut.positions;
        Ok(Some(removal))
    }

    /// Take out as many as one transaction can, with `operations`; with `last`, if these are all. Three waits; two if there
    /// are none.
    pub(crate) fn remove_batch(
        &self,
        host: &impl Host,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
        last: Option<Operation<'_>>,
    ) -> Result<RemovalResult, Box<Problem>> {
        let Self { bucket, precondition, .. } = *self;
        let Some(removal) = self.find(host)? else { return Ok(RemovalResult::NoBucket) };
        let [passages, terms] = removal.first;
        let keys = vector_keys(removal.positions.iter().copied());
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        // Nothing is left in their place.
        let texts: Vec<_> = removal.positions.iter().map(|&position| PositionedRecord { position, text: "" }).collect();
        // Those of older ones are in the index alone.
        let listed = texts.get(texts.partition_point(|record| record.position < terms)..).unwrap_or_default();
        let mut all = operations.to_vec();
        if !removal.positions.is_empty() {
            all.push(Operation::remove(VECTORS, &keys));
            all.push(Operation::rewrite(PASSAGES, &texts));
            all.push(Operation::rewrite(TERMS, listed));
        }
        all.extend(last.filter(|_| removal.is_whole));
        // Nothing was folded or dropped meanwhile.
        let mut expected = expectations.to_vec();
        for (log, first) in [(PASSAGES, passages), (TERMS, terms)] {
            expected.push(Expectation::log(log, Some(first), None));
        }
        let transaction = Transaction { bucket, precondition, expectations: &expected, operations: &all };
        let steps = [IndexStep::remove_documents(INDEX, &removal.positions)];
        let steps = steps.get(usize::from(removal.positions.is_empty())..).unwrap_or_default();
        let done = IndexedTransaction { lease: None, transaction, steps };
        Ok(match store::transact_indexed(host, &done)?.receipt.status {
            Status::Applied | Status::Repeated if removal.is_whole => RemovalResult::Complete,
            Status::Applied | Status::Repeated if !removal.positions.is_empty() => RemovalResult::Partial,
            Status::Applied | Status::Repeated | Status::Unmet => RemovalResult::Unmet,
            _ => RemovalResult::NoBucket,
        })
    }
}

/// Where the log of passages stands.
pub(crate) const WHERE_PASSAGES_ARE: Operation<'static> = Operation::read(PASSAGES, LogEnd::Newest, 0, 0);

/// Positions that one call can take out of an index.
pub(crate) struct RemovalRuns {
    pub positions: Vec<u64>,
    runs: u64,
    limits: StoreLimits,
}

impl RemovalRuns {
    fn new(limits: StoreLimits) -> Self {
        Self { positions: Vec::new(), runs: 0, limits }
    }

    /// One more, above the others; whether there is room for it.
    pub(crate) fn try_push(&mut self, position: u64) -> bool {
        let goes_on = self.positions.last().is_some_and(|last| last + 1 == position) && !position.is_multiple_of(RUN);
        let most = (16 * RUN).min(self.limits.call_pieces / 6 * 5);
        if (!goes_on && self.runs == self.limits.remove_runs) || self.positions.len() as u64 >= most {
            return false;
        }
        self.runs += u64::from(!goes_on);
        self.positions.push(position);
        true
    }
}

/// Positions of an index that no passage is left of, as many as one call takes out; passages begin at `first`. One wait,
/// in which those that were found before are taken out.
pub(crate) fn find_orphans(
    host: &impl Host,
    bucket: BucketId<'_>,
    precondition: Precondition<'_>,
    first: u64,
    before: &[u64],
) -> Result<Vec<u64>, Box<Problem>> {
    let count = first.min(ALL_POSITIONS);
    let steps = [
        IndexStep::remove_documents(INDEX, before),
        IndexStep::read_marks(INDEX, first - count, u32::try_from(count).unwrap_or(u32::MAX)),
    ];
    let steps = steps.get(usize::from(before.is_empty())..).unwrap_or_default();
    let transaction = Transaction { bucket, precondition, expectations: &[], operations: &[] };
    let reply = store::transact_indexed(host, &IndexedTransaction { steps, ..transaction.into() })?;
    let mut runs = RemovalRuns::new(host.store_profile().limits);
    let Some(found) = reply.found.last() else { return Ok(runs.positions) };
    for run in &found.runs {
        let begin = found.from_position + u64::from(run.offset);
        for (position, _) in (begin..first).zip(&run.marks).filter(|(_, mark)| **mark != 0) {
            if !runs.try_push(position) {
                return Ok(runs.positions);
            }
        }
    }
    Ok(runs.positions)
}

/// With a transcript that begins anew: nothing of the old one is recalled. What the index has of it is dropped after that.
pub(crate) const RESET_PASSAGES: [Operation<'static>; 3] =
    [Operation::reset_log(PASSAGES, &[]), Operation::reset_log(TERMS, &[]), RESET_VECTORS];

/// Take out of the index what no passage is left of; passages begin at `first`. One wait, and one more for each batch.
pub(crate) fn drop_orphans(host: &impl Host, bucket: BucketId<'_>, first: u64) -> Result<(), Box<Problem>> {
    if first == 0 || !host.store_profile().indexes {
        return Ok(());
    }
    let mut positions = Vec::new();
    loop {
        positions = find_orphans(host, bucket, Precondition::LOOK, first, &positions)?;
        if positions.is_empty() {
            return Ok(());
        }
    }
}
