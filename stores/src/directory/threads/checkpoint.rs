//! The thread that copies what is in the write-ahead log to the database, beside readers and the writer.
//!
//! As long as somebody writes all the time the log never ends, and so is never started again. When it has grown long, it
//! is: that holds the writer for about two syncs, once in many megabytes, and is given up at once when a reader is in
//! the way.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, ErrorCode, wal::CheckpointMode};

use super::{queue::DequeueOutcome, shared::SharedState};

/// Pages of the log from which on it is started again.
const LONG: usize = 4000;
/// How long the writer and readers are waited for.
const BUSY: Duration = Duration::from_millis(20);

pub(crate) struct CheckpointThread {
    shared: Arc<SharedState>,
    db: Connection,
}

impl CheckpointThread {
    pub(crate) fn new(shared: Arc<SharedState>) -> Result<Self, rusqlite::Error> {
        let db = shared.connect(BUSY)?;
        Ok(Self { shared, db })
    }

    pub(crate) fn run(self) {
        while let DequeueOutcome::Items(pages) = self.shared.checkpoints.wait_for_items(usize::MAX, None) {
            self.make_checkpoint(pages.into_iter().max().unwrap_or(0));
        }
        let Self { shared, db } = self;
        shared.disconnect(db);
    }

    fn make_checkpoint(&self, pages: usize) {
        // Most is copied and synced while everybody goes on, so that little is left to be waited for.
        self.shared.try_checkpoint(&self.db, CheckpointMode::PASSIVE);
        if pages >= LONG {
            self.shared.try_checkpoint(&self.db, CheckpointMode::RESTART);
        }
    }
}

impl SharedState {
    /// Copies what is in the log to the database. False: somebody was in the way.
    pub(crate) fn try_checkpoint(&self, db: &Connection, mode: CheckpointMode) -> bool {
        if self.is_broken() {
            return true;
        }
        if let Err(error) = db.wal_checkpoint_v2(Some(c"main"), mode) {
            match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => return false,
                // A full disk passes. A failed sync does not, and other failures can't be distinguished from it.
                Some(ErrorCode::DiskFull) => tracing::warn!(error = %error, "no room for a checkpoint"),
                _ => self.mark_broken(&error),
            }
        }
        true
    }
}
