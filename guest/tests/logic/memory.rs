//! Lends the filter's logic a memory store, without a component in between: natively the two have the same types by other
//! names, which are converted here.

use std::cell::RefCell;
use std::sync::Arc;

use futures::FutureExt;
use keepline_store_client::StoreInfo;
use keepline_store_client::bindings::keepline::common::shared;
use keepline_store_client::bindings::keepline::store::{indexes, listing, types as wit};

use super::stores::{self, Deadline, MemoryStore, Store, Writer};

/// A memory store as a [`Host`](keepline_store_client::Host) lends it. It never waits.
pub struct Memory {
    pub store: Arc<MemoryStore>,
    writer: RefCell<Writer>,
}

impl Memory {
    pub fn new(store: Arc<MemoryStore>) -> Self {
        Self { store, writer: RefCell::new(Writer::new()) }
    }

    pub fn transact(
        &self,
        transaction: &indexes::IndexedTransaction<'_>,
    ) -> Result<indexes::IndexedReceipt, shared::Problem> {
        let transaction = (*transaction).convert();
        let mut writer = self.writer.borrow_mut();
        at_once(self.store.transact(writer.advance(), &transaction, Deadline::NEVER)).convert()
    }

    pub fn list(&self, kind: &str, cursor: &str, limit: u32) -> Result<listing::BucketPage, shared::Problem> {
        at_once(self.store.list_buckets(kind, cursor, limit, Deadline::NEVER)).convert()
    }

    pub fn delete(&self, request: wit::DeleteRequest<'_>) -> Result<wit::Deletion, shared::Problem> {
        let mut writer = self.writer.borrow_mut();
        at_once(self.store.delete(writer.advance(), &request.convert(), Deadline::NEVER)).convert()
    }

    pub fn about(&self) -> StoreInfo {
        self.store.about().convert()
    }
}

fn at_once<T>(answer: impl Future<Output = T>) -> T {
    match answer.now_or_never() {
        Some(answer) => answer,
        None => unreachable!("the memory store never waits"),
    }
}

/// The same in the other crate's type.
pub trait Convert<T> {
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
    wit::EntryState => stores::EntryState { Absent, Present, Equal, AbsentOrEqual }
}
records! {
    indexes::IndexedTransaction<'_> => stores::IndexedTransaction { lease, transaction, steps }
    wit::LeaseRequest<'_> => stores::LeaseRequest { name, holder, milliseconds }
    wit::DeleteRequest<'_> => stores::DeleteRequest { bucket, generation, max_keys }
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
    wit::GetOperation<'_> => stores::GetOperation { map_name, keys, max_bytes }
    wit::GetAllOperation<'_> => stores::GetAllOperation { map_name, cursor, max_entries, max_bytes, keys_only }
    wit::SetOperation<'_> => stores::SetOperation { map_name, reset, remove, put }
    wit::AddOperation<'_> => stores::AddOperation { map_name, key, amount }
    wit::AppendOperation<'_> => stores::AppendOperation { log, reset, records, marks }
    wit::ReadOperation<'_> => stores::ReadOperation { log, newest, only_over, leave, max_records, max_bytes }
    wit::ReadAtOperation<'_> => stores::ReadAtOperation { log, spans, max_bytes }
    wit::ReplaceOldestOperation<'_> => stores::ReplaceOldestOperation { log, count, records }
    wit::RewriteOperation<'_> => stores::RewriteOperation { log, records }
    wit::DescribeOperation => stores::DescribeOperation { parts }
    indexes::Document<'_> => stores::Document { position, mark, terms }
    indexes::AddDocumentsStep<'_> => stores::AddDocumentsStep { index, documents }
    indexes::RemoveDocumentsStep<'_> => stores::RemoveDocumentsStep { index, positions }
    indexes::SearchStep<'_> => stores::SearchStep { index, terms, newest, around, max_bytes }
    indexes::ReadMarksStep<'_> => stores::ReadMarksStep { index, from_position, count }
}
variants! {
    wit::Precondition<'_> => stores::Precondition { Existing, Create, CreateNew, Replace }
    wit::Expectation<'_> => stores::Expectation { Entry, Log, Room }
    wit::Operation<'_> => stores::Operation {
        Get, GetAll, Set, Add, Append, Read, ReadAt, ReplaceOldest, Rewrite, Describe
    }
    indexes::IndexStep<'_> => stores::IndexStep { AddDocuments, RemoveDocuments, Search, ReadMarks }
}

// What comes from it.
enums! {
    stores::Status => wit::Status { Applied, Repeated, Absent, Expired, Exists, GenerationMismatch, Unmet }
}
impl Convert<shared::Problem> for stores::Failure {
    fn convert(self) -> shared::Problem {
        let stores::Problem { code, subject, limit, message } = self.into();
        shared::Problem { code, subject, limit, message }
    }
}
records! {
    stores::IndexedReceipt => indexes::IndexedReceipt { lease, receipt, found }
    stores::LeaseState => wit::LeaseState { held, holder, expires_in }
    stores::Receipt => wit::Receipt { status, now, generation, created, unmet, outcomes }
    stores::Deletion => wit::Deletion { status, now, values, keys }
    stores::BucketPage => listing::BucketPage { names, cursor }
    stores::StoreInfo => wit::StoreInfo { capabilities, limits }
    stores::StoreLimit => wit::StoreLimit { name, value }
    stores::TimeToLive => wit::TimeToLive { milliseconds, sliding }
    stores::Entry => wit::EntryResult { key, text }
    stores::FoundEntries => wit::FoundEntries { entries, missing }
    stores::MissingEntries => wit::MissingEntries { unreadable, cursor, oversize }
    stores::Size => wit::Size { bytes, entries }
    stores::ChangedEntries => wit::ChangedEntries { added, removed }
    stores::CounterValue => wit::CounterValue { value }
    stores::LogExtent => wit::LogExtent { first, length }
    stores::LogRecords => wit::LogRecords { extent, runs }
    stores::RecordRun => wit::RecordRun { first, records }
    stores::BucketPart => wit::BucketPart { kind, name, position, count, bytes }
    stores::Description => wit::Description { time_to_live, created_at, expires_in, values, parts }
    stores::IndexExtent => indexes::IndexExtent { next, documents, occurrences }
    stores::MarkRun => indexes::MarkRun { offset, marks }
    stores::TermHits => indexes::TermHits { offsets }
    stores::FoundDocuments => indexes::FoundDocuments { extent, from_position, runs, terms }
}
variants! {
    stores::Outcome => wit::Outcome { Entries, Changed, Counter, Extent, Records, Described }
}
