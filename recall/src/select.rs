//! Fill a budget of tokens with the best passages.

use crate::rank::Candidate;

/// What the header of a run of adjacent passages takes, in tokens: a date, and who spoke.
pub const HEADER_TOKENS: usize = 8;

/// Take candidates in the order given, the best first, and skip what does not fit; in order of position. Adjacent
/// passages of a session are a run, which has one header: `header` tokens. A position is taken once. Passages whose
/// mark says 127 tokens may be longer: whoever reads them checks.
pub fn select(candidates: &[Candidate], budget: usize, header: usize) -> Vec<Candidate> {
    let mut taken: Vec<Candidate> = Vec::new();
    let mut used = 0;
    for candidate in candidates {
        let Err(at) = taken.binary_search_by_key(&candidate.position, |taken| taken.position) else { continue };
        let before = at.checked_sub(1).and_then(|before| taken.get(before));
        let joins = usize::from(before.is_some_and(|before| adjacent(before, candidate)))
            + usize::from(taken.get(at).is_some_and(|after| adjacent(candidate, after)));
        // A passage between two runs makes one of them, and saves a header.
        let after = (used + usize::from(candidate.mark.tokens) + header).saturating_sub(joins * header);
        if after <= budget {
            used = after;
            taken.insert(at, *candidate);
        }
    }
    taken
}

/// Whether two passages, in order of position, stand in one run.
pub fn adjacent(before: &Candidate, after: &Candidate) -> bool {
    before.position + 1 == after.position && !after.mark.first
}
