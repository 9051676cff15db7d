//! What `--summary` tells: fates, round trips, and the time that entries took.

use std::{fmt::Write, time::Duration};

use hdrhistogram::Histogram;
use keepline::Counters;

/// How long the entries of one lane took.
#[derive(Debug)]
pub struct Times {
    /// Nanoseconds, to three digits, up to an hour.
    histogram: Option<Histogram<u64>>,
}

impl Default for Times {
    fn default() -> Self {
        Self { histogram: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).ok() }
    }
}

impl Times {
    /// One more.
    pub fn record(&mut self, time: Duration) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// All of another.
    pub fn add(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.histogram, &other.histogram) {
            // Both have the same bounds, so that it can't fail.
            let _ = histogram.add(other);
        }
    }

    fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.histogram.as_ref().map_or(0, |histogram| histogram.value_at_quantile(quantile)))
    }
}

/// What one pipe saw.
#[derive(Debug, Default)]
pub struct Tally {
    /// Questions.
    pub questions: Times,
    /// Answers.
    pub answers: Times,
    /// New objects.
    pub opened: u64,
    /// Entries that came out with an error.
    pub errors: u64,
}

impl Tally {
    /// All of another.
    pub fn add(&mut self, other: &Self) {
        self.questions.add(&other.questions);
        self.answers.add(&other.answers);
        self.opened += other.opened;
        self.errors += other.errors;
    }
}

/// The whole run.
#[derive(Debug)]
pub struct Summary {
    /// What the pipes saw.
    pub tally: Tally,
    /// What the filter did.
    pub counters: Counters,
    /// Lines that were no entries.
    pub refused: u64,
    /// Requests sent to the store.
    pub round_trips: u64,
    /// From the first line to the last.
    pub elapsed: Duration,
}

impl Summary {
    /// For people, a line for each of the things that there were.
    pub fn lines(&self) -> String {
        let Self { tally, counters, refused, round_trips, elapsed } = self;
        let entries = tally.questions.count() + tally.answers.count();
        let mut text = format!("{entries} entries in {}", short(*elapsed));
        if !elapsed.is_zero() && entries > 0 {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let rate = entries as f64 / elapsed.as_secs_f64();
            _ = write!(text, " ({rate:.0} a second)");
        }
        for (name, times) in [("questions", &tally.questions), ("answers", &tally.answers)] {
            if times.count() > 0 {
                let (half, most) = (short(times.quantile(0.5)), short(times.quantile(0.99)));
                _ = write!(text, "\n  {name:<10} {:>9}   p50 {half}   p99 {most}", times.count());
            }
        }
        let of_filter = [
            ("enriched", counters.enriched),
            ("resumed", counters.resumed),
            ("stored", counters.stored),
            ("passed", counters.passed),
            ("ignored", counters.ignored),
            ("limited", counters.limited),
            ("ended", counters.ended),
            ("failed", counters.failed),
        ];
        let fates: Vec<String> =
            of_filter.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")).collect();
        if !fates.is_empty() {
            _ = write!(text, "\n  {:<10} {}", "effects", fates.join(", "));
        }
        if tally.opened > 0 {
            _ = write!(text, "\n  {:<10} {:>9}", "opened", tally.opened);
        }
        if *refused > 0 {
            _ = write!(text, "\n  {:<10} {refused:>9}   passed unchanged", "no entries");
        }
        if tally.errors > 0 {
            _ = write!(text, "\n  {:<10} {:>9}   came out with an error beside them", "errors", tally.errors);
        }
        if counters.faults > 0 {
            _ = write!(text, "\n  {:<10} {:>9}   instances of the plugin were stopped", "faults", counters.faults);
        }
        _ = write!(text, "\n  {:<10} {round_trips:>9}   round trips", "store");
        if *round_trips > 0 && entries > 0 {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let each = *round_trips as f64 / entries as f64;
            _ = write!(text, ", {each:.2} an entry");
        }
        text
    }
}

/// A time to three digits.
pub fn short(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..99.95 => format!("{micros:.1} µs"),
        ..999.5 => format!("{micros:.0} µs"),
        ..99_950.0 => format!("{:.1} ms", micros / 1e3),
        ..999_500.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}
