//! A host for tests of the logic: the memory store, a clock that tests move, and faults: failures, broken entries, other
//! writers between two calls. What the contract refuses fails the test.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keepline_filter::Host;
use keepline_filter::contract::bindings::keepline::memory::key_value::{EntryResult as Entry, *};
use keepline_filter::contract::{Level, VALUES};

use super::memory::Memory;
use super::stores::{Clock, MemoryLimits, MemoryStore};

/// Tasks lease under their own names.
const LEASES: [&str; 9] =
    ["summary", "title", "retention", "index", "vectors", "recall", "recall-reset", "activity", "other"];

/// Microseconds since 1970. Clones tell the same time.
#[derive(Clone)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, micros: u64) {
        self.0.store(micros, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.get())
    }
}

/// What a bucket holds, copied out of the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bucket {
    pub generation: String,
    pub time_to_live: Option<TimeToLive>,
    /// Milliseconds since 1970.
    pub expires_at: Option<u64>,
    /// Those that are not empty.
    pub maps: BTreeMap<String, BTreeMap<String, String>>,
    /// First position, records.
    pub logs: BTreeMap<String, (u64, Vec<String>)>,
    /// How many documents they have.
    pub indexes: BTreeMap<String, usize>,
}

type Buckets = BTreeMap<String, Bucket>;
type Hook = Box<dyn FnMut(&TestHost, usize)>;

pub struct TestHost {
    memory: Memory,
    pub micros: TestClock,
    /// As the store names them. The filter sees `life-1` and so on, in the order of their first use.
    lives: RefCell<Vec<String>>,
    pub transactions: Cell<usize>,
    /// As transactions, those of one call together.
    pub waits: Cell<usize>,
    /// What all calls fail with.
    pub fails: RefCell<Option<Failure>>,
    /// Keys of values, logs and other maps of every bucket under which something of a wrong type is stored.
    wrong: RefCell<BTreeSet<String>>,
    /// Values that no store of ours would take, by bucket and key: others write by other rules.
    foreign: RefCell<BTreeMap<(String, String), Vec<u8>>>,
    /// Keys on a page, at most.
    pub page: Cell<u64>,
    pub capabilities: Cell<Option<StoreCapabilities>>,
    hook: RefCell<Option<Hook>>,
    pub lines: RefCell<Vec<(Level, String, String)>>,
}

impl TestHost {
    pub fn new() -> Self {
        Self::with_room_for(1000)
    }

    /// Whose store takes no more sessions than that.
    pub fn with_room_for(max_sessions: u64) -> Self {
        let micros = TestClock(Arc::new(AtomicU64::new(1_795_186_917_032_595)));
        let limits = MemoryLimits { max_sessions, ..MemoryLimits::default() };
        Self {
            memory: Memory::new(Arc::new(MemoryStore::with_clock(limits, Arc::new(micros.clone())))),
            micros,
            lives: RefCell::default(),
            transactions: Cell::default(),
            waits: Cell::default(),
            fails: RefCell::default(),
            wrong: RefCell::default(),
            foreign: RefCell::default(),
            page: Cell::new(10_000),
            capabilities: Cell::default(),
            hook: RefCell::default(),
            lines: RefCell::default(),
        }
    }

    pub fn pass(&self, milliseconds: u64) {
        self.micros.set(self.micros.get() + milliseconds * 1000);
    }

    /// Every call fails like that.
    pub fn fail(&self, code: FailureCode) {
        *self.fails.borrow_mut() =
            Some(Failure { code, subject: "answer_count".into(), limit: 1000, message: "It broke".into() });
    }

    pub fn works(&self) {
        *self.fails.borrow_mut() = None;
    }

    pub fn spoil(&self, name: &str) {
        self.wrong.borrow_mut().insert(name.to_owned());
    }

