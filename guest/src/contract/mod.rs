//! The store, the clock and the log that a host lends, as plain Rust.
//!
//! Mirrors `wit/key-value.wit`, whose comments hold here too, without what the filter has no use for. Requests are borrowed, so a
//! transaction copies nothing; outcomes are owned.

mod outcome;

pub use outcome::*;

/// The map of the values that people see.
pub const VALUES: &str = "values";

/// How long a new bucket lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// At least 1.
    pub milliseconds: u64,
    /// Whether each use of the bucket starts the time anew.
    pub sliding: bool,
}

/// What a transaction asks of its bucket before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening<'a> {
    /// It must exist, and be that incarnation if one is named.
    Existing {
        /// As an earlier receipt named it.
        incarnation: Option<&'a str>,
        /// Whether this is a use of the bucket, which renews a sliding life.
        renew: bool,
    },
    /// Create it when it is absent.
    Create {
        /// For a bucket that gets created. None: it never expires.
        time_to_live: Option<TimeToLive>,
    },
    /// It must not exist.
    CreateNew {
        /// None: it never expires.
        time_to_live: Option<TimeToLive>,
    },
    /// Create it, to stay for ever, and delete what was there. Expectations are about that.
    Replace,
}

impl<'a> Opening<'a> {
    /// Use of a bucket that must be there, whatever its life.
    pub(crate) const ANY: Opening<'static> = Opening::Existing { incarnation: None, renew: true };

    /// A look at a bucket that must be there, whatever its life, which is no use of it.
    pub(crate) const LOOK: Opening<'static> = Opening::Existing { incarnation: None, renew: false };

    /// Another look at the life that a receipt named: part of a use that has been counted. A store that names none
    /// can't be asked for one.
    pub(crate) fn life(incarnation: &'a str) -> Self {
        Self::Existing { incarnation: Some(incarnation).filter(|stamp| !stamp.is_empty()), renew: false }
    }

    /// The life that a transaction with this opening met: its receipt names what the opening did not.
    pub(crate) fn again(self, receipt: &'a Receipt) -> Self {
        match self {
            Self::Existing { incarnation: Some(life), .. } => Self::life(life),
            _ => Self::life(&receipt.incarnation),
        }
    }
}

/// What a bucket is about. The filter opens no other kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the kinds are those of the contract, documented there")]
pub enum BucketKind {
    Session,
    User,
    Node,
}

/// The address of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket<'a> {
    /// A name space.
    pub kind: BucketKind,
    /// `[A-Za-z0-9_-]{1,128}`.
    pub name: &'a str,
}

impl<'a> Bucket<'a> {
    /// The bucket of a session.
    pub fn session(name: &'a str) -> Self {
        Self { kind: BucketKind::Session, name }
    }
}

/// What must hold, before it, for a transaction to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub enum Expectation<'a> {
    /// An entry is absent.
    Absent { map: &'a str, key: &'a str },
    /// An entry is there.
    Present { map: &'a str, key: &'a str },
    /// An entry has this text, byte by byte.
    Equal { map: &'a str, key: &'a str, text: &'a str },
    /// An entry is absent, or has this text.
    AbsentOrEqual { map: &'a str, key: &'a str, text: &'a str },
    /// A log stands here.
    Log { log: &'a str, first: Option<u64>, next: Option<u64> },
    /// The entries that the transaction creates leave the map with no more than the limit.
    Room { map: &'a str, limit: u64 },
}

/// One end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// Where records are summarised.
    Oldest,
    /// Where records are appended.
    Newest,
}

/// Puts the position of an appended record under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub struct PositionMark<'a> {
    pub map: &'a str,
    pub key: &'a str,
    pub record_index: u32,
}

/// A run of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub struct Span {
    pub position: u64,
    pub count: u32,
}

/// A document of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting<'a> {
    /// Below 2^53, and above all positions ever posted to the index.
    pub position: u64,
    /// For whoever reads it; 0 can't be told from a gap.
    pub mark: u16,
    /// Ascending, each once, below 2^22.
    pub terms: &'a [u32],
}

