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
    pub values: BTreeMap<String, Vec<u8>>,
    /// First position, records.
    pub logs: BTreeMap<String, (u64, Vec<String>)>,
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
    /// Keys and logs of every bucket under which something of a wrong type is stored.
    pub wrong: RefCell<HashSet<String>>,
    /// Keys that are counted with the names, and have none that could be told.
    pub unnamed: Cell<u64>,
    /// Called before each transaction with its number, from 1: another writer's chance.
    pub hook: RefCell<Option<Hook>>,
    pub lines: RefCell<Vec<(Level, String, String)>>,
}

impl Fake {
    pub fn new() -> Self {
        let fake = Self::default();
        fake.micros.set(1_795_186_917_032_595);
        fake.max_buckets.set(1000);
        fake
    }

    pub fn pass(&self, milliseconds: u64) {
        self.micros.set(self.micros.get() + milliseconds * 1000);
    }

    pub fn set(&self, bucket: &str, key: &str, value: impl Into<Vec<u8>>) {
        let mut buckets = self.buckets.borrow_mut();
        let bucket =
            buckets.entry(bucket.to_owned()).or_insert_with(|| Bucket { incarnation: "0".into(), ..Bucket::default() });
        bucket.values.insert(key.to_owned(), value.into());
    }

    pub fn get(&self, bucket: &str, key: &str) -> Option<String> {
        let buckets = self.buckets.borrow();
        let value = buckets.get(bucket)?.values.get(key)?;
        Some(String::from_utf8(value.clone()).unwrap())
    }

