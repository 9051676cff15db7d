//! Records at positions that an index finds by terms: what documents, nodes and events have in common.

use std::collections::BTreeMap;

use keepline_recall::facet_term;
use keepline_store_client::{FoundDocuments, LogRun, Span};

use crate::value::Value;

/// Positions from the newest back that a search looks at, at most: the store's own limit.
pub(super) const NEWEST: u64 = 131_072;
/// Terms of a record at most.
const TERMS: usize = 512;
/// Bytes of what a search replies at first: some 3,000 of the newest hits. That is enough where many records have what is
/// looked for, and all where few have it, so that a search costs about the same however much is stored.
pub(super) const NARROW_BYTES: u64 = 48 << 10;
/// The same where the newest hits are not enough.
pub(super) const WIDE_BYTES: u64 = 1 << 20;

/// A term for a member with this value. Others may have the same: whoever finds something by it compares.
pub(super) fn member_term(member: &str, value: &Value) -> u32 {
    // Numbers are equal by value, however they are written.
    let text = value.as_number().map_or_else(|| value.to_json(), |number| format!("{number:e}"));
    facet_term(format!("{}\0{member}\0{text}", member.len()).as_bytes())
}

/// Terms in the form that an index takes: ascending, each once, not too many.
pub(super) fn as_terms(mut terms: Vec<u32>) -> Vec<u32> {
    terms.sort_unstable();
    terms.dedup();
    terms.truncate(TERMS);
    terms
}

/// Positions at which a search found terms: how many of them, by position.
pub(super) fn hits(found: &FoundDocuments) -> BTreeMap<u64, Vec<usize>> {
    let mut hits: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (term, places) in found.terms.iter().enumerate() {
        for offset in &places.offsets {
            hits.entry(found.from_position.saturating_add(u64::from(*offset))).or_default().push(term);
        }
    }
    hits
}

/// Runs of positions, which are ascending.
pub(super) fn spans(positions: &[u64]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for position in positions {
        match spans.last_mut() {
            Some(last) if last.position + u64::from(last.count) == *position => last.count += 1,
            _ => spans.push(Span { position: *position, count: 1 }),
        }
    }
    spans
}

/// The records of runs with their positions, as long as they are JSON. What was removed is `null`.
pub(super) fn records(runs: Vec<LogRun>) -> impl Iterator<Item = (u64, Value, usize)> {
    runs.into_iter().flat_map(|run| {
        (run.first..).zip(run.records).filter_map(|(position, text)| {
            let value = Value::parse(&text).ok().filter(|value| !value.is_null())?;
            Some((position, value, text.len()))
        })
    })
}
