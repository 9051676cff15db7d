//! What a bucket holds, within a transaction: maps and logs as keys of one tree, and where each of them stands.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use super::{
    Fault,
    head::{Head, MapState},
    node::{Key, Text},
    parts::Parts,
    tree::{KeyRange, Tree},
};
use crate::{
    BucketPart, Description, LogExtent,
    bucket::{BucketContents, Expiry, TransactionBudget, check_parts, check_values},
    names::VALUES,
    part,
};

const MAP: u8 = b'm';
const LOG: u8 = b'l';

/// The key of an entry.
pub(super) fn entry_key(map: &str, key: &str) -> Key {
    [&[MAP], map.as_bytes(), &[0], key.as_bytes()].concat()
}

/// The key of a record. Positions are in order: a longer number is a larger one.
pub(super) fn record_key(log: &str, position: u64) -> Key {
    let bytes = position.to_be_bytes();
    let zeros = position.leading_zeros() as usize / 8;
    let number = bytes.get(zeros..).unwrap_or_default();
    [&[LOG], log.as_bytes(), &[0, number.len() as u8], number].concat()
}

/// Whether a key is that of a record.
pub(super) fn is_record(key: &[u8]) -> bool {
    key.first() == Some(&LOG)
}

/// All entries of a map.
pub(super) fn map_range(map: &str) -> KeyRange {
    KeyRange { from: entry_key(map, ""), to: [&[MAP], map.as_bytes(), &[1]].concat() }
}

/// The records from one position up to, and without, another.
pub(super) fn record_range(log: &str, from: u64, to: u64) -> KeyRange {
    KeyRange { from: record_key(log, from), to: record_key(log, to) }
}

/// A bucket's maps and logs. Nothing is read that is not asked for.
pub(super) struct Contents<'a> {
    pub(super) tree: RefCell<Tree<'a>>,
    maps: RefCell<BTreeMap<String, MapState>>,
    logs: RefCell<BTreeMap<String, LogExtent>>,
    /// How many maps beside `values`, and logs, there were when the transaction began, and which.
    before: (BTreeMap<String, MapState>, BTreeMap<String, LogExtent>),
    /// Values that it creates.
    created_values: Cell<u64>,
    /// For the answers that are still to come.
    pub(super) room: RefCell<TransactionBudget>,
    created_at: u64,
    expiry: Expiry,
    now_ms: u64,
}

impl<'a> Contents<'a> {
    /// The contents that a head has, which is left without them until they are [put back](Self::into_head).
    pub(super) fn of(head: &mut Head, parts: Parts<'a>, now_ms: u64) -> Self {
        let root = std::mem::replace(&mut head.root, super::node::Node::EMPTY);
        Self {
            tree: RefCell::new(Tree::new(parts, root)),
            before: (head.maps.clone(), head.logs.clone()),
            maps: RefCell::new(std::mem::take(&mut head.maps)),
            logs: RefCell::new(std::mem::take(&mut head.logs)),
            created_values: Cell::new(0),
            room: RefCell::new(TransactionBudget::new()),
            created_at: head.created_at,
            expiry: head.expiry,
            now_ms,
        }
    }

    pub(super) fn into_head(self, head: &mut Head) {
        head.maps = self.maps.into_inner();
        head.logs = self.logs.into_inner();
        head.root = self.tree.into_inner().into_root();
    }

    pub(super) fn map(&self, name: &str) -> MapState {
        self.maps.borrow().get(name).copied().unwrap_or_default()
    }

    pub(super) fn set_map(&self, name: &str, map: MapState) {
        let mut maps = self.maps.borrow_mut();
        if map.entries == 0 {
            maps.remove(name);
        } else if let Some(known) = maps.get_mut(name) {
            *known = map;
        } else {
            maps.insert(name.to_owned(), map);
        }
    }

    pub(super) fn log(&self, name: &str) -> LogExtent {
        self.logs.borrow().get(name).copied().unwrap_or(LogExtent { first: 0, length: 0 })
    }

