//! One life of a bucket: its values, its logs, its expiry, and what each operation does to them.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, HashSet, VecDeque},
    ops::Range,
};

use compact_str::{CompactString, ToCompactString, format_compact};

use crate::{
    AllValues, CounterValue, Description, Entry, Expectation, Failure, FailureCode, FoundValue, IncrementOperation,
    KeyNames, LogDescription, LogEnd, LogExtent, LogRecords, Operation, Outcome, Size, Status, TimeToLive, Transaction,
    WriteDone, failure,
    request::{MAX_RECORDS, set_key},
};

/// What a value takes beside key and text: two allocations and a place in a tree.
const VALUE_OVERHEAD: u64 = 96;
/// What a log takes beside its name and records.
const LOG_OVERHEAD: u64 = 160;
/// What a record takes beside its text: an allocation and a place in a queue.
const RECORD_OVERHEAD: u64 = 32;

/// A bucket from its creation to its end.
///
/// Short texts are where they are used, not behind a pointer: of many buckets few are in the CPU's cache, and
/// each place in memory that a transaction goes to then costs as much as a tenth of its logic.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) incarnation: CompactString,
    time_to_live: Option<TimeToLive>,
    /// Milliseconds since 1970. At that instant it is over.
    pub(super) expires_at: Option<u64>,
    values: BTreeMap<CompactString, CompactString>,
    /// Keys and values together, in bytes.
    text: u64,
    /// A log that was emptied stays, because its positions go on.
    logs: BTreeMap<CompactString, Log>,
    /// Records and names of logs, with their overhead.
    logs_cost: u64,
}

#[derive(Debug, Default)]
struct Log {
    /// The position of the oldest record, or of the next one when there is none.
    first: u64,
    records: VecDeque<Box<str>>,
}

