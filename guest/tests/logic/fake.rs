//! A store for tests of the logic: one thread, one clock that tests move, every rule of the contract
//! that the filter could break is asserted.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};

use keepline_filter::store::*;

#[derive(Clone, Default)]
pub struct Bucket {
    pub incarnation: String,
    pub expires_at: Option<u64>,
    pub time_to_live: Option<TimeToLive>,
    pub maps: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// First position, records.
    pub logs: BTreeMap<String, (u64, Vec<String>)>,
}

impl Bucket {
    fn map(&mut self, name: &str) -> &mut BTreeMap<String, Vec<u8>> {
        self.maps.entry(name.to_owned()).or_default()
    }

    fn log(&self, name: &str) -> (u64, Vec<String>) {
        self.logs.get(name).cloned().unwrap_or_default()
    }
}

type Hook = Box<dyn FnMut(&Fake, usize)>;

#[derive(Default)]
pub struct Fake {
    pub buckets: RefCell<BTreeMap<String, Bucket>>,
    pub micros: Cell<u64>,
    pub lives: Cell<u64>,
    pub max_buckets: Cell<usize>,
    pub transactions: Cell<usize>,
    pub fails: RefCell<Option<Failure>>,
    /// Keys of values, logs and other maps of every bucket under which something of a wrong type is stored.
    pub wrong: RefCell<HashSet<String>>,
    /// Keys on a page, at most.
    pub page: Cell<usize>,
    pub capabilities: Cell<Option<Capabilities>>,
    /// Called before each transaction with its number, from 1: another writer's chance.
    pub hook: RefCell<Option<Hook>>,
    pub lines: RefCell<Vec<(Level, String, String)>>,
}

impl Fake {
    pub fn new() -> Self {
        let fake = Self::default();
        fake.micros.set(1_795_186_917_032_595);
        fake.max_buckets.set(1000);
        fake.page.set(10_000);
        fake
    }

    pub fn pass(&self, milliseconds: u64) {
        self.micros.set(self.micros.get() + milliseconds * 1000);
    }

    pub fn set(&self, bucket: &str, key: &str, value: impl Into<Vec<u8>>) {
        let mut buckets = self.buckets.borrow_mut();
        let bucket =
            buckets.entry(bucket.to_owned()).or_insert_with(|| Bucket { incarnation: "0".into(), ..Bucket::default() });
        bucket.map(VALUES).insert(key.to_owned(), value.into());
    }

    pub fn get(&self, bucket: &str, key: &str) -> Option<String> {
        let buckets = self.buckets.borrow();
        let value = buckets.get(bucket)?.maps.get(VALUES)?.get(key)?;
        Some(String::from_utf8(value.clone()).unwrap())
    }

    pub fn history(&self, bucket: &str) -> Vec<String> {
        let buckets = self.buckets.borrow();
        let log = buckets.get(bucket).and_then(|b| b.logs.get("history"));
        log.map_or_else(Vec::new, |(_, records)| records.clone())
    }

    /// Change the records of a bucket's history.
    pub fn rewrite(&self, bucket: &str, change: impl FnOnce(&mut u64, &mut Vec<String>)) {
        let mut buckets = self.buckets.borrow_mut();
        let (first, records) = buckets.get_mut(bucket).unwrap().logs.get_mut("history").unwrap();
        change(first, records);
    }

    pub fn push(&self, bucket: &str, record: &str) {
        let mut buckets = self.buckets.borrow_mut();
        let log = buckets.get_mut(bucket).unwrap().logs.entry("history".into());
        log.or_default().1.push(record.to_owned());
    }

    pub fn fail(&self, code: FailureCode) {
        *self.fails.borrow_mut() =
            Some(Failure { code, subject: "answer_count".into(), limit: 1000, message: "It broke".into() });
    }

    pub fn spoil(&self, name: &str) {
        self.wrong.borrow_mut().insert(name.to_owned());
    }

    pub fn works(&self) {
        *self.fails.borrow_mut() = None;
    }

    pub fn before_each(&self, hook: impl FnMut(&Self, usize) + 'static) {
        *self.hook.borrow_mut() = Some(Box::new(hook));
    }

    /// The lines since the last look, as `level context message`.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.take();
        let show = |(level, context, message)| format!("{level:?} {context} {message}");
        lines.into_iter().map(show).collect()
    }

    fn millis(&self) -> u64 {
        self.micros.get() / 1000
    }

    fn look(&self, name: &str) -> Status {
        let mut buckets = self.buckets.borrow_mut();
        match buckets.get(name).map(|bucket| bucket.expires_at) {
            None => Status::Absent,
            Some(Some(at)) if at <= self.millis() => {
                buckets.remove(name);
                Status::Expired
            }
            Some(_) => Status::Applied,
        }
    }

    fn failure(code: FailureCode, subject: &str) -> Failure {
        Failure { code, subject: subject.to_owned(), limit: 0, message: format!("{code:?}") }
    }

    fn create(&self, time_to_live: Option<TimeToLive>) -> Bucket {
        self.lives.set(self.lives.get() + 1);
        Bucket {
            incarnation: format!("life-{}", self.lives.get()),
            expires_at: time_to_live.map(|life| self.millis() + life.milliseconds),
            time_to_live,
            ..Bucket::default()
        }
    }
}

