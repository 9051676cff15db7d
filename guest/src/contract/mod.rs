//! The contract of `wit/` in Rust: the types of the store, the lanes and the administration, generated, and the [`Host`]
//! that lends the filter a store, a clock and a log.
//!
//! The types are the component's own, natively as well: nothing is converted on the way to a store or a caller.

#[allow(
    unsafe_code,
    unused_imports,
    unused_macros,
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    rustdoc::all,
    reason = "generated"
)]
pub mod bindings;
mod problem;
mod receipt;
mod transaction;

pub use bindings::exports::keepline::admin::{sessions, transcripts, users};
pub use bindings::exports::keepline::memory::{lanes, tasks};
pub use bindings::keepline::common::shared::{Member, Problem};
pub use bindings::keepline::host::log::Level;
pub use bindings::keepline::host::needs;
pub use bindings::keepline::memory::key_value::{
    BucketId, BucketKind, BucketPage, CounterValue, Deletion, Description, EntryCount, EntryPage,
    EntryParam as PutEntry, EntryResult as Entry, EntryState, Expectation, ExpectedEntry, Failure, FailureCode,
    FoundEntries, FoundMatches, IncrementOperation, IndexExtent, LeaseState, LogEnd, LogExtent, LogRecords, LogSpans,
    Operation, Outcome, PositionMark, PositionedRecord, Posting, Precondition, Receipt, Size, Span, SpanRecords,
    Status, StoreCapabilities, TermMatches, TimeToLive, Transaction,
};
pub use problem::codes;

/// The map of the values that people see.
pub const VALUES: &str = "values";

/// All that the filter can reach.
pub trait Host {
    /// Apply operations to one bucket, all or none.
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Failure>;

    /// Apply transactions, each on a bucket of its own, and wait once; one reply for each, in order.
    fn transact_each(&self, transactions: &[Transaction<'_>]) -> Vec<Result<Receipt, Failure>>;

    /// Names of the sessions, page by page.
    fn list_sessions(&self, cursor: &str, limit: u32) -> Result<BucketPage, Failure>;

    /// Delete a bucket (that generation, if one is named) and all that is in it, and name up to `max_keys` of its
    /// values.
    fn delete(&self, bucket: BucketId<'_>, generation: Option<&str>, max_keys: u32) -> Result<Deletion, Failure>;

    /// What the store can promise.
    fn capabilities(&self) -> StoreCapabilities;

    /// Microseconds since 1970.
    fn now_micros(&self) -> u64;

    /// Emit one line.
    fn log(&self, level: Level, context: &str, message: &str);

    /// Whether a line of that level is worth being written. A host that knows its level saves the
    /// making of lines that nobody reads.
    fn logs(&self, level: Level) -> bool {
        let _ = level;
        true
    }
}
