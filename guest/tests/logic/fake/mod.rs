//! A store for tests of the logic: one thread, one clock that tests move, every rule of the contract
//! that the filter could break is asserted.

mod apply;
mod indexes;
mod rules;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};

use keepline_filter::contract::bindings::keepline::memory::key_value::NewLife;
use keepline_filter::contract::*;

use self::indexes::Index;
use self::rules::assert_allowed;

#[derive(Clone, Default)]
pub struct Bucket {
    pub incarnation: String,
    pub expires_at: Option<u64>,
    pub time_to_live: Option<TimeToLive>,
    pub maps: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    /// First position, records.
    pub logs: BTreeMap<String, (u64, Vec<String>)>,
    pub indexes: BTreeMap<String, Index>,
    /// Holder, and until when.
    pub leases: BTreeMap<String, (String, u64)>,
}

impl Bucket {
    fn map(&mut self, name: &str) -> &mut BTreeMap<String, Vec<u8>> {
        self.maps.entry(name.to_owned()).or_default()
    }

    fn log(&self, name: &str) -> (u64, Vec<String>) {
        self.logs.get(name).cloned().unwrap_or_default()
    }

    fn index(&self, name: &str) -> Index {
        self.indexes.get(name).cloned().unwrap_or_default()
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
    /// As transactions, those of one call together.
    pub waits: Cell<usize>,
    pub fails: RefCell<Option<Failure>>,
    /// Keys of values, logs and other maps of every bucket under which something of a wrong type is stored.
    pub wrong: RefCell<HashSet<String>>,
    /// Keys on a page, at most.
    pub page: Cell<usize>,
    pub capabilities: Cell<Option<StoreCapabilities>>,
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

    /// A session ends.
    pub fn end(&self, session: &str) {
        self.buckets.borrow_mut().remove(session);
    }

    pub fn before_each(&self, hook: impl FnMut(&Self, usize) + 'static) {
        *self.hook.borrow_mut() = Some(Box::new(hook));
    }

    fn called(&self) {
        self.transactions.set(self.transactions.get() + 1);
        self.waits.set(self.waits.get() + 1);
        let hook = self.hook.take();
        if let Some(mut hook) = hook {
            hook(self, self.transactions.get());
            self.hook.borrow_mut().get_or_insert(hook);
        }
    }

    /// The lines since the last look, as `level context message`.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.take();
        let show = |(level, context, message)| {
            let level = if level == Level::Debug { "Debug" } else { "Warn" };
            format!("{level} {context} {message}")
        };
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

/// Under which name a bucket is kept: a session's under its own.
fn name_of(bucket: BucketId<'_>) -> String {
    match bucket.kind {
        BucketKind::Session => bucket.name.to_owned(),
        BucketKind::User => format!("User/{}", bucket.name),
        _ => format!("Node/{}", bucket.name),
    }
}

fn is_of_index(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Post(_) | Operation::Unpost(_) | Operation::Match(_))
}

fn unapplied(status: Status) -> Receipt {
    Receipt { status, now: 0, incarnation: String::new(), created: false, unmet: None, outcomes: Vec::new() }
}

impl Host for Fake {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        let Transaction { bucket: id, opening, expectations, operations } = *transaction;
        self.called();
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        assert_allowed(transaction);
        if !self.capabilities().indexes && operations.iter().any(is_of_index) {
            return Err(Self::failure(FailureCode::Unsupported, "indexes"));
        }

        let name = &*name_of(id);
        let found = self.look(name);
        let there = self.buckets.borrow().get(name).cloned();
        let mut bucket = match (opening, there) {
            (Opening::Existing(_), None) => return Ok(unapplied(found)),
            (Opening::Existing(life), Some(bucket))
                if life.incarnation.is_some_and(|life| bucket.incarnation != life) =>
            {
                return Ok(unapplied(Status::AnotherLife));
            }
            (Opening::CreateNew(_), Some(_)) => return Ok(unapplied(Status::Exists)),
            (Opening::Replace(_), None) => self.create(None),
            (_, Some(bucket)) => bucket,
            (Opening::Create(NewLife { time_to_live }) | Opening::CreateNew(NewLife { time_to_live }), None) => {
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
        if matches!(opening, Opening::Replace(_)) {
            bucket = self.create(None);
        }
        let renews = !matches!(opening, Opening::Existing(life) if !life.renew);
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
            Opening::Existing(life) if life.incarnation.is_some() => String::new(),
            _ => bucket.incarnation.clone(),
        };
        self.buckets.borrow_mut().insert(name.to_owned(), bucket);
        Ok(Receipt { incarnation, outcomes, ..unapplied(Status::Applied) })
    }

    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
        self.waits.set(self.waits.get() + 1);
        transactions
            .iter()
            .map(|transaction| {
                self.waits.set(self.waits.get() - 1);
                self.transact(transaction)
            })
            .collect()
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        let buckets = self.buckets.borrow();
        let names: Vec<_> = buckets.keys().filter(|name| name.as_str() > cursor && !name.contains('/')).collect();
        let page: Vec<String> = names.iter().take(limit as usize).map(|&n| n.clone()).collect();
        let is_last = page.len() == names.len();
        let cursor = page.last().filter(|_| !is_last).cloned().unwrap_or_default();
        Ok(BucketPage { names: page, cursor })
    }

    fn delete(&self, bucket: BucketId<'_>, incarnation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure> {
        self.called();
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        let name = &*name_of(bucket);
        let status = self.look(name);
        let is_another = |bucket: &Bucket| incarnation.is_some_and(|life| life != bucket.incarnation);
        if self.buckets.borrow().get(name).is_some_and(is_another) {
            return Ok(Deletion { status: Status::AnotherLife, now: 0, values: 0, keys: Vec::new() });
        }
        let mut bucket = self.buckets.borrow_mut().remove(name).unwrap_or_default();
        let values = std::mem::take(bucket.map(VALUES));
        let count = values.len() as u64;
        Ok(Deletion { status, now: 0, values: count, keys: values.into_keys().take(max_keys as usize).collect() })
    }

    fn capabilities(&self) -> StoreCapabilities {
        let all = StoreCapabilities {
            durable: false,
            atomic: true,
            expiring: true,
            exactly_once: true,
            listing: true,
            leases: true,
            indexes: true,
        };
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