impl Life {
    /// An empty life that begins now. `stamp` is in microseconds.
    pub(super) fn new(stamp: u64, now_ms: u64, time_to_live: Option<TimeToLive>) -> Self {
        Self {
            incarnation: format_compact!("{}.{:06}", stamp / 1_000_000, stamp % 1_000_000),
            time_to_live,
            expires_at: time_to_live.map(|ttl| now_ms.saturating_add(ttl.milliseconds)),
            values: BTreeMap::new(),
            text: 0,
            logs: BTreeMap::new(),
            logs_cost: 0,
        }
    }

    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.expires_at.is_some_and(|expires_at| now_ms >= expires_at)
    }

    /// Start a sliding time to live anew, unless less than 1 % of it has gone. Returns the old and the
    /// new instant of expiry.
    pub(super) fn renew(&mut self, now_ms: u64) -> Option<(u64, u64)> {
        let (ttl, old) = (self.time_to_live.filter(|ttl| ttl.sliding)?, self.expires_at?);
        let new = now_ms.saturating_add(ttl.milliseconds);
        if new.saturating_sub(old).saturating_mul(100) < ttl.milliseconds {
            return None;
        }
        self.expires_at = Some(new);
        Some((old, new))
    }

    pub(super) fn cost(&self) -> u64 {
        self.values_cost().saturating_add(self.logs_cost)
    }

    fn values_cost(&self) -> u64 {
        (self.values.len() as u64).saturating_mul(VALUE_OVERHEAD).saturating_add(self.text)
    }

    /// The cost, counted anew from what is there.
    #[cfg(test)]
    pub(super) fn counted_cost(&self) -> u64 {
        let values: u64 = self.values.iter().map(|(key, value)| value_cost(key, value.len())).sum();
        let logs: u64 = self.logs.iter().map(|(name, log)| log_cost(name) + records_cost(&log.records)).sum();
        values + logs
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.values.keys().map(ToString::to_string).collect()
    }

    pub(super) fn describe(&self, now_ms: u64) -> Description {
        let logs = self.logs.iter().filter(|(_, log)| !log.records.is_empty());
        Description {
            status: Status::Applied,
            incarnation: self.incarnation.to_string(),
            time_to_live: self.time_to_live,
            expires_in: self.expires_at.map(|expires_at| expires_at.saturating_sub(now_ms)),
            keys: self.values.len() as u64,
            logs: logs
                .map(|(name, log)| LogDescription { log: name.to_string(), length: log.records.len() as u64 })
                .collect(),
        }
    }

    pub(super) fn meets(&self, transaction: &Transaction) -> bool {
        let is_new = |key: &&str| !self.values.contains_key(*key);
        // Counted once, however many expectations speak of room.
        let created = LazyCell::new(|| transaction.operations.iter().filter_map(set_key).filter(is_new).count());
        transaction.expectations.iter().all(|expectation| match expectation {
            Expectation::Oldest(expected) => {
                let records = self.logs.get(&*expected.log).map(|log| &log.records);
                records.map_or(0, VecDeque::len) >= expected.records.len()
                    && records.into_iter().flatten().zip(&expected.records).all(|(found, asked)| **found == **asked)
            }
            Expectation::Keys(expected) => {
                expected.keys.iter().all(|key| self.values.contains_key(&**key))
                    && expected.keys.iter().collect::<HashSet<_>>().len() == self.values.len()
            }
            Expectation::Room(expected) => *created == 0 || (self.values.len() + *created) as u64 <= expected.limit,
        })
    }

    /// By how many bytes the operations make this bucket grow or shrink, or why they can't be applied.
    /// Each place is written once, so what a step writes to is still as it is now.
    pub(super) fn probe(&self, operations: &[Operation]) -> Result<i64, Failure> {
        let mut growth = 0_i64;
        for operation in operations {
            let (added, removed) = match operation {
                Operation::Put(put) => (value_cost(&put.key, put.value.len()), self.cost_of_value(&put.key)),
                Operation::Increment(increment) => {
                    let length = digits(self.counted(increment)?);
                    (value_cost(&increment.key, length), self.cost_of_value(&increment.key))
                }
                Operation::Remove(remove) => (0, self.cost_of_value(&remove.key)),
                Operation::RemoveAll(_) => (0, self.values_cost()),
                Operation::Append(append) => {
                    let is_new = !append.records.is_empty() && !self.logs.contains_key(&*append.log);
                    let log = if is_new { log_cost(&append.log) } else { 0 };
                    (records_cost(&append.records).saturating_add(log), 0)
                }
                Operation::ReplaceOldest(replace) => {
                    let oldest = self.logs.get(&*replace.log).map_or(0, |log| log.surplus(0, replace.count));
                    if replace.records.len() > oldest {
                        return Err(failure(
                            FailureCode::Invalid,
                            &*replace.log,
                            format!("{} records can't take the place of {oldest}", replace.records.len()),
                        ));
                    }
                    let old = self.logs.get(&*replace.log).map_or(0, |log| records_cost(log.records.range(..oldest)));
                    (records_cost(&replace.records), old)
                }
                Operation::Rewrite(rewrite) => {
                    let old = self.logs.get(&*rewrite.log).and_then(|log| log.at(rewrite.position));
                    let old = old.ok_or_else(|| {
                        failure(
                            FailureCode::Invalid,
                            &*rewrite.log,
                            format!("the log {} has no record at position {}", rewrite.log, rewrite.position),
                        )
                    })?;
                    (rewrite.record_text.len() as u64, old.len() as u64)
                }
                _ => (0, 0),
            };
            growth = growth.saturating_add_unsigned(added).saturating_sub_unsigned(removed);
        }
        Ok(growth)
    }

    fn cost_of_value(&self, key: &str) -> u64 {
        self.values.get(key).map_or(0, |value| value_cost(key, value.len()))
    }

    /// What the counter is after this step.
    fn counted(&self, step: &IncrementOperation) -> Result<i64, Failure> {
        let before = match self.values.get(&*step.key) {
            Some(value) => integer(value).ok_or_else(|| {
                failure(
                    FailureCode::NotACounter,
                    &*step.key,
                    format!("the value of {} is not a signed 64-bit integer", step.key),
                )
            })?,
            None => 0,
        };
        before.checked_add(step.amount).ok_or_else(|| {
            failure(
                FailureCode::CounterOverflow,
                &*step.key,
                format!("the counter {} would leave the range of a signed 64-bit integer", step.key),
            )
        })
    }

    /// Take one step, of which [`probe`](Self::probe) found that it can be taken.
    pub(super) fn apply(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Put(put) => {
                let created = self.set(&put.key, &put.value);
                Outcome::Done(WriteDone { created })
            }
            Operation::Increment(increment) => {
                // Probed before, so this is always a number.
                let value = self.counted(increment).unwrap_or_default();
                self.set(&increment.key, &value.to_compact_string());
                Outcome::Counter(CounterValue { value })
            }
            Operation::Remove(remove) => {
                let removed = self.values.remove_entry(&*remove.key);
                if let Some((key, value)) = &removed {
                    self.text = self.text.saturating_sub((key.len() + value.len()) as u64);
                }
                let names: Vec<_> = removed.into_iter().map(|(key, _)| key.into_string()).collect();
                Outcome::Names(KeyNames { total: names.len() as u64, names })
            }
            Operation::RemoveAll(remove) => {
                let removed = std::mem::take(&mut self.values);
                self.text = 0;
                let total = removed.len() as u64;
                let names = removed.into_keys().take(index(remove.max_names)).map(CompactString::into_string).collect();
                Outcome::Names(KeyNames { names, total })
            }
            Operation::Append(append) => {
                if append.records.is_empty() {
                    return self.answer(operation);
                }
                if !self.logs.contains_key(&*append.log) {
                    self.logs.insert(append.log.as_str().into(), Log::default());
                    self.logs_cost = self.logs_cost.saturating_add(log_cost(&append.log));
                }
                if let Some(log) = self.logs.get_mut(&*append.log) {
                    self.logs_cost = self.logs_cost.saturating_add(records_cost(&append.records));
                    log.records.extend(append.records.iter().map(|record| record.as_str().into()));
                }
                self.answer(operation)
            }
            Operation::ReplaceOldest(replace) => {
                if let Some(log) = self.logs.get_mut(&*replace.log) {
                    let count = log.surplus(0, replace.count);
                    let old = records_cost(log.records.range(..count));
                    let new = records_cost(&replace.records);
                    self.logs_cost = self.logs_cost.saturating_sub(old).saturating_add(new);
                    log.replace_oldest(count, &replace.records);
                }
                self.answer(operation)
            }
            Operation::Rewrite(rewrite) => {
                let log = self.logs.get_mut(&*rewrite.log);
                if let Some(record) = log.and_then(|log| log.at_mut(rewrite.position)) {
                    let (old, new) = (record.len() as u64, rewrite.record_text.len() as u64);
                    self.logs_cost = self.logs_cost.saturating_sub(old).saturating_add(new);
                    *record = rewrite.record_text.as_str().into();
                }
                self.answer(operation)
            }
            _ => self.answer(operation),
        }
    }

    /// Set a value and tell whether its key is new.
    fn set(&mut self, key: &str, value: &str) -> bool {
        let added = value.len() as u64;
        if let Some(place) = self.values.get_mut(key) {
            self.text = self.text.saturating_sub(place.len() as u64).saturating_add(added);
            // In its place, if it is about as long: that one was just read, and a new one is not in the cache.
            if (value.len()..value.len() + value.len() / 4 + 32).contains(&place.capacity()) {
                place.clear();
                place.push_str(value);
            } else {
                *place = value.into();
            }
            return false;
        }
        self.text = self.text.saturating_add(added).saturating_add(key.len() as u64);
        self.values.insert(key.into(), value.into());
        true
    }

    /// Answer a step that was taken before.
    pub(super) fn repeat(&mut self, operation: &Operation) -> Outcome {
        self.answer(operation)
    }

    /// Answer an operation from what is there and write nothing: for one that reads, its whole work.
    fn answer(&self, operation: &Operation) -> Outcome {
        match operation {
            Operation::Get(get) => match self.values.get(&*get.key) {
                Some(value) if value.len() as u64 > get.max_bytes => {
                    Outcome::Oversize(Size { bytes: value.len() as u64, keys: 1 })
                }
                value => Outcome::Value(FoundValue { json: value.map(ToString::to_string), unreadable: false }),
            },
            Operation::GetAll(get) => {
                let keys = self.values.len() as u64;
                if keys > get.max_keys || self.text > get.max_bytes {
                    return Outcome::Oversize(Size { bytes: self.text, keys });
                }
                let entries =
                    self.values.iter().map(|(key, value)| Entry { key: key.to_string(), json: value.to_string() });
                Outcome::Values(AllValues { entries: entries.collect(), unreadable: Vec::new() })
            }
            Operation::ListKeys(list) => {
                let names = self.values.keys().take(index(list.max_keys)).map(ToString::to_string).collect();
                Outcome::Names(KeyNames { names, total: self.values.len() as u64 })
            }
            Operation::Put(put) => Outcome::Done(WriteDone { created: !self.values.contains_key(&*put.key) }),
            Operation::Increment(increment) => {
                let value = self.values.get(&*increment.key).and_then(|value| integer(value));
                Outcome::Counter(CounterValue { value: value.unwrap_or_default() })
            }
            Operation::Remove(_) | Operation::RemoveAll(_) => Outcome::Names(KeyNames { names: Vec::new(), total: 0 }),
            Operation::Append(append) => self.extent(&append.log),
            Operation::ReplaceOldest(replace) => self.extent(&replace.log),
            Operation::Rewrite(rewrite) => self.extent(&rewrite.log),
            Operation::Count(count) => self.extent(&count.log),
            Operation::Read(read) => Outcome::Records(
                self.logs
                    .get(&*read.log)
                    .map_or_else(no_records, |log| log.read(read.end, read.skip, read.max_records, read.max_bytes)),
            ),
            Operation::Overflow(overflow) => {
                Outcome::Records(self.logs.get(&*overflow.log).map_or_else(no_records, |log| {
                    let is_over = log.records.len() as u64 > overflow.limit;
                    let surplus = if is_over { log.surplus(overflow.keep, overflow.max_records) } else { 0 };
                    log.read(LogEnd::Oldest, 0, surplus as u64, overflow.max_bytes)
                }))
            }
        }
    }

    fn extent(&self, log: &str) -> Outcome {
        let (first, length) = self.logs.get(log).map_or((0, 0), |log| (log.first, log.records.len() as u64));
        Outcome::Extent(LogExtent { first, length })
    }
}

