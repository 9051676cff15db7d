//! A store over any key-value store: for hosts that lend one, such as `wasi:keyvalue`, and nothing that compares and writes.
//!
//! A bucket is a small head and parts, each a key of the key-value store. A part is written once, under a name that no other part
//! has, and never changed. A transaction writes the parts that it changes, then the head that lists them: that one write is what
//! makes it happen, so readers see all of it or nothing, and a crash leaves the bucket as it was. What it replaced is deleted
//! later. Cost grows with what a transaction touches and with the logarithm of what the bucket holds.
//!
//! Of two transactions on one bucket at the same time the one that writes its head last wins, and the other is lost: a bucket
//! must have one writer at a time. So the store says that it lacks `compare`, and filters warn. It breaks no bucket even then: what
//! is dropped is kept for longer than a call may take.

mod bytes;
mod contents;
mod head;
mod listing;
mod logs;
mod maps;
mod node;
mod operations;
mod parts;
mod sweep;
mod transact;
mod trash;
mod tree;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use parking_lot::Mutex;

use self::parts::{PartIds, head_key};
use crate::{
    BucketPage, Clock, Deadline, DeleteRequest, Deletion, Failure, FailureCode, IndexedReceipt, IndexedTransaction,
    Store, StoreInfo, SystemClock, Writer, capability, check, failure, names::check_kind,
};

/// A key-value store: what it is asked for, a call each. Keys are made of letters, digits, `.`, `_` and `-`.
pub trait KeyValue: Send + fmt::Debug + 'static {
    /// The value of a key.
    ///
    /// # Errors
    /// Why it could not be read; the same for all methods.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError>;

    /// The values of keys, in their order.
    fn get_many(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, KeyValueError>;

    /// Set a value. When this has returned, every reader sees it.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError>;

    /// Set values, in any order.
    fn set_many(&self, values: &[(String, Vec<u8>)]) -> Result<(), KeyValueError>;

    /// Delete values, in any order. Keys that are not there are skipped.
    fn delete_many(&self, keys: &[String]) -> Result<(), KeyValueError>;

    /// Add to a number, atomically, and return the sum. One that is not there is 0.
    fn increment(&self, key: &str, by: u64) -> Result<u64, KeyValueError>;

    /// Some of all keys, in any order, and where to go on; none: that was the last of them.
    fn list_keys(&self, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>), KeyValueError>;
}

/// Why a key-value store did not answer. It says no more than this: messages of others may contain addresses or passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValueError {
    /// The host lends no such store.
    NoSuchStore,
    /// The host refuses access to it.
    AccessDenied,
    /// Anything else.
    Other,
}

impl From<KeyValueError> for Failure {
    fn from(error: KeyValueError) -> Self {
        match error {
            KeyValueError::NoSuchStore => {
                failure(FailureCode::Unavailable, "", "the host lends no key-value store of this name")
            }
            KeyValueError::AccessDenied => {
                failure(FailureCode::Denied, "", "the host refuses access to its key-value store")
            }
            KeyValueError::Other => failure(FailureCode::Unavailable, "", "the host's key-value store failed"),
        }
    }
}

/// Why a call on a bucket did not succeed.
#[derive(Debug)]
enum Fault {
    Failed(Failure),
    /// A part is not there: somebody else has written since the head was read, or it was lost.
    Missing,
    /// A value is not what was written.
    Damaged,
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<KeyValueError> for Fault {
    fn from(error: KeyValueError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let message = match fault {
            Fault::Failed(failure) => return failure,
            Fault::Missing => {
                "a part of this bucket is missing in the key-value store; delete the bucket, or restore it"
            }
            Fault::Damaged => {
                "a part of this bucket is damaged in the key-value store; delete the bucket, or restore it"
            }
        };
        failure(FailureCode::Other, "", message)
    }
}

/// Without `compare`, and so without leases, which mean nothing then; without indexes.
const CAPABILITIES: [&str; 4] = [capability::ATOMIC, capability::EXPIRING, capability::POSITIONS, capability::LISTING];
/// How often a call starts over that another one has overtaken.
const TRIES: usize = 8;

/// A store in a key-value store. See [`Store`].
#[derive(Debug)]
pub struct KeyValueStore {
    clock: Arc<dyn Clock>,
    lent: Mutex<Lent>,
}

/// What a call uses, one call at a time.
#[derive(Debug)]
struct Lent {
    store: Box<dyn KeyValue>,
    ids: PartIds,
}

impl KeyValueStore {
    /// A store that uses the machine's clock.
    pub fn new(store: impl KeyValue) -> Self {
        Self::with_clock(store, Arc::new(SystemClock))
    }

    /// A store that uses the given clock. All that share the key-value store should show about the same time.
    pub fn with_clock(store: impl KeyValue, clock: Arc<dyn Clock>) -> Self {
        Self { clock, lent: Mutex::new(Lent { store: Box::new(store), ids: PartIds::default() }) }
    }
}

#[async_trait]
impl Store for KeyValueStore {
    async fn transact(
        &self,
        _: &Writer,
        transaction: &IndexedTransaction,
        _: Deadline,
    ) -> Result<IndexedReceipt, Failure> {
        check::validate_transaction(transaction, &CAPABILITIES)?;
        let lent = self.lent.lock();
        let head = lent.store.get(&head_key(&transaction.transaction.bucket))?;
        lent.transact(&*self.clock, transaction, head)
    }

    /// One after the other, once all heads have been read.
    async fn transact_each(
        &self,
        _: &Writer,
        transactions: &[IndexedTransaction],
        _: Deadline,
    ) -> Vec<Result<IndexedReceipt, Failure>> {
        if let Err(failure) = check::validate_batch(transactions) {
            return vec![Err(failure); transactions.len()];
        }
        let lent = self.lent.lock();
        let keys: Vec<String> = transactions.iter().map(|one| head_key(&one.transaction.bucket)).collect();
        let heads = match lent.store.get_many(&keys) {
            Ok(heads) => heads,
            Err(error) => return vec![Err(error.into()); transactions.len()],
        };
        let answers = transactions.iter().zip(heads).map(|(transaction, head)| {
            check::validate_transaction(transaction, &CAPABILITIES)?;
            lent.transact(&*self.clock, transaction, head)
        });
        answers.collect()
    }

    async fn delete(&self, _: &Writer, request: &DeleteRequest, _: Deadline) -> Result<Deletion, Failure> {
        check::validate_deletion(request)?;
        self.lent.lock().delete(&*self.clock, request)
    }

    async fn list_buckets(&self, kind: &str, cursor: &str, limit: u32, _: Deadline) -> Result<BucketPage, Failure> {
        check_kind(kind)?;
        self.lent.lock().list_buckets(&*self.clock, kind, cursor, limit)
    }

    fn about(&self) -> StoreInfo {
        StoreInfo::new(&CAPABILITIES)
    }
}