fn unapplied(status: Status) -> Receipt {
    Receipt { status, incarnation: String::new(), unmet: None, outcomes: Vec::new() }
}

/// As many from the front as the limits allow, but at least one.
fn fitting(records: &[String], max_records: u64, max_bytes: u64) -> &[String] {
    let mut bytes = 0;
    let count = records
        .iter()
        .take(usize::try_from(max_records.min(10_000)).unwrap())
        .take_while(|record| {
            let is_first = bytes == 0;
            bytes += record.len() as u64;
            is_first || bytes <= max_bytes
        })
        .count();
    &records[..count]
}

fn extent(first: u64, records: &[String]) -> LogExtent {
    LogExtent { first, length: records.len() as u64 }
}

impl Fake {
    fn is_wrong(&self, map: &str, key: &str) -> bool {
        self.wrong.borrow().contains(if map == VALUES { key } else { map })
    }

    fn entries<'a>(&self, map: &str, found: impl Iterator<Item = (&'a String, &'a Vec<u8>)>) -> FoundEntries {
        let mut all = FoundEntries::default();
        for (key, value) in found {
            match String::from_utf8(value.clone()) {
                Ok(text) if !self.is_wrong(map, key) => all.entries.push(Entry { key: key.clone(), text }),
                _ => all.unreadable.push(key.clone()),
            }
        }
        all
    }

    fn apply(&self, bucket: &mut Bucket, operation: &Operation<'_>) -> Result<Outcome, Failure> {
        Ok(match *operation {
            Operation::Get { map, key, max_bytes } => {
                let found = self.entries(map, bucket.map(map).iter().filter(|(name, _)| *name == key));
                match found.entries.first() {
                    Some(entry) if entry.text.len() as u64 > max_bytes => {
                        Outcome::Oversize { bytes: entry.text.len() as u64, entries: 1 }
                    }
                    _ => Outcome::Entries(found),
                }
            }
            Operation::GetAll { map, max_entries, max_bytes } => {
                let all = bucket.map(map);
                let entries = all.len() as u64;
                let bytes = all.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
                if entries > max_entries || bytes > max_bytes {
                    return Ok(Outcome::Oversize { bytes, entries });
                }
                Outcome::Entries(self.entries(map, all.iter()))
            }
            Operation::PageKeys { map, cursor, max_entries, .. } => {
                let at: usize = cursor.parse().unwrap_or(0);
                let all = bucket.map(map);
                let keys: Vec<_> =
                    all.keys().skip(at).take(self.page.get().min(max_entries as usize)).cloned().collect();
                let end = at + keys.len();
                let cursor = if end < all.len() { end.to_string() } else { String::new() };
                // In no particular order.
                Outcome::Page(KeyPage { keys: keys.into_iter().rev().collect(), cursor })
            }
            Operation::Put { map, key, text } => {
                Outcome::Changed(bucket.map(map).insert(key.into(), text.into()).is_none().into())
            }
            Operation::Increment { map, key, amount } => {
                let old = match bucket.map(map).get(key) {
                    None => 0,
                    Some(value) => std::str::from_utf8(value)
                        .ok()
                        .and_then(|text| text.parse::<i64>().ok())
                        .ok_or_else(|| Self::failure(FailureCode::NotACounter, key))?,
                };
                let new = old.checked_add(amount).ok_or_else(|| Self::failure(FailureCode::CounterOverflow, key))?;
                bucket.map(map).insert(key.into(), new.to_string().into());
                Outcome::Counter(new)
            }
            Operation::Remove { map, keys } => {
                Outcome::Changed(keys.iter().filter(|key| bucket.map(map).remove(**key).is_some()).count() as u64)
            }
            Operation::ResetMap { map } => Outcome::Changed(std::mem::take(bucket.map(map)).len() as u64),
            Operation::Append { log, records, mark } => {
                let (first, all) = bucket.logs.entry(log.into()).or_default();
                let next = *first + all.len() as u64;
                all.extend(records.iter().map(|&record| record.to_owned()));
                let extent = extent(*first, all);
                if let Some(mark) = mark {
                    let position = next + u64::from(mark.record_index);
                    bucket.map(mark.map).insert(mark.key.into(), position.to_string().into());
                }
                Outcome::Extent(extent)
            }
            Operation::Read { log, end, max_records, max_bytes } => {
                let (first, mut all) = bucket.log(log);
                let extent = extent(first, &all);
                let records = match end {
                    LogEnd::Oldest => fitting(&all, max_records, max_bytes).to_vec(),
                    LogEnd::Newest => {
                        all.reverse();
                        fitting(&all, max_records, max_bytes).iter().rev().cloned().collect()
                    }
                };
                let first = match end {
                    LogEnd::Oldest if !records.is_empty() => first,
                    _ => extent.next() - records.len() as u64,
                };
                Outcome::Records(LogRecords { extent, first, records })
            }
            Operation::ReadAt { log, position, count, max_bytes } => {
                let (first, all) = bucket.log(log);
                let extent = extent(first, &all);
                let index = |position: u64| (position.saturating_sub(first) as usize).min(all.len());
                let run = &all[index(position)..index(position.saturating_add(u64::from(count)))];
                let records = fitting(run, u64::MAX, max_bytes).to_vec();
                let first = if records.is_empty() { extent.next() } else { position.max(first) };
                Outcome::Span(LogRecords { extent, first, records })
            }
            Operation::Overflow { log, limit, keep, max_records, max_bytes } => {
                let (first, all) = bucket.log(log);
                let extent = extent(first, &all);
                let mut records = Vec::new();
                if all.len() as u64 > limit {
                    let surplus = all.len().saturating_sub(keep as usize);
                    records = fitting(&all[..surplus], max_records, max_bytes).to_vec();
                }
                let first = if records.is_empty() { extent.next() } else { first };
                Outcome::Records(LogRecords { extent, first, records })
            }
            Operation::ReplaceOldest { log, count, records } => {
                let (first, all) = bucket.logs.entry(log.into()).or_default();
                let count = all.len().min(count as usize);
                assert!(records.len() <= count, "more records than are replaced");
                all.splice(..count, records.iter().map(|&record| record.to_owned()));
                *first += (count - records.len()) as u64;
                Outcome::Extent(extent(*first, all))
            }
            Operation::Describe { .. } => Outcome::Described(Description {
                expires_in: bucket.expires_at.map(|at| at - self.millis()),
                values: bucket.map(VALUES).len() as u64,
                logs: bucket.logs.iter().map(|(log, (first, all))| (log.clone(), extent(*first, all))).collect(),
            }),
        })
    }

    /// What of a wrong type an operation can't do with.
    fn spoilt<'a>(&self, operation: &Operation<'a>) -> Option<&'a str> {
        let wrong = self.wrong.borrow();
        let is_wrong = |name: &&str| wrong.contains(*name);
        match *operation {
            Operation::Put { map, key, .. } | Operation::Increment { map, key, .. } => {
                Some(if map == VALUES { key } else { map }).filter(is_wrong)
            }
            Operation::Append { log, mark, .. } => {
                [Some(log), mark.map(|mark| mark.map)].into_iter().flatten().find(is_wrong)
            }
            Operation::Read { log, .. }
            | Operation::ReadAt { log, .. }
            | Operation::Overflow { log, .. }
            | Operation::ReplaceOldest { log, .. } => Some(log).filter(is_wrong),
            _ => None,
        }
    }

    fn holds(
        &self,
        bucket: &Bucket,
        expectation: &Expectation<'_>,
        operations: &[Operation<'_>],
    ) -> Result<bool, Failure> {
        let has = |map: &str, key: &str| bucket.maps.get(map).is_some_and(|entries| entries.contains_key(key));
        Ok(match *expectation {
            Expectation::Absent { map, .. } if self.wrong.borrow().contains(map) => {
                return Err(Self::failure(FailureCode::WrongType, map));
            }
            Expectation::Absent { map, key } => !has(map, key),
            Expectation::Log { log, first, next } => {
                let (at, all) = bucket.log(log);
                let extent = extent(at, &all);
                first.is_none_or(|first| first == at) && next.is_none_or(|next| next == extent.next())
            }
            Expectation::Room { map: room, limit } => {
                let is_new = |operation: &&Operation<'_>| match **operation {
                    Operation::Put { map, key, .. } | Operation::Increment { map, key, .. } => {
                        map == room && !has(map, key)
                    }
                    _ => false,
                };
                let created = operations.iter().filter(is_new).count();
                created == 0 || (bucket.maps.get(room).map_or(0, BTreeMap::len) + created) as u64 <= limit
            }
        })
    }
}

