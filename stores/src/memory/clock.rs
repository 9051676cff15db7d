//! The clock of a store in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The time that a [`MemoryStore`](super::MemoryStore) goes by. Clones tell the same time.
#[derive(Clone, Debug)]
pub struct MemoryClock {
    /// Microseconds since 1970 at which it stands still; none: it follows the system's clock.
    stands_at: Option<u64>,
    /// By how many microseconds it was advanced.
    ahead: Arc<AtomicU64>,
}

impl MemoryClock {
    /// The system's clock.
    pub fn system() -> Self {
        Self { stands_at: None, ahead: Arc::default() }
    }

    /// A clock that shows the present time and moves only when it is [advanced](Self::advance).
    pub fn manual() -> Self {
        Self { stands_at: Some(system_now()), ahead: Arc::default() }
    }

    /// Let time pass, at once.
    pub fn advance(&self, by: Duration) {
        self.ahead.fetch_add(micros(by), Ordering::Relaxed);
    }

    /// Be set to an earlier time, as clocks are.
    #[cfg(test)]
    pub(super) fn go_back(&self, by: Duration) {
        self.ahead.fetch_sub(micros(by), Ordering::Relaxed);
    }

    /// Microseconds since 1970.
    pub fn now(&self) -> u64 {
        self.stands_at.unwrap_or_else(system_now).saturating_add(self.ahead.load(Ordering::Relaxed))
    }
}

fn system_now() -> u64 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
