//! The outcomes of an applied transaction, one after the other.

use crate::contract::{
    Description, Entry, Failure, FoundEntries, FoundMatches, LogExtent, LogRecords, Outcome, Receipt, Size, SpanRecords,
};
use crate::store::sort_names;

/// The answers of an applied transaction, to be read in the order of its operations.
pub(crate) struct Outcomes {
    /// The life of the bucket.
    pub generation: String,
    rest: std::vec::IntoIter<Outcome>,
}

/// Entries, unless there is too much of them.
pub(crate) enum EntriesOutcome {
    Entries(FoundEntries),
    Oversize(Size),
}

/// Some keys of a map.
pub(crate) struct KeyPage {
    /// Sorted, each once.
    pub keys: Vec<String>,
    /// Empty after the last page.
    pub cursor: String,
}

/// What there is once, by key.
pub(crate) struct EntriesByKey(Vec<Entry>);

impl EntriesByKey {
    /// The text; none: it is not there, can't be read, or was taken before.
    #[inline(never)]
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.swap_remove(at).text)
    }
}

impl Default for EntriesOutcome {
    fn default() -> Self {
        Self::Entries(FoundEntries::default())
    }
}

impl Outcomes {
    pub(crate) fn of(receipt: Receipt) -> Self {
        Self { generation: receipt.generation, rest: receipt.outcomes.into_iter() }
    }

    /// Of `get`, `get_some` and `get_all`.
    pub(crate) fn take_entries(&mut self) -> Result<EntriesOutcome, Failure> {
        match self.rest.next() {
            Some(Outcome::Entries(found)) => Ok(EntriesOutcome::Entries(found)),
            Some(Outcome::Oversize(size)) => Ok(EntriesOutcome::Oversize(size)),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `get_some` and `get_all`: what can be read. If there is too much of it, nothing.
    pub(crate) fn take_readable_entries(&mut self) -> Result<Vec<Entry>, Failure> {
        match self.take_entries()? {
            EntriesOutcome::Entries(found) => Ok(found.entries),
            EntriesOutcome::Oversize(_) => Ok(Vec::new()),
        }
    }

    /// Of `get_some`, to be taken one by one.
    pub(crate) fn take_entries_by_key(&mut self) -> Result<EntriesByKey, Failure> {
        self.take_readable_entries().map(EntriesByKey)
    }

    /// Of `get`: the text. None: it is not there, can't be read, or is longer than what was asked for.
    pub(crate) fn take_text(&mut self) -> Result<Option<String>, Failure> {
        Ok(self.take_readable_entries()?.pop().map(|entry| entry.text))
    }

    /// Of `page_keys`.
    pub(crate) fn take_key_page(&mut self) -> Result<KeyPage, Failure> {
        match self.rest.next() {
            Some(Outcome::Page(page)) => {
                let mut keys: Vec<_> = page.entries.into_iter().map(|entry| entry.key).collect();
                keys.extend(page.unreadable);
                sort_names(&mut keys);
                Ok(KeyPage { keys, cursor: page.cursor })
            }
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `put`, `remove` and `reset_map`.
    pub(crate) fn take_changed_count(&mut self) -> Result<u64, Failure> {
        match self.rest.next() {
            Some(Outcome::Changed(changed)) => Ok(changed.count),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `increment`.
    pub(crate) fn take_counter(&mut self) -> Result<i64, Failure> {
        match self.rest.next() {
            Some(Outcome::Counter(counter)) => Ok(counter.value),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `read`, `read_at` one span, and `overflow`.
    pub(crate) fn take_records(&mut self) -> Result<LogRecords, Failure> {
        match self.rest.next() {
            Some(Outcome::Records(found)) => Ok(found),
            Some(Outcome::Spans(found)) => {
                let none = SpanRecords { first: found.extent.next(), records: Vec::new() };
                let SpanRecords { first, records } = found.spans.into_iter().next().unwrap_or(none);
                Ok(LogRecords { extent: found.extent, first, records })
            }
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `read_at`.
    pub(crate) fn take_spans(&mut self) -> Result<Vec<LogRecords>, Failure> {
        match self.rest.next() {
            Some(Outcome::Spans(found)) => {
                let run =
                    |run: SpanRecords| LogRecords { extent: found.extent, first: run.first, records: run.records };
                Ok(found.spans.into_iter().map(run).collect())
            }
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `append`, `replace_oldest`, `rewrite` and `reset_log`.
    pub(crate) fn take_extent(&mut self) -> Result<LogExtent, Failure> {
        match self.rest.next() {
            Some(Outcome::Extent(extent)) => Ok(extent),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `match_terms`.
    pub(crate) fn take_matches(&mut self) -> Result<FoundMatches, Failure> {
        match self.rest.next() {
            Some(Outcome::Matches(found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }

    /// Of `describe`.
    pub(crate) fn take_description(&mut self) -> Result<Description, Failure> {
        match self.rest.next() {
            Some(Outcome::Described(found)) => Ok(found),
            _ => Err(Failure::out_of_turn()),
        }
    }
}
