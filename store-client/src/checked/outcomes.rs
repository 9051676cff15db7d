//! The outcomes of an applied transaction, one after the other.

use crate::checked::sort_names;
use crate::{
    ChangedEntries, Description, Entry, FoundDocuments, FoundEntries, IndexedReceipt, LogExtent, LogRun,
    MissingEntries, Outcome, Problem, ReadEntries, Receipt, Size,
};

/// The answers of an applied transaction, to be read in the order of its operations, and of its steps.
pub struct Outcomes {
    /// Of the bucket; empty if the precondition named it.
    pub generation: String,
    rest: std::vec::IntoIter<Outcome>,
    found: std::vec::IntoIter<FoundDocuments>,
}

/// Entries, unless there is too much of them.
pub enum EntriesOutcome {
    /// What was asked for.
    Entries(ReadEntries),
    /// It exceeds a limit of the request, which this tells as far as the store counted.
    Oversize(Size),
}

/// Some keys of a map.
pub struct KeyPage {
    /// Sorted, each once.
    pub keys: Vec<String>,
    /// Empty after the last page.
    pub cursor: String,
}

/// Some entries of a map: those that can be read.
pub struct EntryPage {
    /// In no order.
    pub entries: Vec<Entry>,
    /// Empty after the last page.
    pub cursor: String,
}

/// What there is once, by key.
pub struct EntriesByKey(Vec<Entry>);

impl EntriesByKey {
    /// The text; none: it is not there, can't be read, or was taken before.
    #[inline(never)]
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|entry| entry.key == key)?;
        Some(self.0.swap_remove(at).text)
    }

    /// Those that were not taken yet.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }
}

impl Default for EntriesOutcome {
    fn default() -> Self {
        Self::Entries(ReadEntries::default())
    }
}

impl Outcomes {
    /// Of a receipt that was applied.
    pub fn of(receipt: Receipt) -> Self {
        Self::of_indexed(IndexedReceipt { lease: None, receipt, found: Vec::new() })
    }

    /// Of a receipt that was applied, with what its index steps found.
    pub fn of_indexed(IndexedReceipt { receipt, found, .. }: IndexedReceipt) -> Self {
        let generation = receipt.generation.unwrap_or_default();
        Self { generation, rest: receipt.outcomes.into_iter(), found: found.into_iter() }
    }

    /// Of `get`, `get_some` and `get_all`.
    pub fn take_entries(&mut self) -> Result<EntriesOutcome, Box<Problem>> {
        let Some(Outcome::Entries(FoundEntries { entries, missing })) = self.rest.next() else {
            return Err(Problem::out_of_turn());
        };
        Ok(match missing {
            None => EntriesOutcome::Entries(ReadEntries { entries, unreadable: Vec::new() }),
            Some(MissingEntries { oversize: Some(size), .. }) => EntriesOutcome::Oversize(size),
            Some(MissingEntries { unreadable, .. }) => EntriesOutcome::Entries(ReadEntries { entries, unreadable }),
        })
    }

    /// Of `get_some` and `get_all`: what can be read. If there is too much of it, nothing.
    pub fn take_readable_entries(&mut self) -> Result<Vec<Entry>, Box<Problem>> {
        match self.take_entries()? {
            EntriesOutcome::Entries(found) => Ok(found.entries),
            EntriesOutcome::Oversize(_) => Ok(Vec::new()),
        }
    }

    /// Of `get_some`, to be taken one by one.
    pub fn take_entries_by_key(&mut self) -> Result<EntriesByKey, Box<Problem>> {
        self.take_readable_entries().map(EntriesByKey)
    }

    /// Of `get`: the text. None: it is not there, can't be read, or is longer than what was asked for.
    pub fn take_text(&mut self) -> Result<Option<String>, Box<Problem>> {
        Ok(self.take_readable_entries()?.pop().map(|entry| entry.text))
    }

    /// Of `page_keys`.
    pub fn take_key_page(&mut self) -> Result<KeyPage, Box<Problem>> {
        let Some(Outcome::Entries(page)) = self.rest.next() else { return Err(Problem::out_of_turn()) };
        let mut keys: Vec<_> = page.entries.into_iter().map(|entry| entry.key).collect();
        let mut cursor = String::new();
        if let Some(missing) = page.missing {
            keys.extend(missing.unreadable);
            cursor = missing.cursor;
        }
        sort_names(&mut keys);
        Ok(KeyPage { keys, cursor })
    }

    /// Of `page_entries`.
    pub fn take_entry_page(&mut self) -> Result<EntryPage, Box<Problem>> {
        let Some(Outcome::Entries(page)) = self.rest.next() else { return Err(Problem::out_of_turn()) };
        let cursor = page.missing.map(|missing| missing.cursor).unwrap_or_default();
        Ok(EntryPage { entries: page.entries, cursor })
    }

    /// Of `put`, `remove` and `reset_map`.
    pub fn take_changed(&mut self) -> Result<ChangedEntries, Box<Problem>> {
        let Some(Outcome::Changed(changed)) = self.rest.next() else { return Err(Problem::out_of_turn()) };
        Ok(changed)
    }

    /// Of `add`.
    pub fn take_counter(&mut self) -> Result<i64, Box<Problem>> {
        let Some(Outcome::Counter(counter)) = self.rest.next() else { return Err(Problem::out_of_turn()) };
        Ok(counter.value)
    }

    /// Of `read` and `read_surplus`, and of `read_at` one span.
    pub fn take_records(&mut self) -> Result<LogRun, Box<Problem>> {
        match self.rest.next() {
            Some(Outcome::Records(found)) => {
                let none = LogRun::none(found.extent);
                Ok(LogRun::each(found).next().unwrap_or(none))
            }
            Some(Outcome::Extent(extent)) => Ok(LogRun::none(extent)),
            _ => Err(Problem::out_of_turn()),
        }
    }

    /// Of `read_at`.
    pub fn take_spans(&mut self) -> Result<Vec<LogRun>, Box<Problem>> {
        let Some(Outcome::Records(found)) = self.rest.next() else { return Err(Problem::out_of_turn()) };
        Ok(LogRun::each(found).collect())
    }

    /// Of `append`, `replace_oldest`, `rewrite` and `reset_log`.
    pub fn take_extent(&mut self) -> Result<LogExtent, Box<Problem>> {
        let Some(Outcome::Extent(extent)) = self.rest.next() else { return Err(Problem::out_of_turn()) };
        Ok(extent)
    }

    /// Of the next step.
    pub fn take_found(&mut self) -> Result<FoundDocuments, Box<Problem>> {
        self.found.next().ok_or_else(Problem::out_of_turn)
    }

    /// Of `describe`.
    pub fn take_description(&mut self) -> Result<Description, Box<Problem>> {
        let Some(Outcome::Described(found)) = self.rest.next() else { return Err(Problem::out_of_turn()) };
        Ok(found)
    }
}
