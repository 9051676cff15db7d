//! A store in memory: `core` with `positions` and `expiring`, and `listing`.

mod check;
mod read;

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use wasmtime::Result;

use crate::bindings::Problem;
use crate::bindings::listing::BucketPage;
use crate::bindings::types::{
    AppendOperation, BucketPart, ChangedEntries, CounterValue, DeleteRequest, Deletion, Description, EntryState,
    Expectation, LogExtent, Operation, Outcome, Precondition, Receipt, ReplaceOldestOperation, RewriteOperation,
    SetOperation, Status, StoreInfo, TimeToLive, Transaction,
};
use crate::filter::KeepStore;

type Id = (String, String);

/// The buckets.
pub struct MemoryStore {
    buckets: BTreeMap<Id, Bucket>,
    created: u64,
    /// Milliseconds since 1970.
    clock: Box<dyn Fn() -> u64 + Send>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        // Setting the machine's clock changes nothing: the time that has passed counts from when the store was made.
        let (start, began) = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), Instant::now());
        Self::with_clock(move || u64::try_from((start + began.elapsed()).as_millis()).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, Default)]
struct Bucket {
    generation: String,
    created_at: u64,
    time_to_live: Option<TimeToLive>,
    expires_at: Option<u64>,
    maps: BTreeMap<String, BTreeMap<String, String>>,
    logs: BTreeMap<String, Log>,
}

#[derive(Clone, Default)]
struct Log {
    first: u64,
    records: VecDeque<String>,
}

impl Log {
    fn length(&self) -> u64 {
        self.records.len() as u64
    }
}

impl KeepStore for MemoryStore {
    fn about(&self) -> StoreInfo {
        // `exactly-once`, because this host sends no call twice.
        let capabilities = ["atomic", "compare", "exactly-once", "positions", "expiring", "listing"];
        StoreInfo { capabilities: capabilities.map(Into::into).into(), limits: Vec::new() }
    }

    fn transact_each(&mut self, transactions: &[Transaction]) -> Vec<Result<Receipt>> {
        if let Err(problem) = check::call(transactions) {
            return transactions.iter().map(|_| Err(problem.clone().into())).collect();
        }
        transactions.iter().map(|transaction| Ok(self.transact(transaction)?)).collect()
    }

    fn delete_each(&mut self, requests: &[DeleteRequest]) -> Vec<Result<Deletion>> {
        if let Err(problem) = check::buckets(requests.iter().map(|request| &request.bucket)) {
            return requests.iter().map(|_| Err(problem.clone().into())).collect();
        }
        requests.iter().map(|request| Ok(self.delete(request)?)).collect()
    }

