//! What is attached of a memory that is over its limits.
//!
//! Promises as much as fits: `last_answer` and `answer_count` first, then the smallest values, because no store
//! knows a value's age. It takes two transactions more than a question has otherwise, and a third one when
//! values that are longer than their share find room after all. Refuses to fetch more than the limits allow to
//! be attached, own keys apart.

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
    pub(crate) fn fitting(&self, session: &str, incarnation: &str) -> Result<Fitting, Failure> {
        let mut memory = Memory {
            filter: self,
            session,
            opening: Opening::life(incarnation),
            room: self.config.max_context_bytes,
            keys: self.config.max_keys,
            fitting: Fitting::default(),
        };
        Ok(memory.read()?.map_or_else(Fitting::default, |()| memory.fitting))
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
    fitting: Fitting,
}

/// What one transaction found.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    /// Keys whose values are longer than was asked for, with the size of both.
    too_long: Vec<(u64, String)>,
    /// Of all keys, as far as they can be listed.
    names: Vec<String>,
    /// How many keys can't.
    unlisted: u64,
}

impl<H: Host> Memory<'_, H> {
    /// None: the session has ended.
    fn read(&mut self) -> Result<Option<()>, Failure> {
        let own = [LAST_ANSWER, ANSWER_COUNT];
        let Some(found) = self.get(own.into_iter().map(|key| (key, self.room)).collect(), true)? else {
            return Ok(None);
        };
        self.leave_out(found.too_long);
        // In the order in which they were asked for.
        self.keep(found.entries);
        self.fitting.left_out_count = found.unlisted;

        // With equal shares all that is no longer than one fits, whatever it is.
        let others: Vec<&str> = found.names.iter().map(String::as_str).filter(|key| !own.contains(key)).collect();
        let share = self.room / (others.len() as u64).max(1);
        let Some(mut found) = self.get(others.iter().map(|&key| (key, share)).collect(), false)? else {
            return Ok(None);
        };
        found.entries.sort_by_cached_key(|entry| (size(entry), entry.key.clone()));
        self.keep(found.entries);

        // What is longer fits only where others took less.
        found.too_long.sort_unstable();
        let (mut room, mut keys) = (self.room, self.keys);
        let fits = |(size, _): &&(u64, String)| {
            let fits = keys > 0 && *size <= room;
            (room, keys) = (room.saturating_sub(*size), keys.saturating_sub(1));
            fits
        };
        let fitting = found.too_long.iter().take_while(fits).count();
        let rest = found.too_long.split_off(fitting);
        self.leave_out(rest);
        let longer = found.too_long.iter().map(|(size, key)| (key.as_str(), *size)).collect();
        let Some(found) = self.get(longer, false)? else { return Ok(None) };
        self.leave_out(found.too_long);
        self.keep(found.entries);

        self.fitting.left_out_count += self.fitting.left_out.len() as u64;
        self.fitting.left_out.sort_unstable();
        self.fitting.values.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(Some(()))
    }

    /// Read values that are, with their keys, no longer than is said. With the names of all keys if they are
    /// wanted. None: the session has ended.
    fn get(&mut self, mut wanted: Vec<(&str, u64)>, lists: bool) -> Result<Option<Found>, Failure> {
        let mut tries = 0;
        let receipt = loop {
            if wanted.is_empty() && !lists {
                return Ok(Some(Found::default()));
            }
            let operations = wanted.iter().map(|&(key, size)| {
                let max_bytes = size.saturating_sub(len(key));
                Operation::Get { key, max_bytes }
            });
            let mut operations: Vec<_> = operations.collect();
            if lists {
                operations.push(Operation::ListKeys { max_keys: MAX_KEYS });
            }
            match self.filter.host.transact(self.session, self.opening, &[], &operations) {
                Ok(receipt) => break receipt,
                Err(failure) => {
                    let before = wanted.len();
                    wanted.retain(|(key, _)| *key != failure.subject);
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
        let mut found = Found::default();
        let mut outcomes = receipt.outcomes.into_iter();
        for (key, _) in wanted {
            match outcomes.next() {
                Some(Outcome::Value { json: Some(json), .. }) => {
                    found.entries.push(Entry { key: key.to_owned(), json });
                }
                Some(Outcome::Value { unreadable: true, .. }) => self.fitting.values.unreadable.push(key.to_owned()),
                // Gone since.
                Some(Outcome::Value { .. }) => {}
                Some(Outcome::Oversize { bytes, .. }) => {
                    found.too_long.push((bytes.saturating_add(len(key)), key.to_owned()));
                }
                _ => return Err(Failure::out_of_turn()),
            }
        }
        if lists {
            let Some(Outcome::Names { mut names, total }) = outcomes.next() else {
                return Err(Failure::out_of_turn());
            };
            // Fewer than were asked for are all, whatever the store counts beside them.
            if names.len() as u64 >= MAX_KEYS {
                found.unlisted = total.saturating_sub(names.len() as u64);
            }
            names.retain(|name| is_key(name));
            found.names = names;
        }
        Ok(Some(found))
    }

    /// Take what comes as long as there is room.
    fn keep(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            let size = size(&entry);
            if self.keys > 0 && size <= self.room {
                (self.room, self.keys) = (self.room - size, self.keys - 1);
                self.fitting.values.entries.push(entry);
            } else {
                self.fitting.left_out.push(entry.key);
            }
        }
    }

    fn leave_out(&mut self, keys: Vec<(u64, String)>) {
        self.fitting.left_out.extend(keys.into_iter().map(|(_, key)| key));
    }
}

/// As stores count it.
fn size(entry: &Entry) -> u64 {
    (entry.key.len() + entry.json.len()) as u64
}

fn len(key: &str) -> u64 {
    key.len() as u64
}
