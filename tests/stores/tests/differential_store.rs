//! The same transactions, at random, on memory and on Redis, there with scripts for their shapes and with the
//! general one: the same answers and the same state.
//!
//! `KEEPLINE_SEED` repeats a run, `KEEPLINE_ROUNDS` sets how many steps it takes.

use std::{collections::BTreeSet, env, fmt::Debug, time::Duration};

use fastrand::Rng;
use keepline_stores::{
    BucketPage, Deadline, Deletion, Description, Expectation, Failure, Opening, Operation, Outcome, Receipt, Status,
    Transaction, Writer,
};
use keepline_stores_tests::{requests::*, stores::StoreUnderTest};

/// Steps between two fresh starts. In an episode Redis's own clock, which can't be stopped, gets ahead
/// of the memory store's by the few seconds that it takes.
const EPISODE: usize = 500;
const HOUR: Duration = Duration::from_secs(3600);
/// Times to live, and the hours that pass, are chosen so that nothing happens within this of an expiry or
/// of 1 % of it.
const SLACK: Duration = Duration::from_secs(20 * 60);

const BUCKETS: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 5] = ["k", "l", "count", "n.2", "_x-"];
const LOGS: [&str; 3] = ["history", "l", "log-2"];
const RECORDS: [&str; 5] = ["a", "b", "", "é\0", "a longer record of thirty bytes"];
const VALUES: [&str; 12] = [
    "1",
    "0",
    "-5",
    "007",
    "1.5",
    "",
    "\"é\"",
    "null",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "a text of more than the thirty bytes that a short one has",
];
const LIMITS: [u64; 9] = [0, 1, 2, 3, 5, 30, 60, 1000, ALL];
const AMOUNTS: [i64; 8] = [1, 1, 1, -1, 0, 1_000_000, i64::MAX, i64::MIN];

#[test]
fn memory_and_redis_give_the_same_answers_and_come_to_the_same_state() {
    let seed = number("KEEPLINE_SEED").unwrap_or_else(|| fastrand::u64(..));
    let rounds = usize::try_from(number("KEEPLINE_ROUNDS").unwrap_or(30_000)).unwrap();
    println!("KEEPLINE_SEED={seed} KEEPLINE_ROUNDS={rounds}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut rng = Rng::with_seed(seed);
        let mut statuses = BTreeSet::new();
        for start in (0..rounds).step_by(EPISODE) {
            let mut episode = Episode::new(rng.fork());
            for round in start..rounds.min(start + EPISODE) {
                episode.step(round).await;
            }
            episode.compare_states().await;
            statuses.append(&mut episode.seen);
        }
        if rounds >= 3000 {
            assert_eq!(statuses.len(), 7, "a run comes to every status; this one only to {statuses:?}");
        }
    });
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// A store, and the incarnations that it told of, in order of appearance.
struct Side {
    under_test: StoreUnderTest,
    lives: Vec<String>,
}

impl Side {
    /// The same for the same life on both sides.
    fn life(&mut self, incarnation: &str) -> Option<usize> {
        if incarnation.is_empty() {
            return None;
        }
        let known = self.lives.iter().position(|life| life == incarnation);
        Some(known.unwrap_or_else(|| {
            self.lives.push(incarnation.into());
            self.lives.len() - 1
        }))
    }

    /// With the name that a life has on this side.
    fn translated(&self, asked: &Asked) -> Transaction {
        let mut transaction = asked.transaction.clone();
        if let Some(index) = asked.life {
            let unknown = "1795186917.032595".to_owned();
            transaction.opening = life(self.lives.get(index).unwrap_or(&unknown));
        }
        transaction
    }
}

/// A transaction whose opening may ask for a life by its number.
#[derive(Clone, Debug)]
struct Asked {
    life: Option<usize>,
    transaction: Transaction,
}

#[derive(Clone, Debug)]
enum Sent {
    Transaction(Asked),
    Deletion(String),
}

struct Episode {
    rng: Rng,
    memory: Side,
    redis: Side,
    general: Side,
    writers: Vec<Writer>,
    /// What can be sent once more.
    sent: Vec<(Writer, Sent)>,
    seen: BTreeSet<String>,
}

