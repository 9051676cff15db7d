//! The attacks that the hostile component makes when asked to.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use crate::bindings::keepline::common::shared::Problem;
use crate::bindings::keepline::host::log::{Level, write as log};
use crate::bindings::keepline::store::core::{about, delete_each, transact, transact_each};
use crate::bindings::keepline::store::listing::list_buckets;
use crate::bindings::keepline::store::types::{
    AppendOperation, Attempt, BucketId, DeleteAttempt, DeleteRequest, DescribeOperation, Entry, ExistingBucket,
    GetAllOperation, GetOperation, NewBucket, Operation, Outcome, Precondition, ReadAtOperation, ReadOperation,
    SetOperation, Span, Status, Transaction,
};
use crate::bindings::wasi::clocks::wall_clock;
use crate::{OVERHEARD, SERVED, size};

/// Whose memory it works on, unless it is after another's.
const OWN: &str = "s1";

/// Does what the first word says, and tells what came of it, if anything is to be told.
pub fn do_it(text: &str) -> Option<String> {
    let (deed, argument) = text.split_once(' ').unwrap_or((text, ""));
    let number = size(argument);
    match deed {
        // Time.
        "loop" => loop {
            black_box(());
        },
        "loop-over-clock" => loop {
            black_box(wall_clock::now());
        },
        "loop-over-log" => loop {
            log(Level::Error, "loop", "again");
        },
        "loop-over-about" => loop {
            black_box(about());
        },
        "compute" => compute(number),
        // Neither part is long; the call of the store is refused or not.
        "spin-and-list" => (0..number).for_each(|_| {
            (0..20_000_000_u64).for_each(|turn| _ = black_box(turn));
            black_box(list_buckets("session", "", 1).is_ok());
        }),
        // Memory.
        "allocate" => {
            let mut kept = Vec::new();
            loop {
                kept.push(black_box(vec![1_u8; 1 << 16]));
            }
        }
        "grow-memory" => loop {
            black_box(core::arch::wasm32::memory_grow(0, 1));
        },
        "recurse" => {
            black_box(recurse(&[0; 64]));
        }
        // Traps.
        "trap" => core::arch::wasm32::unreachable(),
        "panic" => panic!("on purpose"),
        // The log.
        "log-lines" => (0..number).for_each(|line| log(Level::Info, "flood", &format!("line {line}"))),
        "log-warnings" => (0..number).for_each(|line| log(Level::Warn, &format!("context-{line}"), "a warning")),
        "log-errors" => (0..64).for_each(|_| log(Level::Error, argument, "not the host's own")),
        "log-long-line" => log(Level::Info, "long", &"x".repeat(number)),
        "log-debug" => (0..64).for_each(|_| log(Level::Debug, "flood", &"\u{1b}".repeat(number))),
        "log-raw" => log(Level::Info, argument, argument),
        // The store.
        "store-for-ever" => loop {
            black_box(put(OWN, vec![value("a", "1")]).is_ok());
        },
        "store" => (0..number).for_each(|_| {
            black_box(put(OWN, vec![value("a", "1")]).is_ok());
        }),
        "store-and-compute" => (0..30).for_each(|_| {
            compute(number);
            black_box(put(OWN, vec![value("a", "1")]).is_ok());
        }),
        // So many transactions: of a megabyte each, or of 5,000 keys.
        "write" => {
            let megabyte = "1".repeat(1 << 20);
            (0..number).for_each(|n| drop(black_box(put(OWN, vec![value(&format!("w{n}"), &megabyte)]))));
        }
        "write-keys" => (0..number).for_each(|_| {
            let entries = (0..5000).map(|key| Entry { key: format!("k{key}"), text: "1".into() }).collect();
            let put_all = Operation::Set(SetOperation { map_name: "values".into(), reset: false, remove: vec![], put: entries });
            black_box(put(OWN, vec![put_all]).is_ok());
        }),
        // A megabyte is stored once, and read in so many transactions.
        "read" => {
            let megabyte = "1".repeat(1 << 20);
            let stored = put(OWN, vec![value("a", &megabyte)]);
            drop(megabyte);
            if stored.is_err() {
                return tell(stored);
            }
            let read = |_| match transact(&create(OWN, vec![Operation::Get(get("a"))])).map(|told| told.outcomes) {
                Ok(outcomes) => usize::from(matches!(outcomes.first(), Some(Outcome::Entries(found)) if !found.entries.is_empty())),
                Err(_) => 0,
            };
            return Some((0..number).map(read).sum::<usize>().to_string());
        }
        "operations" => {
            return tell(put(OWN, (0..number).map(|key| value(&format!("k{key}"), "1")).collect()));
        }
        "records" => {
            let append = AppendOperation { log: "history".into(), reset: false, records: vec!["1".into(); number], marks: vec![] };
            return tell(put(OWN, vec![Operation::Append(append)]));
        }
        // A little is stored once, and asked for again and again.
        "get-again" => return read_again(Operation::Get(get("a")), number),
        "get-all-again" => return read_again(Operation::GetAll(get_all()), number),
        "page-again" => {
            let page = GetAllOperation { cursor: Some(String::new()), ..get_all() };
            return read_again(Operation::GetAll(page), number);
        }
        "read-again" => {
            let read = ReadOperation {
                log: "history".into(),
                newest: true,
                only_over: 0,
                leave: 0,
                max_records: u64::MAX,
                max_bytes: u64::MAX,
            };
            return read_again(Operation::Read(read), number);
        }
        // The same few records, by position, so many times in one operation.
        "spans-again" => {
            let spans = vec![Span { position: 0, count: 1 }; number];
            let read = ReadAtOperation { log: "history".into(), spans, max_bytes: u64::MAX };
            return read_again(Operation::ReadAt(read), 1);
        }
        "big-value" => return tell(put(OWN, vec![value("a", &"1".repeat(number))])),
        // Several transactions at a time.
        "each" => {
            let transactions: Vec<_> =
                (0..number).map(|n| create(&format!("each-{n}"), vec![value("a", "1")])).collect();
            return tell_each(transact_each(&transactions));
        }
        "each-twice" => {
            let once = create(OWN, vec![value("a", "1")]);
            return tell_each(transact_each(&[once.clone(), once]));
        }
        // Its own and another's.
        "each-beside" => {
            let (own, other) = (create(OWN, vec![value("a", "1")]), create(argument, vec![value("a", "1")]));
            return tell_each(transact_each(&[own, other]));
        }
        "each-own" => return tell_each(transact_each(&[create(OWN, vec![value("a", "1")])])),
        // Names.
        "bucket" => return tell(put(argument, vec![value("a", "1")])),
        "user" => return tell(transact(&of_user(argument)).map(|_| ())),
        // The same, if it is there: how it was found.
        "find-user" => {
            let precondition = Precondition::Existing(ExistingBucket { generation: None, renew: false });
            let found = transact(&Transaction { precondition, ..of_user(argument) });
            return Some(found.map_or_else(|problem| problem.code, |told| format!("{:?}", told.status)));
        }
        "key" => return tell(put(OWN, vec![value(argument, "1")])),
        "token" => return tell(put(OWN, vec![put_into("notes", argument, "1")])),
        "map" => return tell(put(OWN, vec![put_into(argument, "a", "1")])),
        "log" => {
            let append = AppendOperation { log: argument.into(), reset: false, records: vec!["1".into()], marks: vec![] };
            return tell(put(OWN, vec![Operation::Append(append)]));
        }
        "delete" => return tell(delete(session(argument), None, u32::MAX).map(|_| ())),
        "describe" => {
            return tell(put(argument, vec![Operation::Describe(DescribeOperation { parts: true })]));
        }
        "count" => {
            let page = list_buckets("session", "", u32::MAX);
            return page.ok().map(|page| page.names.len().to_string());
        }
        "list" => return tell(list_buckets("session", argument, u32::MAX).map(|_| ())),
        // Replies.
        "reply" => return Some("x".repeat(number)),
        "overheard" => return Some(OVERHEARD.lock().unwrap().clone()),
        "served" => return Some(SERVED.load(Ordering::Relaxed).to_string()),
        _ => {}
    }
    None
}

