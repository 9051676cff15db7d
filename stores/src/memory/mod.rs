//! The store in this process's memory: a real one, with limits and expiry, gone when the process is.
//!
//! One mutex guards all of it. A transaction holds it for about a microsecond: one hash look-up, and
//! then what its operations take. Nothing on that way costs more with more buckets, but for the
//! logarithm that creating one and renewing a sliding expiry pay. Expired buckets go when somebody asks
//! for them, when room is needed, and a few with each creation.

mod clock;
mod life;
#[cfg(test)]
mod tests;
mod writers;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use async_trait::async_trait;
use parking_lot::Mutex;

pub use self::clock::MemoryClock;
use self::{
    life::Life,
    writers::{MEMORY_MS, Writers},
};
use super::{
    BucketPage, Deadline, Deletion, Description, Failure, FailureCode, NewLife, Opening, Outcome, Receipt, Status,
    Store, StoreCapabilities, Transaction, Writer, failure, names::check_bucket, request,
};

/// How much a [`MemoryStore`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Buckets at a time; expired ones don't count.
    pub max_sessions: u64,
    /// Bytes of names, values and records, with a fixed sum for each bucket, value, log, record and
    /// remembered writer that stands for what the data structures take.
    pub max_bytes: u64,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { max_sessions: 1000, max_bytes: 256 * 1024 * 1024 }
    }
}

/// What a bucket takes beside its contents: its places in the hash table and in the indices.
const SLOT_OVERHEAD: u64 = 512;
/// How many dead buckets a creation clears away at most. More than one, so that the dead become fewer
/// even while buckets are created as fast as they can be.
const PRUNED_PER_CREATION: usize = 4;
/// How many deleted or expired buckets have their writers remembered at most.
const MAX_RETIRED: usize = 4096;
/// More names than one page of a listing needs.
const MAX_PAGE: u32 = 10_000;

/// A store in memory. See [`Store`]; all its capabilities are there.
#[derive(Debug)]
pub struct MemoryStore {
    clock: MemoryClock,
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store that goes by the system's clock.
    pub fn new(limits: MemoryLimits) -> Self {
        Self::with_clock(limits, MemoryClock::system())
    }

    /// An empty store that goes by the given clock.
    pub fn with_clock(limits: MemoryLimits, clock: MemoryClock) -> Self {
        Self { clock, state: Mutex::new(State::new(limits)) }
    }

    /// How many bytes are in use, counted as [`MemoryLimits::max_bytes`] counts them.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().bytes
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemoryLimits::default())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn transact(&self, writer: &Writer, transaction: &Transaction, _: Deadline) -> Result<Receipt, Failure> {
        request::check(transaction)?;
        // The clock is read under the lock: time must not run backwards between two transactions.
        let mut state = self.state.lock();
        state.transact(self.clock.now(), writer, transaction)
    }

    async fn list_buckets(&self, cursor: &str, limit: u32, _: Deadline) -> Result<BucketPage, Failure> {
        let state = self.state.lock();
        Ok(state.list(self.clock.now() / 1000, cursor, limit))
    }

    async fn delete_bucket(&self, writer: &Writer, bucket: &str, _: Deadline) -> Result<Deletion, Failure> {
        check_bucket(bucket)?;
        let mut state = self.state.lock();
        state.delete(self.clock.now() / 1000, writer, bucket)
    }

    async fn describe_bucket(&self, bucket: &str, _: Deadline) -> Result<Description, Failure> {
        check_bucket(bucket)?;
        let mut state = self.state.lock();
        Ok(state.describe(self.clock.now() / 1000, bucket))
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { atomic: true, expiring: true, exactly_once: true, listing: true }
    }

    fn round_trips(&self) -> u64 {
        0
    }

    async fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The place of a bucket. It outlives the bucket for as long as a late retry may come.
#[derive(Debug)]
struct Slot {
    name: Arc<str>,
    life: Option<Life>,
    writers: Writers,
    /// When the last life ended, in milliseconds.
    retired_at: u64,
}

