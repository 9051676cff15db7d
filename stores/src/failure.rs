//! Failures: why a store could not do what it was asked for.

use std::fmt;

use crate::contract::{Failure, FailureCode};

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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

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