/// What it gets of a bucket: to read it, to write to it, to name more in its lists, and to delete it.
pub fn greed(kind: &str, name: &str) -> String {
    let bucket = || BucketId { kind: kind.into(), name: name.into() };
    let look = Precondition::Existing(ExistingBucket { generation: None, renew: true });
    let tried = |operation| {
        let (bucket, precondition) = (bucket(), look.clone());
        match transact(&Transaction { bucket, precondition, expectations: vec![], operations: vec![operation] }) {
            Ok(receipt) => format!("{:?}", receipt.status),
            Err(problem) => problem.code,
        }
    };
    let read = tried(Operation::GetAll(get_all()));
    let write = tried(value("greed", "1"));
    let list = tried(put_into("sessions", "victim", "{}"));
    let delete = if kind == "user" {
        String::new()
    } else {
        // Only what it may not: of its own it needs more.
        match delete(bucket(), Some("1"), 0) {
            Ok(status) => format!("{status:?}"),
            Err(problem) => problem.code,
        }
    };
    format!("{kind} {name}: read {read}, write {write}, list {list}, delete {delete}").replace("Status::", "")
}

/// The sessions that a user's bucket lists.
pub fn listed(user: &str) -> Vec<String> {
    let page = GetAllOperation {
        map_name: "sessions".into(),
        cursor: Some(String::new()),
        max_entries: 100,
        max_bytes: 1 << 16,
        keys_only: true,
    };
    let precondition = Precondition::Existing(ExistingBucket { generation: None, renew: false });
    let bucket = BucketId { kind: "user".into(), name: user.into() };
    let read = Transaction { bucket, precondition, expectations: vec![], operations: vec![Operation::GetAll(page)] };
    let outcomes = transact(&read).map(|receipt| receipt.outcomes).unwrap_or_default();
    match outcomes.into_iter().next() {
        Some(Outcome::Entries(page)) => page.entries.into_iter().map(|entry| entry.key).collect(),
        _ => Vec::new(),
    }
}

