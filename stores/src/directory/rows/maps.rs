//! Maps as rows, sorted by key.

use rusqlite::{OptionalExtension as _, Row, params};

use super::{BucketRows, PartKind, PartState};
use crate::{
    ChangedEntries, Entry, FoundEntries, GetAllOperation, GetOperation, SetOperation, Size,
    bucket::{BucketContents as _, page_entry_limit},
    directory::time::{from_column, to_column},
    names::VALUES,
};

/// An entry's text, as far as it was to be read.
pub(crate) struct BoundedText {
    bytes: u64,
    /// None: it is longer than asked for.
    pub(crate) text: Option<String>,
}

impl BucketRows<'_, '_> {
    /// The text of an entry if it has at most so many bytes; else, only how long it is. A longer one is not read: others
    /// may have written one of hundreds of megabytes.
    pub(crate) fn entry_within(&self, map: &str, key: &str, most: u64) -> Result<Option<BoundedText>, rusqlite::Error> {
        let Some(id) = self.load_part(PartKind::Map, map)?.id else { return Ok(None) };
        let mut found = self.prepare_statement(
            "SELECT octet_length(text), CASE WHEN octet_length(text) <= ?3 THEN text END FROM entry
             WHERE map = ?1 AND key = ?2",
        )?;
        let bounded = |row: &Row<'_>| Ok(BoundedText { bytes: from_column(row.get(0)?), text: row.get(1)? });
        found.query_row(params![id, key, to_column(most)], bounded).optional()
    }

    /// Set an entry and tell whether its key is new.
    pub(crate) fn set_entry(&self, map: &str, key: &str, text: &str) -> Result<bool, rusqlite::Error> {
        let mut part = self.load_part(PartKind::Map, map)?;
        if let Some(id) = part.id
            && self
                .prepare_statement("UPDATE entry SET text = ?3 WHERE map = ?1 AND key = ?2")?
                .execute(params![id, key, text])?
                > 0
        {
            return Ok(false);
        }
        let id = *part.id.get_or_insert_with(|| to_column(self.at.next_stamp()));
        self.prepare_statement("INSERT INTO entry VALUES (?1, ?2, ?3)")?.execute(params![id, key, text])?;
        part.length = part.length.saturating_add(1);
        self.set_part(PartKind::Map, map, part);
        self.count_values(u64::from(map == VALUES), 0);
        Ok(true)
    }

    /// Remove entries, or all of them, then put others.
    pub(crate) fn set(&self, step: &SetOperation) -> Result<ChangedEntries, rusqlite::Error> {
        let SetOperation { map_name, reset, remove, put } = step;
        if !reset {
            let removed = self.remove(map_name, remove)?;
            return Ok(ChangedEntries { added: self.put_entries(map_name, put)?, removed });
        }
        let before = self.load_part(PartKind::Map, map_name)?;
        let mut kept = 0;
        if let Some(id) = before.id {
            for entry in put {
                kept += u64::from(self.contains_entry(map_name, &entry.key)?);
            }
            self.mark_dead(id, i64::MAX)?;
            self.set_part(PartKind::Map, map_name, PartState::default());
        }
        let put = self.put_entries(map_name, put)?;
        if map_name == VALUES {
            self.count_values(0, kept);
        }
        Ok(ChangedEntries { added: put.saturating_sub(kept), removed: before.length.saturating_sub(kept) })
    }

    /// Set entries and tell how many are new.
    pub(crate) fn put_entries(&self, map: &str, entries: &[Entry]) -> Result<u64, rusqlite::Error> {
        let mut new = 0;
        for entry in entries {
            new += u64::from(self.set_entry(map, &entry.key, &entry.text)?);
        }
        Ok(new)
    }

    /// Remove entries and tell how many were there.
    fn remove(&self, map: &str, keys: &[String]) -> Result<u64, rusqlite::Error> {
        let mut part = self.load_part(PartKind::Map, map)?;
        let Some(id) = part.id else { return Ok(0) };
        let mut remove = self.prepare_statement("DELETE FROM entry WHERE map = ?1 AND key = ?2")?;
        let mut removed = 0;
        for key in keys {
            removed += remove.execute(params![id, key])? as u64;
        }
        part.length = part.length.saturating_sub(removed);
        if part.length == 0 {
            part = PartState::default();
        }
        self.set_part(PartKind::Map, map, part);
        Ok(removed)
    }

    /// The first of the keys of a map.
    pub(crate) fn keys(&self, map: &str, most: u64) -> Result<Vec<String>, rusqlite::Error> {
        let Some(id) = self.load_part(PartKind::Map, map)?.id else { return Ok(Vec::new()) };
        let mut keys = self.prepare_statement("SELECT key FROM entry WHERE map = ?1 ORDER BY key LIMIT ?2")?;
        keys.query_map([id, to_column(most)], |row| row.get(0))?.collect()
    }