    /// Calls that before each transaction with its number, from 1: another writer's chance.
    pub fn before_each(&self, hook: impl FnMut(&Self, usize) + 'static) {
        *self.hook.borrow_mut() = Some(Box::new(hook));
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

    /// Stores a value, also one that no store would take.
    pub fn set(&self, bucket: &str, key: &str, value: impl Into<Vec<u8>>) {
        if !is_name(bucket) {
            self.foreign.borrow_mut().insert((bucket.to_owned(), key.to_owned()), value.into());
            return;
        }
        let is_key = (1..=256).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        match String::from_utf8(value.into()) {
            Ok(text) if is_key && !key.starts_with("__") => self.put(bucket, VALUES, key, &text),
            value => {
                self.write(bucket, &[]);
                let value = value.map_or_else(|error| error.into_bytes(), String::into_bytes);
                self.foreign.borrow_mut().insert((bucket.to_owned(), key.to_owned()), value);
            }
        }
    }

    /// Stores an entry of a map.
    pub fn put(&self, bucket: &str, map_name: &str, key: &str, text: &str) {
        self.write(bucket, &[Operation::Put(PutOperation { map_name, entries: &[EntryParam { key, text }] })]);
    }

    pub fn get(&self, bucket: &str, key: &str) -> Option<String> {
        Some(String::from_utf8(self.values(bucket).remove(key)?).unwrap())
    }

    /// All values of a bucket, also those that no store would take.
    pub fn values(&self, bucket: &str) -> BTreeMap<String, Vec<u8>> {
        let values = self.map(bucket, VALUES).into_iter().map(|(key, text)| (key, text.into_bytes()));
        values.chain(self.foreign_of(bucket)).collect()
    }

    fn foreign_of(&self, bucket: &str) -> Vec<(String, Vec<u8>)> {
        let foreign = self.foreign.borrow();
        let of = foreign.iter().filter(|((name, _), _)| name == bucket);
        of.map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    /// An entry of a map.
    pub fn entry(&self, bucket: &str, map_name: &str, key: &str) -> Option<String> {
        let keys = [key];
        let get = Operation::Get(GetOperation { map_name, keys: &keys, max_bytes: u64::MAX });
        let found = self.look(bucket, &[get])?.outcomes.remove(0);
        let Outcome::Entries(mut found) = found else { panic!("{found:?}") };
        found.entries.pop().map(|entry| entry.text)
    }

    /// The records of a log.
    pub fn records(&self, bucket: &str, log: &str) -> Vec<String> {
        self.log(bucket, log).1
    }

    pub fn history(&self, bucket: &str) -> Vec<String> {
        self.records(bucket, "history")
    }

    pub fn push(&self, bucket: &str, record: &str) {
        let append = AppendOperation { log: "history", records: &[record], marks: &[] };
        self.write(bucket, &[Operation::Append(append)]);
    }

    /// Changes first position and records of a bucket's history.
    pub fn rewrite(&self, bucket: &str, change: impl FnOnce(&mut u64, &mut Vec<String>)) {
        let mut buckets = self.buckets_mut();
        let (first, records) = buckets.get_mut(bucket).unwrap().logs.entry("history".into()).or_default();
        change(first, records);
    }

    /// A bucket ends.
    pub fn end(&self, bucket: &str) {
        self.memory.delete(id_of(bucket), None, 0).unwrap();
        self.foreign.borrow_mut().retain(|(name, _), _| name != bucket);
    }

    /// The leases of a bucket that somebody holds: who, and until when in milliseconds since 1970.
    pub fn leases(&self, bucket: &str) -> BTreeMap<&'static str, (String, u64)> {
        let state = |lease| {
            let look = LeaseOperation { lease, holder: "nobody", milliseconds: 0 };
            let found = self.look(bucket, &[Operation::Lease(look)])?.outcomes.remove(0);
            let Outcome::Lease(state) = found else { panic!("{found:?}") };
            (!state.holder.is_empty()).then(|| (lease, (state.holder, self.millis() + state.expires_in)))
        };
        LEASES.into_iter().filter_map(state).collect()
    }

    /// Somebody else takes a lease.
    pub fn take_lease(&self, bucket: &str, lease: &str, holder: &str, milliseconds: u64) {
        self.write(bucket, &[Operation::Lease(LeaseOperation { lease, holder, milliseconds })]);
    }

    /// A copy of what there is of a bucket.
    pub fn bucket(&self, name: &str) -> Bucket {
        let describe = Operation::Describe(DescribeOperation { parts: true });
        let mut receipt = self.look(name, &[describe]).expect("the bucket is there");
        let found = receipt.outcomes.remove(0);
        let Outcome::Described(found) = found else { panic!("{found:?}") };
        let values = (found.values > 0).then(|| VALUES.to_owned());
        let maps = values.into_iter().chain(found.maps.into_iter().map(|map| map.map_name));
        Bucket {
            generation: self.shown_life(&receipt.generation),
            time_to_live: found.time_to_live,
            expires_at: found.expires_in.map(|left| self.millis() + left),
            maps: maps.map(|map| (map.clone(), self.map(name, &map))).collect(),
            logs: found.logs.into_iter().map(|log| (log.log.clone(), self.log(name, &log.log))).collect(),
            indexes: found.indexes.into_iter().map(|index| (index.index, index.extent.documents as usize)).collect(),
        }
    }

    /// The names of all buckets: a session's under its own, another's as `User/name` or `Node/name`.
    pub fn names(&self) -> Vec<String> {
        let kinds = [(BucketKind::Session, ""), (BucketKind::User, "User/"), (BucketKind::Node, "Node/")];
        let names = kinds.into_iter().flat_map(|(kind, prefix)| {
            let names = self.memory.list(kind, "", 10_000).unwrap().names;
            names.into_iter().map(move |name| format!("{prefix}{name}"))
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// A copy of all that there is, by [names](Self::names).
    pub fn buckets(&self) -> Buckets {
        self.names().into_iter().map(|name| (name.clone(), self.bucket(&name))).collect()
    }

    /// The same, to be changed: as soon as it is dropped, the store holds what was made of it.
    pub fn buckets_mut(&self) -> Changing<'_> {
        let before = self.buckets();
        Changing { host: self, after: before.clone(), before }
    }

    fn map(&self, bucket: &str, map_name: &str) -> BTreeMap<String, String> {
        let (mut all, mut cursor) = (BTreeMap::new(), String::new());
        loop {
            let page =
                PageOperation { map_name, cursor: &cursor, max_entries: 0, max_bytes: u64::MAX, keys_only: false };
            let Some(mut receipt) = self.look(bucket, &[Operation::Page(page)]) else { return all };
            let found = receipt.outcomes.remove(0);
            let Outcome::Page(page) = found else { panic!("{found:?}") };
            assert!(page.unreadable.is_empty());
            all.extend(page.entries.into_iter().map(|entry| (entry.key, entry.text)));
            cursor = page.cursor;
            if cursor.is_empty() {
                return all;
            }
        }
    }

    fn log(&self, bucket: &str, log: &str) -> (u64, Vec<String>) {
        let (mut first, mut all) = (None, Vec::new());
        loop {
            let span = Span { position: first.map_or(0, |first: u64| first + all.len() as u64), count: u32::MAX };
            let spans = [span];
            let read = Operation::ReadAt(ReadAtOperation { log, spans: &spans, max_bytes: u64::MAX });
            let Some(mut receipt) = self.look(bucket, &[read]) else { return (0, all) };
            let found = receipt.outcomes.remove(0);
            let Outcome::Spans(found) = found else { panic!("{found:?}") };
            let first = *first.get_or_insert(found.extent.first);
            all.extend(found.spans.into_iter().flat_map(|run| run.records));
            if all.len() as u64 == found.extent.length {
                return (first, all);
            }
        }
    }

    /// Reads from a bucket without using it. None: it is not there.
    fn look(&self, bucket: &str, operations: &[Operation<'_>]) -> Option<Receipt> {
        let precondition = Precondition::Existing(ExistingBucket { generation: None, renew: false });
        let look = Transaction { bucket: id_of(bucket), precondition, expectations: &[], operations };
        Some(self.memory.transact(&look).unwrap()).filter(Receipt::is_applied)
    }

    /// Writes to a bucket, which is created if it is absent.
    fn write(&self, bucket: &str, operations: &[Operation<'_>]) {
        let exists = Precondition::Existing(ExistingBucket { generation: None, renew: false });
        for precondition in [exists, Precondition::Create(NewBucket { time_to_live: None })] {
            let write = Transaction { bucket: id_of(bucket), precondition, expectations: &[], operations };
            if self.memory.transact(&write).unwrap().is_applied() {
                return;
            }
        }
        panic!("{bucket} takes nothing");
    }

    fn millis(&self) -> u64 {
        self.micros.get() / 1000
    }

    fn called(&self) -> Result<(), Failure> {
        self.transactions.set(self.transactions.get() + 1);
        self.waits.set(self.waits.get() + 1);
        let hook = self.hook.take();
        if let Some(mut hook) = hook {
            hook(self, self.transactions.get());
            self.hook.borrow_mut().get_or_insert(hook);
        }
        self.fails.borrow().clone().map_or(Ok(()), Err)
    }

    /// The store's name of a life of the filter's.
    fn life(&self, shown: &str) -> String {
        let number: Option<usize> = shown.strip_prefix("life-").and_then(|number| number.parse().ok());
        let life = number.and_then(|number| self.lives.borrow().get(number.checked_sub(1)?).cloned());
        life.unwrap_or_else(|| shown.to_owned())
    }

    fn shown_life(&self, life: &str) -> String {
        let mut lives = self.lives.borrow_mut();
        let known = lives.iter().position(|known| known == life);
        let number = known.unwrap_or_else(|| {
            lives.push(life.to_owned());
            lives.len() - 1
        });
        format!("life-{}", number + 1)
    }

    /// What of a wrong type an operation can't do with.
    fn spoilt<'a>(&self, operation: &Operation<'a>) -> Option<&'a str> {
        let wrong = self.wrong.borrow();
        let is_wrong = |name: &&str| wrong.contains(*name);
        match *operation {
            Operation::Put(PutOperation { map_name: VALUES, entries }) => {
                entries.iter().map(|entry| entry.key).find(is_wrong)
            }
            Operation::Increment(IncrementOperation { map_name: VALUES, key: name, .. })
            | Operation::Put(PutOperation { map_name: name, .. })
            | Operation::Increment(IncrementOperation { map_name: name, .. })
            | Operation::Read(ReadOperation { log: name, .. })
            | Operation::ReadAt(ReadAtOperation { log: name, .. })
            | Operation::Overflow(OverflowOperation { log: name, .. }) => Some(name).filter(is_wrong),
            Operation::Append(AppendOperation { log, marks, .. }) => {
                [log].into_iter().chain(marks.iter().map(|mark| mark.map_name)).find(is_wrong)
            }
            _ => None,
        }
    }

    /// What a store would reply if it held foreign and spoilt values, too.
    fn spoil_values(&self, bucket: &str, operation: &Operation<'_>, outcome: &mut Outcome) {
        let mut foreign = self.foreign_of(bucket);
        let found = match (operation, outcome) {
            (Operation::Get(GetOperation { map_name: VALUES, keys, .. }), Outcome::Entries(found)) => {
                foreign.retain(|(key, _)| keys.contains(&key.as_str()));
                found
            }
            (Operation::GetAll(GetAllOperation { map_name: VALUES, .. }), Outcome::Entries(found)) => found,
            (Operation::Page(PageOperation { map_name: VALUES, cursor: "", .. }), Outcome::Page(page)) => {
                page.unreadable.extend(foreign.into_iter().map(|(key, _)| key));
                return;
            }
            _ => return,
        };
        for (key, value) in foreign {
            match String::from_utf8(value) {
                Ok(text) => found.entries.push(Entry { key, text }),
                Err(_) => found.unreadable.push(key),
            }
        }
        let wrong = self.wrong.borrow();
        let (spoilt, good) =
            std::mem::take(&mut found.entries).into_iter().partition(|entry| wrong.contains(&entry.key));
        found.entries = good;
        found.unreadable.extend(Vec::<Entry>::into_iter(spoilt).map(|entry| entry.key));
        found.entries.sort();
    }

    /// Does a transaction, with all that is broken in the store.
    fn apply(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        self.called()?;
        let broken = |code, subject: &str| {
            Err(Failure { code, subject: subject.to_owned(), limit: 0, message: format!("{subject} is broken") })
        };
        let uses_index = |operation: &Operation<'_>| {
            matches!(operation, Operation::Post(_) | Operation::Unpost(_) | Operation::Match(_))
        };
        if !self.capabilities().indexes && transaction.operations.iter().any(uses_index) {
            return broken(FailureCode::Unsupported, "indexes");
        }
        let mut asked = *transaction;
        let life;
        if let Precondition::Existing(ExistingBucket { generation: Some(shown), renew }) = asked.precondition {
            life = self.life(shown);
            asked.precondition = Precondition::Existing(ExistingBucket { generation: Some(&life), renew });
        }
        let mut operations = asked.operations.to_vec();
        for operation in &mut operations {
            if let Operation::Page(page) = operation {
                page.max_entries = page.max_entries.min(self.page.get());
            }
        }
        asked.operations = &operations;
        let wrong_map = asked.expectations.iter().find_map(|expectation| match expectation {
            Expectation::Entry(entry) => Some(entry.map_name).filter(|map| self.wrong.borrow().contains(*map)),
            _ => None,
        });
        let name = name_of(asked.bucket);
        let foreign = self.foreign_of(&name);
        let no_counter = asked.operations.iter().find_map(|operation| match operation {
            Operation::Increment(IncrementOperation { map_name: VALUES, key, .. }) => {
                Some(*key).filter(|key| foreign.iter().any(|(name, _)| name == key))
            }
            _ => None,
        });
        if let Some(key) = no_counter {
            return broken(FailureCode::NotACounter, key);
        }
        if let Some(name) = wrong_map.or_else(|| asked.operations.iter().find_map(|operation| self.spoilt(operation))) {
            // Where the bucket is not there, that is told first.
            let probe = Transaction { expectations: &[], operations: &[], ..asked };
            let receipt = self.memory.transact(&probe)?;
            return if receipt.is_applied() { broken(FailureCode::WrongType, name) } else { Ok(receipt) };
        }
        let mut receipt = self.memory.transact(&asked).inspect_err(|failure| {
            let breaks_the_contract = matches!(failure.code, FailureCode::Invalid | FailureCode::TooLarge);
            assert!(!breaks_the_contract, "{failure:?}: {:?}", asked.operations);
        })?;
        if !receipt.generation.is_empty() {
            receipt.generation = self.shown_life(&receipt.generation);
        }
        for (operation, outcome) in asked.operations.iter().zip(&mut receipt.outcomes) {
            self.spoil_values(&name, operation, outcome);
            let is_written = |key: &str| match operation {
                Operation::ResetMap(ResetMapOperation { map_name: VALUES, .. }) => true,
                Operation::Put(PutOperation { map_name: VALUES, entries }) => entries.iter().any(|it| it.key == key),
                _ => false,
            };
            self.foreign.borrow_mut().retain(|(bucket, key), _| *bucket != name || !is_written(key));
        }
        Ok(receipt)
    }
}

/// Under which name a bucket is shown.
fn name_of(bucket: BucketId<'_>) -> String {
    match bucket.kind {
        BucketKind::User => format!("User/{}", bucket.name),
        BucketKind::Node => format!("Node/{}", bucket.name),
        _ => bucket.name.to_owned(),
    }
}

/// Whether a store would take a bucket of that name.
fn is_name(shown: &str) -> bool {
    id_of(shown).name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn id_of(shown: &str) -> BucketId<'_> {
    let (kind, name) = match shown.split_once('/') {
        Some(("User", name)) => (BucketKind::User, name),
        Some(("Node", name)) => (BucketKind::Node, name),
        _ => (BucketKind::Session, shown),
    };
    BucketId { kind, name }
}

/// A copy of all buckets, which is written back.
pub struct Changing<'a> {
    host: &'a TestHost,
    before: Buckets,
    after: Buckets,
}

impl Deref for Changing<'_> {
    type Target = Buckets;

