//! The same transactions, at random, on memory, in a directory and on Redis, there with scripts for their shapes and with the
//! general one: the same answers and the same state. And on a key-value store, as far as it has their capabilities.

use std::{collections::BTreeSet, fmt::Debug, time::Duration};

use fastrand::Rng;
use keepline_stores::{
    BucketId, BucketPage, Deadline, DeleteRequest, Deletion, Document, EntryState, Expectation, Failure,
    IndexedReceipt, IndexedTransaction, LeaseState, Operation, Outcome, Precondition, Size, Status, Writer, capability,
    check, kind,
};
use keepline_stores_tests::{random, requests::*, stores::StoreUnderTest};

/// Of an ordinary run.
const STEPS: usize = 6000;
/// Steps between two fresh starts. In an episode Redis's own clock, which can't be stopped, gets ahead
/// of the memory store's by the few seconds that it takes.
const EPISODE: usize = 500;
const HOUR: Duration = Duration::from_secs(3600);
/// Times to live, and the hours that pass, are chosen so that nothing happens within this of an expiry or
/// of 1 % of it.
const SLACK: Duration = Duration::from_secs(20 * 60);

const BUCKETS: [(&str, &str); 5] =
    [(kind::SESSION, "a"), (kind::SESSION, "b"), (kind::USER, "a"), (kind::DATASET, "c"), ("another-kind", "a")];
const MAPS: [&str; 4] = ["values", "values", "notes", "map-2"];
const HOLDERS: [&str; 2] = ["me", "you:2"];
const KEYS: [&str; 5] = ["k", "l", "count", "n.2", "_x-"];
const LOGS: [&str; 3] = ["history", "l", "log-2"];
const INDEXES: [&str; 2] = ["recall", "l"];
/// Alike in their lower bits, or in their higher ones.
const TERMS: [u32; 7] = [0, 1, 255, 256, 257, 1 << 21, (1 << 22) - 1];
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
fn all_stores_give_the_same_answers_and_come_to_the_same_state() {
    let (seed, rounds) = (random::seed(), random::rounds(STEPS));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let statuses = runtime.block_on(run(seed, rounds, Episode::new));
    assert_eq!(statuses.len(), 7, "a run comes to every status; this one only to {statuses:?}");
}

#[test]
fn a_key_value_store_gives_the_same_answers_as_memory() {
    let (seed, rounds) = (random::seed(), random::rounds(STEPS));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let statuses = runtime.block_on(run(seed, rounds, Episode::of_key_value));
    assert_eq!(statuses.len(), 6, "a run comes to every status but `repeated`; this one only to {statuses:?}");
}

async fn run(seed: u64, rounds: usize, start_episode: fn(Rng) -> Episode) -> BTreeSet<String> {
    let mut rng = Rng::with_seed(seed);
    let mut statuses = BTreeSet::new();
    for start in (0..rounds).step_by(EPISODE) {
        let mut episode = start_episode(rng.fork());
        for round in start..rounds.min(start + EPISODE) {
            episode.step(round).await;
        }
        episode.compare_states().await;
        statuses.append(&mut episode.seen);
    }
    statuses
}

/// A store, and the generations that it told of, in order of appearance.
struct Side {
    under_test: StoreUnderTest,
    lives: Vec<String>,
}

impl Side {
    /// The same for the same life on both sides.
    fn life(&mut self, generation: Option<&str>) -> Option<usize> {
        let generation = generation?;
        let known = self.lives.iter().position(|life| life == generation);
        Some(known.unwrap_or_else(|| {
            self.lives.push(generation.into());
            self.lives.len() - 1
        }))
    }

    /// The name that a life has on this side.
    fn generation(&self, life: usize) -> String {
        self.lives.get(life).cloned().unwrap_or_else(|| "1795186917.032595".to_owned())
    }

    /// With the name that a life has on this side.
    fn translated(&self, asked: &Asked) -> IndexedTransaction {
        let mut transaction = asked.transaction.clone();
        if let (Some(index), Precondition::Existing(existing)) = (asked.life, &mut transaction.transaction.precondition)
        {
            existing.generation = Some(self.generation(index));
        }
        transaction
    }
}

/// A transaction whose precondition may ask for a life by its number.
#[derive(Clone, Debug)]
struct Asked {
    life: Option<usize>,
    transaction: IndexedTransaction,
}

