//! The contract of `wit/key-value.wit` as plain Rust: name for name and comment for comment.
//!
//! Uses wasmtime only with the feature `component`, with which these types cross the boundary of a component.

#![cfg_attr(feature = "component", allow(unsafe_code, reason = "what is derived implements wasmtime's unsafe traits"))]
#![allow(missing_docs, reason = "where there is no comment, the name says it all, as in the contract")]

mod operations;
mod outcomes;
mod writes;

#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

pub use self::{operations::*, outcomes::*};

/// What a bucket is about. Kinds are separate name spaces: in addresses, listings and permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(enum))]
pub enum BucketKind {
    /// A session: its values, history and transcript. The only kind that other programs may share.
    #[cfg_attr(feature = "component", component(name = "session"))]
    Session,
    /// A user: values, sessions, passages.
    #[cfg_attr(feature = "component", component(name = "user"))]
    User,
    /// The transcript of one node of a pipeline.
    #[cfg_attr(feature = "component", component(name = "node"))]
    Node,
    /// Definitions of pipelines and rules.
    #[cfg_attr(feature = "component", component(name = "definition"))]
    Definition,
    /// What pipelines work on: namespaces of values, event logs, graphs, documents.
    #[cfg_attr(feature = "component", component(name = "dataset"))]
    Dataset,
    /// A service's own: secrets, registries.
    #[cfg_attr(feature = "component", component(name = "service"))]
    Service,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct BucketId {
    pub kind: BucketKind,
    pub name: String,
}

/// How long a new bucket lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct TimeToLive {
    /// 1 to 3,162,240,000,000 (a hundred years), from creation or, if sliding, from the last use.
    pub milliseconds: u64,
    /// Whether a transaction that uses the bucket starts the time again: one that is `applied` or
    /// `repeated`, unless its precondition says otherwise. A store may skip a renewal while less than 1 % of
    /// the time has passed, and while it takes no writes.
    pub sliding: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExistingBucket {
    /// The generation it must be, as a receipt named it; none: any.
    pub generation: Option<String>,
    /// Whether this is a use of the bucket, which renews a sliding life.
    pub renew: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct NewBucket {
    /// For the bucket that is created. None: it never expires.
    #[cfg_attr(feature = "component", component(name = "time-to-live"))]
    pub time_to_live: Option<TimeToLive>,
}

/// What a transaction asks of its bucket before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Precondition {
    /// It must exist: otherwise `absent`, `expired` or `generation-mismatch`.
    #[cfg_attr(feature = "component", component(name = "existing"))]
    Existing(ExistingBucket),
    /// Create it if it is absent or has expired. One that exists keeps its own life and is used.
    #[cfg_attr(feature = "component", component(name = "create"))]
    Create(NewBucket),
    /// It must not exist: otherwise `exists`.
    #[cfg_attr(feature = "component", component(name = "create-new"))]
    CreateNew(NewBucket),
    /// Create it, and delete what was there in the same step. Expectations are about what was there,
    /// operations about the new, empty bucket.
    #[cfg_attr(feature = "component", component(name = "replace"))]
    Replace(NewBucket),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(enum))]
pub enum EntryState {
    #[cfg_attr(feature = "component", component(name = "absent"))]
    Absent,
    #[cfg_attr(feature = "component", component(name = "present"))]
    Present,
    #[cfg_attr(feature = "component", component(name = "equal"))]
    Equal,
    #[cfg_attr(feature = "component", component(name = "absent-or-equal"))]
    AbsentOrEqual,
}

/// An entry of a map must be in this state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExpectedEntry {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub key: String,
    pub state: EntryState,
    /// For `equal` and `absent-or-equal`: compared byte by byte, a byte order mark at the beginning like any other.
    /// Otherwise ignored.
    pub text: String,
}

/// A log must stand here. One that is not there stands at 0 and 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExpectedLog {
    pub log: String,
    /// The position of its oldest record; for an empty log, the same as `next`.
    pub first: Option<u64>,
    /// The position that the next record gets.
    pub next: Option<u64>,
}

/// The entries that the transaction creates must leave the map with at most `limit`. Created are the keys that
/// `put`, `increment`, `reset-map` and marks write and that are not there before. Removals in the same transaction
/// don't count, nor what `reset-map` and `replace` drop. A transaction that creates no entry always finds room.
/// Expected once for each map (`invalid` otherwise).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExpectedRoom {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub limit: u64,
}

/// What must hold, in the state before it, for a transaction to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Expectation {
    #[cfg_attr(feature = "component", component(name = "entry"))]
    Entry(ExpectedEntry),
    #[cfg_attr(feature = "component", component(name = "log"))]
    Log(ExpectedLog),
    #[cfg_attr(feature = "component", component(name = "room"))]
    Room(ExpectedRoom),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Entry {
    pub key: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct Transaction {
    pub bucket: BucketId,
    pub precondition: Precondition,
    pub expectations: Vec<Expectation>,
    pub operations: Vec<Operation>,
}