impl Log {
    /// How many records there are beside the newest `keep`, up to a maximum.
    fn surplus(&self, keep: u64, maximum: u64) -> usize {
        self.records.len().saturating_sub(index(keep)).min(index(maximum))
    }

    /// The index of the record at a position.
    fn place(&self, position: u64) -> Option<usize> {
        position.checked_sub(self.first).map(index)
    }

    fn at(&self, position: u64) -> Option<&str> {
        self.records.get(self.place(position)?).map(AsRef::as_ref)
    }

    fn at_mut(&mut self, position: u64) -> Option<&mut Box<str>> {
        let place = self.place(position)?;
        self.records.get_mut(place)
    }

    fn replace_oldest(&mut self, count: usize, records: &[String]) {
        self.first = self.first.saturating_add((count.saturating_sub(records.len())) as u64);
        drop(self.records.drain(..count));
        for record in records.iter().rev() {
            self.records.push_front(record.as_str().into());
        }
        // A log that was long once would keep its queue for ever.
        if self.records.capacity() > 64 && self.records.capacity() / 4 > self.records.len() {
            self.records.shrink_to(self.records.len().saturating_mul(2));
        }
    }

    fn read(&self, end: LogEnd, skip: u64, max_records: u64, max_bytes: u64) -> LogRecords {
        let length = self.records.len();
        let skip = index(skip).min(length);
        let most = index(max_records.min(MAX_RECORDS)).min(length - skip);
        let range: Range<usize> = match end {
            LogEnd::Oldest => {
                let fit = fitting(self.records.range(skip..skip + most), max_bytes);
                skip..skip + fit
            }
            LogEnd::Newest => {
                let after = length - skip;
                let fit = fitting(self.records.range(after - most..after).rev(), max_bytes);
                after - fit..after
            }
        };
        LogRecords {
            first: self.first.saturating_add(range.start as u64),
            length: length as u64,
            records: self.records.range(range).map(ToString::to_string).collect(),
        }
    }
}

