//! What a request may be: names, limits, and one write for each place. The limits are the defaults.

use std::collections::BTreeSet;

use crate::bindings::Problem;
use crate::bindings::types::{BucketId, Expectation, Operation, Precondition, TimeToLive, Transaction};
use crate::store::Bucket;

/// What each piece counts beside its names and texts.
pub(super) const PIECE_BYTES: u64 = 96;

type Checked = Result<(), Problem>;

fn ensure(holds: bool, subject: &str) -> Checked {
    if holds { Ok(()) } else { Err(Problem::new("invalid", subject, 0, "The request breaks a rule of the contract")) }
}

fn at_most(count: usize, name: &str, limit: usize) -> Checked {
    if count <= limit {
        Ok(())
    } else {
        Err(Problem::new("too-large", name, limit as u64, "The request is over a limit"))
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// A kind, or the name of a map or log.
pub(super) fn name(member: &str, name: &str) -> Checked {
    ensure(is_name(name), member)
}

pub(super) fn generation(generation: Option<&str>) -> Checked {
    ensure(generation.is_none_or(is_printable), "generation")
}

fn is_printable(text: &str) -> bool {
    (1..=256).contains(&text.len()) && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte))
}

fn key(map: &str, key: &str) -> Checked {
    let is_value = |byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    let is_reserved = key.starts_with("__") && key.ends_with("__");
    ensure(is_printable(key) && (map != "values" || key.bytes().all(is_value) && !is_reserved), "key")
}

/// The value of a counter, if the text is one.
pub(super) fn counter(text: &str) -> Option<i64> {
    text.parse().ok().filter(|value: &i64| value.to_string() == text)
}

/// The buckets of one call: each is named once.
pub(super) fn buckets<'a>(buckets: impl ExactSizeIterator<Item = &'a BucketId>) -> Checked {
    at_most(buckets.len(), "transactions", 128)?;
    let mut names = BTreeSet::new();
    for bucket in buckets {
        ensure(names.insert((&bucket.kind, &bucket.name)), &bucket.name)?;
    }
    Ok(())
}

/// The kind and name of a bucket.
pub(super) fn bucket(bucket: &BucketId) -> Checked {
    let is_word = |byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    name("kind", &bucket.kind)?;
    ensure((1..=128).contains(&bucket.name.len()) && bucket.name.bytes().all(is_word), "bucket")
}

/// What all transactions of a call share: buckets and limits.
pub(super) fn call(transactions: &[Transaction]) -> Checked {
    buckets(transactions.iter().map(|transaction| &transaction.bucket))?;
    let operations = || transactions.iter().flat_map(|transaction| &transaction.operations);
    let is_read =
        |operation: &&Operation| matches!(operation, Operation::GetAll(_) | Operation::Read(_) | Operation::ReadAt(_));
    at_most(operations().filter(is_read).count(), "reads", 16)?;
    let (mut pieces, mut bytes) = (0, 0);
    let mut count = |texts: &[&str]| {
        pieces += 1;
        bytes += texts.iter().map(|text| text.len()).sum::<usize>();
    };
    for expectation in transactions.iter().flat_map(|transaction| &transaction.expectations) {
        match expectation {
            Expectation::Entry(entry) => count(&[&entry.map_name, &entry.key, &entry.text]),
            Expectation::Log(log) => count(&[&log.log]),
            Expectation::Room(room) => count(&[&room.map_name]),
        }
    }
    for operation in operations() {
        count(&[place(operation).1]);
        match operation {
            Operation::Get(get) => get.keys.iter().for_each(|key| count(&[key])),
            Operation::Set(set) => {
                set.remove.iter().for_each(|key| count(&[key]));
                set.put.iter().for_each(|entry| count(&[&entry.key, &entry.text]));
            }
            Operation::Add(add) => count(&[&add.key]),
            Operation::Append(append) => {
                append.records.iter().for_each(|record| count(&[record]));
                append.marks.iter().for_each(|mark| count(&[&mark.map_name, &mark.key]));
            }
            Operation::ReplaceOldest(replace) => replace.records.iter().for_each(|record| count(&[record])),
            Operation::Rewrite(rewrite) => rewrite.records.iter().for_each(|record| count(&[&record.text])),
            Operation::ReadAt(read) => read.spans.iter().for_each(|_| count(&[])),
            Operation::Describe(describe) if describe.parts => (0..64).for_each(|_| count(&[])),
            _ => {}
        }
    }
    at_most(pieces, "call-pieces", 20_000)?;
    at_most(bytes + pieces * PIECE_BYTES as usize, "call-bytes", 16 << 20)
}

/// The kind and name of what an operation is about.
fn place(operation: &Operation) -> (&str, &str) {
    match operation {
        Operation::Get(get) => ("map", &get.map_name),
        Operation::GetAll(all) => ("map", &all.map_name),
        Operation::Set(set) => ("map", &set.map_name),
        Operation::Add(add) => ("map", &add.map_name),
        Operation::Append(append) => ("log", &append.log),
        Operation::Read(read) => ("log", &read.log),
        Operation::ReadAt(read) => ("log", &read.log),
        Operation::ReplaceOldest(replace) => ("log", &replace.log),
        Operation::Rewrite(rewrite) => ("log", &rewrite.log),
        Operation::Describe(_) => ("bucket", "described"),
    }
}

