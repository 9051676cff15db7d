//! Connections to the database, one for each thread.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::DirectoryOptions;

/// More than there are statements.
const STATEMENTS: usize = 64;
/// Of the database's pages, in KiB.
const CACHE: i64 = 8 * 1024;
/// What the write-ahead log is cut to when it starts again.
const MAX_LOG_BYTES: i64 = 32 * 1024 * 1024;
/// SQLite's own.
pub(super) const PAGE_BYTES: u64 = 4096;

impl DirectoryOptions {
    /// Opens the database at a path, and creates it if asked to.
    ///
    /// All connections of all processes sync around checkpoints, whatever the store's own choice: one that did not would
    /// take from the others what they promised.
    pub(super) fn open(&self, path: &Path, create: bool, busy: Duration) -> Result<Connection, rusqlite::Error> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
        Self::configured(path, flags, busy)
    }

    /// Opens the database to look at it only. With a log, nothing of it is written to the database, also not at the end;
    /// without one there is nothing to be written, and SQLite removes what it made beside the database for this.
    pub(super) fn open_to_look(
        &self,
        path: &Path,
        busy: Duration,
        has_log: bool,
    ) -> Result<Connection, rusqlite::Error> {
        let flags = if has_log { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
        let db = Self::configured(path, flags, busy)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
        db.pragma_update(None, "query_only", true)?;
        Ok(db)
    }

    fn configured(path: &Path, flags: OpenFlags, busy: Duration) -> Result<Connection, rusqlite::Error> {
        let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(busy)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // Else statements are compiled again for other parameters, as if the best plan might depend on them.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        for (name, value) in [
            ("synchronous", 1),
            // What is deleted is nowhere in the file any more.
            ("secure_delete", 1),
            ("fullfsync", 1),
            ("checkpoint_fullfsync", 1),
            ("cell_size_check", 1),
            ("cache_size", -CACHE),
            ("wal_autocheckpoint", 0),
            ("journal_size_limit", MAX_LOG_BYTES),
        ] {
            db.pragma_update(None, name, value)?;
        }
        Ok(db)
    }

    /// For a connection that writes: no more pages than fit, and some to spare.
    pub(super) fn limit_pages(&self, db: &Connection, spare: u64) -> Result<(), rusqlite::Error> {
        let pages = (self.max_bytes / PAGE_BYTES).saturating_add(spare).clamp(1, 4_294_967_294);
        db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
    }
}

/// Undoes what is under way, if anything is: some errors have done it already.
pub(super) fn roll_back(db: &Connection) {
    if !db.is_autocommit() {
        _ = execute(db, "ROLLBACK");
    }
}

/// Executes a statement that is the same each time.
pub(super) fn execute(db: &Connection, sql: &str) -> Result<(), rusqlite::Error> {
    db.prepare_cached(sql)?.execute([])?;
    Ok(())
}
