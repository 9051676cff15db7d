//! Bounds the memory of the lines in flight: as read, and as enriched.
//!
//! The bound holds whatever is read or returned. The line that all others wait for, because lines come out in order,
//! never waits itself. A line larger than the whole budget goes alone.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The budget. Cheap to clone.
#[derive(Clone)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    most: usize,
    first: Arc<First>,
}

/// The line that comes out next.
#[derive(Default)]
struct First {
    number: AtomicU64,
    changed: Notify,
}

/// A part of the budget, given back when it is dropped. None of it: for what goes without.
#[derive(Default)]
pub struct Share(Option<OwnedSemaphorePermit>);

impl Budget {
    /// So many bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: Arc::new(Semaphore::new(most)), most, first: Arc::default() }
    }

    /// For what was read; waits until there is so much.
    pub async fn take(&self, bytes: usize) -> Share {
        Share(self.bytes.clone().acquire_many_owned(self.permits(bytes)).await.ok())
    }

    /// For what a line has grown by; waits until there is so much, or until all others wait for this line: they could
    /// not be written before it.
    pub async fn grow(&self, number: u64, bytes: usize) -> Share {
        if bytes == 0 {
            return Share::default();
        }
        let permits = self.permits(bytes);
        if let Ok(permit) = self.bytes.clone().try_acquire_many_owned(permits) {
            return Share(Some(permit));
        }
        let mut enough = std::pin::pin!(self.bytes.clone().acquire_many_owned(permits));
        loop {
            let changed = self.first.changed.notified();
            // From here on no change is missed.
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.first.number.load(Ordering::SeqCst) == number {
                return Share::default();
            }
            tokio::select! {
                permit = &mut enough => return Share(permit.ok()),
                () = changed => {}
            }
        }
    }

    /// All that is done waits for this line.
    pub fn wait_for(&self, number: u64) {
        self.first.number.store(number, Ordering::SeqCst);
        self.first.changed.notify_waiters();
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.most)).unwrap_or(u32::MAX)
    }
}

impl Share {
    /// So many bytes of it, or as many as there are.
    pub fn split(&mut self, bytes: usize) -> Self {
        let Some(permit) = &mut self.0 else { return Self::default() };
        let bytes = bytes.min(permit.num_permits());
        Self(permit.split(bytes))
    }

    /// Together with another.
    pub fn merge(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Some(permit), Some(other)) => permit.merge(other),
            (none, Some(other)) => *none = Some(other),
            (_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn no_more_is_under_way_than_the_budget_has() {
        let budget = Budget::new(100);
        let mut whole = budget.take(60).await;
        let part = whole.split(40);
        assert!(budget.take(41).now_or_never().is_none());
        drop(whole);
        let mut other = budget.take(60).now_or_never().unwrap();
        other.merge(part);
        assert!(budget.take(1).now_or_never().is_none());
        drop(other);
        // What is larger than all of it goes alone.
        let all = budget.take(1000).now_or_never().unwrap();
        assert!(budget.take(1).now_or_never().is_none());
        drop(all);
        assert!(budget.take(100).now_or_never().is_some());
    }

    #[tokio::test]
    async fn what_has_grown_waits_for_room_or_for_its_turn() {
        let budget = Budget::new(100);
        let read = budget.take(90).await;
        let small = budget.grow(1, 10).now_or_never().unwrap();
        assert!(budget.grow(2, 0).now_or_never().is_some());

        let mut second = std::pin::pin!(budget.grow(2, 500));
        let mut third = std::pin::pin!(budget.grow(3, 20));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        budget.wait_for(1);
        assert!(second.as_mut().now_or_never().is_none());
        budget.wait_for(2);
        let first = second.as_mut().now_or_never().unwrap();
        assert!(third.as_mut().now_or_never().is_none());
        drop((read, small, first));
        assert!(third.as_mut().now_or_never().is_some());
        // Its turn may have come before it asks.
        let _all = budget.take(100).await;
        budget.wait_for(4);
        assert!(budget.grow(4, 7).now_or_never().is_some());
    }
}
