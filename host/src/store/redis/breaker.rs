//! A circuit breaker: when the store fails time after time, it is left alone for a while, so that a dead
//! Redis costs an entry microseconds and not a time-out.
//!
//! It counts transactions that failed with all their retries, not connections that were cut.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// When it opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct BreakerOptions {
    pub(super) failures: u32,
    pub(super) cooldown: Duration,
}

/// Open after so many failures in a row; then, after a cool-down that doubles each time, one transaction
/// is let through to look.
#[derive(Debug)]
pub(super) struct Breaker {
    options: BreakerOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open_until: Option<Instant>,
    /// Times that the circuit has opened since the store last worked.
    openings: u32,
    /// One looks whether the store is back, and has not reported yet.
    probing: bool,
}

/// May a transaction be tried?
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Closed,
    /// This one looks whether the store is back; the others wait for what it finds.
    Probe,
    Refused,
}

impl Breaker {
    /// A cool-down never grows beyond this many times the first.
    const MAX_GROWTH: u32 = 10;

    pub(super) fn new(options: BreakerOptions) -> Self {
        Self { options, state: Mutex::default() }
    }

    /// Whether the last transaction failed.
    pub(super) fn has_failures(&self) -> bool {
        self.state.lock().failures > 0
    }

    pub(super) fn admit(&self) -> Admission {
        self.admit_at(Instant::now())
    }

    pub(super) fn succeeded(&self) {
        let mut state = self.state.lock();
        if state.failures > 0 {
            *state = State::default();
        }
    }

    pub(super) fn failed(&self) {
        self.failed_at(Instant::now());
    }

    fn admit_at(&self, now: Instant) -> Admission {
        let mut state = self.state.lock();
        match state.open_until {
            None => Admission::Closed,
            Some(until) if now < until => Admission::Refused,
            Some(_) => {
                // The next one looks in its turn, should this one never report.
                state.open_until = Some(now + self.cooldown_after(state.openings));
                state.probing = true;
                Admission::Probe
            }
        }
    }

    fn failed_at(&self, now: Instant) {
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        // One outage that stops many pipes at once is one: those that were under way don't prolong it.
        let is_open = state.open_until.is_some();
        if state.failures >= self.options.failures.max(1) && (!is_open || state.probing) {
            state.probing = false;
            let cooldown = self.cooldown_after(state.openings);
            state.openings = state.openings.saturating_add(1);
            state.open_until = Some(now + cooldown);
        }
    }

    fn cooldown_after(&self, openings: u32) -> Duration {
        self.options.cooldown * 2u32.saturating_pow(openings.min(8)).min(Self::MAX_GROWTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker(failures: u32) -> Breaker {
        Breaker::new(BreakerOptions { failures, cooldown: Duration::from_millis(100) })
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_probe_through_after_the_cooldown() {
        let breaker = breaker(3);
        let start = Instant::now();
        breaker.failed_at(start);
        breaker.failed_at(start);
        breaker.succeeded();
        breaker.failed_at(start);
        breaker.failed_at(start);
        assert_eq!(breaker.admit_at(start), Admission::Closed);
        breaker.failed_at(start);
        assert_eq!(breaker.admit_at(start), Admission::Refused);
        let later = start + Duration::from_millis(101);
        assert_eq!(breaker.admit_at(later), Admission::Probe);
        assert_eq!(breaker.admit_at(later), Admission::Refused);
        breaker.succeeded();
        assert_eq!(breaker.admit_at(later), Admission::Closed);
    }

    #[test]
    fn many_pipes_that_fail_at_once_open_it_once() {
        let breaker = breaker(3);
        let start = Instant::now();
        (0..16).for_each(|_| breaker.failed_at(start));
        assert_eq!(breaker.admit_at(start + Duration::from_millis(99)), Admission::Refused);
        assert_eq!(breaker.admit_at(start + Duration::from_millis(101)), Admission::Probe);
        // The probe fails; twice the time.
        let again = start + Duration::from_millis(150);
        (0..3).for_each(|_| breaker.failed_at(again));
        assert_eq!(breaker.admit_at(again + Duration::from_millis(199)), Admission::Refused);
        assert_eq!(breaker.admit_at(again + Duration::from_millis(201)), Admission::Probe);
    }

    #[test]
    fn the_cooldown_grows_but_not_without_end() {
        let breaker = breaker(1);
        let mut now = Instant::now();
        for _ in 0..100 {
            breaker.failed_at(now);
            assert_eq!(breaker.admit_at(now + Duration::from_millis(99)), Admission::Refused);
            now += Duration::from_millis(1001);
            assert_eq!(breaker.admit_at(now), Admission::Probe);
        }
    }
}
