//! Builds problems: a code, what it is about, and a sentence for people.

use super::bindings::keepline::common::shared::Problem;

/// Codes of problems that the filter reports or tells apart.
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
    /// A call is over a limit of the store, the subject.
    pub const TOO_LARGE: &str = "too-large";
    /// Others kept writing in between, or it isn't as expected.
    pub const CONFLICT: &str = "conflict";
    /// The store, or the component, lacks it.
    pub const UNSUPPORTED: &str = "unsupported";
    /// Anything else.
    pub const OTHER: &str = "other";
    /// A counter would leave its range.
    pub const COUNTER_OVERFLOW: &str = "counter-overflow";
    /// A value is no counter.
    pub const NOT_A_COUNTER: &str = "not-a-counter";
    /// The store takes no more buckets.
    pub const TOO_MANY_BUCKETS: &str = "too-many-buckets";
    /// What is stored there has another type.
    pub const WRONG_TYPE: &str = "wrong-type";
}

/// Boxed on its way to the caller: it is as long as six numbers, and each function on the way would copy it.
impl Problem {
    /// A problem of this code, about this subject.
    pub fn new(code: &str, subject: &str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { code: code.to_owned(), subject: subject.to_owned(), limit: 0, message: message.into() })
    }

    /// Over a limit of the configuration: the option and its value.
    pub fn limit(option: &str, limit: u64, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { limit, ..*Self::new(codes::LIMIT, option, message) })
    }

    /// A malformed argument.
    pub fn invalid(subject: &str, message: impl Into<String>) -> Box<Self> {
        Self::new(codes::INVALID, subject, message)
    }

    /// What a store's reply that breaks the contract counts as.
    pub fn out_of_turn() -> Box<Self> {
        Self::new(codes::OTHER, "", "The store's reply does not fit the request")
    }

    /// A store's problem with a sentence for people, also if the store gave none. The words about full stores are the
    /// original node's.
    pub fn of_store(mut self) -> Box<Self> {
        if self.code == codes::TOO_MANY_BUCKETS {
            self.message = format!("Maximum sessions ({}) reached", self.limit);
        } else if self.message.is_empty() {
            self.message = ["The store failed: ", &self.code].concat();
        }
        Box::new(self)
    }
}

/// For callers outside, who get it as the contract has it.
impl From<Box<Problem>> for Problem {
    fn from(problem: Box<Self>) -> Self {
        *problem
    }
}
