//! Lends the filter's logic a memory store, without a component in between: natively the two have the same types by other
//! names, which are converted here.

use std::cell::RefCell;
use std::sync::Arc;

use futures::FutureExt;
use keepline_filter::contract::bindings::keepline::memory::key_value as wit;

use super::stores::{self, Deadline, MemoryStore, Store, Writer};

/// A memory store as a [`Host`](keepline_filter::Host) lends it. It never waits.
pub struct Memory {
    pub store: Arc<MemoryStore>,
    writer: RefCell<Writer>,
}

impl Memory {
    pub fn new(store: Arc<MemoryStore>) -> Self {
        Self { store, writer: RefCell::new(Writer::new()) }
    }

    pub fn transact(&self, transaction: &wit::Transaction<'_>) -> Result<wit::Receipt, wit::Failure> {
        let transaction = (*transaction).convert();
        let mut writer = self.writer.borrow_mut();
        at_once(self.store.transact(writer.advance(), &transaction, Deadline::NEVER)).convert()
    }

    pub fn list(&self, kind: wit::BucketKind, cursor: &str, limit: u32) -> Result<wit::BucketPage, wit::Failure> {
        at_once(self.store.list_buckets(kind.convert(), cursor, limit, Deadline::NEVER)).convert()
    }

    pub fn delete(
        &self,
        bucket: wit::BucketId<'_>,
        generation: Option<&str>,
        max_keys: u32,
    ) -> Result<wit::Deletion, wit::Failure> {
        let mut writer = self.writer.borrow_mut();
        let bucket = bucket.convert();
        at_once(self.store.delete_bucket(writer.advance(), &bucket, generation, max_keys, Deadline::NEVER)).convert()
    }

    pub fn capabilities(&self) -> wit::StoreCapabilities {
        self.store.capabilities().convert()
    }
}

fn at_once<T>(answer: impl Future<Output = T>) -> T {
    match answer.now_or_never() {
        Some(answer) => answer,
        None => unreachable!("the memory store never waits"),
    }
}

/// The same in the other crate's type.
trait Convert<T> {
    fn convert(self) -> T;
}

macro_rules! same {
    ($($same:ty)*) => { $(impl Convert<$same> for $same {
        fn convert(self) -> $same {
            self
        }
    })* };
}

same! { bool i64 u16 u32 u64 String }

impl Convert<String> for &str {
    fn convert(self) -> String {
        self.to_owned()
    }
}

impl<T, F: Convert<T>> Convert<Option<T>> for Option<F> {
    fn convert(self) -> Option<T> {
        self.map(Convert::convert)
    }
}

impl<T, U, F: Convert<T>, G: Convert<U>> Convert<Result<T, U>> for Result<F, G> {
    fn convert(self) -> Result<T, U> {
        self.map(Convert::convert).map_err(Convert::convert)
    }
}

impl<T, F: Convert<T>> Convert<Vec<T>> for Vec<F> {
    fn convert(self) -> Vec<T> {
        self.into_iter().map(Convert::convert).collect()
    }
}

impl<T, F: Convert<T> + Copy> Convert<Vec<T>> for &[F] {
    fn convert(self) -> Vec<T> {
        self.iter().map(|one| one.convert()).collect()
    }
}

macro_rules! records {
    ($($from:ty => $module:ident::$to:ident { $($field:ident),* })*) => { $(impl Convert<$module::$to> for $from {
        fn convert(self) -> $module::$to {
            $module::$to { $($field: self.$field.convert()),* }
        }
    })* };
}

macro_rules! variants {
    ($($from:ty => $module:ident::$to:ident { $($case:ident),* })*) => { $(impl Convert<$module::$to> for $from {
        fn convert(self) -> $module::$to {
            match self {
                $(Self::$case(record) => $module::$to::$case(record.convert()),)*
            }
        }
    })* };
}

macro_rules! enums {
    ($($from:ty => $module:ident::$to:ident { $($case:ident),* })*) => { $(impl Convert<$module::$to> for $from {
        fn convert(self) -> $module::$to {
            match self {
                $(Self::$case => $module::$to::$case,)*
            }
        }
    })* };
}

