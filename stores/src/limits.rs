//! The limits of the contract on one call, and the size of a request that is held against them.
//!
//! A store serves other callers meanwhile. Each number is chosen by what the slowest store takes: a call within the limits
//! holds a store for tens of milliseconds at most, whatever is stored there already.

use crate::{
    Entry, Expectation, Failure, FailureCode, Operation, PositionMark, PostOperation, Precondition, Transaction,
    failure, index,
};

/// What each piece of a request, each entry or record in an answer, and each that is stored counts beside its bytes:
/// an empty record takes room and time, too.
pub const PIECE_BYTES: u64 = 96;
/// Pieces of a call: operations, expectations, entries, keys, records, marks, spans, documents and positions to unpost,
/// together. A description of all parts counts as [`MAX_PARTS`]. The answers of a transaction hold as many entries and
/// records.
pub const MAX_PIECES: u64 = 20_000;
/// Bytes of a key's text.
pub const MAX_TEXT_BYTES: u64 = 8 << 20;
/// Bytes of a record. Less than of a text: the length of a record in Redis is not known before it is read, together with
/// its neighbours.
pub const MAX_RECORD_BYTES: u64 = 2 << 20;
/// Bytes of all pieces of a call. The answers of a transaction have as many.
pub const MAX_BYTES: u64 = 16 << 20;
/// Operations of a call that read whole maps, pages or stretches of logs.
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
pub const MAX_POSTED_TERMS: u64 = 32_768;
/// Terms in all matches of a call: in Redis each is looked up for each 1,024 positions.
pub const MAX_MATCHED_TERMS: u64 = 256;
/// Runs of positions in all unposts of a call, none of them longer than 1,024.
pub const MAX_RUNS: u64 = 32;
/// The newest positions of an index, which a match looks at.
pub const MAX_NEWEST: u64 = 131_072;
/// Bytes of the answer to a match: 2 for a position, 4 for an occurrence.
pub const MAX_MATCH_BYTES: u64 = 1 << 20;
/// Bytes of an index that the matches of a transaction read.
#[cfg(any(feature = "directory", feature = "redis"))]
pub(crate) const MAX_MATCHED_BYTES: u64 = 16 << 20;
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
    posted_terms: u64,
    matched_terms: u64,
    runs: u64,
}

impl RequestSize {
    /// What these transactions come to, sent together. Cost: linear in their pieces; nothing is allocated
    /// but for positions to unpost.
    pub fn of_transactions<'a>(transactions: impl IntoIterator<Item = &'a Transaction>) -> Self {
        let mut size = Self::default();
        for transaction in transactions {
            size.add(transaction.bucket.name.len());
            if let Precondition::Existing(life) = &transaction.precondition {
                size.add(life.generation.as_ref().map_or(0, String::len));
            }
            transaction.expectations.iter().for_each(|expectation| size.expectation(expectation));
            transaction.operations.iter().for_each(|operation| size.operation(operation));
        }
        size.bytes = size.bytes.saturating_add(size.pieces.saturating_mul(PIECE_BYTES));
        size
    }

    /// # Errors
    /// `too-large`, with the limit that it is over.
    pub fn check(&self) -> Result<(), Failure> {
        for (size, limit, subject, what) in [
            (self.pieces, MAX_PIECES, "pieces", "operations, keys, records and the like in a call"),
            (self.ranges, MAX_RANGES, "reads", "reads of maps and logs in a call"),
            (self.longest_text, MAX_TEXT_BYTES, "text", "bytes in a text"),
            (self.longest_record, MAX_RECORD_BYTES, "record", "bytes in a record"),
            (self.bytes, MAX_BYTES, "bytes", "bytes in a call"),
            (self.most_terms, MAX_DOCUMENT_TERMS, "terms", "terms in a document"),
            (self.posted_terms, MAX_POSTED_TERMS, "terms", "terms in all documents of a call"),
            (self.matched_terms, MAX_MATCHED_TERMS, "terms", "terms in all matches of a call"),
            (self.runs, MAX_RUNS, "positions", "runs of positions that are unposted in a call"),
        ] {
            if size > limit {
                return Err(too_large(subject, limit, what));
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
            Operation::GetAll(all) => self.piece(&[&all.map_name]).range(),
            Operation::Page(page) => self.piece(&[&page.map_name, &page.cursor]).range(),
            Operation::Put(put) => self.piece(&[&put.map_name]).entries(&put.entries),
            Operation::Increment(increment) => _ = self.piece(&[&increment.map_name, &increment.key]),
            Operation::Remove(remove) => self.piece(&[&remove.map_name]).keys(&remove.keys),
            Operation::ResetMap(reset) => self.piece(&[&reset.map_name]).entries(&reset.entries),
            Operation::Append(append) => {
                self.piece(&[&append.log]).add_records_and_marks(&append.records, &append.marks)
            }
            Operation::ResetLog(reset) => self.piece(&[&reset.log]).add_records_and_marks(&reset.records, &reset.marks),
            Operation::Read(read) => self.piece(&[&read.log]).range(),
            Operation::Overflow(overflow) => self.piece(&[&overflow.log]).range(),
            Operation::ReadAt(read) => {
                self.piece(&[&read.log]).range();
                self.pieces = self.pieces.saturating_add(read.spans.len() as u64);
            }
            Operation::ReplaceOldest(replace) => {
                self.piece(&[&replace.log]).add_records_and_marks(&replace.records, &[])
            }
            Operation::Rewrite(rewrite) => {
                self.piece(&[&rewrite.log]);
                rewrite.records.iter().for_each(|record| self.record(&record.text));
            }
            Operation::Lease(lease) => _ = self.piece(&[&lease.lease, &lease.holder]),
            Operation::Describe(describe) => self.pieces += if describe.parts { MAX_PARTS } else { 1 },
            Operation::Post(post) => self.posted(post),
            Operation::Unpost(unpost) => {
                self.piece(&[&unpost.index]);
                self.pieces = self.pieces.saturating_add(unpost.positions.len() as u64);
                // What is too much anyway is not sorted.
                if unpost.positions.len() as u64 <= MAX_PIECES {
                    self.runs = self.runs.saturating_add(index::group_into_runs(&unpost.positions).len() as u64);
                }
            }
            Operation::Match(wanted) => {
                self.piece(&[&wanted.index]).range();
                self.add(size_of_val(&*wanted.terms));
                self.matched_terms = self.matched_terms.saturating_add(wanted.terms.len() as u64);
            }
        }
    }

    fn posted(&mut self, post: &PostOperation) {
        self.piece(&[&post.index]);
        for document in &post.documents {
            self.piece(&[]).add(size_of_val(&*document.terms));
            let terms = document.terms.len() as u64;
            self.most_terms = self.most_terms.max(terms);
            self.posted_terms = self.posted_terms.saturating_add(terms);
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

    fn entries(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.piece(&[&entry.key]);
            self.text(&entry.text);
        }
    }

    fn add_records_and_marks(&mut self, records: &[String], marks: &[PositionMark]) {
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

pub(crate) fn too_large(subject: &str, limit: u64, what: &str) -> Failure {
    Failure { limit, ..failure(FailureCode::TooLarge, subject, format!("over the limit of {limit} {what}")) }
}

/// Refuses what would give a bucket more parts than it may have. `values` is always there and counts as none.
pub(crate) fn too_many_parts() -> Failure {
    too_large("parts", MAX_PARTS, "maps, logs, indexes and leases in a bucket")
}

/// Refuses what would give a bucket more values than it may have.
pub(crate) fn too_many_values() -> Failure {
    too_large("values", MAX_VALUES, "values in a bucket")
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
