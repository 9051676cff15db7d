//! Long computations leave a thread to the short ones.
//!
//! An instance that still computes at a tick goes on only while it has a place, and gives it up at the next tick. There
//! is one place less than the machine has cores, for all plugins of the process together, and whoever has computed least
//! so far goes first: forty instances that loop hold up an entry of a few microseconds for a tick at most, and not for
//! one of each of theirs.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::epoch::{TICK, Ticks};

static LINE: Mutex<Line> = Mutex::new(Line { taken: 0, next_number: 0, waiting: Vec::new() });

/// One who has not asked for so long is passed over: whoever polls its call has other things to do.
const ABSENT_AFTER: Duration = TICK.saturating_mul(3);

/// Those who wait for a place, in no order.
struct Line {
    taken: usize,
    next_number: u64,
    waiting: Vec<Waiting>,
}

struct Waiting {
    /// Ticks so far, then who came first.
    rank: (u64, u64),
    asked: Instant,
}

impl Line {
    /// Whether whoever has that rank has a place now. If not, it waits.
    fn enter(&mut self, rank: (u64, u64), now: Instant) -> bool {
        let is_first = self.first(now).is_none_or(|first| first.rank >= rank);
        if is_first && self.taken < *PLACES {
            self.taken += 1;
            self.leave(rank);
            return true;
        }
        match self.waiting.iter_mut().find(|waiting| waiting.rank == rank) {
            Some(waiting) => waiting.asked = now,
            None => self.waiting.push(Waiting { rank, asked: now }),
        }
        false
    }

    fn leave(&mut self, rank: (u64, u64)) {
        self.waiting.retain(|waiting| waiting.rank != rank);
    }

    fn first(&self, now: Instant) -> Option<&Waiting> {
        let present = self.waiting.iter().filter(|waiting| now.duration_since(waiting.asked) < ABSENT_AFTER);
        present.min_by_key(|waiting| waiting.rank)
    }
}

/// How many there are.
static PLACES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1));

/// One instance's place, while it has a thread.
#[derive(Debug, Default)]
pub(super) struct Lane {
    has_place: AtomicBool,
    /// Whether it has had that place for no tick yet.
    is_new: AtomicBool,
}

impl Lane {
    /// Whether it was given a place since it last asked.
    pub(super) fn may_go_on(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// Returns with a place, or when patience is over. The more it has computed, the later it comes. Both in ticks.
    pub(super) async fn wait_for_place(&self, ticks: &Ticks, computed: u64, patience: u64) {
        self.leave();
        let ticket = Ticket::new(computed);
        let end = ticks.now().saturating_add(patience);
        // Nobody is woken by whoever leaves: a runtime prefers who was woken last, and leaves the short ones behind it.
        while !LINE.lock().enter(ticket.rank, Instant::now()) {
            if ticks.now() >= end {
                return;
            }
            ticks.next().await;
        }
        self.has_place.store(true, Ordering::Relaxed);
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// It has no thread any more.
    pub(super) fn leave(&self) {
        // Nearly none has one: no call that is soon done comes here twice.
        if self.has_place.load(Ordering::Relaxed) && self.has_place.swap(false, Ordering::Relaxed) {
            self.is_new.store(false, Ordering::Relaxed);
            let mut line = LINE.lock();
            line.taken = line.taken.saturating_sub(1);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whoever waits in the line; leaves it when dropped.
struct Ticket {
    rank: (u64, u64),
}

impl Ticket {
    fn new(computed: u64) -> Self {
        let mut line = LINE.lock();
        line.next_number += 1;
        Self { rank: (computed, line.next_number) }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        LINE.lock().leave(self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_computed_least_goes_first_unless_it_is_polled_no_more() {
        let (long, short) = ((9, 1), (2, 2));
        let mut line = Line { taken: *PLACES, next_number: 2, waiting: Vec::new() };
        let now = Instant::now();
        assert!(!line.enter(long, now) && !line.enter(short, now));
        line.taken -= 1;
        assert!(!line.enter(long, now + TICK));
        assert!(line.enter(short, now + TICK));
        assert!(!line.enter(long, now + TICK) && !line.enter(short, now + TICK));
        line.taken -= 1;
        assert!(line.enter(long, now + TICK + ABSENT_AFTER));
        assert_eq!(line.waiting.len(), 1);
    }
}
