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

#[derive(Default)]
struct First {
    number: AtomicU64,
    changed: Notify,
}

/// A part of the budget, returned when it is dropped. The default is none of it.
#[derive(Default)]
pub struct Share(Option<OwnedSemaphorePermit>);

impl Budget {
    pub fn new(most: usize) -> Self {
        Self { bytes: Arc::new(Semaphore::new(most)), most, first: Arc::default() }
    }

    /// Takes a share for what was read; waits until it is available.
    pub async fn take(&self, bytes: usize) -> Share {
        Share(self.bytes.clone().acquire_many_owned(self.permits(bytes)).await.ok())
    }

    /// Takes a share for the growth of a line; waits until it is available, or until all others wait for this line, which
    /// must be written before them.
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
            // No change is missed from here on.
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

    /// Declares that all finished lines wait for this one.
    pub fn wait_for(&self, number: u64) {
        self.first.number.store(number, Ordering::SeqCst);
        self.first.changed.notify_waiters();
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.most)).unwrap_or(u32::MAX)
    }
}

impl Share {
    /// Splits off so many bytes, or as many as there are.
    pub fn split(&mut self, bytes: usize) -> Self {
        let Some(permit) = &mut self.0 else { return Self::default() };
        let bytes = bytes.min(permit.num_permits());
        Self(permit.split(bytes))
    }

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
    async fn shares_never_exceed_the_budget() {
        let budget = Budget::new(100);
        let mut whole = budget.take(60).await;
        let part = whole.split(40);
        assert!(budget.take(41).now_or_never().is_none());
        drop(whole);
        let mut other = budget.take(60).now_or_never().unwrap();
        other.merge(part);
        assert!(budget.take(1).now_or_never().is_none());
        drop(other);
        // A share larger than the budget goes alone.
        let all = budget.take(1000).now_or_never().unwrap();
        assert!(budget.take(1).now_or_never().is_none());
        drop(all);
        assert!(budget.take(100).now_or_never().is_some());
    }

    #[tokio::test]
    async fn growth_waits_for_room_or_for_its_turn() {
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
        // Its turn may come before it asks.
        let _all = budget.take(100).await;
        budget.wait_for(4);
        assert!(budget.grow(4, 7).now_or_never().is_some());
    }
}
