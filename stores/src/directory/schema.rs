//! The tables of the database: creates, recognises and migrates them.
//!
//! Version 2. Times are milliseconds since 1970 unless noted otherwise; texts are as the contract has them.
//!
//! - `store`, one row: `id`, random, tells this store from any other; `now`, the newest instant that was written, below
//!   which time never goes; `stamp`, the newest number given to a life or a part.
//! - `bucket`: those that are there, by `kind` (as the contract spells it) and `name`. `life` is when it began, in
//!   microseconds, as a number that no other life here has. It is the generation, too, unless the bucket came from another
//!   store: then that is `incarnation`, as generations were called when the table was made. `milliseconds` and `sliding` are
//!   its time to live, and `expires_at` its end; null: it never expires. One that is still on its way here has the kind
//!   `arriving:` and its own, the name of the copying in place of its generation, and an end that is put off as long as it
//!   goes on.
//! - `part`: the maps (`form` 0), logs (1) and indexes (2) of a bucket. `id` is what their rows go by. Of a map, `length`
//!   is how many entries it has; one without any has no row. Of a log, `first` and `length` say where it stands. Of an
//!   index, `first` is one more than its highest position, `length` how many documents it has, and `terms` how many terms
//!   those have together. (Version 1 has neither `terms` nor `segment`.)
//! - `entry`: `text` under `key`, of a map.
//! - `record`: `text` at `position`, of a log. What is before the log's `first` is no part of it any more.
//! - `segment`: `bytes` of an index, in the form of `index/segments.rs`: at `place`, which is the segment's number times 512,
//!   its marks, and behind them its shards, each at 1 more than its number.
//! - `lease`: who holds what, until when.
//! - `field`: metadata of a bucket that came from another store, where it differs from what is said of the bucket here:
//!   `text` for `own` under `name`; null: nothing. It counts as long as the bucket's own is still that, and goes along
//!   when the bucket goes on. See `transfer`.
//! - `writer`: the highest number of each writer that wrote to a bucket, kept until that call can't be repeated any more. By the
//!   bucket's name: a late repetition is recognised after the bucket is gone, too.
//!   Rows of the kind `clock` with ids that no writer has are what is believed of the machine's clock, in microseconds; see
//!   `time`.
//! - `dead`: parts that are gone, with rows that are still to be erased: all below `below`. A bucket is deleted, a map
//!   emptied and a log cut at the cost of a row, however much they held; what they held goes in small steps.
//!
//! Everything is a table that can be read with any SQLite shell. Only this store should write to it.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, config::DbConfig, wal::CheckpointMode};

use super::error::DirectoryError;

/// `Keep`: SQLite's mark of whose database a file is.
const APPLICATION: i32 = 0x4b65_6570;
/// 3.51.3. Before it, SQLite could lose commits when a checkpoint met the restart of the write-ahead log.
const OLDEST_SQLITE: (i32, &str) = (3_051_003, "3.51.3");

