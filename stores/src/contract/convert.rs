//! Makes and converts values of the contract: what callers would otherwise spell out.

use crate::{
    Attempt, BucketId, DeleteAttempt, Deletion, Entry, Failure, FoundEntries, IndexedAttempt, IndexedReceipt,
    IndexedTransaction, LeasedAttempt, LeasedReceipt, LeasedTransaction, MissingEntries, Problem, Receipt, Size,
    StoreInfo, StoreLimit, Transaction, kind,
};

impl BucketId {
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into() }
    }

    pub fn session(name: impl Into<String>) -> Self {
        Self::new(kind::SESSION, name)
    }

    pub fn user(name: impl Into<String>) -> Self {
        Self::new(kind::USER, name)
    }

    pub fn node(name: impl Into<String>) -> Self {
        Self::new(kind::NODE, name)
    }
}

impl StoreInfo {
    /// A store with these capabilities and the default limits.
    pub fn new(capabilities: &[&str]) -> Self {
        Self { capabilities: capabilities.iter().map(ToString::to_string).collect(), limits: Vec::new() }
    }

    /// Reports a limit that differs from the default.
    #[must_use]
    pub fn limited(mut self, name: &str, value: u64) -> Self {
        self.limits.push(StoreLimit { name: name.to_owned(), value });
        self
    }

    /// Whether the store has this capability.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|name| name == capability)
    }

    /// The value of a limit, if the store reports it.
    pub fn limit(&self, name: &str) -> Option<u64> {
        self.limits.iter().find(|limit| limit.name == name).map(|limit| limit.value)
    }
}

impl FoundEntries {
    /// What a store found of what was asked for, with the keys of what can't be returned.
    pub fn new(entries: Vec<Entry>, unreadable: Vec<String>) -> Self {
        let missing = MissingEntries { unreadable, cursor: String::new(), oversize: None };
        Self { entries, missing: (!missing.unreadable.is_empty()).then_some(missing) }
    }

    /// A page, and where the next one begins (empty: there is none).
    pub fn page(entries: Vec<Entry>, unreadable: Vec<String>, cursor: String) -> Self {
        let is_all = unreadable.is_empty() && cursor.is_empty();
        let missing = MissingEntries { unreadable, cursor, oversize: None };
        Self { entries, missing: (!is_all).then_some(missing) }
    }

    /// Nothing, because it exceeds a limit.
    pub fn oversize(size: Size) -> Self {
        let missing = MissingEntries { unreadable: Vec::new(), cursor: String::new(), oversize: Some(size) };
        Self { entries: Vec::new(), missing: Some(missing) }
    }

    /// Keys of what is there but can't be returned.
    pub fn unreadable(&self) -> &[String] {
        self.missing.as_ref().map_or(&[], |missing| &missing.unreadable)
    }

    /// Where the next page begins; empty after the last.
    pub fn cursor(&self) -> &str {
        self.missing.as_ref().map_or("", |missing| &missing.cursor)
    }

    /// If some, nothing was returned: what was asked for exceeds a limit.
    pub fn size_over_limit(&self) -> Option<Size> {
        self.missing.as_ref().and_then(|missing| missing.oversize)
    }
}

impl From<Transaction> for IndexedTransaction {
    fn from(transaction: Transaction) -> Self {
        Self { lease: None, transaction, steps: Vec::new() }
    }
}

impl From<LeasedTransaction> for IndexedTransaction {
    fn from(LeasedTransaction { lease, transaction }: LeasedTransaction) -> Self {
        Self { lease, transaction, steps: Vec::new() }
    }
}

impl From<Receipt> for IndexedReceipt {
    fn from(receipt: Receipt) -> Self {
        Self { lease: None, receipt, found: Vec::new() }
    }
}

impl From<Failure> for Problem {
    fn from(Failure { code, subject, limit, message }: Failure) -> Self {
        Self { code: code.name().to_owned(), subject, limit, message }
    }
}

impl From<Result<IndexedReceipt, Failure>> for Attempt {
    fn from(result: Result<IndexedReceipt, Failure>) -> Self {
        result.map_or_else(|failure| Self::Problem(failure.into()), |indexed| Self::Receipt(indexed.receipt))
    }
}

impl From<Result<IndexedReceipt, Failure>> for LeasedAttempt {
    fn from(result: Result<IndexedReceipt, Failure>) -> Self {
        match result {
            Ok(IndexedReceipt { lease, receipt, found: _ }) => Self::Receipt(LeasedReceipt { lease, receipt }),
            Err(failure) => Self::Problem(failure.into()),
        }
    }
}

impl From<Result<IndexedReceipt, Failure>> for IndexedAttempt {
    fn from(result: Result<IndexedReceipt, Failure>) -> Self {
        result.map_or_else(|failure| Self::Problem(failure.into()), Self::Receipt)
    }
}

impl From<Result<Deletion, Failure>> for DeleteAttempt {
    fn from(result: Result<Deletion, Failure>) -> Self {
        result.map_or_else(|failure| Self::Problem(failure.into()), Self::Deletion)
    }
}
