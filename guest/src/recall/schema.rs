//! Names and limits of what recall stores.

use crate::contract::{LogEnd, Operation};

/// The log of passages.
pub(crate) const PASSAGES: &str = "passages";

/// The log of their terms.
pub(crate) const TERMS: &str = "terms";

/// The index of those that `terms` has no more.
pub(crate) const INDEX: &str = "recall";

/// What was read of the transcript: `{to} {again} …`, the position to go on from, then those to be read once more.
pub(crate) const RECALLED: &str = "recalled";

/// The same of each session whose passages lie with its user; of that map.
pub(crate) const COPY_STATES: &str = "posted";

/// How many are folded at a time, when there are twice as many.
pub(crate) const COMPACT_BATCH: u64 = 64;

/// More than ever wait to be folded, unless the task never runs.
const TAIL: u64 = 512;

const TAIL_BYTES: u64 = 1 << 20;

/// Positions that a question looks at, and bytes that they may take.
pub(crate) const NEWEST: u64 = 20_000;

pub(crate) const MATCH_BYTES: u64 = 1 << 20;

/// Passages that are kept at most.
pub(crate) const KEPT_PASSAGES_MAX: u64 = 100_000;

/// Positions of a run, which a call takes out of the index.
pub(crate) const RUN: u64 = 1024;

/// All that a store looks at.
pub(crate) const ALL_POSITIONS: u64 = 131_072;

/// The newest terms, which no index has yet.
pub(crate) const READ_TERMS_TAIL: Operation<'static> = Operation::read(TERMS, LogEnd::Newest, TAIL, TAIL_BYTES);

/// No terms, only where they stand.
pub(crate) const WHERE_TERMS_ARE: Operation<'static> = Operation::read(TERMS, LogEnd::Newest, 0, 0);

/// The oldest passage.
pub(crate) const READ_OLDEST_PASSAGE: Operation<'static> = Operation::read(PASSAGES, LogEnd::Oldest, 1, 64 << 10);

/// Of which sessions there are copies: of so many, that of others nothing is known.
pub(crate) const READ_COPY_STATES: Operation<'static> = Operation::get_all(COPY_STATES, 10_000, 1 << 20);
