//! Indexes: the documents that have a term, in segments of positions, each sorted by term.

use std::collections::BTreeMap;

use crate::{
    AddDocumentsStep, Document, FoundDocuments, IndexExtent, ReadMarksStep, RemoveDocumentsStep, SearchStep,
    index::{self, HitCollector, PositionRun, SEGMENT},
};

/// What an index takes beside its name and segments.
const INDEX_OVERHEAD: u64 = 1440;
/// What a segment takes beside what it holds.
const SEGMENT_OVERHEAD: u64 = 160;

#[derive(Debug, Default)]
pub(super) struct BucketIndex {
    next: u64,
    documents: u64,
    /// Terms of all documents, each counted in each document.
    occurrences: u64,
    /// None of them empty.
    segments: BTreeMap<u64, Segment>,
}

/// Documents and their terms at so many positions.
#[derive(Debug, Default)]
struct Segment {
    /// Ascending: a position, counted from the segment's first, and its mark.
    marks: Vec<(u16, u16)>,
    /// Ascending: each a term and, in the lower bits, a position where it occurs.
    occurrences: Vec<u32>,
}

impl BucketIndex {
    pub(super) const EMPTY: Self = Self { next: 0, documents: 0, occurrences: 0, segments: BTreeMap::new() };

    pub(super) fn extent(&self) -> IndexExtent {
        IndexExtent { next: self.next, documents: self.documents, occurrences: self.occurrences }
    }

    /// By how many bytes documents make it grow.
    pub(super) fn added_bytes(&self, documents: &[Document]) -> u64 {
        let mut last = self.segments.last_key_value().map(|(segment, _)| *segment);
        let mut growth = 0;
        for document in documents {
            let segment = Some(document.position / SEGMENT);
            growth += if segment == last { 0 } else { SEGMENT_OVERHEAD };
            growth += contents_cost(1, document.terms.len() as u64);
            last = segment;
        }
        growth
    }

    /// By how many bytes the removal of these positions makes it shrink.
    pub(super) fn removed_bytes(&self, runs: &[PositionRun]) -> u64 {
        let mut shrinkage = 0;
        for runs in runs.chunk_by(|one, other| one.segment == other.segment) {
            let Some(segment) = runs.first().and_then(|run| self.segments.get(&run.segment)) else { continue };
            let documents =
                segment.marks.iter().filter(|(offset, _)| contains_offset(runs, u64::from(*offset))).count();
            let terms = segment.occurrences.iter().filter(|entry| contains_offset(runs, offset(**entry))).count();
            let is_emptied = documents == segment.marks.len();
            shrinkage += contents_cost(documents as u64, terms as u64) + u64::from(is_emptied) * SEGMENT_OVERHEAD;
        }
        shrinkage
    }

    /// Add documents that are [above](index::check_above) all others.
    pub(super) fn add_documents(&mut self, step: &AddDocumentsStep) {
        for documents in step.documents.chunk_by(|one, other| one.position / SEGMENT == other.position / SEGMENT) {
            let Some(first) = documents.first() else { continue };
            let segment = self.segments.entry(first.position / SEGMENT).or_default();
            // As much as is counted: a vector that doubles would take twice that.
            segment.marks.reserve_exact(documents.len());
            segment.occurrences.reserve_exact(documents.iter().map(|document| document.terms.len()).sum());
            for Document { position, mark, terms } in documents {
                let offset = (position % SEGMENT) as u16;
                segment.marks.push((offset, *mark));
                segment.occurrences.extend(terms.iter().map(|term| term << 10 | u32::from(offset)));
                self.occurrences += terms.len() as u64;
            }
            // What was there is sorted already, which makes this cheap.
            segment.occurrences.sort();
            self.documents += documents.len() as u64;
        }
        self.next = index::next_after(step, self.next);
    }

    pub(super) fn remove_documents(&mut self, step: &RemoveDocumentsStep) {
        for runs in index::group_into_runs(&step.positions).chunk_by(|one, other| one.segment == other.segment) {
            let Some(number) = runs.first().map(|run| run.segment) else { continue };
            let Some(segment) = self.segments.get_mut(&number) else { continue };
            let (documents, terms) = (segment.marks.len(), segment.occurrences.len());
            segment.marks.retain(|(offset, _)| !contains_offset(runs, u64::from(*offset)));
            segment.occurrences.retain(|entry| !contains_offset(runs, offset(*entry)));
            self.documents -= (documents - segment.marks.len()) as u64;
            self.occurrences -= (terms - segment.occurrences.len()) as u64;
            if segment.marks.is_empty() {
                self.segments.remove(&number);
            } else if segment.occurrences.capacity() > 4 * segment.occurrences.len() {
                segment.occurrences.shrink_to_fit();
            }
        }
    }

    pub(super) fn search(&self, step: &SearchStep) -> FoundDocuments {
        let mut hits = HitCollector::new(self.extent(), step);
        for (number, segment) in self.segments.range(hits.oldest_position() / SEGMENT..) {
            for (place, term) in step.terms.iter().enumerate() {
                let from = segment.occurrences.partition_point(|entry| entry >> 10 < *term);
                let entries = segment.occurrences.iter().skip(from).take_while(|entry| **entry >> 10 == *term);
                entries.for_each(|entry| hits.record(place, number * SEGMENT + offset(*entry)));
            }
        }
        self.with_marks(hits.finish())
    }

    pub(super) fn read_marks(&self, step: &ReadMarksStep) -> FoundDocuments {
        self.with_marks(index::marks_to_read(self.extent(), step))
    }

    /// Fills the marks of the runs in.
    fn with_marks(&self, mut found: FoundDocuments) -> FoundDocuments {
        let base = found.from_position;
        for run in &mut found.runs {
            let begin = base + u64::from(run.offset);
            let end = begin + run.marks.len() as u64;
            for (number, segment) in self.segments.range(begin / SEGMENT..end.div_ceil(SEGMENT)) {
                let first = number * SEGMENT;
                let from = segment.marks.partition_point(|(offset, _)| first + u64::from(*offset) < begin);
                for (offset, mark) in segment.marks.iter().skip(from) {
                    let place = usize::try_from(first + u64::from(*offset) - begin).unwrap_or(usize::MAX);
                    match run.marks.get_mut(place) {
                        Some(at) => *at = *mark,
                        None => break,
                    }
                }
            }
        }
        found
    }

    /// The cost, counted again from what is there.
    #[cfg(test)]
    pub(super) fn counted_cost(&self, name: &str) -> u64 {
        let of_segment = |segment: &Segment| {
            SEGMENT_OVERHEAD + contents_cost(segment.marks.len() as u64, segment.occurrences.len() as u64)
        };
        index_cost(name) + self.segments.values().map(of_segment).sum::<u64>()
    }
}

fn offset(entry: u32) -> u64 {
    u64::from(entry) % SEGMENT
}

/// Whether one of the runs, which are a few, has this position.
fn contains_offset(runs: &[PositionRun], offset: u64) -> bool {
    runs.iter().any(|run| (run.low..=run.high).contains(&offset))
}

pub(super) fn index_cost(name: &str) -> u64 {
    INDEX_OVERHEAD.saturating_add(name.len() as u64)
}

fn contents_cost(documents: u64, terms: u64) -> u64 {
    documents.saturating_add(terms).saturating_mul(4)
}
