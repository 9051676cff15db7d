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
pub struct MemoryBudget {
    bytes: Arc<Semaphore>,
    most: usize,
    first: Arc<NextLine>,
}

#[derive(Default)]
struct NextLine {
    number: AtomicU64,
    changed: Notify,
}

/// A part of the budget, returned when it is dropped. The default is an empty part.
#[derive(Default)]
pub struct BudgetShare(Option<OwnedSemaphorePermit>);

impl MemoryBudget {
    pub fn new(most: usize) -> Self {
        Self { bytes: Arc::new(Semaphore::new(most)), most, first: Arc::default() }
    }

    /// Takes a share for what was read; waits until it is available.
    pub async fn take_share(&self, bytes: usize) -> BudgetShare {
        BudgetShare(self.bytes.clone().acquire_many_owned(self.permit_count(bytes)).await.ok())
    }

    /// Takes a share for the growth of a line; waits until it is available, or until all others wait for this line, which
    /// must be written before them.
    pub async fn take_growth_share(&self, number: u64, bytes: usize) -> BudgetShare {
        if bytes == 0 {
            return BudgetShare::default();
        }
        let permits = self.permit_count(bytes);
        if let Ok(permit) = self.bytes.clone().try_acquire_many_owned(permits) {
            return BudgetShare(Some(permit));
        }
        let mut enough = std::pin::pin!(self.bytes.clone().acquire_many_owned(permits));
        loop {
            let changed = self.first.changed.notified();
            // No change is missed from here on.
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.first.number.load(Ordering::SeqCst) == number {
                return BudgetShare::default();
            }
            tokio::select! {
                permit = &mut enough => return BudgetShare(permit.ok()),
                () = changed => {}
            }
        }
    }

    /// Declares that all finished lines wait for this one.
    pub fn declare_next_line(&self, number: u64) {
        self.first.number.store(number, Ordering::SeqCst);
        self.first.changed.notify_waiters();
    }

    fn permit_count(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.most)).unwrap_or(u32::MAX)
    }
}

impl BudgetShare {
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
        let budget = MemoryBudget::new(100);
        let mut whole = budget.take_share(60).await;
        let part = whole.split(40);
        assert!(budget.take_share(41).now_or_never().is_none());
        drop(whole);
        let mut other = budget.take_share(60).now_or_never().unwrap();
        other.merge(part);
        assert!(budget.take_share(1).now_or_never().is_none());
        drop(other);
        // A share larger than the budget goes alone.
        let all = budget.take_share(1000).now_or_never().unwrap();
        assert!(budget.take_share(1).now_or_never().is_none());
        drop(all);
        assert!(budget.take_share(100).now_or_never().is_some());
    }

    #[tokio::test]
    async fn growth_waits_for_room_or_for_its_turn() {
        let budget = MemoryBudget::new(100);
        let read = budget.take_share(90).await;
        let small = budget.take_growth_share(1, 10).now_or_never().unwrap();
        assert!(budget.take_growth_share(2, 0).now_or_never().is_some());

        let mut second = std::pin::pin!(budget.take_growth_share(2, 500));
        let mut third = std::pin::pin!(budget.take_growth_share(3, 20));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        budget.declare_next_line(1);
        assert!(second.as_mut().now_or_never().is_none());
        budget.declare_next_line(2);
        let first = second.as_mut().now_or_never().unwrap();
        assert!(third.as_mut().now_or_never().is_none());
        drop((read, small, first));
        assert!(third.as_mut().now_or_never().is_some());
        // Its turn may come before it asks.
        let _all = budget.take_share(100).await;
        budget.declare_next_line(4);
        assert!(budget.take_growth_share(4, 7).now_or_never().is_some());
    }
}
