//! What a store answers.

#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::{Entry, TimeToLive};

/// What went wrong. It never contains a host name, an address, a password, or stored text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Problem {
    /// A registered name. Treat an unknown one as `other`.
    pub code: String,
    /// The field, place, or limit that the code is about; empty if there is none.
    pub subject: String,
    /// The limit that was exceeded; otherwise 0.
    pub limit: u64,
    /// One sentence for people, without a full stop.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct StoreLimit {
    pub name: String,
    pub value: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct StoreInfo {
    /// Registered names of what the store can do. Unknown ones mean nothing.
    /// `atomic`: without it, readers may see half a transaction, and a crash may leave one;
    /// `compare`: without it, a bucket must have one writer at a time, or updates are lost;
    /// `expiring`: without it, no bucket has a time to live, and one that is configured for sessions is refused;
    /// `exactly-once`: without it, hosts must not send a write twice;
    /// `positions`: `read-at` and `rewrite` work. Without it, the store is at the plain level;
    /// `durable`: acknowledged writes outlive the host's process. For people only;
    /// `leases`, `indexes`, `listing`: the interface of that name works.
    pub capabilities: Vec<String>,
    /// Limits that differ from the default.
    pub limits: Vec<StoreLimit>,
}

/// What was asked for and exceeds a limit, as far as the store counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Size {
    pub bytes: u64,
    pub entries: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct MissingEntries {
    /// Keys of what is there but cannot be returned: not UTF-8, of another type, or too long for its page.
    pub unreadable: Vec<String>,
    /// Of a page: the next cursor; empty after the last.
    pub cursor: String,
    /// If some, nothing else is returned.
    pub oversize: Option<Size>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct FoundEntries {
    /// In the order of the keys asked for, or as `get-all` says.
    pub entries: Vec<Entry>,
    /// None: that is all there is.
    pub missing: Option<MissingEntries>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ChangedEntries {
    /// Entries that were not there before.
    pub added: u64,
    /// Entries that were there and are not any more.
    pub removed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct CounterValue {
    pub value: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct RecordRun {
    /// The position of the first record.
    pub first: u64,
    /// Oldest first. A record that others wrote and that exceeds `record-bytes` is returned empty.
    pub records: Vec<String>,
}

/// Where a log stands: the position of its oldest record, and how many it has. A log that never had a record is at
/// 0 and 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LogExtent {
    pub first: u64,
    pub length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LogRecords {
    pub extent: LogExtent,
    pub runs: Vec<RecordRun>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct BucketPart {
    /// A registered name: `map`, `log`, `index`.
    pub kind: String,
    pub name: String,
    /// Of a log: the position of its oldest record. Of an index: one more than the highest ever added.
    pub position: u64,
    /// Entries, records, or documents. An empty map does not exist.
    pub count: u64,
    /// Of an index, about what it takes: 4 for each document and 3 for each of its terms. Otherwise 0.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Description {
    #[cfg_attr(feature = "component", component(name = "time-to-live"))]
    pub time_to_live: Option<TimeToLive>,
    /// When this generation was created, in milliseconds since 1970 by the store's clock; 0: unknown.
    #[cfg_attr(feature = "component", component(name = "created-at"))]
    pub created_at: u64,
    /// Milliseconds left, after any renewal by this transaction; none: it does not expire.
    #[cfg_attr(feature = "component", component(name = "expires-in"))]
    pub expires_in: Option<u64>,
    /// Entries of `values`. Beyond a thousand, those with invalid names may be counted.
    pub values: u64,
    /// Sorted by kind and name, without `values`.
    pub parts: Vec<BucketPart>,
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Outcome {
    #[cfg_attr(feature = "component", component(name = "entries"))]
    Entries(FoundEntries),
    #[cfg_attr(feature = "component", component(name = "changed"))]
    Changed(ChangedEntries),
    #[cfg_attr(feature = "component", component(name = "counter"))]
    Counter(CounterValue),
    #[cfg_attr(feature = "component", component(name = "extent"))]
    Extent(LogExtent),
    #[cfg_attr(feature = "component", component(name = "records"))]
    Records(LogRecords),
    #[cfg_attr(feature = "component", component(name = "described"))]
    Described(Description),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(enum))]
pub enum Status {
    #[cfg_attr(feature = "component", component(name = "applied"))]
    Applied,
    /// An earlier try of the same call was applied. Nothing was written now; outcomes are of current values,
    /// and counts of `changed` are 0.
    #[cfg_attr(feature = "component", component(name = "repeated"))]
    Repeated,
    #[cfg_attr(feature = "component", component(name = "absent"))]
    Absent,
    /// Absent, and known to have expired. A store that has cleared the bucket away says `absent`.
    #[cfg_attr(feature = "component", component(name = "expired"))]
    Expired,
    #[cfg_attr(feature = "component", component(name = "exists"))]
    Exists,
    #[cfg_attr(feature = "component", component(name = "generation-mismatch"))]
    GenerationMismatch,
    #[cfg_attr(feature = "component", component(name = "unmet"))]
    Unmet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Receipt {
    pub status: Status,
    /// Milliseconds since 1970 by the store's clock; never goes back within a generation. May be 0 if the
    /// transaction only reads a bucket that does not slide.
    pub now: u64,
    /// None if there is no bucket, or if it is the generation that the precondition named.
    pub generation: Option<String>,
    pub created: bool,
    /// If `unmet`, the index of the first expectation that did not hold.
    pub unmet: Option<u32>,
    /// One for each operation, in order; empty unless `applied` or `repeated`.
    pub outcomes: Vec<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Attempt {
    #[cfg_attr(feature = "component", component(name = "receipt"))]
    Receipt(Receipt),
    #[cfg_attr(feature = "component", component(name = "problem"))]
    Problem(Problem),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Deletion {
    /// `applied`, `repeated`, `absent`, `expired`, or `generation-mismatch`.
    pub status: Status,
    pub now: u64,
    /// How many entries `values` had.
    pub values: u64,
    /// The first of their keys, sorted, at most as many as asked for. Of more than 100,000, none need be named.
    pub keys: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum DeleteAttempt {
    #[cfg_attr(feature = "component", component(name = "deletion"))]
    Deletion(Deletion),
    #[cfg_attr(feature = "component", component(name = "problem"))]
    Problem(Problem),
}