/// The keys of a map that an operation writes, and so may create.
pub(super) fn created<'a>(operation: &'a Operation, map: &'a str) -> Box<dyn Iterator<Item = &'a String> + 'a> {
    match operation {
        Operation::Set(set) if set.map_name == map => Box::new(set.put.iter().map(|entry| &entry.key)),
        Operation::Add(add) if add.map_name == map => Box::new(std::iter::once(&add.key)),
        Operation::Append(append) => {
            Box::new(append.marks.iter().filter(move |mark| mark.map_name == map).map(|mark| &mark.key))
        }
        _ => Box::new(std::iter::empty()),
    }
}

/// The shape of one transaction.
pub(super) fn transaction(transaction: &Transaction) -> Checked {
    bucket(&transaction.bucket)?;
    let new = match &transaction.precondition {
        Precondition::Existing(existing) => {
            return generation(existing.generation.as_deref()).and_then(|()| steps(transaction));
        }
        Precondition::Create(new) | Precondition::CreateNew(new) | Precondition::Replace(new) => new,
    };
    let is_time = |time: &TimeToLive| (1..=3_162_240_000_000).contains(&time.milliseconds);
    ensure(new.time_to_live.as_ref().is_none_or(is_time), "time-to-live")?;
    steps(transaction)
}

fn steps(transaction: &Transaction) -> Checked {
    let mut rooms = BTreeSet::new();
    for expectation in &transaction.expectations {
        match expectation {
            Expectation::Entry(entry) => {
                name("map", &entry.map_name)?;
                key(&entry.map_name, &entry.key)?;
            }
            Expectation::Log(log) => name("log", &log.log)?,
            Expectation::Room(room) => {
                name("map", &room.map_name)?;
                ensure(rooms.insert(&room.map_name), &room.map_name)?;
            }
        }
    }
    let mut written = Written::default();
    for operation in &transaction.operations {
        let (kind, place) = place(operation);
        name(kind, place)?;
        match operation {
            Operation::Get(get) => {
                let mut keys = BTreeSet::new();
                for one in &get.keys {
                    key(&get.map_name, one)?;
                    ensure(keys.insert(one), one)?;
                }
            }
            Operation::Set(set) => {
                for one in set.remove.iter().chain(set.put.iter().map(|entry| &entry.key)) {
                    written.key(&set.map_name, one)?;
                }
                set.put.iter().try_for_each(|entry| at_most(entry.text.len(), "text-bytes", 8 << 20))?;
                if set.reset {
                    ensure(!written.resets.contains(place), place)?;
                    let others = written.keys.iter().filter(|(map, _)| *map == place).count();
                    ensure(others == set.remove.len() + set.put.len() && written.resets.insert(place), place)?;
                }
            }
            Operation::Add(add) => written.key(&add.map_name, &add.key)?,
            Operation::Append(append) => {
                written.log(place, &append.records)?;
                for mark in &append.marks {
                    name("map", &mark.map_name)?;
                    ensure(mark.map_name != "values", "map")?;
                    ensure((mark.record_index as usize) < append.records.len(), "record-index")?;
                    written.key(&mark.map_name, &mark.key)?;
                }
            }
            Operation::ReplaceOldest(replace) => {
                written.log(place, &replace.records)?;
                ensure(replace.records.len() as u64 <= replace.count, place)?;
            }
            Operation::Rewrite(rewrite) => {
                written.log(place, rewrite.records.iter().map(|record| &record.text))?;
                let mut positions = BTreeSet::new();
                rewrite.records.iter().try_for_each(|record| ensure(positions.insert(record.position), "position"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Places that a transaction has named for writing.
#[derive(Default)]
struct Written<'a> {
    keys: BTreeSet<(&'a str, &'a str)>,
    resets: BTreeSet<&'a str>,
    logs: BTreeSet<&'a str>,
}

impl<'a> Written<'a> {
    fn key(&mut self, map: &'a str, one: &'a str) -> Checked {
        key(map, one)?;
        ensure(!self.resets.contains(map) && self.keys.insert((map, one)), one)
    }

    fn log(&mut self, log: &'a str, records: impl IntoIterator<Item = &'a String>) -> Checked {
        ensure(self.logs.insert(log), log)?;
        records.into_iter().try_for_each(|record| at_most(record.len(), "record-bytes", 2 << 20))
    }
}

/// What a bucket may hold once something is added to it. What is removed makes no room.
pub(super) fn size(before: &Bucket, after: &Bucket, operations: &[Operation]) -> Checked {
    let values: BTreeSet<_> = operations.iter().flat_map(|operation| created(operation, "values")).collect();
    let added = values.into_iter().filter(|key| before.text("values", key).is_none()).count();
    if added > 0 {
        at_most(usize::try_from(before.length("values")).unwrap_or(usize::MAX) + added, "values", 20_000)?;
    }
    let logs = after.logs.keys().filter(|log| !before.logs.contains_key(*log)).count();
    let maps = after.maps.keys().filter(|map| *map != "values" && !before.maps.contains_key(*map)).count();
    if logs + maps > 0 { at_most(before.parts() + logs + maps, "parts", 64) } else { Ok(()) }
}
