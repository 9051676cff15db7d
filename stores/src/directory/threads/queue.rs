//! A queue that tasks add to and threads wait on.
//!
//! With the standard library's locks: `parking_lot` lists threads that wait in a table of the process, with their stacks'
//! addresses. A process that forks while they wait, as Python's do, has that table in the child, but none of the threads: the
//! next thread that is started there crashes.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

#[derive(Debug)]
pub(crate) struct WorkQueue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct QueueState<T> {
    pub(super) items: VecDeque<T>,
    /// How many were taken and are still worked on, where that is counted.
    pub(super) in_work: usize,
    closed: bool,
}

/// What a thread that waited got.
pub(crate) enum DequeueOutcome<T> {
    /// At least one, in the order in which they were added.
    Items(Vec<T>),
    /// The time was over.
    TimedOut,
    /// There will be no more.
    Closed,
}

impl<T> WorkQueue<T> {
    pub(crate) fn new() -> Self {
        let state = QueueState { items: VecDeque::new(), in_work: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item, or gives it back when the queue is closed. Never waits.
    pub(crate) fn add(&self, item: T) -> Result<(), T> {
        self.add_all([item]).map_err(|[item]| item)
    }

    /// Adds items together, or gives them back when the queue is closed. Never waits.
    pub(crate) fn add_all<I: IntoIterator<Item = T>>(&self, items: I) -> Result<(), I> {
        let mut state = self.lock();
        if state.closed {
            return Err(items);
        }
        state.items.extend(items);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Puts items that were taken back to where they were: before all others.
    pub(crate) fn give_back(&self, items: impl IntoIterator<Item = T, IntoIter: DoubleEndedIterator>) {
        let mut state = self.lock();
        items.into_iter().rev().for_each(|item| state.items.push_front(item));
        drop(state);
        self.changed.notify_one();
    }

    /// Of those that were taken, so many are worked on no more.
    pub(super) fn mark_done(&self, count: usize) {
        let mut state = self.lock();
        state.in_work = state.in_work.saturating_sub(count);
        drop(state);
        self.changed.notify_all();
    }

    /// Takes the first items, at most so many, and waits for one until then; none: for as long as it takes.
    pub(crate) fn wait_for_items(&self, most: usize, until: Option<Duration>) -> DequeueOutcome<T> {
        self.wait_until_taken(until, |state| {
            let count = state.items.len().min(most);
            (count > 0).then(|| state.items.drain(..count).collect())
        })
    }

    /// Waits until `take` takes something, which it is asked whenever anything has changed.
    pub(super) fn wait_until_taken(
        &self,
        until: Option<Duration>,
        mut take: impl FnMut(&mut QueueState<T>) -> Option<Vec<T>>,
    ) -> DequeueOutcome<T> {
        let mut state = self.lock();
        let end = until.and_then(|time| Instant::now().checked_add(time));
        let mut is_late = false;
        loop {
            if let Some(items) = take(&mut state) {
                if !state.items.is_empty() {
                    self.changed.notify_one();
                }
                return DequeueOutcome::Items(items);
            }
            if state.closed && state.items.is_empty() {
                return DequeueOutcome::Closed;
            }
            if is_late {
                return DequeueOutcome::TimedOut;
            }
            state = match end {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    let (state, waited) =
                        self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
                    is_late = waited.timed_out();
                    state
                }
            };
        }
    }

    /// From now on nothing is taken in. What is in it is still handed out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Closes it and drops what is in it: its thread has ended.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.changed.notify_all();
        drop(items);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const NO_TIME: Option<Duration> = Some(Duration::ZERO);

    fn taken(taken: DequeueOutcome<u32>) -> Vec<u32> {
        match taken {
            DequeueOutcome::Items(items) => items,
            DequeueOutcome::TimedOut | DequeueOutcome::Closed => Vec::new(),
        }
    }

    #[test]
    fn items_come_in_order_and_no_more_than_asked_for() {
        let queue = WorkQueue::new();
        (0..5).for_each(|item| queue.add(item).unwrap());
        assert_eq!(taken(queue.wait_for_items(2, None)), [0, 1]);
        assert_eq!(taken(queue.wait_for_items(9, None)), [2, 3, 4]);
        assert!(matches!(queue.wait_for_items(1, NO_TIME), DequeueOutcome::TimedOut));
    }

    #[test]
    fn a_waiting_thread_is_woken_by_an_item_and_by_closing() {
        let queue = WorkQueue::new();
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| taken(queue.wait_for_items(1, None)))).collect();
            (0..3).for_each(|item| queue.add(item).unwrap());
            while !queue.lock().items.is_empty() {
                thread::yield_now();
            }
            queue.close();
            let mut all: Vec<_> = waiting.into_iter().flat_map(|waiting| waiting.join().unwrap()).collect();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
        });
    }

    #[test]
    fn a_closed_queue_hands_out_its_items_and_an_abandoned_one_drops_them() {
        let queue = WorkQueue::new();
        queue.add(1).unwrap();
        queue.close();
        assert_eq!(queue.add(2), Err(2));
        assert_eq!(taken(queue.wait_for_items(1, None)), [1]);
        assert!(matches!(queue.wait_for_items(1, None), DequeueOutcome::Closed));
        let queue = WorkQueue::new();
        queue.add(1).unwrap();
        queue.abandon();
        assert_eq!(queue.add(2), Err(2));
        assert!(matches!(queue.wait_for_items(1, None), DequeueOutcome::Closed));
    }
}
