//! Converts between the contract's types as this host has generated them and as the kit has them: name for name.

use keepline_example_host::bindings::{Problem, listing, types};
use keepline_stores::{self as kit, Failure, FailureCode};

/// A value of the one as the other has it.
pub trait To<T> {
    fn to(self) -> T;
}

macro_rules! same {
    ($($type:ty),*) => {$(
        impl To<$type> for $type {
            fn to(self) -> $type {
                self
            }
        }
    )*};
}

same!(String, bool, i64, u32, u64);

impl<A: To<B>, B> To<Vec<B>> for Vec<A> {
    fn to(self) -> Vec<B> {
        self.into_iter().map(To::to).collect()
    }
}

impl<A: To<B>, B> To<Option<B>> for Option<A> {
    fn to(self) -> Option<B> {
        self.map(To::to)
    }
}

macro_rules! records {
    ($from:ident::* => $to:ident::* : $($name:ident { $($member:ident),* })*) => {$(
        impl To<$to::$name> for $from::$name {
            fn to(self) -> $to::$name {
                let Self { $($member),* } = self;
                $to::$name { $($member: $member.to()),* }
            }
        }
    )*};
}

macro_rules! variants {
    ($from:ident::* => $to:ident::* : $($name:ident { $($case:ident$(($value:ident))?),* })*) => {$(
        impl To<$to::$name> for $from::$name {
            fn to(self) -> $to::$name {
                match self {
                    $(Self::$case$(($value))? => $to::$name::$case$(($value.to()))?,)*
                }
            }
        }
    )*};
}

// Requests.
records! { kit::* => types::*:
    BucketId { kind, name }
    TimeToLive { milliseconds, sliding }
    ExistingBucket { generation, renew }
    NewBucket { time_to_live }
    ExpectedEntry { map_name, key, state, text }
    ExpectedLog { log, first, next }
    ExpectedRoom { map_name, limit }
    Entry { key, text }
    GetOperation { map_name, keys, max_bytes }
    GetAllOperation { map_name, cursor, max_entries, max_bytes, keys_only }
    SetOperation { map_name, reset, remove, put }
    AddOperation { map_name, key, amount }
    PositionMark { map_name, key, record_index }
    AppendOperation { log, reset, records, marks }
    ReplaceOldestOperation { log, count, records }
    PositionedRecord { position, text }
    RewriteOperation { log, records }
    ReadOperation { log, newest, only_over, leave, max_records, max_bytes }
    Span { position, count }
    ReadAtOperation { log, spans, max_bytes }
    DescribeOperation { parts }
    Transaction { bucket, precondition, expectations, operations }
    DeleteRequest { bucket, generation, max_keys }
}

variants! { kit::* => types::*:
    Precondition { Existing(bucket), Create(bucket), CreateNew(bucket), Replace(bucket) }
    EntryState { Absent, Present, Equal, AbsentOrEqual }
    Expectation { Entry(expected), Log(expected), Room(expected) }
    Operation {
        Get(operation), GetAll(operation), Set(operation), Add(operation), Append(operation), Read(operation),
        ReadAt(operation), ReplaceOldest(operation), Rewrite(operation), Describe(operation)
    }
}

// Answers.
records! { types::* => kit::*:
    StoreLimit { name, value }
    StoreInfo { capabilities, limits }
    TimeToLive { milliseconds, sliding }
    Entry { key, text }
    Size { bytes, entries }
    MissingEntries { unreadable, cursor, oversize }
    FoundEntries { entries, missing }
    ChangedEntries { added, removed }
    CounterValue { value }
    LogExtent { first, length }
    RecordRun { first, records }
    LogRecords { extent, runs }
    BucketPart { kind, name, position, count, bytes }
    Description { time_to_live, created_at, expires_in, values, parts }
    Receipt { status, now, generation, created, unmet, outcomes }
    Deletion { status, now, values, keys }
}

records! { listing::* => kit::*:
    BucketPage { names, cursor }
}

variants! { types::* => kit::*:
    Outcome {
        Entries(outcome), Changed(outcome), Counter(outcome), Extent(outcome), Records(outcome), Described(outcome)
    }
    Status { Applied, Repeated, Absent, Expired, Exists, GenerationMismatch, Unmet }
}

/// A store's answer. An error that is no problem of the contract is a fault of the store.
pub fn result<A: To<B>, B>(answer: wasmtime::Result<A>) -> Result<B, Failure> {
    answer.map(To::to).map_err(|error| {
        let Problem { code, subject, limit, message } = error.downcast().expect("the store fails with problems only");
        let code = FailureCode::named(&code).expect("the store knows the contract's codes only");
        Failure { code, subject, limit, message }
    })
}
