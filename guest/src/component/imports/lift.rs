//! What comes up, out of the contract's terms.

use super::wit;
use crate::contract::{
    Description, Entry, Failure, FailureCode, FoundEntries, FoundMatches, IndexExtent, KeyPage, LogExtent, LogRecords,
    Outcome, Receipt, Status,
};

impl From<wit::Outcome> for Outcome {
    fn from(outcome: wit::Outcome) -> Self {
        match outcome {
            wit::Outcome::Entries(found) => {
                let entries = found.entries.into_iter().map(|entry| Entry { key: entry.key, text: entry.text });
                Self::Entries(FoundEntries { entries: entries.collect(), unreadable: found.unreadable })
            }
            wit::Outcome::Oversize(size) => Self::Oversize { bytes: size.bytes, entries: size.entries },
            wit::Outcome::Page(page) => {
                let mut keys: Vec<_> = page.entries.into_iter().map(|entry| entry.key).collect();
                keys.extend(page.unreadable);
                Self::Page(KeyPage { keys, cursor: page.cursor })
            }
            wit::Outcome::Changed(changed) => Self::Changed(changed.count),
            wit::Outcome::Counter(counter) => Self::Counter(counter.value),
            wit::Outcome::Extent(extent) => Self::Extent(extent.into()),
            wit::Outcome::Records(found) => {
                Self::Records(LogRecords { extent: found.extent.into(), first: found.first, records: found.records })
            }
            wit::Outcome::Spans(found) => {
                let extent = LogExtent::from(found.extent);
                let run = |run: wit::SpanRecords| LogRecords { extent, first: run.first, records: run.records };
                Self::Spans(extent, found.spans.into_iter().map(run).collect())
            }
            wit::Outcome::Described(found) => Self::Described(Description {
                expires_in: found.expires_in,
                values: found.values,
                logs: found.logs.into_iter().map(|log| (log.log, log.extent.into())).collect(),
            }),
            wit::Outcome::Lease(state) => Self::Lease(state.held),
            wit::Outcome::Indexed(extent) => Self::Indexed(extent.into()),
            wit::Outcome::Matches(found) => Self::Matches(FoundMatches {
                extent: found.extent.into(),
                first: found.first,
                marks: found.marks,
                terms: found.terms.into_iter().map(|term| term.offsets).collect(),
            }),
        }
    }
}

impl From<wit::LogExtent> for LogExtent {
    fn from(extent: wit::LogExtent) -> Self {
        Self { first: extent.first, length: extent.length }
    }
}

impl From<wit::IndexExtent> for IndexExtent {
    fn from(extent: wit::IndexExtent) -> Self {
        Self { next: extent.next, documents: extent.documents }
    }
}

impl From<wit::Receipt> for Receipt {
    fn from(receipt: wit::Receipt) -> Self {
        Self {
            status: receipt.status.into(),
            incarnation: receipt.incarnation,
            unmet: receipt.unmet,
            outcomes: receipt.outcomes.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<wit::Status> for Status {
    fn from(status: wit::Status) -> Self {
        match status {
            wit::Status::Applied => Self::Applied,
            wit::Status::Repeated => Self::Repeated,
            wit::Status::Absent => Self::Absent,
            wit::Status::Expired => Self::Expired,
            wit::Status::Exists => Self::Exists,
            wit::Status::AnotherLife => Self::AnotherLife,
            wit::Status::Unmet => Self::Unmet,
        }
    }
}

impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        Self {
            code: match failure.code {
                wit::FailureCode::Invalid => FailureCode::Invalid,
                wit::FailureCode::TooLarge => FailureCode::TooLarge,
                wit::FailureCode::Unsupported => FailureCode::Unsupported,
                wit::FailureCode::WrongType => FailureCode::WrongType,
                wit::FailureCode::NotACounter => FailureCode::NotACounter,
                wit::FailureCode::CounterOverflow => FailureCode::CounterOverflow,
                wit::FailureCode::TooManyBuckets => FailureCode::TooManyBuckets,
                wit::FailureCode::Full => FailureCode::Full,
                wit::FailureCode::ReadOnly => FailureCode::ReadOnly,
                wit::FailureCode::Denied => FailureCode::Denied,
                wit::FailureCode::Unavailable => FailureCode::Unavailable,
                wit::FailureCode::TimedOut => FailureCode::TimedOut,
                wit::FailureCode::Other => FailureCode::Other,
            },
            subject: failure.subject,
            limit: failure.limit,
            message: failure.message,
        }
    }
}
