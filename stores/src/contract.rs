//! The contract of `wit/key-value.wit` as plain Rust: name for name and comment for comment, and nothing of wasmtime.
//! The library converts (`host/src/runtime/convert.rs`), by moving what is there.

#![allow(missing_docs, reason = "where there is no comment, the name says it all, as in the contract")]

/// How long a new bucket lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// At least 1. Counted by the store's clock from the bucket's creation or, if sliding, from its
    /// last use.
    pub milliseconds: u64,
    /// Whether each transaction that opens the bucket restarts the time. A store may skip the
    /// renewal until 1 % of the time has passed.
    pub sliding: bool,
}

/// Open a bucket that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingLife {
    /// The incarnation it must be, from an earlier receipt; none: any.
    pub incarnation: Option<String>,
}

/// Open a bucket that may have to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewLife {
    /// For a bucket that is created; an existing one keeps its own. None: it never expires.
    pub time_to_live: Option<TimeToLive>,
}

/// What a transaction requires of its bucket before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It must exist: otherwise `absent`, `expired` or `another-life`.
    Existing(ExistingLife),
    /// Create it if it is absent.
    Create(NewLife),
    /// It must not exist: otherwise `exists`.
    CreateNew(NewLife),
}

/// The oldest records of a log must be exactly these, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedOldest {
    pub log: String,
    pub records: Vec<String>,
}

/// The bucket must hold exactly these keys, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedKeys {
    pub keys: Vec<String>,
}

/// The keys that the transaction's own `put`s and `increment`s create must leave the bucket with no
/// more than `limit` keys in all. Removals in the same transaction don't count. A transaction that creates no
/// key always finds room, even in a bucket that is over the limit already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedRoom {
    pub limit: u64,
}

/// What must hold for the transaction to be applied; checked against the state before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    Oldest(ExpectedOldest),
    Keys(ExpectedKeys),
    Room(ExpectedRoom),
}

/// Read one value, unless it is longer than `max-bytes`. Answered by `value` or `oversize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetOperation {
    pub key: String,
    pub max_bytes: u64,
}

/// Read all values, unless there are more than `max-keys`, or keys and values together are longer
/// than `max-bytes`. Answered by `values` or `oversize`. Cost: linear in what is returned, or in the
/// limits if there is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetAllOperation {
    pub max_bytes: u64,
    pub max_keys: u64,
}

/// Names of the keys, sorted, at most `max-keys`. Of more than 100 000 keys, a store need not name any.
/// Answered by `names`. Cost: linear in the bucket's keys, up to that many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListKeysOperation {
    pub max_keys: u64,
}

/// Set a value. Answered by `done`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutOperation {
    pub key: String,
    /// JSON text. The store does not interpret it.
    pub value: String,
}

/// Add to a counter; an absent one counts as 0. Answered by `counter`. A value that is no integer
/// fails the transaction (`not-a-counter`), as does a sum beyond 64 bits (`counter-overflow`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncrementOperation {
    pub key: String,
    pub amount: i64,
}

/// Remove one value. Answered by `names` (empty: it was not there).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveOperation {
    pub key: String,
}

/// Remove all values; logs stay. Answered by `names`, sorted, at most `max-names` of them. Of more than
/// 100 000 keys, a store need not name any. Cost: linear in the bucket's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveAllOperation {
    pub max_names: u64,
}

/// Append records to a log, creating it if needed. Answered by the resulting `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendOperation {
    pub log: String,
    pub records: Vec<String>,
}

/// One end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogEnd {
    Oldest,
    Newest,
}

/// Read a range of a log: from that end, skip `skip` records, then take at most `max-records`, and
/// no more than 10 000, of together no more than `max-bytes`, but at least one. Answered by
/// `records`, oldest first from either end. To read more, ask again with a larger `skip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOperation {
    pub log: String,
    pub end: LogEnd,
    pub skip: u64,
    pub max_records: u64,
    pub max_bytes: u64,
}

/// If the log is longer than `limit`, return all but its newest `keep` records, oldest first: at
/// most `max-records`, and no more than 10 000, of together no more than `max-bytes`, but at least one.
/// Answered by `records`, empty if the log is not longer than that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverflowOperation {
    pub log: String,
    pub limit: u64,
    pub keep: u64,
    pub max_records: u64,
    pub max_bytes: u64,
}

/// Replace the oldest `count` records (all, if there are fewer) by `records`. The new ones take the
/// positions of the last of the old ones, so there may not be more of them (`invalid`). Answered by
/// `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaceOldestOperation {
    pub log: String,
    pub count: u64,
    pub records: Vec<String>,
}

/// Replace the record at a position. Answered by `extent`; an unknown position fails (`invalid`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteOperation {
    pub log: String,
    pub position: u64,
    pub record_text: String,
}

/// Answered by `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountOperation {
    pub log: String,
}

/// One step of a transaction. Steps are applied in order, and each sees those before it. A
/// transaction may write each key once and each log once (`invalid` otherwise); removing all
/// counts as writing every key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Get(GetOperation),
    GetAll(GetAllOperation),
    ListKeys(ListKeysOperation),
    Put(PutOperation),
    Increment(IncrementOperation),
    Remove(RemoveOperation),
    RemoveAll(RemoveAllOperation),
    Append(AppendOperation),
    Read(ReadOperation),
    Overflow(OverflowOperation),
    ReplaceOldest(ReplaceOldestOperation),
    Rewrite(RewriteOperation),
    Count(CountOperation),
}

