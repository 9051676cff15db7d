//! The component shell: WIT on one side, the filter on the other.
//!
//! Promises to convert and nothing else. Refuses to hold a rule: whoever wants to know what the filter
//! does need not read this file.

#[allow(unsafe_code, missing_docs, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../wit",
        world: "memory-filter",
        generate_all,
        // What goes to the store is borrowed: a transaction copies no text on this side.
        ownership: Borrowing { duplicate_if_necessary: false },
    });

    export!(Component with_types_in self);
    pub struct Component;
}

use std::cell::Cell;

use bindings::Component;
use bindings::exports::keepline::memory::{filter as lanes, sessions as operator};
use bindings::keepline::memory::key_value as wit;
use bindings::wasi::clocks::wall_clock;
use bindings::wasi::logging::logging;

use crate::store::{
    AllValues, BucketPage, Deletion, Description, Entry, Expectation, Failure, FailureCode, Host, Level,
    LogDescription, LogEnd, Opening, Operation, Outcome, Receipt, Records, Status, TimeToLive,
};
use crate::{Config, Effect, Filter, Problem, SessionProblem, SessionProblemCode as Code, Sessions};

thread_local! {
    /// All that an instance keeps between calls. None: the defaults.
    static CONFIG: Cell<Option<Config>> = const { Cell::new(None) };
    /// The lowest level that the host wants.
    static LOG_FROM: Cell<logging::Level> = const { Cell::new(logging::Level::Debug) };
}

fn config() -> Config {
    CONFIG.get().unwrap_or_default()
}

fn filter() -> Filter<Imports> {
    Filter::new(Imports, config())
}

fn sessions() -> Sessions<Imports> {
    Sessions::new(Imports, config())
}

impl lanes::Guest for Component {
    fn configure(options: String, log_from: logging::Level) -> Result<lanes::Configured, lanes::ConfigProblem> {
        match Config::parse(&options) {
            Ok(config) => {
                CONFIG.set(Some(config));
                LOG_FROM.set(log_from);
                Ok(lanes::Configured { effective: config.effective() })
            }
            Err(problem) => Err(lanes::ConfigProblem { field: problem.field, message: problem.message }),
        }
    }

    fn question(text: String, metadata: String) -> lanes::QuestionReply {
        let reply = filter().question(&text, &metadata);
        lanes::QuestionReply {
            metadata: reply.metadata,
            turn: reply.turn,
            effect: reply.effect.into(),
            attached: reply.attached,
            problem: reply.problem.map(Into::into),
        }
    }

    fn answer(text: String, metadata: String, turn: String) -> lanes::AnswerReply {
        let reply = filter().answer(&text, &metadata, &turn);
        lanes::AnswerReply {
            metadata: reply.metadata,
            effect: reply.effect.into(),
            problem: reply.problem.map(Into::into),
        }
    }
}

impl From<Effect> for lanes::Effect {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Passed => Self::Passed,
            Effect::Ignored => Self::Ignored,
            Effect::Resumed => Self::Resumed,
            Effect::Enriched => Self::Enriched,
            Effect::Stored => Self::Stored,
            Effect::Limited => Self::Limited,
            Effect::Ended => Self::Ended,
            Effect::Failed => Self::Failed,
        }
    }
}

impl From<Problem> for lanes::Problem {
    fn from(problem: Problem) -> Self {
        Self { code: problem.code.to_owned(), message: problem.message }
    }
}

type Reply<T> = Result<T, operator::SessionProblem>;

impl operator::Guest for Component {
    fn create(session: String) -> Reply<operator::SessionCreated> {
        let incarnation = sessions().create(&session)?;
        Ok(operator::SessionCreated { session, incarnation })
    }

    fn resume(session: String) -> Reply<operator::SessionState> {
        let state = sessions().resume(&session)?;
        Ok(operator::SessionState {
            session,
            incarnation: state.incarnation,
            key_count: state.key_count,
            history_length: state.history_length,
            expires_in: state.expires_in,
        })
    }

    fn list(cursor: String, limit: u32) -> Reply<operator::SessionPage> {
        let page = sessions().list(&cursor, limit)?;
        Ok(operator::SessionPage { sessions: page.sessions, cursor: page.cursor })
    }

    fn delete(session: String) -> Reply<operator::SessionDeleted> {
        let keys_cleared = sessions().delete(&session)?;
        Ok(operator::SessionDeleted { session, keys_cleared })
    }

    fn put(session: String, key: String, value: String) -> Reply<operator::ValueStored> {
        sessions().put(&session, &key, &value)?;
        Ok(operator::ValueStored { session, key })
    }

