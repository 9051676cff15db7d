//! Builds the parts of a transaction, each in one call: preconditions, expectations, operations.

use std::slice::from_ref;

use super::bindings::keepline::memory::key_value::*;
use super::{LogEnd, PutEntry};

/// What goes to the store is borrowed, and as cheap to copy as a reference.
macro_rules! copy {
    ($($borrowed:ident)*) => { $(impl Copy for $borrowed<'_> {})* };
}

copy! { BucketId ExistingBucket Precondition ExpectedEntry ExpectedLog ExpectedRoom Expectation PutEntry PositionMark PositionedRecord }
copy! { Posting GetOperation GetAllOperation PageOperation PutOperation IncrementOperation RemoveOperation ResetMapOperation }
copy! { AppendOperation ReadOperation ReadAtOperation OverflowOperation ReplaceOldestOperation RewriteOperation }
copy! { ResetLogOperation LeaseOperation PostOperation UnpostOperation MatchOperation Operation Transaction }

impl BucketKind {
    /// As subjects of tasks spell it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::User => "user",
            Self::Node => "node",
            Self::Definition => "definition",
            Self::Dataset => "dataset",
            Self::Service => "service",
        }
    }
}

impl<'a> BucketId<'a> {
    /// The bucket of a session.
    pub const fn session(name: &'a str) -> Self {
        Self { kind: BucketKind::Session, name }
    }
}

impl<'a> Precondition<'a> {
    /// Use of a bucket that must be there, whatever its life.
    pub(crate) const ANY: Precondition<'static> =
        Precondition::Existing(ExistingBucket { generation: None, renew: true });

    /// A look at a bucket that must be there, whatever its life, which is no use of it.
    pub(crate) const LOOK: Precondition<'static> =
        Precondition::Existing(ExistingBucket { generation: None, renew: false });

    /// Creates the bucket without expiry, and deletes what was there.
    pub(crate) const REPLACE: Precondition<'static> = Precondition::Replace(NewBucket { time_to_live: None });

    /// Creates the bucket if it is absent.
    pub(crate) const fn create(time_to_live: Option<TimeToLive>) -> Self {
        Self::Create(NewBucket { time_to_live })
    }

    /// Creates the bucket, which must be absent.
    pub(crate) const fn create_new(time_to_live: Option<TimeToLive>) -> Self {
        Self::CreateNew(NewBucket { time_to_live })
    }

    /// Use of that life of a bucket; none: of whichever there is.
    pub(crate) const fn existing(generation: Option<&'a str>) -> Self {
        Self::Existing(ExistingBucket { generation, renew: true })
    }

    /// Reopens the life that an earlier receipt named, without counting another use. A store that names none can't be
    /// asked for one.
    pub(crate) fn life(generation: &'a str) -> Self {
        let generation = Some(generation).filter(|stamp| !stamp.is_empty());
        Self::Existing(ExistingBucket { generation, renew: false })
    }

    /// The life that it asks for, if it names one.
    pub(crate) fn generation(self) -> Option<&'a str> {
        match self {
            Self::Existing(life) => life.generation,
            _ => None,
        }
    }

    /// Reopens the life that a transaction with this precondition met: its receipt names what the precondition did not.
    pub(crate) fn again(self, receipt: &'a Receipt) -> Self {
        Self::life(self.generation().unwrap_or(&receipt.generation))
    }
}

impl<'a> Expectation<'a> {
    pub(crate) const fn absent(map: &'a str, key: &'a str) -> Self {
        Self::entry(map, key, EntryState::Absent, "")
    }

    pub(crate) const fn present(map: &'a str, key: &'a str) -> Self {
        Self::entry(map, key, EntryState::Present, "")
    }

    pub(crate) const fn equal(map: &'a str, key: &'a str, text: &'a str) -> Self {
        Self::entry(map, key, EntryState::Equal, text)
    }

    pub(crate) const fn absent_or_equal(map: &'a str, key: &'a str, text: &'a str) -> Self {
        Self::entry(map, key, EntryState::AbsentOrEqual, text)
    }

    const fn entry(map_name: &'a str, key: &'a str, state: EntryState, text: &'a str) -> Self {
        Self::Entry(ExpectedEntry { map_name, key, state, text })
    }

