//! What only a store in memory has: limits, accounting, and work that stays bounded. What all stores
//! have in common is in the conformance suite.

use std::time::Duration;

use futures::FutureExt;

use super::*;
use crate::{
    AppendOperation, ExistingLife, IncrementOperation, Operation, PutOperation, RemoveAllOperation, RemoveOperation,
    ReplaceOldestOperation, RewriteOperation, TimeToLive,
};

const KIB: u64 = 1024;

/// A store in memory never waits.
fn block_on<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().unwrap()
}

struct Bench {
    store: MemoryStore,
    clock: MemoryClock,
    writer: Writer,
}

impl Bench {
    fn new(max_sessions: u64, max_bytes: u64) -> Self {
        let clock = MemoryClock::manual();
        let store = MemoryStore::with_clock(MemoryLimits { max_sessions, max_bytes }, clock.clone());
        Self { store, clock, writer: Writer::new() }
    }

    fn send(&mut self, bucket: &str, opening: Opening, operations: Vec<Operation>) -> Result<Receipt, Failure> {
        let transaction = Transaction { bucket: bucket.into(), opening, expectations: vec![], operations };
        block_on(self.store.transact(self.writer.advance(), &transaction, Deadline::NEVER))
    }

    fn delete(&mut self, bucket: &str) -> Deletion {
        block_on(self.store.delete_bucket(self.writer.advance(), bucket, Deadline::NEVER)).unwrap()
    }
}

fn create(milliseconds: Option<u64>) -> Opening {
    let time_to_live = milliseconds.map(|milliseconds| TimeToLive { milliseconds, sliding: false });
    Opening::Create(NewLife { time_to_live })
}

fn existing() -> Opening {
    Opening::Existing(ExistingLife { incarnation: None })
}

fn put(key: &str, length: usize) -> Operation {
    Operation::Put(PutOperation { key: key.into(), value: "x".repeat(length) })
}

#[test]
fn a_store_with_as_many_buckets_as_it_takes_refuses_another_and_serves_those_it_has() {
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
fn a_write_beyond_the_limit_in_bytes_changes_nothing_and_one_that_frees_some_is_taken() {
    let mut bench = Bench::new(10, 8 * KIB);
    bench.send("a", create(None), vec![put("k", 6 * 1024)]).unwrap();
    let used = bench.store.used_bytes();
    let append = Operation::Append(AppendOperation { log: "l".into(), records: vec!["x".repeat(2048)] });
    for (bucket, operations) in
        [("a", vec![put("l", 2048)]), ("a", vec![append.clone()]), ("b", vec![append]), ("b", vec![put("k", 2048)])]
    {
        let failure = bench.send(bucket, create(None), operations).unwrap_err();
        assert_eq!((failure.code, failure.limit), (FailureCode::Full, 8 * KIB));
        assert_eq!(bench.store.used_bytes(), used);
    }
    assert_eq!(block_on(bench.store.describe_bucket("b", Deadline::NEVER)).unwrap().status, Status::Absent);
    bench.send("a", existing(), vec![put("k", 6 * 1024 - 1)]).unwrap();
    bench.send("a", existing(), vec![Operation::Remove(RemoveOperation { key: "k".into() })]).unwrap();
    bench.send("b", create(None), vec![put("k", 6 * 1024)]).unwrap();
}

#[test]
fn room_is_made_from_what_has_expired() {
    let mut bench = Bench::new(100, 8 * KIB);
    for n in 0..3 {
        bench.send(&format!("old{n}"), create(Some(1000)), vec![put("k", 1024)]).unwrap();
    }
    bench.send("a", create(None), vec![]).unwrap();
    bench.clock.advance(Duration::from_secs(1));
    bench.send("a", existing(), vec![put("k", 6 * 1024)]).unwrap();
}

#[test]
fn every_byte_comes_back() {
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
                        Operation::Append(AppendOperation { log: "l".into(), records: records.clone() }),
                        Operation::Append(AppendOperation { log: "none".into(), records: vec![] }),
                        Operation::Increment(IncrementOperation { key: "n".into(), amount: 5 }),
                    ],
                )
                .unwrap();
            bench
                .send(
                    bucket,
                    existing(),
                    vec![
                        put("k", 100),
                        Operation::Remove(RemoveOperation { key: "gone".into() }),
                        Operation::Increment(IncrementOperation { key: "n".into(), amount: -1006 }),
                        Operation::Rewrite(RewriteOperation {
                            log: "l".into(),
                            position: 2,
                            record_text: "rewritten".into(),
                        }),
                    ],
                )
                .unwrap();
            let replace = ReplaceOldestOperation { log: "l".into(), count: 2, records: vec!["z".into()] };
            bench.send(bucket, existing(), vec![Operation::ReplaceOldest(replace)]).unwrap();
            if place == 2 {
                let all = Operation::RemoveAll(RemoveAllOperation { max_names: 0 });
                bench.send(bucket, existing(), vec![all]).unwrap();
            }
        }
        bench.delete("a");
        bench.clock.advance(Duration::from_secs(1));
        assert_eq!(block_on(bench.store.describe_bucket("b", Deadline::NEVER)).unwrap().status, Status::Expired);
        bench.delete("c");
        if round == 1 {
            // Longer than any writer is remembered.
            bench.clock.advance(Duration::from_millis(MEMORY_MS));
        }
    }
    let mut state = bench.store.state.lock();
    assert!(state.bytes > 0, "writers are still remembered");
    while state.forget_a_retired_one() {}
    assert_eq!(state.bytes, 0);
    assert!(state.slots.is_empty() && state.names.is_empty() && state.expiries.is_empty());
}

