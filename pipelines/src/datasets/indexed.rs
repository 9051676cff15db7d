//! Records at positions that an index finds by terms: what documents, nodes and events have in common.

use std::collections::BTreeMap;

use keepline_recall::facet_term;
use keepline_store_client::{FoundDocuments, LogRun, Span};

use crate::value::Value;

/// Terms of a record at most.
const TERMS: usize = 512;
/// How far back a search looks.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    /// The newest 1,024 positions: enough where many records have what is looked for, and it costs the same however much is
    /// stored.
    Newest,
    /// As far as a store searches.
    All,
}

impl Reach {
    /// So many positions from the newest back.
    pub(super) fn positions(self) -> u64 {
        match self {
            Self::Newest => 1_024,
            Self::All => 131_072,
        }
    }

    /// The most bytes of hits that are asked for. The oldest hits are left out until they fit.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Newest => 48 << 10,
            Self::All => 1 << 20,
        }
    }
}

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