#[derive(Clone, Debug)]
enum Sent {
    Transaction(Asked),
    Transactions(Vec<Asked>),
    /// Each of a bucket, or of a life of it, naming so many keys.
    Deletions(Vec<(BucketId, Option<usize>, u32)>),
}

struct Episode {
    rng: Rng,
    /// The first is in memory.
    sides: Vec<Side>,
    /// Whether all of them lack `exactly-once`, leases, and indexes.
    is_limited: bool,
    writers: Vec<Writer>,
    /// What can be sent once more.
    sent: Vec<(Writer, Sent)>,
    seen: BTreeSet<String>,
    /// What indexes are posted at next.
    position: u64,
}

impl Episode {
    fn new(mut rng: Rng) -> Self {
        let side = |under_test| Side { under_test, lives: Vec::new() };
        let redis = side(StoreUnderTest::redis());
        // Redis forgets no script by itself, and most transactions here have one.
        redis.under_test.raw().run::<()>(redis::cmd("SCRIPT").arg("FLUSH"));
        // Below its limits it makes no difference what it would do there.
        let memory = side(if rng.bool() { StoreUnderTest::memory() } else { StoreUnderTest::memory_evicting() });
        let directory = side(StoreUnderTest::directory());
        let sides = vec![memory, directory, redis, side(StoreUnderTest::redis_general())];
        Self::with(sides, rng)
    }

    /// What both can do, sent once each.
    fn of_key_value(rng: Rng) -> Self {
        let side = |under_test| Side { under_test, lives: Vec::new() };
        let sides = vec![side(StoreUnderTest::memory()), side(StoreUnderTest::key_value())];
        Self { is_limited: true, ..Self::with(sides, rng) }
    }

    fn with(sides: Vec<Side>, rng: Rng) -> Self {
        Self {
            sides,
            is_limited: false,
            rng,
            writers: (0..200).map(|_| Writer::new()).collect(),
            sent: Vec::new(),
            seen: BTreeSet::new(),
            position: 0,
        }
    }

    async fn step(&mut self, round: usize) {
        match self.rng.u32(0..100) {
            0..4 => self.pass_time(),
            4..7 => self.list(round).await,
            7..20 if !self.sent.is_empty() && !self.is_limited => {
                let latest = self.sent.len().saturating_sub(12);
                let again = self.rng.usize(latest..self.sent.len());
                let (writer, sent) = self.sent[again].clone();
                self.send(round, &writer, &sent).await;
            }
            kind => {
                let (of, name) = self.pick(&BUCKETS);
                let id = BucketId::new(of, name);
                let writer = self.next_writer();
                let sent = match kind {
                    0..22 => Sent::Deletions(vec![(id, None, self.rng.u32(0..4))]),
                    22 => Sent::Deletions(BUCKETS.map(|(of, name)| (BucketId::new(of, name), None, 1)).to_vec()),
                    23 => Sent::Deletions(vec![(id, Some(self.any_life()), 1)]),
                    24..30 => {
                        // The same one twice, now and then.
                        let count = self.rng.usize(0..4);
                        let mut buckets = BUCKETS.to_vec();
                        self.rng.shuffle(&mut buckets);
                        if self.rng.u32(0..20) == 0 {
                            buckets[1] = buckets[0];
                        }
                        let each = buckets.into_iter().take(count);
                        Sent::Transactions(each.map(|(of, name)| self.transaction(BucketId::new(of, name))).collect())
                    }
                    _ => Sent::Transaction(self.transaction(id)),
                };
                self.send(round, &writer, &sent).await;
                self.sent.push((writer, sent));
            }
        }
    }

