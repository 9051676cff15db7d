//! A host for tests of the logic: the memory store, a clock that tests move, and faults: failures, broken entries, other
//! writers between two calls. What the contract refuses fails the test.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keepline_filter::Host;
use keepline_filter::contract::imports::keepline::store::types::{EntryResult as Entry, *};
use keepline_filter::contract::{
    BucketPage, IndexStep, IndexedReceipt, IndexedTransaction, Level, Problem, StoreProfile, VALUES, kind,
};

use super::memory::{Convert, Memory};
use super::stores::limits::RequestSize;
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
    pub fails: RefCell<Option<Problem>>,
    /// Keys of values, logs and other maps of every bucket under which something of a wrong type is stored.
    wrong: RefCell<BTreeSet<String>>,
    /// Values that no store of ours would take, by bucket and key: others write by other rules.
    foreign: RefCell<BTreeMap<(String, String), Vec<u8>>>,
    /// Keys on a page, at most.
    pub page: Cell<u64>,
    /// What the store says of itself, if it is not what it is.
    pub profile: Cell<Option<StoreProfile>>,
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
            profile: Cell::default(),
            hook: RefCell::default(),
            lines: RefCell::default(),
        }
    }

    pub fn pass(&self, milliseconds: u64) {
        self.micros.set(self.micros.get() + milliseconds * 1000);
    }

    /// Every call fails like that.
    pub fn fail(&self, code: &str) {
        *self.fails.borrow_mut() = Some(Problem {
            code: code.into(),
            subject: "answer_count".into(),
            limit: 1000,
            message: "It broke".into(),
        });
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
            && !key.starts_with("__")
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        match String::from_utf8(value.into()) {
            Ok(text) if is_key => {
                self.foreign.borrow_mut().remove(&(bucket.to_owned(), key.to_owned()));
                self.put(bucket, VALUES, key, &text);
            }
            value => {
                // What was stored under the key is replaced.
                let remove = if is_key { &[key][..] } else { &[] };
                self.write(
                    bucket,
                    &[Operation::Set(SetOperation { map_name: VALUES, reset: false, remove, put: &[] })],
                );
                let value = value.map_or_else(|error| error.into_bytes(), String::into_bytes);
                self.foreign.borrow_mut().insert((bucket.to_owned(), key.to_owned()), value);
            }
        }
    }

    /// Stores an entry of a map.
    pub fn put(&self, bucket: &str, map_name: &str, key: &str, text: &str) {
        self.write(bucket, &[set(map_name, &[EntryParam { key, text }])]);
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
        let append = AppendOperation { log: "history", reset: false, records: &[record], marks: &[] };
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
        self.memory.delete(DeleteRequest { bucket: id_of(bucket), generation: None, max_keys: 0 }).unwrap();
        self.foreign.borrow_mut().retain(|(name, _), _| name != bucket);
    }

    /// The leases of a bucket that somebody holds: who, and until when in milliseconds since 1970.
    pub fn leases(&self, bucket: &str) -> BTreeMap<&'static str, (String, u64)> {
        let state = |name| {
            let lease = Some(LeaseRequest { name, holder: "nobody", milliseconds: 0 });
            let state =
                self.memory.transact(&IndexedTransaction { lease, ..look(bucket, &[]).into() }).unwrap().lease?;
            (!state.holder.is_empty()).then(|| (name, (state.holder, self.millis() + state.expires_in)))
        };
        LEASES.into_iter().filter_map(state).collect()
    }

    /// Somebody else takes a lease.
    pub fn take_lease(&self, bucket: &str, lease: &str, holder: &str, milliseconds: u64) {
        let lease = Some(LeaseRequest { name: lease, holder, milliseconds });
        self.memory.transact(&IndexedTransaction { lease, ..look(bucket, &[]).into() }).unwrap();
    }

    /// What a bucket has, with the sizes of its parts, and no copy of what is in them.
    pub fn describe(&self, name: &str) -> (Receipt, Description) {
        let describe = Operation::Describe(DescribeOperation { parts: true });
        let mut receipt = self.look(name, &[describe]).expect("the bucket is there");
        let found = receipt.outcomes.remove(0);
        let Outcome::Described(found) = found else { panic!("{found:?}") };
        (receipt, found)
    }

    /// A copy of what there is of a bucket.
    pub fn bucket(&self, name: &str) -> Bucket {
        let (receipt, found) = self.describe(name);
        let values = (found.values > 0).then(|| VALUES.to_owned());
        let parts = |kind: &'static str| found.parts.iter().filter(move |part| part.kind == kind);
        let maps = values.into_iter().chain(parts("map").map(|map| map.name.clone()));
        Bucket {
            generation: self.shown_life(receipt.named_generation()),
            time_to_live: found.time_to_live,
            expires_at: found.expires_in.map(|left| self.millis() + left),
            maps: maps.map(|map| (map.clone(), self.map(name, &map))).collect(),
            logs: parts("log").map(|log| (log.name.clone(), self.log(name, &log.name))).collect(),
            indexes: parts("index").map(|index| (index.name.clone(), index.count as usize)).collect(),
        }
    }

    /// The names of all buckets: a session's under its own, another's as `User/name` or `Node/name`.
    pub fn names(&self) -> Vec<String> {
        let kinds = [(kind::SESSION, ""), (kind::USER, "User/"), (kind::NODE, "Node/")];
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
            let cursor_before = Some(&*cursor);
            let page = GetAllOperation {
                map_name,
                cursor: cursor_before,
                max_entries: 0,
                max_bytes: u64::MAX,
                keys_only: false,
            };
            let Some(mut receipt) = self.look(bucket, &[Operation::GetAll(page)]) else { return all };
            let found = receipt.outcomes.remove(0);
            let Outcome::Entries(page) = found else { panic!("{found:?}") };
            all.extend(page.entries.into_iter().map(|entry| (entry.key, entry.text)));
            cursor = page.missing.map_or_else(String::new, |missing| {
                assert!(missing.unreadable.is_empty());
                missing.cursor
            });
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
            let Outcome::Records(found) = found else { panic!("{found:?}") };
            let first = *first.get_or_insert(found.extent.first);
            all.extend(found.runs.into_iter().flat_map(|run| run.records));
            if all.len() as u64 == found.extent.length {
                return (first, all);
            }
        }
    }

    /// Reads from a bucket without using it. None: it is not there.
    fn look(&self, bucket: &str, operations: &[Operation<'_>]) -> Option<Receipt> {
        Some(self.memory.transact(&look(bucket, operations).into()).unwrap().receipt).filter(Receipt::is_applied)
    }

    /// Writes to a bucket, which is created if it is absent.
    fn write(&self, bucket: &str, operations: &[Operation<'_>]) {
        let exists = Precondition::Existing(ExistingBucket { generation: None, renew: false });
        for precondition in [exists, Precondition::Create(NewBucket { time_to_live: None })] {
            let write = Transaction { bucket: id_of(bucket), precondition, expectations: &[], operations };
            if self.memory.transact(&write.into()).unwrap().receipt.is_applied() {
                return;
            }
        }
        panic!("{bucket} takes nothing");
    }

    fn millis(&self) -> u64 {
        self.micros.get() / 1000
    }

    fn called(&self) -> Result<(), Problem> {
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
            Operation::Set(SetOperation { map_name: VALUES, put, .. }) => {
                put.iter().map(|entry| entry.key).find(is_wrong)
            }
            // What is removed may have any type.
            Operation::Set(SetOperation { put: [], .. }) => None,
            Operation::Add(AddOperation { map_name: VALUES, key: name, .. })
            | Operation::Set(SetOperation { map_name: name, .. })
            | Operation::Add(AddOperation { map_name: name, .. })
            | Operation::Read(ReadOperation { log: name, .. })
            | Operation::ReadAt(ReadAtOperation { log: name, .. }) => Some(name).filter(is_wrong),
            Operation::Append(AppendOperation { log, reset: false, marks, .. }) => {
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
            (Operation::GetAll(GetAllOperation { map_name: VALUES, cursor: None, .. }), Outcome::Entries(found)) => {
                found
            }
            (Operation::GetAll(GetAllOperation { map_name: VALUES, cursor: Some(""), .. }), Outcome::Entries(page)) => {
                if !foreign.is_empty() {
                    unreadable_of(page).extend(foreign.into_iter().map(|(key, _)| key));
                }
                return;
            }
            _ => return,
        };
        for (key, value) in foreign {
            match String::from_utf8(value) {
                Ok(text) => found.entries.push(Entry { key, text }),
                Err(_) => unreadable_of(found).push(key),
            }
        }
        let wrong = self.wrong.borrow();
        let (spoilt, good) =
            std::mem::take(&mut found.entries).into_iter().partition(|entry| wrong.contains(&entry.key));
        found.entries = good;
        let spoilt = Vec::<Entry>::into_iter(spoilt).map(|entry| entry.key).collect::<Vec<_>>();
        if !spoilt.is_empty() {
            unreadable_of(found).extend(spoilt);
        }
        found.entries.sort();
    }

    /// Does a transaction, with all that is broken in the store.
    fn apply(&self, transaction: &IndexedTransaction<'_>) -> Result<IndexedReceipt, Problem> {
        self.called()?;
        let broken = |code: &str, subject: &str| {
            let (code, message) = (code.to_owned(), format!("{subject} is broken"));
            Err(Problem { code, subject: subject.to_owned(), limit: 0, message })
        };
        self.check_limits(transaction);
        let mut asked = transaction.transaction;
        let life;
        if let Precondition::Existing(ExistingBucket { generation: Some(shown), renew }) = asked.precondition {
            life = self.life(shown);
            asked.precondition = Precondition::Existing(ExistingBucket { generation: Some(&life), renew });
        }
        let mut operations = asked.operations.to_vec();
        for operation in &mut operations {
            if let Operation::GetAll(page) = operation
                && page.cursor.is_some()
            {
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
            Operation::Add(AddOperation { map_name: VALUES, key, .. }) => {
                Some(*key).filter(|key| foreign.iter().any(|(name, _)| name == key))
            }
            _ => None,
        });
        if let Some(key) = no_counter {
            return broken("not-a-counter", key);
        }
        if let Some(name) = wrong_map.or_else(|| asked.operations.iter().find_map(|operation| self.spoilt(operation))) {
            // Where the bucket is not there, that is told first.
            let probe = Transaction { expectations: &[], operations: &[], ..asked };
            let reply = self.memory.transact(&probe.into())?;
            return if reply.receipt.is_applied() { broken("wrong-type", name) } else { Ok(reply) };
        }
        let indexed = IndexedTransaction { transaction: asked, ..*transaction };
        let mut reply = self.memory.transact(&indexed).inspect_err(|failure| {
            let breaks_the_contract = ["invalid", "too-large"].contains(&&*failure.code);
            assert!(!breaks_the_contract, "{failure:?}: {:?}", asked.operations);
        })?;
        let receipt = &mut reply.receipt;
        receipt.generation = receipt.generation.as_deref().map(|generation| self.shown_life(generation));
        for (operation, outcome) in asked.operations.iter().zip(&mut receipt.outcomes) {
            self.spoil_values(&name, operation, outcome);
            let is_written = |key: &str| match operation {
                Operation::Set(SetOperation { map_name: VALUES, reset, put, .. }) => {
                    *reset || put.iter().any(|it| it.key == key)
                }
                _ => false,
            };
            self.foreign.borrow_mut().retain(|(bucket, key), _| *bucket != name || !is_written(key));
        }
        Ok(reply)
    }

    /// Fails the test if a call exceeds a limit that the store has reported.
    fn check_limits(&self, indexed: &IndexedTransaction<'_>) {
        let Some(StoreProfile { limits, positions, .. }) = self.profile.get() else { return };
        let within = |text: &str, limit: u64| {
            assert!(text.len() as u64 <= limit, "{} bytes are over {limit}: {:.60}", text.len(), text);
        };
        let record_within = |record: &str| within(record, limits.record_bytes);
        for operation in indexed.transaction.operations {
            match operation {
                Operation::Set(set) => set.put.iter().for_each(|entry| within(entry.text, limits.text_bytes)),
                Operation::Append(append) => append.records.iter().for_each(|record| record_within(record)),
                Operation::ReplaceOldest(replace) => replace.records.iter().for_each(|record| record_within(record)),
                Operation::Rewrite(rewrite) => {
                    assert!(positions, "the store has no positions");
                    rewrite.records.iter().for_each(|record| record_within(record.text));
                }
                Operation::ReadAt(_) => assert!(positions, "the store has no positions"),
                _ => {}
            }
        }
        let mut terms = 0;
        for step in indexed.steps {
            match step {
                IndexStep::AddDocuments(add) => {
                    terms += add.documents.iter().map(|it| it.terms.len() as u64).sum::<u64>();
                }
                IndexStep::Search(search) => assert!(search.terms.len() as u64 <= limits.search_terms),
                IndexStep::RemoveDocuments(_) | IndexStep::ReadMarks(_) => {}
            }
        }
        let size = RequestSize::of_transactions(&[(*indexed).convert()]);
        assert!(size.pieces <= limits.call_pieces, "{} pieces", size.pieces);
        assert!(size.bytes <= limits.call_bytes, "{} bytes", size.bytes);
        assert!(terms <= limits.call_terms, "{terms} terms");
    }
}

/// A look at a bucket, without using it.
fn look<'a>(bucket: &'a str, operations: &'a [Operation<'a>]) -> Transaction<'a> {
    let precondition = Precondition::Existing(ExistingBucket { generation: None, renew: false });
    Transaction { bucket: id_of(bucket), precondition, expectations: &[], operations }
}

