//! Who takes part: a pipe of the host; the same logic without a sandbox; the bare client with
//! hand-written scripts.

use std::{cell::RefCell, sync::Arc};

use anyhow::{Result, bail};
use futures::FutureExt;
use keepline::{
    Pipe,
    pipe::Effect,
    store::{self, Deadline, MemoryStore, Store, Transaction, Writer},
};
use keepline_filter::{self as filter, Config, Filter, store as logic};
use redis::aio::MultiplexedConnection;

use super::measure::Contender;

/// Sessions that a contender goes through in turn.
pub const SESSIONS: usize = 64;
/// Characters of an answer.
pub const ANSWER: usize = 400;

pub const QUESTION_TEXT: &str = "Where is my parcel, and when will it be here?";

pub fn answer_text() -> String {
    answer_of(ANSWER)
}

/// An answer of so many characters, each of one byte.
pub fn answer_of(characters: usize) -> String {
    "It is on its way. ".chars().cycle().take(characters).collect()
}

/// Metadata of each session in turn.
struct Turns {
    metadata: Vec<String>,
    next: usize,
}

impl Turns {
    fn new(name: &str, sessions: usize) -> Self {
        let metadata = |n| format!(r#"{{"session_id": "{name}-{n}", "user": "anna", "locale": "de-DE"}}"#);
        Self { metadata: (0..sessions).map(metadata).collect(), next: 0 }
    }

    fn next(&mut self) -> &str {
        self.next = (self.next + 1) % self.metadata.len();
        self.metadata.get(self.next).map_or("{}", String::as_str)
    }
}

/// A pipe of the host, sandbox and all.
pub struct Piped {
    pipe: Pipe,
    turns: Turns,
    answer: String,
}

impl Piped {
    pub fn new(pipe: Pipe, name: &str, sessions: usize) -> Self {
        Self { pipe, turns: Turns::new(name, sessions), answer: answer_text() }
    }
}

impl Contender for Piped {
    async fn question(&mut self) -> Result<()> {
        ask(&mut self.pipe, self.turns.next()).await
    }

    async fn answer(&mut self) -> Result<()> {
        answer(&mut self.pipe, &self.answer, "{}").await
    }
}

/// A question that must meet with its session.
pub async fn ask(pipe: &mut Pipe, metadata: &str) -> Result<()> {
    let passed = pipe.question(QUESTION_TEXT, metadata).await?;
    match passed.effect {
        Effect::Enriched | Effect::Resumed => Ok(()),
        effect => bail!("unexpected effect of a question, {effect:?}: {:?}", passed.problem),
    }
}

/// An answer that must be stored.
pub async fn answer(pipe: &mut Pipe, text: &str, metadata: &str) -> Result<()> {
    let passed = pipe.answer(text, metadata).await?;
    match passed.effect {
        Effect::Stored => Ok(()),
        effect => bail!("unexpected effect of an answer, {effect:?}: {:?}", passed.problem),
    }
}

/// The filter's logic compiled natively, on the same memory store.
pub struct Native {
    filter: Filter<NativeHost>,
    turns: Turns,
    answer: String,
    turn: String,
}

impl Native {
    pub fn new(store: Arc<MemoryStore>, name: &str) -> Result<Self> {
        let host = NativeHost { store, writer: RefCell::new(Writer::new()) };
        let config = Config::parse("{}").map_err(|problem| anyhow::anyhow!(problem.message))?;
        let filter = Filter::new(host, config);
        Ok(Self { filter, turns: Turns::new(name, SESSIONS), answer: answer_text(), turn: String::new() })
    }
}

impl Contender for Native {
    async fn question(&mut self) -> Result<()> {
        let reply = self.filter.question(QUESTION_TEXT, self.turns.next());
        self.turn = reply.turn;
        match reply.effect {
            filter::Effect::Enriched | filter::Effect::Resumed => Ok(()),
            effect => bail!("unexpected effect of a question: {effect:?}"),
        }
    }

