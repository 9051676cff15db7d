//! The limits of the contract on one call, and the size of a request that is held against them.
//!
//! A store serves other callers meanwhile. Each number is chosen by what the slowest store takes: a call within the limits
//! holds a store for tens of milliseconds at most, whatever is stored there already.

use crate::{
    AddDocumentsStep, Expectation, Failure, FailureCode, IndexStep, IndexedTransaction, LeaseRequest, Operation,
    PositionMark, Precondition, failure, index, limit,
};

/// What each piece of a request, each entry or record in an answer, and each that is stored counts beside its bytes:
/// an empty record takes room and time, too.
pub const PIECE_BYTES: u64 = 96;
/// Pieces of a call: operations, steps, leases, expectations, entries, keys, records, marks, spans, documents and positions
/// to remove, together. A description of all parts counts as [`MAX_PARTS`]. The answers of a transaction hold as many
/// entries and records.
pub const MAX_PIECES: u64 = 20_000;
/// Bytes of a key's text.
pub const MAX_TEXT_BYTES: u64 = 8 << 20;
/// Bytes of a record. Less than of a text: the length of a record in Redis is not known before it is read, together with
/// its neighbours.
pub const MAX_RECORD_BYTES: u64 = 2 << 20;
/// Bytes of all pieces of a call. The answers of a transaction have as many.
pub const MAX_BYTES: u64 = 16 << 20;
/// Operations and steps of a call that read whole maps, pages, stretches of logs, or indexes.
pub const MAX_RANGES: u64 = 16;
/// Transactions that are waited for together.
pub const MAX_TRANSACTIONS: usize = 128;
/// Entries or records in the answer to one operation, whatever was asked for; records that are replaced at a time.
pub const MAX_RECORDS: u64 = 10_000;
/// Entries on a page when the caller does not say.
pub const PAGE: u64 = 100;
/// Entries of `values` in a bucket: in Redis each is a key of its own, which a bucket takes along when it is renewed and
/// when it ends.
pub const MAX_VALUES: u64 = 20_000;
/// Maps, logs, indexes and leases of a bucket.
pub const MAX_PARTS: u64 = 64;
/// Records that a transaction goes past on its way to those in the middle of logs: Redis goes to a place in a list from
/// the nearer end, node by node.
#[cfg(feature = "redis")]
pub(crate) const MAX_HOPS: u64 = 5_000_000;
/// Terms of a document: what 1,024 positions can hold is rewritten as a whole where a document is taken out.
pub const MAX_DOCUMENT_TERMS: u64 = 512;
/// Terms of all documents in a call: in Redis each may change a field of its own.
pub const MAX_CALL_TERMS: u64 = 32_768;
/// Terms in all searches of a call: in Redis each is looked up for each 1,024 positions.
pub const MAX_SEARCH_TERMS: u64 = 256;
/// Runs of positions that a call removes from indexes, none of them longer than 1,024.
pub const MAX_REMOVE_RUNS: u64 = 32;
/// Positions of an index that a search, or a reading of marks, looks at.
pub const MAX_NEWEST: u64 = 131_072;
/// Positions before and after a hit whose marks a search returns.
pub const MAX_AROUND: u32 = 8;
/// Bytes of the answer to a search: 2 for a mark, 8 for a run, 4 for an occurrence.
pub const MAX_SEARCH_BYTES: u64 = 1 << 20;
/// Bytes of an index that the searches of a transaction read.
#[cfg(any(feature = "directory", feature = "redis"))]
pub(crate) const MAX_SEARCHED_BYTES: u64 = 16 << 20;
/// Keys that one answer names; of more it names none.
pub(crate) const MAX_NAMES: u64 = 100_000;
/// Writers of one bucket that a store remembers because a try of theirs may still be under way; it takes no more.
pub(crate) const MAX_WRITERS: u64 = 16_384;
/// A hundred years: more than anybody means, and far from where milliseconds since 1970 overflow.
pub const MAX_TIME_TO_LIVE_MS: u64 = 100 * 366 * 24 * 3600 * 1000;

