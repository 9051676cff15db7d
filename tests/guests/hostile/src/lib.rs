//! A plugin that misbehaves. What it does is told by the first word of a question's text; the rest of the
//! text is the argument. Anything else passes, as through a filter that has nothing to add. What it tells of a deed is
//! the member `told` of a question's metadata, and the problem `told` of an answer.

#[allow(unsafe_code, missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "memory-filter", generate_all });
    export!(Component with_types_in self);
    pub struct Component;
}

use std::hint::black_box;
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use bindings::Component;
use bindings::exports::keepline::memory::filter::{
    AnswerEntry, AnswerReply, ConfigProblem, Configured, Effect, Guest, Problem, QuestionEntry, QuestionReply, Task,
};
use bindings::exports::keepline::memory::maintenance::{self, CompletionNeed, Job, Need, Progress, Purpose, Step};
use bindings::exports::keepline::memory::{sessions, transcripts, users};
use bindings::keepline::memory::key_value::{
    AppendOperation, Attempt, BucketId, BucketKind, DescribeOperation, Entry, Failure, GetAllOperation, GetOperation,
    LogEnd, NewLife, Opening, Operation, Outcome, PageOperation, PutOperation, ReadAtOperation, ReadOperation, Span,
    Transaction, capabilities, delete_bucket, list_buckets, transact, transact_each,
};
use bindings::wasi::clocks::wall_clock;
use bindings::wasi::logging::logging::{Level, log};

/// How many entries this instance has served: what a well-behaved filter would not keep.
static SERVED: AtomicU64 = AtomicU64::new(0);
/// The text of the last entry: what it would like to tell others.
static OVERHEARD: Mutex<String> = Mutex::new(String::new());
/// Whose memory it works on, unless it is after another's.
const OWN: &str = "s1";

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
        // It took them once.
        if let Some(second) = options.strip_prefix("refuse from second ") {
            if wall_clock::now().seconds >= size(second) as u64 {
                return Err(ConfigProblem { field: String::new(), message: absurd("1000000") });
            }
        }
        let wants_turns = options == "turns";
        Ok(Configured { effective: options, wants_vectors: false, wants_tokens: false, wants_turns })
    }

    fn question(entry: QuestionEntry) -> QuestionReply {
        SERVED.fetch_add(1, Ordering::Relaxed);
        let mut reply = QuestionReply {
            metadata: None,
            turn: String::new(),
            effect: Effect::Passed,
            attached: 0,
            due: Vec::new(),
            problem: None,
        };
        match entry.text.split_once(' ') {
            Some(("turn", turn)) => reply.turn = turn.to_owned(),
            Some(("turn-of", length)) => reply.turn = "x".repeat(size(length)),
            Some(("problem", length)) => {
                reply.effect = Effect::Failed;
                reply.problem = Some(Problem { code: absurd(length), message: absurd(length) });
            }
            Some(("due", what)) => reply.due = tasks(what),
            // Anything at all in place of the metadata.
            Some(("return", metadata)) => reply.metadata = Some(metadata.to_owned()),
            _ => reply.metadata = do_it(&entry.text).map(|told| with_told(&entry.metadata, &told)),
        }
        *OVERHEARD.lock().unwrap() = entry.text;
        reply
    }

    /// Tells which turn it was given, and on demand what else.
    fn answer(entry: AnswerEntry) -> AnswerReply {
        SERVED.fetch_add(1, Ordering::Relaxed);
        let mut reply = AnswerReply { metadata: None, effect: Effect::Passed, due: Vec::new(), problem: None };
        match entry.text.split_once(' ') {
            Some(("due", what)) => reply.due = tasks(what),
            Some(("return", metadata)) => reply.metadata = Some(metadata.to_owned()),
            deed => {
                let message = match deed {
                    Some(("tell", _)) => format!("{entry:?}"),
                    _ => do_it(&entry.text).unwrap_or(entry.turn),
                };
                reply.problem = Some(Problem { code: "told".into(), message });
            }
        }
        reply
    }
}

