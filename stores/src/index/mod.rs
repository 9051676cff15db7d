//! The part of indexes that all stores share: checks requests, and makes the answer from what a store found.
//!
//! Where the contract speaks of 1,024 positions it means those from one multiple of that to the next: a *segment*. Stores
//! that keep bytes share the form of these, too: see `segments`.

#[cfg(any(feature = "directory", feature = "redis"))]
pub(crate) mod segments;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use crate::{
    Failure, FailureCode, FoundMatches, IndexExtent, MatchOperation, PostOperation, TermMatches, failure,
    limits::{MAX_MATCH_BYTES, MAX_NEWEST},
};

/// Positions of a segment.
pub(crate) const SEGMENT: u64 = 1024;
/// Terms are below this.
const TERMS: u32 = 1 << 22;
/// Positions are below this: Lua's numbers are exact up to here.
const POSITIONS: u64 = 1 << 53;

pub(crate) fn check_documents(post: &PostOperation) -> Result<(), Failure> {
    let mut next = 0;
    for document in &post.documents {
        if !(next..POSITIONS).contains(&document.position) {
            let message = format!(
                "position {} is out of order: positions are below 2^53 and rise from document to document",
                document.position
            );
            return Err(failure(FailureCode::Invalid, "position", message));
        }
        next = document.position + 1;
        let rises = document.terms.is_sorted_by(|one, other| one < other);
        if !rises || document.terms.last().is_some_and(|term| *term >= TERMS) {
            let message = format!(
                "the terms of position {} are not in order: terms are below 2^22 and rise, each given once",
                document.position
            );
            return Err(failure(FailureCode::Invalid, "terms", message));
        }
    }
    Ok(())
}

/// Refuses searches for invalid terms, or for one term twice.
pub(crate) fn check_terms(terms: &[u32]) -> Result<(), Failure> {
    let mut seen = HashSet::with_capacity(terms.len());
    match terms.iter().find(|term| **term >= TERMS || !seen.insert(**term)) {
        None => Ok(()),
        Some(term) => {
            let message = format!("term {term} is not allowed here: terms are below 2^22, each asked for once");
            Err(failure(FailureCode::Invalid, "terms", message))
        }
    }
}

/// Refuses documents that are not above all that were ever posted to an index; `next` is one more than the highest.
pub(crate) fn check_above(post: &PostOperation, next: u64) -> Result<(), Failure> {
    match post.documents.first() {
        Some(first) if first.position < next => Err(not_above(&post.index)),
        _ => Ok(()),
    }
}

pub(crate) fn not_above(index: &str) -> Failure {
    let message = format!("the index {index} has had higher positions; documents are posted above all of them");
    failure(FailureCode::Invalid, index, message)
}

/// Where the documents are, once they are posted to an index that stands at `next`.
pub(crate) fn next_after(post: &PostOperation, next: u64) -> u64 {
    post.documents.last().map_or(next, |last| last.position.saturating_add(1))
}

/// What an index comes to, as a description tells it.
pub(crate) fn estimate_bytes(documents: u64, terms: u64) -> u64 {
    documents.saturating_mul(4).saturating_add(terms.saturating_mul(3))
}

/// A run of positions within a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionRun {
    pub(crate) segment: u64,
    /// Counted from the segment's first position.
    pub(crate) low: u64,
    /// The last of it.
    pub(crate) high: u64,
}

/// Positions as runs, in ascending order: as few as possible.
pub(crate) fn group_into_runs(positions: &[u64]) -> Vec<PositionRun> {
    let mut positions = positions.to_vec();
    positions.sort_unstable();
    let mut runs: Vec<PositionRun> = Vec::new();
    for position in positions {
        let (segment, offset) = (position / SEGMENT, position % SEGMENT);
        match runs.last_mut().filter(|run| run.segment == segment && offset <= run.high + 1) {
            Some(run) => run.high = offset,
            None => runs.push(PositionRun { segment, low: offset, high: offset }),
        }
    }
    runs
}

/// The oldest position that a match looks at in an index that stands at `next`.
pub(crate) fn oldest_matched_position(step: &MatchOperation, next: u64) -> u64 {
    next.saturating_sub(step.newest.min(MAX_NEWEST))
}

/// The answer to a match in the making.
#[derive(Debug)]
pub(crate) struct MatchCollector {
    extent: IndexExtent,
    first: u64,
    marks: Vec<u16>,
    terms: Vec<Vec<u32>>,
}

impl MatchCollector {
    /// Nothing was found yet, and nothing below `first` is looked at, which is at most `MAX_NEWEST` below the end.
    pub(crate) fn new(extent: IndexExtent, first: u64, terms: usize) -> Self {
        let first = first.clamp(extent.next.saturating_sub(MAX_NEWEST), extent.next);
        let length = usize::try_from(extent.next - first).unwrap_or(0);
        Self { extent, first, marks: vec![0; length], terms: vec![Vec::new(); terms] }
    }

    /// There is a document at a position, if that is looked at.
    pub(crate) fn record_mark(&mut self, position: u64, mark: u16) {
        let place = position.checked_sub(self.first).and_then(|offset| usize::try_from(offset).ok());
        if let Some(told) = place.and_then(|place| self.marks.get_mut(place)) {
            *told = mark;
        }
    }

    /// The term of this place among those asked for occurs at a position: above all where it did so far.
    pub(crate) fn record_occurrence(&mut self, term: usize, position: u64) {
        let offset = position.checked_sub(self.first).and_then(|offset| u32::try_from(offset).ok());
        let within = offset.filter(|offset| (*offset as usize) < self.marks.len());
        if let (Some(offset), Some(offsets)) = (within, self.terms.get_mut(term))
            && offsets.last().is_none_or(|last| *last < offset)
        {
            offsets.push(offset);
        }
    }

    /// The newest of it, as much as there is room for.
    pub(crate) fn finish(mut self, max_bytes: u64) -> FoundMatches {
        let left_out = self.left_out(max_bytes.min(MAX_MATCH_BYTES));
        if left_out > 0 {
            self.marks.drain(..left_out);
            // Less than `MAX_NEWEST`.
            let by = u32::try_from(left_out).unwrap_or(u32::MAX);
            for offsets in &mut self.terms {
                offsets.drain(..offsets.partition_point(|offset| *offset < by));
                offsets.iter_mut().for_each(|offset| *offset -= by);
            }
        }
        FoundMatches {
            extent: self.extent,
            first: self.first + left_out as u64,
            marks: self.marks,
            terms: self.terms.into_iter().map(|offsets| TermMatches { offsets }).collect(),
        }
    }

    /// How many of the oldest positions are left out.
    fn left_out(&self, max_bytes: u64) -> usize {
        let occurrences: usize = self.terms.iter().map(Vec::len).sum();
        if (2 * self.marks.len() + 4 * occurrences) as u64 <= max_bytes {
            return 0;
        }
        let mut bytes = vec![2_u64; self.marks.len()];
        for offset in self.terms.iter().flatten() {
            if let Some(bytes) = bytes.get_mut(*offset as usize) {
                *bytes += 4;
            }
        }
        let mut sum = 0;
        let fits = |of_position: &&u64| {
            sum += **of_position;
            sum <= max_bytes
        };
        self.marks.len() - bytes.iter().rev().take_while(fits).count()
    }
}
