//! The operations of a transaction.

#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

use super::Entry;

/// Read some entries, each key once. Answered by `entries`, or by `oversize` if the texts found, without their
/// keys, are together longer than `max-bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct GetOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub keys: Vec<String>,
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// Read a whole map. Answered by `entries`, or by `oversize` if there are more than `max-entries`, or keys and
/// texts are together longer than `max-bytes`. Cost: linear in what is returned, or in the limits if there is
/// more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct GetAllOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    #[cfg_attr(feature = "component", component(name = "max-entries"))]
    pub max_entries: u64,
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// Read a map page by page, from the empty cursor on. A cursor means something to the store that gave it, for
/// this map. Answered by `page`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct PageOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub cursor: String,
    /// About as many; 0 means 100. A map with no more than this comes in one page.
    #[cfg_attr(feature = "component", component(name = "max-entries"))]
    pub max_entries: u64,
    /// Of keys and texts together. An entry that does not fit any more is named in `unreadable`.
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
    /// Whether the texts are left out (empty).
    #[cfg_attr(feature = "component", component(name = "keys-only"))]
    pub keys_only: bool,
}

/// Set entries, each key once. Answered by `changed`: how many are new.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct PutOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub entries: Vec<Entry>,
}

/// Add to a counter; an absent one counts as 0, and is created even if the amount is 0. Answered by
/// `counter`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct IncrementOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub key: String,
    pub amount: i64,
}

/// Remove entries. Answered by `changed`: how many were there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct RemoveOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub keys: Vec<String>,
}

/// Remove all entries, then set these, each key once. Answered by `changed`: how many were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ResetMapOperation {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub entries: Vec<Entry>,
}

/// Put the position of a record, in decimal, under a key: a caller that appends can't know it beforehand. Not in
/// `values` (`invalid`).
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

/// Append records; the log comes into being with its first record. Answered by `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct AppendOperation {
    pub log: String,
    pub records: Vec<String>,
    /// Each counts as a `put` of its key.
    pub marks: Vec<PositionMark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(enum))]
pub enum LogEnd {
    #[cfg_attr(feature = "component", component(name = "oldest"))]
    Oldest,
    #[cfg_attr(feature = "component", component(name = "newest"))]
    Newest,
}

/// Read from one end of a log: at most `max-records`, together no longer than `max-bytes`. The first record from
/// that end is returned whatever its length, if `max-records` is not 0 and the transaction's answers have room; no other
/// exceeds `max-bytes`. What is too much is left out at the other end. A record of more than 2 MiB, which others wrote, is returned as an empty text.
/// Answered by `records`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ReadOperation {
    pub log: String,
    pub end: LogEnd,
    #[cfg_attr(feature = "component", component(name = "max-records"))]
    pub max_records: u64,
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Span {
    pub position: u64,
    pub count: u32,
}

/// Read runs of records by position, in the order asked for, while they are together no longer than
/// `max-bytes`; the first is returned whatever its length. After the first that does not fit, no other is returned. Positions
/// that the log does not hold are skipped, whole runs of them, too; runs may overlap. A store may end early where many
/// are far from both ends of a long log. Answered by `spans`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ReadAtOperation {
    pub log: String,
    pub spans: Vec<Span>,
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// If the log holds more than `limit` records, read its oldest, leaving the newest `keep` (at most
/// `limit`: `invalid` otherwise, with the subject `keep`): at most `max-records`, together no longer than `max-bytes`,
/// the first whatever its length, as in `read`.
/// Answered by `records`, or by `extent` if there are none to read: the log is not that long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct OverflowOperation {
    pub log: String,
    pub limit: u64,
    pub keep: u64,
    #[cfg_attr(feature = "component", component(name = "max-records"))]
    pub max_records: u64,
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// Put `records` in the place of the oldest `count` (at most 10,000; of all, if there are fewer). They take the
/// positions of the last of those, so there may not be more of them (`invalid`). Answered by `extent`.
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

/// Put other records at existing positions, each once; an unknown position fails (`invalid`). A store may refuse many
/// that are far from both ends of a long log (`too-large`). Answered by `extent`. Positions don't show that a record was rewritten: who depends on the texts must also expect
/// an entry that each rewriting transaction changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct RewriteOperation {
    pub log: String,
    pub records: Vec<PositionedRecord>,
}

/// Drop all records, then append these; positions go on. Answered by `extent`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ResetLogOperation {
    pub log: String,
    pub records: Vec<String>,
    pub marks: Vec<PositionMark>,
}

