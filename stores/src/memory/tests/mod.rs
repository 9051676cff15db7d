//! Tests of the memory store alone: limits, accounting, and bounded work. What all stores have in common is in the
//! conformance suite.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::FutureExt;

use super::{
    slots::{BucketSlot, is_session},
    state::{MAX_RETIRED, MemoryState, PRUNED_PER_CREATION},
    writers::MEMORY_MS,
    *,
};
use crate::{
    AddOperation, AppendOperation, BucketId, DescribeOperation, Entry, ExistingBucket, FailureCode, LeaseRequest,
    ManualClock, NewBucket, Operation, Outcome, PositionMark, PositionedRecord, Precondition, Receipt,
    ReplaceOldestOperation, RewriteOperation, SetOperation, Status, TimeToLive, Transaction, bucket::Bucket,
    clock::saturating_micros, kind, names::VALUES,
};

mod eviction;
mod lives;

const KIB: u64 = 1024;

/// A store in memory never waits.
fn block_on<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().unwrap()
}

struct Bench {
    store: MemoryStore,
    clock: ManualClock,
    writer: Writer,
}

impl Bench {
    fn new(max_sessions: u64, max_bytes: u64) -> Self {
        Self::with(max_sessions, max_bytes, SessionLimitPolicy::Refuse)
    }

    fn with(max_sessions: u64, max_bytes: u64, session_limit_policy: SessionLimitPolicy) -> Self {
        let clock = ManualClock::new();
        let limits = MemoryLimits { max_sessions, max_bytes, session_limit_policy };
        let store = MemoryStore::with_clock(limits, clock.clone().into());
        Self { store, clock, writer: Writer::new() }
    }

    fn send(
        &mut self,
        bucket: &str,
        precondition: Precondition,
        operations: Vec<Operation>,
    ) -> Result<Receipt, Failure> {
        self.send_to(session(bucket), precondition, operations)
    }

    fn send_to(
        &mut self,
        bucket: BucketId,
        precondition: Precondition,
        operations: Vec<Operation>,
    ) -> Result<Receipt, Failure> {
        let transaction = Transaction { bucket, precondition, expectations: vec![], operations };
        self.send_request(&transaction.into()).map(|receipt| receipt.receipt)
    }

    fn lease(
        &mut self,
        bucket: &str,
        precondition: Precondition,
        lease: LeaseRequest,
    ) -> Result<IndexedReceipt, Failure> {
        let transaction =
            Transaction { bucket: session(bucket), precondition, expectations: vec![], operations: vec![] };
        self.send_request(&IndexedTransaction { lease: Some(lease), ..transaction.into() })
    }

    fn send_request(&mut self, request: &IndexedTransaction) -> Result<IndexedReceipt, Failure> {
        block_on(self.store.transact(self.writer.advance(), request, Deadline::NEVER))
    }

    fn delete(&mut self, bucket: &str) -> Deletion {
        self.delete_life(bucket, None)
    }

    fn delete_life(&mut self, bucket: &str, generation: Option<&str>) -> Deletion {
        let generation = generation.map(ToOwned::to_owned);
        let request = DeleteRequest { bucket: session(bucket), generation, max_keys: 10 };
        block_on(self.store.delete(self.writer.advance(), &request, Deadline::NEVER)).unwrap()
    }

    /// The status that a look at a session is told.
    fn look(&mut self, bucket: &str) -> Status {
        self.send(bucket, existing(), vec![]).unwrap().status
    }
}

fn session(name: &str) -> BucketId {
    BucketId::session(name)
}

fn new_bucket(milliseconds: Option<u64>) -> NewBucket {
    NewBucket { time_to_live: milliseconds.map(|milliseconds| TimeToLive { milliseconds, sliding: false }) }
}

fn create(milliseconds: Option<u64>) -> Precondition {
    Precondition::Create(new_bucket(milliseconds))
}

fn existing() -> Precondition {
    Precondition::Existing(ExistingBucket { generation: None, renew: true })
}

fn put(key: &str, length: usize) -> Operation {
    put_in(VALUES, key, length)
}

fn put_in(map: &str, key: &str, length: usize) -> Operation {
    let put = vec![Entry { key: key.into(), text: "x".repeat(length) }];
    Operation::Set(SetOperation { map_name: map.into(), reset: false, remove: vec![], put })
}

fn remove(map: &str, key: &str) -> Operation {
    Operation::Set(SetOperation { map_name: map.into(), reset: false, remove: vec![key.into()], put: vec![] })
}

fn append(log: &str, records: Vec<String>, marks: Vec<PositionMark>) -> Operation {
    Operation::Append(AppendOperation { log: log.into(), reset: false, records, marks })
}

fn mark(map: &str, key: &str) -> PositionMark {
    PositionMark { map_name: map.into(), key: key.into(), record_index: 0 }
}

