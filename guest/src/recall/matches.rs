//! What the index found for a question: a mark for each position, and where each term occurs.
//!
//! A store returns the marks of hits and of their neighbours only. The other positions are taken for documents of mean
//! length, as many as the index has: scores depend on the mean, and on whatever stands within five positions of a hit.

use keepline_recall::DocumentMark;

use crate::contract::{FoundDocuments, MarkRun, TermHits};

/// What the index found.
#[derive(Default)]
pub(crate) struct RecallMatches {
    /// The position of the first mark.
    pub first: u64,
    /// One for each position up to the index's end; 0: no document.
    pub marks: Vec<u16>,
    /// Where each term occurs, by its offset into `marks`.
    pub terms: Vec<TermHits>,
}

impl RecallMatches {
    /// `facets`: terms of each document that its mark does not count.
    pub(crate) fn of(found: FoundDocuments, facets: u64) -> Self {
        let FoundDocuments { extent, from_position: first, runs, terms } = found;
        let mut marks = vec![0; usize::try_from(extent.next.saturating_sub(first)).unwrap_or(0)];
        let known: usize = runs.iter().flat_map(|run| &run.marks).filter(|mark| **mark != 0).count();
        let mut unknown = extent.documents.saturating_sub(known as u64);
        let mean = extent.occurrences.checked_div(extent.documents).unwrap_or(0).saturating_sub(facets);
        let mean = usize::try_from(mean).unwrap_or(usize::MAX);
        let mean = DocumentMark::new(mean, mean, false).encode();
        // From the newest position back: what is removed are mostly the oldest.
        let mut end = marks.len();
        for MarkRun { offset, marks: of_run } in runs.iter().rev() {
            let begin = *offset as usize;
            fill(&mut marks, begin + of_run.len()..end, mean, &mut unknown);
            if let Some(place) = marks.get_mut(begin..begin + of_run.len()) {
                place.copy_from_slice(of_run);
            }
            end = begin;
        }
        fill(&mut marks, 0..end, mean, &mut unknown);
        Self { first, marks, terms }
    }
}

/// Fill as many of these places as there are documents left, the last ones first.
fn fill(marks: &mut [u16], places: std::ops::Range<usize>, mean: u16, left: &mut u64) {
    let places = marks.get_mut(places).unwrap_or_default();
    let count = places.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= count as u64;
    let from = places.len() - count;
    places.get_mut(from..).unwrap_or_default().fill(mean);
}
