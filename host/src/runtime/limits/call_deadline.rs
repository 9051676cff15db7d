//! A call's deadline, which reads the clock only when time may have passed.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::Deadline;

/// A call's deadline. It is handed down through all that the call needs.
#[derive(Clone, Copy)]
pub(crate) struct CallDeadline {
    pub(crate) deadline: Deadline,
    /// It was set a moment ago and nothing has taken time since, so it is not over. (Reading the clock takes a
    /// hundredth of an entry's time with a store in memory.)
    is_fresh: bool,
}

impl CallDeadline {
    /// So long from now on.
    pub(crate) fn within(now: Instant, time: Duration) -> Self {
        Self { deadline: Deadline::since(now, time), is_fresh: !time.is_zero() }
    }

    /// By the caller's deadline.
    pub(crate) fn by(deadline: Deadline) -> Self {
        Self { deadline, is_fresh: false }
    }

    /// Time may have passed: the clock is read again.
    pub(crate) fn mark_waited(&mut self) {
        self.is_fresh = false;
    }

    pub(in crate::runtime) fn is_over(self) -> bool {
        !self.is_fresh && self.deadline.is_over()
    }
}
