//! A server's clock as seen from here, and arithmetic on instants that can't overflow.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::Instant;

pub(crate) use crate::deadline::instant_after;

/// What a server's clock says is told by each new connection and by most replies, and in between by
/// counting. It is taken as late as it can be, so that no try in time is ever refused; one that comes late
/// is let through for at most one round trip's time.
pub(crate) struct StoreClock {
    here: Instant,
    /// Milliseconds on the store's clock at `here`.
    there: AtomicI64,
}

impl StoreClock {
    pub(crate) fn new() -> Self {
        Self { here: Instant::now(), there: AtomicI64::new(0) }
    }

    pub(crate) fn set(&self, store_ms: u64, here: Instant) {
        self.there.store(i64::try_from(store_ms).unwrap_or(0).saturating_sub(self.since(here)), Ordering::Relaxed);
    }

    /// It said this at some moment between asking and being answered. What is known already is kept,
    /// unless this moment proves it wrong: a slow reply makes nothing less exact.
    pub(crate) fn observe(&self, store_ms: u64, asked_at: Instant, answered_at: Instant) {
        let store_ms = i64::try_from(store_ms).unwrap_or(0);
        let latest = store_ms.saturating_sub(self.since(asked_at));
        let earliest = store_ms.saturating_sub(self.since(answered_at));
        if !(earliest..=latest).contains(&self.there.load(Ordering::Relaxed)) {
            self.there.store(latest, Ordering::Relaxed);
        }
    }

    pub(crate) fn store_ms_at(&self, here: Instant) -> u64 {
        let there = self.there.load(Ordering::Relaxed).saturating_add(self.since(here)).saturating_add(1);
        u64::try_from(there).unwrap_or(0)
    }

    fn since(&self, here: Instant) -> i64 {
        i64::try_from(here.saturating_duration_since(self.here).as_millis()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_beyond_the_clocks_range_is_far_in_the_future() {
        let now = Instant::now();
        assert_eq!(instant_after(now, Duration::from_secs(1)), now + Duration::from_secs(1));
        assert!(instant_after(now, Duration::MAX) > now + Duration::from_secs(1_000_000_000 / 2));
    }

    #[test]
    fn the_estimate_of_the_stores_clock_is_never_early_and_corrects_itself() {
        let clock = StoreClock::new();
        let here = |ms| clock.here + Duration::from_millis(ms);
        // Slow to answer: it may have been told just after it was asked.
        clock.set(100_000, here(0));
        assert_eq!(clock.store_ms_at(here(1000)), 101_001);
        // It was told 900 ms after it was asked: a quick reply finds out.
        clock.observe(100_100, here(1000), here(1001));
        assert_eq!(clock.store_ms_at(here(1000)), 100_101);
        // A slow reply that fits with that teaches nothing.
        clock.observe(100_600, here(1100), here(2000));
        assert_eq!(clock.store_ms_at(here(1000)), 100_101);
        // Somebody sets it, forth and back.
        clock.observe(500_000, here(2000), here(2002));
        assert_eq!(clock.store_ms_at(here(2000)), 500_001);
        clock.observe(400_000, here(2000), here(2002));
        assert_eq!(clock.store_ms_at(here(2000)), 400_001);
    }
}
