//! Selects passages within a budget of tokens.

use crate::rank::PassageCandidate;

/// Fill a budget of tokens: candidates are taken in the order given, best first; what does not fit is skipped. Returned
/// in order of position.
///
/// Each run of adjacent passages of a session costs `header` tokens beside those of its passages. A passage between two
/// that are taken joins their runs and saves a header. A candidate given twice is taken once.
///
/// Cost: linear in the candidates, times the logarithm of what is taken.
pub fn select_passages(candidates: &[PassageCandidate], budget: u32, header: u32) -> Vec<PassageCandidate> {
    let mut taken: Vec<PassageCandidate> = Vec::new();
    let mut left = i64::from(budget);
    for candidate in candidates {
        let Err(at) = taken.binary_search_by_key(&candidate.position, |other| other.position) else { continue };
        let before = at.checked_sub(1).and_then(|at| taken.get(at));
        let joins_before =
            !candidate.mark.first && before.is_some_and(|other| other.position + 1 == candidate.position);
        let joins_after =
            taken.get(at).is_some_and(|other| !other.mark.first && candidate.position + 1 == other.position);
        let headers = 1 - i64::from(joins_before) - i64::from(joins_after);
        let cost = i64::from(candidate.mark.tokens) + headers * i64::from(header);
        if cost <= left {
            left -= cost;
            taken.insert(at, *candidate);
        }
    }
    taken
}