    fn deref(&self) -> &Buckets {
        &self.after
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Buckets {
        &mut self.after
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        for name in self.before.keys().filter(|name| !self.after.contains_key(*name)) {
            self.host.end(name);
        }
        for (name, after) in &self.after {
            let none = Bucket::default();
            let before = self.before.get(name).unwrap_or(&none);
            let maps: BTreeSet<_> = before.maps.keys().chain(after.maps.keys()).collect();
            for map in maps.into_iter().filter(|map| before.maps.get(*map) != after.maps.get(*map)) {
                let entries = after.maps.get(map).into_iter().flatten();
                let entries: Vec<_> = entries.map(|(key, text)| EntryParam { key, text }).collect();
                self.host.write(name, &[Operation::ResetMap(ResetMapOperation { map_name: map, entries: &entries })]);
            }
            for (log, after) in after.logs.iter().filter(|(log, after)| before.logs.get(*log) != Some(*after)) {
                self.write_log(name, log, before.logs.get(log).cloned().unwrap_or_default(), after);
            }
        }
    }
}

impl Changing<'_> {
    /// Makes one log of another, as far as the operations of stores allow it.
    fn write_log(&self, bucket: &str, log: &str, before: (u64, Vec<String>), after: &(u64, Vec<String>)) {
        let (mut first, mut records) = before;
        let (to, wanted) = after;
        let write = |operation: Operation<'_>| self.host.write(bucket, &[operation]);
        if first + (records.len() as u64) < *to {
            // Positions before it have gone.
            let fillers = vec!["{}"; (to - first) as usize - records.len()];
            for fillers in fillers.chunks(10_000) {
                write(Operation::Append(AppendOperation { log, records: fillers, marks: &[] }));
            }
            write(Operation::ResetLog(ResetLogOperation { log, records: &[], marks: &[] }));
            (first, records) = (*to, Vec::new());
        }
        let gone = to.checked_sub(first).expect("positions only go on");
        if gone > 0 {
            for count in [10_000; 100].into_iter().scan(gone, |left, most| {
                let count = most.min(*left);
                *left -= count;
                (count > 0).then_some(count)
            }) {
                write(Operation::ReplaceOldest(ReplaceOldestOperation { log, count, records: &[] }));
            }
            records.drain(..gone as usize);
        }
        assert!(records.len() <= wanted.len(), "the newest records can't be taken back");
        let (changed, more) = wanted.split_at(records.len());
        let changed = (*to..).zip(changed).zip(&records).filter(|((_, new), old)| new != old);
        let changed: Vec<_> = changed.map(|((position, text), _)| PositionedRecord { position, text }).collect();
        for changed in changed.chunks(4) {
            write(Operation::Rewrite(RewriteOperation { log, records: changed }));
        }
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        for more in more.chunks(4) {
            write(Operation::Append(AppendOperation { log, records: more, marks: &[] }));
        }
    }
}

