//! Tests of the directory store alone: files, locks, a clock that outlives the process, limits of a disk, and the care
//! that these take. What all stores have in common is in the conformance suite; processes that are killed are in
//! `directory_killed`.

mod care;
mod clock;
mod damage;
mod files;
mod kinds;
mod locks;
mod opening;
mod room;
mod sync;

use std::{path::Path, time::Duration};

use keepline_stores::{
    Deadline, DirectoryError, DirectoryOptions, DirectoryStore, DirectorySync, Failure, FoundDocuments, IndexStep,
    IndexedTransaction, ManualClock, Outcome, Precondition, Receipt, Status, Store as _, Writer,
};
use keepline_stores_tests::{random, requests::*, until::until_true};
use rusqlite::Connection;
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A directory, the clock of the stores that are opened there, and how they are used.
struct Bench {
    directory: TempDir,
    clock: ManualClock,
    options: DirectoryOptions,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        let options = DirectoryOptions {
            sync: DirectorySync::Off,
            timeout: Duration::from_secs(30),
            clock: clock.clone().into(),
            ..DirectoryOptions::default()
        };
        Self { directory: tempfile::tempdir().unwrap(), clock, options }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn try_open(&self) -> Result<DirectoryStore, DirectoryError> {
        DirectoryStore::open(self.path(), self.options.clone())
    }

    fn open(&self) -> DirectoryStore {
        self.try_open().unwrap()
    }

    /// The database behind the store's back.
    fn raw(&self) -> Connection {
        Connection::open(self.path().join("keepline.db")).unwrap()
    }
}

fn block_on<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(answer)
}

async fn send(store: &DirectoryStore, transaction: &IndexedTransaction) -> Result<Receipt, Failure> {
    let sent = store.transact(Writer::new().advance(), transaction, Deadline::NEVER).await;
    sent.map(|answer| answer.receipt)
}

async fn apply(
    store: &DirectoryStore,
    bucket: &str,
    precondition: Precondition,
    work: impl Into<Work>,
) -> Vec<Outcome> {
    let receipt = send(store, &transaction(bucket, precondition, work)).await.unwrap();
    assert_eq!(receipt.status, Status::Applied);
    receipt.outcomes
}

/// Applies a step to an index of a bucket that is there.
async fn apply_step(store: &DirectoryStore, bucket: &str, step: IndexStep) -> FoundDocuments {
    let transaction = transaction(bucket, existing(), step);
    store.transact(Writer::new().advance(), &transaction, Deadline::NEVER).await.unwrap().found.remove(0)
}

async fn delete(store: &DirectoryStore, bucket: &str) -> Status {
    store.delete(Writer::new().advance(), &deletion_of(bucket), Deadline::NEVER).await.unwrap().status
}