    fn get(session: String, key: String) -> Reply<operator::ValueFound> {
        let value = sessions().get(&session, &key)?;
        Ok(operator::ValueFound { session, key, value })
    }

    fn keys(session: String) -> Reply<operator::KeyList> {
        let keys = sessions().keys(&session)?;
        Ok(operator::KeyList { session, keys })
    }

    fn clear(session: String, key: Option<String>) -> Reply<operator::KeysCleared> {
        let cleared = sessions().clear(&session, key.as_deref())?;
        Ok(operator::KeysCleared { session, cleared })
    }

    fn increment(session: String, key: String, amount: i64) -> Reply<operator::KeyCounted> {
        let value = sessions().increment(&session, &key, amount)?;
        Ok(operator::KeyCounted { session, key, value })
    }

    fn history(session: String, limit: u32) -> Reply<operator::HistoryPage> {
        let entries = sessions().history(&session, limit)?;
        Ok(operator::HistoryPage { session, entries })
    }
}

impl From<SessionProblem> for operator::SessionProblem {
    fn from(problem: SessionProblem) -> Self {
        use operator::SessionProblemCode as To;
        Self {
            code: match problem.code {
                Code::InvalidSession => To::InvalidSession,
                Code::InvalidKey => To::InvalidKey,
                Code::InvalidValue => To::InvalidValue,
                Code::NotFound => To::NotFound,
                Code::Expired => To::Expired,
                Code::AlreadyExists => To::AlreadyExists,
                Code::NotACounter => To::NotACounter,
                Code::Limit => To::Limit,
                Code::TooManySessions => To::TooManySessions,
                Code::Store => To::Store,
            },
            message: problem.message,
        }
    }
}

/// What the host lends.
#[derive(Clone, Copy)]
struct Imports;

impl Host for Imports {
    fn transact(
        &self,
        bucket: &str,
        opening: Opening<'_>,
        expectations: &[Expectation<'_>],
        operations: &[Operation<'_>],
    ) -> Result<Receipt, Failure> {
        let opening = match opening {
            Opening::Existing { incarnation } => wit::Opening::Existing(wit::ExistingLife { incarnation }),
            Opening::Create { time_to_live } => wit::Opening::Create(new_life(time_to_live)),
            Opening::CreateNew { time_to_live } => wit::Opening::CreateNew(new_life(time_to_live)),
        };
        let expectations: Vec<_> = expectations.iter().map(lower_expectation).collect();
        let operations: Vec<_> = operations.iter().map(lower_operation).collect();
        let receipt = wit::transact(bucket, opening, &expectations, &operations)?;
        Ok(Receipt {
            status: receipt.status.into(),
            created: receipt.created,
            incarnation: receipt.incarnation,
            outcomes: receipt.outcomes.into_iter().map(Into::into).collect(),
        })
    }

    fn list_buckets(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure> {
        let page = wit::list_buckets(cursor, limit)?;
        Ok(BucketPage { buckets: page.buckets, cursor: page.cursor })
    }

    fn delete_bucket(&self, bucket: &str) -> Result<Deletion, Failure> {
        let deletion = wit::delete_bucket(bucket)?;
        Ok(Deletion { status: deletion.status.into(), keys: deletion.keys })
    }

    fn describe_bucket(&self, bucket: &str) -> Result<Description, Failure> {
        let found = wit::describe_bucket(bucket)?;
        let logs = found.logs.into_iter().map(|log| LogDescription { log: log.log, length: log.length });
        Ok(Description {
            status: found.status.into(),
            incarnation: found.incarnation,
            time_to_live: found
                .time_to_live
                .map(|life| TimeToLive { milliseconds: life.milliseconds, sliding: life.sliding }),
            expires_in: found.expires_in,
            keys: found.keys,
            logs: logs.collect(),
        })
    }

    fn now_micros(&self) -> u64 {
        let now = wall_clock::now();
        now.seconds.saturating_mul(1_000_000).saturating_add(u64::from(now.nanoseconds / 1000))
    }

    fn log(&self, level: Level, context: &str, message: &str) {
        logging::log(level.into(), context, message);
    }

    fn logs(&self, level: Level) -> bool {
        logging::Level::from(level) as u8 >= LOG_FROM.get() as u8
    }
}

impl From<Level> for logging::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Warn => Self::Warn,
        }
    }
}

fn new_life(time_to_live: Option<TimeToLive>) -> wit::NewLife {
    wit::NewLife {
        time_to_live: time_to_live
            .map(|life| wit::TimeToLive { milliseconds: life.milliseconds, sliding: life.sliding }),
    }
}