impl Episode {
    fn new(rng: Rng) -> Self {
        let side = |under_test| Side { under_test, lives: Vec::new() };
        let redis = side(StoreUnderTest::redis());
        // Redis forgets no script by itself, and most transactions here have one.
        redis.under_test.raw().run::<()>(redis::cmd("SCRIPT").arg("FLUSH"));
        Self {
            rng,
            memory: side(StoreUnderTest::memory()),
            redis,
            general: side(StoreUnderTest::redis_general()),
            writers: (0..200).map(|_| Writer::new()).collect(),
            sent: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    async fn step(&mut self, round: usize) {
        match self.rng.u32(0..100) {
            0..4 => self.pass_time(),
            4..7 => self.describe(round).await,
            7..9 => self.list(round).await,
            9..20 if !self.sent.is_empty() => {
                let latest = self.sent.len().saturating_sub(12);
                let again = self.rng.usize(latest..self.sent.len());
                let (writer, sent) = self.sent[again].clone();
                self.send(round, &writer, &sent).await;
            }
            kind => {
                let bucket = self.pick(&BUCKETS).to_owned();
                let writer = self.next_writer();
                let sent = if kind < 24 { Sent::Deletion(bucket) } else { Sent::Transaction(self.transaction(bucket)) };
                self.send(round, &writer, &sent).await;
                self.sent.push((writer, sent));
            }
        }
    }

    /// Hours, after which no writer is remembered, or a second, after which all are.
    fn pass_time(&mut self) {
        let time = self.pick(&[Duration::from_secs(1), HOUR, HOUR, 2 * HOUR, 5 * HOUR, 300 * HOUR]);
        for side in [&self.memory, &self.redis, &self.general] {
            side.under_test.pass_time(time);
        }
    }

    fn next_writer(&mut self) -> Writer {
        // A few again and again, and more of them than a store keeps in mind whoever they are.
        let all = if self.rng.bool() { 5 } else { self.writers.len() };
        let index = self.rng.usize(0..all);
        self.writers[index].advance().clone()
    }

    async fn send(&mut self, round: usize, writer: &Writer, sent: &Sent) {
        let mut answers = Vec::new();
        for side in [&mut self.memory, &mut self.redis, &mut self.general] {
            let store = side.under_test.store.clone();
            answers.push(match sent {
                Sent::Transaction(asked) => {
                    match store.transact(writer, &side.translated(asked), Deadline::NEVER).await {
                        Ok(receipt) => {
                            self.seen.insert(format!("{:?}", receipt.status));
                            let life = side.life(&receipt.incarnation);
                            format!("{:?} in life {life:?}", comparable_receipt(receipt))
                        }
                        Err(failure) => comparable_failure(&failure),
                    }
                }
                Sent::Deletion(bucket) => {
                    let Deletion { status, keys } = store.delete_bucket(writer, bucket, Deadline::NEVER).await.unwrap();
                    format!("{:?} {keys:?}", comparable_status(status))
                }
            });
        }
        let sent_as = format!("{}th of writer {}: {sent:?}", writer.sequence(), writer.id());
        assert_same(round, sent_as, &answers);
    }

    async fn describe(&mut self, round: usize) {
        let bucket = self.pick(&BUCKETS);
        let mut answers = Vec::new();
        let mut expiries = Vec::new();
        for side in [&mut self.memory, &mut self.redis, &mut self.general] {
            let mut description = side.under_test.store.describe_bucket(bucket, Deadline::NEVER).await.unwrap();
            expiries.push(description.expires_in.take());
            let life = side.life(&std::mem::take(&mut description.incarnation));
            description.logs.sort_by(|a, b| a.log.cmp(&b.log));
            let description = Description { status: comparable_status(description.status), ..description };
            answers.push(format!("{description:?} in life {life:?}"));
        }
        assert_same(round, format!("describe {bucket}"), &answers);
        let memory = expiries[0];
        for redis in expiries {
            let apart = memory.unwrap_or(0).abs_diff(redis.unwrap_or(0));
            assert!(
                memory.is_some() == redis.is_some() && u128::from(apart) < SLACK.as_millis(),
                "round {round}: {bucket} expires in {memory:?} ms in memory and in {redis:?} ms in Redis"
            );
        }
    }

    async fn list(&mut self, round: usize) {
        let mut answers = Vec::new();
        for side in [&self.memory, &self.redis, &self.general] {
            let listed: BTreeSet<_> = side.under_test.list(2).await.into_iter().collect();
            let BucketPage { buckets, .. } =
                side.under_test.store.list_buckets("", 1000, Deadline::NEVER).await.unwrap();
            answers.push(format!("{listed:?} {buckets:?}"));
        }
        assert_same(round, "list", &answers);
    }

    async fn compare_states(&mut self) {
        for bucket in BUCKETS {
            let mut answers = Vec::new();
            for side in [&mut self.memory, &mut self.redis, &mut self.general] {
                let reads = [get_all(), list_keys(ALL)].into_iter().chain(LOGS.map(read_all)).chain(KEYS.map(get));
                let read = transaction(bucket, existing(), reads.collect::<Vec<_>>());
                let receipt = side.under_test.ask(&read).await;
                let life = side.life(&receipt.incarnation);
                answers.push(format!("{:?} in life {life:?}", comparable_receipt(receipt)));
            }
            assert_same(usize::MAX, format!("the final state of {bucket}"), &answers);
        }
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.usize(0..choices.len())]
    }

    fn transaction(&mut self, bucket: String) -> Asked {
        let (life, opening) = self.opening();
        let expectations = if self.rng.u32(0..4) == 0 { 1..3 } else { 0..1 };
        let expectations: Vec<_> = (0..self.rng.usize(expectations)).map(|_| self.expectation()).collect();
        let mut transaction = Transaction { bucket, opening, expectations, operations: Vec::new() };
        for _ in 0..self.rng.usize(0..9) {
            let operation = self.operation();
            // Mostly what a store takes: a place is written once.
            if !is_written(&transaction.operations, &operation) || self.rng.u32(0..200) == 0 {
                transaction.operations.push(operation);
            }
        }
        Asked { life, transaction }
    }

    fn opening(&mut self) -> (Option<usize>, Opening) {
        let times = [11 * HOUR / 2, 101 * HOUR / 2, 501 * HOUR / 2];
        let opening = match self.rng.u32(0..12) {
            0..4 => existing(),
            4..6 => {
                let lives = self.memory.lives.len();
                // The latest ones, and now and then one that never was.
                return (Some(self.rng.usize(lives.saturating_sub(4)..lives + 1)), existing());
            }
            6..8 => create(),
            8 => create_new(),
            9..11 => create_for(self.pick(&times)),
            _ => create_sliding(self.pick(&times)),
        };
        (None, opening)
    }

    fn expectation(&mut self) -> Expectation {
        match self.rng.u32(0..4) {
            0 => {
                let keys: Vec<_> = KEYS.into_iter().filter(|_| self.rng.bool()).collect();
                keys_are(&keys)
            }
            1 => room_within(self.rng.u64(0..7)),
            _ => {
                let records = self.records(0..3);
                oldest_are(self.pick(&LOGS), &records)
            }
        }
    }

    fn records(&mut self, count: std::ops::Range<usize>) -> Vec<&'static str> {
        // Mostly one text, so that expectations are met now and then.
        (0..self.rng.usize(count)).map(|_| if self.rng.bool() { RECORDS[0] } else { self.pick(&RECORDS) }).collect()
    }