    pub(super) fn set_log(&self, name: &str, log: LogExtent) {
        let mut logs = self.logs.borrow_mut();
        if let Some(known) = logs.get_mut(name) {
            *known = log;
        } else {
            logs.insert(name.to_owned(), log);
        }
    }

    pub(super) fn entry(&self, map: &str, key: &str) -> Result<Option<Text>, Fault> {
        if self.map(map).entries == 0 {
            return Ok(None);
        }
        self.tree.borrow_mut().get(&entry_key(map, key))
    }

    /// More values are created than were counted before, or fewer.
    pub(super) fn count_values(&self, created: u64, again: u64) {
        self.created_values.set(self.created_values.get().saturating_add(created).saturating_sub(again));
    }

    /// Refuses more parts or values than a bucket may have.
    pub(super) fn check_limits(&self) -> Result<(), Fault> {
        let (maps, logs) = &self.before;
        let is_other = |name: &&String| *name != VALUES;
        let before = maps.keys().filter(is_other).count() + logs.len();
        let new_maps = self.maps.borrow().keys().filter(is_other).filter(|name| !maps.contains_key(*name)).count();
        let new_logs = self.logs.borrow().keys().filter(|name| !logs.contains_key(*name)).count();
        check_parts(before as u64, (new_maps + new_logs) as u64)?;
        check_values(maps.get(VALUES).map_or(0, |values| values.entries), self.created_values.get())?;
        Ok(())
    }

    pub(super) fn describe(&self, parts: bool) -> Description {
        Description {
            time_to_live: self.expiry.time_to_live,
            created_at: self.created_at,
            expires_in: self.expiry.remaining_ms(self.now_ms),
            values: self.map(VALUES).entries,
            parts: if parts { self.list_parts() } else { Vec::new() },
        }
    }

    /// Sorted by kind and name.
    fn list_parts(&self) -> Vec<BucketPart> {
        let part = |kind: &str, name: &str, position, count| BucketPart {
            kind: kind.to_owned(),
            name: name.to_owned(),
            position,
            count,
            bytes: 0,
        };
        let (maps, logs) = (self.maps.borrow(), self.logs.borrow());
        let logs = logs.iter().map(|(name, log)| part(part::LOG, name, log.first, log.length));
        let maps = maps.iter().filter(|(name, _)| *name != VALUES);
        logs.chain(maps.map(|(name, map)| part(part::MAP, name, 0, map.entries))).collect()
    }
}

impl BucketContents for Contents<'_> {
    type Error = Fault;

    fn entry_equals(&self, map: &str, key: &str, text: &str) -> Result<Option<bool>, Fault> {
        let Some(found) = self.entry(map, key)? else { return Ok(None) };
        if found.bytes() != text.len() as u64 {
            return Ok(Some(false));
        }
        let mut tree = self.tree.borrow_mut();
        tree.load_texts([&found])?;
        Ok(Some(tree.read_text(found) == text))
    }

    fn contains_entry(&self, map: &str, key: &str) -> Result<bool, Fault> {
        Ok(self.entry(map, key)?.is_some())
    }

    fn count_entries(&self, map: &str) -> Result<u64, Fault> {
        Ok(self.map(map).entries)
    }

    fn log_extent(&self, log: &str) -> Result<LogExtent, Fault> {
        Ok(self.log(log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_records_are_in_the_order_of_their_positions() {
        let positions = [0, 1, 2, 255, 256, 257, 65_535, 65_536, 1 << 40, u64::MAX];
        let keys = positions.map(|position| record_key("history", position));
        assert!(keys.is_sorted());
        assert!(keys.iter().all(|key| is_record(key)));
        assert!(record_key("history", u64::MAX) < record_key("history-2", 0));
    }

    #[test]
    fn a_map_has_its_own_keys_and_no_others() {
        let range = map_range("a");
        let inside = |key: &Key| (&range.from..&range.to).contains(&key);
        assert!(inside(&entry_key("a", "!")) && inside(&entry_key("a", &"~".repeat(256))));
        assert!(!inside(&entry_key("a-b", "k")) && !inside(&entry_key("b", "k")) && !inside(&record_key("a", 1)));
    }
}
