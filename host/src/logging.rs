//! Logs messages of the host and of plugins, and re-exports the clock: the services, beside a store, that an embedder
//! can bring.

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

    /// Take one message: one line of [printable](is_printable) characters, at most 4 KiB. `context` names its kind; that
    /// of a plugin's message begins with `plugin: `, so that no plugin speaks for the host.
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

/// Keeps an outage, or a plugin, from flooding a log: of the warnings and errors of one context, a few pass at once, and
/// of everything else of a plugin's so many bytes; the rest of the period is counted, and the next period begins with
/// that count.
pub(crate) struct RateLimitedLog {
    inner: std::sync::Arc<dyn Log>,
    /// Of what the host itself reports: no plugin's chatter keeps it from that.
    own: Periods,
    plugin: Periods,
    /// What a plugin says that is not urgent.
    chatter: Mutex<Period>,
}

type Periods = Mutex<HashMap<String, Period>>;

#[derive(Debug)]
struct Period {
    began: Instant,
    /// How much has passed: messages, or bytes of chatter.
    passed: usize,
    suppressed: u64,
}

impl Period {
    fn begin() -> Self {
        Self { began: Instant::now(), passed: 0, suppressed: 0 }
    }

    /// One more, of so much weight, if no more than the most has passed in its period. How many were suppressed in the period
    /// that has just ended; none: this one is, too.
    fn admit(&mut self, weight: usize, most: usize) -> Option<u64> {
        let before = if self.began.elapsed() >= RateLimitedLog::PERIOD {
            std::mem::replace(self, Self::begin()).suppressed
        } else {
            0
        };
        if self.passed.saturating_add(weight) > most {
            self.suppressed += 1;
            return None;
        }
        self.passed += weight;
        Some(before)
    }
}

impl RateLimitedLog {
    const PERIOD: Duration = Duration::from_secs(10);
    const MESSAGES_PER_PERIOD: usize = 3;
    /// Bytes of chatter. What the bundled filter says in detail of some ten thousand entries.
    const CHATTER: usize = 1 << 20;
    /// Contexts come from the component, so their number is bounded; the rest share one period. When there are too many, those
    /// whose period is over are dropped, with their counts.
    const MAX_CONTEXTS: usize = 32;

    pub(crate) fn new(inner: std::sync::Arc<dyn Log>) -> Self {
        Self { inner, own: Mutex::default(), plugin: Mutex::default(), chatter: Mutex::new(Period::begin()) }
    }

    /// The lowest level that a component need make messages of. Warnings are always wanted: a subscriber
    /// may be installed or changed after an instance was configured.
    pub(crate) fn lowest_wanted(&self) -> LogLevel {
        let wanted = |level: &LogLevel| self.inner.enabled(*level);
        [LogLevel::Trace, LogLevel::Debug, LogLevel::Info].into_iter().find(wanted).unwrap_or(LogLevel::Warn)
    }

    /// Logs a message of an untrusted component.
    pub(crate) fn log_from_plugin(&self, level: LogLevel, context: &str, message: &str) {
        if !self.inner.enabled(level) {
            return;
        }
        let context = format!("plugin: {}", to_printable_line(context, MAX_NAME));
        let message = to_printable_line(message, MAX_MESSAGE);
        let admission = if matches!(level, LogLevel::Warn | LogLevel::Error | LogLevel::Critical) {
            Self::admit(&self.plugin, &context)
        } else {
            self.chatter.lock().admit(context.len() + message.len(), Self::CHATTER)
        };
        self.write_admitted(admission, level, &context, &message);
    }

    /// Logs a message of the host's own, a warning or an error.
    pub(crate) fn log_from_host(&self, level: LogLevel, context: &str, message: &str) {
        if self.inner.enabled(level) {
            let message = to_printable_line(message, MAX_MESSAGE);
            self.write_admitted(Self::admit(&self.own, context), level, context, &message);
        }
    }

    fn write_admitted(&self, admission: Option<u64>, level: LogLevel, context: &str, message: &str) {
        match admission {
            Some(0) => self.inner.log(level, context, message),
            Some(suppressed) => {
                self.inner.log(level, context, &format!("{message} ({suppressed} more like it before, not shown)"));
            }
            None => {}
        }
    }

    fn admit(periods: &Periods, context: &str) -> Option<u64> {
        let mut periods = periods.lock();
        if periods.len() >= Self::MAX_CONTEXTS && !periods.contains_key(context) {
            periods.retain(|_, period| period.began.elapsed() < Self::PERIOD);
        }
        let context = if periods.len() < Self::MAX_CONTEXTS || periods.contains_key(context) { context } else { "" };
        periods.entry(context.to_owned()).or_insert_with(Period::begin).admit(1, Self::MESSAGES_PER_PERIOD)
    }
}

