//! Clocks: the machine's, one for tests, and what notices that a clock was set ahead.

use std::{
    fmt, fs,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;

/// Tells the time. One clock can drive a [`MemoryStore`](crate::MemoryStore) and whatever else has to agree with it.
pub trait Clock: Send + Sync + 'static {
    /// Time since 1970-01-01T00:00:00Z.
    fn now(&self) -> Duration;

    /// Time since a fixed moment, by a clock that can't be set and that also runs while the machine sleeps. Stores compare
    /// the two, so as not to believe at once that a long time has passed where somebody has set the clock. By default
    /// [`now`](Self::now): a clock that is never set.
    fn uptime(&self) -> Duration {
        self.now()
    }

    /// Which boot of the machine [`uptime`](Self::uptime) counts from: processes that name the same boot can compare
    /// theirs. None, the default: no other clock can be compared.
    fn boot_id(&self) -> Option<String> {
        None
    }
}

impl fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    fn uptime(&self) -> Duration {
        machine_uptime()
    }

    fn boot_id(&self) -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim_end().to_owned())
    }
}

/// An instant of the machine's clocks, from which on they are compared.
struct Anchor {
    instant: Instant,
    wall: Duration,
    uptime: Duration,
}

impl Anchor {
    /// The present, with this uptime where the kernel tells none.
    fn now(uptime: Duration) -> Self {
        // The kernel's answer includes sleep, unlike `Instant`.
        let text = fs::read_to_string("/proc/uptime").ok();
        let seconds = text.and_then(|text| text.split(' ').next()?.parse().ok());
        let known = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Self { instant: Instant::now(), wall: SystemClock.now(), uptime: known.unwrap_or(uptime) }
    }
}

static ANCHOR: LazyLock<Mutex<Anchor>> = LazyLock::new(|| Mutex::new(Anchor::now(Duration::ZERO)));

/// By how much the wall clock and `Instant` may come apart before the kernel is asked why.
const APART: Duration = Duration::from_secs(1);

/// Asks the kernel only when the clocks have come apart, by sleep or because one was set: asking costs microseconds.
fn machine_uptime() -> Duration {
    let wall = SystemClock.now();
    let mut anchor = ANCHOR.lock();
    let mut passed = anchor.instant.elapsed();
    if wall.abs_diff(anchor.wall + passed) > APART {
        *anchor = Anchor::now(anchor.uptime + passed);
        passed = anchor.instant.elapsed();
    }
    anchor.uptime + passed
}

/// A clock that moves only when it is [advanced](Self::advance) or set, for tests. Clones tell the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    /// Microseconds since 1970.
    now: Arc<AtomicU64>,
    /// Microseconds.
    uptime: Arc<AtomicU64>,
    boot_id: Arc<str>,
}

impl ManualClock {
    /// It shows the present time, on a machine of its own that has just started.
    pub fn new() -> Self {
        Self {
            now: Arc::new(AtomicU64::new(saturating_micros(SystemClock.now()))),
            uptime: Arc::default(),
            boot_id: format!("{:032x}", fastrand::u128(..)).into(),
        }
    }

    /// Let time pass, at once.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(saturating_micros(by), Ordering::Relaxed);
        self.uptime.fetch_add(saturating_micros(by), Ordering::Relaxed);
    }

    /// Be set to an earlier time, as clocks are. No time passes.
    pub fn go_back(&self, by: Duration) {
        self.now.fetch_sub(saturating_micros(by), Ordering::Relaxed);
    }

    /// Be set to a later time. No time passes.
    pub fn jump_ahead(&self, by: Duration) {
        self.now.fetch_add(saturating_micros(by), Ordering::Relaxed);
    }

    /// The same clock after the machine was started again.
    #[must_use]
    pub fn rebooted(&self) -> Self {
        Self { now: self.now.clone(), ..Self::new() }
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

    fn uptime(&self) -> Duration {
        Duration::from_micros(self.uptime.load(Ordering::Relaxed))
    }

    fn boot_id(&self) -> Option<String> {
        Some(self.boot_id.to_string())
    }
}

impl From<ManualClock> for Arc<dyn Clock> {
    fn from(clock: ManualClock) -> Self {
        Arc::new(clock)
    }
}

/// As stores count.
pub(crate) fn saturating_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// By how much a clock must have been set ahead to be doubted, and for how long it is, in microseconds.
const DOUBT: u64 = 60 * 1_000_000;

/// Notices that a clock was set ahead, and does not believe it for a minute.
///
/// A clock that is set back is believed at once: nothing expires by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockWatch {
    /// What the clock showed at uptime 0, in microseconds, going by what is believed.
    pub(crate) believed: u64,
    pub(crate) jump: Option<ClockJump>,
}

/// A clock that is not believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockJump {
    /// What it would have shown at uptime 0, in microseconds.
    pub(crate) to: u64,
    /// The uptime when that was noticed, in microseconds.
    pub(crate) noticed_at: u64,
}

/// What time it is, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// The time that everything uses and that is stored.
    pub(crate) now: u64,
    /// What the clock shows: later than `now` while that is in doubt.
    pub(crate) shown: u64,
}

impl ClockReading {
    pub(crate) fn now_ms(self) -> u64 {
        self.now / 1000
    }

    pub(crate) fn shown_ms(self) -> u64 {
        self.shown / 1000
    }
}

