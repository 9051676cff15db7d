//! The layer below: a store of buckets, a clock and a log, as plain Rust.
//!
//! Promises to mirror `wit/key-value.wit` name for name, so that the comments there hold here too. What
//! goes down is borrowed (a transaction costs no copies), what comes up is owned. Refuses to know how a
//! host keeps its side: the filter is written against [`Host`] and nothing else.

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
}

impl<'a> Opening<'a> {
    /// The life that a receipt named. A store that names none can't be asked for one.
    pub(crate) fn life(incarnation: &'a str) -> Self {
        Self::Existing { incarnation: Some(incarnation).filter(|stamp| !stamp.is_empty()) }
    }

    /// The life that a transaction with this opening met: its receipt names what the opening did not.
    pub(crate) fn again(self, receipt: &'a Receipt) -> Self {
        match self {
            Self::Existing { incarnation: Some(_) } => self,
            _ => Self::life(&receipt.incarnation),
        }
    }
}

/// What must hold, before it, for a transaction to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation<'a> {
    /// The oldest records of a log are exactly these.
    Oldest {
        /// The log's name.
        log: &'a str,
        /// In order.
        records: &'a [&'a str],
    },
    /// The bucket holds exactly these keys.
    Keys {
        /// In any order.
        keys: &'a [&'a str],
    },
    /// The keys that the transaction creates leave the bucket with no more than the limit.
    Room {
        /// How many keys are allowed.
        limit: u64,
    },
}

/// One end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// Where records are summarised.
    Oldest,
    /// Where records are appended.
    Newest,
}

/// One step of a transaction. `rewrite` and `count` of the contract are left out: the filter needs
/// neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub enum Operation<'a> {
    /// Answered by `Value` or `Oversize`.
    Get { key: &'a str, max_bytes: u64 },
    /// Answered by `Values` or `Oversize`.
    GetAll { max_bytes: u64, max_keys: u64 },
    /// Answered by `Names`.
    ListKeys { max_keys: u64 },
    /// Answered by `Done`.
    Put { key: &'a str, value: &'a str },
    /// Answered by `Counter`.
    Increment { key: &'a str, amount: i64 },
    /// Answered by `Names`.
    Remove { key: &'a str },
    /// Answered by `Names`.
    RemoveAll { max_names: u64 },
    /// Answered by `Extent`.
    Append { log: &'a str, records: &'a [&'a str] },
    /// Answered by `Records`.
    Read { log: &'a str, end: LogEnd, skip: u64, max_records: u64, max_bytes: u64 },
    /// Answered by `Records`.
    Overflow { log: &'a str, limit: u64, keep: u64, max_records: u64, max_bytes: u64 },
    /// Answered by `Extent`.
    ReplaceOldest { log: &'a str, count: u64, records: &'a [&'a str] },
}

/// A value with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value: JSON, if whoever wrote it kept to the rules.
    pub json: String,
}

/// All values of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllValues {
    /// Sorted by key.
    pub entries: Vec<Entry>,
    /// Keys whose values are not UTF-8, sorted.
    pub unreadable: Vec<String>,
}

/// A range of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The position of the first record here.
    pub first: u64,
    /// How many records the log holds in all.
    pub length: u64,
    /// Oldest first.
    pub records: Vec<String>,
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub enum Outcome {
    /// One value.
    Value { json: Option<String>, unreadable: bool },
    /// All values.
    Values(AllValues),
    /// Over the limits that came with the question.
    Oversize { bytes: u64, keys: u64 },
    /// Names of keys, and how many there are in all.
    Names { names: Vec<String>, total: u64 },
    /// A value was set.
    Done { created: bool },
    /// A counter's new value.
    Counter(i64),
    /// Where a log stands.
    Extent { first: u64, length: u64 },
    /// A range of a log.
    Records(Records),
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
    /// Whether it created the bucket.
    pub created: bool,
    /// The bucket's creation stamp; empty when absent, and when it is the one that the opening named.
    pub incarnation: String,
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
    /// The key, log or part of the request that the code speaks of, or empty.
    pub subject: String,
    /// The limit that the code speaks of, or 0.
    pub limit: u64,
    /// For people.
    pub message: String,
}

impl Failure {
    /// What a store's reply that breaks the contract counts as.
    pub(crate) fn out_of_turn() -> Self {
        Self {
            code: FailureCode::Other,
            subject: String::new(),
            limit: 0,
            message: "The store's reply does not fit the request".to_owned(),
        }
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

/// A page of bucket names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketPage {
    /// Sorted.
    pub buckets: Vec<String>,
    /// Empty after the last page.
    pub cursor: String,
}

/// A deleted bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `Applied`, `Repeated`, `Absent` or `Expired`.
    pub status: Status,
    /// The keys that it held, sorted.
    pub keys: Vec<String>,
}

/// How long a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDescription {
    /// The log's name.
    pub log: String,
    /// Its number of records.
    pub length: u64,
}

/// What there is to tell about a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// `Applied` (it is there), `Absent` or `Expired`.
    pub status: Status,
    /// The bucket's creation stamp.
    pub incarnation: String,
    /// None: it never expires.
    pub time_to_live: Option<TimeToLive>,
    /// Milliseconds of life left.
    pub expires_in: Option<u64>,
    /// How many keys it holds.
    pub keys: u64,
    /// Its logs.
    pub logs: Vec<LogDescription>,
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
    fn transact(
        &self,
        bucket: &str,
        opening: Opening<'_>,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Result<Receipt, Failure>;

    /// Names of the buckets, page by page.
    fn list_buckets(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure>;

    /// Delete a bucket and all that is in it.
    fn delete_bucket(&self, bucket: &str) -> Result<Deletion, Failure>;

    /// Tell about a bucket without using it.
    fn describe_bucket(&self, bucket: &str) -> Result<Description, Failure>;

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
    fn transact(
        &self,
        bucket: &str,
        opening: Opening<'_>,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Result<Receipt, Failure> {
        (**self).transact(bucket, opening, expectations, operations)
    }

    fn list_buckets(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        (**self).list_buckets(cursor, limit)
    }

    fn delete_bucket(&self, bucket: &str) -> Result<Deletion, Failure> {
        (**self).delete_bucket(bucket)
    }

    fn describe_bucket(&self, bucket: &str) -> Result<Description, Failure> {
        (**self).describe_bucket(bucket)
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
