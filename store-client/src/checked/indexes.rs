//! Indexes: marks and offsets that are within what was asked for.

use crate::{FoundDocuments, IndexExtent, IndexStep, TermHits};

/// Positions are below this.
const POSITIONS: u64 = 1 << 53;

/// Whether these are the documents that the step may find.
pub fn are_found(found: &FoundDocuments, asked: &IndexStep<'_>) -> bool {
    let extent = found.extent;
    is_valid_index_extent(extent)
        && match asked {
            IndexStep::AddDocuments(_) | IndexStep::RemoveDocuments(_) => true,
            IndexStep::Search(search) => {
                let Some(positions) = extent.next.checked_sub(found.from_position) else { return false };
                let is_within = |TermHits { offsets }: &TermHits| {
                    offsets.is_sorted_by(|one, other| one < other)
                        && offsets.last().is_none_or(|last| u64::from(*last) < positions)
                };
                let occurrences: u64 = found.terms.iter().map(|term| term.offsets.len() as u64).sum();
                let marks: u64 = found.runs.iter().map(|run| 8 + 2 * run.marks.len() as u64).sum();
                positions <= search.newest
                    && marks + 4 * occurrences <= search.max_bytes
                    && are_runs(found, positions)
                    && found.terms.len() == search.terms.len()
                    && found.terms.iter().all(is_within)
            }
            IndexStep::ReadMarks(read) => {
                let end = read.from_position.saturating_add(read.count.into());
                let first = found.from_position >= read.from_position || found.from_position == extent.next;
                first && are_runs(found, end.saturating_sub(found.from_position))
            }
        }
}

/// Whether the index has a place for its documents.
fn is_valid_index_extent(extent: IndexExtent) -> bool {
    extent.next <= POSITIONS && extent.documents <= extent.next
}

/// Whether the runs of marks are ascending and disjoint, and within so many positions.
fn are_runs(found: &FoundDocuments, positions: u64) -> bool {
    let mut end = 0;
    found.runs.iter().all(|run| {
        let is_after = u64::from(run.offset) >= end;
        end = u64::from(run.offset) + run.marks.len() as u64;
        is_after && end <= positions
    })
}
