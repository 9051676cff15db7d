//! Builds problems: a code, what it is about, and a sentence for people.

use super::bindings::keepline::common::shared::Problem;
use super::{Failure, FailureCode};

/// Codes of problems, beside those of the store.
pub mod codes {
    /// A malformed argument.
    pub const INVALID: &str = "invalid";
    /// What is missing.
    pub const NOT_FOUND: &str = "not-found";
    /// What has expired.
    pub const EXPIRED: &str = "expired";
    /// What is there already.
    pub const ALREADY_EXISTS: &str = "already-exists";
    /// A limit of the configuration.
    pub const LIMIT: &str = "limit";
    /// Others kept writing in between, or it isn't as expected.
    pub const CONFLICT: &str = "conflict";
    /// The store, or the component, lacks it.
    pub const UNSUPPORTED: &str = "unsupported";
    /// Anything else.
    pub const OTHER: &str = "other";
}

impl Problem {
    pub(crate) fn new(code: &str, subject: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), subject: subject.to_owned(), limit: 0, message: message.into() }
    }

    /// Over a limit of the configuration: the option and its value.
    pub(crate) fn limit(option: &str, limit: u64, message: impl Into<String>) -> Self {
        Self { limit, ..Self::new(codes::LIMIT, option, message) }
    }

    pub(crate) fn invalid(subject: &str, message: impl Into<String>) -> Self {
        Self::new(codes::INVALID, subject, message)
    }

    /// A failure of the store.
    pub(crate) fn store(failure: &Failure) -> Self {
        let Failure { code, subject, limit, .. } = failure;
        Self { limit: *limit, ..Self::new(code.as_str(), subject, failure.sentence()) }
    }

    /// Whether the store failed for a part that has another type.
    pub(crate) fn is_wrong_type(&self) -> bool {
        self.code == FailureCode::WrongType.as_str()
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::store(&failure)
    }
}