fn lease(name: &str, holder: &str, milliseconds: u64) -> LeaseRequest {
    LeaseRequest { name: name.into(), holder: holder.into(), milliseconds }
}

fn reset_map(map: &str, entries: Vec<Entry>) -> Operation {
    Operation::Set(SetOperation { map_name: map.into(), reset: true, remove: vec![], put: entries })
}

fn add(map: &str, key: &str, amount: i64) -> Operation {
    Operation::Add(AddOperation { map_name: map.into(), key: key.into(), amount })
}

fn sessions(state: &MemoryState) -> usize {
    state.slots.count_sessions()
}

fn slots(state: &MemoryState) -> usize {
    state.slots.by_id.len()
}

#[test]
fn a_store_at_its_bucket_limit_refuses_another_and_serves_existing_ones() {
    let mut bench = Bench::new(2, 64 * KIB);
    bench.send("a", create(Some(1000)), vec![]).unwrap();
    bench.send("b", create(None), vec![]).unwrap();
    let failure = bench.send("c", create(None), vec![put("k", 1)]).unwrap_err();
    assert_eq!((failure.code, failure.limit), (FailureCode::TooManyBuckets, 2));
    assert_eq!(failure.message, "Maximum sessions (2) reached");
    assert_eq!(bench.send("b", create(None), vec![put("k", 1)]).unwrap().status, Status::Applied);

    bench.clock.advance(Duration::from_millis(1000));
    assert!(bench.send("c", create(None), vec![]).unwrap().created, "an expired bucket does not count");
}

#[test]
fn a_write_beyond_the_byte_limit_changes_nothing_and_one_that_shrinks_is_applied() {
    let mut bench = Bench::new(10, 9 * KIB);
    bench.send("a", create(None), vec![put("k", 6 * 1024)]).unwrap();
    let used = bench.store.used_bytes();
    let append = append("l", vec!["x".repeat(2048)], vec![]);
    for (bucket, operations) in
        [("a", vec![put("l", 2048)]), ("a", vec![append.clone()]), ("b", vec![append]), ("b", vec![put("k", 2048)])]
    {
        let failure = bench.send(bucket, create(None), operations).unwrap_err();
        assert_eq!((failure.code, failure.limit), (FailureCode::Full, 9 * KIB));
        assert_eq!(bench.store.used_bytes(), used);
    }
    assert_eq!(bench.look("b"), Status::Absent);
    bench.send("a", existing(), vec![put("k", 6 * 1024 - 1)]).unwrap();
    bench.send("a", existing(), vec![remove(VALUES, "k")]).unwrap();
    bench.send("b", create(None), vec![put("k", 6 * 1024)]).unwrap();
}

#[test]
fn expired_buckets_are_removed_to_make_room() {
    let mut bench = Bench::new(100, 9 * KIB);
    for n in 0..3 {
        bench.send(&format!("old{n}"), create(Some(1000)), vec![put("k", 1024)]).unwrap();
    }
    bench.send("a", create(None), vec![]).unwrap();
    bench.clock.advance(Duration::from_secs(1));
    bench.send("a", existing(), vec![put("k", 6 * 1024)]).unwrap();
}

#[test]
fn every_byte_is_freed_once_all_buckets_are_gone() {
    let mut bench = Bench::new(10, 512 * KIB);
    for round in 0..3 {
        for (place, bucket) in ["a", "b", "c"].into_iter().enumerate() {
            let ttl = (place == 1).then_some(1000);
            let records = vec!["x".repeat(100), String::new(), "y".into()];
            bench
                .send(
                    bucket,
                    create(ttl),
                    vec![
                        put("k", 10),
                        put("gone", 10),
                        append("l", records.clone(), vec![mark("marks", "first"), mark("more", "same")]),
                        append("none", vec![], vec![]),
                        add(VALUES, "n", 5),
                        add("counts", "n", 5),
                        put_in("notes", "only", 7),
                        reset_map("fresh", vec![Entry { key: "e".into(), text: "text".into() }]),
                    ],
                )
                .unwrap();
            bench.lease(bucket, existing(), lease("work", "somebody", 500)).unwrap();
            bench.lease(bucket, existing(), lease("other", "somebody", 500)).unwrap();
            bench
                .send(
                    bucket,
                    existing(),
                    vec![
                        put("k", 100),
                        remove(VALUES, "gone"),
                        add(VALUES, "n", -1006),
                        remove("notes", "only"),
                        remove("counts", "n"),
                        put_in("counts", "m", 3),
                        reset_map("fresh", vec![]),
                        Operation::Rewrite(RewriteOperation {
                            log: "l".into(),
                            records: vec![
                                PositionedRecord { position: 2, text: "rewritten".into() },
                                PositionedRecord { position: 0, text: String::new() },
                            ],
                        }),
                    ],
                )
                .unwrap();
            bench.lease(bucket, existing(), lease("work", "somebody", 0)).unwrap();
            bench.lease(bucket, existing(), lease("other", "somebody-else", 500)).unwrap();
            let replace = ReplaceOldestOperation { log: "l".into(), count: 2, records: vec!["z".into()] };
            bench.send(bucket, existing(), vec![Operation::ReplaceOldest(replace)]).unwrap();
            if place == 2 {
                let log = Operation::Append(AppendOperation {
                    log: "l".into(),
                    reset: true,
                    records: vec!["new".into()],
                    marks: vec![mark("marks", "first")],
                });
                bench.send(bucket, existing(), vec![reset_map(VALUES, vec![]), log]).unwrap();
                bench.send(bucket, Precondition::Replace(new_bucket(Some(2000))), vec![put("k", 10)]).unwrap();
            }
        }
        bench.delete("a");
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!(bench.look("b"), Status::Expired);
        bench.delete("c");
        if round == 1 {
            // Longer than any writer is remembered.
            bench.clock.advance(Duration::from_millis(MEMORY_MS));
        }
    }
    let mut state = bench.store.state.lock();
    assert!(state.used.all > 0, "writers are still remembered");
    while state.forget_a_retired_one() {}
    assert_eq!(state.used.all, 0);
    assert!(slots(&state) == 0 && state.slots.count_sessions() == 0 && state.expiries.is_empty());
}