impl ClockWatch {
    /// Begins with what the clock shows.
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        Self { believed: saturating_micros(clock.now()).saturating_sub(saturating_micros(clock.uptime())), jump: None }
    }

    pub(crate) fn read_clock(&mut self, clock: &dyn Clock) -> ClockReading {
        let (shown, uptime) = (saturating_micros(clock.now()), saturating_micros(clock.uptime()));
        let start = shown.saturating_sub(uptime);
        if start <= self.believed.saturating_add(DOUBT) {
            *self = Self { believed: start, jump: None };
            return ClockReading { now: shown, shown };
        }
        let jump = match self.jump {
            Some(jump) if start.abs_diff(jump.to) <= DOUBT => jump,
            _ => ClockJump { to: start, noticed_at: uptime },
        };
        if uptime.saturating_sub(jump.noticed_at) >= DOUBT {
            *self = Self { believed: start, jump: None };
            return ClockReading { now: shown, shown };
        }
        self.jump = Some(jump);
        ClockReading { now: uptime.saturating_add(self.believed), shown }
    }

    /// Takes over what another process knows of a jump that was noticed here just now.
    #[cfg(feature = "directory")]
    pub(crate) fn adopt_known_jump(&mut self, other: Self) {
        let Some(jump) = &mut self.jump else { return };
        if jump.to <= other.believed.saturating_add(DOUBT) {
            *self = Self { believed: jump.to, jump: None };
        } else if let Some(earlier) = other.jump
            && earlier.to.abs_diff(jump.to) <= DOUBT
        {
            jump.noticed_at = jump.noticed_at.min(earlier.noticed_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// By how much the clock is ahead of what is believed.
    fn in_doubt(watch: &mut ClockWatch, clock: &ManualClock) -> Duration {
        let reading = watch.read_clock(clock);
        Duration::from_micros(reading.shown - reading.now)
    }

    #[test]
    fn a_clock_that_was_set_ahead_is_believed_after_a_minute() {
        let clock = ManualClock::new();
        let mut watch = ClockWatch::new(&clock);
        clock.jump_ahead(MINUTE);
        assert_eq!(in_doubt(&mut watch, &clock), Duration::ZERO, "a minute is no jump");
        let began = watch.read_clock(&clock).now;
        clock.jump_ahead(3 * DAY);
        for _ in 0..59 {
            assert_eq!(in_doubt(&mut watch, &clock), 3 * DAY);
            clock.advance(Duration::from_secs(1));
        }
        assert_eq!(watch.read_clock(&clock).now, began + 59_000_000, "meanwhile time goes on as before");
        clock.advance(Duration::from_secs(1));
        assert_eq!(in_doubt(&mut watch, &clock), Duration::ZERO);
        assert_eq!(watch.read_clock(&clock).now, saturating_micros(clock.now()));
    }

    #[test]
    fn a_clock_that_returns_within_the_minute_does_not_change_the_time() {
        let clock = ManualClock::new();
        let mut watch = ClockWatch::new(&clock);
        let began = watch.read_clock(&clock).now;
        for _ in 0..5 {
            clock.jump_ahead(3 * DAY);
            assert_eq!(in_doubt(&mut watch, &clock), 3 * DAY);
            clock.advance(Duration::from_secs(3));
            assert_eq!(in_doubt(&mut watch, &clock), 3 * DAY);
            clock.go_back(3 * DAY);
            assert_eq!(in_doubt(&mut watch, &clock), Duration::ZERO);
        }
        assert_eq!(watch.read_clock(&clock).now, began + 15_000_000);
    }

    #[test]
    fn the_minute_begins_again_with_another_jump() {
        let clock = ManualClock::new();
        let mut watch = ClockWatch::new(&clock);
        clock.jump_ahead(DAY);
        assert_eq!(in_doubt(&mut watch, &clock), DAY);
        clock.advance(Duration::from_secs(59));
        clock.jump_ahead(DAY);
        assert_eq!(in_doubt(&mut watch, &clock), 2 * DAY);
        clock.advance(Duration::from_secs(59));
        assert_eq!(in_doubt(&mut watch, &clock), 2 * DAY);
        clock.advance(Duration::from_secs(1));
        assert_eq!(in_doubt(&mut watch, &clock), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_is_set_back_is_believed_at_once() {
        let clock = ManualClock::new();
        let mut watch = ClockWatch::new(&clock);
        clock.go_back(DAY);
        assert_eq!(watch.read_clock(&clock).now, saturating_micros(clock.now()));
        // From there, the way to where it was is a jump like any other.
        clock.jump_ahead(DAY);
        assert_eq!(in_doubt(&mut watch, &clock), DAY);
    }

    #[test]
    fn elapsed_time_is_never_taken_for_a_jump() {
        let clock = ManualClock::new();
        let mut watch = ClockWatch::new(&clock);
        for _ in 0..10 {
            clock.advance(100 * DAY);
            assert_eq!(in_doubt(&mut watch, &clock), Duration::ZERO);
        }
    }

    #[test]
    fn uptime_increases_and_the_boot_id_is_stable() {
        let (before, boot) = (SystemClock.uptime(), SystemClock.boot_id());
        assert_eq!(boot, SystemClock.boot_id());
        assert!(SystemClock.uptime() >= before);
        #[cfg(target_os = "linux")]
        assert!(boot.is_some_and(|boot| boot.len() == 36) && before < SystemClock.now());
    }
}
