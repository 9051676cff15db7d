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
        // What goes to the store is borrowed: a transaction copies no text on this side. An entry goes down and comes
        // up, so it is there twice.
        ownership: Borrowing { duplicate_if_necessary: true },
    });

    export!(Component with_types_in self);
    pub struct Component;
}

use std::cell::Cell;

use bindings::Component;
use bindings::exports::keepline::memory::{filter as lanes, maintenance, sessions as operator};
use bindings::wasi::logging::logging;

use crate::arena::Arena;
use crate::store::{Capabilities, FailureCode};
use crate::{
    AnswerEntry, Config, Effect, Filter, Problem, QuestionEntry, SessionProblem, SessionProblemCode as Code, Sessions,
};
use imports::Imports;

mod imports;

/// Room for all that a usual entry needs: as much as the ordinary allocator would begin with.
#[global_allocator]
static HEAP: Arena<{ 64 << 10 }> = Arena::new();

thread_local! {
    /// What an instance keeps between calls. None: the defaults.
    static CONFIG: Cell<Option<Config>> = const { Cell::new(None) };
    /// The lowest level that the host wants.
    static LOG_FROM: Cell<logging::Level> = const { Cell::new(logging::Level::Debug) };
    /// What the store can promise, once it was asked.
    static CAPABILITIES: Cell<Option<Capabilities>> = const { Cell::new(None) };
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
        let log_before = LOG_FROM.replace(log_from);
        match Config::parse_for(&Imports, &options) {
            Ok(config) => {
                CONFIG.set(Some(config));
                Ok(lanes::Configured {
                    effective: config.effective(),
                    wants_vectors: false,
                    wants_tokens: false,
                    wants_turns: false,
                })
            }
            Err(problem) => {
                LOG_FROM.set(log_before);
                Err(lanes::ConfigProblem { field: problem.field, message: problem.message })
            }
        }
    }

    fn question(entry: lanes::QuestionEntry) -> lanes::QuestionReply {
        let reply = filter().question(&QuestionEntry { text: &entry.text, metadata: &entry.metadata });
        lanes::QuestionReply {
            metadata: reply.metadata,
            turn: reply.turn,
            effect: reply.effect.into(),
            attached: reply.attached,
            due: Vec::new(),
            problem: reply.problem.map(Into::into),
        }
    }

    fn answer(entry: lanes::AnswerEntry) -> lanes::AnswerReply {
        let reply = filter().answer(&AnswerEntry {
            text: &entry.text,
            metadata: &entry.metadata,
            turn: &entry.turn,
            message_id: entry.message_id.as_deref(),
        });
        lanes::AnswerReply {
            metadata: reply.metadata,
            effect: reply.effect.into(),
            due: Vec::new(),
            problem: reply.problem.map(Into::into),
        }
    }
}

impl maintenance::Guest for Component {
    fn advance(job: maintenance::Job) -> maintenance::Progress {
        let message = format!("This component has no deferred work called {}", crate::names::repr(&job.task.name));
        let problem = lanes::Problem { code: FailureCode::Unsupported.as_str().to_owned(), message };
        maintenance::Progress {
            step: maintenance::Step::Failed,
            task: job.task,
            needs: Vec::new(),
            problem: Some(problem),
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
            Effect::Repeated => Self::Repeated,
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

    fn list_sessions(cursor: String, limit: u32) -> Reply<operator::SessionPage> {
        let page = sessions().list(&cursor, limit)?;
        Ok(operator::SessionPage { sessions: page.sessions, cursor: page.cursor })
    }

    fn delete(session: String) -> Reply<operator::SessionDeleted> {
        let deleted = sessions().delete(&session)?;
        Ok(operator::SessionDeleted { session, key_count: deleted.key_count, keys_cleared: deleted.keys_cleared })
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

    fn history(session: String, before: Option<u64>, limit: u32) -> Reply<operator::HistoryPage> {
        let page = sessions().history(&session, before, limit)?;
        Ok(operator::HistoryPage {
            session,
            entries: page.entries,
            first: page.first,
            oldest: page.oldest,
            next: page.next,
        })
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
                Code::CounterOverflow => To::CounterOverflow,
                Code::Limit => To::Limit,
                Code::TooManySessions => To::TooManySessions,
                Code::Conflict => To::Conflict,
                Code::Store => To::Store,
            },
            store_code: problem.store_code.to_owned(),
            message: problem.message,
        }
    }
}
