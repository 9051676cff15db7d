//! Long computations leave a thread to the short ones.
//!
//! An instance that still computes at a tick goes on only while it has a place, and gives it up at the next tick. There
//! is one place less than the machine has cores, for all plugins of the process together, and who has computed less
//! goes first: forty instances that loop hold up an entry of a few microseconds for a tick at most, and not for one of
//! each of theirs. Each tick that one has computed puts it behind those who come in the next [`BEHIND`] ticks, and behind
//! nobody later. So everyone's turn comes, on a machine that is too busy for all of them, too, where ticks meet nearly
//! every call by chance.

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

/// How many ticks one may come later than another that has computed a tick more, and still go first: about as many as
/// there are others that loop, each of which has one tick until all had theirs.
const BEHIND: u32 = 32;

/// Those who wait for a place, in no order.
struct Line {
    taken: usize,
    next_number: u64,
    waiting: Vec<Waiting>,
}

/// From when on nobody who comes goes before it; then who came first. Not in ticks: those of each engine are its own.
type Rank = (Instant, u64);

struct Waiting {
    rank: Rank,
    asked: Instant,
}

impl Line {
    /// Whether whoever has that rank has a place now. If not, it waits.
    fn enter(&mut self, rank: Rank, now: Instant) -> bool {
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

    fn leave(&mut self, rank: Rank) {
        self.waiting.retain(|waiting| waiting.rank != rank);
    }

    fn first(&self, now: Instant) -> Option<&Waiting> {
        let present = self.waiting.iter().filter(|waiting| now.duration_since(waiting.asked) < ABSENT_AFTER);
        present.min_by_key(|waiting| waiting.rank)
    }
}

/// How many there are.
pub(in crate::runtime) static PLACES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1));

/// One instance's place, while it has a thread.
#[derive(Debug, Default)]
pub(in crate::runtime) struct ComputeSlot {
    has_place: AtomicBool,
    /// Whether it has had that place for no tick yet.
    is_new: AtomicBool,
}

impl ComputeSlot {
    /// Whether it was given a place since it last asked.
    pub(in crate::runtime) fn may_go_on(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// Returns with a place, or when patience is over. The more it has computed, the later it comes. Both in ticks.
    pub(in crate::runtime) async fn wait_for_place(&self, ticks: &Ticks, computed: u64, patience: u64) {
        self.leave();
        let ticket = Ticket::new(computed, Instant::now());
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
    pub(in crate::runtime) fn leave(&self) {
        // Nearly none has one: no call that is soon done comes here twice.
        if self.has_place.load(Ordering::Relaxed) && self.has_place.swap(false, Ordering::Relaxed) {
            self.is_new.store(false, Ordering::Relaxed);
            let mut line = LINE.lock();
            line.taken = line.taken.saturating_sub(1);
        }
    }
}

impl Drop for ComputeSlot {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whoever waits in the line; leaves it when dropped.
struct Ticket {
    rank: Rank,
}

impl Ticket {
    fn new(computed: u64, now: Instant) -> Self {
        let mut line = LINE.lock();
        line.next_number += 1;
        Self { rank: (turn_of(computed, now), line.next_number) }
    }
}

fn turn_of(computed: u64, now: Instant) -> Instant {
    // Nobody computes for longer than a day.
    let ticks = u32::try_from(computed).unwrap_or(u32::MAX).min(1 << 23);
    now + TICK.saturating_mul(ticks).saturating_mul(BEHIND)
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
        let now = Instant::now();
        let (long, short) = ((turn_of(9, now), 1), (turn_of(2, now + TICK), 2));
        let mut line = Line { taken: *PLACES, next_number: 2, waiting: Vec::new() };
        assert!(!line.enter(long, now) && !line.enter(short, now));
        line.taken -= 1;
        assert!(!line.enter(long, now + TICK));
        assert!(line.enter(short, now + TICK));
        assert!(!line.enter(long, now + TICK) && !line.enter(short, now + TICK));
        line.taken -= 1;
        assert!(line.enter(long, now + TICK + ABSENT_AFTER));
        assert_eq!(line.waiting.len(), 1);
    }

    #[test]
    fn the_turn_comes_of_one_that_others_keep_coming_after() {
        let start = Instant::now();
        let long = (turn_of(9, start), 0);
        let mut line = Line { taken: 0, next_number: 0, waiting: Vec::new() };
        let mut passed_by = 0;
        for number in 1.. {
            let now = start + TICK * number;
            let short = (turn_of(1, now), number.into());
            // Both are there at each tick, and who has the place leaves it before the next one.
            line.waiting.push(Waiting { rank: short, asked: now });
            if line.enter(long, now) {
                break;
            }
            assert!(line.enter(short, now));
            line.taken -= 1;
            passed_by += 1;
        }
        assert_eq!(passed_by, 8 * BEHIND - 1);
    }
}
