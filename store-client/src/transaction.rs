//! Builds the parts of a transaction, each in one call: preconditions, expectations, operations.

use std::slice::from_ref;

use super::bindings::keepline::store::indexes::{
    AddDocumentsStep, Document, IndexStep, IndexedTransaction, ReadMarksStep, RemoveDocumentsStep, SearchStep,
};
use super::bindings::keepline::store::leases::LeasedTransaction;
use super::bindings::keepline::store::types::*;
use super::{PutEntry, kind};

/// What goes to the store is borrowed, and as cheap to copy as a reference.
macro_rules! copy {
    ($($borrowed:ident)*) => { $(impl Copy for $borrowed<'_> {})* };
}

copy! { BucketId ExistingBucket Precondition ExpectedEntry ExpectedLog ExpectedRoom Expectation PutEntry PositionMark PositionedRecord }
copy! { GetOperation GetAllOperation SetOperation AddOperation AppendOperation ReadOperation ReadAtOperation ReplaceOldestOperation }
copy! { RewriteOperation Operation Transaction DeleteRequest LeaseRequest LeasedTransaction }
copy! { Document AddDocumentsStep RemoveDocumentsStep SearchStep ReadMarksStep IndexStep IndexedTransaction }

/// The end of a log from which records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// From the oldest on.
    Oldest,
    /// From the newest back.
    Newest,
}

/// Marks of so many positions before and after each hit of a search: a passage's neighbours count as far as 5 away.
const AROUND: u32 = 6;

impl<'a> BucketId<'a> {
    /// The bucket of a session.
    pub const fn session(name: &'a str) -> Self {
        Self { kind: kind::SESSION, name }
    }
}

impl<'a> Precondition<'a> {
    /// Use of a bucket that must be there, whatever its life.
    pub const ANY: Precondition<'static> = Precondition::Existing(ExistingBucket { generation: None, renew: true });

    /// A look at a bucket that must be there, whatever its life, which is no use of it.
    pub const LOOK: Precondition<'static> = Precondition::Existing(ExistingBucket { generation: None, renew: false });

    /// Creates the bucket without expiry, and deletes what was there.
    pub const REPLACE: Precondition<'static> = Precondition::Replace(NewBucket { time_to_live: None });

    /// Creates the bucket if it is absent.
    pub const fn create(time_to_live: Option<TimeToLive>) -> Self {
        Self::Create(NewBucket { time_to_live })
    }

    /// Creates the bucket, which must be absent.
    pub const fn create_new(time_to_live: Option<TimeToLive>) -> Self {
        Self::CreateNew(NewBucket { time_to_live })
    }

    /// Use of that life of a bucket; none: of whichever there is.
    pub const fn existing(generation: Option<&'a str>) -> Self {
        Self::Existing(ExistingBucket { generation, renew: true })
    }

    /// Reopens the life that an earlier receipt named, without counting another use. A store that names none can't be
    /// asked for one.
    pub fn life(generation: &'a str) -> Self {
        let generation = Some(generation).filter(|stamp| !stamp.is_empty());
        Self::Existing(ExistingBucket { generation, renew: false })
    }

    /// The life that it asks for, if it names one.
    pub fn generation(self) -> Option<&'a str> {
        match self {
            Self::Existing(life) => life.generation,
            _ => None,
        }
    }

    /// Reopens the life that a transaction with this precondition met: its receipt names what the precondition did not.
    pub fn again(self, receipt: &'a Receipt) -> Self {
        Self::life(self.generation().unwrap_or(receipt.named_generation()))
    }
}

impl<'a> Expectation<'a> {
    /// The key is not there.
    pub const fn absent(map: &'a str, key: &'a str) -> Self {
        Self::entry(map, key, EntryState::Absent, "")
    }

    /// The key is there, whatever its text.
    pub const fn present(map: &'a str, key: &'a str) -> Self {
        Self::entry(map, key, EntryState::Present, "")
    }

    /// The key is there with this text, byte by byte.
    pub const fn equal(map: &'a str, key: &'a str, text: &'a str) -> Self {
        Self::entry(map, key, EntryState::Equal, text)
    }

    /// The key is not there, or has this text.
    pub const fn absent_or_equal(map: &'a str, key: &'a str, text: &'a str) -> Self {
        Self::entry(map, key, EntryState::AbsentOrEqual, text)
    }

    const fn entry(map_name: &'a str, key: &'a str, state: EntryState, text: &'a str) -> Self {
        Self::Entry(ExpectedEntry { map_name, key, state, text })
    }

    /// Where a log stands: the position of its oldest record, and of the next; none: any.
    pub const fn log(log: &'a str, first: Option<u64>, next: Option<u64>) -> Self {
        Self::Log(ExpectedLog { log, first, next })
    }

    /// The map has at most so many entries after those that the transaction creates.
    pub const fn room(map_name: &'a str, limit: u64) -> Self {
        Self::Room(ExpectedRoom { map_name, limit })
    }
}

impl<'a> Operation<'a> {
    /// Read one entry.
    pub const fn get(map: &'a str, key: &'a &'a str, max_bytes: u64) -> Self {
        Self::get_some(map, from_ref(key), max_bytes)
    }