fn set<'a>(map_name: &'a str, put: &'a [EntryParam<'a>]) -> Operation<'a> {
    Operation::Set(SetOperation { map_name, reset: false, remove: &[], put })
}

/// Where keys are told of which nothing is returned.
fn unreadable_of(found: &mut FoundEntries) -> &mut Vec<String> {
    let none = || MissingEntries { unreadable: Vec::new(), cursor: String::new(), oversize: None };
    &mut found.missing.get_or_insert_with(none).unreadable
}

/// Under which name a bucket is shown.
fn name_of(bucket: BucketId<'_>) -> String {
    match bucket.kind {
        kind::USER => format!("User/{}", bucket.name),
        kind::NODE => format!("Node/{}", bucket.name),
        _ => bucket.name.to_owned(),
    }
}

/// Whether a store would take a bucket of that name.
fn is_name(shown: &str) -> bool {
    id_of(shown).name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn id_of(shown: &str) -> BucketId<'_> {
    let (kind, name) = match shown.split_once('/') {
        Some(("User", name)) => (kind::USER, name),
        Some(("Node", name)) => (kind::NODE, name),
        _ => (kind::SESSION, shown),
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
                let set = SetOperation { map_name: map, reset: true, remove: &[], put: &entries };
                self.host.write(name, &[Operation::Set(set)]);
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
                write(Operation::Append(AppendOperation { log, reset: false, records: fillers, marks: &[] }));
            }
            write(Operation::Append(AppendOperation { log, reset: true, records: &[], marks: &[] }));
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
            write(Operation::Append(AppendOperation { log, reset: false, records: more, marks: &[] }));
        }
    }
}

