//! State that the threads of a store share, and the requests that they pass to each other.

use std::{
    any::Any,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use rusqlite::{Connection, config::DbConfig};
use tokio::sync::oneshot;

use super::{pending_acks::PendingAck, queue::WorkQueue};
use crate::{
    Deadline, Failure, FailureCode,
    directory::{
        DirectoryOptions,
        error::TransactionError,
        files::StoreFiles,
        time::{StoreTime, TransactionContext},
    },
    failure,
};

/// A call of the store's.
pub(crate) struct StoreRequest {
    pub(crate) work: RequestedWork,
    /// Whether it removes things and brings nothing of its own but what takes their place.
    pub(crate) frees: bool,
    pub(crate) deadline: Deadline,
    /// Whether the caller relies on what the answer says: then it is given when that is on disk.
    pub(crate) needs_disk: bool,
    pub(crate) reply: ReplySender,
}

/// What a call does. It may be done more than once, each time from the beginning.
pub(crate) type RequestedWork = Box<dyn Fn(&TransactionContext<'_>) -> Result<WorkAnswer, TransactionError> + Send>;

/// What the work came to; its caller knows the type.
pub(crate) type WorkAnswer = Box<dyn Any + Send>;

pub(crate) type ReplySender = oneshot::Sender<Result<WorkAnswer, Failure>>;

pub(crate) struct SharedState {
    pub(crate) options: DirectoryOptions,
    pub(crate) time: StoreTime,
    pub(crate) place: StoreFiles,
    /// Requests that may write: for the writer.
    pub(crate) writes: WorkQueue<StoreRequest>,
    /// Requests that write nothing, as far as is known: for the readers.
    pub(crate) reads: WorkQueue<StoreRequest>,
    /// What is committed and not synced.
    pub(crate) pending_acks: WorkQueue<PendingAck>,
    /// How many pages the write-ahead log has, when it is worth a checkpoint.
    pub(crate) checkpoints: WorkQueue<usize>,
    /// Whether the disk failed to keep what it was given: from then on it is unknown what is on it.
    broken: AtomicBool,
    pub(crate) commits: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

impl SharedState {
    pub(crate) fn new(options: DirectoryOptions, time: StoreTime, place: StoreFiles) -> Self {
        Self {
            options,
            time,
            place,
            writes: WorkQueue::new(),
            reads: WorkQueue::new(),
            pending_acks: WorkQueue::new(),
            checkpoints: WorkQueue::new(),
            broken: AtomicBool::new(false),
            commits: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// A connection for one of the threads, which has read something.
    pub(crate) fn connect(&self, busy: Duration) -> Result<Connection, rusqlite::Error> {
        // Another process may have it locked for a moment: it reads the log of one that was killed, or is the last to end.
        let db = self.options.open(&self.place.database(), false, crate::directory::MAKING)?;
        crate::directory::time::StoredProgress::read(&db)?;
        db.busy_timeout(busy)?;
        Ok(db)
    }

    /// Drops all requests and takes no more: a thread has panicked, and nobody shall wait for it.
    pub(crate) fn abandon(&self) {
        self.reads.abandon();
        self.writes.abandon();
        self.pending_acks.abandon();
        self.checkpoints.abandon();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn mark_broken(&self, error: &dyn std::fmt::Display) {
        tracing::error!(error = %error, "the disk failed to store data; the directory store takes no more writes");
        self.broken.store(true, Ordering::Release);
    }

    /// End a connection. What may not be on disk must not be taken for it: then the log is left as it is, for the next
    /// who opens the store.
    pub(crate) fn disconnect(&self, db: Connection) {
        if self.is_broken() {
            _ = db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        drop(db);
    }

    pub(crate) fn to_failure(&self, stop: &TransactionError) -> Failure {
        stop.to_failure(self.options.max_bytes)
    }
}

impl StoreRequest {
    /// Whether an answer would come too late, or the caller is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.reply.is_closed() || self.deadline.is_over()
    }

    /// Sends the answer, if the caller still waits for it.
    pub(crate) fn send_answer(self, answer: Result<WorkAnswer, Failure>) {
        _ = self.reply.send(answer);
    }
}

pub(crate) fn store_closed() -> Failure {
    failure(FailureCode::Unavailable, "", "the store is closed")
}

pub(crate) fn store_broken() -> Failure {
    let message = "the disk failed to store data, so the store takes no more writes until it is opened again";
    failure(FailureCode::Unavailable, "", message)
}

pub(crate) fn timed_out(limit: Duration) -> Failure {
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let message = format!("the store did not answer within {limit} ms");
    Failure { limit, ..failure(FailureCode::TimedOut, "", message) }
}
