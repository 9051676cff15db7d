//! A circuit breaker: when the store fails time after time, it is left alone for a while, so that a dead
//! Redis costs an entry microseconds and not a time-out.
//!
//! It counts transactions that failed with all their retries, not connections that were cut. What a caller gave
//! too little time counts by how long that goes on, and not by how often it happens. What was cancelled does not
//! count.

use std::{fmt, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::deadline::instant_after;

/// When it opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// After so many failures in a row.
    pub failures: u32,
    /// For so long; twice as long each time that the store still fails then, up to ten times.
    pub cooldown: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures: 3, cooldown: Duration::from_millis(500) }
    }
}

/// Whether calls are let through. The greater, the worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// All are.
    #[default]
    Closed,
    /// One is, which looks whether the store is back.
    HalfOpen,
    /// None is, until the cool-down is over.
    Open,
}

impl BreakerState {
    /// For people and programs: `closed`, `half-open` or `open`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Open after so many failures in a row; then, after a cool-down that doubles each time, one transaction
/// is let through to look.
#[derive(Debug)]
pub struct Breaker {
    options: BreakerOptions,
    state: Mutex<BreakerInner>,
}

#[derive(Debug, Default)]
struct BreakerInner {
    failures: u32,
    open_until: Option<Instant>,
    /// Times that the circuit has opened since the store last worked.
    openings: u32,
    /// One looks whether the store is back, and has not reported yet.
    probing: bool,
    /// Nothing has worked since the first instant, as those report who had little time; the last of them did at the second.
    silence: Option<(Instant, Instant)>,
}

/// Permission to try. A probe that is dropped without a report makes room for the next one.
pub struct BreakerPermit<'a> {
    breaker: &'a Breaker,
    /// Since when this one looks whether the store is back; the others wait for what it finds.
    probe_since: Option<Instant>,
}

impl BreakerPermit<'_> {
    /// What came of it was reported to the breaker.
    pub fn mark_reported(mut self, to: &Breaker) {
        if std::ptr::eq(self.breaker, to) {
            self.probe_since = None;
        }
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.probe_since {
            self.breaker.probe_left_at(since, Instant::now());
        }
    }
}

impl Breaker {
    /// A cool-down never grows beyond this many times the first.
    const MAX_GROWTH: u32 = 10;

    /// A closed one.
    pub fn new(options: BreakerOptions) -> Self {
        Self { options, state: Mutex::default() }
    }

