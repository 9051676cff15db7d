//! Reports invalid lines and failed entries, at a limited rate.
//!
//! The first ones are reported one by one, the others as counts: a file of another kind, or a store that is down, must
//! not bury the other messages on standard error.

use std::time::Duration;

use parking_lot::Mutex;

use crate::terminal;

/// Problems that are reported one by one.
const MAX_SINGLE_REPORTS: u64 = 10;
/// How often the number of the others is reported.
pub const HELD_REPORT_PERIOD: Duration = Duration::from_secs(10);

pub struct ErrorReport {
    /// Text after their number: `lines were invalid`.
    happened: &'static str,
    /// Printed once, after the first.
    explanation: Option<&'static str>,
    counts: Mutex<ProblemCounts>,
}

#[derive(Default)]
struct ProblemCounts {
    total: u64,
    /// Not reported yet, and the latest of them.
    held: u64,
    latest: String,
}

impl ErrorReport {
    pub fn new(happened: &'static str, explanation: Option<&'static str>) -> Self {
        Self { happened, explanation, counts: Mutex::default() }
    }

    pub fn record_problem(&self, number: u64, problem: &str) {
        // Locked while it is printed, so that pipes don't overtake each other.
        let mut counts = self.counts.lock();
        let Some(told) = counts.count_problem(format!("line {number}: {problem}")) else { return };
        terminal::print_error(&told);
        if counts.total == 1
            && let Some(explanation) = self.explanation
        {
            terminal::print_note(explanation);
        }
    }

    /// Prints the number of problems since the last time, unless it is 0.
    pub fn report_held_problems(&self) {
        if let Some((held, latest)) = self.counts.lock().take_held_problems() {
            terminal::print_error(&format!("{held} more {}; the latest: {latest}", self.happened));
        }
    }

    /// Returns the total, and prints it unless each problem was printed.
    pub fn report_total(&self) -> u64 {
        let total = self.counts.lock().total;
        if total > MAX_SINGLE_REPORTS {
            terminal::print_error(&format!("in total, {total} {}", self.happened));
        }
        total
    }
}

impl ProblemCounts {
    /// Counts a problem, and returns it if it is to be printed.
    fn count_problem(&mut self, line: String) -> Option<String> {
        self.total += 1;
        if self.total <= MAX_SINGLE_REPORTS {
            return Some(line);
        }
        self.held += 1;
        self.latest = line;
        None
    }

    /// Takes the number of unreported ones, and the latest of them.
    fn take_held_problems(&mut self) -> Option<(u64, String)> {
        let held = std::mem::take(&mut self.held);
        (held > 0).then(|| (held, std::mem::take(&mut self.latest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_errors_are_reported_singly_and_later_ones_counted_per_period() {
        let mut counts = ProblemCounts::default();
        for number in 1..=MAX_SINGLE_REPORTS {
            assert_eq!(counts.count_problem(number.to_string()), Some(number.to_string()));
        }
        assert_eq!(counts.take_held_problems(), None);
        for number in MAX_SINGLE_REPORTS + 1..=MAX_SINGLE_REPORTS + 5 {
            assert_eq!(counts.count_problem(number.to_string()), None);
        }
        assert_eq!(counts.take_held_problems(), Some((5, (MAX_SINGLE_REPORTS + 5).to_string())));
        assert_eq!(counts.take_held_problems(), None);
        assert_eq!(counts.count_problem("later".to_owned()), None);
        assert_eq!(counts.take_held_problems(), Some((1, "later".to_owned())));
        assert_eq!(counts.total, MAX_SINGLE_REPORTS + 6);
    }
}
