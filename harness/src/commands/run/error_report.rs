//! Reports invalid lines and failed entries, at a limited rate.
//!
//! The first ones are reported one by one, the others as counts: a file of another kind, or a store that is down, must
//! not bury the other messages on standard error.

use std::time::Duration;

use parking_lot::Mutex;

use crate::terminal;

/// Problems that are reported one by one.
const FIRST: u64 = 10;
/// How often the number of the others is reported.
pub const PERIOD: Duration = Duration::from_secs(10);

pub struct ErrorReport {
    /// Text after their number: `lines were invalid`.
    happened: &'static str,
    /// Printed once, after the first.
    explanation: Option<&'static str>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    total: u64,
    /// Not reported yet, and the latest of them.
    held: u64,
    latest: String,
}

impl ErrorReport {
    pub fn new(happened: &'static str, explanation: Option<&'static str>) -> Self {
        Self { happened, explanation, counts: Mutex::default() }
    }

    pub fn met(&self, number: u64, problem: &str) {
        // Locked while it is printed, so that pipes don't overtake each other.
        let mut counts = self.counts.lock();
        let Some(told) = counts.met(format!("line {number}: {problem}")) else { return };
        terminal::error(&told);
        if counts.total == 1
            && let Some(explanation) = self.explanation
        {
            terminal::note(explanation);
        }
    }

    /// Prints the number of problems since the last time, unless it is 0.
    pub fn catch_up(&self) {
        if let Some((held, latest)) = self.counts.lock().held() {
            terminal::error(&format!("{held} more {}; the latest: {latest}", self.happened));
        }
    }

    /// Returns the total, and prints it unless each problem was printed.
    pub fn end(&self) -> u64 {
        let total = self.counts.lock().total;
        if total > FIRST {
            terminal::error(&format!("in total, {total} {}", self.happened));
        }
        total
    }
}

impl Counts {
    /// Counts a problem, and returns it if it is to be printed.
    fn met(&mut self, line: String) -> Option<String> {
        self.total += 1;
        if self.total <= FIRST {
            return Some(line);
        }
        self.held += 1;
        self.latest = line;
        None
    }

    /// Takes the number of unreported ones, and the latest of them.
    fn held(&mut self) -> Option<(u64, String)> {
        let held = std::mem::take(&mut self.held);
        (held > 0).then(|| (held, std::mem::take(&mut self.latest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_reported_one_by_one_and_the_others_as_a_number_per_period() {
        let mut counts = Counts::default();
        for number in 1..=FIRST {
            assert_eq!(counts.met(number.to_string()), Some(number.to_string()));
        }
        assert_eq!(counts.held(), None);
        for number in FIRST + 1..=FIRST + 5 {
            assert_eq!(counts.met(number.to_string()), None);
        }
        assert_eq!(counts.held(), Some((5, (FIRST + 5).to_string())));
        assert_eq!(counts.held(), None);
        assert_eq!(counts.met("later".to_owned()), None);
        assert_eq!(counts.held(), Some((1, "later".to_owned())));
        assert_eq!(counts.total, FIRST + 6);
    }
}
