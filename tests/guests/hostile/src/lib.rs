//! A plugin that misbehaves. What it does is told by the first word of a question's text; the rest of the
//! text is the argument. Anything else passes, as through a filter that has nothing to add.

#[allow(unsafe_code, missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "memory-filter", generate_all });
    export!(Component with_types_in self);
    pub struct Component;
}

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use bindings::Component;
use bindings::exports::keepline::memory::filter::{
    AnswerReply, ConfigProblem, Configured, Effect, Guest, Problem, QuestionReply,
};
use bindings::exports::keepline::memory::sessions;
use bindings::keepline::memory::key_value::{
    AppendOperation, Failure, GetAllOperation, GetOperation, ListKeysOperation, LogEnd, NewLife, Opening, Operation,
    PutOperation, ReadOperation, capabilities, delete_bucket, describe_bucket, list_buckets, transact,
};
use bindings::wasi::clocks::wall_clock;
use bindings::wasi::logging::logging::{Level, log};

/// How many entries this instance has served: what a well-behaved filter would not keep.
static SERVED: AtomicU64 = AtomicU64::new(0);

impl Guest for Component {
    fn configure(options: String, _: Level) -> Result<Configured, ConfigProblem> {
        if let Some(misdeed) = options.strip_prefix("misdeed: ") {
            do_it(misdeed);
        }
        if options == "refuse" {
            return Err(ConfigProblem { field: "field".into(), message: "no".into() });
        }
        if let Some(length) = options.strip_prefix("refuse at length ") {
            return Err(ConfigProblem { field: absurd(length), message: absurd(length) });
        }
        Ok(Configured { effective: options })
    }

    fn question(text: String, _: String) -> QuestionReply {
        SERVED.fetch_add(1, Ordering::Relaxed);
        let mut reply =
            QuestionReply { metadata: None, turn: String::new(), effect: Effect::Passed, attached: 0, problem: None };
        match text.split_once(' ') {
            Some(("turn", turn)) => reply.turn = turn.to_owned(),
            Some(("turn-of", length)) => reply.turn = "x".repeat(length.parse().unwrap_or(0)),
            Some(("problem", length)) => {
                reply.effect = Effect::Failed;
                reply.problem = Some(Problem { code: absurd(length), message: absurd(length) });
            }
            _ => reply.metadata = do_it(&text),
        }
        reply
    }

    /// Tells which turn it was given.
    fn answer(text: String, _: String, turn: String) -> AnswerReply {
        SERVED.fetch_add(1, Ordering::Relaxed);
        let metadata = do_it(&text).or(Some(turn));
        AnswerReply { metadata, effect: Effect::Passed, problem: None }
    }
}

fn do_it(text: &str) -> Option<String> {
    let (deed, argument) = text.split_once(' ').unwrap_or((text, ""));
    let number = argument.parse::<usize>().unwrap_or(0);
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
        "loop-over-capabilities" => loop {
            black_box(capabilities());
        },
        "compute" => compute(number),
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
        "log-raw" => log(Level::Info, argument, argument),
        // The store.
        "store-for-ever" => loop {
            black_box(put("forever", vec![value("a", "1")]).is_ok());
        },
        "store" => (0..number).for_each(|_| {
            black_box(put("several", vec![value("a", "1")]).is_ok());
        }),
        "store-and-compute" => (0..3).for_each(|_| {
            compute(number);
            black_box(put("several", vec![value("a", "1")]).is_ok());
        }),
        "operations" => {
            return tell(put("many", (0..number).map(|key| value(&format!("k{key}"), "1")).collect()));
        }
        "records" => {
            let records = vec!["1".to_owned(); number];
            return tell(put("many", vec![Operation::Append(AppendOperation { log: "history".into(), records })]));
        }
        // A little is stored once, and asked for again and again.
        "get-again" => return read_again(Operation::Get(get("a")), number),
        "get-all-again" => {
            let all = GetAllOperation { max_bytes: u64::MAX, max_keys: u64::MAX };
            return read_again(Operation::GetAll(all), number);
        }
        "keys-again" => return read_again(Operation::ListKeys(ListKeysOperation { max_keys: u64::MAX }), number),
        "read-again" => {
            let read = ReadOperation {
                log: "history".into(),
                end: LogEnd::Newest,
                skip: 0,
                max_records: u64::MAX,
                max_bytes: u64::MAX,
            };
            return read_again(Operation::Read(read), number);
        }
        "big-value" => return tell(put("big", vec![value("a", &"1".repeat(number))])),
        // Names.
        "bucket" => return tell(put(argument, vec![value("a", "1")])),
        "key" => return tell(put("names", vec![value(argument, "1")])),
        "log" => {
            let append = AppendOperation { log: argument.into(), records: vec!["1".into()] };
            return tell(put("names", vec![Operation::Append(append)]));
        }
        "delete" => return tell(delete_bucket(argument).map(|_| ())),
        "describe" => return tell(describe_bucket(argument).map(|_| ())),
        "count" => return list_buckets("", u32::MAX).ok().map(|page| page.buckets.len().to_string()),
        "list" => return tell(list_buckets(argument, u32::MAX).map(|_| ())),
        // Replies.
        "reply" => return Some("x".repeat(number)),
        "served" => return Some(SERVED.load(Ordering::Relaxed).to_string()),
        _ => {}
    }
    None
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

