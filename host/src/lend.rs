//! What the host lends beside a store: a clock and a log, as traits that an embedder can bring its own of.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::Level;

pub use crate::{
    contract::logging::LogLevel,
    store::{Clock, SystemClock},
};

/// The longest message of a component, and the longest name of its making, that people see.
pub(crate) const MAX_MESSAGE: usize = 4096;
pub(crate) const MAX_NAME: usize = 64;

/// Where the component's messages, and the host's about the component, go.
pub trait Log: Send + Sync + 'static {
    /// Whether messages of this level are wanted; asked before a message is put together.
    fn enabled(&self, level: LogLevel) -> bool;

    /// Take one message: one line, without control characters, at most a few KiB. `context` names its kind.
    fn log(&self, level: LogLevel, context: &str, message: &str);
}

/// Messages become [`tracing`] events of the target `keepline`, with the context as a field.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingLog;

impl Log for TracingLog {
    fn enabled(&self, level: LogLevel) -> bool {
        match level {
            LogLevel::Trace => tracing::enabled!(target: "keepline", Level::TRACE),
            LogLevel::Debug => tracing::enabled!(target: "keepline", Level::DEBUG),
            LogLevel::Info => tracing::enabled!(target: "keepline", Level::INFO),
            LogLevel::Warn => tracing::enabled!(target: "keepline", Level::WARN),
            LogLevel::Error | LogLevel::Critical => tracing::enabled!(target: "keepline", Level::ERROR),
        }
    }

    fn log(&self, level: LogLevel, context: &str, message: &str) {
        match level {
            LogLevel::Trace => tracing::trace!(target: "keepline", context, "{message}"),
            LogLevel::Debug => tracing::debug!(target: "keepline", context, "{message}"),
            LogLevel::Info => tracing::info!(target: "keepline", context, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "keepline", context, "{message}"),
            LogLevel::Error | LogLevel::Critical => tracing::error!(target: "keepline", context, "{message}"),
        }
    }
}

/// Keeps an outage from flooding a log: of the warnings and errors of one context, a few pass at once,
/// the rest of the period is counted, and the next period begins by telling the count.
pub(crate) struct RateLimitedLog {
    inner: std::sync::Arc<dyn Log>,
    periods: Periods,
    /// The host's own: no component's chatter keeps it from reporting.
    own_periods: Periods,
}

type Periods = Mutex<HashMap<String, Period>>;

#[derive(Debug)]
struct Period {
    began: Instant,
    passed: u32,
    suppressed: u64,
}

impl RateLimitedLog {
    const PERIOD: Duration = Duration::from_secs(10);
    const PASS: u32 = 3;
    /// Contexts come from the component, so their number is bounded; the rest share one period.
    const MAX_CONTEXTS: usize = 32;

    pub(crate) fn new(inner: std::sync::Arc<dyn Log>) -> Self {
        Self { inner, periods: Mutex::default(), own_periods: Mutex::default() }
    }

    /// The lowest level that a component need make messages of. Warnings are always wanted: a subscriber
    /// may be installed, or changed, after an instance was told.
    pub(crate) fn lowest_wanted(&self) -> LogLevel {
        let wanted = |level: &LogLevel| self.inner.enabled(*level);
        [LogLevel::Trace, LogLevel::Debug, LogLevel::Info].into_iter().find(wanted).unwrap_or(LogLevel::Warn)
    }

    /// Log a message of a component that nobody trusts.
    pub(crate) fn log(&self, level: LogLevel, context: &str, message: &str) {
        self.pass(&self.periods, level, context, message);
    }

    /// Log a message of the host's own.
    pub(crate) fn report(&self, level: LogLevel, context: &str, message: &str) {
        self.pass(&self.own_periods, level, context, message);
    }

