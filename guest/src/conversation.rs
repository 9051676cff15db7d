//! Conversations: what was said, by whom and in which thread, and how much of it a question gets.
//!
//! Promises that a step of a turn is written once and whole, in the transaction that stores the answer; that what a
//! question gets is made of whole turns, within its budget, and the same whichever process asks; and that reading costs
//! the same however long the conversation is. Refuses to give what is recalled the system's role, and to overwrite
//! what it can't read.
//!
//! Nothing of this is used with `conversation: false`, the default.
//!
//! | module | holds |
//! |---|---|
//! | `options` | what can be configured |
//! | `record`, `text` | the transcript's records |
//! | `intake`, `redact` | what of a text is stored |
//! | `omissions` | how much was left out |
//! | `step` | the records of one answer |
//! | `commit`, `write`, `locate` | the answers' lane: where they go, and their transaction |
//! | `thread` | which records lead to a message |
//! | `turns`, `window` | which of them a question gets |
//! | `render` | in which form |
//! | `ask`, `look` | the questions' lane |
//! | `owner`, `activity` | users, and which of their sessions was used last |
//! | `desk`, `messages`, `lines`, `rewrite`, `replace`, `placed`, `register`, `profile`, `forget` | what operators and tools do |
//! | `upkeep`, `summary`, `title`, `retention` | what is done off an entry's path |
//! | `recall` | what the window has lost, and a question bears on |
//! | `settings` | what is set for one session in place of the options |
//! | `scope`, `state` | what an entry says of itself; what a question tells its answers |
//!
//! # Options
//! | option | type, range | default |
//! |---|---|---|
//! | `conversation` | boolean: whether the conversation is kept; the options below have no effect otherwise | false |
//! | `max_context_tokens` | 0 or integer, 64 to 2000000: the window and its summary | 0: derived |
//! | `context_window` | 0 or integer, 256 to 8000000: the model's; four fifths of what it leaves beside `reserve_tokens` are the budget, 50000 without it | 0 |
//! | `reserve_tokens` | 0 or integer, 1 to 8000000 | 0: 35 % of `context_window`, at most 64000 |
//! | `max_window_bytes` | integer, 1024 to 8388608: window, summary and trace as JSON; of a longer one older turns are left out, or all of it | 8388608 |
//! | `message_limit` | integer, 1 to 500: messages of users and assistants in a window | 500 |
//! | `window_keep` | integer, 10 to 90: percent that stay when a full window is cut back | 50 |
//! | `pin_first_turn` | boolean | false |
//! | `tool_result_tokens` | integer, 0 to 2000000: older results become placeholders when a window is cut back | 40000 |
//! | `window_form` | `"messages"`, `"text"` | `"messages"` |
//! | `human_prefix`, `assistant_prefix` | text of at most 64 bytes | `"Human"`, `"Assistant"` |
//! | `query_prompt_template` | text with `{{history}}` and `{{query}}`, each once at most | empty: the history alone |
//! | `memory_trace` | boolean | false |
//! | `min_message_length` | integer, 0 to 8388608: characters; shorter answers are `skipped` | 1 |
//! | `max_message_length` | integer, 0 to 8388608: characters; longer texts are cut and end with a note of it, and in any case those of more than 1 MiB in JSON; 0: only those | 400000 |
//! | `strip_thinking` | boolean: `<think>…</think>` is not stored | false |
//! | `skip_markers` | list of texts: answers that are `skipped` | `["[generation was interrupted]"]` |
//! | `redact` | list of patterns, replaced in what is stored: text and classes `{d}` digit, `{h}` hexadecimal, `{w}` letter, digit or `_`, `{t}` also `-.~+/=`, `{n}` no blank; `{d4}`, `{d4+}`, `{d+}`; `\{` for a brace | `[]` |
//! | `require_node` | boolean: node mode without a `node_id` is `failed`, not `passed` | false |
//! | `node_ttl_hours` | number, 0 (for ever) to 876000, from the last use | 720 |
//! | `max_session_messages` | 0 or integer, from 10: records; over it, the task `retention` | 0: any number |
//! | `max_session_bytes` | 0 or integer, from 1024 | 0: any number |
//! | `summaries` | boolean: over the budget, the task `summary` | true |
//! | `summary_max_tokens` | integer, 32 to 32768; never more than a quarter of the budget | 1024 |
//! | `summary_prompt`, `title_prompt` | text of at most 16 KiB | empty: the filter's own |
//! | `auto_generate_titles` | boolean: after the first turn, the task `title` | true |
//! | `title_max_length` | integer, 10 to 200: characters | 50 |
//! | `title_from_first_message` | boolean: the first message is the title until there is a better one | true |
//! | `update_existing_titles` | boolean: with each summary, the task `title` | false |
//! | `memory_mode` | `"conversation"`, `"node"` | `"conversation"` |
//! | `recall` | `"off"`, `"session"`, `"user"`: what the window shows no more, or what any session of the user has said, is attached where the question bears on it; needs a store with indexes. After each answer, the task `recall` | `"off"` |
//! | `recall_tokens` | integer, 64 to 32768: of what is recalled, beside the window | 2000 |
//! | `recall_hints` | boolean: speakers, dates and times that the question names count for more than words | true |
//! | `recall_vectors` | boolean: whether passages get embeddings, by the task `vectors`, and questions come with one | false |
//! | `recall_ttl_hours` | number, 0 (for ever) to 876000, from when it was said | 0 |
//! | `recall_life` | `"user"`, `"session"`: copies of a session's messages outlive its expiry, or end with it | `"user"` |
//! | `recall_exclude` | list of `"tool"`, `"import"`: what comes from there is not recalled | `[]` |
//!
//! # Metadata
//! Read: `memory` is for this entry, `{"read": bool, "write": bool, "summarize": bool, "look": bool, "recall": bool,
//! "neighbors": bool, "asked", "max_context_tokens", "context_window", "reserve_tokens": integer, "model": text}`; `asked` is the position of
//! the message that the question is, if it is asked once more, and recall leaves that out; with `look` a question writes
//! nothing: no session is created (it is `failed` if there is none), no use of one counted, and `memory_trace` comes along;
//! `files` are references to files of the message, an array. For the others see `wit/filter.wit`.
//!
//! Attached to questions: `memory_messages`, the window, as chat messages (`role` `user`, `assistant` or `tool`, and
//! `system` or `developer` of instructions that an operator has set; `content`; `tool_calls`, `tool_call_id`), or as one text. `memory_summary`, a message of the user's role, to
//! come before them. `memory_recall`, an object: `text`, to stand directly before the question as a user's message, and
//! `passages`, in order of time, each with `session`, `position`, `at`, `role`, `source`, `trust`, `text`, `score` (a share
//! of the best one's) and `why` (`terms`, `speaker`, `date`, `time`). `memory_model`, the model that is set for the session
//! or the entry. `memory_trace`: which turns were kept, cut and left out and why, tokens against the budget; how many answers
//! were `skipped` by reason (`blank`, `marker`, `too-short`), and how many texts `truncated`, if any.
//!
//! # What is stored
//! Of a session, instead of log `answers` and its map `messages`: log `transcript`, records of schema 1 (`{"v": 1, "turn",
//! "role", "content", "at", "weight", …}`; others are left alone); maps `session` (`id`, what the session's name is a hash of, if it is one; `owner`; `head`, the key of the newest
//! message; `total`, the weight of its thread; `bytes`; `summary`, `{"text", "to", "total"}`; `settings`,
//! `{"max_context_tokens", "context_window", "reserve_tokens", "model"}`, each where it is set; `title`; `title_of`, what
//! that was made of; `untitled`, until
//! deferred work has settled the title; `revision`; `skipped-…` for each reason, and `truncated`, where there were any: how
//! many answers were skipped, and how many texts cut; `recalled` and `embedded`, how far recall has read and has had
//! embedded; for the rest see `recall`),
//! `messages` (key of a message id → position), `branches` (position where one begins → `{"after", "total"}`), `results`
//! (whole tool results), `nodes` (name → `{"app_id", "node_id"}`). A weight is tokens by the estimate `bytes-1`:
//! ⌈⌈bytes / 4⌉ · 5 / 4⌉, and 4 for each message. Of a user: maps `values`, `sessions` (name → `{"incarnation", "at"}`),
//! `nodes` (name → session), `user` (`forgotten`, `erased`); log `activity` (`{"session", "at"}`).

