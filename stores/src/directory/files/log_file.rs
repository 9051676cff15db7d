//! The write-ahead log as a file that can be synced.
//!
//! A handle of its own beside SQLite's: a sync is of a file, whichever handle wrote to it. No lock is ever taken on the log, so
//! none is lost when the handle is closed, as one on the database would be.

use std::{
    fs::File,
    io::{self, ErrorKind},
    path::Path,
};

use rusqlite::Connection;

pub(crate) struct LogFile(File);

impl LogFile {
    /// The log of a database; a connection must have read from that, for SQLite makes the log then.
    pub(crate) fn open(log: &Path) -> io::Result<Self> {
        // Nothing is written through this handle, but some systems sync only handles that could write.
        File::options().write(true).open(log).map(Self)
    }

    /// Has on disk all that is in the log now: on macOS, too, where that takes more than `fsync`. `db` is a connection to
    /// its database.
    pub(crate) fn sync(&self, db: &Connection) -> io::Result<()> {
        self.check_place(db)?;
        self.0.sync_data()
    }

    /// Refuses files that are not the directory's any more: what is written to them is found by no later open.
    pub(crate) fn check_place(&self, db: &Connection) -> io::Result<()> {
        if self.is_gone() || has_moved(db) {
            return Err(io::Error::new(ErrorKind::NotFound, "the store's files have been removed or replaced"));
        }
        Ok(())
    }

    /// Whether the file is in no directory any more: what is written to it then is lost.
    #[cfg(unix)]
    fn is_gone(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        self.0.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    #[cfg(not(unix))]
    fn is_gone(&self) -> bool {
        false
    }
}

/// Whether the database was removed or replaced since it was opened, as far as SQLite can tell.
fn has_moved(db: &Connection) -> bool {
    let mut moved = 0;
    #[cfg(unix)]
    let _unless_unknown = db.file_control(Some(c"main"), rusqlite::FileControl::HasMoved(&mut moved));
    moved != 0
}
