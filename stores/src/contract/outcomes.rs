//! The answers to calls.

#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::{Entry, TimeToLive};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct FoundEntries {
    /// Those that are there: as asked for (`get`), or sorted by key (`get-all`).
    pub entries: Vec<Entry>,
    /// Keys of what is there but can't be returned: no UTF-8, or of another type. In the same order.
    pub unreadable: Vec<String>,
}

/// Over the limits of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Size {
    /// What the operation's `max-bytes` is about, as far as the store counted.
    pub bytes: u64,
    /// All that the operation asked for and the map holds.
    pub entries: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct EntryPage {
    /// In no particular order. An entry that is there all the while is returned at least once.
    pub entries: Vec<Entry>,
    /// Keys of what can't be returned, or did not fit: `get` them one by one.
    pub unreadable: Vec<String>,
    /// For the next page; empty after the last.
    pub cursor: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct EntryCount {
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct CounterValue {
    pub value: i64,
}

/// Where a log stands; its next position is `first + length`. An emptied log still exists, for its
/// positions go on. One that never had a record is at 0 and 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LogExtent {
    pub first: u64,
    pub length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LogRecords {
    pub extent: LogExtent,
    /// The position of the first record here; `extent.first + extent.length` if there is none.
    pub first: u64,
    /// Oldest first, whichever end they were read from.
    pub records: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct SpanRecords {
    pub first: u64,
    pub records: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LogSpans {
    pub extent: LogExtent,
    /// One for each span of which there is a record; it begins with the first that there is.
    pub spans: Vec<SpanRecords>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LeaseState {
    /// Whether the caller's holder has it now.
    pub held: bool,
    /// Who has it; empty: it is free, or has run out.
    pub holder: String,
    /// Milliseconds left, by the store's clock.
    #[cfg_attr(feature = "component", component(name = "expires-in"))]
    pub expires_in: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct IndexExtent {
    /// One more than the highest position ever posted; 0: none.
    pub next: u64,
    pub documents: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct TermMatches {
    /// Offsets from `found-matches.first`, ascending.
    pub offsets: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct FoundMatches {
    pub extent: IndexExtent,
    /// The oldest position that was looked at; `extent.next`: none was.
    pub first: u64,
    /// One for each position from `first` to `extent.next - 1`; 0 where there is no document.
    pub marks: Vec<u16>,
    /// One for each term, in the order asked for.
    pub terms: Vec<TermMatches>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct MapDescription {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub entries: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LogDescription {
    pub log: String,
    pub extent: LogExtent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct IndexDescription {
    pub index: String,
    /// An emptied index still exists, for its positions are not free again.
    pub extent: IndexExtent,
    /// 4 for each document and 3 for each of its terms, which is about what they take.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Description {
    #[cfg_attr(feature = "component", component(name = "time-to-live"))]
    pub time_to_live: Option<TimeToLive>,
    /// Milliseconds left; none: it never expires.
    #[cfg_attr(feature = "component", component(name = "expires-in"))]
    pub expires_in: Option<u64>,
    /// How many entries `values` has. Beyond a thousand, invalid names may be counted, too.
    pub values: u64,
    /// Other maps, sorted by name. A map without entries does not exist. Invalid names may be counted, too, beyond a
    /// thousand in all of them.
    pub maps: Vec<MapDescription>,
    /// Sorted by name.
    pub logs: Vec<LogDescription>,
    /// Sorted by name.
    pub indexes: Vec<IndexDescription>,
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Outcome {
    #[cfg_attr(feature = "component", component(name = "entries"))]
    Entries(FoundEntries),
    #[cfg_attr(feature = "component", component(name = "oversize"))]
    Oversize(Size),
    #[cfg_attr(feature = "component", component(name = "page"))]
    Page(EntryPage),
    #[cfg_attr(feature = "component", component(name = "changed"))]
    Changed(EntryCount),
    #[cfg_attr(feature = "component", component(name = "counter"))]
    Counter(CounterValue),
    #[cfg_attr(feature = "component", component(name = "extent"))]
    Extent(LogExtent),
    #[cfg_attr(feature = "component", component(name = "records"))]
    Records(LogRecords),
    #[cfg_attr(feature = "component", component(name = "spans"))]
    Spans(LogSpans),
    #[cfg_attr(feature = "component", component(name = "lease"))]
    Lease(LeaseState),
    #[cfg_attr(feature = "component", component(name = "indexed"))]
    Indexed(IndexExtent),
    #[cfg_attr(feature = "component", component(name = "matches"))]
    Matches(FoundMatches),
    #[cfg_attr(feature = "component", component(name = "described"))]
    Described(Description),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(enum))]
pub enum Status {
    /// Applied, in full.
    #[cfg_attr(feature = "component", component(name = "applied"))]
    Applied,
    /// An earlier try of the same call was applied. Nothing was written now; outcomes are of current
    /// values, and `changed` is 0.
    #[cfg_attr(feature = "component", component(name = "repeated"))]
    Repeated,
    /// The bucket is not there.
    #[cfg_attr(feature = "component", component(name = "absent"))]
    Absent,
    /// The bucket's time has run out. Later calls may be told `absent`, and so may the first if the store has
    /// cleared the bucket away meanwhile.
    #[cfg_attr(feature = "component", component(name = "expired"))]
    Expired,
    /// The bucket exists, and was not to.
    #[cfg_attr(feature = "component", component(name = "exists"))]
    Exists,
    /// The bucket is another generation.
    #[cfg_attr(feature = "component", component(name = "generation-mismatch"))]
    GenerationMismatch,
    /// An expectation did not hold.
    #[cfg_attr(feature = "component", component(name = "unmet"))]
    Unmet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Receipt {
    pub status: Status,
    /// The store's time: milliseconds since 1970. It never goes back within a bucket's life. A store may leave it
    /// at 0 where a transaction only reads a bucket that does not slide: it needs no clock for that.
    pub now: u64,
    /// The bucket's creation stamp, unique among its lives; empty if there is no bucket, and if it is the one
    /// that the precondition named.
    pub generation: String,
    /// Whether this transaction created it.
    pub created: bool,
    /// If `unmet`, the index of the first expectation that did not hold.
    pub unmet: Option<u32>,
    /// One for each operation, in order; empty unless `applied` or `repeated`.
    pub outcomes: Vec<Outcome>,
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(enum))]
pub enum FailureCode {
    /// The request breaks a rule of this contract. `subject` is the name of the log, map, index or key that would be
    /// written or asked for twice, or that lacks the position; or else what breaks its rule, as members are called
    /// here (`bucket`, `map`, `log`, `key`, `position`, `terms`).
    #[cfg_attr(feature = "component", component(name = "invalid"))]
    Invalid,
    /// Over `limit`, a limit of this contract or of the host.
    #[cfg_attr(feature = "component", component(name = "too-large"))]
    TooLarge,
    /// The store lacks the capability `subject`.
    #[cfg_attr(feature = "component", component(name = "unsupported"))]
    Unsupported,
    /// What is stored under `subject`, which would be written or is a log, has another type. It is left as it is.
    /// (Reads of maps name it in `unreadable`; `remove` and `reset-map` remove it.)
    #[cfg_attr(feature = "component", component(name = "wrong-type"))]
    WrongType,
    /// Entry `subject` is no counter.
    #[cfg_attr(feature = "component", component(name = "not-a-counter"))]
    NotACounter,
    /// Counter `subject` would leave its range.
    #[cfg_attr(feature = "component", component(name = "counter-overflow"))]
    CounterOverflow,
    /// The store takes no more than `limit` buckets.
    #[cfg_attr(feature = "component", component(name = "too-many-buckets"))]
    TooManyBuckets,
    /// The store is out of memory or disk (`limit` bytes; 0: unknown). With the subject `writers`: so many others
    /// have just written to this bucket and may still repeat a call, and it can't remember another one; this
    /// passes within their time-outs.
    #[cfg_attr(feature = "component", component(name = "full"))]
    Full,
    /// The store takes no writes at present.
    #[cfg_attr(feature = "component", component(name = "read-only"))]
    ReadOnly,
    /// The store refused the host, or the host refused the bucket.
    #[cfg_attr(feature = "component", component(name = "denied"))]
    Denied,
    /// The store can't be used. With the subject `expiry`: this bucket can't, because only a clock that was set ahead
    /// just now says that it has expired.
    #[cfg_attr(feature = "component", component(name = "unavailable"))]
    Unavailable,
    /// No answer within `limit` milliseconds. The call may or may not have been applied by then; it will
    /// not be applied later.
    #[cfg_attr(feature = "component", component(name = "timed-out"))]
    TimedOut,
    #[cfg_attr(feature = "component", component(name = "other"))]
    Other,
}

/// A failed call. It never contains a host name, an address, a password or a stored text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Failure {
    pub code: FailureCode,
    /// The name or part that the code is about, or empty.
    pub subject: String,
    /// The limit that the code is about, or 0.
    pub limit: u64,
    /// For people: one sentence without a full stop.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Attempt {
    #[cfg_attr(feature = "component", component(name = "receipt"))]
    Receipt(Receipt),
    #[cfg_attr(feature = "component", component(name = "failure"))]
    Failure(Failure),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct BucketPage {
    /// Sorted. A page may hold a few more or fewer than asked for, even none, and repeat names of an earlier page.
    pub names: Vec<String>,
    /// For the next page; empty after the last.
    pub cursor: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Deletion {
    /// `applied`, `repeated`, `absent`, `expired` or `generation-mismatch`.
    pub status: Status,
    pub now: u64,
    /// How many entries `values` had.
    pub values: u64,
    /// The first of their keys, sorted: at most as many as asked for. Of more than 100,000, a store need not name
    /// any.
    pub keys: Vec<String>,
}

/// What a store can promise. The filter asks before it relies on one, and does with less as told here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct StoreCapabilities {
    /// Transactions are all or none among concurrent writers. False: counts may be off.
    pub atomic: bool,
    /// Buckets expire. False: a configured time to live is refused.
    pub expiring: bool,
    /// A repetition counts once. False: the host must not repeat what writes.
    #[cfg_attr(feature = "component", component(name = "exactly-once"))]
    pub exactly_once: bool,
    /// What was acknowledged outlives the host's process. Told to people only.
    pub durable: bool,
    /// `list-buckets` works. False: sessions can't be listed.
    pub listing: bool,
    /// `lease` works. False: deferred work is left to expectations and may be done twice.
    pub leases: bool,
    /// `post`, `unpost` and `match` work. False: recall reads the newest term records only.
    pub indexes: bool,
}

impl StoreCapabilities {
    /// Those of a store that lacks nothing.
    pub const ALL: Self = Self {
        atomic: true,
        expiring: true,
        exactly_once: true,
        durable: true,
        listing: true,
        leases: true,
        indexes: true,
    };
}