/// A transaction writes each key once and each log once, and is of a bounded size.
fn assert_allowed(transaction: &Transaction<'_>) {
    let mut seen = HashSet::new();
    let mut pieces = transaction.expectations.len();
    for operation in transaction.operations {
        pieces += 2;
        let written: Vec<String> = match operation {
            Operation::Put { map, key, .. } | Operation::Increment { map, key, .. } => vec![format!("{map}/{key}")],
            Operation::Remove { map, keys } => {
                pieces += keys.len();
                keys.iter().map(|key| format!("{map}/{key}")).collect()
            }
            Operation::ResetMap { map } => vec![format!("map {map}")],
            Operation::Append { log, records, mark } => {
                assert!(mark.is_none_or(|mark| (mark.record_index as usize) < records.len() && mark.map != VALUES));
                let mark = mark.map(|mark| format!("{}/{}", mark.map, mark.key));
                mark.into_iter().chain([format!("log {log}")]).collect()
            }
            Operation::ReplaceOldest { log, .. } => vec![format!("log {log}")],
            Operation::Overflow { limit, keep, .. } => {
                assert!(keep <= limit);
                continue;
            }
            _ => continue,
        };
        for place in written {
            assert!(seen.insert(place), "written twice: {:?}", transaction.operations);
        }
    }
    assert!(pieces <= 20_000, "{pieces} pieces");
    let incarnation = match transaction.opening {
        Opening::Existing { incarnation, .. } => incarnation,
        _ => None,
    };
    assert!(incarnation.is_none_or(|life| !life.is_empty() && life.bytes().all(|byte| byte.is_ascii_graphic())));
}