impl Host for &TestHost {
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Problem> {
        self.apply(&(*transaction).into()).map(|reply| reply.receipt)
    }

    fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>> {
        let StoreProfile { leases, indexes, limits, .. } = self.store_profile();
        assert!(leases || transactions.iter().all(|one| one.lease.is_none()), "the store has no leases");
        assert!(indexes || transactions.iter().all(|one| one.steps.is_empty()), "the store has no indexes");
        assert!(transactions.len() as u64 <= limits.transactions, "{} transactions", transactions.len());
        let waits = self.waits.get() + 1;
        let receipts = transactions.iter().map(|transaction| self.apply(transaction)).collect();
        self.waits.set(waits);
        receipts
    }

    fn list_buckets(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, Problem> {
        assert!(self.store_profile().listing, "the store has no listing");
        if let Some(failure) = self.fails.borrow().clone() {
            return Err(failure);
        }
        let mut page = self.memory.list(kind, cursor, limit)?;
        page.names.extend(self.foreign.borrow().keys().map(|(bucket, _)| bucket.clone()).filter(|name| !is_name(name)));
        Ok(page)
    }

    fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>> {
        let waits = self.waits.get() + 1;
        let delete = |request: &DeleteRequest<'_>| {
            self.called()?;
            let life = request.generation.map(|shown| self.life(shown));
            let deletion = self.memory.delete(DeleteRequest { generation: life.as_deref(), ..*request })?;
            if deletion.status == Status::Applied {
                let name = name_of(request.bucket);
                self.foreign.borrow_mut().retain(|(bucket, _), _| *bucket != name);
            }
            Ok(deletion)
        };
        let deletions = requests.iter().map(delete).collect();
        self.waits.set(waits);
        deletions
    }

    fn store_profile(&self) -> StoreProfile {
        self.profile.get().unwrap_or_else(|| StoreProfile::of(&self.memory.about()))
    }

    fn now_micros(&self) -> u64 {
        self.micros.get()
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        assert!(!message.contains('\n'), "a log line is one line: {message:?}");
        self.lines.borrow_mut().push((level, context.into(), message.into()));
    }
}