/// One step of a transaction: those that the filter uses, with one key or span where it never needs more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub enum Operation<'a> {
    /// Answered by `Entries` or `Oversize`.
    Get { map: &'a str, key: &'a str, max_bytes: u64 },
    /// Some entries, each key once. Answered by `Entries` or `Oversize`.
    GetSome { map: &'a str, keys: &'a [&'a str], max_bytes: u64 },
    /// Answered by `Entries` or `Oversize`.
    GetAll { map: &'a str, max_entries: u64, max_bytes: u64 },
    /// A page of keys, without their texts. Answered by `Page`.
    PageKeys { map: &'a str, cursor: &'a str, max_entries: u64, max_bytes: u64 },
    /// Answered by `Changed`.
    Put { map: &'a str, key: &'a str, text: &'a str },
    /// Several entries, each key once. Answered by `Changed`.
    PutSome { map: &'a str, entries: &'a [(&'a str, &'a str)] },
    /// Answered by `Counter`.
    Increment { map: &'a str, key: &'a str, amount: i64 },
    /// Answered by `Changed`.
    Remove { map: &'a str, keys: &'a [&'a str] },
    /// Remove all entries, then put these. Answered by `Changed`.
    ResetMap { map: &'a str, entries: &'a [(&'a str, &'a str)] },
    /// Answered by `Extent`.
    Append { log: &'a str, records: &'a [&'a str], marks: &'a [PositionMark<'a>] },
    /// Answered by `Records`.
    Read { log: &'a str, end: LogEnd, max_records: u64, max_bytes: u64 },
    /// Answered by `Spans`.
    ReadAt { log: &'a str, position: u64, count: u32, max_bytes: u64 },
    /// Answered by `Spans`.
    ReadSpans { log: &'a str, spans: &'a [Span], max_bytes: u64 },
    /// Answered by `Records`, or by `Extent` if there are none.
    Overflow { log: &'a str, limit: u64, keep: u64, max_records: u64, max_bytes: u64 },
    /// Answered by `Extent`.
    ReplaceOldest { log: &'a str, count: u64, records: &'a [&'a str] },
    /// Put other records at positions that exist, each once. Answered by `Extent`.
    Rewrite { log: &'a str, records: &'a [(u64, &'a str)] },
    /// Drop all records, then append these; positions go on. Answered by `Extent`.
    ResetLog { log: &'a str, records: &'a [&'a str] },
    /// Take a lease for so long, renew or (0) release it. Answered by `Lease`.
    Lease { lease: &'a str, holder: &'a str, milliseconds: u64 },
    /// Add documents to an index, ascending by position. Answered by `Indexed`.
    Post { index: &'a str, documents: &'a [Posting<'a>] },
    /// Take documents out of an index. Answered by `Indexed`.
    Unpost { index: &'a str, positions: &'a [u64] },
    /// Where terms, each once, occur among the newest positions. Answered by `Matches`.
    Match { index: &'a str, terms: &'a [u32], newest: u64, max_bytes: u64 },
    /// Answered by `Described`.
    Describe { parts: bool },
}

/// Operations on one bucket, all of them or none.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// The bucket.
    pub bucket: Bucket<'a>,
    /// What is asked of the bucket.
    pub opening: Opening<'a>,
    /// What must hold.
    pub expectations: &'a [Expectation<'a>],
    /// What is done.
    pub operations: &'a [Operation<'a>],
}

/// What a store can promise, as far as the filter relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Transactions are all or none among concurrent writers.
    pub atomic: bool,
    /// Buckets expire.
    pub expiring: bool,
    /// A repetition counts once.
    pub exactly_once: bool,
    /// Buckets can be listed.
    pub listing: bool,
    /// Leases work.
    pub leases: bool,
    /// Indexes work.
    pub indexes: bool,
}

/// How urgent a log line is. The filter has no use for the other levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What was done.
    Debug,
    /// What went wrong.
    Warn,
}

/// All that the filter can reach.
pub trait Host {
    /// Apply operations to one bucket, all or none.
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure>;

    /// Apply transactions, each on a bucket of its own, and wait once; one reply for each, in order.
    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>>;

    /// Names of the sessions, page by page.
    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure>;

    /// Delete a bucket (that incarnation, if one is named) and all that is in it, and name up to `max_keys` of its
    /// values.
    fn delete(&self, bucket: Bucket<'_>, incarnation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure>;

    /// What the store can promise.
    fn capabilities(&self) -> Capabilities;

    /// Microseconds since 1970.
    fn now_micros(&self) -> u64;

    /// Emit one line.
    fn log(&self, level: Level, context: &str, message: &str);

    /// Whether a line of that level is worth being written. A host that knows its level saves the
    /// making of lines that nobody reads.
    fn logs(&self, level: Level) -> bool {
        let _ = level;
        true
    }
}

impl<H: Host + ?Sized> Host for &H {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        (**self).transact(transaction)
    }

    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
        (**self).transact_each(transactions)
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        (**self).list_sessions(cursor, limit)
    }

    fn delete(&self, bucket: Bucket<'_>, incarnation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure> {
        (**self).delete(bucket, incarnation, max_keys)
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn now_micros(&self) -> u64 {
        (**self).now_micros()
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        (**self).log(level, context, message);
    }

    fn logs(&self, level: Level) -> bool {
        (**self).logs(level)
    }
}
