//! What Keepline's components share: the store's contract as generated types, the [`Host`] that lends a store, a clock and a
//! log, and transactions whose receipts are [`checked`] against the contract.
//!
//! The types are the component's own, natively as well: nothing is converted on the way to a store or a caller. `component`
//! has what only a compiled component needs: the imports as a [`Host`], and an allocator.

#[allow(unsafe_code, unused, missing_docs, clippy::all, clippy::restriction, rustdoc::all, reason = "generated")]
pub mod bindings;
pub mod checked;
#[cfg(any(test, target_arch = "wasm32"))]
pub mod component;
mod problem;
mod profile;
mod receipt;
mod transaction;

pub use bindings::keepline::common::shared::{Member, Problem};
pub use bindings::keepline::host::log::Level;
pub use bindings::keepline::host::needs;
pub use bindings::keepline::store::indexes::{
    Document, FoundDocuments, IndexExtent, IndexStep, IndexedReceipt, IndexedTransaction, MarkRun, TermHits,
};
pub use bindings::keepline::store::listing::BucketPage;
pub use bindings::keepline::store::types::{
    AddOperation, BucketId, BucketPart, ChangedEntries, CounterValue, DeleteRequest, Deletion, Description,
    EntryParam as PutEntry, EntryResult as Entry, EntryState, Expectation, ExpectedEntry, FoundEntries, LeaseRequest,
    LeaseState, LogExtent, LogRecords, MissingEntries, Operation, Outcome, PositionMark, PositionedRecord,
    Precondition, Receipt, RecordRun, SetOperation, Size, Span, Status, StoreInfo, StoreLimit, TimeToLive, Transaction,
};
pub use problem::codes;
pub use profile::{StoreLimits, StoreProfile};
pub use receipt::{LogRun, ReadEntries};
pub use transaction::LogEnd;

/// The map of the values that people see.
pub const VALUES: &str = "values";

/// The kinds of buckets that components use.
pub mod kind {
    /// Values, history, and transcript of a session.
    pub const SESSION: &str = "session";
    /// Values, session list, and passages of a user.
    pub const USER: &str = "user";
    /// The transcript of a pipeline's node.
    pub const NODE: &str = "node";
    /// Definitions of pipelines and rules.
    pub const DEFINITION: &str = "definition";
    /// Namespaces, event logs, graphs, and documents that pipelines work on.
    pub const DATASET: &str = "dataset";
}

/// All that a component can reach.
pub trait Host {
    /// Apply operations to one bucket, all or none.
    fn transact(&self, transaction: &Transaction<'_>) -> Result<Receipt, Problem>;

    /// Apply transactions, each on a bucket of its own, and wait once; one reply for each, in order. They have leases, and
    /// steps, only if the store has these capabilities.
    fn transact_each(&self, transactions: &[IndexedTransaction<'_>]) -> Vec<Result<IndexedReceipt, Problem>>;

    /// Delete buckets with all that is in them, and wait once; one reply for each, in order.
    fn delete_each(&self, requests: &[DeleteRequest<'_>]) -> Vec<Result<Deletion, Problem>>;

    /// Names of the buckets of a kind, page by page: only if the store has the capability `listing`.
    fn list_buckets(&self, kind: &str, cursor: &str, limit: u32) -> Result<BucketPage, Problem>;

    /// What the store can do, and its limits.
    fn store_profile(&self) -> StoreProfile;

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