    async fn answer(&mut self) -> Result<()> {
        match self.filter.answer(&self.answer, "{}", &self.turn).effect {
            filter::Effect::Stored => Ok(()),
            effect => bail!("unexpected effect of an answer: {effect:?}"),
        }
    }
}

/// Lends the memory store without a component in between.
struct NativeHost {
    store: Arc<MemoryStore>,
    writer: RefCell<Writer>,
}

impl logic::Host for NativeHost {
    fn transact(
        &self,
        bucket: &str,
        opening: logic::Opening<'_>,
        expectations: &[logic::Expectation<'_>],
        operations: &[logic::Operation<'_>],
    ) -> Result<logic::Receipt, logic::Failure> {
        let transaction = Transaction {
            bucket: bucket.to_owned(),
            opening: lower_opening(opening),
            expectations: expectations.iter().map(lower_expectation).collect(),
            operations: operations.iter().map(lower_operation).collect(),
        };
        let mut writer = self.writer.borrow_mut();
        // The memory store never waits.
        match self.store.transact(writer.advance(), &transaction, Deadline::NEVER).now_or_never() {
            Some(Ok(receipt)) => Ok(logic::Receipt {
                status: lift_status(receipt.status),
                created: receipt.created,
                incarnation: receipt.incarnation,
                outcomes: receipt.outcomes.into_iter().map(lift_outcome).collect(),
            }),
            Some(Err(failure)) => Err(unexpected(&failure.message)),
            None => Err(unexpected("the memory store waits")),
        }
    }

    fn list_buckets(&self, _: &str, _: u32) -> Result<logic::BucketPage, logic::Failure> {
        Err(unexpected("lanes do not list"))
    }

    fn delete_bucket(&self, _: &str) -> Result<logic::Deletion, logic::Failure> {
        Err(unexpected("lanes do not delete"))
    }

    fn describe_bucket(&self, _: &str) -> Result<logic::Description, logic::Failure> {
        Err(unexpected("lanes do not describe"))
    }

    fn now_micros(&self) -> u64 {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        u64::try_from(now.as_micros()).unwrap_or_default()
    }

    fn log(&self, _: logic::Level, _: &str, message: &str) {
        // As far as the component's messages get when nobody wants them.
        std::hint::black_box(message);
    }
}

fn unexpected(message: &str) -> logic::Failure {
    logic::Failure { code: logic::FailureCode::Other, subject: String::new(), limit: 0, message: message.to_owned() }
}

fn lower_opening(opening: logic::Opening<'_>) -> store::Opening {
    let life = |ttl: Option<logic::TimeToLive>| store::NewLife {
        time_to_live: ttl.map(|ttl| store::TimeToLive { milliseconds: ttl.milliseconds, sliding: ttl.sliding }),
    };
    match opening {
        logic::Opening::Existing { incarnation } => {
            store::Opening::Existing(store::ExistingLife { incarnation: incarnation.map(str::to_owned) })
        }
        logic::Opening::Create { time_to_live } => store::Opening::Create(life(time_to_live)),
        logic::Opening::CreateNew { time_to_live } => store::Opening::CreateNew(life(time_to_live)),
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn lower_expectation(expectation: &logic::Expectation<'_>) -> store::Expectation {
    match *expectation {
        logic::Expectation::Oldest { log, records } => {
            store::Expectation::Oldest(store::ExpectedOldest { log: log.into(), records: texts(records) })
        }
        logic::Expectation::Keys { keys } => store::Expectation::Keys(store::ExpectedKeys { keys: texts(keys) }),
        logic::Expectation::Room { limit } => store::Expectation::Room(store::ExpectedRoom { limit }),
    }
}

fn lower_operation(operation: &logic::Operation<'_>) -> store::Operation {
    use store::Operation as To;
    match *operation {
        logic::Operation::Get { key, max_bytes } => To::Get(store::GetOperation { key: key.into(), max_bytes }),
        logic::Operation::GetAll { max_bytes, max_keys } => To::GetAll(store::GetAllOperation { max_bytes, max_keys }),
        logic::Operation::ListKeys { max_keys } => To::ListKeys(store::ListKeysOperation { max_keys }),
        logic::Operation::Put { key, value } => To::Put(store::PutOperation { key: key.into(), value: value.into() }),
        logic::Operation::Increment { key, amount } => {
            To::Increment(store::IncrementOperation { key: key.into(), amount })
        }
        logic::Operation::Remove { key } => To::Remove(store::RemoveOperation { key: key.into() }),
        logic::Operation::RemoveAll { max_names } => To::RemoveAll(store::RemoveAllOperation { max_names }),
        logic::Operation::Append { log, records } => {
            To::Append(store::AppendOperation { log: log.into(), records: texts(records) })
        }
        logic::Operation::Read { log, end, skip, max_records, max_bytes } => To::Read(store::ReadOperation {
            log: log.into(),
            end: match end {
                logic::LogEnd::Oldest => store::LogEnd::Oldest,
                logic::LogEnd::Newest => store::LogEnd::Newest,
            },
            skip,
            max_records,
            max_bytes,
        }),
        logic::Operation::Overflow { log, limit, keep, max_records, max_bytes } => {
            To::Overflow(store::OverflowOperation { log: log.into(), limit, keep, max_records, max_bytes })
        }
        logic::Operation::ReplaceOldest { log, count, records } => {
            To::ReplaceOldest(store::ReplaceOldestOperation { log: log.into(), count, records: texts(records) })
        }
    }
}

fn lift_status(status: store::Status) -> logic::Status {
    match status {
        store::Status::Applied => logic::Status::Applied,
        store::Status::Repeated => logic::Status::Repeated,
        store::Status::Absent => logic::Status::Absent,
        store::Status::Expired => logic::Status::Expired,
        store::Status::Exists => logic::Status::Exists,
        store::Status::AnotherLife => logic::Status::AnotherLife,
        store::Status::Unmet => logic::Status::Unmet,
    }
}

fn lift_outcome(outcome: store::Outcome) -> logic::Outcome {
    match outcome {
        store::Outcome::Value(value) => logic::Outcome::Value { json: value.json, unreadable: value.unreadable },
        store::Outcome::Values(values) => {
            let entry = |entry: store::Entry| logic::Entry { key: entry.key, json: entry.json };
            let entries = values.entries.into_iter().map(entry).collect();
            logic::Outcome::Values(logic::AllValues { entries, unreadable: values.unreadable })
        }
        store::Outcome::Oversize(size) => logic::Outcome::Oversize { bytes: size.bytes, keys: size.keys },
        store::Outcome::Names(names) => logic::Outcome::Names { names: names.names, total: names.total },
        store::Outcome::Done(done) => logic::Outcome::Done { created: done.created },
        store::Outcome::Counter(counter) => logic::Outcome::Counter(counter.value),
        store::Outcome::Extent(extent) => logic::Outcome::Extent { first: extent.first, length: extent.length },
        store::Outcome::Records(records) => logic::Outcome::Records(logic::Records {
            first: records.first,
            length: records.length,
            records: records.records,
        }),
    }
}

/// The bare client with hand-written scripts.
pub struct Bare {
    connection: MultiplexedConnection,
    question: redis::Script,
    answer: redis::Script,
    sessions: Vec<BareSession>,
    next: usize,
    sequence: u64,
    text: String,
}

/// The addresses of a session.
pub struct BareSession {
    pub name: String,
    pub base: String,
}

impl BareSession {
    pub fn new(name: String) -> Self {
        Self { base: format!("{PREFIX}:{name}:"), name }
    }

    pub fn key(&self, key: &str) -> String {
        format!("{}{key}", self.base)
    }
}

pub const PREFIX: &str = "bare:memory";
/// A day, as the profile `redis` has it.
pub const TTL_MS: u64 = 86_400_000;
/// Far in the future: nothing here is late.
pub const DEADLINE: u64 = 4_000_000_000_000;
pub const QUESTION_SCRIPT: &str = include_str!("question.lua");
pub const ANSWER_SCRIPT: &str = include_str!("answer.lua");
pub const RECORD: &str = r#"{"op": "put", "key": "last_answer", "timestamp": 1795186917.032595}"#;

impl Bare {
    pub fn new(connection: MultiplexedConnection) -> Self {
        Self {
            connection,
            question: redis::Script::new(QUESTION_SCRIPT),
            answer: redis::Script::new(ANSWER_SCRIPT),
            sessions: (0..SESSIONS).map(|n| BareSession::new(format!("bare-{n}"))).collect(),
            next: 0,
            sequence: 0,
            text: format!("\"{}\"", answer_text()),
        }
    }

    pub async fn ping(&mut self) -> Result<()> {
        redis::cmd("PING").exec_async(&mut self.connection).await?;
        Ok(())
    }
}

impl Contender for Bare {
    async fn question(&mut self) -> Result<()> {
        self.next = (self.next + 1) % SESSIONS;
        self.sequence += 1;
        let Some(session) = self.sessions.get(self.next) else { bail!("no session") };
        let mut call = self.question.prepare_invoke();
        call.key(session.key("__meta__")).key(session.key("__keys__")).key(session.key("__writers__"));
        call.key(format!("{PREFIX}:__sessions__"));
        call.arg(&session.base).arg(&session.name).arg("0123456789abcdef").arg(self.sequence);
        call.arg(DEADLINE).arg(TTL_MS).arg(format!("{PREFIX}:"));
        let _: redis::Value = call.invoke_async(&mut self.connection).await?;
        Ok(())
    }

    async fn answer(&mut self) -> Result<()> {
        self.sequence += 1;
        let Some(session) = self.sessions.get(self.next) else { bail!("no session") };
        let mut call = self.answer.prepare_invoke();
        for key in ["__meta__", "__keys__", "__writers__", "__history__", "last_answer", "answer_count"] {
            call.key(session.key(key));
        }
        call.arg("").arg("0123456789abcdef").arg(self.sequence).arg(DEADLINE).arg(&self.text);
        call.arg(RECORD).arg(RECORD).arg(100).arg(50);
        let _: redis::Value = call.invoke_async(&mut self.connection).await?;
        Ok(())
    }
}
