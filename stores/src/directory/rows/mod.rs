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

use crate::{
    Description, IndexDescription, IndexExtent, LogDescription, LogExtent, MapDescription,
    bucket::{Contents, Expiry, Room, check_parts, check_values},
    directory::{
        error::Stop,
        time::{Moment, signed, unsigned},
    },
    index,
    limits::MAX_MATCHED_BYTES,
    names::VALUES,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Map = 0,
    Log = 1,
    Index = 2,
}

/// Where a map, a log or an index stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
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
struct Known {
    form: Form,
    name: String,
    now: Part,
    /// As the table has it.
    stored: Part,
    /// As it was when the transaction began.
    before: Part,
}

/// A bucket's rows. Nothing is looked at that is not asked for.
pub(crate) struct Rows<'a, 'c> {
    pub(crate) at: &'a Moment<'c>,
    life: i64,
    expiry: Expiry,
    parts: RefCell<Vec<Known>>,
    /// Leases that the transaction takes, and those that it gives back.
    leases: RefCell<(u64, u64)>,
    /// Values that it creates.
    created_values: Cell<u64>,
    /// For the answers that are still to come.
    pub(crate) room: RefCell<Room>,
    /// How many bytes of indexes may still be read for them.
    pub(crate) matched_bytes: Cell<u64>,
}

impl<'a, 'c> Rows<'a, 'c> {
    pub(crate) fn new(at: &'a Moment<'c>, stamp: u64, expiry: Expiry) -> Self {
        Self {
            at,
            life: signed(stamp),
            expiry,
            parts: RefCell::default(),
            leases: RefCell::default(),
            created_values: Cell::new(0),
            room: RefCell::new(Room::new()),
            matched_bytes: Cell::new(MAX_MATCHED_BYTES),
        }
    }

    pub(crate) fn life(&self) -> i64 {
        self.life
    }