/// Take a lease, or renew one's own, for so many milliseconds from now; 0 gives one's own back. It is
/// taken if it is free, has run out, or is the holder's already; otherwise nothing changes. Answered by
/// `lease`; the rest of the transaction is applied either way. Needs `leases`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct LeaseOperation {
    pub lease: String,
    pub holder: String,
    pub milliseconds: u64,
}

/// A document of an index. One without terms is found by no `match`, but its mark is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Posting {
    /// Below 2^53, and above all positions ever posted to this index (`invalid` otherwise), also those that were
    /// taken out again. Gaps are allowed, and cost little.
    pub position: u64,
    /// For whoever reads it; 0 can't be told from a gap.
    pub mark: u16,
    /// Ascending, each once, below 2^22 (`invalid` otherwise).
    pub terms: Vec<u32>,
}

/// Add documents to an index, in ascending order of position (`invalid` otherwise); the index comes into being with
/// its first document. Answered by `indexed`. Cost: linear in the documents' terms, whatever the index holds, and
/// high for the first of a batch: best in batches of 32 to 128. Needs `indexes`, like the two below.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct PostOperation {
    pub index: String,
    pub documents: Vec<Posting>,
}

/// Take documents out of an index, terms and marks. Positions come in any order; unknown and repeated ones are
/// skipped, and none is free again. Answered by `indexed`. Cost: linear in the number of runs: a run is consecutive
/// positions, and ends before each multiple of 1,024.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct UnpostOperation {
    pub index: String,
    pub positions: Vec<u64>,
}

/// Where terms occur among the index's newest `newest` positions (gaps counted; at most 131,072), for at most
/// `max-bytes` of reply (at most 1 MiB: 2 for a position, 4 for an occurrence): the oldest positions are left out
/// until it fits. Each term once, below 2^22 (`invalid` otherwise). A term that no document has occurs nowhere, and
/// an index that is not there is empty. A store may leave out more where it would have to read many megabytes for
/// it: `first` tells. Answered by `matches`. Cost: for each 1,024 positions linear in the number of terms, and in
/// all in what is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct MatchOperation {
    pub index: String,
    pub terms: Vec<u32>,
    pub newest: u64,
    #[cfg_attr(feature = "component", component(name = "max-bytes"))]
    pub max_bytes: u64,
}

/// Describe the bucket. Answered by `described`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct DescribeOperation {
    /// Whether maps, logs and indexes are listed.
    pub parts: bool,
}

/// One step of a transaction. Steps are applied in order, and each sees the ones before it. A transaction
/// names each key, log, index and lease at most once for writing (`invalid`, with its name as the subject); resetting a
/// map names all its keys. Empty lists are allowed everywhere: such a step writes nothing, creates nothing, and is
/// answered. It names its log or index all the same, so that another step that writes there is `invalid`; without
/// entries or keys, it names no key of its map.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Operation {
    #[cfg_attr(feature = "component", component(name = "get"))]
    Get(GetOperation),
    #[cfg_attr(feature = "component", component(name = "get-all"))]
    GetAll(GetAllOperation),
    #[cfg_attr(feature = "component", component(name = "page"))]
    Page(PageOperation),
    #[cfg_attr(feature = "component", component(name = "put"))]
    Put(PutOperation),
    #[cfg_attr(feature = "component", component(name = "increment"))]
    Increment(IncrementOperation),
    #[cfg_attr(feature = "component", component(name = "remove"))]
    Remove(RemoveOperation),
    #[cfg_attr(feature = "component", component(name = "reset-map"))]
    ResetMap(ResetMapOperation),
    #[cfg_attr(feature = "component", component(name = "append"))]
    Append(AppendOperation),
    #[cfg_attr(feature = "component", component(name = "read"))]
    Read(ReadOperation),
    #[cfg_attr(feature = "component", component(name = "read-at"))]
    ReadAt(ReadAtOperation),
    #[cfg_attr(feature = "component", component(name = "overflow"))]
    Overflow(OverflowOperation),
    #[cfg_attr(feature = "component", component(name = "replace-oldest"))]
    ReplaceOldest(ReplaceOldestOperation),
    #[cfg_attr(feature = "component", component(name = "rewrite"))]
    Rewrite(RewriteOperation),
    #[cfg_attr(feature = "component", component(name = "reset-log"))]
    ResetLog(ResetLogOperation),
    #[cfg_attr(feature = "component", component(name = "lease"))]
    Lease(LeaseOperation),
    #[cfg_attr(feature = "component", component(name = "post"))]
    Post(PostOperation),
    #[cfg_attr(feature = "component", component(name = "unpost"))]
    Unpost(UnpostOperation),
    #[cfg_attr(feature = "component", component(name = "match"))]
    Match(MatchOperation),
    #[cfg_attr(feature = "component", component(name = "describe"))]
    Describe(DescribeOperation),
}
