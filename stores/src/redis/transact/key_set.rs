//! The parts and keys that a transaction touches: its script looks at each of them once, before it begins.

use std::collections::HashMap;

use crate::{IndexedTransaction, names::VALUES};

/// By name, in the order in which a request lists them.
#[derive(Default)]
pub(crate) struct KeySet<'a> {
    pub(crate) logs: NamePositions<'a>,
    /// But for the values.
    pub(crate) maps: NamePositions<'a>,
    pub(crate) indexes: NamePositions<'a>,
    pub(crate) lease: Option<&'a str>,
    /// Of values. Those that are set come first.
    pub(crate) keys: NamePositions<'a>,
    pub(crate) set_count: u64,
    /// Whether it touches the set of all keys.
    pub(crate) whole: bool,
}

impl<'a> KeySet<'a> {
    /// With the values that the transaction sets, before any other.
    pub(crate) fn new(request: &'a IndexedTransaction) -> Self {
        let mut key_set = Self::default();
        set_keys(request, VALUES).for_each(|key| _ = key_set.keys.position_of(key));
        key_set.set_count = key_set.keys.len() as u64;
        key_set
    }
}

/// Names, each once, with their places from 1.
#[derive(Default)]
pub(crate) struct NamePositions<'a> {
    names: Vec<&'a str>,
    positions: HashMap<&'a str, u64>,
}

impl<'a> NamePositions<'a> {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied()
    }

    /// The place of a name, which has one from now on.
    pub(crate) fn position_of(&mut self, name: &'a str) -> u64 {
        let next = self.names.len() as u64 + 1;
        let position = *self.positions.entry(name).or_insert(next);
        if position == next {
            self.names.push(name);
        }
        position
    }
}

pub(crate) fn set_keys<'a>(request: &'a IndexedTransaction, map: &str) -> impl Iterator<Item = &'a str> {
    request.set_entries().filter(move |(of, _)| *of == map).map(|(_, key)| key)
}