    pub(crate) fn sql(&self, sql: &str) -> Result<CachedStatement<'c>, rusqlite::Error> {
        self.at.db.prepare_cached(sql)
    }

    pub(crate) fn part(&self, form: Form, name: &str) -> Result<Part, rusqlite::Error> {
        if let Some(known) = self.parts.borrow().iter().find(|known| known.form == form && known.name == name) {
            return Ok(known.now);
        }
        let mut part =
            self.sql("SELECT id, first, length, terms FROM part WHERE life = ?1 AND form = ?2 AND name = ?3")?;
        let stored = part.query_row(params![self.life, form as i64, name], |row| {
            let [first, length, terms] = [row.get(1)?, row.get(2)?, row.get(3)?].map(unsigned);
            Ok(Part { id: row.get(0)?, first, length, terms })
        });
        let stored = stored.optional()?.unwrap_or_default();
        let known = Known { form, name: name.to_owned(), now: stored, stored, before: stored };
        self.parts.borrow_mut().push(known);
        Ok(stored)
    }

    /// Say where a part stands that was [looked at](Self::part).
    pub(crate) fn set_part(&self, form: Form, name: &str, part: Part) {
        let mut parts = self.parts.borrow_mut();
        if let Some(known) = parts.iter_mut().find(|known| known.form == form && known.name == name) {
            known.now = part;
        }
    }

    /// Have rows erased that belong to nothing any more: those of a part before a position, or all of them.
    pub(crate) fn let_go(&self, id: i64, below: i64) -> Result<(), rusqlite::Error> {
        let mut dead = self.sql(
            "INSERT INTO dead VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET below = max(below, excluded.below)",
        )?;
        dead.execute([id, below])?;
        Ok(())
    }

    pub(crate) fn count_lease(&self, taken: u64, given_back: u64) {
        let mut leases = self.leases.borrow_mut();
        leases.0 += taken;
        leases.1 += given_back;
    }

    /// More values are created than were counted before, or fewer.
    pub(crate) fn count_values(&self, created: u64, again: u64) {
        self.created_values.set(self.created_values.get().saturating_add(created).saturating_sub(again));
    }

    /// Write back what changed of the parts.
    pub(crate) fn flush(&self) -> Result<(), rusqlite::Error> {
        for known in self.parts.borrow_mut().iter_mut().filter(|known| known.now != known.stored) {
            match known.now {
                Part { id: Some(id), first, length, terms } => {
                    let mut set = self.sql(
                        "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (life, form, name) DO UPDATE
                         SET id = excluded.id, first = excluded.first, length = excluded.length, terms = excluded.terms",
                    )?;
                    let [first, length, terms] = [first, length, terms].map(signed);
                    set.execute(params![self.life, known.form as i64, known.name, id, first, length, terms])?;
                }
                Part { id: None, .. } => {
                    let mut remove = self.sql("DELETE FROM part WHERE life = ?1 AND form = ?2 AND name = ?3")?;
                    remove.execute(params![self.life, known.form as i64, known.name])?;
                }
            }
            known.stored = known.now;
        }
        Ok(())
    }

    /// Write back what changed, and refuse more parts than a bucket may have.
    pub(crate) fn finish(self) -> Result<(), Stop> {
        self.flush()?;
        let (mut created, mut dropped) = *self.leases.borrow();
        for known in self.parts.borrow().iter().filter(|known| known.name != VALUES || known.form != Form::Map) {
            match (known.before.id.is_some(), known.now.id.is_some()) {
                (false, true) => created += 1,
                (true, false) => dropped += 1,
                _ => {}
            }
        }
        if created > 0 {
            let mut count = self.sql(
                "SELECT (SELECT count(*) FROM part WHERE life = ?1 AND NOT (form = 0 AND name = 'values'))
                 + (SELECT count(*) FROM lease WHERE life = ?1 AND ends_at > ?2)",
            )?;
            let now: i64 = count.query_row([self.life, self.at.now()], |row| row.get(0))?;
            let before = unsigned(now).saturating_add(dropped).saturating_sub(created);
            check_parts(before, created)?;
        }
        if self.created_values.get() > 0 {
            let parts = self.parts.borrow();
            let values = parts.iter().find(|known| known.form == Form::Map && known.name == VALUES);
            check_values(values.map_or(0, |values| values.before.length), self.created_values.get())?;
        }
        Ok(())
    }

    pub(crate) fn describe(&self, parts: bool) -> Result<Description, rusqlite::Error> {
        let (mut maps, mut logs, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
        if parts {
            self.flush()?;
            let mut all =
                self.sql("SELECT form, name, first, length, terms FROM part WHERE life = ?1 ORDER BY form, name")?;
            let mut rows = all.query([self.life])?;
            while let Some(row) = rows.next()? {
                let (form, name): (i64, String) = (row.get(0)?, row.get(1)?);
                let (first, length) = (unsigned(row.get(2)?), unsigned(row.get(3)?));
                if form == Form::Log as i64 {
                    logs.push(LogDescription { log: name, extent: LogExtent { first, length } });
                } else if form == Form::Index as i64 {
                    let bytes = index::bytes(length, unsigned(row.get(4)?));
                    let extent = IndexExtent { next: first, documents: length };
                    indexes.push(IndexDescription { index: name, extent, bytes });
                } else if name != VALUES {
                    maps.push(MapDescription { map_name: name, entries: length });
                }
            }
        }
        Ok(Description {
            time_to_live: self.expiry.time_to_live,
            expires_in: self.expiry.left(self.at.now_ms),
            values: self.part(Form::Map, VALUES)?.length,
            maps,
            logs,
            indexes,
        })
    }
}

impl Contents for Rows<'_, '_> {
    type Error = rusqlite::Error;

    fn is(&self, map: &str, key: &str, text: &str) -> Result<Option<bool>, rusqlite::Error> {
        let found = self.entry_within(map, key, text.len() as u64)?;
        Ok(found.map(|found| found.text.is_some_and(|found| found == text)))
    }

    fn has(&self, map: &str, key: &str) -> Result<bool, rusqlite::Error> {
        self.has_entry(map, key)
    }

    fn entries(&self, map: &str) -> Result<u64, rusqlite::Error> {
        Ok(self.part(Form::Map, map)?.length)
    }

    fn extent(&self, log: &str) -> Result<LogExtent, rusqlite::Error> {
        let Part { first, length, .. } = self.part(Form::Log, log)?;
        Ok(LogExtent { first, length })
    }
}