    /// Whether the last transaction failed.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn has_failures(&self) -> bool {
        self.state.lock().failures > 0
    }

    /// Whether the store is left alone.
    pub fn is_open(&self) -> bool {
        self.state.lock().open_until.is_some()
    }

    /// How it stands. One whose cool-down is over is open until somebody looks.
    pub fn state(&self) -> BreakerState {
        let state = self.state.lock();
        match state.open_until {
            None => BreakerState::Closed,
            Some(_) if state.probing => BreakerState::HalfOpen,
            Some(_) => BreakerState::Open,
        }
    }

    /// None: not now.
    pub fn admit(&self, now: Instant) -> Option<BreakerPermit<'_>> {
        let mut state = self.state.lock();
        let probe_since = match state.open_until {
            None => None,
            Some(until) if now < until => return None,
            Some(_) => {
                // The next one looks in its turn, should this one never report.
                state.open_until = Some(instant_after(now, self.cooldown_after(state.openings)));
                state.probing = true;
                Some(now)
            }
        };
        Some(BreakerPermit { breaker: self, probe_since })
    }

    /// It works: closed, whatever it was.
    pub fn record_success(&self) {
        let mut state = self.state.lock();
        if state.failures > 0 || state.silence.is_some() {
            *state = BreakerInner::default();
        }
    }

    /// Nothing came of a transaction that was begun then and had less time than the store may take. That says
    /// little; but when nothing works for `patience`, as much as one failure.
    pub(crate) fn record_cut_short(&self, began: Instant, patience: Duration, now: Instant) {
        {
            let mut state = self.state.lock();
            // What was reported long ago and never since is no silence that went on.
            let goes_on = state.silence.filter(|(_, latest)| began.saturating_duration_since(*latest) < patience);
            let since = goes_on.map_or(began, |(since, _)| since);
            if now.saturating_duration_since(since) < patience {
                state.silence = Some((since, now));
                return;
            }
            state.silence = Some((now, now));
        }
        self.record_failure(now);
    }

    /// One more failure in a row.
    pub fn record_failure(&self, now: Instant) {
        let mut state = self.state.lock();
        state.failures = state.failures.saturating_add(1);
        // One outage that stops many pipes at once is one: those that were under way don't prolong it.
        let is_open = state.open_until.is_some();
        if state.failures >= self.options.failures.max(1) && (!is_open || state.probing) {
            state.probing = false;
            let cooldown = self.cooldown_after(state.openings);
            state.openings = state.openings.saturating_add(1);
            state.open_until = Some(instant_after(now, cooldown));
        }
    }

    /// Nothing was learned: the next probe may go after as long as this one took.
    fn probe_left_at(&self, since: Instant, now: Instant) {
        let mut state = self.state.lock();
        if !state.probing {
            return;
        }
        state.probing = false;
        let next = instant_after(now, now.saturating_duration_since(since));
        state.open_until = state.open_until.map(|until| until.min(next));
    }

    fn cooldown_after(&self, openings: u32) -> Duration {
        self.options.cooldown.saturating_mul(2u32.saturating_pow(openings.min(8)).min(Self::MAX_GROWTH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(1000);

    fn breaker(failures: u32) -> Breaker {
        Breaker::new(BreakerOptions { failures, cooldown: Duration::from_millis(100) })
    }

    #[derive(Debug, PartialEq, Eq)]
    enum Admission {
        Closed,
        Probe,
        Refused,
    }

    /// Of one that does not report.
    fn admission(breaker: &Breaker, now: Instant) -> Admission {
        let Some(mut permit) = breaker.admit(now) else { return Admission::Refused };
        if permit.probe_since.take().is_some() { Admission::Probe } else { Admission::Closed }
    }

    #[test]
    fn a_breaker_opens_after_consecutive_failures_and_probes_after_the_cooldown() {
        let breaker = breaker(3);
        let start = Instant::now();
        breaker.record_failure(start);
        breaker.record_failure(start);
        breaker.record_success();
        breaker.record_failure(start);
        breaker.record_failure(start);
        assert_eq!(admission(&breaker, start), Admission::Closed);
        breaker.record_failure(start);
        assert_eq!(admission(&breaker, start), Admission::Refused);
        let later = start + Duration::from_millis(101);
        assert_eq!(admission(&breaker, later), Admission::Probe);
        assert_eq!(admission(&breaker, later), Admission::Refused);
        breaker.record_success();
        assert_eq!(admission(&breaker, later), Admission::Closed);
    }

    #[test]
    fn simultaneous_failures_open_the_breaker_once() {
        let breaker = breaker(3);
        let start = Instant::now();
        (0..16).for_each(|_| breaker.record_failure(start));
        assert_eq!(admission(&breaker, start + Duration::from_millis(99)), Admission::Refused);
        assert_eq!(admission(&breaker, start + Duration::from_millis(101)), Admission::Probe);
        // The probe fails; twice the time.
        let again = start + Duration::from_millis(150);
        (0..3).for_each(|_| breaker.record_failure(again));
        assert_eq!(admission(&breaker, again + Duration::from_millis(199)), Admission::Refused);
        assert_eq!(admission(&breaker, again + Duration::from_millis(201)), Admission::Probe);
    }

    #[test]
    fn the_cooldown_grows_but_not_without_end() {
        let breaker = breaker(1);
        let mut now = Instant::now();
        for _ in 0..100 {
            breaker.record_failure(now);
            assert_eq!(admission(&breaker, now + Duration::from_millis(99)), Admission::Refused);
            now += Duration::from_millis(1001);
            assert_eq!(admission(&breaker, now), Admission::Probe);
        }
    }

    #[test]
    fn a_cooldown_beyond_the_clocks_range_lasts_without_overflow() {
        for cooldown in [Duration::MAX, Duration::MAX / 2, Duration::from_secs(u64::MAX / 16)] {
            let breaker = Breaker::new(BreakerOptions { failures: 1, cooldown });
            let now = Instant::now();
            for _ in 0..20 {
                breaker.record_failure(now);
            }
            assert_eq!(admission(&breaker, now + Duration::from_secs(1_000_000)), Admission::Refused, "{cooldown:?}");
        }
    }

    #[test]
    fn a_probe_that_is_cancelled_makes_room_for_the_next() {
        let breaker = breaker(1);
        let start = Instant::now();
        (0..4).for_each(|n| {
            breaker.record_failure(start);
            breaker.state.lock().probing = n < 3;
        });
        let due = start + Duration::from_secs(1);
        let looking = |at| admission(&breaker, at) == Admission::Probe;
        assert!(looking(due));
        // It looked for 30 ms; unless it had left, the next would come a second after it.
        breaker.probe_left_at(due, due + Duration::from_millis(30));
        assert_eq!(admission(&breaker, due + Duration::from_millis(59)), Admission::Refused);
        assert!(looking(due + Duration::from_millis(60)));
        // A call that was cancelled at once has held up no other.
        let then = due + Duration::from_millis(60);
        breaker.probe_left_at(then, then);
        assert!(looking(then));
        breaker.record_success();
        assert_eq!(admission(&breaker, then), Admission::Closed);
    }

    #[test]
    fn a_report_to_another_breaker_frees_the_probe_of_this_one() {
        let (one, other) = (breaker(1), breaker(1));
        let start = Instant::now();
        one.record_failure(start);
        let due = start + Duration::from_millis(101);
        one.admit(due).unwrap().mark_reported(&other);
        assert!(!one.state.lock().probing);
        one.record_failure(due);
        let due = due + Duration::from_secs(1);
        one.admit(due).unwrap().mark_reported(&one);
        assert!(one.state.lock().probing, "its report decides");
    }

    #[test]
    fn calls_cut_short_open_the_breaker_by_elapsed_time_not_by_number() {
        let breaker = breaker(3);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        (0..1000).for_each(|_| breaker.record_cut_short(at(0), PATIENCE, at(50)));
        assert_eq!(admission(&breaker, at(50)), Admission::Closed);
        // Nothing works for three seconds: as much as three failures.
        for ms in (50..3000).step_by(50) {
            assert_eq!(admission(&breaker, at(ms)), Admission::Closed, "{ms}");
            breaker.record_cut_short(at(ms), PATIENCE, at(ms + 50));
        }
        assert_eq!(admission(&breaker, at(3050)), Admission::Refused);
        breaker.record_success();
        // One now and then says nothing.
        (1..100).map(|n| n * 10_000).for_each(|ms| breaker.record_cut_short(at(ms), PATIENCE, at(ms + 50)));
        assert!(!breaker.has_failures());
    }
}