    fn operation(&mut self) -> Operation {
        let key = self.pick(&KEYS);
        let log = self.pick(&LOGS);
        let mut limit = || self.pick(&LIMITS);
        let limits = [limit(), limit(), limit(), limit()];
        match self.rng.u32(0..22) {
            0..2 => get_within(key, limits[0]),
            2..4 => get_all_within(limits[0], limits[1]),
            4 => list_keys(limits[0]),
            5..8 => put(key, self.pick(&VALUES)),
            8..11 => increment(key, self.pick(&AMOUNTS)),
            11 => remove(key),
            12 if self.rng.u32(0..3) == 0 => remove_all(limits[0]),
            12..15 => append(log, &self.records(0..5)),
            15 => read_oldest(log, self.rng.u64(0..6), limits[0], limits[1]),
            16 => read_newest(log, self.rng.u64(0..6), limits[0], limits[1]),
            17 => overflow(log, limits[0], limits[1], limits[2], limits[3]),
            18..20 => {
                let records = self.records(0..3);
                let count = records.len() as u64 + self.rng.u64(0..4);
                replace_oldest(log, count, &records)
            }
            20 => rewrite(log, self.rng.u64(0..12), self.pick(&RECORDS)),
            _ => count(log),
        }
    }
}

/// Whether the place that the operation writes is written by one before it.
fn is_written(before: &[Operation], operation: &Operation) -> bool {
    fn key(operation: &Operation) -> Option<&str> {
        match operation {
            Operation::Put(put) => Some(&put.key),
            Operation::Increment(increment) => Some(&increment.key),
            Operation::Remove(remove) => Some(&remove.key),
            _ => None,
        }
    }
    fn log(operation: &Operation) -> Option<&str> {
        match operation {
            Operation::Append(append) => Some(&append.log),
            Operation::ReplaceOldest(replace) => Some(&replace.log),
            Operation::Rewrite(rewrite) => Some(&rewrite.log),
            _ => None,
        }
    }
    let all = |operation: &Operation| matches!(operation, Operation::RemoveAll(_));
    before.iter().any(|earlier| {
        let same_key = key(operation).is_some() && (key(earlier) == key(operation) || all(earlier));
        let same_log = log(operation).is_some() && log(earlier) == log(operation);
        same_key || same_log || (all(operation) && (key(earlier).is_some() || all(earlier)))
    })
}

/// Who is told that a bucket expired, and who that it is absent, is the stores' own affair.
fn comparable_status(status: Status) -> Status {
    if status == Status::Expired { Status::Absent } else { status }
}

fn comparable_receipt(receipt: Receipt) -> (Status, bool, Vec<Outcome>) {
    let outcomes = receipt.outcomes.into_iter().map(|outcome| match outcome {
        // As far as each store counted.
        Outcome::Oversize(size) => oversize(0, size.keys),
        // Where nothing is, nothing has a position.
        Outcome::Records(range) if range.records.is_empty() => records(0, range.length, NONE),
        other => other,
    });
    (comparable_status(receipt.status), receipt.created, outcomes.collect())
}

/// The message is for people, and each store's own.
fn comparable_failure(failure: &Failure) -> String {
    format!("{:?} {:?} {}", failure.code, failure.subject, failure.limit)
}

fn assert_same(round: usize, what: impl Debug, answers: &[String]) {
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "round {round}: {what:?}\nmemory, Redis with scripts for shapes, Redis with the general one: {answers:#?}"
    );
}
