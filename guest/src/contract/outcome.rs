//! What comes up from the store: outcomes, receipts, failures. All of it is owned.

/// An entry of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// In `values`: JSON, if whoever wrote it kept to the rules.
    pub text: String,
}

/// Entries of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundEntries {
    /// Sorted by key, if all were asked for.
    pub entries: Vec<Entry>,
    /// Keys of what is not UTF-8, or of another type.
    pub unreadable: Vec<String>,
}

/// Some keys of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// In no particular order.
    pub keys: Vec<String>,
    /// Empty after the last page.
    pub cursor: String,
}

/// Where a log stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogExtent {
    /// The position of its oldest record.
    pub first: u64,
    /// How many records it holds.
    pub length: u64,
}

impl LogExtent {
    /// The position that the next record gets.
    pub fn next(self) -> u64 {
        self.first.saturating_add(self.length)
    }
}

/// Records of a log, next to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRecords {
    /// Where the log stands.
    pub extent: LogExtent,
    /// The position of the first record here.
    pub first: u64,
    /// Oldest first.
    pub records: Vec<String>,
}

/// Where an index stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexExtent {
    /// One more than the highest position ever posted; 0: none.
    pub next: u64,
    /// How many documents it holds.
    pub documents: u64,
}

/// Where terms occur in an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundMatches {
    /// Where the index stands.
    pub extent: IndexExtent,
    /// The oldest position that was looked at; `extent.next`: none was.
    pub first: u64,
    /// One for each position from `first` on; 0 where there is no document.
    pub marks: Vec<u16>,
    /// For each term asked for, where it occurs: offsets from `first`, ascending.
    pub terms: Vec<Vec<u32>>,
}

/// What there is to tell about a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Milliseconds of life left. None: it never expires.
    pub expires_in: Option<u64>,
    /// How many entries the map `values` has.
    pub values: u64,
    /// The logs and where they stand.
    pub logs: Vec<(String, LogExtent)>,
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub enum Outcome {
    /// Entries that were asked for.
    Entries(FoundEntries),
    /// Over the limits that came with the question.
    Oversize { bytes: u64, entries: u64 },
    /// A page of keys.
    Page(KeyPage),
    /// How many entries are new, or were removed.
    Changed(u64),
    /// A counter's new value.
    Counter(i64),
    /// Where a log stands.
    Extent(LogExtent),
    /// Records of a log.
    Records(LogRecords),
    /// Where a log stands, and the records of each span of which it holds any.
    Spans(LogExtent, Vec<LogRecords>),
    /// Whether the caller's holder has the lease.
    Lease(bool),
    /// Where an index stands.
    Indexed(IndexExtent),
    /// Where terms occur.
    Matches(FoundMatches),
    /// What there is to tell about the bucket.
    Described(Description),
    /// Nothing that the filter asks for.
    Other,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Applied in full.
    Applied,
    /// Applied before, by an earlier try of the same call.
    Repeated,
    /// The bucket is not there.
    Absent,
    /// The bucket's time has run out.
    Expired,
    /// The bucket is there, and was not to be.
    Exists,
    /// The bucket is another incarnation.
    AnotherLife,
    /// An expectation did not hold.
    Unmet,
}

/// What a transaction came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// What became of it.
    pub status: Status,
    /// The bucket's creation stamp; empty when absent, and when it is the one that the opening named.
    pub incarnation: String,
    /// The first expectation that did not hold.
    pub unmet: Option<u32>,
    /// One for each operation, in order.
    pub outcomes: Vec<Outcome>,
}

impl Receipt {
    /// Whether the outcomes are there to be read.
    pub fn is_applied(&self) -> bool {
        matches!(self.status, Status::Applied | Status::Repeated)
    }
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the codes are those of the contract")]
pub enum FailureCode {
    Invalid,
    TooLarge,
    Unsupported,
    WrongType,
    NotACounter,
    CounterOverflow,
    TooManyBuckets,
    Full,
    ReadOnly,
    Denied,
    Unavailable,
    TimedOut,
    Other,
}

impl FailureCode {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::TooLarge => "too-large",
            Self::Unsupported => "unsupported",
            Self::WrongType => "wrong-type",
            Self::NotACounter => "not-a-counter",
            Self::CounterOverflow => "counter-overflow",
            Self::TooManyBuckets => "too-many-buckets",
            Self::Full => "full",
            Self::ReadOnly => "read-only",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed-out",
            Self::Other => "other",
        }
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub code: FailureCode,
    /// The key, map, log or part of the request that the code is about, or empty.
    pub subject: String,
    /// The limit that the code is about, or 0.
    pub limit: u64,
    /// For people.
    pub message: String,
}

impl Failure {
    pub(crate) fn new(code: FailureCode, message: &str) -> Self {
        Self { code, subject: String::new(), limit: 0, message: message.to_owned() }
    }

    /// What a store's reply that breaks the contract counts as.
    pub(crate) fn out_of_turn() -> Self {
        Self::new(FailureCode::Other, "The store's reply does not fit the request")
    }

    /// The failure in one sentence for people. The words about full stores are the original node's.
    pub(crate) fn sentence(&self) -> String {
        match self.code {
            FailureCode::TooManyBuckets => format!("Maximum sessions ({}) reached", self.limit),
            code if self.message.is_empty() => format!("The store failed: {}", code.as_str()),
            _ => self.message.clone(),
        }
    }
}

/// A page of the names of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketPage {
    /// Sorted.
    pub names: Vec<String>,
    /// Empty after the last page.
    pub cursor: String,
}

/// A deleted bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `Applied`, `Repeated`, `Absent`, `Expired` or, if one was named, `AnotherLife`.
    pub status: Status,
    /// How many entries its map `values` had.
    pub values: u64,
    /// The first of their keys, sorted.
    pub keys: Vec<String>,
}