    /// Read some entries, each key once.
    pub const fn get_some(map_name: &'a str, keys: &'a [&'a str], max_bytes: u64) -> Self {
        Self::Get(GetOperation { map_name, keys, max_bytes })
    }

    /// Read a map whole, or oversize if it has more.
    pub const fn get_all(map_name: &'a str, max_entries: u64, max_bytes: u64) -> Self {
        Self::GetAll(GetAllOperation { map_name, cursor: None, max_entries, max_bytes, keys_only: false })
    }

    /// A page, from a cursor on; the first one's is empty.
    pub const fn page_entries(map_name: &'a str, cursor: &'a str, max_entries: u64, max_bytes: u64) -> Self {
        Self::GetAll(GetAllOperation { map_name, cursor: Some(cursor), max_entries, max_bytes, keys_only: false })
    }

    /// A page, without the texts.
    pub const fn page_keys(map_name: &'a str, cursor: &'a str, max_entries: u64, max_bytes: u64) -> Self {
        Self::GetAll(GetAllOperation { map_name, cursor: Some(cursor), max_entries, max_bytes, keys_only: true })
    }

    /// Put entries; each key once.
    pub const fn put(map_name: &'a str, put: &'a [PutEntry<'a>]) -> Self {
        Self::Set(SetOperation { map_name, reset: false, remove: &[], put })
    }

    /// Add to a counter.
    pub const fn add(map_name: &'a str, key: &'a str, amount: i64) -> Self {
        Self::Add(AddOperation { map_name, key, amount })
    }

    /// Remove entries.
    pub const fn remove(map_name: &'a str, remove: &'a [&'a str]) -> Self {
        Self::Set(SetOperation { map_name, reset: false, remove, put: &[] })
    }

    /// Removes all entries of a map.
    pub const fn reset_map(map_name: &'a str) -> Self {
        Self::replace_map(map_name, &[])
    }

    /// Removes all entries of a map, and puts others.
    pub const fn replace_map(map_name: &'a str, put: &'a [PutEntry<'a>]) -> Self {
        Self::Set(SetOperation { map_name, reset: true, remove: &[], put })
    }

    /// Append records, and put their positions under the keys of marks.
    pub const fn append(log: &'a str, records: &'a [&'a str], marks: &'a [PositionMark<'a>]) -> Self {
        Self::Append(AppendOperation { log, reset: false, records, marks })
    }

    /// Drops all records of a log, and appends others.
    pub const fn reset_log(log: &'a str, records: &'a [&'a str]) -> Self {
        Self::Append(AppendOperation { log, reset: true, records, marks: &[] })
    }

    /// Read from one end of a log.
    pub const fn read(log: &'a str, end: LogEnd, max_records: u64, max_bytes: u64) -> Self {
        let newest = matches!(end, LogEnd::Newest);
        Self::Read(ReadOperation { log, newest, only_over: 0, leave: 0, max_records, max_bytes })
    }

    /// Reads the oldest records of a log that has more than `only_over`, but for the newest `leave`.
    pub const fn read_surplus(log: &'a str, only_over: u64, leave: u64, max_records: u64, max_bytes: u64) -> Self {
        Self::Read(ReadOperation { log, newest: false, only_over, leave, max_records, max_bytes })
    }

    /// Read runs of records.
    pub const fn read_at(log: &'a str, spans: &'a [Span], max_bytes: u64) -> Self {
        Self::ReadAt(ReadAtOperation { log, spans, max_bytes })
    }

    /// Put records in place of the oldest `count`.
    pub const fn replace_oldest(log: &'a str, count: u64, records: &'a [&'a str]) -> Self {
        Self::ReplaceOldest(ReplaceOldestOperation { log, count, records })
    }

    /// Replace records at their positions.
    pub const fn rewrite(log: &'a str, records: &'a [PositionedRecord<'a>]) -> Self {
        Self::Rewrite(RewriteOperation { log, records })
    }

    /// Describe the bucket, and its parts if they are wanted.
    pub const fn describe(parts: bool) -> Self {
        Self::Describe(DescribeOperation { parts })
    }
}

impl<'a> IndexStep<'a> {
    /// Add documents to an index.
    pub const fn add_documents(index: &'a str, documents: &'a [Document<'a>]) -> Self {
        Self::AddDocuments(AddDocumentsStep { index, documents })
    }

    /// Remove documents from an index by position.
    pub const fn remove_documents(index: &'a str, positions: &'a [u64]) -> Self {
        Self::RemoveDocuments(RemoveDocumentsStep { index, positions })
    }

    /// Finds terms among the newest positions, and the marks around each hit.
    pub const fn search(index: &'a str, terms: &'a [u32], newest: u64, max_bytes: u64) -> Self {
        Self::Search(SearchStep { index, terms, newest, around: AROUND, max_bytes })
    }

    /// Read the marks of documents from a position on.
    pub const fn read_marks(index: &'a str, from_position: u64, count: u32) -> Self {
        Self::ReadMarks(ReadMarksStep { index, from_position, count })
    }
}

impl<'a> From<Transaction<'a>> for IndexedTransaction<'a> {
    fn from(transaction: Transaction<'a>) -> Self {
        Self { lease: None, transaction, steps: &[] }
    }
}
