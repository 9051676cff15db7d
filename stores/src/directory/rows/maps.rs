//! Maps as rows, sorted by key.

use rusqlite::{OptionalExtension as _, Row, params};

use super::{BucketRows, PartKind, PartState};
use crate::{
    Entry, EntryPage, FoundEntries, Outcome, PageOperation, ResetMapOperation, Size,
    bucket::{BucketContents as _, page_entry_limit},
    directory::time::{from_column, to_column},
    limits::MAX_VALUES,
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

    /// Set entries and tell how many are new.
    pub(crate) fn set_all(&self, map: &str, entries: &[Entry]) -> Result<u64, rusqlite::Error> {
        let mut new = 0;
        for entry in entries {
            new += u64::from(self.set_entry(map, &entry.key, &entry.text)?);
        }
        Ok(new)
    }

    /// Remove entries and tell how many were there.
    pub(crate) fn remove(&self, map: &str, keys: &[String]) -> Result<u64, rusqlite::Error> {
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

    /// Remove all entries, then set these. Tells how many there were.
    pub(crate) fn reset_map(&self, step: &ResetMapOperation) -> Result<u64, rusqlite::Error> {
        let ResetMapOperation { map_name, entries } = step;
        // What is set again is none that is created, and matters only near the limit.
        let mut again = 0;
        if map_name == VALUES
            && self.load_part(PartKind::Map, VALUES)?.length.saturating_add(entries.len() as u64) > MAX_VALUES
        {
            for entry in entries {
                again += u64::from(self.contains_entry(VALUES, &entry.key)?);
            }
        }
        let before = self.load_part(PartKind::Map, map_name)?;
        if let Some(id) = before.id {
            self.mark_dead(id, i64::MAX)?;
            self.set_part(PartKind::Map, map_name, PartState::default());
        }
        self.set_all(map_name, entries)?;
        self.count_values(0, again);
        Ok(before.length)
    }

    /// The first of the keys of a map.
    pub(crate) fn keys(&self, map: &str, most: u64) -> Result<Vec<String>, rusqlite::Error> {
        let Some(id) = self.load_part(PartKind::Map, map)?.id else { return Ok(Vec::new()) };
        let mut keys = self.prepare_statement("SELECT key FROM entry WHERE map = ?1 ORDER BY key LIMIT ?2")?;
        keys.query_map([id, to_column(most)], |row| row.get(0))?.collect()
    }

    /// The entries with these keys, or how much they are. No more texts are read than fit.
    pub(crate) fn read_entries(&self, map: &str, keys: &[String], max_bytes: u64) -> Result<Outcome, rusqlite::Error> {
        let mut entries = Vec::new();
        let (mut count, mut bytes) = (0_u64, 0_u64);
        let mut room = self.room.borrow_mut();
        let max_bytes = room.bytes(max_bytes);
        for key in keys {
            let Some(found) = self.entry_within(map, key, max_bytes.saturating_sub(bytes))? else { continue };
            bytes = bytes.saturating_add(found.bytes);
            match found.text {
                Some(text) => entries.push(Entry { key: key.clone(), text }),
                None => entries.clear(),
            }
            count += 1;
        }
        if bytes > max_bytes || count > room.pieces(u64::MAX) {
            return Ok(Outcome::Oversize(Size { bytes, entries: count }));
        }
        room.consume(count, bytes);
        Ok(found(entries))
    }

    /// All entries, or how much they are, as far as that was looked at.
    pub(crate) fn read_all_entries(
        &self,
        map: &str,
        max_entries: u64,
        max_bytes: u64,
    ) -> Result<Outcome, rusqlite::Error> {
        let PartState { id, length, .. } = self.load_part(PartKind::Map, map)?;
        let Some(id) = id else { return Ok(found(Vec::new())) };
        let mut room = self.room.borrow_mut();
        let max_bytes = room.bytes(max_bytes);
        if length > room.pieces(max_entries) {
            return Ok(Outcome::Oversize(Size { bytes: 0, entries: length }));
        }
        let mut all = self.prepare_statement(
            "SELECT key, octet_length(text), CASE WHEN octet_length(text) <= ?2 THEN text END FROM entry
             WHERE map = ?1 ORDER BY key",
        )?;
        let mut rows = all.query([id, to_column(max_bytes)])?;
        let (mut entries, mut bytes) = (Vec::new(), 0_u64);
        while let Some(row) = rows.next()? {
            let key: String = row.get(0)?;
            bytes = bytes.saturating_add(key.len() as u64).saturating_add(from_column(row.get(1)?));
            if bytes > max_bytes {
                return Ok(Outcome::Oversize(Size { bytes, entries: length }));
            }
            entries.push(Entry { key, text: row.get(2)? });
        }
        room.consume(length, bytes);
        Ok(found(entries))
    }

    /// The entries that follow the cursor, which is the last key of the page before. One at least is named: a page is a
    /// step forward, room or not. Only texts that fit are read.
    pub(crate) fn page(&self, step: &PageOperation) -> Result<EntryPage, rusqlite::Error> {
        let mut page = EntryPage::default();
        let Some(id) = self.load_part(PartKind::Map, &step.map_name)?.id else { return Ok(page) };
        let mut room = self.room.borrow_mut();
        let most = room.pieces(page_entry_limit(step.max_entries)).max(1);
        let max_bytes = room.bytes(step.max_bytes);
        let mut keys = self.prepare_statement(
            "SELECT key, octet_length(text) FROM entry WHERE map = ?1 AND key > ?2 ORDER BY key LIMIT ?3",
        )?;
        let mut rows = keys.query(params![id, step.cursor, to_column(most.saturating_add(1))])?;
        let (mut seen, mut last, mut bytes) = (0, String::new(), 0_u64);
        while let Some(row) = rows.next()? {
            if seen == most {
                page.cursor = last;
                break;
            }
            seen += 1;
            last = row.get(0)?;
            let length = if step.keys_only { 0 } else { from_column(row.get(1)?) };
            let longer = bytes.saturating_add(last.len() as u64).saturating_add(length);
            if longer > max_bytes {
                page.unreadable.push(last.clone());
                continue;
            }
            bytes = longer;
            let found = if step.keys_only { None } else { self.entry_within(&step.map_name, &last, max_bytes)? };
            let text = found.and_then(|found| found.text).unwrap_or_default();
            page.entries.push(Entry { key: last.clone(), text });
        }
        room.consume((page.entries.len() + page.unreadable.len()) as u64, bytes);
        Ok(page)
    }
}

fn found(entries: Vec<Entry>) -> Outcome {
    Outcome::Entries(FoundEntries { entries, unreadable: Vec::new() })
}