#[test]
fn the_counted_bytes_are_exact_after_random_operations() {
    let refused = [SessionLimitPolicy::Refuse, SessionLimitPolicy::Evict].map(anything_at_random);
    assert!(refused.iter().all(|refused| *refused > 100), "the limit was met {refused:?} times");
}

/// How many times the limit in bytes was met.
fn anything_at_random(policy: SessionLimitPolicy) -> u32 {
    let mut bench = Bench::with(4, 12 * KIB, policy);
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut refused, mut pipes) = (0, Vec::new());
    for _ in 0..20_000 {
        let key = ["a", "b", "c"][rng.usize(0..3)].to_owned();
        let map = [VALUES, "m", "n"][rng.usize(0..3)].to_owned();
        let log = ["l", "m"][rng.usize(0..2)].to_owned();
        let kind = rng.u32(0..10);
        let mut texts = |count| (0..count).map(|_| "x".repeat(rng.usize(0..300))).collect::<Vec<_>>();
        let operation = match kind {
            0 => put_in(&map, &key, texts(1)[0].len()),
            1 => add(&map, &key, 1_000_000),
            2 => remove(&map, &key),
            3 => {
                let entries = texts(3).into_iter().skip(rng.usize(0..4)).enumerate();
                reset_map(&map, entries.map(|(n, text)| Entry { key: format!("{key}{n}"), text }).collect())
            }
            4 => append(&log, texts(2), vec![mark("m", &key), mark("n", "b")]),
            5 => Operation::ReplaceOldest(ReplaceOldestOperation { log, count: 3, records: texts(1) }),
            6 => {
                Operation::Append(AppendOperation { log, reset: true, records: texts(2), marks: vec![mark("n", &key)] })
            }
            7 => put_in("o", &key, 0),
            8 => Operation::Describe(DescribeOperation { parts: true }),
            _ => {
                let text = texts(1).remove(0);
                Operation::Rewrite(RewriteOperation { log, records: vec![PositionedRecord { position: 2, text }] })
            }
        };
        let bucket = ["a", "b", "c", "d", "e"][rng.usize(0..5)];
        // Pipes come and go; a few stay.
        if rng.u32(0..4) == 0 {
            pipes.push(std::mem::take(&mut bench.writer));
            pipes.truncate(rng.usize(0..40));
        }
        if rng.u32(0..30) == 0 {
            bench.delete(bucket);
        } else if rng.u32(0..50) == 0 {
            bench.clock.advance(Duration::from_secs(rng.u64(0..400)));
        } else {
            let life = new_bucket(Some(rng.u64(1..1_000_000)));
            let precondition =
                if rng.u32(0..20) == 0 { Precondition::Replace(life) } else { Precondition::Create(life) };
            let kind = [kind::SESSION, kind::USER][rng.usize(0..2)];
            let id = BucketId::new(kind, bucket);
            let transaction =
                Transaction { bucket: id, precondition, expectations: vec![], operations: vec![operation] };
            let lease = (rng.u32(0..10) == 0).then(|| lease(&key, &map, rng.u64(0..3) * 100_000));
            if let Err(failure) = bench.send_request(&IndexedTransaction { lease, ..transaction.into() }) {
                refused += u32::from(failure.code == FailureCode::Full);
            }
        }
        let state = bench.store.state.lock();
        let slots = state.slots.by_id.values();
        let buckets = slots.clone().filter_map(|slot| slot.bucket.as_ref());
        assert!(buckets.clone().all(|bucket| bucket.cost() == bucket.counted_cost()));
        let places = slots.clone().map(BucketSlot::cost);
        assert_eq!(state.used.all, buckets.clone().map(Bucket::cost).sum::<u64>() + places.sum::<u64>());
        let sessions: BTreeMap<_, _> = slots
            .filter(|slot| is_session(&slot.id))
            .filter_map(|slot| Some((slot.id.clone(), slot.bucket.as_ref()?.cost())))
            .collect();
        assert_eq!(state.used.in_sessions, sessions.values().sum::<u64>());
        assert!(sessions.len() <= 4);
        if policy == SessionLimitPolicy::Evict {
            assert!(state.recency.iter().collect::<BTreeSet<_>>().into_iter().eq(sessions.keys()));
        }
        assert_eq!(sessions.len(), state.slots.count_sessions());
        assert_eq!(buckets.clone().count(), state.slots.count_sessions() + state.slots.count_others());
        assert_eq!(buckets.filter(|bucket| bucket.expiry.at.is_some()).count(), state.expiries.len());
    }
    refused
}

