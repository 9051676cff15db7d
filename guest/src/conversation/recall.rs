//! Recall: what the window has lost comes back when a question bears on it.
//!
//! Promises that what is recalled was said in the thread that asks, is not in its window, and still stands in the
//! transcript: it is compared with that before it is attached. Reading costs one more wait; writing is done off the
//! entries' path. Refuses to recall anything as a system's message, and the same text twice.
//!
//! A transcript's messages are cut into passages ([`keepline_recall::cut`]). Of each the log `passages` has the text
//! and the log `terms` its terms, at the same position; the oldest of `terms` are folded into the index `recall`, some at
//! a time, which is far cheaper than one by one. So a question asks both: the index, and what is left of the log.
//!
//! They lie beside the transcript, where `session`/`recalled` tells how far it was read and which of its messages were put
//! in other words since; or, with `recall: "user"`, all of a user's sessions lie together in the user's bucket, as copies,
//! where the map `posted` tells it of each session.
//!
//! | module | holds |
//! |---|---|
//! | `options` | what can be set |
//! | `passage` | what is stored of a passage |
//! | `reading` | how far a transcript was read, and what is next |
//! | `keep` | the deferred work: cut, append, fold, drop |
//! | `post`, `posted` | the same with the user, in step with the session |
//! | `remove` | how passages are found that have to go |
//! | `correct` | what corrections take out |
//! | `find` | what a question gets |
//! | `vectors` | embeddings of passages, if a host has a model for them |
//! | `within` | one of a user's sessions alone |

pub(super) mod correct;
pub(super) mod find;
pub(super) mod keep;
pub mod options;
pub(super) mod passage;
pub(super) mod post;
mod posted;
mod reading;
pub(super) mod remove;
mod render;
pub(super) mod vectors;
pub(super) mod within;

use crate::store::{LogEnd, Operation};

/// The log of passages.
const PASSAGES: &str = "passages";
/// The log of their terms.
const TERMS: &str = "terms";
/// The index of those that `terms` has no more.
const INDEX: &str = "recall";
/// What was read of the transcript: `{to} {again} …`, the position to go on from, then those to be read once more.
const RECALLED: &str = "recalled";

/// The same of each session whose passages lie with its user; of that map.
const POSTED: &str = "posted";

/// How many are folded at a time, when there are twice as many.
const FOLD: u64 = 64;
/// More than ever wait to be folded, unless nobody does it.
const TAIL: u64 = 512;
const TAIL_BYTES: u64 = 1 << 20;
/// Positions that a question looks at, and bytes that they may take.
const NEWEST: u64 = 20_000;
const MATCH_BYTES: u64 = 1 << 20;

/// Passages that are kept at most.
const KEPT: u64 = 100_000;
/// Positions that one call takes out of the index: so many runs, of so many positions each.
const RUNS: u64 = 32;
const RUN: u64 = 1024;
/// All that a store looks at.
const ALL: u64 = 131_072;

/// The newest terms, which no index has yet.
const TAIL_READ: Operation<'static> =
    Operation::Read { log: TERMS, end: LogEnd::Newest, max_records: TAIL, max_bytes: TAIL_BYTES };
/// No terms, only where they stand.
const WHERE_TERMS_ARE: Operation<'static> =
    Operation::Read { log: TERMS, end: LogEnd::Newest, max_records: 0, max_bytes: 0 };
/// The oldest passage.
const OLDEST: Operation<'static> =
    Operation::Read { log: PASSAGES, end: LogEnd::Oldest, max_records: 1, max_bytes: 64 << 10 };
/// Of which sessions there are copies: of so many, that of others nothing is known.
const ALL_POSTED: Operation<'static> = Operation::GetAll { map: POSTED, max_entries: 10_000, max_bytes: 1 << 20 };
