//! Schedules instances that compute for long, so that they don't hold up short calls on the same threads.
//!
//! An instance that is still computing at a tick goes on only while it has a slot, and gives it up at the next tick. (Ticks
//! that passed while it waited don't count: one that has not computed for any needs no slot, and holds up no other.)
//! All plugins of the process share one slot fewer than the machine has cores, and the one that has computed least goes
//! first: forty looping instances hold up an entry of a few microseconds for one tick at most. Each tick of computing
//! puts an instance behind those that arrive within the next [`BEHIND`] ticks, and no later ones: so every instance
//! gets its turn, even on a machine too busy for all of them, where nearly every call meets a tick by chance.

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

static COMPUTE_QUEUE: Mutex<ComputeQueue> = Mutex::new(ComputeQueue { taken: 0, next_number: 0, waiting: Vec::new() });

/// A waiter that has not asked for so long is passed over: its call is not being polled.
const ABSENT_AFTER: Duration = TICK.saturating_mul(3);

/// For each tick that another has computed more, how many ticks later one may arrive and still go first: about the
/// number of looping instances, each of which gets one tick in turn.
const BEHIND: u32 = 32;

/// Those who wait for a place, in no order.
struct ComputeQueue {
    taken: usize,
    next_number: u64,
    waiting: Vec<QueuedInstance>,
}

/// The instant after which no newcomer goes first, then the order of arrival. Not in ticks: each engine has its own.
type Rank = (Instant, u64);

struct QueuedInstance {
    rank: Rank,
    asked: Instant,
}

impl ComputeQueue {
    /// Takes a slot for this rank if there is one; otherwise it waits.
    fn try_enter(&mut self, rank: Rank, now: Instant) -> bool {
        let is_first = self.first_present(now).is_none_or(|first| first.rank >= rank);
        if is_first && self.taken < *PLACES {
            self.taken += 1;
            self.remove_rank(rank);
            return true;
        }
        match self.waiting.iter_mut().find(|waiting| waiting.rank == rank) {
            Some(waiting) => waiting.asked = now,
            None => self.waiting.push(QueuedInstance { rank, asked: now }),
        }
        false
    }

    fn remove_rank(&mut self, rank: Rank) {
        self.waiting.retain(|waiting| waiting.rank != rank);
    }

    fn first_present(&self, now: Instant) -> Option<&QueuedInstance> {
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
    pub(in crate::runtime) fn take_new_place(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// Returns with a place, or when patience is over. The more it has computed, the later it comes. Both in ticks.
    pub(in crate::runtime) async fn wait_for_place(&self, ticks: &Ticks, computed: u64, patience: u64) {
        self.release_place();
        let ticket = Ticket::new(computed, Instant::now());
        let end = ticks.now().saturating_add(patience);
        // Leaving wakes no one: a runtime prefers the task woken last, and short calls would fall behind it.
        while !COMPUTE_QUEUE.lock().try_enter(ticket.rank, Instant::now()) {
            if ticks.now() >= end {
                return;
            }
            ticks.wait_for_tick().await;
        }
        self.has_place.store(true, Ordering::Relaxed);
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// It has no thread any more.
    pub(in crate::runtime) fn release_place(&self) {
        // Nearly none has one: no call that is soon done comes here twice.
        if self.has_place.load(Ordering::Relaxed) && self.has_place.swap(false, Ordering::Relaxed) {
            self.is_new.store(false, Ordering::Relaxed);
            let mut line = COMPUTE_QUEUE.lock();
            line.taken = line.taken.saturating_sub(1);
        }
    }
}

impl Drop for ComputeSlot {
    fn drop(&mut self) {
        self.release_place();
    }
}

/// A waiter's place in the queue; leaves it when dropped.
struct Ticket {
    rank: Rank,
}

impl Ticket {
    fn new(computed: u64, now: Instant) -> Self {
        let mut line = COMPUTE_QUEUE.lock();
        line.next_number += 1;
        Self { rank: (rank_instant(computed, now), line.next_number) }
    }
}

fn rank_instant(computed: u64, now: Instant) -> Instant {
    // No call computes for longer than a day.
    let ticks = u32::try_from(computed).unwrap_or(u32::MAX).min(1 << 23);
    now + TICK.saturating_mul(ticks).saturating_mul(BEHIND)
}

impl Drop for Ticket {
    fn drop(&mut self) {
        COMPUTE_QUEUE.lock().remove_rank(self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_with_the_least_computing_time_goes_first_while_it_is_polled() {
        let now = Instant::now();
        let (long, short) = ((rank_instant(9, now), 1), (rank_instant(2, now + TICK), 2));
        let mut line = ComputeQueue { taken: *PLACES, next_number: 2, waiting: Vec::new() };
        assert!(!line.try_enter(long, now) && !line.try_enter(short, now));
        line.taken -= 1;
        assert!(!line.try_enter(long, now + TICK));
        assert!(line.try_enter(short, now + TICK));
        assert!(!line.try_enter(long, now + TICK) && !line.try_enter(short, now + TICK));
        line.taken -= 1;
        assert!(line.try_enter(long, now + TICK + ABSENT_AFTER));
        assert_eq!(line.waiting.len(), 1);
    }

    #[test]
    fn a_long_call_is_not_starved_by_a_stream_of_short_ones() {
        let start = Instant::now();
        let long = (rank_instant(9, start), 0);
        let mut line = ComputeQueue { taken: 0, next_number: 0, waiting: Vec::new() };
        let mut passed_by = 0;
        for number in 1.. {
            let now = start + TICK * number;
            let short = (rank_instant(1, now), number.into());
            // Both are there at each tick, and who has the place leaves it before the next one.
            line.waiting.push(QueuedInstance { rank: short, asked: now });
            if line.try_enter(long, now) {
                break;
            }
            assert!(line.try_enter(short, now));
            line.taken -= 1;
            passed_by += 1;
        }
        assert_eq!(passed_by, 8 * BEHIND - 1);
    }
}
