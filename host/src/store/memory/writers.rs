//! Who wrote to a bucket lately, so that a repeated transaction counts once.

use std::collections::VecDeque;

use crate::store::Writer;

/// How many writers are remembered for each bucket.
const MAX_WRITERS: usize = 64;
/// For how long. Retries come within a time-out, which is seconds.
pub(super) const MEMORY_MS: u64 = 10 * 60 * 1000;
/// What a remembered writer takes, its id included.
const WRITER_COST: u64 = 80;

#[derive(Debug)]
struct Remembered {
    id: Box<str>,
    sequence: u64,
    /// Milliseconds.
    at: u64,
}

/// The newest few writers, the one that wrote last at the end.
#[derive(Debug, Default)]
pub(super) struct Writers(VecDeque<Remembered>);

impl Writers {
    /// Whether this transaction, or a later one of the same writer, has been applied.
    pub(super) fn has_seen(&self, writer: &Writer, now_ms: u64) -> bool {
        self.0
            .iter()
            .rev()
            .any(|known| *known.id == *writer.id() && writer.sequence() <= known.sequence && !known.is_outdated(now_ms))
    }

    /// Note that the writer's transaction is applied. Returns by how much the cost grew or shrank.
    pub(super) fn remember(&mut self, writer: &Writer, now_ms: u64) -> i64 {
        let before = self.cost();
        match self.0.iter().rposition(|known| *known.id == *writer.id()).and_then(|place| self.0.remove(place)) {
            Some(known) => self.0.push_back(Remembered { sequence: writer.sequence(), at: now_ms, ..known }),
            None => self.0.push_back(Remembered { id: writer.id().into(), sequence: writer.sequence(), at: now_ms }),
        }
        while self.0.len() > MAX_WRITERS || self.0.front().is_some_and(|oldest| oldest.is_outdated(now_ms)) {
            self.0.pop_front();
        }
        self.cost().cast_signed().saturating_sub(before.cast_signed())
    }

    /// Whether a retry may still come that has to be recognised.
    pub(super) fn remembers_any(&self, now_ms: u64) -> bool {
        self.0.back().is_some_and(|newest| !newest.is_outdated(now_ms))
    }

    pub(super) fn cost(&self) -> u64 {
        WRITER_COST.saturating_mul(self.0.len() as u64)
    }
}

impl Remembered {
    fn is_outdated(&self, now_ms: u64) -> bool {
        self.at.saturating_add(MEMORY_MS) <= now_ms
    }
}
