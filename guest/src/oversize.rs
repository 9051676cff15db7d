//! What is attached of a memory that is over its limits.
//!
//! Promises as much as fits: `last_answer` and `answer_count` first, then the smallest values, because no store
//! knows a value's age. It takes two transactions more than a question has otherwise, and a third one when
//! values that are longer than their share find room after all. Refuses to fetch more than the limits allow to
//! be attached, own keys apart.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::MAX_KEYS;
use crate::filter::{ANSWER_COUNT, Filter, LAST_ANSWER};
use crate::names::is_key;
use crate::store::{AllValues, Entry, Failure, FailureCode, Host, Opening, Operation, Outcome};

/// How many keys of a wrong type, which fail a transaction that reads them, are put up with.
const TRIES: u32 = 8;

/// A memory that fits.
#[derive(Debug, Default)]
pub(crate) struct Fitting {
    /// What is to be attached.
    pub values: AllValues,
    /// Names of keys that found no room, sorted.
    pub left_out: Vec<String>,
    /// How many keys found none, those that were not even listed among them.
    pub left_out_count: u64,
}

impl<H: Host> Filter<H> {
    /// Read what fits from a session of this incarnation. Nothing fits when it has ended since.
    #[cold]
    #[inline(never)]
    pub(crate) fn fitting(&self, session: &str, incarnation: &str) -> Result<Fitting, Failure> {
        let mut memory = Memory {
            filter: self,
            session,
            opening: Opening::life(incarnation),
            room: self.config.max_context_bytes,
            keys: self.config.max_keys,
            slots: [LAST_ANSWER, ANSWER_COUNT].map(|key| (key.to_owned(), Slot::Unknown)).into(),
        };
        Ok(memory.read()?.map_or_else(Fitting::default, |unlisted| memory.told(unlisted)))
    }
}

struct Memory<'a, H> {
    filter: &'a Filter<H>,
    session: &'a str,
    opening: Opening<'a>,
    /// Bytes that are left.
    room: u64,
    /// Keys that are left.
    keys: u64,
    /// Our own two keys at first, and then all that are listed, sorted.
    slots: Vec<(String, Slot)>,
}

/// What is known of a key's value.
enum Slot {
    /// Nothing, or that it is gone, or of a wrong type.
    Unknown,
    /// It has so many bytes, its key among them, and found no room yet.
    Sized(u64),
    /// It came.
    Read(String),
    /// It came and found room.
    Kept(String),
    /// It is not UTF-8.
    Unreadable,
}

/// The names of a session's keys, and how many there are.
type Names = Option<(Vec<String>, u64)>;