    pub fn history(&self, bucket: &str) -> Vec<String> {
        let buckets = self.buckets.borrow();
        let log = buckets.get(bucket).and_then(|b| b.logs.get("history"));
        log.map_or_else(Vec::new, |(_, records)| records.clone())
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
    Receipt { status, created: false, incarnation: String::new(), outcomes: Vec::new() }
}

/// As many from the front as the limits allow, but at least one.
fn fitting(records: &[String], max_records: u64, max_bytes: u64) -> &[String] {
    let mut bytes = 0;
    let count = records
        .iter()
        .take(usize::try_from(max_records).unwrap_or(usize::MAX))
        .take_while(|record| {
            let is_first = bytes == 0;
            bytes += record.len() as u64;
            is_first || bytes <= max_bytes
        })
        .count();
    &records[..count]
}

fn apply(bucket: &mut Bucket, operation: &Operation<'_>) -> Result<Outcome, Failure> {
    Ok(match *operation {
        Operation::Get { key, max_bytes } => match bucket.values.get(key) {
            Some(value) if value.len() as u64 > max_bytes => Outcome::Oversize { bytes: value.len() as u64, keys: 1 },
            value => {
                let json = value.and_then(|value| String::from_utf8(value.clone()).ok());
                Outcome::Value { unreadable: value.is_some() && json.is_none(), json }
            }
        },
        Operation::GetAll { max_bytes, max_keys } => {
            let keys = bucket.values.len() as u64;
            let size = |(key, value): (&String, &Vec<u8>)| (key.len() + value.len()) as u64;
            let bytes = bucket.values.iter().map(size).sum();
            if keys > max_keys || bytes > max_bytes {
                return Ok(Outcome::Oversize { bytes, keys });
            }
            let mut all = AllValues::default();
            for (key, value) in &bucket.values {
                match String::from_utf8(value.clone()) {
                    Ok(json) => all.entries.push(Entry { key: key.clone(), json }),
                    Err(_) => all.unreadable.push(key.clone()),
                }
            }
            Outcome::Values(all)
        }
        Operation::ListKeys { max_keys } => Outcome::Names {
            names: bucket.values.keys().take(max_keys as usize).cloned().collect(),
            total: bucket.values.len() as u64,
        },
        Operation::Put { key, value } => {
            Outcome::Done { created: bucket.values.insert(key.into(), value.into()).is_none() }
        }
        Operation::Increment { key, amount } => {
            let old = match bucket.values.get(key) {
                None => 0,
                Some(value) => std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse::<i64>().ok())
                    .ok_or_else(|| Fake::failure(FailureCode::NotACounter, key))?,
            };
            let new = old.checked_add(amount).ok_or_else(|| Fake::failure(FailureCode::CounterOverflow, key))?;
            bucket.values.insert(key.into(), new.to_string().into());
            Outcome::Counter(new)
        }
        Operation::Remove { key } => {
            let names: Vec<_> = bucket.values.remove_entry(key).map(|e| e.0).into_iter().collect();
            Outcome::Names { total: names.len() as u64, names }
        }
        Operation::RemoveAll { max_names } => {
            let all = std::mem::take(&mut bucket.values);
            Outcome::Names { total: all.len() as u64, names: all.into_keys().take(max_names as usize).collect() }
        }
        Operation::Append { log, records } => {
            let (first, all) = bucket.logs.entry(log.into()).or_default();
            all.extend(records.iter().map(|&record| record.to_owned()));
            Outcome::Extent { first: *first, length: all.len() as u64 }
        }
        Operation::Read { log, end, skip, max_records, max_bytes } => {
            let (first, all) = bucket.logs.get(log).cloned().unwrap_or_default();
            let skip = all.len().min(skip as usize);
            let (at, records) = match end {
                LogEnd::Oldest => (skip, fitting(&all[skip..], max_records, max_bytes).to_vec()),
                LogEnd::Newest => {
                    let rest: Vec<_> = all[..all.len() - skip].iter().rev().cloned().collect();
                    let mut taken = fitting(&rest, max_records, max_bytes).to_vec();
                    taken.reverse();
                    (all.len() - skip - taken.len(), taken)
                }
            };
            Outcome::Records(Records { first: first + at as u64, length: all.len() as u64, records })
        }
        Operation::Overflow { log, limit, keep, max_records, max_bytes } => {
            let (first, all) = bucket.logs.get(log).cloned().unwrap_or_default();
            let mut records = Vec::new();
            if all.len() as u64 > limit {
                let surplus = all.len().saturating_sub(keep as usize);
                records = fitting(&all[..surplus], max_records, max_bytes).to_vec();
            }
            Outcome::Records(Records { first, length: all.len() as u64, records })
        }
        Operation::ReplaceOldest { log, count, records } => {
            let (first, all) = bucket.logs.entry(log.into()).or_default();
            let count = all.len().min(count as usize);
            assert!(records.len() <= count, "more records than are replaced");
            all.splice(..count, records.iter().map(|&record| record.to_owned()));
            *first += (count - records.len()) as u64;
            Outcome::Extent { first: *first, length: all.len() as u64 }
        }
    })
}

fn holds(bucket: &Bucket, expectation: &Expectation<'_>, operations: &[Operation<'_>]) -> bool {
    match *expectation {
        Expectation::Oldest { log, records } => {
            bucket.logs.get(log).is_some_and(|(_, all)| all.len() >= records.len() && all[..records.len()] == *records)
        }
        Expectation::Keys { keys } => {
            let wanted: HashSet<&str> = keys.iter().copied().collect();
            bucket.values.keys().map(String::as_str).collect::<HashSet<_>>() == wanted
        }
        Expectation::Room { limit } => {
            let is_new = |operation: &&Operation<'_>| match **operation {
                Operation::Put { key, .. } | Operation::Increment { key, .. } => !bucket.values.contains_key(key),
                _ => false,
            };
            let created = operations.iter().filter(is_new).count();
            created == 0 || (bucket.values.len() + created) as u64 <= limit
        }
    }
}

/// The key or log that an operation can't do with when it is of a wrong type.
fn touched<'a>(operation: &Operation<'a>) -> Option<&'a str> {
    match *operation {
        Operation::Get { key, .. } | Operation::Put { key, .. } | Operation::Increment { key, .. } => Some(key),
        Operation::Append { log, .. }
        | Operation::Read { log, .. }
        | Operation::Overflow { log, .. }
        | Operation::ReplaceOldest { log, .. } => Some(log),
        _ => None,
    }
}

