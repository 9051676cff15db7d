//! Clears up in small steps between calls: expired buckets, rows of deleted parts, numbers of writers whose calls can't be
//! repeated any more, and empty pages.

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::{
    BucketId,
    directory::{
        connection::{execute, roll_back},
        error::TransactionError,
        maintenance::give_back,
        rows::writers::WriterKey,
        time::{StoreTime, TransactionContext, from_column, to_column},
    },
};

/// Between two steps while there is work, at least.
const PAUSE: Duration = Duration::from_millis(5);
/// Between two looks at writers, while none of them can be forgotten.
const LOOK: Duration = Duration::from_millis(50);
/// Between two looks for work when there was none.
const REST: Duration = Duration::from_secs(1);
/// For how long buckets that have expired are left alone, in milliseconds, if room is not needed: whoever comes meanwhile
/// learns that they expired, and not that they never were.
const GRACE_MS: u64 = 60_000;
const BUCKETS: i64 = 32;
/// Rows erased in one step.
const ROWS: i64 = 256;
/// Bytes of the texts in them, but for the last row.
const BYTES: u64 = 1024 * 1024;
/// Empty pages that are kept for what is written next.
const SPARE_PAGES: i64 = 256;
/// Empty pages given back in one step.
const PAGES: i64 = 64;

/// Which table rows are erased from.
struct Table {
    next: &'static str,
    erase: &'static str,
}

const ENTRIES: Table = Table {
    next: "SELECT key, octet_length(text) FROM entry WHERE map = ?1 AND ?3 > 0 ORDER BY key LIMIT ?2",
    erase: "DELETE FROM entry WHERE map = ?1 AND key <= ?2",
};
const RECORDS: Table = Table {
    next: "SELECT position, octet_length(text) FROM record WHERE log = ?1 AND position < ?3 ORDER BY position LIMIT ?2",
    erase: "DELETE FROM record WHERE log = ?1 AND position <= ?2",
};

/// All of an index goes at once, never a part of it.
const SEGMENTS: Table = Table {
    next: "SELECT place, octet_length(bytes) FROM segment WHERE idx = ?1 AND ?3 > 0 ORDER BY place LIMIT ?2",
    erase: "DELETE FROM segment WHERE idx = ?1 AND place <= ?2",
};

pub(crate) struct Sweeper {
    /// Whether all empty pages are given back: there is no room on the disk.
    pub(crate) keeps_no_pages: bool,
    /// Whether the last step left something to do.
    busy: bool,
    next: Instant,
    /// Where the walk through all writers is.
    writers: WriterKey,
}

impl Sweeper {
    pub(crate) fn new() -> Self {
        Self { keeps_no_pages: false, busy: true, next: Instant::now(), writers: WriterKey::default() }
    }

    /// Something was written: there may be more to do than was there when last looked at.
    pub(crate) fn expect_work(&mut self) {
        if !self.busy {
            self.busy = true;
            self.next = Instant::now() + PAUSE;
        }
    }

