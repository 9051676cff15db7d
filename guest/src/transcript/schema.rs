//! Names of what a conversation stores.
//!
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

use std::ops::Range;

use crate::contract::{Problem, codes};
use crate::text;
use crate::text::json_values::parse_count;
use crate::transcript::skip_counters::TRUNCATED;

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

/// Records that no thread leads to, of messages that are being set in pieces, or of calls that were interrupted: for each
/// stretch the position of the first, and that behind the last.
pub(crate) const IMPORT: &str = "import";

pub(crate) fn format_import(stretches: &[Range<u64>]) -> String {
    let numbers = stretches.iter().flat_map(|stretch| [stretch.start.to_string(), stretch.end.to_string()]);
    text::join(&numbers.collect::<Vec<_>>(), " ")
}

pub(crate) fn parse_import(text: &str) -> Vec<Range<u64>> {
    let numbers: Vec<u64> = text.split(' ').map_while(parse_count).collect();
    numbers.as_chunks::<2>().0.iter().map(|[begin, end]| *begin..*end).collect()
}

/// The newest position up to `end` that an import does not hide. Stretches may follow each other.
pub(crate) fn newest_shown(hidden: &[Range<u64>], end: Option<u64>) -> Option<u64> {
    hidden.iter().rev().fold(end, |end, hidden| match end {
        Some(end) if hidden.contains(&end) => hidden.start.checked_sub(1),
        end => end,
    })
}

/// What was said up to a position, in short.
pub(crate) const SUMMARY: &str = "summary";

/// What is set for it in place of the configuration.
pub(crate) const SETTINGS: &str = "settings";

/// Whether a transaction failed for what only conversations need.
pub(crate) fn is_conversation_failure(failure: &Problem) -> bool {
    let parts = [TRANSCRIPT, SESSION, MESSAGES, BRANCHES, RESULTS];
    let key = [HEAD, TOTAL, BYTES, TRUNCATED];
    match &*failure.code {
        codes::WRONG_TYPE => parts.contains(&&*failure.subject) || key.contains(&&*failure.subject),
        codes::NOT_A_COUNTER | codes::COUNTER_OVERFLOW => key.contains(&&*failure.subject),
        _ => false,
    }
}

/// Which state of the messages it is; none: they were never changed.
pub(crate) fn revision_number(revision: Option<&str>) -> u64 {
    revision.and_then(parse_count).unwrap_or(0)
}