pub mod activity;
pub(crate) mod ask;
mod attach;
mod chat_form;
pub(crate) mod commit;
mod cuts;
pub mod desk;
mod forget;
pub(crate) mod intake;
pub mod lines;
mod locate;
mod look;
pub mod messages;
mod omissions;
pub mod options;
mod owner;
mod parts;
mod placed;
pub mod profile;
pub(crate) mod recall;
pub mod record;
pub(crate) mod redact;
mod register;
pub(crate) mod render;
mod replace;
mod retention;
mod rewrite;
pub(crate) mod scope;
pub mod settings;
pub(crate) mod state;
pub(crate) mod step;
mod summary;
mod take_in;
mod text;
pub(crate) mod thread;
mod title;
pub mod tokens;
mod trace;
pub mod turns;
pub mod upkeep;
pub mod window;
mod write;

pub use options::Options;

/// The log of records.
pub(crate) const TRANSCRIPT: &str = "transcript";
/// The map of what there is once: [`OWNER`], [`HEAD`], [`TOTAL`], ….
pub(crate) const SESSION: &str = "session";
/// The map from a message's id to its position.
pub(crate) const MESSAGES: &str = "messages";
/// The map from the position where a branch begins to where it comes from.
pub(crate) const BRANCHES: &str = "branches";
/// The map of whole tool results.
pub(crate) const RESULTS: &str = "results";

/// The user that a session belongs to: the name of their bucket.
pub(crate) const OWNER: &str = "owner";
/// The id of the newest message.
pub(crate) const HEAD: &str = "head";
/// The weight of the newest message's thread.
pub(crate) const TOTAL: &str = "total";
/// Its title.
pub(crate) const TITLE: &str = "title";
/// What that was made of: the key of a message, a blank and the title; without a key, it was given. Absent, or with another
/// title: not known.
pub(crate) const TITLE_OF: &str = "title_of";
/// Whether a title is still to come: `1` until a model has refined the first one, `0` once none will come. Absent: as soon
/// as there is a question, if there is no title.
pub(crate) const UNTITLED: &str = "untitled";
/// Changes with each rewriting of messages.
pub(crate) const REVISION: &str = "revision";
/// The bytes of its records.
pub(crate) const BYTES: &str = "bytes";
/// What was said up to a position, in short.
pub(crate) const SUMMARY: &str = "summary";
/// What is set for it in place of the configuration.
pub(crate) const SETTINGS: &str = "settings";