    fn list_buckets(&mut self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage> {
        check::name("kind", kind)?;
        let limit = if limit == 0 { 100 } else { limit.min(10_000) as usize };
        let now = (self.clock)();
        let all = self.buckets.iter().filter(|(id, bucket)| id.0 == kind && bucket.is_there(now)).map(|(id, _)| &id.1);
        let mut names: Vec<String> = all.filter(|name| name.as_str() > cursor).take(limit + 1).cloned().collect();
        let has_more = names.len() > limit;
        names.truncate(limit);
        let cursor = names.last().filter(|_| has_more).cloned().unwrap_or_default();
        Ok(BucketPage { names, cursor })
    }
}

impl MemoryStore {
    /// An empty store that goes by this clock, in milliseconds since 1970.
    pub fn with_clock(clock: impl Fn() -> u64 + Send + 'static) -> Self {
        Self { buckets: BTreeMap::new(), created: 0, clock: Box::new(clock) }
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<Receipt, Problem> {
        check::transaction(transaction)?;
        let id = (transaction.bucket.kind.clone(), transaction.bucket.name.clone());
        let now = (self.clock)();
        let stored = self.buckets.get(&id);
        let old = stored.filter(|bucket| bucket.is_there(now));
        let mut receipt = Receipt {
            status: Status::Applied,
            now,
            generation: old.map(|bucket| bucket.generation.clone()),
            created: false,
            unmet: None,
            outcomes: Vec::new(),
        };
        let mut is_use = true;
        let (status, new) = match (&transaction.precondition, old) {
            (Precondition::Existing(_), None) => {
                (if stored.is_some() { Status::Expired } else { Status::Absent }, None)
            }
            (Precondition::Existing(existing), Some(old)) => {
                is_use = existing.renew;
                let is_another = existing.generation.as_ref().is_some_and(|generation| *generation != old.generation);
                if !is_another && existing.generation.is_some() {
                    receipt.generation = None;
                }
                (if is_another { Status::GenerationMismatch } else { Status::Applied }, None)
            }
            (Precondition::CreateNew(_), Some(_)) => (Status::Exists, None),
            (Precondition::Create(_), Some(_)) => (Status::Applied, None),
            (Precondition::Create(new) | Precondition::CreateNew(new) | Precondition::Replace(new), _) => {
                (Status::Applied, Some(new))
            }
        };
        receipt.status = status;
        if status != Status::Applied {
            return Ok(receipt);
        }
        let absent = Bucket::default();
        let before = old.unwrap_or(&absent);
        let unmet =
            transaction.expectations.iter().position(|expectation| !before.meets(expectation, &transaction.operations));
        if let Some(unmet) = unmet.and_then(|unmet| u32::try_from(unmet).ok()) {
            return Ok(Receipt { status: Status::Unmet, unmet: Some(unmet), ..receipt });
        }
        // All or none: operations are applied to a copy.
        let mut bucket = if new.is_some() { Bucket::default() } else { before.clone() };
        if let Some(new) = new {
            // The time keeps it apart from generations of an earlier process.
            bucket.generation = format!("{now}-{}", self.created);
            bucket.created_at = now;
            bucket.time_to_live = new.time_to_live;
            receipt.generation = Some(bucket.generation.clone());
            receipt.created = true;
        }
        if let Some(time) = bucket.time_to_live.filter(|time| new.is_some() || is_use && time.sliding) {
            bucket.expires_at = Some(now + time.milliseconds);
        }
        let mut room = read::Room::default();
        for operation in &transaction.operations {
            receipt.outcomes.push(bucket.apply(operation, now, &mut room)?);
        }
        // A replacement begins with an empty bucket.
        check::size(if new.is_some() { &absent } else { before }, &bucket, &transaction.operations)?;
        self.buckets.insert(id, bucket);
        if new.is_some() {
            self.created += 1;
            if self.created.is_multiple_of(1_000) {
                self.buckets.retain(|_, bucket| bucket.is_there(now));
            }
        }
        Ok(receipt)
    }

    fn delete(&mut self, request: &DeleteRequest) -> Result<Deletion, Problem> {
        check::bucket(&request.bucket)?;
        check::generation(request.generation.as_deref())?;
        let id = (request.bucket.kind.clone(), request.bucket.name.clone());
        let mut deletion = Deletion { status: Status::Absent, now: (self.clock)(), values: 0, keys: Vec::new() };
        let Slot::Occupied(bucket) = self.buckets.entry(id) else { return Ok(deletion) };
        if !bucket.get().is_there(deletion.now) {
            bucket.remove();
            return Ok(Deletion { status: Status::Expired, ..deletion });
        }
        if request.generation.as_ref().is_some_and(|generation| *generation != bucket.get().generation) {
            return Ok(Deletion { status: Status::GenerationMismatch, ..deletion });
        }
        deletion.status = Status::Applied;
        if let Some(values) = bucket.remove().maps.remove("values") {
            deletion.values = values.len() as u64;
            deletion.keys = values.into_keys().take(request.max_keys as usize).collect();
        }
        Ok(deletion)
    }
}

impl Bucket {
    fn is_there(&self, now: u64) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }

    fn text(&self, map: &str, key: &str) -> Option<&String> {
        self.maps.get(map)?.get(key)
    }

    fn length(&self, map: &str) -> u64 {
        self.maps.get(map).map_or(0, |map| map.len() as u64)
    }

    /// How many maps and logs there are beside the values.
    fn parts(&self) -> usize {
        self.logs.len() + self.maps.keys().filter(|map| *map != "values").count()
    }

    fn extent(&self, log: &str) -> LogExtent {
        self.logs
            .get(log)
            .map_or(LogExtent { first: 0, length: 0 }, |log| LogExtent { first: log.first, length: log.length() })
    }

    fn meets(&self, expectation: &Expectation, operations: &[Operation]) -> bool {
        match expectation {
            Expectation::Entry(expected) => {
                let found = self.text(&expected.map_name, &expected.key);
                let is_equal = found.is_some_and(|text| *text == expected.text);
                match expected.state {
                    EntryState::Absent => found.is_none(),
                    EntryState::Present => found.is_some(),
                    EntryState::Equal => is_equal,
                    EntryState::AbsentOrEqual => found.is_none() || is_equal,
                }
            }
            Expectation::Log(expected) => {
                let LogExtent { first, length } = self.extent(&expected.log);
                expected.first.is_none_or(|expected| expected == first)
                    && expected.next.is_none_or(|next| next == first + length)
            }
            Expectation::Room(room) => {
                let keys = operations.iter().flat_map(|operation| check::created(operation, &room.map_name));
                let added =
                    keys.filter(|key| self.text(&room.map_name, key).is_none()).collect::<BTreeSet<_>>().len() as u64;
                added == 0 || self.length(&room.map_name) + added <= room.limit
            }
        }
    }