#[test]
fn writers_of_closed_pipes_are_forgotten_and_active_ones_remembered() {
    let mut bench = Bench::new(10, 64 * 1024 * KIB);
    bench.send("a", create(None), vec![]).unwrap();
    // As a server does with a pipe for each request.
    for _ in 0..50_000 {
        bench.writer = Writer::new();
        bench.send("a", existing(), vec![put("k", 1)]).unwrap();
    }
    let remembered = |bench: &Bench| bench.store.state.lock().slots.by_id[&session("a")].writers.cost() / 128;
    assert!(remembered(&bench) < 20, "{} are remembered", remembered(&bench));

    let mut staying: Vec<_> = (0..1000).map(|_| Writer::new()).collect();
    for round in 0..3 {
        for writer in &mut staying {
            std::mem::swap(&mut bench.writer, writer);
            bench.send("a", existing(), vec![put("k", 1)]).unwrap();
            std::mem::swap(&mut bench.writer, writer);
        }
        let transaction = Transaction {
            bucket: session("a"),
            precondition: existing(),
            expectations: vec![],
            operations: vec![put("k", 1)],
        };
        let request = transaction.into();
        for writer in &staying {
            let again = block_on(bench.store.transact(writer, &request, Deadline::NEVER)).unwrap();
            assert_eq!(again.receipt.status, Status::Repeated, "round {round}");
        }
    }
    assert!((1000..1020).contains(&remembered(&bench)), "{} are remembered", remembered(&bench));
    staying.truncate(10);
    for _ in 0..1000 {
        bench.writer = Writer::new();
        bench.send("a", existing(), vec![put("k", 1)]).unwrap();
    }
    assert!(remembered(&bench) < 30, "{} are remembered", remembered(&bench));
    bench.clock.advance(Duration::from_millis(MEMORY_MS));
    assert!(
        !bench.store.state.lock().slots.by_id[&session("a")]
            .writers
            .remembers_any(saturating_micros(bench.clock.now()) / 1000)
    );
}

#[test]
fn the_number_of_deleted_buckets_remembered_is_bounded() {
    let mut bench = Bench::new(10, 64 * 1024 * KIB);
    for n in 0..MAX_RETIRED + 100 {
        bench.send(&format!("b{n}"), create(None), vec![]).unwrap();
        bench.delete(&format!("b{n}"));
    }
    assert_eq!(slots(&bench.store.state.lock()), MAX_RETIRED);
    bench.clock.advance(Duration::from_millis(MEMORY_MS));
    for n in 0..MAX_RETIRED / PRUNED_PER_CREATION {
        bench.send("again", create(None), vec![]).unwrap();
        bench.delete("again");
        assert!(slots(&bench.store.state.lock()) <= MAX_RETIRED - n, "each creation forgets some");
    }
}

#[test]
fn each_creation_removes_a_few_expired_buckets() {
    let mut bench = Bench::new(1000, 64 * 1024 * KIB);
    for n in 0..100 {
        bench.send(&format!("old{n}"), create(Some(1000)), vec![]).unwrap();
    }
    bench.clock.advance(Duration::from_millis(MEMORY_MS + 1000));
    for n in 1..=25 {
        bench.send(&format!("new{n}"), create(None), vec![]).unwrap();
        assert_eq!(sessions(&bench.store.state.lock()), 100 - PRUNED_PER_CREATION * n + n);
    }
    assert_eq!(slots(&bench.store.state.lock()), 25);
}
