//! A bucket within a transaction: its parts are read when they are first asked for and written back at the end.

pub(crate) mod buckets;
pub(crate) mod indexes;
pub(crate) mod leases;
pub(crate) mod logs;
pub(crate) mod maps;
pub(crate) mod operations;
pub(crate) mod writers;

use std::cell::{Cell, RefCell};

use rusqlite::{CachedStatement, OptionalExtension as _, params};

use self::buckets::BucketRow;
use crate::{
    BucketPart, Description, IndexExtent, LogExtent,
    bucket::{BucketContents, Expiry, LeaseChange, TransactionBudget, check_parts, check_values},
    directory::{
        error::TransactionError,
        time::{TransactionContext, from_column, to_column},
    },
    index,
    limits::MAX_SEARCHED_BYTES,
    names::VALUES,
    part,
    transfer::metadata,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Map = 0,
    Log = 1,
    Index = 2,
}

/// Where a map, a log or an index stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartState {
    /// What its rows go by; none: it is not there.
    pub(crate) id: Option<i64>,
    /// Of a log. Of an index, one more than its highest position.
    pub(crate) first: u64,
    /// Of an index, how many documents it has.
    pub(crate) length: u64,
    /// Of an index.
    pub(crate) terms: u64,
}

#[derive(Debug)]
struct CachedPart {
    form: PartKind,
    name: String,
    now: PartState,
    /// As the table has it.
    stored: PartState,
    /// As it was when the transaction began.
    before: PartState,
}

/// A bucket's rows. Nothing is looked at that is not asked for.
pub(crate) struct BucketRows<'a, 'c> {
    pub(crate) at: &'a TransactionContext<'c>,
    life: i64,
    created_at: u64,
    expiry: Expiry,
    parts: RefCell<Vec<CachedPart>>,
    /// What the transaction does to a lease.
    lease: Cell<LeaseChange>,
    /// Values that it creates.
    created_values: Cell<u64>,
    /// For the answers that are still to come.
    pub(crate) room: RefCell<TransactionBudget>,
    /// How many bytes of indexes may still be read for them.
    pub(crate) searched_bytes: Cell<u64>,
}

impl<'a, 'c> BucketRows<'a, 'c> {
    pub(crate) fn new(at: &'a TransactionContext<'c>, bucket: &BucketRow) -> Self {
        Self {
            at,
            life: to_column(bucket.stamp),
            created_at: metadata::created_at_ms(&bucket.generation),
            expiry: bucket.expiry,
            parts: RefCell::default(),
            lease: Cell::new(LeaseChange::Unchanged),
            created_values: Cell::new(0),
            room: RefCell::new(TransactionBudget::new()),
            searched_bytes: Cell::new(MAX_SEARCHED_BYTES),
        }
    }

