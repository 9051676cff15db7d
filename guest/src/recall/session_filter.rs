//! Limits a search of a user's memory to one session.
//!
//! Passages of other sessions take no place among the candidates and no part in the scores. Nothing more is read for it: the facet
//! of the asking session is looked up anyway.

use crate::contract::{FoundDocuments, IndexStep, IndexedReceipt, LogRecords, Operation, Outcome};
use crate::recall::passage::session_facet;
use crate::recall::schema::TERMS;
use crate::recall::vectors::VECTORS;
use crate::text::json_values::parse_count;
use keepline_recall::Posting;

/// Leave of what was found only what is from the session.
pub(crate) fn keep_only_session(
    session: &str,
    operations: &[Operation<'_>],
    steps: &[IndexStep<'_>],
    receipt: &mut IndexedReceipt,
) {
    let facet = session_facet(session, None);
    let mut own: Vec<u64> = Vec::new();
    for (step, found) in steps.iter().zip(&mut receipt.found) {
        if let IndexStep::Search(asked) = step {
            let row = asked.terms.iter().position(|term| *term == facet);
            keep_found(found, row, &mut own);
        }
    }
    for (operation, outcome) in operations.iter().zip(&mut receipt.receipt.outcomes) {
        match (operation, outcome) {
            (Operation::Read(read), Outcome::Records(tail)) if read.log == TERMS => keep_terms(tail, facet, &mut own),
            // They come after the terms.
            (Operation::GetAll(get), Outcome::Entries(found)) if get.map_name == VECTORS => {
                let is_own = |key: &str| parse_count(key).is_some_and(|position| own.binary_search(&position).is_ok());
                found.entries.retain(|entry| is_own(&entry.key));
            }
            _ => {}
        }
    }
}

/// `row`: where the session's passages stand among what was found.
fn keep_found(found: &mut FoundDocuments, row: Option<usize>, own: &mut Vec<u64>) {
    let offsets = row.and_then(|row| found.terms.get(row)).map(|term| term.offsets.clone()).unwrap_or_default();
    let is_own = |offset: &u32| offsets.binary_search(offset).is_ok();
    let mut documents = 0;
    for run in &mut found.runs {
        for (offset, mark) in (run.offset..).zip(&mut run.marks) {
            if is_own(&offset) {
                documents += u64::from(*mark != 0);
            } else {
                *mark = 0;
            }
        }
    }
    // The marks of all that is its own are known.
    found.extent.documents = documents;
    for term in &mut found.terms {
        term.offsets.retain(is_own);
    }
    own.extend(offsets.iter().map(|offset| found.from_position + u64::from(*offset)));
}

/// A passage without terms is not indexed.
fn keep_terms(tail: &mut LogRecords, facet: u32, own: &mut Vec<u64>) {
    for run in &mut tail.runs {
        for (position, record) in (run.first..).zip(&mut run.records) {
            if Posting::from_text(record).is_some_and(|posting| posting.terms.binary_search(&facet).is_ok()) {
                own.push(position);
            } else {
                record.clear();
            }
        }
    }
}