// What goes to the store.
enums! {
    wit::BucketKind => stores::BucketKind { Session, User, Node, Definition, Dataset, Service }
    wit::EntryState => stores::EntryState { Absent, Present, Equal, AbsentOrEqual }
    wit::LogEnd => stores::LogEnd { Oldest, Newest }
}
records! {
    wit::Transaction<'_> => stores::Transaction { bucket, precondition, expectations, operations }
    wit::BucketId<'_> => stores::BucketId { kind, name }
    wit::TimeToLive => stores::TimeToLive { milliseconds, sliding }
    wit::ExistingBucket<'_> => stores::ExistingBucket { generation, renew }
    wit::NewBucket => stores::NewBucket { time_to_live }
    wit::ExpectedEntry<'_> => stores::ExpectedEntry { map_name, key, state, text }
    wit::ExpectedLog<'_> => stores::ExpectedLog { log, first, next }
    wit::ExpectedRoom<'_> => stores::ExpectedRoom { map_name, limit }
    wit::EntryParam<'_> => stores::Entry { key, text }
    wit::PositionMark<'_> => stores::PositionMark { map_name, key, record_index }
    wit::Span => stores::Span { position, count }
    wit::PositionedRecord<'_> => stores::PositionedRecord { position, text }
    wit::Posting<'_> => stores::Posting { position, mark, terms }
    wit::GetOperation<'_> => stores::GetOperation { map_name, keys, max_bytes }
    wit::GetAllOperation<'_> => stores::GetAllOperation { map_name, max_entries, max_bytes }
    wit::PageOperation<'_> => stores::PageOperation { map_name, cursor, max_entries, max_bytes, keys_only }
    wit::PutOperation<'_> => stores::PutOperation { map_name, entries }
    wit::IncrementOperation<'_> => stores::IncrementOperation { map_name, key, amount }
    wit::RemoveOperation<'_> => stores::RemoveOperation { map_name, keys }
    wit::ResetMapOperation<'_> => stores::ResetMapOperation { map_name, entries }
    wit::AppendOperation<'_> => stores::AppendOperation { log, records, marks }
    wit::ReadOperation<'_> => stores::ReadOperation { log, end, max_records, max_bytes }
    wit::ReadAtOperation<'_> => stores::ReadAtOperation { log, spans, max_bytes }
    wit::OverflowOperation<'_> => stores::OverflowOperation { log, limit, keep, max_records, max_bytes }
    wit::ReplaceOldestOperation<'_> => stores::ReplaceOldestOperation { log, count, records }
    wit::RewriteOperation<'_> => stores::RewriteOperation { log, records }
    wit::ResetLogOperation<'_> => stores::ResetLogOperation { log, records, marks }
    wit::LeaseOperation<'_> => stores::LeaseOperation { lease, holder, milliseconds }
    wit::PostOperation<'_> => stores::PostOperation { index, documents }
    wit::UnpostOperation<'_> => stores::UnpostOperation { index, positions }
    wit::MatchOperation<'_> => stores::MatchOperation { index, terms, newest, max_bytes }
    wit::DescribeOperation => stores::DescribeOperation { parts }
}
variants! {
    wit::Precondition<'_> => stores::Precondition { Existing, Create, CreateNew, Replace }
    wit::Expectation<'_> => stores::Expectation { Entry, Log, Room }
    wit::Operation<'_> => stores::Operation {
        Get, GetAll, Page, Put, Increment, Remove, ResetMap, Append, Read, ReadAt, Overflow, ReplaceOldest, Rewrite,
        ResetLog, Lease, Post, Unpost, Match, Describe
    }
}

// What comes from it.
enums! {
    stores::Status => wit::Status { Applied, Repeated, Absent, Expired, Exists, GenerationMismatch, Unmet }
    stores::FailureCode => wit::FailureCode {
        Invalid, TooLarge, Unsupported, WrongType, NotACounter, CounterOverflow, TooManyBuckets, Full, ReadOnly, Denied,
        Unavailable, TimedOut, Other
    }
}
records! {
    stores::Receipt => wit::Receipt { status, now, generation, created, unmet, outcomes }
    stores::Failure => wit::Failure { code, subject, limit, message }
    stores::Deletion => wit::Deletion { status, now, values, keys }
    stores::BucketPage => wit::BucketPage { names, cursor }
    stores::StoreCapabilities => wit::StoreCapabilities {
        atomic, expiring, exactly_once, durable, listing, leases, indexes
    }
    stores::TimeToLive => wit::TimeToLive { milliseconds, sliding }
    stores::Entry => wit::EntryResult { key, text }
    stores::FoundEntries => wit::FoundEntries { entries, unreadable }
    stores::Size => wit::Size { bytes, entries }
    stores::EntryPage => wit::EntryPage { entries, unreadable, cursor }
    stores::EntryCount => wit::EntryCount { count }
    stores::CounterValue => wit::CounterValue { value }
    stores::LogExtent => wit::LogExtent { first, length }
    stores::LogRecords => wit::LogRecords { extent, first, records }
    stores::SpanRecords => wit::SpanRecords { first, records }
    stores::LogSpans => wit::LogSpans { extent, spans }
    stores::LeaseState => wit::LeaseState { held, holder, expires_in }
    stores::IndexExtent => wit::IndexExtent { next, documents }
    stores::TermMatches => wit::TermMatches { offsets }
    stores::FoundMatches => wit::FoundMatches { extent, first, marks, terms }
    stores::MapDescription => wit::MapDescription { map_name, entries }
    stores::LogDescription => wit::LogDescription { log, extent }
    stores::IndexDescription => wit::IndexDescription { index, extent, bytes }
    stores::Description => wit::Description { time_to_live, expires_in, values, maps, logs, indexes }
}
variants! {
    stores::Outcome => wit::Outcome {
        Entries, Oversize, Page, Changed, Counter, Extent, Records, Spans, Lease, Indexed, Matches, Described
    }
}