/// The name of a task tells what becomes of it; its state is the argument.
impl maintenance::Guest for Component {
    fn advance(job: Job) -> Progress {
        let number = size(&job.task.state);
        let mut progress = Progress { step: Step::Done, task: job.task, needs: Vec::new(), problem: None };
        let need = |input: String| {
            let (instructions, purpose) = (String::new(), Purpose::Summary);
            Need::Completion(CompletionNeed { id: 0, purpose, instructions, input, max_tokens: 0 })
        };
        match &*progress.task.name {
            "state-of" => (progress.step, progress.task.state) = (Step::Again, "x".repeat(number)),
            "needs" => (progress.step, progress.needs) = (Step::Needs, vec![need(String::new()); number]),
            "need-of" => (progress.step, progress.needs) = (Step::Needs, vec![need("x".repeat(number))]),
            "problem" => {
                let text = absurd(&progress.task.state);
                (progress.step, progress.problem) = (Step::Failed, Some(Problem { code: text.clone(), message: text }));
            }
            misdeed => drop(do_it(misdeed)),
        }
        progress
    }
}

/// `NUMBER`, or a subject, a name and a state as JSON strings are not: parts between `|`.
fn tasks(what: &str) -> Vec<Task> {
    let task = |subject: &str, name: &str, state: &str| Task {
        subject: subject.to_owned(),
        name: name.to_owned(),
        state: state.to_owned(),
    };
    match what.split('|').collect::<Vec<_>>()[..] {
        [subject, name, state] => vec![task(subject, name, state)],
        ["state-of", length] => vec![task("session/s1", "fold", &"x".repeat(size(length)))],
        _ => vec![task("session/s1", "fold", ""); size(what)],
    }
}

