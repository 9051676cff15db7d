//! Limits a search of a user's memory to one session.
//!
//! Passages of other sessions take no place among the candidates and no part in the scores. Nothing more is read for it: the facet
//! of the asking session is looked up anyway.

use crate::contract::{FoundMatches, LogRecords, Operation, Outcome};
use crate::recall::passage::{decode_posting, session_facet};
use crate::recall::schema::{INDEX, TERMS};
use crate::recall::vectors::VECTORS;
use crate::text::json_values::parse_count;

/// Leave of what was found only what is from the session.
pub(crate) fn keep_only_session(session: &str, operations: &[Operation<'_>], outcomes: &mut [Outcome]) {
    let facet = session_facet(session, None);
    let mut own: Vec<u64> = Vec::new();
    for (operation, outcome) in operations.iter().zip(outcomes) {
        match (operation, outcome) {
            (Operation::Match(asked), Outcome::Matches(found)) if asked.index == INDEX => {
                let row = asked.terms.iter().position(|term| *term == facet);
                keep_matches(found, row, &mut own);
            }
            (Operation::Read(read), Outcome::Records(tail)) if read.log == TERMS => keep_terms(tail, facet, &mut own),
            // They come after both.
            (Operation::GetAll(get), Outcome::Entries(found)) if get.map_name == VECTORS => {
                let is_own = |key: &str| parse_count(key).is_some_and(|position| own.binary_search(&position).is_ok());
                found.entries.retain(|entry| is_own(&entry.key));
            }
            _ => {}
        }
    }
}

/// `row`: where the session's passages stand among what was found.
fn keep_matches(found: &mut FoundMatches, row: Option<usize>, own: &mut Vec<u64>) {
    let offsets = row.and_then(|row| found.terms.get(row)).map(|term| term.offsets.clone()).unwrap_or_default();
    let is_own = |offset: &u32| offsets.binary_search(offset).is_ok();
    for (offset, mark) in (0..).zip(&mut found.marks) {
        if !is_own(&offset) {
            *mark = 0;
        }
    }
    for term in &mut found.terms {
        term.offsets.retain(is_own);
    }
    own.extend(offsets.iter().map(|offset| found.first + u64::from(*offset)));
}

/// A passage without terms is not indexed.
fn keep_terms(tail: &mut LogRecords, facet: u32, own: &mut Vec<u64>) {
    for (position, record) in (tail.first..).zip(&mut tail.records) {
        if decode_posting(record).is_some_and(|posting| posting.terms.binary_search(&facet).is_ok()) {
            own.push(position);
        } else {
            record.clear();
        }
    }
}
