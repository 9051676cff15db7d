//! What corrections take out of recall.
//!
//! Promises that what is removed from the transcript is removed here in the same transaction, text, terms and vector; and that
//! nobody who read it before brings it back, since each of those writes expects that no message was changed. Positions
//! stay taken. Refuses to guess: passages are found by a term of their message's position, and compared.

use super::super::SESSION;
use super::super::desk::Address;
use super::keep::{Read, WHERE_DOCUMENTS_ARE, below};
use super::passage::{Passage, facet, read_terms};
use super::vectors::{NONE, VECTORS, keys};
use super::{INDEX, MATCH_BYTES, PASSAGES, RECALLED, TAIL_READ, TERMS};
use crate::reply;
use crate::sessions::{Answer, Sessions, store_problem};
use crate::store::{Expectation, Host, LogEnd, LogExtent, Opening, Operation, Receipt, Span, Transaction};

/// All that a store looks at.
const ALL: u64 = 131_072;
/// Messages that are noted to be read once more; of others the new words are not recalled.
const AGAIN_MAX: usize = 256;

/// The passages of some messages.
#[derive(Default)]
pub(in super::super) struct Removal {
    /// Of passages, ascending.
    positions: Vec<u64>,
    /// With nothing in their place.
    passages: Vec<(u64, &'static str)>,
    terms: Vec<(u64, &'static str)>,
    /// Their keys.
    vectors: Vec<String>,
    tail: LogExtent,
    /// How far the transcript was read, as it is, and as it will be.
    recalled: Option<String>,
    again: Option<String>,
}

impl Removal {
    /// The keys of the vectors that go.
    pub(in super::super) fn vectors(&self) -> Vec<&str> {
        self.vectors.iter().map(String::as_str).collect()
    }

    /// To be done with the correction.
    pub(in super::super) fn operations<'a>(&'a self, vectors: &'a [&'a str]) -> Vec<Operation<'a>> {
        let mut operations = Vec::with_capacity(5);
        if !self.positions.is_empty() {
            operations.push(Operation::Remove { map: VECTORS, keys: vectors });
            operations.push(Operation::Rewrite { log: PASSAGES, records: &self.passages });
            operations.push(Operation::Rewrite { log: TERMS, records: &self.terms });
            operations.push(Operation::Unpost { index: INDEX, positions: &self.positions });
        }
        if let Some(text) = &self.again {
            operations.push(Operation::Put { map: SESSION, key: RECALLED, text });
        }
        operations
    }

    /// What has to be as it was found: nothing was folded, appended or dropped.
    pub(in super::super) fn expectations(&self) -> Vec<Expectation<'_>> {
        let Some(text) = &self.recalled else {
            return vec![Expectation::Absent { map: SESSION, key: RECALLED }];
        };
        let LogExtent { first, .. } = self.tail;
        vec![
            Expectation::Equal { map: SESSION, key: RECALLED, text },
            Expectation::Log { log: TERMS, first: Some(first), next: Some(self.tail.next()) },
        ]
    }
}

/// With a transcript that begins anew: nothing of the old one is recalled. What the index has of it is dropped after that.
pub(in super::super) const ANEW: [Operation<'static>; 3] =
    [Operation::ResetLog { log: PASSAGES, records: &[] }, Operation::ResetLog { log: TERMS, records: &[] }, NONE];

impl<H: Host> Sessions<H> {
    /// What there is of messages that are about to be removed or, if `is_kept`, put in other words; `recalled` is how far
    /// the transcript was read. Two waits; none where nothing was.
    pub(in super::super) fn recalled(
        &self,
        at: &Address<'_>,
        life: &str,
        recalled: Option<&str>,
        positions: &[u64],
        is_kept: bool,
    ) -> Answer<Removal> {
        let mut removal = Removal::default();
        let Some(recalled) = recalled.filter(|_| self.host().capabilities().indexes) else { return Ok(removal) };
        let mut facets: Vec<u32> = positions.iter().map(|position| facet(*position)).collect();
        facets.sort_unstable();
        facets.dedup();
        let operations =
            [Operation::Match { index: INDEX, terms: &facets, newest: ALL, max_bytes: MATCH_BYTES }, TAIL_READ];
        let (_, mut outcomes) = self.look(at.session, at.bucket(), Opening::life(life), &operations)?;
        let found = self.told(at.session, outcomes.matches())?;
        let tail = self.told(at.session, outcomes.records())?;
        let mut candidates: Vec<u64> =
            found.terms.iter().flatten().map(|offset| found.first + u64::from(*offset)).collect();
        let has_facet = |text: &String| {
            read_terms(text).is_some_and(|it| facets.iter().any(|facet| it.terms.binary_search(facet).is_ok()))
        };
        candidates.extend((tail.first..).zip(&tail.records).filter(|(_, text)| has_facet(text)).map(|(at, _)| at));
        candidates.sort_unstable();
        candidates.dedup();
        if !candidates.is_empty() {
            let spans: Vec<Span> = candidates.iter().map(|&position| Span { position, count: 1 }).collect();
            let read = [Operation::ReadSpans { log: PASSAGES, spans: &spans, max_bytes: 8 << 20 }];
            let (_, mut outcomes) = self.look(at.session, at.bucket(), Opening::life(life), &read)?;
            for run in self.told(at.session, outcomes.spans())? {
                let passage = run.records.first().and_then(|text| Passage::parse(text));
                if passage.is_some_and(|passage| positions.contains(&passage.position)) {
                    removal.positions.push(run.first);
                }
            }
        }
        removal.passages = removal.positions.iter().map(|&position| (position, "")).collect();
        removal.vectors = keys(&removal.positions);
        removal.terms.extend(removal.passages.iter().filter(|(position, _)| *position >= tail.extent.first));
        removal.tail = tail.extent;
        if is_kept {
            let mut read = Read::parse(recalled);
            read.again.extend(positions.iter().filter(|&&position| position < read.to));
            read.again.sort_unstable();
            read.again.dedup();
            read.again.truncate(AGAIN_MAX);
            removal.again = Some(read.write());
        }
        removal.recalled = Some(recalled.to_owned());
        Ok(removal)
    }

    /// Take out of the index what no passage is left of.
    pub(in super::super) fn drop_documents(&self, at: &Address<'_>) -> Answer<()> {
        if !self.host().capabilities().indexes {
            return Ok(());
        }
        loop {
            let operations = [
                Operation::Read { log: PASSAGES, end: LogEnd::Newest, max_records: 0, max_bytes: 0 },
                WHERE_DOCUMENTS_ARE,
            ];
            let look = |operations: &[Operation<'_>]| -> Answer<Receipt> {
                let (bucket, opening) = (at.bucket(), Opening::LOOK);
                let look = Transaction { bucket, opening, expectations: &[], operations };
                reply::transact(self.host(), &look).map_err(|failure| store_problem(at.session, &failure))
            };
            let receipt = look(&operations)?;
            if !receipt.is_applied() {
                return Ok(());
            }
            let mut outcomes = reply::Outcomes::of(receipt);
            let first = self.told(at.session, outcomes.records())?.extent.first;
            let positions = below(&self.told(at.session, outcomes.matches())?, first);
            if positions.is_empty() {
                return Ok(());
            }
            look(&[Operation::Unpost { index: INDEX, positions: &positions }])?;
        }
    }
}

/// What is forgotten with a transcript that begins anew.
pub(in super::super) const ONCE: &str = RECALLED;
