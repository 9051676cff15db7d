//! The parts and keys that a transaction touches: its script looks at each of them once, before it begins.

use std::{collections::HashMap, iter};

use crate::{Expectation, Operation, PositionMark, Transaction, names::VALUES};

/// By name, in the order in which a request lists them.
#[derive(Default)]
pub(crate) struct KeySet<'a> {
    pub(crate) logs: Names<'a>,
    /// But for the values.
    pub(crate) maps: Names<'a>,
    pub(crate) leases: Names<'a>,
    pub(crate) indexes: Names<'a>,
    /// Of values. Those that are set come first.
    pub(crate) keys: Names<'a>,
    pub(crate) set_count: u64,
    /// Whether it touches the set of all keys.
    pub(crate) whole: bool,
}

impl<'a> KeySet<'a> {
    pub(crate) fn by(transaction: &'a Transaction) -> Self {
        let mut key_set = Self::default();
        each_set_key(&transaction.operations, VALUES, |key| key_set.keys.insert(key));
        key_set.set_count = key_set.keys.len() as u64;
        for expectation in &transaction.expectations {
            match expectation {
                Expectation::Entry(expected) => key_set.entries(&expected.map_name, iter::once(&*expected.key)),
                Expectation::Log(expected) => key_set.logs.insert(&expected.log),
                Expectation::Room(expected) => key_set.entries(&expected.map_name, iter::empty()),
            }
        }
        for operation in &transaction.operations {
            match operation {
                Operation::Get(get) => key_set.entries(&get.map_name, get.keys.iter().map(String::as_str)),
                Operation::GetAll(all) => key_set.map(&all.map_name),
                Operation::Page(page) => key_set.map(&page.map_name),
                Operation::Put(put) => key_set.entries(&put.map_name, iter::empty()),
                Operation::Increment(increment) => key_set.entries(&increment.map_name, iter::empty()),
                Operation::Remove(remove) => {
                    key_set.entries(&remove.map_name, remove.keys.iter().map(String::as_str));
                }
                Operation::ResetMap(reset) => key_set.map(&reset.map_name),
                Operation::Append(append) => key_set.appended(&append.log, &append.marks),
                Operation::Read(read) => key_set.logs.insert(&read.log),
                Operation::ReadAt(read) => key_set.logs.insert(&read.log),
                Operation::Overflow(overflow) => key_set.logs.insert(&overflow.log),
                Operation::ReplaceOldest(replace) => key_set.logs.insert(&replace.log),
                Operation::Rewrite(rewrite) => key_set.logs.insert(&rewrite.log),
                Operation::ResetLog(reset) => key_set.appended(&reset.log, &reset.marks),
                Operation::Lease(lease) => key_set.leases.insert(&lease.lease),
                Operation::Describe(_) => key_set.whole = true,
                Operation::Post(post) => key_set.indexes.insert(&post.index),
                Operation::Unpost(unpost) => key_set.indexes.insert(&unpost.index),
                Operation::Match(step) => key_set.indexes.insert(&step.index),
            }
        }
        key_set
    }

    /// Some entries of a map.
    fn entries(&mut self, map: &'a str, keys: impl Iterator<Item = &'a str>) {
        match map == VALUES {
            true => keys.for_each(|key| self.keys.insert(key)),
            false => self.maps.insert(map),
        }
    }

    /// All of a map.
    fn map(&mut self, map: &'a str) {
        match map == VALUES {
            true => self.whole = true,
            false => self.maps.insert(map),
        }
    }

    fn appended(&mut self, log: &'a str, marks: &'a [PositionMark]) {
        self.logs.insert(log);
        marks.iter().for_each(|mark| self.maps.insert(&mark.map_name));
    }
}

/// Names, each once, with their places from 1: a few are searched, many hashed.
#[derive(Default)]
pub(crate) struct Names<'a> {
    names: Vec<&'a str>,
    /// Places of those after the first few.
    later: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    const FEW: usize = 8;

    fn insert(&mut self, name: &'a str) {
        if self.place(name) == 0 {
            self.names.push(name);
            if self.names.len() > Self::FEW {
                self.later.insert(name, self.names.len());
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied()
    }

    /// 0: nowhere.
    pub(crate) fn place(&self, name: &str) -> u64 {
        let early = self.names.iter().take(Self::FEW).position(|known| *known == name).map(|index| index + 1);
        early.or_else(|| self.later.get(name).copied()).unwrap_or(0) as u64
    }
}

/// Calls a function with each key of a map that the operations set.
pub(crate) fn each_set_key<'a>(operations: &'a [Operation], map: &str, mut see: impl FnMut(&'a str)) {
    operations.iter().filter_map(Operation::writes).for_each(|writes| writes.entries.each_in(map, &mut see));
}
