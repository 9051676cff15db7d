//! The operations of a transaction.

#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::Entry;

/// Read some entries, each key once. Outcome: `entries`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct GetOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub keys: Vec<String>,
    /// Of all texts, without their keys; over it, the outcome is oversize.
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// Read a map, whole or in pages. Outcome: `entries`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct GetAllOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    /// None: the whole map, sorted by key, or oversize if it exceeds a limit below. Some: a page in no order,
    /// starting at this cursor (the first page: empty). An entry that is there throughout is returned
    /// at least once.
    pub cursor: Option<String>,
    /// Of a page: about so many; 0 means 100. A map with no more than this comes in one page.
    #[cfg_attr(feature = "component", component(name = "max-entries"))]
    pub max_entries: u64,
    /// Of keys and texts together. On a page, an entry that does not fit is named in `unreadable`.
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
    /// Whether texts are returned empty.
    #[cfg_attr(feature = "component", component(name = "keys-only"))]
    pub keys_only: bool,
}

/// Remove entries, then put others; each key once. Outcome: `changed`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct SetOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    /// Whether all other entries are removed as well.
    pub reset: bool,
    pub remove: Vec<String>,
    pub put: Vec<Entry>,
}

/// Add to a counter. An absent one counts as 0, and is created even if the amount is 0. Outcome: `counter`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct AddOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub key: String,
    pub amount: i64,
}

/// Put the position of an appended record, in decimal, under a key of a map other than `values` (`invalid`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct PositionMark {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub key: String,
    /// Index into the operation's `records`.
    #[cfg_attr(feature = "component", component(name = "record-index"))]
    pub record_index: u32,
}

/// Append records. A log exists from its first record on; an emptied log keeps its positions. Outcome: `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct AppendOperation {
    pub log: String,
    /// Whether all earlier records are dropped first.
    pub reset: bool,
    pub records: Vec<String>,
    /// Each counts as a write of its key.
    pub marks: Vec<PositionMark>,
}

/// Put records in place of the oldest `count`: of all, if there are fewer, and of no more than 10,000, however many are
/// asked for. They take the positions of the last of those, so there may not be more of them (`invalid`). Outcome:
/// `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ReplaceOldestOperation {
    pub log: String,
    pub count: u64,
    pub records: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct PositionedRecord {
    pub position: u64,
    pub text: String,
}

/// Replace records at existing positions, each once (`invalid` for others). A store may refuse many that are far from
/// both ends of a long log (`too-large`). Positions do not show a rewrite: whoever depends on texts also expects an
/// entry that every rewriting transaction changes. Outcome: `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct RewriteOperation {
    pub log: String,
    pub records: Vec<PositionedRecord>,
}

/// Read from one end of a log. Outcome: `records`, with one run; or `extent`, if no record is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ReadOperation {
    pub log: String,
    /// Whether to read the newest records instead of the oldest.
    pub newest: bool,
    /// Read nothing unless the log has more records than this; 0: read always.
    #[cfg_attr(feature = "component", component(name = "only-over"))]
    pub only_over: u64,
    /// Never read the newest so many.
    pub leave: u64,
    #[cfg_attr(feature = "component", component(name = "max-records"))]
    pub max_records: u64,
    /// The first record looked at is returned whatever its length, even beyond `reply-bytes`, if `max-records` is not 0 and
    /// the receipt has any room left; no other may exceed this total. What is too much is left out at the other end.
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Span {
    pub position: u64,
    pub count: u32,
}

/// Read runs of records in the order given. Positions that the log does not hold are skipped; runs may overlap.
/// A store may end early where many are far from both ends of a long log. Outcome: `records`, with a run for each span
/// that has records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ReadAtOperation {
    pub log: String,
    pub spans: Vec<Span>,
    /// As in `read`. After the first record that does not fit, no other is returned.
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// Outcome: `described`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct DescribeOperation {
    /// Whether parts are listed.
    pub parts: bool,
}

/// One step of a transaction. Steps are applied in order, and each sees the ones before it. A transaction names
/// each key and log at most once for writing (`invalid`); resetting a map names all its keys. Empty lists
/// are allowed: such a step is answered, writes nothing, creates nothing, and still names its log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Operation {
    #[cfg_attr(feature = "component", component(name = "get"))]
    Get(GetOperation),
    #[cfg_attr(feature = "component", component(name = "get-all"))]
    GetAll(GetAllOperation),
    #[cfg_attr(feature = "component", component(name = "set"))]
    Set(SetOperation),
    #[cfg_attr(feature = "component", component(name = "add"))]
    Add(AddOperation),
    #[cfg_attr(feature = "component", component(name = "append"))]
    Append(AppendOperation),
    #[cfg_attr(feature = "component", component(name = "read"))]
    Read(ReadOperation),
    #[cfg_attr(feature = "component", component(name = "read-at"))]
    ReadAt(ReadAtOperation),
    #[cfg_attr(feature = "component", component(name = "replace-oldest"))]
    ReplaceOldest(ReplaceOldestOperation),
    #[cfg_attr(feature = "component", component(name = "rewrite"))]
    Rewrite(RewriteOperation),
    #[cfg_attr(feature = "component", component(name = "describe"))]
    Describe(DescribeOperation),
}
