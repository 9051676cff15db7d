//! Reports invalid lines and failed entries, at a limited rate.
//!
//! The first ones are reported one by one, the others as counts: a file of another kind, or a store that is down, must
//! not bury the other messages on standard error.

use std::time::Duration;

use parking_lot::Mutex;

use crate::terminal;

/// So many are told one by one.
const FIRST: u64 = 10;
/// How often the others are told, as a number.
pub const PERIOD: Duration = Duration::from_secs(10);

/// One kind of trouble.
pub struct ErrorReport {
    /// What happened to them, after their number: `lines were invalid`.
    happened: &'static str,
    /// Told once, after the first.
    explanation: Option<&'static str>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    total: u64,
    /// Not told yet, and the latest of them.
    held: u64,
    latest: String,
}

impl ErrorReport {
    /// None so far.
    pub fn new(happened: &'static str, explanation: Option<&'static str>) -> Self {
        Self { happened, explanation, counts: Mutex::default() }
    }

    /// One more.
    pub fn met(&self, number: u64, problem: &str) {
        // Held while it is told, so that pipes don't overtake each other.
        let mut counts = self.counts.lock();
        let Some(told) = counts.met(format!("line {number}: {problem}")) else { return };
        terminal::error(&told);
        if counts.total == 1
            && let Some(explanation) = self.explanation
        {
            terminal::note(explanation);
        }
    }

    /// Tell how many there were since the last time, if there were any.
    pub fn catch_up(&self) {
        if let Some((held, latest)) = self.counts.lock().held() {
            terminal::error(&format!("{held} more {}; the latest: {latest}", self.happened));
        }
    }

    /// How many in all; told unless each of them was.
    pub fn end(&self) -> u64 {
        let total = self.counts.lock().total;
        if total > FIRST {
            terminal::error(&format!("in total, {total} {}", self.happened));
        }
        total
    }
}

impl Counts {
    /// One more; what is to be told of it.
    fn met(&mut self, line: String) -> Option<String> {
        self.total += 1;
        if self.total <= FIRST {
            return Some(line);
        }
        self.held += 1;
        self.latest = line;
        None
    }

    /// How many have not been told, and the latest of them; then they have.
    fn held(&mut self) -> Option<(u64, String)> {
        let held = std::mem::take(&mut self.held);
        (held > 0).then(|| (held, std::mem::take(&mut self.latest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_told_one_by_one_and_the_others_as_a_number_each_period() {
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