    fn pass(&self, periods: &Periods, level: LogLevel, context: &str, message: &str) {
        if !self.inner.enabled(level) {
            return;
        }
        let (context, message) = (printable(context, MAX_NAME), printable(message, MAX_MESSAGE));
        let urgent = matches!(level, LogLevel::Warn | LogLevel::Error | LogLevel::Critical);
        if !urgent {
            return self.inner.log(level, &context, &message);
        }
        match Self::admit(periods, &context) {
            Admission::Pass => self.inner.log(level, &context, &message),
            Admission::PassAfter(suppressed) => {
                self.inner.log(level, &context, &format!("{message} ({suppressed} more like it before, not shown)"));
            }
            Admission::Suppress => {}
        }
    }

    fn admit(periods: &Periods, context: &str) -> Admission {
        let mut periods = periods.lock();
        let context = if periods.len() < Self::MAX_CONTEXTS || periods.contains_key(context) { context } else { "" };
        let now = Instant::now();
        let fresh = || Period { began: now, passed: 0, suppressed: 0 };
        let period = periods.entry(context.to_owned()).or_insert_with(fresh);
        if now.duration_since(period.began) >= Self::PERIOD {
            let suppressed = period.suppressed;
            *period = Period { passed: 1, ..fresh() };
            return if suppressed == 0 { Admission::Pass } else { Admission::PassAfter(suppressed) };
        }
        if period.passed < Self::PASS {
            period.passed += 1;
            return Admission::Pass;
        }
        period.suppressed += 1;
        Admission::Suppress
    }
}

impl fmt::Debug for RateLimitedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitedLog").finish_non_exhaustive()
    }
}

enum Admission {
    Pass,
    PassAfter(u64),
    Suppress,
}

/// What a component tells people, made [`printable`].
pub(crate) fn tame(text: &mut String, max: usize) {
    let printable = printable(text, max);
    if printable.len() != text.len() {
        *text = printable.into_owned();
    }
}

/// One line of bounded length, with control characters escaped: a component can't drive the terminal.
fn printable(text: &str, max: usize) -> Cow<'_, str> {
    let end = text.floor_char_boundary(max);
    let cut = text.get(..end).unwrap_or_default();
    if cut.chars().any(char::is_control) {
        let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        return Cow::Owned(cut.chars().map(escape).collect());
    }
    Cow::Borrowed(cut)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    impl Log for Kept {
        fn enabled(&self, level: LogLevel) -> bool {
            level != LogLevel::Trace
        }
        fn log(&self, _: LogLevel, context: &str, message: &str) {
            self.0.lock().push(format!("{context}: {message}"));
        }
    }

    #[test]
    fn an_outage_does_not_flood_the_log() {
        let kept = Arc::new(Kept::default());
        let log = RateLimitedLog::new(kept.clone());
        for _ in 0..1000 {
            log.log(LogLevel::Warn, "a", "down");
        }
        log.log(LogLevel::Warn, "b", "other");
        assert_eq!(kept.0.lock().len(), RateLimitedLog::PASS as usize + 1);
        log.periods.lock().get_mut("a").unwrap().began -= RateLimitedLog::PERIOD;
        log.log(LogLevel::Warn, "a", "down");
        assert!(kept.0.lock().last().unwrap().contains("997 more like it"));
    }

    #[test]
    fn debug_lines_all_pass_and_unwanted_levels_none() {
        let kept = Arc::new(Kept::default());
        let log = RateLimitedLog::new(kept.clone());
        (0..100).for_each(|_| log.log(LogLevel::Debug, "a", "x"));
        (0..100).for_each(|_| log.log(LogLevel::Trace, "a", "x"));
        assert_eq!(kept.0.lock().len(), 100);
    }

    #[test]
    fn a_message_can_not_drive_the_terminal_nor_grow_without_end() {
        assert_eq!(printable("a\x1b[2Jb\nc", 100), "a\\u{1b}[2Jb\\nc");
        assert_eq!(printable(&"é".repeat(10_000), 101).len(), 100);
    }
}