    pub(crate) const fn log(log: &'a str, first: Option<u64>, next: Option<u64>) -> Self {
        Self::Log(ExpectedLog { log, first, next })
    }

    pub(crate) const fn room(map_name: &'a str, limit: u64) -> Self {
        Self::Room(ExpectedRoom { map_name, limit })
    }
}

impl<'a> Operation<'a> {
    pub(crate) const fn get(map: &'a str, key: &'a &'a str, max_bytes: u64) -> Self {
        Self::get_some(map, from_ref(key), max_bytes)
    }

    pub(crate) const fn get_some(map_name: &'a str, keys: &'a [&'a str], max_bytes: u64) -> Self {
        Self::Get(GetOperation { map_name, keys, max_bytes })
    }

    pub(crate) const fn get_all(map_name: &'a str, max_entries: u64, max_bytes: u64) -> Self {
        Self::GetAll(GetAllOperation { map_name, max_entries, max_bytes })
    }

    /// Without the texts.
    pub(crate) const fn page_keys(map_name: &'a str, cursor: &'a str, max_entries: u64, max_bytes: u64) -> Self {
        Self::Page(PageOperation { map_name, cursor, max_entries, max_bytes, keys_only: true })
    }

    pub(crate) const fn put(map_name: &'a str, entries: &'a [PutEntry<'a>]) -> Self {
        Self::Put(PutOperation { map_name, entries })
    }

    pub(crate) const fn increment(map_name: &'a str, key: &'a str, amount: i64) -> Self {
        Self::Increment(IncrementOperation { map_name, key, amount })
    }

    pub(crate) const fn remove(map_name: &'a str, keys: &'a [&'a str]) -> Self {
        Self::Remove(RemoveOperation { map_name, keys })
    }

    pub(crate) const fn reset_map(map_name: &'a str, entries: &'a [PutEntry<'a>]) -> Self {
        Self::ResetMap(ResetMapOperation { map_name, entries })
    }

    pub(crate) const fn append(log: &'a str, records: &'a [&'a str], marks: &'a [PositionMark<'a>]) -> Self {
        Self::Append(AppendOperation { log, records, marks })
    }

    pub(crate) const fn read(log: &'a str, end: LogEnd, max_records: u64, max_bytes: u64) -> Self {
        Self::Read(ReadOperation { log, end, max_records, max_bytes })
    }

    pub(crate) const fn read_at(log: &'a str, spans: &'a [Span], max_bytes: u64) -> Self {
        Self::ReadAt(ReadAtOperation { log, spans, max_bytes })
    }

    pub(crate) const fn overflow(log: &'a str, limit: u64, keep: u64, max_records: u64, max_bytes: u64) -> Self {
        Self::Overflow(OverflowOperation { log, limit, keep, max_records, max_bytes })
    }

    pub(crate) const fn replace_oldest(log: &'a str, count: u64, records: &'a [&'a str]) -> Self {
        Self::ReplaceOldest(ReplaceOldestOperation { log, count, records })
    }

    pub(crate) const fn rewrite(log: &'a str, records: &'a [PositionedRecord<'a>]) -> Self {
        Self::Rewrite(RewriteOperation { log, records })
    }

    pub(crate) const fn reset_log(log: &'a str, records: &'a [&'a str]) -> Self {
        Self::ResetLog(ResetLogOperation { log, records, marks: &[] })
    }

    pub(crate) const fn lease(lease: &'a str, holder: &'a str, milliseconds: u64) -> Self {
        Self::Lease(LeaseOperation { lease, holder, milliseconds })
    }

    pub(crate) const fn post(index: &'a str, documents: &'a [Posting<'a>]) -> Self {
        Self::Post(PostOperation { index, documents })
    }

    pub(crate) const fn unpost(index: &'a str, positions: &'a [u64]) -> Self {
        Self::Unpost(UnpostOperation { index, positions })
    }

    /// Of the contract's `match`.
    pub(crate) const fn match_terms(index: &'a str, terms: &'a [u32], newest: u64, max_bytes: u64) -> Self {
        Self::Match(MatchOperation { index, terms, newest, max_bytes })
    }

    pub(crate) const fn describe(parts: bool) -> Self {
        Self::Describe(DescribeOperation { parts })
    }
}