fn do_it(text: &str) -> Option<String> {
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
        "loop-over-capabilities" => loop {
            black_box(capabilities());
        },
        "compute" => compute(number),
        // Neither part is long; the call of the store is refused or not.
        "spin-and-list" => (0..number).for_each(|_| {
            (0..20_000_000_u64).for_each(|turn| drop(black_box(turn)));
            black_box(list_buckets(BucketKind::Session, "", 1).is_ok());
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
        "store-and-compute" => (0..3).for_each(|_| {
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
            let put_all = Operation::Put(PutOperation { map_name: "values".into(), entries });
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
                Ok(outcomes) => usize::from(matches!(outcomes.first(), Some(Outcome::Entries(_)))),
                Err(_) => 0,
            };
            return Some((0..number).map(read).sum::<usize>().to_string());
        }
        "operations" => {
            return tell(put(OWN, (0..number).map(|key| value(&format!("k{key}"), "1")).collect()));
        }
        "records" => {
            let append = AppendOperation { log: "history".into(), records: vec!["1".into(); number], marks: vec![] };
            return tell(put(OWN, vec![Operation::Append(append)]));
        }
        // A little is stored once, and asked for again and again.
        "get-again" => return read_again(Operation::Get(get("a")), number),
        "get-all-again" => return read_again(Operation::GetAll(get_all()), number),
        "page-again" => {
            let page = PageOperation {
                map_name: "values".into(),
                cursor: String::new(),
                max_entries: u64::MAX,
                max_bytes: u64::MAX,
                keys_only: false,
            };
            return read_again(Operation::Page(page), number);
        }
        "read-again" => {
            let read = ReadOperation {
                log: "history".into(),
                end: LogEnd::Newest,
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
        "key" => return tell(put(OWN, vec![value(argument, "1")])),
        "token" => return tell(put(OWN, vec![put_into("notes", argument, "1")])),
        "map" => return tell(put(OWN, vec![put_into(argument, "a", "1")])),
        "log" => {
            let append = AppendOperation { log: argument.into(), records: vec!["1".into()], marks: vec![] };
            return tell(put(OWN, vec![Operation::Append(append)]));
        }
        "delete" => return tell(delete_bucket(&session(argument), None, u32::MAX).map(|_| ())),
        "describe" => {
            return tell(put(argument, vec![Operation::Describe(DescribeOperation { parts: true })]));
        }
        "count" => {
            let page = list_buckets(BucketKind::Session, "", u32::MAX);
            return page.ok().map(|page| page.names.len().to_string());
        }
        "list" => return tell(list_buckets(BucketKind::Session, argument, u32::MAX).map(|_| ())),
        // Replies.
        "reply" => return Some("x".repeat(number)),
        "overheard" => return Some(OVERHEARD.lock().unwrap().clone()),
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

fn value(key: &str, text: &str) -> Operation {
    put_into("values", key, text)
}

fn put_into(map: &str, key: &str, text: &str) -> Operation {
    let entries = vec![Entry { key: key.into(), text: text.into() }];
    Operation::Put(PutOperation { map_name: map.into(), entries })
}

fn session(name: &str) -> BucketId {
    BucketId { kind: BucketKind::Session, name: name.into() }
}

fn create(bucket: &str, operations: Vec<Operation>) -> Transaction {
    let opening = Opening::Create(NewLife { time_to_live: None });
    Transaction { bucket: session(bucket), opening, expectations: vec![], operations }
}

fn put(bucket: &str, operations: Vec<Operation>) -> Result<(), Failure> {
    transact(&create(bucket, operations)).map(|_| ())
}

/// Stores a megabyte as a value and as a record, and asks for it so many times in one transaction.
fn read_again(read: Operation, times: usize) -> Option<String> {
    let megabyte = "1".repeat(1 << 20);
    let append = AppendOperation { log: "history".into(), records: vec![megabyte.clone()], marks: vec![] };
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
    GetAllOperation { map_name: "values".into(), max_entries: u64::MAX, max_bytes: u64::MAX }
}

fn size(number: &str) -> usize {
    number.parse().unwrap_or(0)
}

/// Metadata with one more member.
fn with_told(metadata: &str, told: &str) -> String {
    let before = metadata.trim_end().strip_suffix('}').unwrap_or("{");
    let comma = if before.trim_end().ends_with('{') { "" } else { "," };
    let mut out = format!("{before}{comma}\"told\":\"");
    out.reserve(told.len() + 2);
    for c in told.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push_str("\"}");
    out
}

/// Long, and nothing that a terminal should see.
fn absurd(length: &str) -> String {
    "\u{1b}[2J\n".repeat(size(length) / 5)
}

/// Told in the metadata of the reply.
fn tell(done: Result<(), Failure>) -> Option<String> {
    Some(match done {
        Ok(()) => "done".into(),
        Err(failure) => format!("{:?}: {}", failure.code, failure.message),
    })
}

/// The same of several: how many were done, and how the first failed that was not.
fn tell_each(attempts: Vec<Attempt>) -> Option<String> {
    let done = attempts.iter().filter(|attempt| matches!(attempt, Attempt::Receipt(_))).count();
    let failed = attempts.iter().find_map(|attempt| match attempt {
        Attempt::Failure(failure) => Some(format!(", {:?}: {}", failure.code, failure.message)),
        Attempt::Receipt(_) => None,
    });
    Some(format!("{done} of {}{}", attempts.len(), failed.unwrap_or_default()))
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
    /// In pages of 9,999, there is always another one, and it is always the same.
    fn list_sessions(cursor: String, limit: u32) -> Result<sessions::SessionPage, sessions::SessionProblem> {
        let cursor = if limit == 9999 { "x".into() } else { do_it(&cursor).unwrap_or(cursor) };
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
    fn keys(session: String) -> Result<sessions::KeyList, sessions::SessionProblem> {
        match &*session {
            "two lines" => Ok(sessions::KeyList { session, keys: vec!["one\nforged\r\u{9b}".into()] }),
            _ => Err(none()),
        }
    }
    fn clear(_: String, _: Option<String>) -> Result<sessions::KeysCleared, sessions::SessionProblem> {
        Err(none())
    }
    fn increment(_: String, _: String, _: i64) -> Result<sessions::KeyCounted, sessions::SessionProblem> {
        Err(none())
    }
    fn history(
        record: String,
        before: Option<u64>,
        limit: u32,
    ) -> Result<sessions::HistoryPage, sessions::SessionProblem> {
        let session = String::new();
        if let Some((entry, first)) = one_of_many(&record, before) {
            return Ok(sessions::HistoryPage { session, entries: vec![entry], first, oldest: 0, next: u64::MAX });
        }
        let entries = vec![record; limit as usize];
        Ok(sessions::HistoryPage { session, entries, first: 0, oldest: 0, next: 0 })
    }
}

type Refused<T> = Result<T, sessions::SessionProblem>;

/// Nor for these, but to see what becomes of pages that do not end.
impl transcripts::Guest for Component {
    fn describe(_: transcripts::Transcript) -> Refused<transcripts::TranscriptState> {
        Err(none())
    }
    fn messages(
        transcript: transcripts::Transcript,
        query: transcripts::MessageQuery,
    ) -> Refused<transcripts::MessagePage> {
        let session = transcript.session;
        if session == "nothing" {
            let older = Some(query.before.unwrap_or(u64::MAX) - 1);
            return Ok(transcripts::MessagePage { session, messages: vec![], older });
        }
        let (text, position) = one_of_many(&session, query.before).ok_or_else(none)?;
        let messages = vec![transcripts::Message { position, text }];
        Ok(transcripts::MessagePage { session, messages, older: Some(position) })
    }
    fn content(_: transcripts::Transcript, _: u64, _: u64, _: u32) -> Refused<transcripts::MessageContent> {
        Err(none())
    }
    fn find_lines(_: transcripts::Transcript, _: u64, _: transcripts::LineQuery) -> Refused<transcripts::FoundLines> {
        Err(none())
    }
    fn rewrite(_: transcripts::Transcript, _: u64, _: Option<String>) -> Refused<transcripts::TranscriptChanged> {
        Err(none())
    }
    fn clear(_: transcripts::Transcript, _: Option<u64>) -> Refused<transcripts::TranscriptChanged> {
        Err(none())
    }
    fn set_messages(
        _: transcripts::Transcript,
        _: Vec<String>,
        _: Option<u64>,
    ) -> Refused<transcripts::TranscriptChanged> {
        Err(none())
    }
    fn register(_: transcripts::Transcript, _: Option<String>) -> Refused<transcripts::TranscriptRegistered> {
        Err(none())
    }
    fn set_settings(
        _: transcripts::Transcript,
        _: transcripts::TranscriptSettings,
    ) -> Refused<transcripts::SettingsSet> {
        Err(none())
    }
    fn set_title(_: transcripts::Transcript, _: Option<String>) -> Refused<transcripts::TitleSet> {
        Err(none())
    }
}

impl users::Guest for Component {
    fn values(_: String, _: Option<String>) -> Refused<users::UserValues> {
        Err(none())
    }
    fn put(_: String, _: String, _: Option<String>) -> Refused<users::UserValueStored> {
        Err(none())
    }
    fn list_sessions(user: String, _: Option<u64>, _: u32) -> Refused<users::UserSessions> {
        match &*user {
            "repeats" => {
                let sessions = vec![r#"{"session":"repeats"}"#.into()];
                Ok(users::UserSessions { user, sessions, older: None })
            }
            _ => Err(none()),
        }
    }
    fn forget(user: String) -> Refused<users::UserForgotten> {
        match &*user {
            "repeats" => Ok(users::UserForgotten { user, sessions: u64::MAX, nodes: u64::MAX, remaining: 1 }),
            _ => Err(none()),
        }
    }
}

/// Of a history, or a transcript, that has no end: a record and its position. In `repeats` it is the same one again and
/// again; in `large LENGTH` one of that length.
fn one_of_many(session: &str, before: Option<u64>) -> Option<(String, u64)> {
    match session.split_once(' ') {
        None if session == "repeats" => Some(("1".into(), 5)),
        Some(("large", length)) => Some(("1".repeat(size(length)), before.unwrap_or(u64::MAX) - 1)),
        _ => None,
    }
}

fn none() -> sessions::SessionProblem {
    let (store_code, message) = (String::new(), "none".into());
    sessions::SessionProblem { code: sessions::SessionProblemCode::NotFound, store_code, message }
}
