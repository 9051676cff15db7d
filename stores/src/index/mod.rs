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
    AddDocumentsStep, Failure, FailureCode, FoundDocuments, IndexExtent, MarkRun, ReadMarksStep, SearchStep, TermHits,
    failure,
    limits::{MAX_AROUND, MAX_NEWEST, MAX_SEARCH_BYTES},
};

/// Positions of a segment.
pub(crate) const SEGMENT: u64 = 1024;
/// Terms are below this.
const TERMS: u32 = 1 << 22;
/// Positions are below this: Lua's numbers are exact up to here.
const POSITIONS: u64 = 1 << 53;

pub(crate) fn check_documents(step: &AddDocumentsStep) -> Result<(), Failure> {
    let mut next = 0;
    for document in &step.documents {
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

/// Refuses documents that are not above all that were ever added to an index; `next` is one more than the highest.
pub(crate) fn check_above(step: &AddDocumentsStep, next: u64) -> Result<(), Failure> {
    match step.documents.first() {
        Some(first) if first.position < next => Err(not_above(&step.index)),
        _ => Ok(()),
    }
}

pub(crate) fn not_above(index: &str) -> Failure {
    let message = format!("the index {index} has had higher positions; documents are added above all of them");
    failure(FailureCode::Invalid, index, message)
}

/// Where the documents are, once they are added to an index that stands at `next`.
pub(crate) fn next_after(step: &AddDocumentsStep, next: u64) -> u64 {
    step.documents.last().map_or(next, |last| last.position.saturating_add(1))
}

/// What an index comes to, as a description tells it.
pub(crate) fn estimate_bytes(extent: &IndexExtent) -> u64 {
    extent.documents.saturating_mul(4).saturating_add(extent.occurrences.saturating_mul(3))
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

/// The answer to a step that writes: where the index stands.
pub(crate) fn found_nothing(extent: IndexExtent) -> FoundDocuments {
    FoundDocuments { from_position: extent.next, extent, runs: Vec::new(), terms: Vec::new() }
}

/// The answer to a reading of marks, with the marks still at 0.
pub(crate) fn marks_to_read(extent: IndexExtent, step: &ReadMarksStep) -> FoundDocuments {
    let count = u64::from(step.count).min(MAX_NEWEST);
    let marks = extent.next.saturating_sub(step.from_position).min(count);
    let mut found = found_nothing(extent);
    if marks > 0 {
        found.from_position = step.from_position;
        found.runs = vec![unmarked_run(0, marks)];
    }
    found
}

fn unmarked_run(offset: u64, marks: u64) -> MarkRun {
    // Both are at most `MAX_NEWEST`.
    MarkRun {
        offset: u32::try_from(offset).unwrap_or(u32::MAX),
        marks: vec![0; usize::try_from(marks).unwrap_or_default()],
    }
}

/// Notes the mark of the document at a position, if the answer has that position.
#[cfg(any(feature = "directory", feature = "redis"))]
pub(crate) fn note_mark(found: &mut FoundDocuments, position: u64, mark: u16) {
    let Some(offset) = position.checked_sub(found.from_position) else { return };
    let after = found.runs.partition_point(|run| u64::from(run.offset) <= offset);
    if let Some(run) = after.checked_sub(1).and_then(|place| found.runs.get_mut(place))
        && let Some(at) = usize::try_from(offset - u64::from(run.offset)).ok().and_then(|at| run.marks.get_mut(at))
    {
        *at = mark;
    }
}

/// Collects where the terms of a search occur, and makes the answer, still without marks.
#[derive(Debug)]
pub(crate) struct HitCollector {
    extent: IndexExtent,
    from_position: u64,
    around: u64,
    max_bytes: u64,
    /// Of each term the offsets where it occurs, ascending.
    terms: Vec<Vec<u32>>,
}

impl HitCollector {
    pub(crate) fn new(extent: IndexExtent, step: &SearchStep) -> Self {
        Self {
            from_position: extent.next.saturating_sub(step.newest.min(MAX_NEWEST)),
            extent,
            around: step.around.min(MAX_AROUND).into(),
            max_bytes: step.max_bytes.min(MAX_SEARCH_BYTES),
            terms: vec![Vec::new(); step.terms.len()],
        }
    }

    /// The oldest position that is looked at.
    pub(crate) fn oldest_position(&self) -> u64 {
        self.from_position
    }

    /// Looks at nothing below this position, because a store would have to read too much.
    #[cfg(any(feature = "directory", feature = "redis"))]
    pub(crate) fn begin_at(&mut self, position: u64) {
        self.from_position = position.clamp(self.from_position, self.extent.next);
    }

    /// The term of this place among those asked for occurs at a position: above all where it did so far.
    pub(crate) fn record(&mut self, term: usize, position: u64) {
        if !(self.from_position..self.extent.next).contains(&position) {
            return;
        }
        if let (Ok(offset), Some(offsets)) = (u32::try_from(position - self.from_position), self.terms.get_mut(term))
            && offsets.last().is_none_or(|last| *last < offset)
        {
            offsets.push(offset);
        }
    }

    /// The newest hits, as many as there is room for, with the positions around them.
    pub(crate) fn finish(self) -> FoundDocuments {
        let mut hits: Vec<u64> = self.terms.iter().flatten().map(|offset| u64::from(*offset)).collect();
        hits.sort_unstable();
        let left_out = self.left_out(&hits);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for hit in hits.into_iter().filter(|hit| *hit >= left_out) {
            let (begin, end) = (hit.saturating_sub(self.around).max(left_out), self.end_around(hit));
            match ranges.last_mut().filter(|(_, last)| begin <= *last) {
                Some((_, last)) => *last = end,
                None => ranges.push((begin, end)),
            }
        }
        FoundDocuments {
            extent: self.extent,
            from_position: self.from_position + left_out,
            runs: ranges.into_iter().map(|(begin, end)| unmarked_run(begin - left_out, end - begin)).collect(),
            terms: self.terms.into_iter().map(|offsets| TermHits { offsets: above(offsets, left_out) }).collect(),
        }
    }

    /// Where the positions around a hit end.
    fn end_around(&self, hit: u64) -> u64 {
        (hit + self.around + 1).min(self.extent.next - self.from_position)
    }

    /// How many of the oldest positions are left out: as few as possible. `hits`: ascending, a position once for each
    /// term that occurs there.
    fn left_out(&self, hits: &[u64]) -> u64 {
        let mut room = self.max_bytes;
        // The oldest position that is returned so far, and how far down the positions around its hit go.
        let mut oldest: Option<(u64, u64)> = None;
        for hits in hits.chunk_by(|one, other| one == other).rev() {
            let Some(hit) = hits.first().copied() else { continue };
            if let Some((begin, low)) = oldest {
                let around = 2 * begin.saturating_sub(low.max(hit + 1));
                if around > room {
                    return begin - room / 2;
                }
                room -= around;
            }
            let end = self.end_around(hit);
            let bytes = match oldest.map(|(begin, low)| begin.min(low.max(hit + 1))).filter(|begin| *begin <= end) {
                Some(begin) => 2 * (begin - hit),
                None => 8 + 2 * (end - hit),
            };
            let Some(left) = room.checked_sub(bytes + 4 * hits.len() as u64) else { return hit + 1 };
            room = left;
            oldest = Some((hit, hit.saturating_sub(self.around)));
        }
        match oldest {
            Some((begin, low)) if 2 * (begin - low) > room => begin - room / 2,
            _ => 0,
        }
    }
}

/// The offsets that are not left out, counted from there.
fn above(mut offsets: Vec<u32>, left_out: u64) -> Vec<u32> {
    let by = u32::try_from(left_out).unwrap_or(u32::MAX);
    offsets.drain(..offsets.partition_point(|offset| *offset < by));
    offsets.iter_mut().for_each(|offset| *offset -= by);
    offsets
}