fn lower_expectation<'a>(expectation: &Expectation<'a>) -> wit::Expectation<'a> {
    match *expectation {
        Expectation::Oldest { log, records } => wit::Expectation::Oldest(wit::ExpectedOldest { log, records }),
        Expectation::Keys { keys } => wit::Expectation::Keys(wit::ExpectedKeys { keys }),
        Expectation::Room { limit } => wit::Expectation::Room(wit::ExpectedRoom { limit }),
    }
}

fn lower_operation<'a>(operation: &Operation<'a>) -> wit::Operation<'a> {
    match *operation {
        Operation::Get { key, max_bytes } => wit::Operation::Get(wit::GetOperation { key, max_bytes }),
        Operation::GetAll { max_bytes, max_keys } => {
            wit::Operation::GetAll(wit::GetAllOperation { max_bytes, max_keys })
        }
        Operation::ListKeys { max_keys } => wit::Operation::ListKeys(wit::ListKeysOperation { max_keys }),
        Operation::Put { key, value } => wit::Operation::Put(wit::PutOperation { key, value }),
        Operation::Increment { key, amount } => wit::Operation::Increment(wit::IncrementOperation { key, amount }),
        Operation::Remove { key } => wit::Operation::Remove(wit::RemoveOperation { key }),
        Operation::RemoveAll { max_names } => wit::Operation::RemoveAll(wit::RemoveAllOperation { max_names }),
        Operation::Append { log, records } => wit::Operation::Append(wit::AppendOperation { log, records }),
        Operation::Read { log, end, skip, max_records, max_bytes } => wit::Operation::Read(wit::ReadOperation {
            log,
            end: match end {
                LogEnd::Oldest => wit::LogEnd::Oldest,
                LogEnd::Newest => wit::LogEnd::Newest,
            },
            skip,
            max_records,
            max_bytes,
        }),
        Operation::Overflow { log, limit, keep, max_records, max_bytes } => {
            wit::Operation::Overflow(wit::OverflowOperation { log, limit, keep, max_records, max_bytes })
        }
        Operation::ReplaceOldest { log, count, records } => {
            wit::Operation::ReplaceOldest(wit::ReplaceOldestOperation { log, count, records })
        }
    }
}

impl From<wit::Outcome> for Outcome {
    fn from(outcome: wit::Outcome) -> Self {
        match outcome {
            wit::Outcome::Value(found) => Self::Value { json: found.json, unreadable: found.unreadable },
            wit::Outcome::Values(all) => {
                let entries = all.entries.into_iter().map(|entry| Entry { key: entry.key, json: entry.json });
                Self::Values(AllValues { entries: entries.collect(), unreadable: all.unreadable })
            }
            wit::Outcome::Oversize(size) => Self::Oversize { bytes: size.bytes, keys: size.keys },
            wit::Outcome::Names(keys) => Self::Names { names: keys.names, total: keys.total },
            wit::Outcome::Done(done) => Self::Done { created: done.created },
            wit::Outcome::Counter(counter) => Self::Counter(counter.value),
            wit::Outcome::Extent(extent) => Self::Extent { first: extent.first, length: extent.length },
            wit::Outcome::Records(found) => {
                Self::Records(Records { first: found.first, length: found.length, records: found.records })
            }
        }
    }
}

impl From<wit::Status> for Status {
    fn from(status: wit::Status) -> Self {
        match status {
            wit::Status::Applied => Self::Applied,
            wit::Status::Repeated => Self::Repeated,
            wit::Status::Absent => Self::Absent,
            wit::Status::Expired => Self::Expired,
            wit::Status::Exists => Self::Exists,
            wit::Status::AnotherLife => Self::AnotherLife,
            wit::Status::Unmet => Self::Unmet,
        }
    }
}

impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        Self {
            code: match failure.code {
                wit::FailureCode::Invalid => FailureCode::Invalid,
                wit::FailureCode::WrongType => FailureCode::WrongType,
                wit::FailureCode::NotACounter => FailureCode::NotACounter,
                wit::FailureCode::CounterOverflow => FailureCode::CounterOverflow,
                wit::FailureCode::TooManyBuckets => FailureCode::TooManyBuckets,
                wit::FailureCode::Full => FailureCode::Full,
                wit::FailureCode::ReadOnly => FailureCode::ReadOnly,
                wit::FailureCode::Denied => FailureCode::Denied,
                wit::FailureCode::Unavailable => FailureCode::Unavailable,
                wit::FailureCode::TimedOut => FailureCode::TimedOut,
                wit::FailureCode::Other => FailureCode::Other,
            },
            subject: failure.subject,
            limit: failure.limit,
            message: failure.message,
        }
    }
}