/// What a request comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSize {
    /// See [`MAX_PIECES`].
    pub pieces: u64,
    /// Of keys, names and texts, each piece with [`PIECE_BYTES`] more.
    pub bytes: u64,
    /// See [`MAX_RANGES`].
    pub ranges: u64,
    longest_text: u64,
    longest_record: u64,
    /// Of a document.
    most_terms: u64,
    document_terms: u64,
    search_terms: u64,
    removed_runs: u64,
}

impl RequestSize {
    /// What these transactions come to, sent together. Cost: linear in their pieces; nothing is allocated
    /// but for positions to remove from indexes.
    pub fn of_transactions<'a>(transactions: impl IntoIterator<Item = &'a IndexedTransaction>) -> Self {
        let mut size = Self::default();
        for IndexedTransaction { lease, transaction, steps } in transactions {
            size.add(transaction.bucket.name.len());
            if let Some(LeaseRequest { name, holder, milliseconds: _ }) = lease {
                size.piece(&[name, holder]);
            }
            if let Precondition::Existing(life) = &transaction.precondition {
                size.add(life.generation.as_ref().map_or(0, String::len));
            }
            transaction.expectations.iter().for_each(|expectation| size.expectation(expectation));
            transaction.operations.iter().for_each(|operation| size.operation(operation));
            steps.iter().for_each(|step| size.step(step));
        }
        size.bytes = size.bytes.saturating_add(size.pieces.saturating_mul(PIECE_BYTES));
        size
    }

    /// # Errors
    /// `too-large`, with the limit that it is over.
    pub fn check(&self) -> Result<(), Failure> {
        for (size, most, name, what) in [
            (self.pieces, MAX_PIECES, limit::CALL_PIECES, "operations, keys, records and the like in a call"),
            (self.ranges, MAX_RANGES, limit::READS, "reads of maps, logs and indexes in a call"),
            (self.longest_text, MAX_TEXT_BYTES, limit::TEXT_BYTES, "bytes in a text"),
            (self.longest_record, MAX_RECORD_BYTES, limit::RECORD_BYTES, "bytes in a record"),
            (self.bytes, MAX_BYTES, limit::CALL_BYTES, "bytes in a call"),
            (self.most_terms, MAX_DOCUMENT_TERMS, limit::DOCUMENT_TERMS, "terms in a document"),
            (self.document_terms, MAX_CALL_TERMS, limit::CALL_TERMS, "terms in all documents of a call"),
            (self.search_terms, MAX_SEARCH_TERMS, limit::SEARCH_TERMS, "terms in all searches of a call"),
            (self.removed_runs, MAX_REMOVE_RUNS, limit::REMOVE_RUNS, "runs of positions that a call removes"),
        ] {
            if size > most {
                return Err(too_large(name, most, what));
            }
        }
        Ok(())
    }

    fn expectation(&mut self, expectation: &Expectation) {
        match expectation {
            Expectation::Entry(expected) => {
                self.piece(&[&expected.map_name, &expected.key]);
                self.text(&expected.text);
            }
            Expectation::Log(expected) => _ = self.piece(&[&expected.log]),
            Expectation::Room(expected) => _ = self.piece(&[&expected.map_name]),
        }
    }

    fn operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Get(get) => self.piece(&[&get.map_name]).keys(&get.keys),
            Operation::GetAll(all) => {
                self.piece(&[&all.map_name, all.cursor.as_deref().unwrap_or_default()]).range();
            }
            Operation::Set(set) => {
                self.piece(&[&set.map_name]).keys(&set.remove);
                for entry in &set.put {
                    self.piece(&[&entry.key]).text(&entry.text);
                }
            }
            Operation::Add(add) => _ = self.piece(&[&add.map_name, &add.key]),
            Operation::Append(append) => {
                self.piece(&[&append.log]).records_and_marks(&append.records, &append.marks);
            }
            Operation::Read(read) => self.piece(&[&read.log]).range(),
            Operation::ReadAt(read) => {
                self.piece(&[&read.log]).range();
                self.pieces = self.pieces.saturating_add(read.spans.len() as u64);
            }
            Operation::ReplaceOldest(replace) => self.piece(&[&replace.log]).records_and_marks(&replace.records, &[]),
            Operation::Rewrite(rewrite) => {
                self.piece(&[&rewrite.log]);
                rewrite.records.iter().for_each(|record| self.record(&record.text));
            }
            Operation::Describe(describe) => self.pieces += if describe.parts { MAX_PARTS } else { 1 },
        }
    }

    fn step(&mut self, step: &IndexStep) {
        match step {
            IndexStep::AddDocuments(add) => self.documents(add),
            IndexStep::RemoveDocuments(remove) => {
                self.piece(&[&remove.index]);
                self.pieces = self.pieces.saturating_add(remove.positions.len() as u64);
                // What is too much anyway is not sorted.
                if remove.positions.len() as u64 <= MAX_PIECES {
                    let runs = index::group_into_runs(&remove.positions).len() as u64;
                    self.removed_runs = self.removed_runs.saturating_add(runs);
                }
            }
            IndexStep::Search(search) => {
                self.piece(&[&search.index]).range();
                self.add(size_of_val(&*search.terms));
                self.search_terms = self.search_terms.saturating_add(search.terms.len() as u64);
            }
            IndexStep::ReadMarks(read) => self.piece(&[&read.index]).range(),
        }
    }

    fn documents(&mut self, step: &AddDocumentsStep) {
        self.piece(&[&step.index]);
        for document in &step.documents {
            self.piece(&[]).add(size_of_val(&*document.terms));
            let terms = document.terms.len() as u64;
            self.most_terms = self.most_terms.max(terms);
            self.document_terms = self.document_terms.saturating_add(terms);
        }
    }

    fn piece(&mut self, names: &[&str]) -> &mut Self {
        self.pieces = self.pieces.saturating_add(1);
        names.iter().for_each(|name| self.add(name.len()));
        self
    }

    fn range(&mut self) {
        self.ranges += 1;
    }

    fn keys(&mut self, keys: &[String]) {
        keys.iter().for_each(|key| _ = self.piece(&[key]));
    }

    fn records_and_marks(&mut self, records: &[String], marks: &[PositionMark]) {
        records.iter().for_each(|record| self.record(record));
        marks.iter().for_each(|mark| _ = self.piece(&[&mark.map_name, &mark.key]));
    }

    fn text(&mut self, text: &str) {
        self.longest_text = self.longest_text.max(text.len() as u64);
        self.add(text.len());
    }

    fn record(&mut self, record: &str) {
        self.longest_record = self.longest_record.max(record.len() as u64);
        self.piece(&[record]);
    }

    fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }
}

