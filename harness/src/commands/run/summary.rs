//! The report of `--summary`: outcomes, round trips and latencies.

use std::{fmt::Write, time::Duration};

use hdrhistogram::Histogram;
use keepline::{
    Counters,
    maintenance::{MaintenanceCounters, TaskCounters},
};
use serde_json::{Map, Value, json};

use crate::terminal::{self, format_count, format_duration};

/// Latencies of one lane. Each pipe has its own, so they are kept small: some 10 KiB. (To three digits up to an hour they
/// would take 300 KiB a lane, most of a pipe's memory.)
#[derive(Debug)]
pub struct LaneLatencies {
    /// Nanoseconds, to two digits; grows with the longest. Always there: only wrong bounds and digits are refused.
    histogram: Option<Histogram<u32>>,
}

impl Default for LaneLatencies {
    fn default() -> Self {
        Self { histogram: Histogram::new(2).ok() }
    }
}

impl LaneLatencies {
    const LONGEST: Duration = Duration::from_secs(3600);

    pub fn record(&mut self, time: Duration) {
        if let Some(histogram) = &mut self.histogram {
            // It grows as needed, so this can't fail.
            let _ = histogram.record(u64::try_from(time.min(Self::LONGEST).as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub fn add_latencies(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.histogram, &other.histogram) {
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

#[derive(Debug, Default)]
pub struct EntryTally {
    pub questions: LaneLatencies,
    pub answers: LaneLatencies,
    pub tools: u64,
    pub opened: u64,
    /// Entries that came out with an error.
    pub errors: u64,
}

impl EntryTally {
    pub fn add_tally(&mut self, other: &Self) {
        self.questions.add_latencies(&other.questions);
        self.answers.add_latencies(&other.answers);
        self.tools += other.tools;
        self.opened += other.opened;
        self.errors += other.errors;
    }
}

#[derive(Debug)]
pub struct RunSummary {
    pub tally: EntryTally,
    pub counters: Counters,
    pub maintenance: MaintenanceCounters,
    /// Whether the plugin is disabled at the end.
    pub is_left_alone: bool,
    pub refused: u64,
    /// Requests sent to the store.
    pub round_trips: u64,
    /// Time from the first line to the last.
    pub elapsed: Duration,
}

impl RunSummary {
    /// For programs: times in seconds, and counts, zeros included.
    pub fn summary_json(&self) -> Value {
        let Self { tally, counters, maintenance, is_left_alone, refused, round_trips, elapsed } = self;
        let lane = |times: &LaneLatencies| {
            let seconds = |quantile| times.quantile(quantile).as_secs_f64();
            json!({"count": times.count(), "p50_seconds": seconds(0.5), "p99_seconds": seconds(0.99)})
        };
        let tasks = |tasks: &TaskCounters| json!({"done": tasks.done, "taken": tasks.taken, "ended": tasks.ended, "failed": tasks.failed});
        let effects: Map<String, Value> =
            counters.effects().map(|(name, count)| (name.to_owned(), count.into())).collect();
        json!({
            "elapsed_seconds": elapsed.as_secs_f64(),
            "questions": lane(&tally.questions),
            "answers": lane(&tally.answers),
            "effects": effects,
            "tools": tally.tools,
            "opened": tally.opened,
            "invalid": refused,
            "errors": tally.errors,
            "faults": counters.faults,
            "denied": counters.denied,
            "left_alone": {"entries": counters.left_alone, "now": is_left_alone},
            "deferred": {
                "titles": tasks(&maintenance.titles),
                "summaries": tasks(&maintenance.summaries),
                "others": tasks(&maintenance.others),
                "abandoned": maintenance.abandoned,
            },
            "round_trips": round_trips,
        })
    }

    /// For people, a line for each count that is not 0.
    pub fn summary_text(&self) -> String {
        let Self { tally, counters, maintenance, is_left_alone, refused, round_trips, elapsed } = self;
        let entries = tally.questions.count() + tally.answers.count();
        let mut text = format!("{} in {}", format_count(entries, "entry", "entries"), format_duration(*elapsed));
        if !elapsed.is_zero() && entries > 0 {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let rate = entries as f64 / elapsed.as_secs_f64();
            _ = write!(text, " ({rate:.0}/s)");
        }
        for (name, times) in [("questions", &tally.questions), ("answers", &tally.answers)] {
            if times.count() > 0 {
                let (half, most) = (format_duration(times.quantile(0.5)), format_duration(times.quantile(0.99)));
                _ = write!(text, "\n  {name:<10} {:>9}   p50 {half}   p99 {most}", times.count());
            }
        }
        let effects = counters.effects().filter(|(_, count)| *count > 0);
        let fates: Vec<String> = effects.map(|(name, count)| format!("{name} {count}")).collect();
        if !fates.is_empty() {
            _ = write!(text, "\n  {:<10} {}", "effects", fates.join(", "));
        }
        let deferred = format_deferred_work(maintenance);
        let now = if *is_left_alone { ", and still is" } else { "" };
        let left_alone = format!("   passed unchanged while the plugin was left alone{now}");
        for (name, count, remark) in [
            ("tools", tally.tools, ""),
            ("opened", tally.opened, ""),
            ("deferred", u64::from(!deferred.is_empty()), &*deferred),
            ("invalid", *refused, "   passed unchanged"),
            ("errors", tally.errors, "   passed on with an error member"),
            ("faults", counters.faults, "   plugin instances were stopped"),
            ("left alone", counters.left_alone, &left_alone),
            ("denied", counters.denied, "   store calls of the plugin were outside their entry's scope"),
        ] {
            match name {
                _ if count == 0 => {}
                "deferred" => _ = write!(text, "\n  {name:<10} {remark}"),
                _ => _ = write!(text, "\n  {name:<10} {count:>9}{remark}"),
            }
        }
        _ = write!(text, "\n  {:<10} {round_trips:>9}   round trips", "store");
        if *round_trips > 0 && entries > 0 {
            #[allow(clippy::cast_precision_loss, reason = "for people")]
            let each = *round_trips as f64 / entries as f64;
            _ = write!(text, ", {each:.2} per entry");
        }
        text
    }
}

/// Entries that passed without memory, by reason, except those that an option leaves out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WithoutMemory([(&'static str, u64); 6]);

impl WithoutMemory {
    pub fn from_counters(counters: &Counters) -> Self {
        Self([
            ("without a session, or with memory off", counters.passed),
            ("with an invalid session_id", counters.ignored),
            ("of another user's session", counters.foreign),
            ("over a limit", counters.limited),
            ("of a session that has ended", counters.ended),
            ("because the store or the plugin failed", counters.failed),
        ])
    }

    pub fn is_none(&self) -> bool {
        self.total() == 0
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Prints a line about them, with the number of all entries, unless there are none.
    pub fn print_notice(&self, all: u64) {
        let Self([(_, sessionless), ..]) = self;
        match self.format_notice(all) {
            None => {}
            // An entry without a session asks for no memory.
            Some(line) if self.total() == *sessionless => terminal::print_note(&line),
            Some(line) => terminal::print_warning(&line),
        }
    }

    fn format_notice(&self, all: u64) -> Option<String> {
        let why: Vec<String> =
            self.0.iter().filter(|(_, count)| *count > 0).map(|(why, count)| format!("{count} {why}")).collect();
        let all = format_count(all, "entry", "entries");
        (!why.is_empty()).then(|| format!("{} of {all} passed without memory: {}", self.total(), why.join(", ")))
    }
}

/// Deferred work in words; empty if there was none.
fn format_deferred_work(counters: &MaintenanceCounters) -> String {
    let mut parts = Vec::new();
    let kinds = [("titles", counters.titles), ("summaries", counters.summaries), ("other tasks", counters.others)];
    for (kind, tasks) in kinds {
        let fates = [
            (tasks.done, "done"),
            (tasks.taken, "left to another process"),
            (tasks.ended, "of sessions that are gone"),
            (tasks.failed, "failed"),
        ];
        let fates = fates.into_iter().filter(|(count, _)| *count > 0);
        let fates: Vec<String> = fates.map(|(count, fate)| format!("{count} {fate}")).collect();
        if !fates.is_empty() {
            parts.push(format!("{kind}: {}", fates.join(", ")));
        }
    }
    let rest = [(counters.dropped, "dropped for lack of room"), (counters.abandoned, "not finished")];
    parts.extend(rest.into_iter().filter(|(count, _)| *count > 0).map(|(count, fate)| format!("{count} {fate}")));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_without_memory_are_summarised_with_the_reasons() {
        let mut counters = Counters::default();
        (counters.stored, counters.skipped, counters.enriched) = (3, 2, 1);
        assert_eq!(WithoutMemory::from_counters(&counters).format_notice(6), None);
        (counters.passed, counters.ignored, counters.failed) = (1, 2, 1000);
        let without = WithoutMemory::from_counters(&counters);
        let told = "1003 of 1009 entries passed without memory: 1 without a session, or with memory off, 2 with an invalid session_id, \
                    1000 because the store or the plugin failed";
        assert_eq!((without.format_notice(1009).as_deref(), without.is_none()), (Some(told), false));
    }

    #[test]
    fn deferred_work_is_summarised_in_words() {
        let mut counters = MaintenanceCounters::default();
        assert_eq!(format_deferred_work(&counters), "");
        (counters.titles.done, counters.titles.taken, counters.others.ended, counters.dropped) = (2, 1, 3, 4);
        let told = "titles: 2 done, 1 left to another process; other tasks: 3 of sessions that are gone; \
                    4 dropped for lack of room";
        assert_eq!(format_deferred_work(&counters), told);
    }

    #[test]
    fn times_of_many_pipes_are_exact_to_a_hundredth() {
        let mut all = LaneLatencies::default();
        assert_eq!((all.count(), all.quantile(0.5)), (0, Duration::ZERO));
        for pipe in 0..100_u64 {
            let mut times = LaneLatencies::default();
            (1..=100).for_each(|n| times.record(Duration::from_micros(pipe * 100 + n)));
            all.add_latencies(&times);
        }
        all.add_latencies(&LaneLatencies::default());
        assert_eq!(all.count(), 10_000);
        for (quantile, micros) in [(0.01, 100.0), (0.5, 5_000.0), (0.99, 9_900.0)] {
            let told = all.quantile(quantile).as_secs_f64() * 1e6;
            assert!((told / micros - 1.0).abs() < 0.01, "{quantile}: {told}");
        }
        all.record(Duration::MAX);
        let longest = all.quantile(1.0).as_secs_f64();
        assert!((longest / 3600.0 - 1.0).abs() < 0.01, "{longest}");
    }
}