fn value(key: &str, value: &str) -> Operation {
    Operation::Put(PutOperation { key: key.into(), value: value.into() })
}

fn put(bucket: &str, operations: Vec<Operation>) -> Result<(), Failure> {
    transact(bucket, &Opening::Create(NewLife { time_to_live: None }), &[], &operations).map(|_| ())
}

/// Stores a megabyte as a value and as a record, and asks for it so many times in one transaction.
fn read_again(read: Operation, times: usize) -> Option<String> {
    let megabyte = "1".repeat(1 << 20);
    let append = AppendOperation { log: "history".into(), records: vec![megabyte.clone()] };
    let stored = put("again", vec![value("a", &megabyte), Operation::Append(append)]);
    drop(megabyte);
    if stored.is_err() {
        return tell(stored);
    }
    tell(put("again", vec![read; times]))
}

fn get(key: &str) -> GetOperation {
    GetOperation { key: key.into(), max_bytes: u64::MAX }
}

/// Long, and nothing that a terminal should see.
fn absurd(length: &str) -> String {
    "\u{1b}[2J\n".repeat(length.parse::<usize>().unwrap_or(0) / 5)
}

/// Told in the metadata of the reply.
fn tell(done: Result<(), Failure>) -> Option<String> {
    Some(match done {
        Ok(()) => "done".into(),
        Err(failure) => format!("{:?}: {}", failure.code, failure.message),
    })
}

/// Nobody asks it for sessions but to see what becomes of a misdeed there: the session's id names it.
impl sessions::Guest for Component {
    fn create(session: String) -> Result<sessions::SessionCreated, sessions::SessionProblem> {
        if let Some(length) = session.strip_prefix("problem ") {
            return Err(sessions::SessionProblem { message: absurd(length), ..none() });
        }
        do_it(&session);
        Err(none())
    }
    fn resume(_: String) -> Result<sessions::SessionState, sessions::SessionProblem> {
        Err(none())
    }
    fn list(cursor: String, limit: u32) -> Result<sessions::SessionPage, sessions::SessionProblem> {
        Ok(sessions::SessionPage { sessions: vec![String::new(); limit as usize], cursor })
    }
    fn delete(_: String) -> Result<sessions::SessionDeleted, sessions::SessionProblem> {
        Err(none())
    }
    fn put(_: String, _: String, _: String) -> Result<sessions::ValueStored, sessions::SessionProblem> {
        Err(none())
    }
    fn get(_: String, _: String) -> Result<sessions::ValueFound, sessions::SessionProblem> {
        Err(none())
    }
    fn keys(_: String) -> Result<sessions::KeyList, sessions::SessionProblem> {
        Err(none())
    }
    fn clear(_: String, _: Option<String>) -> Result<sessions::KeysCleared, sessions::SessionProblem> {
        Err(none())
    }
    fn increment(_: String, _: String, _: i64) -> Result<sessions::KeyCounted, sessions::SessionProblem> {
        Err(none())
    }
    fn history(record: String, limit: u32) -> Result<sessions::HistoryPage, sessions::SessionProblem> {
        Ok(sessions::HistoryPage { session: String::new(), entries: vec![record; limit as usize] })
    }
}

fn none() -> sessions::SessionProblem {
    sessions::SessionProblem { code: sessions::SessionProblemCode::NotFound, message: "none".into() }
}
