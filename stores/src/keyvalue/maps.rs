//! Maps: what a transaction reads of them and writes to them.

use super::{
    Fault,
    contents::{Contents, entry_key, map_range},
    head::MapState,
    node::{Key, Text},
    tree::KeyRange,
};
use crate::{
    ChangedEntries, Entry, FoundEntries, GetAllOperation, GetOperation, SetOperation, Size,
    bucket::{BucketContents as _, page_entry_limit},
    names::VALUES,
};

impl Contents<'_> {
    /// Set an entry and tell whether its key is new.
    pub(super) fn set_entry(&self, map: &str, key: &str, text: &str) -> Result<bool, Fault> {
        let mut state = self.map(map);
        let before = self.tree.borrow_mut().put(&entry_key(map, key), text)?;
        state.bytes = state.bytes.saturating_add(text.len() as u64);
        match before {
            Some(bytes) => state.bytes = state.bytes.saturating_sub(bytes),
            None => {
                state.entries = state.entries.saturating_add(1);
                state.bytes = state.bytes.saturating_add(key.len() as u64);
                self.count_values(u64::from(map == VALUES), 0);
            }
        }
        self.set_map(map, state);
        Ok(before.is_none())
    }

    /// Remove entries, or all of them, then put others.
    pub(super) fn set(&self, step: &SetOperation) -> Result<ChangedEntries, Fault> {
        let SetOperation { map_name, reset, remove, put } = step;
        if !reset {
            let removed = self.remove(map_name, remove)?;
            return Ok(ChangedEntries { added: self.put_entries(map_name, put)?, removed });
        }
        let before = self.map(map_name);
        let mut kept = 0;
        if before.entries > 0 {
            for entry in put {
                kept += u64::from(self.contains_entry(map_name, &entry.key)?);
            }
            self.tree.borrow_mut().remove_range(&map_range(map_name))?;
            self.set_map(map_name, MapState::default());
        }
        let put = self.put_entries(map_name, put)?;
        if map_name == VALUES {
            self.count_values(0, kept);
        }
        Ok(ChangedEntries { added: put.saturating_sub(kept), removed: before.entries.saturating_sub(kept) })
    }

    fn put_entries(&self, map: &str, entries: &[Entry]) -> Result<u64, Fault> {
        let mut new = 0;
        for entry in entries {
            new += u64::from(self.set_entry(map, &entry.key, &entry.text)?);
        }
        Ok(new)
    }

    /// Remove entries and tell how many were there.
    fn remove(&self, map: &str, keys: &[String]) -> Result<u64, Fault> {
        let (mut state, mut removed) = (self.map(map), 0);
        for key in keys.iter().filter(|_| state.entries > 0) {
            if let Some(bytes) = self.tree.borrow_mut().remove(&entry_key(map, key))? {
                removed += 1;
                state.bytes = state.bytes.saturating_sub(bytes).saturating_sub(key.len() as u64);
            }
        }
        state.entries = state.entries.saturating_sub(removed);
        self.set_map(map, state);
        Ok(removed)
    }

    /// The first of the keys of a map.
    pub(super) fn keys(&self, map: &str, most: u64) -> Result<Vec<String>, Fault> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let found = self.tree.borrow_mut().scan(&map_range(map), most)?;
        Ok(found.into_iter().map(|(key, _)| name_of(map, &key)).collect())
    }

    /// The entries with these keys, or how much they are. No texts are read that don't fit.
    pub(super) fn read_entries(&self, step: &GetOperation) -> Result<FoundEntries, Fault> {
        let mut found = Vec::new();
        for key in &step.keys {
            found.extend(self.entry(&step.map_name, key)?.map(|text| (key.clone(), text)));
        }
        let bytes = found.iter().fold(0_u64, |sum, (_, text)| sum.saturating_add(text.bytes()));
        let count = found.len() as u64;
        let mut room = self.room.borrow_mut();
        if bytes > room.bytes(step.max_bytes) || count > room.pieces(u64::MAX) {
            return Ok(FoundEntries::oversize(Size { bytes, entries: count }));
        }
        room.consume(count, bytes);
        Ok(FoundEntries::new(self.returned(found, false)?, Vec::new()))
    }

    /// A page of a map, or all of it.
    pub(super) fn read_map(&self, step: &GetAllOperation) -> Result<FoundEntries, Fault> {
        match &step.cursor {
            None => self.read_all_entries(step),
            Some(cursor) => self.read_page(cursor, step),
        }
    }

    /// All entries, or how much they are.
    fn read_all_entries(&self, step: &GetAllOperation) -> Result<FoundEntries, Fault> {
        let MapState { entries, mut bytes } = self.map(&step.map_name);
        let mut room = self.room.borrow_mut();
        let is_too_many = entries > room.pieces(step.max_entries);
        let most = room.bytes(step.max_bytes);
        if is_too_many || (bytes > most && !step.keys_only) {
            return Ok(FoundEntries::oversize(Size { bytes, entries }));
        }
        let found = self.tree.borrow_mut().scan(&map_range(&step.map_name), usize::MAX)?;
        let found: Vec<_> = found.into_iter().map(|(key, text)| (name_of(&step.map_name, &key), text)).collect();
        if step.keys_only {
            bytes = found.iter().map(|(key, _)| key.len() as u64).sum();
            if bytes > most {
                return Ok(FoundEntries::oversize(Size { bytes, entries }));
            }
        }
        room.consume(entries, bytes);
        Ok(FoundEntries::new(self.returned(found, step.keys_only)?, Vec::new()))
    }

    /// The entries that follow the cursor, which is the last key of the page before. One at least is named: a page is a
    /// step forward, room or not. Only texts that fit are read.
    fn read_page(&self, cursor: &str, step: &GetAllOperation) -> Result<FoundEntries, Fault> {
        let mut room = self.room.borrow_mut();
        let most = usize::try_from(room.pieces(page_entry_limit(step.max_entries)).max(1)).unwrap_or(usize::MAX);
        let max_bytes = room.bytes(step.max_bytes);
        let mut range = map_range(&step.map_name);
        if !cursor.is_empty() {
            range.from = KeyRange::only(&entry_key(&step.map_name, cursor)).to;
        }
        let mut found = self.tree.borrow_mut().scan(&range, most.saturating_add(1))?;
        let is_more = found.len() > most;
        found.truncate(most);
        let (mut fitting, mut unreadable, mut bytes, mut last) = (Vec::new(), Vec::new(), 0_u64, String::new());
        for (key, text) in found {
            let key = name_of(&step.map_name, &key);
            last.clone_from(&key);
            let length = if step.keys_only { 0 } else { text.bytes() };
            let longer = bytes.saturating_add(key.len() as u64).saturating_add(length);
            if longer > max_bytes {
                unreadable.push(key);
                continue;
            }
            bytes = longer;
            fitting.push((key, text));
        }
        room.consume((fitting.len() + unreadable.len()) as u64, bytes);
        let entries = self.returned(fitting, step.keys_only)?;
        Ok(FoundEntries::page(entries, unreadable, if is_more { last } else { String::new() }))
    }

    fn returned(&self, found: Vec<(String, Text)>, keys_only: bool) -> Result<Vec<Entry>, Fault> {
        let mut tree = self.tree.borrow_mut();
        if !keys_only {
            tree.load_texts(found.iter().map(|(_, text)| text))?;
        }
        let text = |text| if keys_only { String::new() } else { tree.read_text(text) };
        Ok(found.into_iter().map(|(key, found)| Entry { key, text: text(found) }).collect())
    }
}

/// The name of an entry of a map, from its key in the tree.
fn name_of(map: &str, key: &Key) -> String {
    let name = key.get(map.len() + 2..).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
