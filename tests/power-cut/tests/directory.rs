//! The store in a directory when the power is cut: what it acknowledged is there, once, and what it did not acknowledge
//! is there as a whole or not at all.

#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fastrand::Rng;
use futures::future::join_all;
use keepline_power_cut::{Disk, Recording, Syncs};
use keepline_stores::{
    AddOperation, AppendOperation, BucketId, Deadline, DirectoryOptions, DirectoryStore, DirectorySync, Entry,
    EntryState, Expectation, ExpectedEntry, Failure, GetAllOperation, IndexedTransaction, NewBucket, Operation,
    Outcome, PositionMark, Precondition, ReadOperation, Receipt, SetOperation, Status, Store, Transaction, Writer,
    names::VALUES,
};
use keepline_stores_tests::random;
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task;

const WRITERS: usize = 8;
const SESSIONS: usize = 3;
/// Of each writer.
const ANSWERS: usize = 12;
/// Recorded for each test of an ordinary run.
const STORES: usize = 1;
/// Of each recorded store.
const CUTS: usize = 20;
const LOG: &str = "answers";
const MAP: &str = "messages";

/// An answer: whose, and which of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Answer {
    writer: usize,
    number: usize,
}

impl Answer {
    fn id(self) -> String {
        format!("\"{}-{}\"", self.writer, self.number)
    }

    fn session(self) -> BucketId {
        session(self.writer % SESSIONS)
    }

    fn mark(self) -> u64 {
        (self.writer * 1000 + self.number) as u64
    }

    fn marked(mark: u64) -> Self {
        Self { writer: mark as usize / 1000, number: mark as usize % 1000 }
    }

    /// As the filter stores it, with a message id.
    fn transaction(self) -> IndexedTransaction {
        let id = self.id();
        let text = format!("{id}{}", " ".repeat(1 << (4 + (self.writer + self.number) % 9)));
        let messages =
            ExpectedEntry { map_name: MAP.into(), key: id.clone(), state: EntryState::Absent, text: "".into() };
        let mark = PositionMark { map_name: MAP.into(), key: id.clone(), record_index: 0 };
        let transaction = Transaction {
            bucket: self.session(),
            precondition: Precondition::Create(NewBucket { time_to_live: None }),
            expectations: vec![Expectation::Entry(messages)],
            operations: vec![
                Operation::Set(SetOperation {
                    map_name: VALUES.into(),
                    reset: false,
                    remove: vec![],
                    put: vec![Entry { key: "last_answer".into(), text }],
                }),
                Operation::Add(AddOperation { map_name: VALUES.into(), key: "answer_count".into(), amount: 1 }),
                Operation::Append(AppendOperation {
                    log: LOG.into(),
                    reset: false,
                    records: vec![id],
                    marks: vec![mark],
                }),
            ],
        };
        transaction.into()
    }
}

fn session(number: usize) -> BucketId {
    BucketId::session(format!("s{number}"))
}

