//! Converts the contract's types, as the bindings have them, to those of the stores' crate, and back. Both have the same
//! fields.

use keepline_stores as stores;

use crate::bindings::{
    exports::keepline::store::{indexes, leases, listing},
    keepline::{common::shared, store::types as wit},
};

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

impl<T, F: Convert<T>> Convert<Option<T>> for Option<F> {
    fn convert(self) -> Option<T> {
        self.map(Convert::convert)
    }
}

impl<T, F: Convert<T>> Convert<Vec<T>> for Vec<F> {
    fn convert(self) -> Vec<T> {
        self.into_iter().map(Convert::convert).collect()
    }
}

impl<T, U, F: Convert<T>, G: Convert<U>> Convert<Result<T, U>> for Result<F, G> {
    fn convert(self) -> Result<T, U> {
        self.map(Convert::convert).map_err(Convert::convert)
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

macro_rules! attempts {
    ($($from:ty => $module:ident::$to:ident::$case:ident;)*) => {
        $(impl Convert<$module::$to> for Result<$from, stores::Failure> {
            fn convert(self) -> $module::$to {
                match self {
                    Ok(answer) => $module::$to::$case(answer.convert()),
                    Err(failure) => $module::$to::Problem(failure.convert()),
                }
            }
        })*
    };
}

// What comes in.
enums! {
    wit::EntryState => stores::EntryState { Absent, Present, Equal, AbsentOrEqual }
}
records! {
    wit::LeaseRequest => stores::LeaseRequest { name, holder, milliseconds }
    wit::DeleteRequest => stores::DeleteRequest { bucket, generation, max_keys }
    wit::Transaction => stores::Transaction { bucket, precondition, expectations, operations }
    leases::LeasedTransaction => stores::LeasedTransaction { lease, transaction }
    indexes::IndexedTransaction => stores::IndexedTransaction { lease, transaction, steps }
    wit::BucketId => stores::BucketId { kind, name }
    wit::TimeToLive => stores::TimeToLive { milliseconds, sliding }
    wit::ExistingBucket => stores::ExistingBucket { generation, renew }
    wit::NewBucket => stores::NewBucket { time_to_live }
    wit::ExpectedEntry => stores::ExpectedEntry { map_name, key, state, text }
    wit::ExpectedLog => stores::ExpectedLog { log, first, next }
    wit::ExpectedRoom => stores::ExpectedRoom { map_name, limit }
    wit::Entry => stores::Entry { key, text }
    wit::PositionMark => stores::PositionMark { map_name, key, record_index }
    wit::Span => stores::Span { position, count }
    wit::PositionedRecord => stores::PositionedRecord { position, text }
    wit::GetOperation => stores::GetOperation { map_name, keys, max_bytes }
    wit::GetAllOperation => stores::GetAllOperation { map_name, cursor, max_entries, max_bytes, keys_only }
    wit::SetOperation => stores::SetOperation { map_name, reset, remove, put }
    wit::AddOperation => stores::AddOperation { map_name, key, amount }
    wit::AppendOperation => stores::AppendOperation { log, reset, records, marks }
    wit::ReadOperation => stores::ReadOperation { log, newest, only_over, leave, max_records, max_bytes }
    wit::ReadAtOperation => stores::ReadAtOperation { log, spans, max_bytes }
    wit::ReplaceOldestOperation => stores::ReplaceOldestOperation { log, count, records }
    wit::RewriteOperation => stores::RewriteOperation { log, records }
    wit::DescribeOperation => stores::DescribeOperation { parts }
    indexes::Document => stores::Document { position, mark, terms }
    indexes::AddDocumentsStep => stores::AddDocumentsStep { index, documents }
    indexes::RemoveDocumentsStep => stores::RemoveDocumentsStep { index, positions }
    indexes::SearchStep => stores::SearchStep { index, terms, newest, around, max_bytes }
    indexes::ReadMarksStep => stores::ReadMarksStep { index, from_position, count }
}
variants! {
    wit::Precondition => stores::Precondition { Existing, Create, CreateNew, Replace }
    wit::Expectation => stores::Expectation { Entry, Log, Room }
    wit::Operation => stores::Operation {
        Get, GetAll, Set, Add, Append, Read, ReadAt, ReplaceOldest, Rewrite, Describe
    }
    indexes::IndexStep => stores::IndexStep { AddDocuments, RemoveDocuments, Search, ReadMarks }
}
impl Convert<stores::IndexedTransaction> for wit::Transaction {
    fn convert(self) -> stores::IndexedTransaction {
        let transaction: stores::Transaction = self.convert();
        transaction.into()
    }
}
impl Convert<stores::IndexedTransaction> for leases::LeasedTransaction {
    fn convert(self) -> stores::IndexedTransaction {
        let transaction: stores::LeasedTransaction = self.convert();
        transaction.into()
    }
}

// What goes out.
enums! {
    stores::Status => wit::Status { Applied, Repeated, Absent, Expired, Exists, GenerationMismatch, Unmet }
}
impl Convert<shared::Problem> for stores::Failure {
    fn convert(self) -> shared::Problem {
        let stores::Problem { code, subject, limit, message } = self.into();
        shared::Problem { code, subject, limit, message }
    }
}
impl Convert<wit::Receipt> for stores::IndexedReceipt {
    fn convert(self) -> wit::Receipt {
        self.receipt.convert()
    }
}
impl Convert<leases::LeasedReceipt> for stores::IndexedReceipt {
    fn convert(self) -> leases::LeasedReceipt {
        leases::LeasedReceipt { lease: self.lease.convert(), receipt: self.receipt.convert() }
    }
}
attempts! {
    stores::IndexedReceipt => wit::Attempt::Receipt;
    stores::IndexedReceipt => leases::LeasedAttempt::Receipt;
    stores::IndexedReceipt => indexes::IndexedAttempt::Receipt;
    stores::Deletion => wit::DeleteAttempt::Deletion;
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
    stores::Entry => wit::Entry { key, text }
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
