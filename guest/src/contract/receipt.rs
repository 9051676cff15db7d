//! Reads receipts and failures.

use super::bindings::keepline::memory::key_value::*;

impl LogExtent {
    /// The position that the next record gets.
    pub fn next(self) -> u64 {
        self.first.saturating_add(self.length)
    }
}

impl Receipt {
    /// Whether the outcomes are there to be read.
    pub fn is_applied(&self) -> bool {
        matches!(self.status, Status::Applied | Status::Repeated)
    }
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

#[allow(clippy::derivable_impls, reason = "the type is generated")]
impl Default for FoundEntries {
    fn default() -> Self {
        Self { entries: Vec::new(), unreadable: Vec::new() }
    }
}

impl Default for LogRecords {
    fn default() -> Self {
        Self { extent: LogExtent { first: 0, length: 0 }, first: 0, records: Vec::new() }
    }
}