/// For so many milliseconds of the wall clock, without a call of the store.
fn compute(milliseconds: usize) {
    let millis = |now: wall_clock::Datetime| now.seconds * 1000 + u64::from(now.nanoseconds) / 1_000_000;
    let end = millis(wall_clock::now()) + milliseconds as u64;
    while millis(wall_clock::now()) < end {}
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "that is what it is for")]
fn recurse(frame: &[u64; 64]) -> u64 {
    let mut next = *frame;
    next[0] += 1;
    black_box(recurse(black_box(&next))) + next[0]
}

fn value(key: &str, text: &str) -> Operation {
    put_into("values", key, text)
}

fn put_into(map: &str, key: &str, text: &str) -> Operation {
    let put = vec![Entry { key: key.into(), text: text.into() }];
    Operation::Set(SetOperation { map_name: map.into(), reset: false, remove: vec![], put })
}

fn session(name: &str) -> BucketId {
    BucketId { kind: "session".into(), name: name.into() }
}

fn create(bucket: &str, operations: Vec<Operation>) -> Transaction {
    let precondition = Precondition::Create(NewBucket { time_to_live: None });
    Transaction { bucket: session(bucket), precondition, expectations: vec![], operations }
}

fn of_user(name: &str) -> Transaction {
    let bucket = BucketId { kind: "user".into(), name: name.into() };
    Transaction { bucket, ..create("", vec![value("a", "1")]) }
}

fn delete(bucket: BucketId, generation: Option<&str>, max_keys: u32) -> Result<Status, Problem> {
    let request = DeleteRequest { bucket, generation: generation.map(Into::into), max_keys };
    match delete_each(&[request]).remove(0) {
        DeleteAttempt::Deletion(deletion) => Ok(deletion.status),
        DeleteAttempt::Problem(problem) => Err(problem),
    }
}

fn put(bucket: &str, operations: Vec<Operation>) -> Result<(), Problem> {
    transact(&create(bucket, operations)).map(|_| ())
}

/// Stores a megabyte as a value and as a record, and asks for it so many times in one transaction.
fn read_again(read: Operation, times: usize) -> Option<String> {
    let megabyte = "1".repeat(1 << 20);
    let append = AppendOperation { log: "history".into(), reset: false, records: vec![megabyte.clone()], marks: vec![] };
    let stored = put(OWN, vec![value("a", &megabyte), Operation::Append(append)]);
    drop(megabyte);
    if stored.is_err() {
        return tell(stored);
    }
    tell(put(OWN, vec![read; times]))
}

fn get(key: &str) -> GetOperation {
    GetOperation { map_name: "values".into(), keys: vec![key.into()], max_bytes: u64::MAX }
}

fn get_all() -> GetAllOperation {
    GetAllOperation {
        map_name: "values".into(),
        cursor: None,
        max_entries: u64::MAX,
        max_bytes: u64::MAX,
        keys_only: false,
    }
}

/// Told in the metadata of the reply.
fn tell(done: Result<(), Problem>) -> Option<String> {
    Some(match done {
        Ok(()) => "done".into(),
        Err(problem) => format!("{}: {}", problem.code, problem.message),
    })
}

/// The same of several: how many were done, and how the first failed that was not.
fn tell_each(attempts: Vec<Attempt>) -> Option<String> {
    let done = attempts.iter().filter(|attempt| matches!(attempt, Attempt::Receipt(_))).count();
    let failed = attempts.iter().find_map(|attempt| match attempt {
        Attempt::Problem(problem) => Some(format!(", {}: {}", problem.code, problem.message)),
        Attempt::Receipt(_) => None,
    });
    Some(format!("{done} of {}{}", attempts.len(), failed.unwrap_or_default()))
}
