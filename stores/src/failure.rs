//! Failures: why a store could not do what it was asked for.

use std::fmt;

/// Why a call failed: the codes of `wit/deps/store/core.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FailureCode {
    /// The request breaks a rule of the contract. `subject` is the name of the log, map, index or key that would be
    /// written or asked for twice, or that lacks the position; otherwise the member that breaks its rule (`bucket`,
    /// `map`, `log`, `key`, `position`, `terms`, …).
    Invalid,
    /// Over a limit: `subject` is its name, `limit` its value.
    TooLarge,
    /// The store lacks the capability `subject`.
    Unsupported,
    /// What is stored under `subject`, which would be written or is a log, has another type. It is left as it is.
    /// (Reads of maps name it in `unreadable`; `set` removes it.)
    WrongType,
    /// Entry `subject` is no counter.
    NotACounter,
    /// Counter `subject` would leave its range.
    CounterOverflow,
    /// The store takes no more than `limit` buckets.
    TooManyBuckets,
    /// The store is out of memory or disk (`limit` bytes; 0: unknown). With the subject `writers`: so many others
    /// have just written to this bucket and may still repeat a call, and it can't remember another one; this
    /// passes within their time-outs.
    Full,
    /// The store takes no writes at present.
    ReadOnly,
    /// The store refused the host, or the host refused the bucket.
    Denied,
    /// The store can't be used. With the subject `expiry`: this bucket can't, because only a clock that was set ahead
    /// just now says that it has expired.
    Unavailable,
    /// No answer within `limit` milliseconds. The call may or may not have been applied by then; it will
    /// not be applied later.
    TimedOut,
    /// Anything else.
    Other,
}

/// A failed call. It never contains a host name, an address, a password or a stored text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Why, as one of the contract's codes.
    pub code: FailureCode,
    /// The name or part that the code is about, or empty.
    pub subject: String,
    /// The limit that the code is about, or 0.
    pub limit: u64,
    /// For people: one sentence without a full stop.
    pub message: String,
}

impl Failure {
    /// A failure. The message is for people, one sentence without a full stop, and never names a host, an address or
    /// a password. `subject` is the name or part that the code is about, or empty.
    pub fn new(code: FailureCode, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, subject: subject.into(), limit: 0, message: message.into() }
    }

    /// Whether it tells of the store's state, and not of what it was asked for, nor of one bucket.
    pub fn is_store_failure(&self) -> bool {
        self.code.is_store_failure() && !(self.code == FailureCode::Unavailable && self.subject == EXPIRY)
    }
}

impl FailureCode {
    /// All that there are, in the order of the contract.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::TooLarge,
        Self::Unsupported,
        Self::WrongType,
        Self::NotACounter,
        Self::CounterOverflow,
        Self::TooManyBuckets,
        Self::Full,
        Self::ReadOnly,
        Self::Denied,
        Self::Unavailable,
        Self::TimedOut,
        Self::Other,
    ];

    /// As the contract spells it.
    pub fn name(self) -> &'static str {
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

    /// Whether it tells of the store's state, and not of what it was asked for.
    pub fn is_store_failure(self) -> bool {
        match self {
            Self::TooManyBuckets
            | Self::Full
            | Self::ReadOnly
            | Self::Denied
            | Self::Unavailable
            | Self::TimedOut
            | Self::Other => true,
            Self::Invalid
            | Self::TooLarge
            | Self::Unsupported
            | Self::WrongType
            | Self::NotACounter
            | Self::CounterOverflow => false,
        }
    }

    /// The code that the contract spells like this.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The subject of an [`Unavailable`](FailureCode::Unavailable) bucket that may or may not have expired: it is not known yet.
pub(crate) const EXPIRY: &str = "expiry";

/// The failure of a call on a bucket that has expired only if a clock is right that was set ahead just now.
pub(crate) fn expiry_in_doubt() -> Failure {
    let message = "the machine's clock was set ahead less than a minute ago, and only by that this has expired; try \
                   again in a minute, or set the clock right";
    failure(FailureCode::Unavailable, EXPIRY, message)
}

pub(crate) fn failure(code: FailureCode, subject: impl Into<String>, message: impl Into<String>) -> Failure {
    Failure::new(code, subject, message)
}