#[derive(Debug)]
struct State {
    limits: MemoryLimits,
    slots: HashMap<Arc<str>, Slot>,
    /// The buckets that have a life, for paging.
    names: BTreeSet<Arc<str>>,
    /// Of those, the ones that expire, soonest first.
    expiries: BTreeSet<(u64, Arc<str>)>,
    /// Slots without a life, longest ago first. One that lives again leaves its entry behind, to be
    /// ignored when its turn comes.
    retired: VecDeque<(u64, Arc<str>)>,
    bytes: u64,
    /// Microseconds; so that two creations never share a stamp.
    last_stamp: u64,
}

impl State {
    fn new(limits: MemoryLimits) -> Self {
        Self {
            limits,
            slots: HashMap::new(),
            names: BTreeSet::new(),
            expiries: BTreeSet::new(),
            retired: VecDeque::new(),
            bytes: 0,
            last_stamp: 0,
        }
    }

    /// `now` is in microseconds.
    fn transact(&mut self, now: u64, writer: &Writer, transaction: &Transaction) -> Result<Receipt, Failure> {
        let now_ms = now / 1000;
        let writes = request::writes(&transaction.operations);
        let (creates, only_creates) = match &transaction.opening {
            Opening::Existing(_) => (None, false),
            Opening::Create(new) => (Some(new), false),
            Opening::CreateNew(new) => (Some(new), true),
        };
        // A second round only when room had to be made first.
        while let Some(slot) = self.slots.get_mut(&*transaction.bucket) {
            let Some(life) = slot.life.as_mut().filter(|life| !life.is_over(now_ms)) else {
                let gone = if slot.life.is_some() { Status::Expired } else { Status::Absent };
                // A late retry revives nothing.
                let stays_so = creates.is_none() || slot.writers.has_seen(writer, now_ms);
                if gone == Status::Expired {
                    self.bury(now_ms, &transaction.bucket);
                }
                if stays_so {
                    return Ok(receipt_without(gone));
                }
                break;
            };
            let seen = (writes || only_creates) && slot.writers.has_seen(writer, now_ms);

            let refused = match &transaction.opening {
                Opening::Existing(asked)
                    if asked.incarnation.as_ref().is_some_and(|asked| *asked != life.incarnation) =>
                {
                    Some(Status::AnotherLife)
                }
                // Before all else that could tell an earlier try from this one.
                _ if seen => None,
                Opening::CreateNew(_) => Some(Status::Exists),
                _ if !life.meets(transaction) => Some(Status::Unmet),
                _ => None,
            };
            if let Some(status) = refused {
                return Ok(receipt(status, &transaction.opening, life, Vec::new()));
            }
            let growth = if seen { 0 } else { life.probe(&transaction.operations)? };
            if writes && !seen {
                slot.writers.check_room(writer, now_ms, 1)?;
            }
            if growth > 0 && self.bytes.saturating_add_signed(growth) > self.limits.max_bytes {
                self.make_room(now_ms, growth)?;
                continue;
            }

            let take = if seen { Life::repeat } else { Life::apply };
            let outcomes = transaction.operations.iter().map(|operation| take(life, operation)).collect();
            self.bytes = self.bytes.saturating_add_signed(growth);
            if let Some((old, new)) = life.renew(now_ms) {
                self.expiries.remove(&(old, slot.name.clone()));
                self.expiries.insert((new, slot.name.clone()));
            }
            if seen {
                return Ok(receipt(Status::Repeated, &transaction.opening, life, outcomes));
            }
            if writes {
                self.bytes = self.bytes.saturating_add_signed(slot.writers.remember(writer, now_ms));
            }
            return Ok(receipt(Status::Applied, &transaction.opening, life, outcomes));
        }
        match creates {
            Some(new) => self.create(now, writer, transaction, new),
            None => Ok(receipt_without(Status::Absent)),
        }
    }

