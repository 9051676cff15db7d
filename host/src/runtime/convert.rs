//! The contract's types as the component has them, and as stores have them: the same names, in two worlds.
//!
//! What is converted is moved, not copied. A field or a case that one side lacks does not compile.

use keepline_stores as store;

use crate::contract::key_value as wit;

/// Into the other world.
pub trait Convert<T> {
    /// What it is there.
    fn convert(self) -> T;
}

macro_rules! alike {
    ($($type:ty),*) => {
        $(impl Convert<$type> for $type {
            fn convert(self) -> $type {
                self
            }
        })*
    };
}

alike!(String, bool, u32, u64, i64);

impl<A: Convert<B>, B> Convert<Option<B>> for Option<A> {
    fn convert(self) -> Option<B> {
        self.map(Convert::convert)
    }
}

impl<A: Convert<B>, B, E: Convert<F>, F> Convert<Result<B, F>> for Result<A, E> {
    fn convert(self) -> Result<B, F> {
        self.map(Convert::convert).map_err(Convert::convert)
    }
}

// A list stays where it is, as long as the elements of both sides are of one size.
impl<A: Convert<B>, B> Convert<Vec<B>> for Vec<A> {
    fn convert(self) -> Vec<B> {
        self.into_iter().map(Convert::convert).collect()
    }
}

/// Records with `{}`, variants with `[]`, enums with `()`.
macro_rules! convert {
    ($from:ident => $to:ident: $($name:ident $body:tt;)*) => {
        $(convert!(@ $from, $to, $name, $body);)*
    };
    (@ $from:ident, $to:ident, $name:ident, { $($field:ident),* }) => {
        impl Convert<$to::$name> for $from::$name {
            fn convert(self) -> $to::$name {
                $to::$name { $($field: self.$field.convert()),* }
            }
        }
    };
    (@ $from:ident, $to:ident, $name:ident, [ $($case:ident),* ]) => {
        impl Convert<$to::$name> for $from::$name {
            fn convert(self) -> $to::$name {
                match self {
                    $($from::$name::$case(inner) => $to::$name::$case(inner.convert()),)*
                }
            }
        }
    };
    (@ $from:ident, $to:ident, $name:ident, ( $($case:ident),* )) => {
        impl Convert<$to::$name> for $from::$name {
            fn convert(self) -> $to::$name {
                match self {
                    $($from::$name::$case => $to::$name::$case,)*
                }
            }
        }
    };
}

// What the component sends.

convert! {
    wit => store:
    Opening [Existing, Create, CreateNew];
    ExistingLife { incarnation };
    NewLife { time_to_live };
    TimeToLive { milliseconds, sliding };
    Expectation [Oldest, Keys, Room];
    ExpectedOldest { log, records };
    ExpectedKeys { keys };
    ExpectedRoom { limit };
    Operation [Get, GetAll, ListKeys, Put, Increment, Remove, RemoveAll, Append, Read, Overflow, ReplaceOldest, Rewrite, Count];
    GetOperation { key, max_bytes };
    GetAllOperation { max_bytes, max_keys };
    ListKeysOperation { max_keys };
    PutOperation { key, value };
    IncrementOperation { key, amount };
    RemoveOperation { key };
    RemoveAllOperation { max_names };
    AppendOperation { log, records };
    ReadOperation { log, end, skip, max_records, max_bytes };
    LogEnd (Oldest, Newest);
    OverflowOperation { log, limit, keep, max_records, max_bytes };
    ReplaceOldestOperation { log, count, records };
    RewriteOperation { log, position, record_text };
    CountOperation { log };
}

// What the store answers.

convert! {
    store => wit:
    Receipt { status, created, incarnation, outcomes };
    Status (Applied, Repeated, Absent, Expired, Exists, AnotherLife, Unmet);
    Outcome [Value, Values, Oversize, Names, Done, Counter, Extent, Records];
    FoundValue { json, unreadable };
    AllValues { entries, unreadable };
    Entry { key, json };
    Size { bytes, keys };
    KeyNames { names, total };
    WriteDone { created };
    CounterValue { value };
    LogExtent { first, length };
    LogRecords { first, length, records };
    Failure { code, subject, limit, message };
    FailureCode (Invalid, WrongType, NotACounter, CounterOverflow, TooManyBuckets, Full, ReadOnly, Denied, Unavailable, TimedOut, Other);
    BucketPage { buckets, cursor };
    Deletion { status, keys };
    Description { status, incarnation, time_to_live, expires_in, keys, logs };
    TimeToLive { milliseconds, sliding };
    LogDescription { log, length };
    StoreCapabilities { atomic, expiring, exactly_once, listing };
}
