//! Reads receipts and failures.

use super::bindings::keepline::store::types::{LogExtent, LogRecords, Receipt, RecordRun, Span, Status};
use super::{Entry, IndexedReceipt};

impl From<Receipt> for IndexedReceipt {
    fn from(receipt: Receipt) -> Self {
        Self { lease: None, receipt, found: Vec::new() }
    }
}

impl LogExtent {
    /// The position that the next record gets.
    pub fn next(self) -> u64 {
        self.first.saturating_add(self.length)
    }
}

impl Receipt {
    /// Whether the outcomes are there to be read.
    pub fn is_applied(&self) -> bool {
        matches!(self.status, Status::Applied | Status::Repeated)
    }

    /// The generation that it names; empty: none.
    pub fn named_generation(&self) -> &str {
        self.generation.as_deref().unwrap_or_default()
    }
}

/// Consecutive records of a log, and where the log stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRun {
    /// Of the whole log.
    pub extent: LogExtent,
    /// The position of the first record.
    pub first: u64,
    /// Oldest first.
    pub records: Vec<String>,
}

impl LogRun {
    /// No records, of a log that stands there.
    pub fn none(extent: LogExtent) -> Self {
        Self { extent, first: extent.next(), records: Vec::new() }
    }

    /// Each run of these records by itself.
    pub fn each(found: LogRecords) -> impl Iterator<Item = Self> {
        let extent = found.extent;
        found.runs.into_iter().map(move |RecordRun { first, records }| Self { extent, first, records })
    }

    /// The position after its last record.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.records.len() as u64)
    }

    /// Keeps, of runs that were read for these spans, those before the first that was cut short. Of a span, the beginning may
    /// be gone, or all of it.
    pub fn keep_whole(runs: &mut Vec<Self>, spans: &[Span]) {
        let mut asked = spans.iter();
        let whole = runs.iter().take_while(|run| {
            asked.any(|span| {
                let end = span.position + u64::from(span.count);
                (span.position..end).contains(&run.first) && run.end() == end
            })
        });
        let count = whole.count();
        runs.truncate(count);
    }
}

impl Default for LogRun {
    fn default() -> Self {
        Self::none(LogExtent { first: 0, length: 0 })
    }
}

/// Entries that were read, and the keys of those that can't be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadEntries {
    /// What can be read.
    pub entries: Vec<Entry>,
    /// Not UTF-8, or of another type.
    pub unreadable: Vec<String>,
}
