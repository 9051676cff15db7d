//! The store's time: never earlier than anything that was stored, and numbers that are given once.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rusqlite::Connection;

use crate::{Clock, FailureCode, clock::micros, failure};

/// How far ahead of the clock the newest instant stored may be.
const MOST_AHEAD: Duration = Duration::from_secs(24 * 3600);

/// What time it is, for all threads of a store.
pub(super) struct Time {
    clock: Arc<dyn Clock>,
    /// The newest instant that anybody here was told, in milliseconds.
    latest: AtomicU64,
}

/// The row of `store` that moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    /// Milliseconds.
    pub(super) now: u64,
    /// The newest number given.
    pub(super) stamp: u64,
}

impl Noted {
    pub(super) fn read(db: &Connection) -> Result<Self, rusqlite::Error> {
        let mut noted = db.prepare_cached("SELECT now, stamp FROM store")?;
        noted.query_row([], |row| Ok(Self { now: unsigned(row.get(0)?), stamp: unsigned(row.get(1)?) }))
    }

    pub(super) fn write(self, db: &Connection) -> Result<(), rusqlite::Error> {
        db.prepare_cached("UPDATE store SET now = ?1, stamp = ?2")?.execute([signed(self.now), signed(self.stamp)])?;
        Ok(())
    }
}

impl Time {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, latest: AtomicU64::new(0) }
    }

    /// By how much the newest instant is ahead of the machine's clock, if that is too much.
    pub(super) fn ahead(&self, stored_ms: u64) -> Option<Duration> {
        let newest = Duration::from_millis(stored_ms.max(self.latest.load(Ordering::Relaxed)));
        newest.checked_sub(self.clock.now()).filter(|ahead| *ahead > MOST_AHEAD)
    }

    /// Begin something: the time by the clock, or by what was stored if that is later.
    ///
    /// # Errors
    /// `unavailable` if the clock must have been set back.
    pub(super) fn moment<'c>(&self, db: &'c Connection) -> Result<Moment<'c>, super::error::Stop> {
        let noted = Noted::read(db)?;
        if self.ahead(noted.now).is_some() {
            let message = "the store was last written more than a day in the future of this machine's clock; set the \
                           clock, or run `keepline store repair`";
            return Err(failure(FailureCode::Unavailable, "clock", message).into());
        }
        let clock = micros(self.clock.now());
        let seen = noted.now.max(clock / 1000);
        let now_ms = self.latest.fetch_max(seen, Ordering::Relaxed).max(seen);
        Ok(Moment { db, now_ms, clock, stamp: Cell::new(noted.stamp), noted })
    }

    /// What the clock shows, for who repairs.
    pub(super) fn clock_ms(&self) -> u64 {
        micros(self.clock.now()) / 1000
    }
}

/// A transaction of SQLite's, and the one instant at which all that is done in it happens.
pub(super) struct Moment<'c> {
    pub(super) db: &'c Connection,
    pub(super) now_ms: u64,
    /// Microseconds.
    clock: u64,
    stamp: Cell<u64>,
    noted: Noted,
}

impl Moment<'_> {
    /// A number that nothing else in this store has: microseconds since 1970, where they are not taken.
    pub(super) fn next_stamp(&self) -> u64 {
        let stamp = self.clock.max(self.stamp.get().saturating_add(1));
        self.stamp.set(stamp);
        stamp
    }

    /// Store how far time and numbers are.
    pub(super) fn note(&self) -> Result<(), rusqlite::Error> {
        let noted = Noted { now: self.now_ms, stamp: self.stamp.get() };
        if (noted.now, noted.stamp) == (self.noted.now, self.noted.stamp) { Ok(()) } else { noted.write(self.db) }
    }

    /// As a column holds it.
    pub(super) fn now(&self) -> i64 {
        signed(self.now_ms)
    }
}

/// As a column holds it: what is larger is beyond everything stored.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What a column holds; nothing below 0 is ever stored.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
