//! Indexes of the store for tests: documents by position, looked through one by one.

use std::collections::BTreeMap;

use keepline_filter::contract::*;

/// How many of the newest positions a match looks at, and bytes it answers, at most.
const MAX_NEWEST: u64 = 131_072;
const MAX_BYTES: u64 = 1 << 20;

#[derive(Clone, Default)]
pub struct Index {
    pub next: u64,
    /// Marks and terms, by position.
    pub documents: BTreeMap<u64, (u16, Vec<u32>)>,
}

impl Index {
    pub(super) fn extent(&self) -> IndexExtent {
        IndexExtent { next: self.next, documents: self.documents.len() as u64 }
    }

    /// None: a position is not above all that were ever posted.
    pub(super) fn post(&mut self, documents: &[Posting<'_>]) -> Option<IndexExtent> {
        for &Posting { position, mark, terms } in documents {
            if position < self.next {
                return None;
            }
            self.next = position + 1;
            self.documents.insert(position, (mark, terms.to_vec()));
        }
        Some(self.extent())
    }

    pub(super) fn unpost(&mut self, positions: &[u64]) -> IndexExtent {
        self.documents.retain(|position, _| !positions.contains(position));
        self.extent()
    }

    pub(super) fn matches(&self, terms: &[u32], newest: u64, max_bytes: u64) -> FoundMatches {
        let oldest = self.next.saturating_sub(newest.min(MAX_NEWEST));
        let bytes_at = |position: u64| {
            let has = |(_, all): &(u16, Vec<u32>)| terms.iter().filter(|term| all.contains(term)).count() as u64;
            2 + 4 * self.documents.get(&position).map_or(0, has)
        };
        let mut room = max_bytes.min(MAX_BYTES);
        let mut first = self.next;
        while first > oldest && bytes_at(first - 1) <= room {
            first -= 1;
            room -= bytes_at(first);
        }
        let mark = |position: u64| self.documents.get(&position).map_or(0, |(mark, _)| *mark);
        let offsets = |term: &u32| {
            let within = self.documents.range(first..).filter(|(_, (_, all))| all.contains(term));
            TermMatches { offsets: within.map(|(position, _)| (position - first) as u32).collect() }
        };
        FoundMatches {
            extent: self.extent(),
            first,
            marks: (first..self.next).map(mark).collect(),
            terms: terms.iter().map(offsets).collect(),
        }
    }
}