/// Each leads from the version of its place to the next one; all of them, in order, make a new database.
const VERSIONS: [&str; 2] = [
    "CREATE TABLE store (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id TEXT NOT NULL,
        now INTEGER NOT NULL,
        stamp INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE bucket (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        life INTEGER NOT NULL,
        milliseconds INTEGER,
        sliding INTEGER NOT NULL,
        expires_at INTEGER,
        incarnation TEXT,
        PRIMARY KEY (kind, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX bucket_by_end ON bucket (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE part (
        life INTEGER NOT NULL,
        form INTEGER NOT NULL,
        name TEXT NOT NULL,
        id INTEGER NOT NULL,
        first INTEGER NOT NULL,
        length INTEGER NOT NULL,
        PRIMARY KEY (life, form, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE entry (
        map INTEGER NOT NULL,
        key TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (map, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE record (
        log INTEGER NOT NULL,
        position INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (log, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE lease (
        life INTEGER NOT NULL,
        name TEXT NOT NULL,
        holder TEXT NOT NULL,
        ends_at INTEGER NOT NULL,
        PRIMARY KEY (life, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE field (
        life INTEGER NOT NULL,
        name TEXT NOT NULL,
        own TEXT,
        text TEXT,
        PRIMARY KEY (life, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE writer (
        kind TEXT NOT NULL,
        bucket TEXT NOT NULL,
        id TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (kind, bucket, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE dead (
        id INTEGER PRIMARY KEY,
        below INTEGER NOT NULL
    ) STRICT;",
    "ALTER TABLE part ADD COLUMN terms INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE segment (
        idx INTEGER NOT NULL,
        place INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (idx, place)
    ) STRICT, WITHOUT ROWID;",
];

/// Refuses a library that is too old to be trusted with data.
pub(super) fn check_library() -> Result<(), DirectoryError> {
    let (oldest, required) = OLDEST_SQLITE;
    if rusqlite::version_number() < oldest {
        return Err(DirectoryError::OldSqlite { found: rusqlite::version(), required });
    }
    Ok(())
}

/// Whether a database is a store of the present version; else there is nothing yet, or an earlier one.
///
/// # Errors
/// When it is none of ours.
pub(super) fn is_current(db: &Connection) -> Result<bool, DirectoryError> {
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let objects: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if (application, version, objects) == (0, 0, 0) {
        return Ok(false);
    }
    if application != i64::from(APPLICATION) {
        return Err(DirectoryError::Foreign);
    }
    let known = VERSIONS.len() as i64;
    if version > known {
        return Err(DirectoryError::Newer { found: version, known });
    }
    if version < known {
        return Ok(false);
    }
    // A view or a trigger of somebody else's would run with each of our statements.
    if objects_of(db)? != objects_of(&pristine()?)? {
        return Err(DirectoryError::Damaged { detail: "its tables are not those of this version".to_owned() });
    }
    Ok(true)
}

/// Brings a new or an older database to the present version. No other process may have it open.
pub(super) fn create_or_migrate(db: &mut Connection) -> Result<(), DirectoryError> {
    // Before the first table: later it would take a copy of the whole database.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    let mode: String = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(DirectoryError::Damaged { detail: format!("it can't have a write-ahead log, only {mode:?}") });
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in VERSIONS.iter().skip(usize::try_from(version).unwrap_or(usize::MAX)) {
        transaction.execute_batch(step)?;
    }
    let made: Option<i64> = transaction.query_row("SELECT one FROM store", [], |row| row.get(0)).optional()?;
    if made.is_none() {
        let id = format!("{:032x}", fastrand::u128(..));
        transaction.execute("INSERT INTO store VALUES (1, ?1, 0, 0)", [id])?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSIONS.len() as i64)?;
    transaction.commit()?;
    Ok(())
}

/// Marks a database with a random number, which distinguishes it from every copy of it: its schema cookie, which SQLite
/// only ever compares. All of it is in the database's file afterwards, if no other process has it open.
pub(super) fn assign_random_number(db: &Connection) -> Result<(), DirectoryError> {
    // What a hostile statement must not do.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
    let numbered = db.pragma_update(None, "schema_version", fastrand::i32(1..i32::MAX));
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    numbered?;
    _ = db.wal_checkpoint_v2(Some(c"main"), CheckpointMode::TRUNCATE)?;
    Ok(())
}

/// An empty database of the present version.
fn pristine() -> Result<Connection, rusqlite::Error> {
    let db = Connection::open_in_memory()?;
    for step in VERSIONS {
        db.execute_batch(step)?;
    }
    Ok(db)
}

/// Everything that a database has beside its rows, but for what SQLite keeps for itself.
fn objects_of(db: &Connection) -> Result<Vec<(String, String, String)>, rusqlite::Error> {
    let mut objects = db.prepare(
        "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         ORDER BY type, name",
    )?;
    let rows = objects.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}