    /// Create a bucket that is not there, with all that the transaction does to it.
    fn create(
        &mut self,
        now: u64,
        writer: &Writer,
        transaction: &Transaction,
        new: &NewLife,
    ) -> Result<Receipt, Failure> {
        let now_ms = now / 1000;
        let stamp = now.max(self.last_stamp.saturating_add(1));
        let mut life = Life::new(stamp, now_ms, new.time_to_live);
        if !life.meets(transaction) {
            return Ok(receipt_without(Status::Unmet));
        }
        let growth = life.probe(&transaction.operations)?;
        if let Some(slot) = self.slots.get_mut(&*transaction.bucket) {
            slot.writers.check_room(writer, now_ms, 1)?;
        }

        for _ in 0..PRUNED_PER_CREATION {
            if !self.bury_an_expired_one(now_ms) {
                break;
            }
        }
        for _ in 0..PRUNED_PER_CREATION {
            if self.retired.front().is_none_or(|(at, _)| at.saturating_add(MEMORY_MS) > now_ms) {
                break;
            }
            self.forget_a_retired_one();
        }
        if self.names.len() as u64 >= self.limits.max_sessions {
            return Err(Failure {
                limit: self.limits.max_sessions,
                ..failure(
                    FailureCode::TooManyBuckets,
                    "",
                    format!("Maximum sessions ({}) reached", self.limits.max_sessions),
                )
            });
        }
        let place = slot_cost(&transaction.bucket).cast_signed();
        self.make_room(now_ms, growth.saturating_add(place))?;

        self.last_stamp = stamp;
        let outcomes = transaction.operations.iter().map(|operation| life.apply(operation)).collect();
        let receipt = Receipt { created: true, ..receipt(Status::Applied, &transaction.opening, &life, outcomes) };
        let expires_at = life.expires_at;
        self.bytes = self.bytes.saturating_add_signed(growth);
        let slot = self.slot_to_write(now_ms, writer, &transaction.bucket);
        slot.life = Some(life);
        let name = slot.name.clone();
        if let Some(expires_at) = expires_at {
            self.expiries.insert((expires_at, name.clone()));
        }
        self.names.insert(name);
        Ok(receipt)
    }

    /// The bucket's slot, there from now on, with the writer's transaction noted as applied.
    fn slot_to_write(&mut self, now_ms: u64, writer: &Writer, bucket: &str) -> &mut Slot {
        let slot = self.slots.entry(bucket.into()).or_insert_with_key(|name| {
            self.bytes = self.bytes.saturating_add(slot_cost(bucket));
            Slot { name: name.clone(), life: None, writers: Writers::default(), retired_at: 0 }
        });
        self.bytes = self.bytes.saturating_add_signed(slot.writers.remember(writer, now_ms));
        slot
    }

    fn list(&self, now_ms: u64, cursor: &str, limit: u32) -> BucketPage {
        // The cursor is the last name of the page before, whether or not that bucket is still there.
        let mut rest = self.names.range::<str, _>((Bound::Excluded(cursor), Bound::Unbounded));
        let mut last = None;
        let mut buckets = Vec::new();
        for name in rest.by_ref().take(limit.clamp(1, MAX_PAGE) as usize) {
            last = Some(name);
            if self.slots.get(name).and_then(|slot| slot.life.as_ref()).is_some_and(|life| !life.is_over(now_ms)) {
                buckets.push(name.to_string());
            }
        }
        let more = rest.next().and(last);
        BucketPage { buckets, cursor: more.map(ToString::to_string).unwrap_or_default() }
    }

    fn delete(&mut self, now_ms: u64, writer: &Writer, bucket: &str) -> Result<Deletion, Failure> {
        // Also where there is nothing to delete: a retry must not delete what is created after this.
        let nothing = |status| Deletion { status, keys: Vec::new() };
        if self.slots.get(bucket).is_some_and(|slot| slot.writers.has_seen(writer, now_ms)) {
            return Ok(nothing(Status::Repeated));
        }
        // More room than for transactions: a bucket that is flooded by them can still be deleted.
        if let Some(slot) = self.slots.get_mut(bucket) {
            slot.writers.check_room(writer, now_ms, 2)?;
        }
        let slot = self.slot_to_write(now_ms, writer, bucket);
        let deletion = match &slot.life {
            None => nothing(Status::Absent),
            Some(life) if life.is_over(now_ms) => nothing(Status::Expired),
            Some(life) => Deletion { status: Status::Applied, keys: life.keys() },
        };
        self.bury(now_ms, bucket);
        Ok(deletion)
    }