/// How many of the records are together no longer than that, but at least one.
fn fitting<'a>(records: impl Iterator<Item = &'a Box<str>>, max_bytes: u64) -> usize {
    let mut bytes = 0_u64;
    records
        .enumerate()
        .take_while(|(place, record)| {
            bytes = bytes.saturating_add(record.len() as u64);
            *place == 0 || bytes <= max_bytes
        })
        .count()
}

fn no_records() -> LogRecords {
    LogRecords { first: 0, length: 0, records: Vec::new() }
}

fn value_cost(key: &str, length: usize) -> u64 {
    VALUE_OVERHEAD.saturating_add(key.len() as u64).saturating_add(length as u64)
}

fn log_cost(name: &str) -> u64 {
    LOG_OVERHEAD.saturating_add(name.len() as u64)
}

fn records_cost<T: AsRef<str>>(records: impl IntoIterator<Item = T>) -> u64 {
    records
        .into_iter()
        .fold(0, |sum: u64, record| sum.saturating_add(RECORD_OVERHEAD).saturating_add(record.as_ref().len() as u64))
}

/// How long a number's text is.
fn digits(number: i64) -> usize {
    let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(number < 0)
}

/// What can't be addressed is more than there is.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The number that a counter's text stands for: an integer in its one canonical spelling, the one that
/// Redis counts with too. Leading zeros, a plus sign, spaces and `-0` are none.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    match digits.first()? {
        b'1'..=b'9' => text.parse().ok(),
        b'0' if text == "0" => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_as_long_as_its_text() {
        for number in [0, 1, -1, 9, 10, -10, 99, 100, i64::MAX, i64::MIN] {
            assert_eq!(digits(number), number.to_string().len());
        }
    }
}