    /// The entries with these keys, or how much they are. No more texts are read than fit.
    pub(crate) fn read_entries(&self, step: &GetOperation) -> Result<FoundEntries, rusqlite::Error> {
        let mut entries = Vec::new();
        let (mut count, mut bytes) = (0_u64, 0_u64);
        let mut room = self.room.borrow_mut();
        let max_bytes = room.bytes(step.max_bytes);
        for key in &step.keys {
            let Some(found) = self.entry_within(&step.map_name, key, max_bytes.saturating_sub(bytes))? else {
                continue;
            };
            bytes = bytes.saturating_add(found.bytes);
            match found.text {
                Some(text) => entries.push(Entry { key: key.clone(), text }),
                None => entries.clear(),
            }
            count += 1;
        }
        if bytes > max_bytes || count > room.pieces(u64::MAX) {
            return Ok(FoundEntries::oversize(Size { bytes, entries: count }));
        }
        room.consume(count, bytes);
        Ok(FoundEntries::new(entries, Vec::new()))
    }

    /// A page of a map, or all of it.
    pub(crate) fn read_map(&self, step: &GetAllOperation) -> Result<FoundEntries, rusqlite::Error> {
        let PartState { id, length, .. } = self.load_part(PartKind::Map, &step.map_name)?;
        match (id, &step.cursor) {
            (None, _) => Ok(FoundEntries::new(Vec::new(), Vec::new())),
            (Some(id), None) => self.read_all_entries(id, length, step),
            (Some(id), Some(cursor)) => self.read_page(id, cursor, step),
        }
    }

    /// All entries, or how much they are, as far as that was looked at.
    fn read_all_entries(&self, id: i64, length: u64, step: &GetAllOperation) -> Result<FoundEntries, rusqlite::Error> {
        let mut room = self.room.borrow_mut();
        let max_bytes = room.bytes(step.max_bytes);
        if length > room.pieces(step.max_entries) {
            return Ok(FoundEntries::oversize(Size { bytes: 0, entries: length }));
        }
        let mut all = self.prepare_statement(
            "SELECT key, octet_length(text), CASE WHEN octet_length(text) <= ?2 THEN text END FROM entry
             WHERE map = ?1 ORDER BY key",
        )?;
        // No text has fewer bytes than none, so that none is read.
        let longest = if step.keys_only { -1 } else { to_column(max_bytes) };
        let mut rows = all.query([id, longest])?;
        let (mut entries, mut bytes) = (Vec::new(), 0_u64);
        while let Some(row) = rows.next()? {
            let key: String = row.get(0)?;
            let length_of_text = if step.keys_only { 0 } else { from_column(row.get(1)?) };
            bytes = bytes.saturating_add(key.len() as u64).saturating_add(length_of_text);
            if bytes > max_bytes {
                return Ok(FoundEntries::oversize(Size { bytes, entries: length }));
            }
            let text = row.get::<_, Option<String>>(2)?.unwrap_or_default();
            entries.push(Entry { key, text });
        }
        room.consume(length, bytes);
        Ok(FoundEntries::new(entries, Vec::new()))
    }

    /// The entries that follow the cursor, which is the last key of the page before. One at least is named: a page is a
    /// step forward, room or not. Only texts that fit are read.
    fn read_page(&self, id: i64, cursor: &str, step: &GetAllOperation) -> Result<FoundEntries, rusqlite::Error> {
        let (mut entries, mut unreadable, mut next) = (Vec::new(), Vec::new(), String::new());
        let mut room = self.room.borrow_mut();
        let most = room.pieces(page_entry_limit(step.max_entries)).max(1);
        let max_bytes = room.bytes(step.max_bytes);
        let mut keys = self.prepare_statement(
            "SELECT key, octet_length(text) FROM entry WHERE map = ?1 AND key > ?2 ORDER BY key LIMIT ?3",
        )?;
        let mut rows = keys.query(params![id, cursor, to_column(most.saturating_add(1))])?;
        let (mut seen, mut last, mut bytes) = (0, String::new(), 0_u64);
        while let Some(row) = rows.next()? {
            if seen == most {
                next = last;
                break;
            }
            seen += 1;
            last = row.get(0)?;
            let length = if step.keys_only { 0 } else { from_column(row.get(1)?) };
            let longer = bytes.saturating_add(last.len() as u64).saturating_add(length);
            if longer > max_bytes {
                unreadable.push(last.clone());
                continue;
            }
            bytes = longer;
            let found = if step.keys_only { None } else { self.entry_within(&step.map_name, &last, max_bytes)? };
            let text = found.and_then(|found| found.text).unwrap_or_default();
            entries.push(Entry { key: last.clone(), text });
        }
        room.consume((entries.len() + unreadable.len()) as u64, bytes);
        Ok(FoundEntries::page(entries, unreadable, next))
    }
}