/// A transaction may write each key once and each log once.
fn assert_single_writes(operations: &[Operation<'_>]) {
    let mut seen = HashSet::new();
    for operation in operations {
        let written = match operation {
            Operation::Put { key, .. } | Operation::Increment { key, .. } | Operation::Remove { key } => {
                format!("key {key}")
            }
            Operation::Append { log, .. } | Operation::ReplaceOldest { log, .. } => {
                format!("log {log}")
            }
            _ => continue,
        };
        assert!(seen.insert(written), "written twice: {operations:?}");
    }
}

impl Host for Fake {
    fn transact(
        &self,
        name: &str,
        opening: Opening<'_>,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Result<Receipt, Failure> {
        self.transactions.set(self.transactions.get() + 1);
        let hook = self.hook.take();
        if let Some(mut hook) = hook {
            hook(self, self.transactions.get());
            self.hook.borrow_mut().get_or_insert(hook);
        }
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        assert_single_writes(operations);

        let found = self.look(name);
        let there = self.buckets.borrow().get(name).cloned();
        let created = there.is_none();
        let mut bucket = match (opening, there) {
            (Opening::Existing { .. }, None) => return Ok(unapplied(found)),
            (Opening::Existing { incarnation: Some(life) }, Some(bucket)) if bucket.incarnation != life => {
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
        if !expectations.iter().all(|e| holds(&bucket, e, operations)) {
            return Ok(unapplied(Status::Unmet));
        }
        if let Some(life) = bucket.time_to_live
            && life.sliding
        {
            bucket.expires_at = Some(self.millis() + life.milliseconds);
        }
        let is_wrong = |name: &&str| self.wrong.borrow().contains(*name);
        if let Some(name) = operations.iter().filter_map(touched).find(is_wrong) {
            return Err(Self::failure(FailureCode::WrongType, name));
        }
        let mut outcomes = operations.iter().map(|o| apply(&mut bucket, o)).collect::<Result<Vec<_>, _>>()?;
        for outcome in &mut outcomes {
            if let Outcome::Names { total, .. } = outcome {
                *total += self.unnamed.get();
            }
        }
        let incarnation = match opening {
            Opening::Existing { incarnation: Some(_) } => String::new(),
            _ => bucket.incarnation.clone(),
        };
        self.buckets.borrow_mut().insert(name.to_owned(), bucket);
        Ok(Receipt { status: Status::Applied, created, incarnation, outcomes })
    }

    fn list_buckets(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        let buckets = self.buckets.borrow();
        let names: Vec<_> = buckets.keys().filter(|name| name.as_str() > cursor).collect();
        let page: Vec<String> = names.iter().take(limit as usize).map(|&n| n.clone()).collect();
        let is_last = page.len() == names.len();
        let cursor = page.last().filter(|_| !is_last).cloned().unwrap_or_default();
        Ok(BucketPage { buckets: page, cursor })
    }

    fn delete_bucket(&self, name: &str) -> Result<Deletion, Failure> {
        let status = self.look(name);
        let bucket = self.buckets.borrow_mut().remove(name).unwrap_or_default();
        Ok(Deletion { status, keys: bucket.values.into_keys().collect() })
    }

    fn describe_bucket(&self, name: &str) -> Result<Description, Failure> {
        let status = self.look(name);
        let bucket = self.buckets.borrow().get(name).cloned().unwrap_or_default();
        let logs = bucket
            .logs
            .iter()
            .map(|(log, (_, records))| LogDescription { log: log.clone(), length: records.len() as u64 });
        Ok(Description {
            status,
            logs: logs.collect(),
            incarnation: bucket.incarnation,
            time_to_live: bucket.time_to_live,
            expires_in: bucket.expires_at.map(|at| at - self.millis()),
            keys: bucket.values.len() as u64,
        })
    }

    fn now_micros(&self) -> u64 {
        self.micros.get()
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        assert!(!message.contains('\n'), "a log line is one line: {message:?}");
        self.lines.borrow_mut().push((level, context.into(), message.into()));
    }
}