    /// How long nothing is to be done.
    pub(crate) fn time_until_due(&self) -> Option<Duration> {
        Some(self.next.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Look again in a while.
    pub(crate) fn schedule_rest(&mut self) {
        self.busy = false;
        self.next = Instant::now() + REST;
    }

    /// Do a little. The database is locked for that only if there is something to do, and never waited for.
    /// `at_once`: what has only just expired, too.
    pub(crate) fn run_step(
        &mut self,
        time: &StoreTime,
        db: &Connection,
        at_once: bool,
    ) -> Result<(), TransactionError> {
        let grace = if at_once { 0 } else { GRACE_MS };
        let began = Instant::now();
        self.next = began + PAUSE;
        let at = time.begin_context(db)?;
        let writers = at.overdue_writers(&self.writers)?;
        let free: i64 = db.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
        let spare = if self.keeps_no_pages { 0 } else { SPARE_PAGES };
        let rows = has_dead_rows(&at, grace)?;
        self.busy = rows || !writers.overdue.is_empty() || free > spare;
        if rows || !writers.overdue.is_empty() {
            execute(db, "BEGIN IMMEDIATE")?;
            let at = time.begin_context(db)?;
            end_buckets(&at, grace)?;
            erase_rows(&at)?;
            at.forget_writers(&writers.overdue)?;
            at.save_progress()?;
            execute(db, "COMMIT")?;
        }
        if at.has_news() {
            note_news(time, db)?;
        }
        if free > spare {
            give_back(db, PAGES)?;
        }
        // A step takes no more than a fraction of the time, however slow the disk.
        self.next = Instant::now() + PAUSE.max(began.elapsed() * 2);
        let is_through = writers.next.is_none();
        self.writers = writers.next.unwrap_or_default();
        if !self.busy {
            self.next = Instant::now() + if is_through { REST } else { LOOK };
        }
        Ok(())
    }
}

/// Stores what other processes have to know of the clock. On a full disk that has to wait: it frees nothing.
fn note_news(time: &StoreTime, db: &Connection) -> Result<(), TransactionError> {
    let note = || -> Result<(), TransactionError> {
        execute(db, "BEGIN IMMEDIATE")?;
        time.begin_context(db)?.save_progress()?;
        Ok(execute(db, "COMMIT")?)
    };
    match note() {
        Err(stop) if TransactionError::is_full(&stop) => {
            time.watch_not_stored();
            roll_back(db);
            Ok(())
        }
        noted => noted,
    }
}

fn has_dead_rows(at: &TransactionContext<'_>, grace: u64) -> Result<bool, rusqlite::Error> {
    let mut found = at
        .db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM bucket WHERE expires_at <= ?1) OR EXISTS (SELECT 1 FROM dead)")?;
    found.query_row([to_column(at.now_ms.saturating_sub(grace))], |row| row.get(0))
}

fn end_buckets(at: &TransactionContext<'_>, grace: u64) -> Result<(), rusqlite::Error> {
    let mut over = at.db.prepare_cached("SELECT kind, name, life FROM bucket WHERE expires_at <= ?1 LIMIT ?2")?;
    let over = over
        .query_map([to_column(at.now_ms.saturating_sub(grace)), BUCKETS], |row| {
            Ok((BucketId { kind: row.get(0)?, name: row.get(1)? }, from_column(row.get(2)?)))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    over.iter().try_for_each(|(id, stamp)| at.retire_bucket(id, *stamp))
}

/// Erase some rows of the first part that is gone, or the mark of it when it has none left.
fn erase_rows(at: &TransactionContext<'_>) -> Result<(), rusqlite::Error> {
    let mut room = ROWS;
    while room > 0 {
        let mut dead = at.db.prepare_cached("SELECT id, below FROM dead LIMIT 1")?;
        let mut rows = dead.query([])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let (id, below): (i64, i64) = (row.get(0)?, row.get(1)?);
        drop(rows);
        let mut erased = erase_some(at, &RECORDS, id, below, room)?;
        if erased == Some(0) && below == i64::MAX {
            erased = erase_some(at, &ENTRIES, id, below, room)?;
        }
        if erased == Some(0) && below == i64::MAX {
            erased = erase_some(at, &SEGMENTS, id, below, room)?;
        }
        match erased {
            // It has no rows left.
            Some(0) => {
                at.db.prepare_cached("DELETE FROM dead WHERE id = ?1")?.execute([id])?;
                room -= 1;
            }
            Some(count) => room -= count,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// How many rows were erased; none: as many bytes as a step may.
fn erase_some(
    at: &TransactionContext<'_>,
    table: &Table,
    id: i64,
    below: i64,
    most: i64,
) -> Result<Option<i64>, rusqlite::Error> {
    let mut next = at.db.prepare_cached(table.next)?;
    let mut rows = next.query(params![id, most, below])?;
    let (mut last, mut bytes, mut count) = (None, 0_u64, 0);
    while let Some(row) = rows.next()? {
        last = Some(row.get::<_, rusqlite::types::Value>(0)?);
        bytes = bytes.saturating_add(from_column(row.get(1)?));
        count += 1;
        if bytes >= BYTES {
            break;
        }
    }
    drop(rows);
    let Some(last) = last else { return Ok(Some(0)) };
    at.db.prepare_cached(table.erase)?.execute(params![id, last])?;
    Ok((bytes < BYTES).then_some(count))
}