    fn describe(&mut self, now_ms: u64, bucket: &str) -> Description {
        let life = self.slots.get(bucket).and_then(|slot| slot.life.as_ref());
        match life {
            Some(life) if !life.is_over(now_ms) => life.describe(now_ms),
            _ => {
                let status = if life.is_some() { Status::Expired } else { Status::Absent };
                if status == Status::Expired {
                    self.bury(now_ms, bucket);
                }
                Description {
                    status,
                    incarnation: String::new(),
                    time_to_live: None,
                    expires_in: None,
                    keys: 0,
                    logs: Vec::new(),
                }
            }
        }
    }

    /// Make sure that `growth` bytes can be added, or fail and say that the store is full. What is
    /// cleared away for it was dead already, so each bucket pays for its own clearing once.
    fn make_room(&mut self, now_ms: u64, growth: i64) -> Result<(), Failure> {
        while growth > 0 && self.bytes.saturating_add_signed(growth) > self.limits.max_bytes {
            if !self.bury_an_expired_one(now_ms) && !self.forget_a_retired_one() {
                let limit = self.limits.max_bytes;
                let message = format!("the store in memory is full ({limit} bytes)");
                return Err(Failure { limit, ..failure(FailureCode::Full, "", message) });
            }
        }
        Ok(())
    }

    /// End the life of the bucket that expired first, if one has.
    fn bury_an_expired_one(&mut self, now_ms: u64) -> bool {
        let Some((_, name)) = self.expiries.first().filter(|(expires_at, _)| *expires_at <= now_ms).cloned() else {
            return false;
        };
        self.bury(now_ms, &name);
        true
    }

    /// End the life of a bucket, if it has one, and keep its writers in mind if one may still retry.
    fn bury(&mut self, now_ms: u64, bucket: &str) {
        let Some(slot) = self.slots.get_mut(bucket) else { return };
        let name = slot.name.clone();
        if let Some(life) = slot.life.take() {
            self.bytes = self.bytes.saturating_sub(life.cost());
            self.names.remove(&name);
            if let Some(expires_at) = life.expires_at {
                self.expiries.remove(&(expires_at, name.clone()));
            }
        }
        if !slot.writers.remembers_any(now_ms) {
            self.vacate(&name);
            return;
        }
        slot.retired_at = now_ms;
        self.retired.push_back((now_ms, name));
        if self.retired.len() > MAX_RETIRED {
            self.forget_a_retired_one();
        }
    }

    /// Forget the writers of the bucket that ended longest ago.
    fn forget_a_retired_one(&mut self) -> bool {
        let Some((at, name)) = self.retired.pop_front() else { return false };
        if self.slots.get(&name).is_some_and(|slot| slot.life.is_none() && slot.retired_at == at) {
            self.vacate(&name);
        }
        true
    }

    fn vacate(&mut self, bucket: &str) {
        if let Some(slot) = self.slots.remove(bucket) {
            self.bytes = self.bytes.saturating_sub(slot_cost(bucket)).saturating_sub(slot.writers.cost());
        }
    }
}

fn slot_cost(bucket: &str) -> u64 {
    SLOT_OVERHEAD.saturating_add(bucket.len() as u64)
}

fn receipt(status: Status, opening: &Opening, life: &Life, outcomes: Vec<Outcome>) -> Receipt {
    // Who named the incarnation is told it only if it is another.
    let is_named = matches!(opening, Opening::Existing(asked) if asked.incarnation.is_some());
    let is_known = is_named && status != Status::AnotherLife;
    let incarnation = if is_known { String::new() } else { life.incarnation.to_string() };
    Receipt { status, created: false, incarnation, outcomes }
}

fn receipt_without(status: Status) -> Receipt {
    Receipt { status, created: false, incarnation: String::new(), outcomes: Vec::new() }
}
