//! Indexes: marks and offsets that are within what was asked for.

use crate::contract::{FoundMatches, IndexExtent, TermMatches};

/// Positions are below this.
const POSITIONS: u64 = 1 << 53;

/// Whether the index has a place for its documents.
pub(crate) fn is_valid_index_extent(extent: IndexExtent) -> bool {
    extent.next <= POSITIONS && extent.documents <= extent.next
}

/// Whether there is a mark for each position up to the index's end, no more of them than were asked for, and for each
/// term where it occurs among these.
pub(crate) fn are_matches(found: &FoundMatches, terms: usize, newest: u64, max_bytes: u64) -> bool {
    let positions = found.marks.len() as u64;
    let occurrences: u64 = found.terms.iter().map(|term| term.offsets.len() as u64).sum();
    let is_within = |TermMatches { offsets }: &TermMatches| {
        offsets.is_sorted_by(|one, other| one < other) && offsets.last().is_none_or(|last| u64::from(*last) < positions)
    };
    is_valid_index_extent(found.extent)
        && found.extent.next.checked_sub(found.first) == Some(positions)
        && positions <= newest
        && 2 * positions + 4 * occurrences <= max_bytes
        && found.terms.len() == terms
        && found.terms.iter().all(is_within)
}
