//! The thread that copies what is in the write-ahead log to the database, beside readers and the writer.
//!
//! As long as somebody writes all the time the log never ends, and so is never started again. When it has grown long, it
//! is: that holds the writer for about two syncs, once in many megabytes, and is given up at once when a reader is in
//! the way.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, ErrorCode, wal::CheckpointMode};

use super::{queue::Taken, shared::Shared};

/// Pages of the log from which on it is started again.
const LONG: usize = 4000;
/// How long the writer and readers are waited for.
const BUSY: Duration = Duration::from_millis(20);

pub(crate) struct CheckpointThread {
    shared: Arc<Shared>,
    db: Connection,
}

impl CheckpointThread {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self, rusqlite::Error> {
        let db = shared.connect(BUSY)?;
        Ok(Self { shared, db })
    }

    pub(crate) fn run(self) {
        loop {
            match self.shared.checkpoints.take(usize::MAX, None) {
                Taken::Items(pages) => self.serve(pages.into_iter().max().unwrap_or(0)),
                Taken::Nothing => {}
                Taken::Closed => break,
            }
        }
        let Self { shared, db } = self;
        shared.disconnect(db);
    }

    fn serve(&self, pages: usize) {
        // Most is copied and synced while everybody goes on, so that little is left to be waited for.
        self.shared.checkpoint(&self.db, CheckpointMode::PASSIVE);
        if pages >= LONG {
            self.shared.checkpoint(&self.db, CheckpointMode::RESTART);
        }
    }
}

impl Shared {
    /// Copies what is in the log to the database. False: somebody was in the way.
    pub(crate) fn checkpoint(&self, db: &Connection, mode: CheckpointMode) -> bool {
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