    /// Hours, after which no writer is remembered, or a second, after which all are.
    fn pass_time(&mut self) {
        let time = self.pick(&[Duration::from_secs(1), HOUR, HOUR, 2 * HOUR, 5 * HOUR, 300 * HOUR]);
        for side in &self.sides {
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
        let mut times = Vec::new();
        for side in &mut self.sides {
            let store = side.under_test.store.clone();
            let attempts = match sent {
                Sent::Transaction(asked) => {
                    vec![store.transact(writer, &side.translated(asked), Deadline::NEVER).await]
                }
                Sent::Transactions(each) => {
                    let each: Vec<_> = each.iter().map(|asked| side.translated(asked)).collect();
                    store.transact_each(writer, &each, Deadline::NEVER).await
                }
                Sent::Deletions(each) => {
                    let request = |(bucket, life, max_keys): &(BucketId, Option<usize>, u32)| DeleteRequest {
                        bucket: bucket.clone(),
                        generation: life.map(|life| side.generation(life)),
                        max_keys: *max_keys,
                    };
                    let requests: Vec<_> = each.iter().map(request).collect();
                    let mut told = Vec::new();
                    for deleted in store.delete_each(writer, &requests, Deadline::NEVER).await {
                        let Deletion { status, values, keys, .. } = deleted.unwrap();
                        told.push(format!("{:?} {values} {keys:?}", comparable_status(status)));
                    }
                    answers.push(told.join("; "));
                    continue;
                }
            };
            let mut told = Vec::new();
            for attempt in attempts {
                told.push(match attempt {
                    Ok(receipt) => {
                        self.seen.insert(format!("{:?}", receipt.receipt.status));
                        let life = side.life(receipt.receipt.generation.as_deref());
                        let (receipt, time) = comparable_receipt(receipt);
                        times.extend(time);
                        format!("{receipt:?} in life {life:?}")
                    }
                    Err(failure) => comparable_failure(&failure),
                });
            }
            answers.push(told.join("; "));
        }
        let sent_as = format!("{}th of writer {}: {sent:?}", writer.sequence(), writer.id());
        assert_same(round, &sent_as, &answers);
        // The times that they told of the same things, one store after the other.
        let each = times.len() / self.sides.len();
        for at in 0..each {
            let told: Vec<u64> = times.iter().skip(at).step_by(each).copied().collect();
            let apart = told.iter().map(|time| time.abs_diff(told[0])).max().unwrap_or(0);
            assert!(u128::from(apart) < SLACK.as_millis(), "round {round}: {sent_as}: {told:?} ms");
        }
    }

    async fn list(&mut self, round: usize) {
        let mut answers = Vec::new();
        for side in &self.sides {
            let mut told = Vec::new();
            for kind in kind::REGISTERED.into_iter().chain(["another-kind"]) {
                let listed: BTreeSet<_> = side.under_test.list_kind(kind, 2).await.into_iter().collect();
                let BucketPage { names, .. } =
                    side.under_test.store.list_buckets(kind, "", 1000, Deadline::NEVER).await.unwrap();
                told.push(format!("{kind:?} {listed:?} {names:?}"));
            }
            answers.push(told.join("; "));
        }
        assert_same(round, "list", &answers);
    }

    async fn compare_states(&mut self) {
        for (kind, name) in BUCKETS {
            let mut answers = Vec::new();
            for side in &mut self.sides {
                let found = INDEXES.map(|index| search(index, &TERMS));
                let marks = INDEXES.map(|index| read_marks(index, self.position.saturating_sub(100_000), u32::MAX));
                let reads = MAPS.map(get_all_in).into_iter().chain(LOGS.map(read_all)).chain(KEYS.map(get));
                let reads: Vec<_> = reads.chain([describe()]).collect();
                let steps = found.into_iter().chain(marks).filter(|_| !self.is_limited);
                let steps = steps.map(Work::from).collect::<Work>();
                let read = transaction(BucketId::new(kind, name), unused(), (reads, steps));
                let receipt = side.under_test.try_send(&read).await.unwrap();
                let life = side.life(receipt.receipt.generation.as_deref());
                answers.push(format!("{:?} in life {life:?}", comparable_receipt(receipt).0));
            }
            assert_same(usize::MAX, format!("the final state of {kind:?} {name}"), &answers);
        }
        for side in &self.sides {
            side.under_test.assert_consistent().await;
        }
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.usize(0..choices.len())]
    }

    fn transaction(&mut self, bucket: BucketId) -> Asked {
        let (life, precondition) = self.precondition();
        let expectations = if self.rng.u32(0..3) == 0 { 1..4 } else { 0..1 };
        let expectations: Vec<_> = (0..self.rng.usize(expectations)).map(|_| self.expectation()).collect();
        let mut transaction = expecting(bucket, precondition, expectations, []);
        for _ in 0..self.rng.usize(0..9) {
            let before = transaction.clone();
            let Work { operations, mut steps, mut lease } = self.work();
            if self.is_limited {
                (steps, lease) = (Vec::new(), None);
            }
            transaction.transaction.operations.extend(operations);
            transaction.steps.extend(steps);
            transaction.lease = lease.or(transaction.lease);
            // Mostly what a store takes: a place is written once, and no more records replace fewer.
            if check::validate_transaction(&transaction, &capability::ALL).is_err() && self.rng.u32(0..200) != 0 {
                transaction = before;
            }
        }
        Asked { life, transaction }
    }