impl fmt::Debug for RateLimitedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitedLog").finish_non_exhaustive()
    }
}

/// Makes a component's text [`printable`] in place.
pub(crate) fn make_printable(text: &mut String, max: usize) {
    if let Cow::Owned(printable) = to_printable_line(text, max) {
        *text = printable;
    }
}

/// Whether people can see a character for what it is: nothing that a terminal obeys, that ends a line, that is
/// invisible or changes the direction of its neighbours, and nothing private or unassigned. Blanks are seen.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    if is_default_ignorable(c) {
        return false;
    }
    if c.is_whitespace() {
        return !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    }
    // The standard library's table of what needs no escape. It takes a mark for one that is not behind a character.
    let mut text = String::from("x");
    text.push(c);
    text.escape_debug().nth(1) == Some(c)
}

/// Unicode's `Default_Ignorable_Code_Point`, which is displayed as nothing: fillers, joiners, variation selectors, tags.
fn is_default_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// A blank of any kind; the empty pattern of Braille looks like one.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}'
}

/// As many blanks in a row as a message may hold: with more of them its end looks like a line of its own.
const MAX_BLANKS: usize = 3;

/// One line of at most so many bytes, with all that is not [printable](is_printable) escaped: a component can neither
/// drive a terminal nor forge a line. Of many blanks in a row a few are left.
fn to_printable_line(text: &str, max: usize) -> Cow<'_, str> {
    let mut blanks = 0;
    let mut is_too_blank = |c: char| {
        blanks = if is_blank(c) { blanks + 1 } else { 0 };
        blanks > MAX_BLANKS
    };
    if text.len() <= max && text.chars().all(|c| is_printable(c) && !is_too_blank(c)) {
        return Cow::Borrowed(text);
    }
    const MORE: &str = "…";
    let (mut out, mut blanks) = (String::new(), 0);
    for c in text.chars() {
        blanks = if is_blank(c) { blanks + 1 } else { 0 };
        if blanks > MAX_BLANKS && is_printable(c) {
            continue;
        }
        let before = out.len();
        if is_printable(c) {
            out.push(c)
        } else {
            out.extend(c.escape_default())
        }
        if out.len() > max {
            out.truncate(before);
            while out.len() + MORE.len() > max && out.pop().is_some() {}
            out.push_str(MORE);
            break;
        }
    }
    Cow::Owned(out)
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
    fn invisible_characters_are_escaped() {
        let invisible = [
            '\u{3164}',
            '\u{115f}',
            '\u{1160}',
            '\u{ffa0}',
            '\u{34f}',
            '\u{17b4}',
            '\u{17b5}',
            '\u{180b}',
            '\u{180e}',
            '\u{fe0f}',
            '\u{e0100}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{2060}',
            '\u{2065}',
            '\u{feff}',
            '\u{fff0}',
            '\u{1bca0}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0fff}',
        ];
        for c in invisible {
            assert!(!is_printable(c), "{:x}", u32::from(c));
            assert_eq!(to_printable_line(&format!("a{c}b"), 100), format!("a{}b", c.escape_default()));
        }
        for c in ['é', '한', 'क', '😀', ' ', '\u{a0}', '\u{3000}'] {
            assert!(is_printable(c), "{c}");
        }
    }

    #[test]
    fn long_runs_of_blanks_in_a_log_message_are_shortened() {
        assert_eq!(to_printable_line("a   b", 100), "a   b");
        assert_eq!(to_printable_line(&format!("a{}error: b", " ".repeat(4000)), 100), "a   error: b");
        for blank in ['\u{a0}', '\u{3000}', '\u{2800}'] {
            assert_eq!(to_printable_line(&format!("a{}b", blank.to_string().repeat(99)), 1000).chars().count(), 5);
        }
        assert_eq!(to_printable_line("a\n\n\n\n\nb", 100), r"a\n\n\n\n\nb");
    }

    #[test]
    fn an_outage_does_not_flood_the_log() {
        let kept = Arc::new(Kept::default());
        let log = RateLimitedLog::new(kept.clone());
        for _ in 0..1000 {
            log.log_from_plugin(LogLevel::Warn, "a", "down");
        }
        log.log_from_plugin(LogLevel::Warn, "b", "other");
        assert_eq!(kept.0.lock().len(), RateLimitedLog::MESSAGES_PER_PERIOD + 1);
        log.plugin.lock().get_mut("plugin: a").unwrap().began -= RateLimitedLog::PERIOD;
        log.log_from_plugin(LogLevel::Warn, "a", "down");
        assert!(kept.0.lock().last().unwrap().contains("997 more like it"));
    }

    #[test]
    fn invented_contexts_suppress_other_contexts_for_one_period_at_most() {
        let kept = Arc::new(Kept::default());
        let log = RateLimitedLog::new(kept.clone());
        (0..10_000).for_each(|n| log.log_from_plugin(LogLevel::Warn, &n.to_string(), "x"));
        assert_eq!(kept.0.lock().len(), RateLimitedLog::MAX_CONTEXTS + RateLimitedLog::MESSAGES_PER_PERIOD);
        assert_eq!(log.plugin.lock().len(), RateLimitedLog::MAX_CONTEXTS + 1);
        log.plugin.lock().values_mut().for_each(|period| period.began -= RateLimitedLog::PERIOD);
        (0..10).for_each(|_| log.log_from_plugin(LogLevel::Warn, "honest", "x"));
        let honest = |line: &&String| line.starts_with("plugin: honest");
        assert_eq!(kept.0.lock().iter().filter(honest).count(), RateLimitedLog::MESSAGES_PER_PERIOD);
        assert_eq!(log.plugin.lock().len(), 1);
    }

    #[test]
    fn debug_lines_are_limited_in_bytes_and_unwanted_levels_dropped() {
        let kept = Arc::new(Kept::default());
        let log = RateLimitedLog::new(kept.clone());
        (0..1000).for_each(|_| log.log_from_plugin(LogLevel::Debug, "a", "x"));
        (0..100).for_each(|_| log.log_from_plugin(LogLevel::Trace, "a", "x"));
        assert_eq!(kept.0.lock().len(), 1000);
        (0..10_000).for_each(|n| log.log_from_plugin(LogLevel::Debug, &n.to_string(), &"\u{1b}".repeat(9_999)));
        let bytes = || kept.0.lock().iter().map(String::len).sum::<usize>();
        assert!((RateLimitedLog::CHATTER - 5_000..RateLimitedLog::CHATTER + 5_000).contains(&bytes()), "{}", bytes());
        log.chatter.lock().began -= RateLimitedLog::PERIOD;
        log.log_from_plugin(LogLevel::Info, "a", "x");
        assert!(kept.0.lock().last().unwrap().contains("more like it"));
    }

    #[test]
    fn a_plugin_cannot_log_in_the_hosts_name() {
        let kept = Arc::new(Kept::default());
        let log = RateLimitedLog::new(kept.clone());
        (0..9).for_each(|_| log.log_from_plugin(LogLevel::Error, "keepline.plugin", "a lie"));
        log.log_from_host(LogLevel::Error, "keepline.plugin", "the truth");
        let lines = kept.0.lock().clone();
        assert_eq!(lines[2..], ["plugin: keepline.plugin: a lie", "keepline.plugin: the truth"]);
    }

    #[test]
    fn a_log_message_cannot_control_the_terminal_forge_a_line_or_exceed_its_limit() {
        assert_eq!(to_printable_line("a\x1b[2Jb\nc", 100), "a\\u{1b}[2Jb\\nc");
        for (text, max, shown) in [
            ("é".repeat(10_000), 101, format!("{}…", "é".repeat(49))),
            ("\u{1b}".repeat(10_000), 20, "\\u{1b}\\u{1b}\\u{1b…".to_owned()),
            ("abc".to_owned(), 3, "abc".to_owned()),
            ("abcd".to_owned(), 3, "…".to_owned()),
        ] {
            assert_eq!(to_printable_line(&text, max), shown);
        }
        // Of the same length when it is escaped: what was compared once.
        let mut text = "a\n".to_owned();
        make_printable(&mut text, 100);
        assert_eq!(text, "a\\n");
        let mut text = "\n".repeat(100);
        make_printable(&mut text, 200);
        assert_eq!(text, "\\n".repeat(100));
        let mut text = format!("{}x", "\n".repeat(4));
        make_printable(&mut text, 5);
        assert_eq!(text, "\\n…");
    }

    #[test]
    fn misleading_characters_are_escaped() {
        for c in [
            '\0',
            '\n',
            '\x1b',
            '\x7f',
            '\u{85}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e000}',
            '\u{f8ff}',
            '\u{fffe}',
            '\u{378}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{f0000}',
            '\u{10ffff}',
        ] {
            assert!(!is_printable(c), "{c:?}");
        }
        for c in "aZ~ \"'\\é́ßЖ中文の가हिन्दी🎉👩🏽\u{a0}\u{3000}\u{2009}€—…\u{fffd}".chars()
        {
            assert!(is_printable(c), "{c:?}");
        }
    }
}
