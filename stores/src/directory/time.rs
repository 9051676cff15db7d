//! The store's time: never earlier than anything that was stored, and numbers that are given once.
//!
//! A clock that was set ahead is not believed for a minute. So that a process that starts meanwhile doesn't either, what is
//! believed of the machine's clock is kept in the store, together with the machine's boot that it belongs to. It is kept
//! where a writer's number would be, under ids that no writer has.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::{Connection, params};

use super::error::TransactionError;
use crate::{
    Clock, FailureCode,
    clock::{ClockJump, ClockWatch, saturating_micros},
    failure::failure,
};

/// How far ahead of the clock the newest instant stored may be.
const MOST_AHEAD: Duration = Duration::from_secs(24 * 3600);

/// By how much what is believed of the clock may differ from what is stored of it, in microseconds.
const SLACK: u64 = 10 * 1_000_000;

/// What time it is, for all threads of a store.
pub(super) struct StoreTime {
    clock: Arc<dyn Clock>,
    /// None: no other process can compare its clock.
    boot_id: Option<String>,
    /// The newest instant in any answer of this process, in milliseconds.
    latest: AtomicU64,
    watch: Mutex<Watch>,
}

struct Watch {
    now: ClockWatch,
    /// As other processes find it, if it is stored.
    stored: Option<ClockWatch>,
}

impl Watch {
    /// Whether there is something to be stored that others can't know.
    fn has_news(&self) -> bool {
        let Some(stored) = self.stored else { return true };
        self.now.jump != stored.jump || self.now.believed.abs_diff(stored.believed) > SLACK
    }
}

/// What is stored of this boot's clock.
fn stored_watch(db: &Connection, boot_id: &str) -> Result<Option<ClockWatch>, rusqlite::Error> {
    let mut stored = db.prepare_cached("SELECT id, sequence FROM writer WHERE kind = 'clock' AND bucket = ?1")?;
    let mut rows = stored.query([boot_id])?;
    let (mut believed, mut to, mut noticed_at) = (None, None, None);
    while let Some(row) = rows.next()? {
        let place = match row.get_ref(0)?.as_str()? {
            "believed" => &mut believed,
            "jump" => &mut to,
            "noticed" => &mut noticed_at,
            _ => continue,
        };
        *place = Some(from_column(row.get(1)?));
    }
    let jump = to.zip(noticed_at).map(|(to, noticed_at)| ClockJump { to, noticed_at });
    Ok(believed.map(|believed| ClockWatch { believed, jump }))
}

fn store_watch(db: &Connection, boot_id: &str, watch: ClockWatch) -> Result<(), rusqlite::Error> {
    forget_watch(db)?;
    let mut store = db.prepare_cached("INSERT INTO writer VALUES ('clock', ?1, ?2, ?3, ?4)")?;
    let jump = watch.jump.map(|jump| [("jump", jump.to), ("noticed", jump.noticed_at)]);
    for (name, value) in [("believed", watch.believed)].into_iter().chain(jump.into_iter().flatten()) {
        store.execute(params![boot_id, name, to_column(value), i64::MAX])?;
    }
    Ok(())
}

/// Forgets what was believed of the machine's clock, so that it is believed whatever it shows.
pub(super) fn forget_watch(db: &Connection) -> Result<(), rusqlite::Error> {
    // Buckets may have that kind, too.
    let forget = "DELETE FROM writer WHERE kind = 'clock' AND id IN ('believed', 'jump', 'noticed')";
    db.prepare_cached(forget)?.execute([])?;
    Ok(())
}

/// The row of `store` that moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredProgress {
    /// Milliseconds.
    pub(super) now: u64,
    /// The newest number given.
    pub(super) stamp: u64,
}

impl StoredProgress {
    pub(super) fn read(db: &Connection) -> Result<Self, rusqlite::Error> {
        let mut noted = db.prepare_cached("SELECT now, stamp FROM store")?;
        noted.query_row([], |row| Ok(Self { now: from_column(row.get(0)?), stamp: from_column(row.get(1)?) }))
    }

    pub(super) fn write(self, db: &Connection) -> Result<(), rusqlite::Error> {
        db.prepare_cached("UPDATE store SET now = ?1, stamp = ?2")?
            .execute([to_column(self.now), to_column(self.stamp)])?;
        Ok(())
    }
}

impl StoreTime {
    /// For a store that was opened, going on from what others believed of the clock.
    pub(super) fn load(db: &Connection, clock: Arc<dyn Clock>) -> Result<Self, rusqlite::Error> {
        let boot_id = clock.boot_id();
        let stored = boot_id.as_deref().map(|boot_id| stored_watch(db, boot_id)).transpose()?.flatten();
        let now = stored.unwrap_or_else(|| ClockWatch::new(&*clock));
        Ok(Self { clock, boot_id, latest: AtomicU64::new(0), watch: Mutex::new(Watch { now, stored }) })
    }

