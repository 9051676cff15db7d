//! Reads as much of a memory over its limits as fits.
//!
//! `last_answer` and `answer_count` come first, then the smallest values, as no store knows a value's age. Takes two more
//! transactions, and a third when values longer than their share fit after all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::context::Context;
use crate::contract::{BucketId, Entry, Host, Operation, Precondition, Problem, ReadEntries, VALUES};
use crate::options::config::{KEYS_BYTES, MAX_KEYS};
use crate::store;
use crate::store::{EntriesOutcome, KeyPage};
use crate::text::ids::{ANSWER_COUNT, LAST_ANSWER, is_key_name};

/// A memory that fits.
#[derive(Debug, Default)]
pub(crate) struct FittingValues {
    /// What is to be attached.
    pub values: ReadEntries,
    /// Names of keys that found no room, sorted.
    pub left_out: Vec<String>,
    /// How many keys found none, those that were not even listed among them.
    pub left_out_count: u64,
}

/// Read what fits from a session of this generation, which was told to have so many entries. Nothing fits when it
/// has ended since.
#[cold]
#[inline(never)]
pub(crate) fn read_fitting(
    context: &Context<impl Host>,
    bucket: BucketId<'_>,
    generation: &str,
    entries: u64,
) -> Result<FittingValues, Box<Problem>> {
    let mut memory = FittingReader {
        context,
        bucket,
        precondition: Precondition::life(generation),
        room: context.config.max_context_bytes,
        keys: context.config.max_keys,
        slots: [LAST_ANSWER, ANSWER_COUNT].map(|key| (key.to_owned(), ValueSlot::Unknown)).into(),
    };
    Ok(memory.read(entries)?.map_or_else(FittingValues::default, |unlisted| memory.told(unlisted)))
}

struct FittingReader<'a, H> {
    context: &'a Context<H>,
    bucket: BucketId<'a>,
    precondition: Precondition<'a>,
    /// Bytes that are left.
    room: u64,
    /// Keys that are left.
    keys: u64,
    /// Our own two keys at first, and then all that are listed, sorted.
    slots: Vec<(String, ValueSlot)>,
}

/// What is known of a key's value.
enum ValueSlot {
    /// Nothing, or that it is gone.
    Unknown,
    /// It has so many bytes, its key among them, and found no room yet.
    Sized(u64),
    /// It came.
    Read(String),
    /// It came and found room.
    Kept(String),
    /// It is not UTF-8, or of a wrong type.
    Unreadable,
}

impl<H: Host> FittingReader<'_, H> {
    /// Read what is to be attached, of so many entries; how many of them can't be listed. None: the session has ended.
    fn read(&mut self, entries: u64) -> Result<Option<u64>, Box<Problem>> {
        let Some(Some(page)) = self.get(vec![0, 1], self.room, true)? else { return Ok(None) };
        self.keep(0);
        self.keep(1);
        let mut own = std::mem::take(&mut self.slots);
        let listed = page.keys.len() as u64;
        let unlisted = if page.cursor.is_empty() { 0 } else { entries.saturating_sub(listed) };
        let most = usize::try_from(MAX_KEYS).unwrap_or(usize::MAX);
        for key in page.keys.into_iter().filter(|key| is_key_name(key)).take(most) {
            let slot = own.iter_mut().find(|(name, _)| *name == key);
            let slot = slot.map_or(ValueSlot::Unknown, |(_, slot)| std::mem::replace(slot, ValueSlot::Unknown));
            self.slots.push((key, slot));
        }

        // With equal shares all that is no longer than one fits, whatever it is.
        let others = self.which(|(key, slot)| {
            let is_own = key == LAST_ANSWER || key == ANSWER_COUNT;
            (!is_own && matches!(slot, ValueSlot::Unknown)).then_some(0)
        });
        let others: Vec<usize> = others.into_iter().map(|Reverse((_, index))| index).collect();
        let share = self.room / (others.len() as u64).max(1);
        if self.get(others, share, false)?.is_none() {
            return Ok(None);
        }
        self.keep_smallest();

        // What is longer fits only where others took less.
        let mut longer = self.which(|(_, slot)| if let ValueSlot::Sized(size) = slot { Some(*size) } else { None });
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
    fn which(&self, size: impl Fn(&(String, ValueSlot)) -> Option<u64>) -> BinaryHeap<Reverse<(u64, usize)>> {
        let sized = self.slots.iter().enumerate().filter_map(|(index, slot)| Some(Reverse((size(slot)?, index))));
        sized.collect()
    }

    fn keep_smallest(&mut self) {
        let mut read =
            self.which(|(key, slot)| if let ValueSlot::Read(json) = slot { Some(size(key, json)) } else { None });
        while let Some(Reverse((_, index))) = read.pop() {
            self.keep(index);
        }
    }

    /// Take a value that came, if there is room.
    fn keep(&mut self, index: usize) {
        let Some((key, slot)) = self.slots.get_mut(index) else { return };
        if let ValueSlot::Read(json) = slot {
            let size = size(key, json);
            if self.keys > 0 && size <= self.room {
                (self.room, self.keys) = (self.room - size, self.keys - 1);
                *slot = ValueSlot::Kept(std::mem::take(json));
            } else {
                *slot = ValueSlot::Sized(size);
            }
        }
    }

    /// Read values that have, with their keys, no more bytes than are known, or than `share`. With the names of
    /// all keys if they are wanted. None: the session has ended.
    fn get(&mut self, wanted: Vec<usize>, share: u64, lists: bool) -> Result<Option<Option<KeyPage>>, Box<Problem>> {
        if wanted.is_empty() && !lists {
            return Ok(Some(None));
        }
        let wanted_slots = wanted.iter().filter_map(|index| self.slots.get(*index));
        let asked: Vec<(&str, u64)> = wanted_slots
            .map(|(key, slot)| {
                let most = if let ValueSlot::Sized(size) = slot { *size } else { share };
                (&**key, most.saturating_sub(key.len() as u64))
            })
            .collect();
        let mut operations = Vec::with_capacity(asked.len() + 1);
        operations.extend(asked.iter().map(|(key, max_bytes)| Operation::get(VALUES, key, *max_bytes)));
        if lists {
            let page = Operation::page_keys(VALUES, "", MAX_KEYS, KEYS_BYTES);
            operations.push(page);
        }
        let found = store::read_bucket(&self.context.host, self.bucket, self.precondition, &operations)?;
        let Some(mut outcomes) = found else { return Ok(None) };
        for index in wanted {
            let Some((key, slot)) = self.slots.get_mut(index) else { continue };
            *slot = match outcomes.take_entries()? {
                EntriesOutcome::Oversize(size) => ValueSlot::Sized(size.bytes.saturating_add(key.len() as u64)),
                EntriesOutcome::Entries(mut found) => match found.entries.pop() {
                    Some(entry) => ValueSlot::Read(entry.text),
                    None if found.unreadable.is_empty() => ValueSlot::Unknown,
                    None => ValueSlot::Unreadable,
                },
            };
        }
        Ok(Some(if lists { Some(outcomes.take_key_page()?) } else { None }))
    }

    fn told(self, unlisted: u64) -> FittingValues {
        let mut fitting = FittingValues::default();
        for (key, slot) in self.slots {
            match slot {
                ValueSlot::Kept(text) => fitting.values.entries.push(Entry { key, text }),
                ValueSlot::Unreadable => fitting.values.unreadable.push(key),
                ValueSlot::Sized(_) | ValueSlot::Read(_) => fitting.left_out.push(key),
                ValueSlot::Unknown => {}
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
