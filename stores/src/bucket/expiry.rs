//! A bucket's time to live, and the instant at which it expires.

use crate::TimeToLive;

/// How long a bucket lives, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry {
    pub(crate) time_to_live: Option<TimeToLive>,
    /// Milliseconds since 1970. At that instant it is over.
    pub(crate) at: Option<u64>,
}

impl Expiry {
    pub(crate) fn new(time_to_live: Option<TimeToLive>, now_ms: u64) -> Self {
        Self { time_to_live, at: time_to_live.map(|ttl| now_ms.saturating_add(ttl.milliseconds)) }
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.at.is_some_and(|at| now_ms >= at)
    }

    /// Milliseconds left; `None`: it does not expire.
    pub(crate) fn remaining_ms(&self, now_ms: u64) -> Option<u64> {
        self.at.map(|at| at.saturating_sub(now_ms))
    }

    /// Start a sliding time to live again, unless less than 1 % of it has gone. Returns the old and the new instant of
    /// expiry.
    pub(crate) fn renew(&mut self, now_ms: u64) -> Option<(u64, u64)> {
        let (ttl, old) = (self.time_to_live.filter(|ttl| ttl.sliding)?, self.at?);
        let new = now_ms.saturating_add(ttl.milliseconds);
        if new.saturating_sub(old).saturating_mul(100) < ttl.milliseconds {
            return None;
        }
        self.at = Some(new);
        Some((old, new))
    }
}