    pub(crate) fn prepare_statement(&self, sql: &str) -> Result<CachedStatement<'c>, rusqlite::Error> {
        self.at.db.prepare_cached(sql)
    }

    pub(crate) fn load_part(&self, form: PartKind, name: &str) -> Result<PartState, rusqlite::Error> {
        if let Some(known) = self.parts.borrow().iter().find(|known| known.form == form && known.name == name) {
            return Ok(known.now);
        }
        let mut part = self.prepare_statement(
            "SELECT id, first, length, terms FROM part WHERE life = ?1 AND form = ?2 AND name = ?3",
        )?;
        let stored = part.query_row(params![self.life, form as i64, name], |row| {
            let [first, length, terms] = [row.get(1)?, row.get(2)?, row.get(3)?].map(from_column);
            Ok(PartState { id: row.get(0)?, first, length, terms })
        });
        let stored = stored.optional()?.unwrap_or_default();
        let known = CachedPart { form, name: name.to_owned(), now: stored, stored, before: stored };
        self.parts.borrow_mut().push(known);
        Ok(stored)
    }

    /// Say where a part stands that was [looked at](Self::part).
    pub(crate) fn set_part(&self, form: PartKind, name: &str, part: PartState) {
        let mut parts = self.parts.borrow_mut();
        if let Some(known) = parts.iter_mut().find(|known| known.form == form && known.name == name) {
            known.now = part;
        }
    }

    /// Have rows erased that belong to nothing any more: those of a part before a position, or all of them.
    pub(crate) fn mark_dead(&self, id: i64, below: i64) -> Result<(), rusqlite::Error> {
        let mut dead = self.prepare_statement(
            "INSERT INTO dead VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET below = max(below, excluded.below)",
        )?;
        dead.execute([id, below])?;
        Ok(())
    }

    /// More values are created than were counted before, or fewer.
    pub(crate) fn count_values(&self, created: u64, again: u64) {
        self.created_values.set(self.created_values.get().saturating_add(created).saturating_sub(again));
    }

    /// Write back what changed of the parts.
    pub(crate) fn flush(&self) -> Result<(), rusqlite::Error> {
        for known in self.parts.borrow_mut().iter_mut().filter(|known| known.now != known.stored) {
            match known.now {
                PartState { id: Some(id), first, length, terms } => {
                    let mut set = self.prepare_statement(
                        "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (life, form, name) DO UPDATE
                         SET id = excluded.id, first = excluded.first, length = excluded.length, terms = excluded.terms",
                    )?;
                    let [first, length, terms] = [first, length, terms].map(to_column);
                    set.execute(params![self.life, known.form as i64, known.name, id, first, length, terms])?;
                }
                PartState { id: None, .. } => {
                    let mut remove =
                        self.prepare_statement("DELETE FROM part WHERE life = ?1 AND form = ?2 AND name = ?3")?;
                    remove.execute(params![self.life, known.form as i64, known.name])?;
                }
            }
            known.stored = known.now;
        }
        Ok(())
    }

    /// Write back what changed, and refuse more parts than a bucket may have.
    pub(crate) fn flush_and_check_limits(self) -> Result<(), TransactionError> {
        self.flush()?;
        let lease = self.lease.get();
        let mut created = u64::from(lease == LeaseChange::Taken);
        let mut dropped = u64::from(lease == LeaseChange::GivenBack);
        for known in self.parts.borrow().iter().filter(|known| known.name != VALUES || known.form != PartKind::Map) {
            match (known.before.id.is_some(), known.now.id.is_some()) {
                (false, true) => created += 1,
                (true, false) => dropped += 1,
                _ => {}
            }
        }
        if created > 0 {
            let mut count = self.prepare_statement(
                "SELECT (SELECT count(*) FROM part WHERE life = ?1 AND NOT (form = 0 AND name = 'values'))
                 + (SELECT count(*) FROM lease WHERE life = ?1 AND ends_at > ?2)",
            )?;
            let now: i64 = count.query_row([self.life, self.at.now_as_column()], |row| row.get(0))?;
            let before = from_column(now).saturating_add(dropped).saturating_sub(created);
            check_parts(before, created)?;
        }
        if self.created_values.get() > 0 {
            let parts = self.parts.borrow();
            let values = parts.iter().find(|known| known.form == PartKind::Map && known.name == VALUES);
            check_values(values.map_or(0, |values| values.before.length), self.created_values.get())?;
        }
        Ok(())
    }

    /// All parts but `values`, by the names of their kinds.
    fn list_parts(&self) -> Result<Vec<BucketPart>, rusqlite::Error> {
        self.flush()?;
        let mut all = self.prepare_statement(
            "SELECT CASE form WHEN 0 THEN 'map' WHEN 1 THEN 'log' ELSE 'index' END AS kind, name, first, length, terms
             FROM part WHERE life = ?1 AND NOT (form = 0 AND name = 'values') ORDER BY kind, name",
        )?;
        let parts = all.query_map([self.life], |row| {
            let kind: String = row.get(0)?;
            let [position, count, occurrences] = [row.get(2)?, row.get(3)?, row.get(4)?].map(from_column);
            let bytes = index::estimate_bytes(&IndexExtent { next: position, documents: count, occurrences });
            let bytes = if kind == part::INDEX { bytes } else { 0 };
            Ok(BucketPart { kind, name: row.get(1)?, position, count, bytes })
        })?;
        parts.collect()
    }

    pub(crate) fn describe(&self, parts: bool) -> Result<Description, rusqlite::Error> {
        Ok(Description {
            time_to_live: self.expiry.time_to_live,
            created_at: self.created_at,
            expires_in: self.expiry.remaining_ms(self.at.now_ms),
            values: self.load_part(PartKind::Map, VALUES)?.length,
            parts: if parts { self.list_parts()? } else { Vec::new() },
        })
    }
}

impl BucketContents for BucketRows<'_, '_> {
    type Error = rusqlite::Error;

    fn entry_equals(&self, map: &str, key: &str, text: &str) -> Result<Option<bool>, rusqlite::Error> {
        let found = self.entry_within(map, key, text.len() as u64)?;
        Ok(found.map(|found| found.text.is_some_and(|found| found == text)))
    }

    fn contains_entry(&self, map: &str, key: &str) -> Result<bool, rusqlite::Error> {
        let Some(id) = self.load_part(PartKind::Map, map)?.id else { return Ok(false) };
        self.prepare_statement("SELECT 1 FROM entry WHERE map = ?1 AND key = ?2")?.exists(params![id, key])
    }

    fn count_entries(&self, map: &str) -> Result<u64, rusqlite::Error> {
        Ok(self.load_part(PartKind::Map, map)?.length)
    }

    fn log_extent(&self, log: &str) -> Result<LogExtent, rusqlite::Error> {
        Ok(self.load_part(PartKind::Log, log)?.log_extent())
    }
}