impl<H: Host> Memory<'_, H> {
    /// Read what is to be attached; how many keys there are that can't be listed. None: the session has ended.
    fn read(&mut self) -> Result<Option<u64>, Failure> {
        let Some(Some((names, total))) = self.get(vec![0, 1], self.room, true)? else { return Ok(None) };
        self.keep(0);
        self.keep(1);
        let mut own = std::mem::take(&mut self.slots);
        // Fewer than were asked for are all, whatever the store counts beside them.
        let listed = names.len() as u64;
        let unlisted = if listed < MAX_KEYS { 0 } else { total.saturating_sub(listed) };
        for name in names.into_iter().filter(|name| is_key(name)) {
            let slot = own.iter_mut().find(|(key, _)| *key == name);
            let slot = slot.map_or(Slot::Unknown, |(_, slot)| std::mem::replace(slot, Slot::Unknown));
            self.slots.push((name, slot));
        }

        // With equal shares all that is no longer than one fits, whatever it is.
        let others = self.which(|(key, slot)| {
            let is_own = key == LAST_ANSWER || key == ANSWER_COUNT;
            (!is_own && matches!(slot, Slot::Unknown)).then_some(0)
        });
        let others: Vec<usize> = others.into_iter().map(|Reverse((_, index))| index).collect();
        let share = self.room / (others.len() as u64).max(1);
        if self.get(others, share, false)?.is_none() {
            return Ok(None);
        }
        self.keep_smallest();

        // What is longer fits only where others took less.
        let mut longer = self.which(|(_, slot)| if let Slot::Sized(size) = slot { Some(*size) } else { None });
        let (mut room, mut keys, mut fitting) = (self.room, self.keys, Vec::new());
        while let Some(Reverse((size, index))) = longer.pop() {
            if keys == 0 || size > room {
                break;
            }
            (room, keys) = (room - size, keys - 1);
            fitting.push(index);
        }
        if self.get(fitting, 0, false)?.is_none() {
            return Ok(None);
        }
        self.keep_smallest();
        Ok(Some(unlisted))
    }

    /// Some of the keys, the smallest first.
    fn which(&self, size: impl Fn(&(String, Slot)) -> Option<u64>) -> BinaryHeap<Reverse<(u64, usize)>> {
        let sized = self.slots.iter().enumerate().filter_map(|(index, slot)| Some(Reverse((size(slot)?, index))));
        sized.collect()
    }

    fn keep_smallest(&mut self) {
        let mut read = self.which(|(key, slot)| if let Slot::Read(json) = slot { Some(size(key, json)) } else { None });
        while let Some(Reverse((_, index))) = read.pop() {
            self.keep(index);
        }
    }

    /// Take a value that came, if there is room.
    fn keep(&mut self, index: usize) {
        let Some((key, slot)) = self.slots.get_mut(index) else { return };
        if let Slot::Read(json) = slot {
            let size = size(key, json);
            if self.keys > 0 && size <= self.room {
                (self.room, self.keys) = (self.room - size, self.keys - 1);
                *slot = Slot::Kept(std::mem::take(json));
            } else {
                *slot = Slot::Sized(size);
            }
        }
    }

    /// Read values that have, with their keys, no more bytes than are known, or than `share`. With the names of
    /// all keys if they are wanted. None: the session has ended.
    fn get(&mut self, mut wanted: Vec<usize>, share: u64, lists: bool) -> Result<Option<Names>, Failure> {
        let mut tries = 0;
        let receipt = loop {
            if wanted.is_empty() && !lists {
                return Ok(Some(None));
            }
            let mut operations = Vec::with_capacity(wanted.len() + 1);
            for (key, slot) in wanted.iter().filter_map(|index| self.slots.get(*index)) {
                let most = if let Slot::Sized(size) = slot { *size } else { share };
                operations.push(Operation::Get { key, max_bytes: most.saturating_sub(key.len() as u64) });
            }
            if lists {
                operations.push(Operation::ListKeys { max_keys: MAX_KEYS });
            }
            match self.filter.host.transact(self.session, self.opening, &[], &operations) {
                Ok(receipt) => break receipt,
                Err(failure) => {
                    let before = wanted.len();
                    wanted.retain(|index| self.slots.get(*index).is_some_and(|(key, _)| *key != failure.subject));
                    tries += 1;
                    if failure.code != FailureCode::WrongType || wanted.len() == before || tries > TRIES {
                        return Err(failure);
                    }
                }
            }
        };
        if !receipt.is_applied() {
            return Ok(None);
        }
        let mut outcomes = receipt.outcomes.into_iter();
        for index in wanted {
            let Some((key, slot)) = self.slots.get_mut(index) else { continue };
            *slot = match outcomes.next() {
                Some(Outcome::Value { json: Some(json), .. }) => Slot::Read(json),
                Some(Outcome::Value { unreadable: true, .. }) => Slot::Unreadable,
                Some(Outcome::Value { .. }) => Slot::Unknown,
                Some(Outcome::Oversize { bytes, .. }) => Slot::Sized(bytes.saturating_add(key.len() as u64)),
                _ => return Err(Failure::out_of_turn()),
            };
        }
        match outcomes.next() {
            Some(Outcome::Names { names, total }) if lists => Ok(Some(Some((names, total)))),
            None if !lists => Ok(Some(None)),
            _ => Err(Failure::out_of_turn()),
        }
    }

    fn told(self, unlisted: u64) -> Fitting {
        let mut fitting = Fitting::default();
        for (key, slot) in self.slots {
            match slot {
                Slot::Kept(json) => fitting.values.entries.push(Entry { key, json }),
                Slot::Unreadable => fitting.values.unreadable.push(key),
                Slot::Sized(_) | Slot::Read(_) => fitting.left_out.push(key),
                Slot::Unknown => {}
            }
        }
        fitting.left_out_count = unlisted.saturating_add(fitting.left_out.len() as u64);
        fitting
    }
}

/// As stores count it.
fn size(key: &str, json: &str) -> u64 {
    (key.len() + json.len()) as u64
}
