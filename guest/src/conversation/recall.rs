//! Recall: what the window has lost comes back when a question bears on it.
//!
//! Promises that what is recalled was said in the thread that asks, is not in its window, and still stands in the
//! transcript: it is compared with that before it is attached. Reading costs one more wait; writing is done off the
//! entries' path. Refuses to recall anything as a system's message, and the same text twice.
//!
//! A transcript's messages are cut into passages ([`keepline_recall::cut`]). Of each the log `passages` has the text
//! and the log `terms` its terms, at the same position; the oldest of `terms` are folded into the index `recall`, some at
//! a time, which is far cheaper than one by one. So a question asks both: the index, and what is left of the log.
//! `session`/`recalled` tells how far the transcript was read, and which of its messages were put in other words since.
//!
//! | module | holds |
//! |---|---|
//! | `passage` | what is stored of a passage |
//! | `keep` | the deferred work: cut, append, fold, drop |
//! | `remove` | what corrections take out |
//! | `find` | what a question gets |
//! | `vectors` | embeddings of passages, if a host has a model for them |

pub(super) mod find;
pub(super) mod keep;
pub(super) mod passage;
pub(super) mod remove;
pub(super) mod vectors;

use crate::store::{LogEnd, Operation};

/// The log of passages.
const PASSAGES: &str = "passages";
/// The log of their terms.
const TERMS: &str = "terms";
/// The index of those that `terms` has no more.
const INDEX: &str = "recall";
/// What was read of the transcript: `{to} {again} …`, the position to go on from, then those to be read once more.
const RECALLED: &str = "recalled";

/// How many are folded at a time, when there are twice as many.
const FOLD: u64 = 64;
/// More than ever wait to be folded, unless nobody does it.
const TAIL: u64 = 512;
const TAIL_BYTES: u64 = 1 << 20;
/// Positions that a question looks at, and bytes that they may take.
const NEWEST: u64 = 20_000;
const MATCH_BYTES: u64 = 1 << 20;

/// The newest terms, which no index has yet.
const TAIL_READ: Operation<'static> =
    Operation::Read { log: TERMS, end: LogEnd::Newest, max_records: TAIL, max_bytes: TAIL_BYTES };
