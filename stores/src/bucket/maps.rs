//! Maps: key → text, sorted by key.

use std::{collections::BTreeMap, ops::Bound};

use compact_str::CompactString;

use super::{room::TransactionBudget, saturating_usize};
use crate::{Entry, FoundEntries, GetAllOperation, Size, limits::PAGE};

/// What a map takes beside its name and entries: places in nodes of trees that are mostly theirs alone.
const MAP_OVERHEAD: u64 = 1152;
/// What an entry takes beside its key and text.
const ENTRY_OVERHEAD: u64 = 128;

#[derive(Debug, Default)]
pub(crate) struct BucketMap {
    entries: BTreeMap<CompactString, CompactString>,
    /// Keys and texts together, in bytes.
    bytes: u64,
}

impl BucketMap {
    pub(super) const EMPTY: Self = Self { entries: BTreeMap::new(), bytes: 0 };

    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, key: &str) -> Option<&CompactString> {
        self.entries.get(key)
    }

    /// The first of the keys.
    pub(super) fn keys(&self, most: u64) -> Vec<String> {
        self.entries.keys().take(saturating_usize(most)).map(ToString::to_string).collect()
    }

    pub(super) fn cost(&self) -> u64 {
        self.len().saturating_mul(ENTRY_OVERHEAD).saturating_add(self.bytes)
    }

    #[cfg(test)]
    pub(super) fn counted_cost(&self) -> u64 {
        self.entries.iter().map(|(key, text)| entry_cost(key, text.len())).sum()
    }

    /// Set an entry and tell whether its key is new.
    pub(super) fn set(&mut self, key: &str, text: &str) -> bool {
        let added = text.len() as u64;
        if let Some(place) = self.entries.get_mut(key) {
            self.bytes = self.bytes.saturating_sub(place.len() as u64).saturating_add(added);
            // In its place, if it is about as long: that one was just read, and a new one is not in the cache.
            if (text.len()..text.len() + text.len() / 16 + 32).contains(&place.capacity()) {
                place.clear();
                place.push_str(text);
            } else {
                *place = text.into();
            }
            return false;
        }
        self.bytes = self.bytes.saturating_add(added).saturating_add(key.len() as u64);
        self.entries.insert(key.into(), text.into());
        true
    }

    /// Remove an entry and tell whether it was there.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        let Some(text) = self.entries.remove(key) else { return false };
        self.bytes = self.bytes.saturating_sub((key.len() + text.len()) as u64);
        true
    }

    /// The entries with these keys, or how much they are.
    pub(super) fn read_entries(&self, keys: &[String], max_bytes: u64, room: &mut TransactionBudget) -> FoundEntries {
        let found = || keys.iter().filter_map(|key| Some((key, self.entries.get(&**key)?)));
        let (count, bytes) = found().fold((0_u64, 0_u64), |(count, bytes), (_, text)| {
            (count.saturating_add(1), bytes.saturating_add(text.len() as u64))
        });
        if bytes > room.bytes(max_bytes) || count > room.pieces(u64::MAX) {
            return FoundEntries::oversize(Size { bytes, entries: count });
        }
        room.consume(count, bytes);
        let entries = found().map(|(key, text)| Entry { key: key.clone(), text: text.to_string() }).collect();
        FoundEntries { entries, missing: None }
    }

    /// All entries, or how much they are; or a page of them.
    pub(super) fn read_all_entries(&self, step: &GetAllOperation, room: &mut TransactionBudget) -> FoundEntries {
        if let Some(cursor) = &step.cursor {
            return self.page(cursor, step, room);
        }
        let is_too_many = self.len() > room.pieces(step.max_entries);
        let bytes = if step.keys_only && !is_too_many {
            self.entries.keys().map(|key| key.len() as u64).sum()
        } else {
            self.bytes
        };
        if is_too_many || bytes > room.bytes(step.max_bytes) {
            return FoundEntries::oversize(Size { bytes, entries: self.len() });
        }
        room.consume(self.len(), bytes);
        let entries = self.entries.iter().map(|(key, text)| returned_entry(key, text, step.keys_only)).collect();
        FoundEntries { entries, missing: None }
    }

    /// The entries that follow the cursor, which is the last key of the page before. One at least is named: a page is
    /// a step forward, room or not.
    fn page(&self, cursor: &str, step: &GetAllOperation, room: &mut TransactionBudget) -> FoundEntries {
        let most = room.pieces(page_entry_limit(step.max_entries)).max(1);
        let max_bytes = room.bytes(step.max_bytes);
        let mut rest = self.entries.range::<str, _>((Bound::Excluded(cursor), Bound::Unbounded));
        let (mut entries, mut unreadable, mut last, mut bytes) = (Vec::new(), Vec::new(), None, 0_u64);
        for (key, text) in rest.by_ref().take(saturating_usize(most)) {
            last = Some(key);
            let entry = returned_entry(key, text, step.keys_only);
            let longer = bytes.saturating_add((entry.key.len() + entry.text.len()) as u64);
            if longer > max_bytes {
                unreadable.push(entry.key);
            } else {
                bytes = longer;
                entries.push(entry);
            }
        }
        room.consume((entries.len() + unreadable.len()) as u64, bytes);
        let cursor = rest.next().and(last).map(ToString::to_string).unwrap_or_default();
        FoundEntries::page(entries, unreadable, cursor)
    }
}

fn returned_entry(key: &str, text: &str, key_only: bool) -> Entry {
    Entry { key: key.to_owned(), text: if key_only { String::new() } else { text.to_owned() } }
}

/// How many entries a page is asked for.
pub(crate) fn page_entry_limit(max_entries: u64) -> u64 {
    if max_entries == 0 { PAGE } else { max_entries }
}

pub(super) fn entry_cost(key: &str, length: usize) -> u64 {
    ENTRY_OVERHEAD.saturating_add((key.len() + length) as u64)
}

pub(super) fn map_cost(name: &str) -> u64 {
    MAP_OVERHEAD.saturating_add(name.len() as u64)
}
