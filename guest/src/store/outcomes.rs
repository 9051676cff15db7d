//! The outcomes of an applied transaction, one after the other.

use crate::contract::{
    Description, Entry, Failure, FoundEntries, FoundMatches, KeyPage, LogExtent, LogRecords, Outcome, Receipt,
};

/// The answers of an applied transaction, to be read in the order of its operations.
pub(crate) struct Outcomes(std::vec::IntoIter<Outcome>);

/// Entries, unless there is too much of them.
pub(crate) enum Found {
    Entries(FoundEntries),
    Oversize { bytes: u64, entries: u64 },
}

/// What there is once, by key.
pub(crate) struct Once(Vec<Entry>);

impl Once {
    /// The text; none: it is not there, can't be read, or was taken before.
    #[inline(never)]
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.swap_remove(at).text)
    }
}

impl Default for Found {
    fn default() -> Self {
        Self::Entries(FoundEntries::default())
    }
}

impl Outcomes {
    pub(crate) fn of(receipt: Receipt) -> Self {
        Self(receipt.outcomes.into_iter())
    }

    /// Of `Get` and `GetAll`.
    pub(crate) fn entries(&mut self) -> Result<Found, Failure> {
        match self.0.next() {
            Some(Outcome::Entries(found)) => Ok(Found::Entries(found)),
            Some(Outcome::Oversize { bytes, entries }) => Ok(Found::Oversize { bytes, entries }),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `GetSome` and `GetAll`: what can be read. If there is too much of it, nothing.
    pub(crate) fn readable(&mut self) -> Result<Vec<Entry>, Failure> {
        match self.entries()? {
            Found::Entries(found) => Ok(found.entries),
            Found::Oversize { .. } => Ok(Vec::new()),
        }
    }

    /// Of `GetSome`, to be taken one by one.
    pub(crate) fn once(&mut self) -> Result<Once, Failure> {
        self.readable().map(Once)
    }

    /// Of `Get`: the text. None: it is not there, can't be read, or is longer than what was asked for.
    pub(crate) fn text(&mut self) -> Result<Option<String>, Failure> {
        Ok(self.readable()?.pop().map(|entry| entry.text))
    }

    /// Of `PageKeys`.
    pub(crate) fn keys(&mut self) -> Result<KeyPage, Failure> {
        match self.0.next() {
            Some(Outcome::Page(page)) => Ok(page),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Put`, `Remove` and `ResetMap`.
    pub(crate) fn changed(&mut self) -> Result<u64, Failure> {
        match self.0.next() {
            Some(Outcome::Changed(count)) => Ok(count),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Increment`.
    pub(crate) fn counter(&mut self) -> Result<i64, Failure> {
        match self.0.next() {
            Some(Outcome::Counter(value)) => Ok(value),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Read`, `ReadAt` and `Overflow`.
    pub(crate) fn records(&mut self) -> Result<LogRecords, Failure> {
        match self.0.next() {
            Some(Outcome::Records(found)) => Ok(found),
            Some(Outcome::Spans(extent, runs)) => {
                let none = LogRecords { extent, first: extent.next(), records: Vec::new() };
                Ok(runs.into_iter().next().unwrap_or(none))
            }
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `ReadSpans`.
    pub(crate) fn spans(&mut self) -> Result<Vec<LogRecords>, Failure> {
        match self.0.next() {
            Some(Outcome::Spans(_, found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Append`, `ReplaceOldest`, `Rewrite` and `ResetLog`.
    pub(crate) fn extent(&mut self) -> Result<LogExtent, Failure> {
        match self.0.next() {
            Some(Outcome::Extent(extent)) => Ok(extent),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Match`.
    pub(crate) fn matches(&mut self) -> Result<FoundMatches, Failure> {
        match self.0.next() {
            Some(Outcome::Matches(found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `Describe`.
    pub(crate) fn described(&mut self) -> Result<Description, Failure> {
        match self.0.next() {
            Some(Outcome::Described(found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }
}