    /// One of the latest, and now and then one that never was.
    fn any_life(&mut self) -> usize {
        let lives = self.sides[0].lives.len();
        self.rng.usize(lives.saturating_sub(4)..lives + 1)
    }

    fn precondition(&mut self) -> (Option<usize>, Precondition) {
        let times = [11 * HOUR / 2, 101 * HOUR / 2, 501 * HOUR / 2];
        let precondition = match self.rng.u32(0..14) {
            0..3 => existing(),
            3 => unused(),
            4..6 => {
                let life = Some(self.any_life());
                return (life, if self.rng.bool() { existing() } else { unused() });
            }
            6..8 => create(),
            8 => create_new(),
            9..11 => create_for(self.pick(&times)),
            11 => {
                let Precondition::Create(life) = create_for(self.pick(&times)) else { unreachable!() };
                if self.rng.bool() { replace() } else { Precondition::Replace(life) }
            }
            _ => create_sliding(self.pick(&times)),
        };
        (None, precondition)
    }

    fn expectation(&mut self) -> Expectation {
        let (map, key, log) = (self.pick(&MAPS), self.pick(&KEYS), self.pick(&LOGS));
        match self.rng.u32(0..4) {
            0 => room_in(map, self.rng.u64(0..7)),
            1 => {
                let position = |rng: &mut Rng| rng.bool().then(|| rng.u64(0..5));
                log_at(log, position(&mut self.rng), position(&mut self.rng))
            }
            _ => {
                let states = [EntryState::Absent, EntryState::Present, EntryState::Equal, EntryState::AbsentOrEqual];
                entry_in(map, key, self.pick(&states), self.pick(&VALUES))
            }
        }
    }

    fn records(&mut self, count: std::ops::Range<usize>) -> Vec<&'static str> {
        // Mostly one text, so that expectations are met now and then.
        (0..self.rng.usize(count)).map(|_| if self.rng.bool() { RECORDS[0] } else { self.pick(&RECORDS) }).collect()
    }

    fn entries(&mut self) -> Vec<(&'static str, &'static str)> {
        let mut keys = KEYS;
        self.rng.shuffle(&mut keys);
        let count = self.rng.usize(0..4);
        keys[..count].iter().map(|key| (*key, self.pick(&VALUES))).collect()
    }

    fn keys(&mut self) -> Vec<&'static str> {
        self.entries().into_iter().map(|(key, _)| key).collect()
    }

    /// Mostly above all that there were.
    fn documents(&mut self) -> Vec<Document> {
        let mut next = if self.rng.u32(0..12) == 0 { self.rng.u64(0..4000) } else { self.position };
        let mut documents = Vec::new();
        for _ in 0..self.rng.usize(0..12) {
            let mut terms = TERMS.to_vec();
            self.rng.shuffle(&mut terms);
            terms.truncate(self.rng.usize(0..=TERMS.len()));
            terms.sort_unstable();
            documents.push(Document { position: next, mark: self.rng.u16(..), terms });
            next += self.pick(&[1, 1, 1, 2, 900]);
        }
        self.position = self.position.max(next);
        documents
    }

    fn work(&mut self) -> Work {
        let index = self.pick(&INDEXES);
        match self.rng.u32(0..34) {
            0..2 => {
                let time = self.pick(&[Duration::ZERO, 11 * HOUR / 2, 501 * HOUR / 2]);
                lease("work", self.pick(&HOLDERS), time).into()
            }
            2..5 => add_documents(index, self.documents()).into(),
            5 => {
                let first = self.position.saturating_sub(self.rng.u64(0..3000));
                let count = self.pick(&[1, 2, 30, 2000]);
                remove_documents(index, (first..first + count).collect::<Vec<_>>()).into()
            }
            6..8 => {
                let mut terms = TERMS;
                self.rng.shuffle(&mut terms);
                let (newest, max_bytes) = (self.pick(&[ALL, 0, 1, 1000, 2000]), self.pick(&[ALL, 0, 100, 4000]));
                let terms = &terms[..self.rng.usize(0..=terms.len())];
                search_within(index, terms, newest, self.rng.u32(0..10), max_bytes).into()
            }
            8 => {
                let first = self.position.saturating_sub(self.rng.u64(0..3000));
                read_marks(index, first, self.pick(&[0, 1, 30, 5000])).into()
            }
            9 => {
                let mut all = examples();
                all.swap_remove(self.rng.usize(0..all.len()))
            }
            _ => self.operation().into(),
        }
    }

    fn operation(&mut self) -> Operation {
        let (map, key, log) = (self.pick(&MAPS), self.pick(&KEYS), self.pick(&LOGS));
        let mut limit = || self.pick(&LIMITS);
        let limits = [limit(), limit(), limit(), limit()];
        match self.rng.u32(0..26) {
            0 => get_within(key, limits[0]),
            1..3 => get_in(map, &self.keys(), limits[0]),
            3..5 => get_all_in_within(map, limits[0], limits[1]),
            // One page, for cursors are each store's own.
            5 => page(map, "", 1000, ALL),
            6..9 => put_in(map, &self.entries()),
            9..11 => add_in(map, key, self.pick(&AMOUNTS)),
            11..13 => remove_in(map, &self.keys()),
            13 if self.rng.bool() => set(map, self.rng.bool(), &[key], &self.entries()),
            13..15 => append(log, &self.records(0..5)),
            15 => append_marked(log, &["a", "b"], &[("notes", key, 1), ("map-2", key, 0)]),
            16 => read_oldest(log, limits[0], limits[1]),
            17 => read_newest(log, limits[0], limits[1]),
            18 => {
                let spans: Vec<_> =
                    (0..self.rng.usize(0..4)).map(|_| (self.rng.u64(0..12), self.rng.u32(0..5))).collect();
                read_at(log, &spans, limits[0])
            }
            19 => read_surplus(log, limits[0], limits[1], limits[2], limits[3]),
            20..22 => {
                let records = self.records(0..3);
                let count = records.len() as u64 + self.rng.u64(0..4);
                replace_oldest(log, count, &records)
            }
            22 => rewrite(log, self.rng.u64(0..12), self.pick(&RECORDS)),
            23 => rewrite_each(log, &[(self.rng.u64(0..6), "x"), (self.rng.u64(0..6), "")]),
            24 if self.rng.bool() => reset_log(log, &self.records(0..3)),
            _ => describe(),
        }
    }
}

