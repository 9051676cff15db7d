//! What a transaction will touch: the script looks at all of it before it begins, each thing once.

use std::{collections::HashMap, iter};

use crate::{Expectation, Operation, PositionMark, Transaction, names::VALUES};

/// By name, in the order in which a request lists them.
#[derive(Default)]
pub(super) struct Touched<'a> {
    pub(super) logs: Names<'a>,
    /// But for the values.
    pub(super) maps: Names<'a>,
    pub(super) leases: Names<'a>,
    pub(super) indexes: Names<'a>,
    /// Of values. Those that are set come first.
    pub(super) keys: Names<'a>,
    pub(super) set_count: u64,
    /// Whether it touches the set of all keys.
    pub(super) whole: bool,
}

impl<'a> Touched<'a> {
    pub(super) fn by(transaction: &'a Transaction) -> Self {
        let mut touched = Self::default();
        each_set_key(&transaction.operations, VALUES, |key| touched.keys.insert(key));
        touched.set_count = touched.keys.len() as u64;
        for expectation in &transaction.expectations {
            match expectation {
                Expectation::Entry(expected) => touched.entries(&expected.map_name, iter::once(&*expected.key)),
                Expectation::Log(expected) => touched.logs.insert(&expected.log),
                Expectation::Room(expected) => touched.entries(&expected.map_name, iter::empty()),
            }
        }
        for operation in &transaction.operations {
            match operation {
                Operation::Get(get) => touched.entries(&get.map_name, get.keys.iter().map(String::as_str)),
                Operation::GetAll(all) => touched.map(&all.map_name),
                Operation::Page(page) => touched.map(&page.map_name),
                Operation::Put(put) => touched.entries(&put.map_name, iter::empty()),
                Operation::Increment(increment) => touched.entries(&increment.map_name, iter::empty()),
                Operation::Remove(remove) => {
                    touched.entries(&remove.map_name, remove.keys.iter().map(String::as_str));
                }
                Operation::ResetMap(reset) => touched.map(&reset.map_name),
                Operation::Append(append) => touched.appended(&append.log, &append.marks),
                Operation::Read(read) => touched.logs.insert(&read.log),
                Operation::ReadAt(read) => touched.logs.insert(&read.log),
                Operation::Overflow(overflow) => touched.logs.insert(&overflow.log),
                Operation::ReplaceOldest(replace) => touched.logs.insert(&replace.log),
                Operation::Rewrite(rewrite) => touched.logs.insert(&rewrite.log),
                Operation::ResetLog(reset) => touched.appended(&reset.log, &reset.marks),
                Operation::Lease(lease) => touched.leases.insert(&lease.lease),
                Operation::Describe(_) => touched.whole = true,
                Operation::Post(post) => touched.indexes.insert(&post.index),
                Operation::Unpost(unpost) => touched.indexes.insert(&unpost.index),
                Operation::Match(step) => touched.indexes.insert(&step.index),
            }
        }
        touched
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
pub(super) struct Names<'a> {
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

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied()
    }

    /// 0: nowhere.
    pub(super) fn place(&self, name: &str) -> u64 {
        let early = self.names.iter().take(Self::FEW).position(|known| *known == name).map(|index| index + 1);
        early.or_else(|| self.later.get(name).copied()).unwrap_or(0) as u64
    }
}

/// Calls a function with each key of a map that the operations set.
pub(super) fn each_set_key<'a>(operations: &'a [Operation], map: &str, mut see: impl FnMut(&'a str)) {
    operations.iter().filter_map(Operation::writes).for_each(|writes| writes.entries.each_in(map, &mut see));
}