impl Host for &TestHost {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure> {
        self.apply(transaction)
    }

    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>> {
        let waits = self.waits.get() + 1;
        let receipts = transactions.iter().map(|transaction| self.apply(transaction)).collect();
        self.waits.set(waits);
        receipts
    }

    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        let mut page = self.memory.list(BucketKind::Session, cursor, limit)?;
        page.names.extend(self.foreign.borrow().keys().map(|(bucket, _)| bucket.clone()).filter(|name| !is_name(name)));
        Ok(page)
    }

    fn delete(&self, bucket: BucketId<'_>, generation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure> {
        self.called()?;
        let life = generation.map(|shown| self.life(shown));
        let deletion = self.memory.delete(bucket, life.as_deref(), max_keys)?;
        if deletion.status == Status::Applied {
            let name = name_of(bucket);
            self.foreign.borrow_mut().retain(|(bucket, _), _| *bucket != name);
        }
        Ok(deletion)
    }

    fn capabilities(&self) -> StoreCapabilities {
        self.capabilities.get().unwrap_or_else(|| self.memory.capabilities())
    }

    fn now_micros(&self) -> u64 {
        self.micros.get()
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        assert!(!message.contains('\n'), "a log line is one line: {message:?}");
        self.lines.borrow_mut().push((level, context.into(), message.into()));
    }
}
