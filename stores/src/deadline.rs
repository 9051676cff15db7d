//! Deadlines: the instants after which an answer is of no use.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than any process lives, and not too long for any clock.
const FAR: Duration = Duration::from_secs(30 * 366 * 24 * 3600);

/// So much later, or far in the future where the clock can't tell that.
pub(crate) fn instant_after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time.min(FAR)).unwrap_or(now)
}

/// The moment by which a call must have ended, whatever it needs on the way: an instance, its transactions, their
/// retries. It is set once, where an entry comes in, and handed down; nothing prolongs it. The clock is tokio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No deadline but the store's own limits.
    pub const NEVER: Self = Self(None);

    /// So long from now. A time that the clock can't tell is never.
    pub fn after(time: Duration) -> Self {
        Self::since(Instant::now(), time)
    }

    /// So long from a moment on. A time that the clock can't tell is never.
    pub fn since(began: Instant, time: Duration) -> Self {
        Self(began.checked_add(time))
    }

    /// The earlier of this one and so long from now.
    #[must_use]
    pub fn or_after(self, time: Duration) -> Self {
        match (self.0, Self::after(time).0) {
            (Some(one), Some(other)) => Self(Some(one.min(other))),
            (one, other) => Self(one.or(other)),
        }
    }

    /// As a moment; none: never.
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// How much time is left; none: no end.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Whether it has passed.
    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}
