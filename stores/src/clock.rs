//! Clocks: the machine's, and one for tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Tells the time. One clock can drive a [`MemoryStore`](crate::MemoryStore) and whatever else has to agree with it.
pub trait Clock: Send + Sync + 'static {
    /// Time since 1970-01-01T00:00:00Z.
    fn now(&self) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// A clock that moves only when it is [advanced](Self::advance), for tests. Clones tell the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    /// Microseconds since 1970.
    now: Arc<AtomicU64>,
}

impl ManualClock {
    /// It shows the present time.
    pub fn new() -> Self {
        Self { now: Arc::new(AtomicU64::new(micros(SystemClock.now()))) }
    }

    /// Let time pass, at once.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(micros(by), Ordering::Relaxed);
    }

    /// Be set to an earlier time, as clocks are.
    pub fn go_back(&self, by: Duration) {
        self.now.fetch_sub(micros(by), Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.now.load(Ordering::Relaxed))
    }
}

impl From<ManualClock> for Arc<dyn Clock> {
    fn from(clock: ManualClock) -> Self {
        Arc::new(clock)
    }
}

/// As stores count.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