impl Host for Fake {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        let Transaction { session: name, opening, expectations, operations } = *transaction;
        self.transactions.set(self.transactions.get() + 1);
        let hook = self.hook.take();
        if let Some(mut hook) = hook {
            hook(self, self.transactions.get());
            self.hook.borrow_mut().get_or_insert(hook);
        }
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        assert_allowed(transaction);

        let found = self.look(name);
        let there = self.buckets.borrow().get(name).cloned();
        let mut bucket = match (opening, there) {
            (Opening::Existing { .. }, None) => return Ok(unapplied(found)),
            (Opening::Existing { incarnation: Some(life), .. }, Some(bucket)) if bucket.incarnation != life => {
                return Ok(unapplied(Status::AnotherLife));
            }
            (Opening::CreateNew { .. }, Some(_)) => return Ok(unapplied(Status::Exists)),
            (_, Some(bucket)) => bucket,
            (Opening::Create { time_to_live } | Opening::CreateNew { time_to_live }, None) => {
                if self.buckets.borrow().len() >= self.max_buckets.get() {
                    return Err(Failure {
                        limit: self.max_buckets.get() as u64,
                        ..Self::failure(FailureCode::TooManyBuckets, "")
                    });
                }
                self.create(time_to_live)
            }
        };
        for (index, expectation) in expectations.iter().enumerate() {
            if !self.holds(&bucket, expectation, operations)? {
                return Ok(Receipt { unmet: Some(index as u32), ..unapplied(Status::Unmet) });
            }
        }
        let renews = !matches!(opening, Opening::Existing { renew: false, .. });
        if let Some(life) = bucket.time_to_live
            && life.sliding
            && renews
        {
            bucket.expires_at = Some(self.millis() + life.milliseconds);
        }
        if let Some(name) = operations.iter().find_map(|operation| self.spoilt(operation)) {
            return Err(Self::failure(FailureCode::WrongType, name));
        }
        let outcomes = operations.iter().map(|o| self.apply(&mut bucket, o)).collect::<Result<Vec<_>, _>>()?;
        let incarnation = match opening {
            Opening::Existing { incarnation: Some(_), .. } => String::new(),
            _ => bucket.incarnation.clone(),
        };
        self.buckets.borrow_mut().insert(name.to_owned(), bucket);
        Ok(Receipt { status: Status::Applied, incarnation, unmet: None, outcomes })
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        let buckets = self.buckets.borrow();
        let names: Vec<_> = buckets.keys().filter(|name| name.as_str() > cursor).collect();
        let page: Vec<String> = names.iter().take(limit as usize).map(|&n| n.clone()).collect();
        let is_last = page.len() == names.len();
        let cursor = page.last().filter(|_| !is_last).cloned().unwrap_or_default();
        Ok(BucketPage { names: page, cursor })
    }

    fn delete_session(&self, name: &str, max_keys: u32) -> Result<Deletion, Failure> {
        let status = self.look(name);
        let mut bucket = self.buckets.borrow_mut().remove(name).unwrap_or_default();
        let values = std::mem::take(bucket.map(VALUES));
        Ok(Deletion { status, values: values.len() as u64, keys: values.into_keys().take(max_keys as usize).collect() })
    }

    fn capabilities(&self) -> Capabilities {
        let all = Capabilities { atomic: true, expiring: true, exactly_once: true, listing: true };
        self.capabilities.get().unwrap_or(all)
    }

    fn now_micros(&self) -> u64 {
        self.micros.get()
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        assert!(!message.contains('\n'), "a log line is one line: {message:?}");
        self.lines.borrow_mut().push((level, context.into(), message.into()));
    }
}
