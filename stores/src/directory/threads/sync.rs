//! The threads that sync: one sync of the write-ahead log for all commits that were made before it began, then all their
//! answers. The writer goes on meanwhile, and readers never meet them. When a second sync is worth its while beside the
//! first one, `pending_acks` says.
//!
//! # Why an answer that is given is on disk
//! Commits are made under `synchronous=NORMAL`: they write to the write-ahead log and sync nothing. SQLite's frames are
//! chained by checksums, so what a power cut leaves of the log is read up to some frame, and all commits before that one
//! are whole. An answer is given after a sync of the log that began after its commit returned. Then:
//!
//! - *The log was not started again in between.* Its frames are in the file that was synced, with all that precede them.
//! - *A checkpoint has copied them to the database, by whichever process, and the log was started again.* A checkpoint
//!   syncs the log before it copies and the database after that, and only then lets the log be started again: the commit
//!   is on disk, in the database. This needs every connection of every process to sync around checkpoints: none of ours
//!   has less than `NORMAL`, not even where `DirectorySync::Off` was chosen, and the shell of SQLite has more.
//! - *The log is written from its beginning while it is synced.* What is written over is in the database by then. SQLite
//!   itself syncs the log's new header before frames follow it, so that old frames are never taken for new ones.
//! - *The log's file is new.* SQLite syncs its directory with its header, before the first frame; the file is never
//!   deleted while somebody has the store open.
//! - *Another process made the commit that an answer speaks of*: a call learns that it was applied before, or that
//!   somebody else's entry is there already. The sync is one of the file, not of our writes to it.
//! - *Another sync is under way.* Each is of the whole file, and for commits before its own beginning. Each thread has a
//!   handle of its own, for the system tells each handle once that a write failed: neither can take the news from the other.
//! - *Sectors.* Like SQLite's `FULL` with its default settings, this takes for granted that writing to a sector leaves
//!   its neighbours alone (`POWERSAFE_OVERWRITE`).
//!
//! After a sync that failed, the system may have dropped what was not written, and a second sync that succeeds means
//! nothing. So from the first failure on, wherever it occurred (here, at a checkpoint, in the writer), nothing that
//! writes is answered but with a failure, no checkpoint is made, and the log is left alone when the store is closed:
//! the next open reads it again, up to the last frame whose checksum is right.
//!
//! What is read beside all this may not be on disk yet. It is by the time anybody who wrote is answered.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rusqlite::Connection;

use super::shared::{SharedState, store_broken};
use crate::directory::{error::DirectoryError, files::log_file::LogFile};

/// Syncs at a time, at most: a third one makes next to no difference.
pub(crate) const AT_A_TIME: usize = 2;

pub(crate) struct SyncThread {
    shared: Arc<SharedState>,
    db: Connection,
    log: LogFile,
}

impl SyncThread {
    pub(crate) fn new(shared: Arc<SharedState>) -> Result<Self, DirectoryError> {
        let db = shared.connect(Duration::from_secs(1))?;
        let log = shared.place.open_wal_file()?;
        Ok(Self { shared, db, log })
    }

    pub(crate) fn run(self) {
        while let Some(acks) = self.shared.pending_acks.wait_for_batch() {
            if !self.shared.is_broken() {
                self.shared.syncs.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = self.log.sync(&self.db) {
                    self.shared.mark_broken(&error);
                }
            }
            let failed = self.shared.is_broken();
            self.shared.pending_acks.mark_done(acks.len());
            for ack in acks {
                _ = ack.reply.send(if failed { Err(store_broken()) } else { Ok(ack.answer) });
            }
        }
        let Self { shared, db, .. } = self;
        shared.disconnect(db);
    }
}