/// A writer as it is for each of its answers, so that any call can be sent once more.
fn calls(writer: usize) -> Vec<(Answer, Writer)> {
    let mut identity = Writer::new();
    (1..=ANSWERS).map(|number| (Answer { writer, number }, identity.advance().clone())).collect()
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

async fn send(store: &DirectoryStore, answer: Answer, writer: &Writer) -> Result<Receipt, Failure> {
    store.transact(writer, &answer.transaction(), deadline()).await.map(|receipt| receipt.receipt)
}

fn open(directory: &Path, sync: DirectorySync) -> DirectoryStore {
    let options = DirectoryOptions { sync, timeout: Duration::from_secs(60), ..DirectoryOptions::default() };
    DirectoryStore::open(directory, options).unwrap()
}

/// A store that was written to, and what may be asked of what is left of it.
struct Life {
    recording: Recording,
    calls: Vec<Vec<(Answer, Writer)>>,
}

/// Eight writers at once, and another program that makes checkpoints between their commits and syncs.
async fn live(sync: DirectorySync, syncs: Syncs) -> Life {
    let directory = TempDir::new().unwrap();
    let disk = Disk::record(directory.path()).unwrap();
    disk.syncs_take(Duration::from_micros(300));
    let calls: Vec<_> = (0..WRITERS).map(calls).collect();
    {
        let store = open(directory.path(), sync);
        disk.set_syncs(syncs);
        let is_over = Arc::new(AtomicBool::new(false));
        let checkpoints = checkpoints(&directory.path().join("keepline.db"), is_over.clone());
        join_all(calls.iter().map(async |calls| {
            for (answer, writer) in calls {
                assert_eq!(send(&store, *answer, writer).await.unwrap().status, Status::Applied);
                disk.mark(answer.mark());
            }
        }))
        .await;
        is_over.store(true, Ordering::Relaxed);
        println!("{} checkpoints", checkpoints.join().unwrap());
    }
    let recording = disk.stop();
    assert!(recording.is_complete(directory.path()).unwrap(), "changes were made that are not in the record");
    Life { recording, calls }
}

/// How many were made, of those that copied something.
fn checkpoints(database: &Path, is_over: Arc<AtomicBool>) -> thread::JoinHandle<usize> {
    let database = Connection::open(database).unwrap();
    thread::spawn(move || {
        let mut made = 0;
        for mode in ["PASSIVE", "RESTART", "FULL", "TRUNCATE"].into_iter().cycle() {
            // One that finds the database in use is not made.
            let copied = database.query_row(&format!("PRAGMA wal_checkpoint({mode})"), (), |row| row.get::<_, i64>(2));
            made += usize::from(copied.is_ok_and(|pages| pages > 0));
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        made
    })
}

/// What a session holds, after it was made sure that its parts agree.
async fn answers(store: &DirectoryStore, number: usize) -> Vec<String> {
    let all = |map: &str| GetAllOperation {
        map_name: map.into(),
        cursor: None,
        max_entries: u64::MAX,
        max_bytes: u64::MAX,
        keys_only: false,
    };
    let log = ReadOperation {
        log: LOG.into(),
        newest: false,
        only_over: 0,
        leave: 0,
        max_records: u64::MAX,
        max_bytes: u64::MAX,
    };
    let read = Transaction {
        bucket: session(number),
        precondition: Precondition::Create(NewBucket { time_to_live: None }),
        expectations: vec![],
        operations: vec![Operation::GetAll(all(VALUES)), Operation::Read(log), Operation::GetAll(all(MAP))],
    };
    let receipt = store.transact(Writer::new().advance(), &read.into(), deadline()).await.unwrap().receipt;
    let [Outcome::Entries(values), log, Outcome::Entries(messages)] = &receipt.outcomes[..] else {
        panic!("{receipt:?}")
    };
    let (first, records) = match log {
        Outcome::Records(log) => (log.runs[0].first, log.runs[0].records.clone()),
        // An empty one.
        _ => (0, Vec::new()),
    };
    let value = |key: &str| values.entries.iter().find(|entry| entry.key == key).map(|entry| entry.text.trim());
    assert_eq!(value("answer_count").unwrap_or("0"), records.len().to_string(), "answers are not counted once");
    assert_eq!(value("last_answer"), records.last().map(String::as_str));
    let positions: BTreeSet<_> =
        records.iter().enumerate().map(|(at, id)| (id.clone(), (first + at as u64).to_string())).collect();
    assert_eq!(positions.len(), records.len(), "an answer is there twice");
    let marked: BTreeSet<_> = messages.entries.iter().map(|entry| (entry.key.clone(), entry.text.clone())).collect();
    assert_eq!(marked, positions);
    records
}

async fn all_answers(store: &DirectoryStore) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for number in 0..SESSIONS {
        all.extend(answers(store, number).await);
    }
    all
}

fn assert_sound(directory: &Path) {
    let database = Connection::open(directory.join("keepline.db")).unwrap();
    let verdict: String = database.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// What is promised and missing.
fn missing(there: &BTreeSet<String>, promised: &BTreeSet<Answer>) -> usize {
    promised.iter().filter(|answer| !there.contains(&answer.id())).count()
}

/// Open what is left, see to it that nothing promised is missing, and send each writer's last promised call and the
/// one that followed it once more: both are there once then. That is recorded as well, for a second cut.
async fn survive(left: &Path, promised: &BTreeSet<Answer>, calls: &[Vec<(Answer, Writer)>]) -> Recording {
    let disk = Disk::record(left).unwrap();
    {
        let store = open(left, DirectorySync::Group);
        let there = all_answers(&store).await;
        assert_eq!(missing(&there, promised), 0, "of {promised:?} only {there:?} is there");
        for calls in calls {
            let next = calls.iter().position(|(answer, _)| !promised.contains(answer)).unwrap_or(calls.len());
            if let Some((answer, writer)) = next.checked_sub(1).and_then(|last| calls.get(last)) {
                assert_eq!(send(&store, *answer, writer).await.unwrap().status, Status::Repeated);
            }
            if let Some((answer, writer)) = calls.get(next) {
                let expected = if there.contains(&answer.id()) { Status::Repeated } else { Status::Applied };
                assert_eq!(send(&store, *answer, writer).await.unwrap().status, expected);
                disk.mark(answer.mark());
                assert!(answers(&store, answer.writer % SESSIONS).await.contains(&answer.id()));
            }
        }
    }
    let recording = disk.stop();
    assert!(recording.is_complete(left).unwrap());
    assert_sound(left);
    recording
}

fn promised(recording: &Recording, moment: usize) -> BTreeSet<Answer> {
    recording.marks(moment).map(Answer::marked).collect()
}

async fn nothing_acknowledged_is_lost(sync: DirectorySync) {
    let (mut cuts, mut promises) = (0, 0);
    for seed in random::seeds(STORES) {
        let life = live(sync, Syncs::Kept).await;
        let mut random = Rng::with_seed(seed);
        let directory = TempDir::new().unwrap();
        for n in 0..CUTS {
            let moment = life.recording.moment(&mut random);
            let left = directory.path().join(n.to_string());
            println!("{}", life.recording.cut(moment, &mut random, &left).unwrap());
            let mut known = promised(&life.recording, moment);
            (cuts, promises) = (cuts + 1, promises + known.len());
            let again = survive(&left, &known, &life.calls).await;
            // The power fails once more, while the store is opened or just after.
            let moment = again.moment(&mut random);
            let left = directory.path().join(format!("{n}-again"));
            println!("again: {}", again.cut(moment, &mut random, &left).unwrap());
            known.extend(promised(&again, moment));
            survive(&left, &known, &life.calls).await;
        }
    }
    println!("{sync:?}: {cuts} cuts and as many after them; {promises} promises kept");
    assert!(promises > cuts * ANSWERS, "the cuts came before there was anything to lose");
}

#[tokio::test]
async fn acknowledged_calls_survive_exactly_once_under_group_sync() {
    nothing_acknowledged_is_lost(DirectorySync::Group).await;
}

#[tokio::test]
async fn acknowledged_calls_survive_exactly_once_under_always_sync() {
    nothing_acknowledged_is_lost(DirectorySync::Always).await;
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_and_no_earlier_ack_is_lost() {
    for seed in random::seeds(STORES) {
        let directory = TempDir::new().unwrap();
        let disk = Disk::record(directory.path()).unwrap();
        let calls = [calls(0)];
        {
            let store = open(directory.path(), DirectorySync::Group);
            for (at, (answer, writer)) in calls[0].iter().enumerate() {
                if at == ANSWERS / 2 {
                    disk.set_syncs(Syncs::Failing);
                }
                let sent = send(&store, *answer, writer).await;
                assert_eq!(sent.is_ok(), at < ANSWERS / 2, "{answer:?}: {sent:?}");
                // It heals, and nobody can know what it has lost meanwhile.
                disk.set_syncs(Syncs::Kept);
                if sent.is_ok() {
                    disk.mark(answer.mark());
                }
            }
        }
        let recording = disk.stop();
        let mut random = Rng::with_seed(seed);
        let left = TempDir::new().unwrap();
        for n in 0..CUTS {
            let moment = recording.moment(&mut random);
            let left = left.path().join(n.to_string());
            println!("{}", recording.cut(moment, &mut random, &left).unwrap());
            survive(&left, &promised(&recording, moment), &calls).await;
        }
    }
}

/// Of how many cuts how many lose something that was acknowledged. What is left must be sound, if syncs are kept.
async fn lossy(sync: DirectorySync, syncs: Syncs) -> (usize, usize) {
    let (mut cuts, mut lossy) = (0, 0);
    for seed in random::seeds(STORES) {
        let life = live(sync, syncs).await;
        let mut random = Rng::with_seed(seed);
        let directory = TempDir::new().unwrap();
        for n in 0..CUTS {
            let moment = life.recording.moment(&mut random);
            let left = directory.path().join(n.to_string());
            println!("{}", life.recording.cut(moment, &mut random, &left).unwrap());
            let promised = promised(&life.recording, moment);
            cuts += 1;
            if syncs == Syncs::Ignored {
                let there = task::spawn(async move { all_answers(&open(&left, DirectorySync::Off)).await }).await;
                lossy += usize::from(there.map_or(true, |there| missing(&there, &promised) > 0));
            } else {
                let there = all_answers(&open(&left, DirectorySync::Off)).await;
                lossy += usize::from(missing(&there, &promised) > 0);
                assert_sound(&left);
            }
        }
    }
    (cuts, lossy)
}

#[tokio::test]
async fn with_sync_off_the_newest_calls_may_be_lost_and_the_store_stays_sound() {
    let (cuts, lossy) = lossy(DirectorySync::Off, Syncs::Kept).await;
    assert!(lossy > 0, "nothing is lost in {cuts} cuts: what then do the other choices cost time for?");
}

/// Else the tests above would show nothing.
#[tokio::test]
async fn a_disk_that_ignores_syncs_loses_acknowledged_calls() {
    for sync in [DirectorySync::Group, DirectorySync::Always] {
        let (cuts, lossy) = lossy(sync, Syncs::Ignored).await;
        println!("{sync:?} on a disk that ignores syncs: {lossy} of {cuts} cuts lose something");
        assert!(lossy > cuts / 5, "{lossy} of {cuts}");
    }
}