#[test]
fn what_is_used_is_what_is_there_after_anything_at_random() {
    let mut bench = Bench::new(4, 6 * KIB);
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut refused, mut pipes) = (0, Vec::new());
    for _ in 0..20_000 {
        let key = ["a", "b", "c"][rng.usize(0..3)].to_owned();
        let log = ["l", "m"][rng.usize(0..2)].to_owned();
        let kind = rng.u32(0..7);
        let mut texts = |count| (0..count).map(|_| "x".repeat(rng.usize(0..300))).collect::<Vec<_>>();
        let operation = match kind {
            0 => Operation::Put(PutOperation { key, value: texts(1).remove(0) }),
            1 => Operation::Increment(IncrementOperation { key, amount: 1_000_000 }),
            2 => Operation::Remove(RemoveOperation { key }),
            3 => Operation::RemoveAll(RemoveAllOperation { max_names: 1 }),
            4 => Operation::Append(AppendOperation { log, records: texts(2) }),
            5 => Operation::ReplaceOldest(ReplaceOldestOperation { log, count: 3, records: texts(1) }),
            _ => Operation::Rewrite(RewriteOperation { log, position: 2, record_text: texts(1).remove(0) }),
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
        } else if let Err(failure) = bench.send(bucket, create(Some(rng.u64(1..1_000_000))), vec![operation]) {
            refused += u32::from(failure.code == FailureCode::Full);
        }
        let state = bench.store.state.lock();
        let lives = state.slots.values().filter_map(|slot| slot.life.as_ref());
        let places = state.slots.iter().map(|(name, slot)| slot_cost(name) + slot.writers.cost());
        assert_eq!(state.bytes, lives.clone().map(Life::counted_cost).sum::<u64>() + places.sum::<u64>());
        assert_eq!(lives.clone().count(), state.names.len());
        assert_eq!(lives.clone().filter(|life| life.expires_at.is_some()).count(), state.expiries.len());
    }
    assert!(refused > 100, "the limit was met {refused} times");
}

#[test]
fn a_pipe_that_is_gone_is_forgotten_and_one_that_is_not_is_not() {
    let mut bench = Bench::new(10, 64 * 1024 * KIB);
    bench.send("a", create(None), vec![]).unwrap();
    // As a server does with a pipe for each request.
    for _ in 0..50_000 {
        bench.writer = Writer::new();
        bench.send("a", existing(), vec![put("k", 1)]).unwrap();
    }
    let remembered = |bench: &Bench| bench.store.state.lock().slots["a"].writers.cost() / 128;
    assert!(remembered(&bench) < 20, "{} are remembered", remembered(&bench));

    let mut staying: Vec<_> = (0..1000).map(|_| Writer::new()).collect();
    for round in 0..3 {
        for writer in &mut staying {
            std::mem::swap(&mut bench.writer, writer);
            bench.send("a", existing(), vec![put("k", 1)]).unwrap();
            std::mem::swap(&mut bench.writer, writer);
        }
        let transaction = Transaction {
            bucket: "a".into(),
            opening: existing(),
            expectations: vec![],
            operations: vec![put("k", 1)],
        };
        for writer in &staying {
            let again = block_on(bench.store.transact(writer, &transaction, Deadline::NEVER)).unwrap();
            assert_eq!(again.status, Status::Repeated, "round {round}");
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
    assert!(!bench.store.state.lock().slots["a"].writers.remembers_any(bench.clock.now() / 1000));
}

#[test]
fn what_was_deleted_is_remembered_in_bounds() {
    let mut bench = Bench::new(10, 64 * 1024 * KIB);
    for n in 0..MAX_RETIRED + 100 {
        bench.send(&format!("b{n}"), create(None), vec![]).unwrap();
        bench.delete(&format!("b{n}"));
    }
    assert_eq!(bench.store.state.lock().slots.len(), MAX_RETIRED);
    bench.clock.advance(Duration::from_millis(MEMORY_MS));
    for n in 0..MAX_RETIRED / PRUNED_PER_CREATION {
        bench.send("again", create(None), vec![]).unwrap();
        bench.delete("again");
        assert!(bench.store.state.lock().slots.len() <= MAX_RETIRED - n, "each creation forgets some");
    }
}

#[test]
fn creations_clear_away_what_expired_a_few_at_a_time() {
    let mut bench = Bench::new(1000, 64 * 1024 * KIB);
    for n in 0..100 {
        bench.send(&format!("old{n}"), create(Some(1000)), vec![]).unwrap();
    }
    bench.clock.advance(Duration::from_millis(MEMORY_MS + 1000));
    for n in 1..=25 {
        bench.send(&format!("new{n}"), create(None), vec![]).unwrap();
        assert_eq!(bench.store.state.lock().names.len(), 100 - PRUNED_PER_CREATION * n + n);
    }
    assert_eq!(bench.store.state.lock().slots.len(), 25);
}

#[test]
fn stamps_never_repeat_within_one_instant() {
    let mut bench = Bench::new(1000, 64 * 1024 * KIB);
    let stamps: Vec<_> = (0..5)
        .map(|_| {
            let stamp = bench.send("a", create(None), vec![]).unwrap().incarnation;
            bench.delete("a");
            stamp
        })
        .collect();
    assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]), "{stamps:?}");
}
