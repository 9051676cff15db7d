//! Recall: attaches what the window no longer shows and the question bears on.
//!
//! Promises that what is recalled was said in the thread that asks, is not in its window, and still stands in the transcript.
//! Reading costs one more wait; indexing is deferred work. Nothing recalled is given the system's role, and no text comes twice.
//!
//! The messages of a transcript are cut into passages ([`keepline_recall::cut`]). The log `passages` has their text, and the log
//! `terms` their terms, at the same positions; the oldest terms are moved into the index `recall` in batches, which is far cheaper
//! than one by one. A question searches both: the index, and the rest of the log.
//!
//! Passages lie beside the transcript, where `session`/`recalled` is the cursor of the indexing. With `recall: "user"` they lie in
//! the user's bucket, as copies of all their sessions, and the map `posted` has the cursor of each session.

pub(crate) mod copies;
pub(crate) mod cursor;
pub(crate) mod invalidate;
pub(crate) mod matches;
pub(crate) mod passage;
pub(crate) mod remove;
pub(crate) mod render;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod session_filter;
pub(crate) mod vectors;