/// A value as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundValue {
    /// None: absent, or unreadable.
    pub json: Option<String>,
    /// The value is there, but is not UTF-8.
    pub unreadable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub json: String,
}

/// All values, sorted by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllValues {
    pub entries: Vec<Entry>,
    /// Keys left out because their values are not UTF-8, sorted.
    pub unreadable: Vec<String>,
}

/// What was asked for is over the limits that came with the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Of the values and their keys, as far as the store counted.
    pub bytes: u64,
    pub keys: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyNames {
    pub names: Vec<String>,
    /// The total number, which may be more than are listed. Only valid names count.
    pub total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteDone {
    /// Whether the key is new.
    pub created: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValue {
    pub value: i64,
}

/// The extent of a log. The store numbers records from 0 in order of appending and never reuses a
/// number during the bucket's life. The newest record's position is `first + length - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogExtent {
    /// The oldest record's position.
    pub first: u64,
    pub length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecords {
    /// The position of the first record here; meaningless if there is none.
    pub first: u64,
    /// How many records the log holds in all.
    pub length: u64,
    /// Invalid UTF-8 is replaced by U+FFFD.
    pub records: Vec<String>,
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Value(FoundValue),
    Values(AllValues),
    Oversize(Size),
    Names(KeyNames),
    Done(WriteDone),
    Counter(CounterValue),
    Extent(LogExtent),
    Records(LogRecords),
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It was applied, in full.
    Applied,
    /// It had been applied before, by an earlier try of the same call: nothing was written now (except that a
    /// sliding time to live is renewed), and the outcomes reflect current values. This is detected before
    /// expectations are checked. A call that only reads is never repeated.
    Repeated,
    /// The bucket does not exist. Nothing was changed, here and in all cases below.
    Absent,
    /// The bucket existed, and has expired. The first call to find out gets this, later ones may get
    /// `absent`.
    Expired,
    /// The bucket exists, and must not.
    Exists,
    /// The bucket exists, but is not the incarnation that was asked for.
    AnotherLife,
    /// An expectation did not hold.
    Unmet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub status: Status,
    /// Whether this transaction created the bucket.
    pub created: bool,
    /// The bucket's creation stamp: opaque, unique among the lives of one bucket. Empty when absent, and
    /// when it is the one that the opening named.
    pub incarnation: String,
    /// One for each operation, in order; empty unless `applied` or `repeated`.
    pub outcomes: Vec<Outcome>,
}

/// Why a call failed. A closed set; `other` is for what has no better name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureCode {
    /// The request breaks a rule of this contract. `subject` is the offending part.
    Invalid,
    /// What is stored under `subject` has the wrong type. Nobody's data is overwritten because of that.
    /// (Reading all values leaves such a one out, and removing it works.)
    WrongType,
    /// The value of key `subject` is not a signed 64-bit integer.
    NotACounter,
    /// Counter `subject` would overflow a signed 64-bit integer.
    CounterOverflow,
    /// The store holds `limit` buckets and accepts no more.
    TooManyBuckets,
    /// The store is out of memory (`limit` bytes, or 0 if unknown). With the `subject` `writers`: `limit`
    /// other writers have just written to this bucket and may still retry, and it can't remember
    /// another one; this passes within their time-outs.
    Full,
    /// The store accepts no writes at present.
    ReadOnly,
    /// The store refused the host's credentials or permissions.
    Denied,
    /// The store can't be reached.
    Unavailable,
    /// The store did not answer in time (`limit` milliseconds). The transaction may or may not
    /// have been applied by then; it will not be applied later.
    TimedOut,
    Other,
}

/// A failed call. It never holds a host name, an address or a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: FailureCode,
    /// The key, log or part of the request that the code refers to, or empty.
    pub subject: String,
    /// The limit that the code refers to, or 0.
    pub limit: u64,
    /// For people: one sentence without a full stop.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPage {
    /// Sorted. A page may hold somewhat more or fewer than were asked for, even none, and repeat names of an
    /// earlier page.
    pub buckets: Vec<String>,
    /// For the next page; empty after the last.
    pub cursor: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `applied`, `repeated`, `absent` or `expired`.
    pub status: Status,
    /// The keys that it held, sorted. Of more than 100 000, a store need not name any.
    pub keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDescription {
    pub log: String,
    pub length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// `applied` (it exists), `absent` or `expired`.
    pub status: Status,
    pub incarnation: String,
    pub time_to_live: Option<TimeToLive>,
    /// Milliseconds until it expires, by the store's clock; none: it never does.
    pub expires_in: Option<u64>,
    /// Beyond a thousand, invalid names may be counted, too.
    pub keys: u64,
    pub logs: Vec<LogDescription>,
}

/// What this store can promise, for whoever has to know. The filter also runs on less, and then promises
/// less: each of its promises depends on the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreCapabilities {
    /// Transactions are all or none, also among concurrent writers.
    pub atomic: bool,
    /// Buckets expire.
    pub expiring: bool,
    /// A repeated transaction counts once.
    pub exactly_once: bool,
    /// `list-buckets` works.
    pub listing: bool,
}
