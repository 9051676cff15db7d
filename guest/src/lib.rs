//! Keepline's filter: sessions, their memory and their history.
//!
//! Plain Rust that reaches nothing but a [`Host`]: a store of buckets, a clock and a log.
//! Compiled for `wasm32-unknown-unknown` it is a component (`wit/`, world `memory-filter`), and
//! `component` is the only module that knows so. Natively it is the same logic without the sandbox.
//!
//! ```no_run
//! # fn run(host: impl keepline_filter::store::Host) -> Result<(), keepline_filter::ConfigProblem> {
//! use keepline_filter::{AnswerEntry, Config, Filter, QuestionEntry};
//!
//! let filter = Filter::new(host, Config::parse(r#"{"session_ttl_hours": 24}"#)?);
//! let metadata = r#"{"session_id": "s1"}"#;
//! let question = filter.question(&QuestionEntry { text: "What did I ask?", metadata, ..QuestionEntry::default() });
//! let turn = &question.turn;
//! let answer = filter.answer(&AnswerEntry { text: "Nothing yet.", metadata: "{}", turn, ..AnswerEntry::default() });
//! # Ok(()) }
//! ```

mod answer;
#[cfg(any(test, target_arch = "wasm32"))]
mod arena;
#[cfg(target_arch = "wasm32")]
mod component;
pub mod config;
pub mod conversation;
pub mod filter;
pub mod history;
mod log;
mod message_id;
pub mod metadata;
pub mod names;
mod oversize;
mod reply;
mod session_id;
pub mod sessions;
pub mod store;
pub mod turn;

pub use config::{Config, ConfigProblem};
pub use filter::{AnswerEntry, AnswerReply, Effect, Filter, Problem, QuestionEntry, QuestionReply, Task, ToolActivity};
pub use sessions::{
    HistoryPage, SessionDeleted, SessionPage, SessionProblem, SessionProblemCode, SessionState, Sessions,
};
pub use store::Host;
