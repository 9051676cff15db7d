//! Remembers the recent writers of a bucket, so that a repeated transaction counts once.
//!
//! Forgets only writers that can't come back: those of which no clone is left, and those that have not written for longer
//! than any retry takes. Refuses a new writer when too many others can. Each call costs the same however many there are,
//! except the look at all of them when a bucket ends.

use std::sync::{Arc, Weak};

use hashlink::LinkedHashMap;

use crate::{Failure, Writer, limits};

/// For how long. Retries come within a time-out, which is seconds.
pub(super) const MEMORY_MS: u64 = 10 * 60 * 1000;
/// What a remembered writer takes, with its id and its places.
const WRITER_COST: u64 = 128;
/// How many are looked at for each new one: more than one, so that those who can't come back become fewer.
const LOOKED_AT: usize = 4;
/// How many when there is no room.
const LOOKED_AT_FOR_ROOM: usize = 64;

#[derive(Debug)]
struct Remembered {
    id: Weak<str>,
    sequence: u64,
    /// Milliseconds.
    at: u64,
}

/// The writers of one bucket, in the order in which they are looked at: by the address of the id, where no other is while
/// it is remembered.
#[derive(Debug, Default)]
pub(super) struct RecentWriters(LinkedHashMap<usize, Remembered>);

impl RecentWriters {
    /// Whether this transaction, or a later one of the same writer, has been applied.
    pub(super) fn has_seen(&self, writer: &Writer, now_ms: u64) -> bool {
        let known = id_address(writer).and_then(|address| self.0.get(&address));
        known.is_some_and(|known| writer.sequence() <= known.sequence && !known.is_outdated(now_ms))
    }

    /// Refuses a writer that is not remembered when as many as can be are, times `share`.
    pub(super) fn check_room(&mut self, writer: &Writer, now_ms: u64, share: usize) -> Result<(), Failure> {
        let most = usize::try_from(limits::MAX_WRITERS).unwrap_or(usize::MAX).saturating_mul(share);
        if self.0.len() < most || id_address(writer).is_some_and(|address| self.0.contains_key(&address)) {
            return Ok(());
        }
        for _ in 0..LOOKED_AT_FOR_ROOM {
            match self.0.front() {
                Some((&address, next)) if next.may_come_back(now_ms) => _ = self.0.to_back(&address),
                // To be forgotten by the write.
                _ => return Ok(()),
            }
        }
        Err(limits::too_many_writers())
    }

    /// Note that the writer's transaction is applied. Returns by how much the cost grew or shrank.
    pub(super) fn remember(&mut self, writer: &Writer, now_ms: u64) -> i64 {
        let (Some(id), before) = (&writer.id, self.cost()) else { return 0 };
        let address = pointer_address(Arc::as_ptr(id));
        if let Some(known) = self.0.get_mut(&address) {
            (known.sequence, known.at) = (writer.sequence(), now_ms);
            return 0;
        }
        self.forget_some(now_ms);
        self.0.insert(address, Remembered { id: Arc::downgrade(id), sequence: writer.sequence(), at: now_ms });
        self.cost().cast_signed().saturating_sub(before.cast_signed())
    }

    /// Whether a retry may still come that has to be recognised.
    pub(super) fn remembers_any(&self, now_ms: u64) -> bool {
        self.0.values().any(|known| known.may_come_back(now_ms))
    }

    pub(super) fn cost(&self) -> u64 {
        WRITER_COST.saturating_mul(self.0.len() as u64)
    }

    /// Forgets those whose turn it is and that can't come back.
    fn forget_some(&mut self, now_ms: u64) {
        for _ in 0..LOOKED_AT.min(self.0.len()) {
            match self.0.front() {
                Some((&address, next)) if next.may_come_back(now_ms) => _ = self.0.to_back(&address),
                _ => _ = self.0.pop_front(),
            }
        }
        // Many at one time would keep their memory.
        if self.0.capacity() > 64 && self.0.len() < self.0.capacity() / 8 {
            self.0.shrink_to_fit();
        }
    }
}

impl Remembered {
    fn may_come_back(&self, now_ms: u64) -> bool {
        self.id.strong_count() > 0 && !self.is_outdated(now_ms)
    }

    fn is_outdated(&self, now_ms: u64) -> bool {
        self.at.saturating_add(MEMORY_MS) <= now_ms
    }
}

fn pointer_address(id: *const str) -> usize {
    id.cast::<u8>().addr()
}

fn id_address(writer: &Writer) -> Option<usize> {
    writer.id.as_ref().map(|id| pointer_address(Arc::as_ptr(id)))
}
