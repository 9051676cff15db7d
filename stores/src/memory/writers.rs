//! Remembers the recent writers of a bucket, so that a repeated transaction counts once.
//!
//! Forgets only writers that can't come back: those of which no clone is left, and those that have not written for longer
//! than any retry takes. Refuses a new writer when too many others can. Each call costs the same however many there are,
//! except the look at all of them when a bucket ends.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use crate::{Failure, Writer, limits};

/// For how long. Retries come within a time-out, which is seconds.
pub(super) const MEMORY_MS: u64 = 10 * 60 * 1000;
/// What a remembered writer takes, with its id and its places.
const WRITER_COST: u64 = 128;
/// The first few are searched, later ones hashed.
const FEW: usize = 8;
/// How many of the later ones are looked at for each new one: more than one, so that those who can't come back become
/// fewer.
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

/// The writers of one bucket.
#[derive(Debug, Default)]
pub(super) struct RecentWriters {
    few: Vec<Remembered>,
    /// By the address of the id: while it is remembered, no other is there.
    later: HashMap<usize, Remembered>,
    /// The later ones in the order in which they are looked at.
    turns: VecDeque<usize>,
}

impl RecentWriters {
    /// Whether this transaction, or a later one of the same writer, has been applied.
    pub(super) fn has_seen(&self, writer: &Writer, now_ms: u64) -> bool {
        self.find(writer).is_some_and(|known| writer.sequence() <= known.sequence && !known.is_outdated(now_ms))
    }

    /// Refuses a writer that is not remembered when as many as can be are, times `share`.
    pub(super) fn check_room(&mut self, writer: &Writer, now_ms: u64, share: usize) -> Result<(), Failure> {
        let most = usize::try_from(limits::MAX_WRITERS).unwrap_or(usize::MAX).saturating_mul(share);
        if self.len() < most || self.find(writer).is_some() || self.few.iter().any(|known| !known.may_come_back(now_ms))
        {
            return Ok(());
        }
        for _ in 0..LOOKED_AT_FOR_ROOM.min(self.turns.len()) {
            let next = self.turns.front().and_then(|place| self.later.get(place));
            if next.is_none_or(|next| !next.may_come_back(now_ms)) {
                // To be forgotten by the write.
                return Ok(());
            }
            self.turns.rotate_left(1);
        }
        Err(limits::too_many_writers())
    }

    /// Note that the writer's transaction is applied. Returns by how much the cost grew or shrank.
    pub(super) fn remember(&mut self, writer: &Writer, now_ms: u64) -> i64 {
        let (Some(id), before) = (&writer.id, self.cost()) else { return 0 };
        let place = pointer_address(Arc::as_ptr(id));
        let known = match self.few.iter_mut().find(|known| known.id_address() == place) {
            None => self.later.get_mut(&place),
            known => known,
        };
        if let Some(known) = known {
            (known.sequence, known.at) = (writer.sequence(), now_ms);
            return 0;
        }
        self.look_at(LOOKED_AT, now_ms);
        let new = Remembered { id: Arc::downgrade(id), sequence: writer.sequence(), at: now_ms };
        if self.few.len() < FEW {
            self.few.push(new);
        } else if let Some(free) = self.few.iter_mut().find(|known| !known.may_come_back(now_ms)) {
            *free = new;
        } else {
            self.later.insert(place, new);
            self.turns.push_back(place);
        }
        self.cost().cast_signed().saturating_sub(before.cast_signed())
    }

    /// Whether a retry may still come that has to be recognised.
    pub(super) fn remembers_any(&self, now_ms: u64) -> bool {
        self.few.iter().chain(self.later.values()).any(|known| known.may_come_back(now_ms))
    }

    pub(super) fn cost(&self) -> u64 {
        WRITER_COST.saturating_mul(self.len() as u64)
    }

    fn len(&self) -> usize {
        self.few.len() + self.later.len()
    }

    fn find(&self, writer: &Writer) -> Option<&Remembered> {
        let place = pointer_address(Arc::as_ptr(writer.id.as_ref()?));
        self.few.iter().find(|known| known.id_address() == place).or_else(|| self.later.get(&place))
    }

    /// Forgets those of the later ones whose turn it is and that can't come back.
    fn look_at(&mut self, count: usize, now_ms: u64) {
        for _ in 0..count.min(self.turns.len()) {
            let Some(place) = self.turns.pop_front() else { break };
            match self.later.get(&place) {
                Some(known) if known.may_come_back(now_ms) => self.turns.push_back(place),
                _ => _ = self.later.remove(&place),
            }
        }
        // Many at one time would keep their place for ever.
        if self.later.capacity() > 64 && self.later.len() < self.later.capacity() / 8 {
            self.later.shrink_to(self.later.len() * 2);
            self.turns.shrink_to(self.later.len() * 2);
        }
    }
}

impl Remembered {
    fn id_address(&self) -> usize {
        pointer_address(self.id.as_ptr())
    }

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