    /// By how much the newest instant is ahead of the machine's clock, if that is too much.
    pub(super) fn too_far_ahead(&self, stored_ms: u64) -> Option<Duration> {
        let newest = Duration::from_millis(stored_ms.max(self.latest.load(Ordering::Relaxed)));
        newest.checked_sub(self.clock.now()).filter(|ahead| *ahead > MOST_AHEAD)
    }

    /// Begin something: the time by the clock, or by what was stored if that is later.
    ///
    /// # Errors
    /// `unavailable` if the clock must have been set back.
    pub(super) fn begin_context<'c>(&'c self, db: &'c Connection) -> Result<TransactionContext<'c>, TransactionError> {
        let noted = StoredProgress::read(db)?;
        if self.too_far_ahead(noted.now).is_some() {
            let message = "the store was last written more than a day in the future of this machine's clock; set the \
                           clock, or run `keepline store repair`";
            return Err(failure(FailureCode::Unavailable, "clock", message).into());
        }
        let mut watch = self.watch.lock();
        let known_jump = watch.now.jump;
        let mut reading = watch.now.read_clock(&*self.clock);
        if watch.now.jump != known_jump
            && watch.now.jump.is_some()
            && let Some(boot_id) = &self.boot_id
            && let Some(others) = stored_watch(db, boot_id)?
        {
            watch.now.adopt_known_jump(others);
            watch.stored = Some(others);
            reading = watch.now.read_clock(&*self.clock);
        }
        drop(watch);
        let seen = noted.now.max(reading.now_ms());
        let now_ms = self.latest.fetch_max(seen, Ordering::Relaxed).max(seen);
        let shown_ms = now_ms.max(reading.shown_ms());
        Ok(TransactionContext {
            db,
            reads_only: false,
            time: self,
            now_ms,
            shown_ms,
            clock: reading.now.max(now_ms.saturating_mul(1000)),
            stamp: Cell::new(noted.stamp),
            noted,
        })
    }

    /// What the clock shows, for who repairs.
    pub(super) fn clock_ms(&self) -> u64 {
        saturating_micros(self.clock.now()) / 1000
    }

    /// What was to be stored of the clock may not have been: its transaction was rolled back.
    pub(super) fn watch_not_stored(&self) {
        self.watch.lock().stored = None;
    }
}

/// A transaction of SQLite's, and the one instant at which all that is done in it happens.
pub(super) struct TransactionContext<'c> {
    pub(super) db: &'c Connection,
    /// Whether nothing may be written.
    pub(super) reads_only: bool,
    time: &'c StoreTime,
    pub(super) now_ms: u64,
    /// What the clock shows: later than `now_ms` while that is in doubt.
    pub(super) shown_ms: u64,
    /// Microseconds; not before `now_ms`.
    clock: u64,
    stamp: Cell<u64>,
    noted: StoredProgress,
}

impl TransactionContext<'_> {
    /// A number that nothing else in this store has: microseconds since 1970, where they are not taken.
    pub(super) fn next_stamp(&self) -> u64 {
        let stamp = self.clock.max(self.stamp.get().saturating_add(1));
        self.stamp.set(stamp);
        stamp
    }

    /// Whether there is something to be stored of the clock.
    pub(super) fn has_news(&self) -> bool {
        self.time.boot_id.is_some() && self.time.watch.lock().has_news()
    }

    /// Store how far time and numbers are, and what other processes have to know of the clock.
    pub(super) fn save_progress(&self) -> Result<(), rusqlite::Error> {
        if let Some(boot_id) = &self.time.boot_id {
            let mut watch = self.time.watch.lock();
            if watch.has_news() {
                store_watch(self.db, boot_id, watch.now)?;
                watch.stored = Some(watch.now);
            }
        }
        let noted = StoredProgress { now: self.now_ms, stamp: self.stamp.get() };
        if (noted.now, noted.stamp) == (self.noted.now, self.noted.stamp) { Ok(()) } else { noted.write(self.db) }
    }

    /// Goes on only where something may be written.
    pub(super) fn require_writer(&self) -> Result<(), TransactionError> {
        if self.reads_only { Err(TransactionError::NeedsWriter) } else { Ok(()) }
    }

    /// As a column holds it.
    pub(super) fn now_as_column(&self) -> i64 {
        to_column(self.now_ms)
    }
}

/// As a column holds it: what is larger is beyond everything stored.
pub(super) fn to_column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What a column holds; nothing below 0 is ever stored.
pub(super) fn from_column(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