    fn apply(&mut self, operation: &Operation, now: u64, room: &mut read::Room) -> Result<Outcome, Problem> {
        Ok(match operation {
            Operation::Get(get) => Outcome::Entries(self.get(get, room)),
            Operation::GetAll(all) => Outcome::Entries(self.get_all(all, room)),
            Operation::Set(set) => Outcome::Changed(self.set(set)),
            Operation::Add(add) => {
                let old = self.text(&add.map_name, &add.key).map_or(Some(0), |text| check::counter(text));
                let old = old.ok_or_else(|| Problem::new("not-a-counter", &add.key, 0, "The entry is no counter"))?;
                let value = old.checked_add(add.amount);
                let value = value
                    .ok_or_else(|| Problem::new("counter-overflow", &add.key, 0, "The sum has more than 64 bits"))?;
                self.maps.entry(add.map_name.clone()).or_default().insert(add.key.clone(), value.to_string());
                Outcome::Counter(CounterValue { value })
            }
            Operation::Append(append) => self.append(append),
            Operation::ReplaceOldest(replace) => self.replace_oldest(replace)?,
            Operation::Rewrite(rewrite) => self.rewrite(rewrite)?,
            Operation::Read(read) => self.read(read, room),
            Operation::ReadAt(read) => self.read_at(read, room),
            Operation::Describe(describe) => Outcome::Described(self.describe(describe.parts, now)),
        })
    }

    fn set(&mut self, set: &SetOperation) -> ChangedEntries {
        let map = self.maps.entry(set.map_name.clone()).or_default();
        let old = if set.reset { std::mem::take(map) } else { map.clone() };
        map.retain(|key, _| !set.remove.contains(key));
        map.extend(set.put.iter().map(|entry| (entry.key.clone(), entry.text.clone())));
        let added = map.keys().filter(|key| !old.contains_key(*key)).count() as u64;
        let removed = old.keys().filter(|key| !map.contains_key(*key)).count() as u64;
        if map.is_empty() {
            self.maps.remove(&set.map_name);
        }
        ChangedEntries { added, removed }
    }

    fn append(&mut self, append: &AppendOperation) -> Outcome {
        // A log exists from its first record on.
        if append.records.is_empty() && !self.logs.contains_key(&append.log) {
            return Outcome::Extent(self.extent(&append.log));
        }
        let log = self.logs.entry(append.log.clone()).or_default();
        let next = log.first + log.length();
        if append.reset {
            log.records.clear();
            log.first = next;
        }
        log.records.extend(append.records.iter().cloned());
        for mark in &append.marks {
            let map = self.maps.entry(mark.map_name.clone()).or_default();
            map.insert(mark.key.clone(), (next + u64::from(mark.record_index)).to_string());
        }
        Outcome::Extent(self.extent(&append.log))
    }

    fn replace_oldest(&mut self, replace: &ReplaceOldestOperation) -> Result<Outcome, Problem> {
        let length = self.extent(&replace.log).length;
        let (count, added) = (replace.count.min(10_000).min(length), replace.records.len() as u64);
        if added > count {
            return Err(Problem::new("invalid", &replace.log, 0, "There are more records than they replace"));
        }
        if let Some(log) = self.logs.get_mut(&replace.log) {
            log.records.drain(..usize::try_from(count).unwrap_or(usize::MAX).min(log.records.len()));
            replace.records.iter().rev().for_each(|record| log.records.push_front(record.clone()));
            log.first += count - added;
        }
        Ok(Outcome::Extent(self.extent(&replace.log)))
    }

    fn rewrite(&mut self, rewrite: &RewriteOperation) -> Result<Outcome, Problem> {
        let mut log = self.logs.get_mut(&rewrite.log);
        for record in &rewrite.records {
            let place = log.as_mut().and_then(|log| {
                let index = record.position.checked_sub(log.first)?;
                log.records.get_mut(usize::try_from(index).ok()?)
            });
            let missing = || Problem::new("invalid", &rewrite.log, 0, "The log has no record at this position");
            *place.ok_or_else(missing)? = record.text.clone();
        }
        Ok(Outcome::Extent(self.extent(&rewrite.log)))
    }

    fn describe(&self, parts: bool, now: u64) -> Description {
        let part = |kind: &str, name: &String, position, count| BucketPart {
            kind: kind.into(),
            name: name.clone(),
            position,
            count,
            bytes: 0,
        };
        let logs = self.logs.iter().map(|(name, log)| part("log", name, log.first, log.length()));
        let maps = self.maps.iter().map(|(name, map)| part("map", name, 0, map.len() as u64));
        Description {
            time_to_live: self.time_to_live,
            created_at: self.created_at,
            expires_in: self.expires_at.map(|at| at - now),
            values: self.length("values"),
            parts: logs.chain(maps.filter(|map| map.name != "values")).filter(|_| parts).collect(),
        }
    }
}