pub(crate) fn too_large(name: &str, limit: u64, what: &str) -> Failure {
    Failure { limit, ..failure(FailureCode::TooLarge, name, format!("over the limit of {limit} {what}")) }
}

/// Refuses what would give a bucket more parts than it may have. `values` is always there and counts as none.
pub(crate) fn too_many_parts() -> Failure {
    too_large(limit::PARTS, MAX_PARTS, "maps, logs, indexes and leases in a bucket")
}

/// Refuses what would give a bucket more values than it may have.
pub(crate) fn too_many_values() -> Failure {
    too_large(limit::VALUES, MAX_VALUES, "values in a bucket")
}

/// Refuses to go to so many records in the middle of a log that long.
#[cfg(feature = "redis")]
pub(crate) fn too_deep(log: &str) -> Failure {
    let message =
        format!("too many records in the middle of the long log {log} are rewritten at a time; rewrite fewer");
    Failure { limit: MAX_HOPS, ..failure(FailureCode::TooLarge, log, message) }
}

/// Refuses a writer whose retry could not be distinguished from its first try.
pub(crate) fn too_many_writers() -> Failure {
    let message =
        format!("{MAX_WRITERS} other writers have just written to this session and may still retry; try again later");
    Failure { limit: MAX_WRITERS, ..failure(FailureCode::Full, "writers", message) }
}