/// Who is told that a bucket expired, and who that it is absent, is the stores' own affair.
fn comparable_status(status: Status) -> Status {
    if status == Status::Expired { Status::Absent } else { status }
}

/// What is to be the same, and what may be apart by as much time as Redis's clock went on: what is left of a life or a
/// lease.
fn comparable_receipt(receipt: IndexedReceipt) -> (impl Debug, Vec<u64>) {
    let mut times = Vec::new();
    let IndexedReceipt { lease, receipt, found } = receipt;
    let lease = lease.map(|LeaseState { held, holder, expires_in }| {
        times.push(expires_in);
        (held, holder)
    });
    let comparable = |outcome| match outcome {
        Outcome::Entries(mut found) => {
            // In no order on a page, and as far as each store counted where it is too much.
            found.entries.sort_by(|a, b| a.key.cmp(&b.key));
            if let Some(missing) = &mut found.missing {
                missing.unreadable.sort_unstable();
                missing.oversize = missing.oversize.map(|size| Size { bytes: 0, ..size });
            }
            Outcome::Entries(found)
        }
        Outcome::Described(mut description) => {
            times.extend(description.expires_in.as_mut().map(std::mem::take));
            // Redis goes by its own clock, which does not show the time that was only made believe.
            description.created_at = u64::from(description.created_at > 0);
            Outcome::Described(description)
        }
        other => other,
    };
    let outcomes: Vec<_> = receipt.outcomes.into_iter().map(comparable).collect();
    ((comparable_status(receipt.status), receipt.created, receipt.unmet, outcomes, lease, found), times)
}

/// The message is for people, and each store's own.
fn comparable_failure(failure: &Failure) -> String {
    format!("{:?} {:?} {}", failure.code, failure.subject, failure.limit)
}

fn assert_same(round: usize, what: impl Debug, answers: &[String]) {
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "round {round}: {what:?}\nmemory first, then a directory, Redis with scripts for shapes and with the general one, or a \
         key-value store: {answers:#?}"
    );
}
