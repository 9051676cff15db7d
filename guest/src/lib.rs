//! Keepline's filter: sessions, their memory and their history.
//!
//! Plain Rust that reaches nothing but a [`Host`]: a store of buckets, a clock and a log.
//! Its types are those of the contract (`wit/`), generated. Compiled for `wasm32-unknown-unknown` it is a component of the
//! world `memory-filter`, and `component` is the only module that knows so. Natively it is the same logic without the
//! sandbox.
//!
//! ```no_run
//! # fn run(host: impl keepline_filter::Host) -> Result<(), keepline_filter::Problem> {
//! use keepline_filter::{AnswerEntry, Config, Filter, QuestionEntry};
//!
//! let filter = Filter::new(host, Config::parse(r#"{"session_ttl_hours": 24}"#)?);
//! let metadata = r#"{"session_id": "s1"}"#;
//! let question = filter.question(&QuestionEntry { text: "What did I ask?", metadata, ..QuestionEntry::default() });
//! let turn = &question.turn;
//! let answer = filter.answer(&AnswerEntry { text: "Nothing yet.", metadata: "{}", turn, ..AnswerEntry::default() });
//! # Ok(()) }
//! ```
//!
//! A module imports only from those above it (`tests/tests/repository/rooms.rs`):
//!
//! | module | holds |
//! |---|---|
//! | `contract` | the contract's types, and what the host lends: the store, the clock, the log |
//! | `log` | log lines and their contexts |
//! | `text` | ids, truncation, redaction, token estimates, timestamps |
//! | `store` | transactions whose receipts are checked against the contract |
//! | `options` | what can be configured |
//! | `context` | a host and options, which every function below works with |
//! | `entry` | questions and answers, what their metadata say, the token that a question hands to its answers |
//! | `transcript` | the records of a conversation: schema, threads, turns |
//! | `values` | a session's values, their history, and the ids of messages |
//! | `users` | whose a session is, and which of their sessions was used last |
//! | `window` | which turns a question gets, and in which form |
//! | `recall` | what the window no longer shows, and a question bears on |
//! | `tasks` | deferred work |
//! | `question`, `answer` | the two lanes of a conversation |
//! | `admin` | what operators and tools do |
//! | `filter` | which lane, or task, handles a call |
//! | `component` | the exports, imports and allocator of the compiled component alone |

// Methods of a type stand in one place: what they depend on is in its imports.
#![deny(clippy::multiple_inherent_impl, clippy::too_many_lines)]

pub mod admin;
mod answer;
#[cfg(any(test, target_arch = "wasm32"))]
pub mod component;
mod context;
pub mod contract;
pub mod entry;
mod filter;
mod log;
pub mod options;
mod question;
mod recall;
mod store;
pub mod tasks;
pub mod text;
pub mod transcript;
mod users;
pub mod values;
pub mod window;

pub use context::{Context, ExpectedValue};
pub use contract::{Host, Problem};
pub use entry::types::{AnswerEntry, AnswerReply, Effect, QuestionEntry, QuestionReply, Task, ToolActivity};
pub use filter::Filter;
pub use options::config::Config;
