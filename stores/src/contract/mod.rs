//! The store's contract, `wit/deps/store`, as plain Rust: name for name and comment for comment.
//!
//! Uses wasmtime only with the feature `component`, with which these types cross the boundary of a component.

#![cfg_attr(feature = "component", allow(unsafe_code, reason = "what is derived implements wasmtime's unsafe traits"))]
#![allow(missing_docs, reason = "where there is no comment, the name says it all, as in the contract")]

mod convert;
mod operations;
mod optional;
mod outcomes;
mod registered;
mod writes;

#[cfg(feature = "component")]
use wasmtime::component::{ComponentType, Lift, Lower};

pub use self::{operations::*, optional::*, outcomes::*, registered::*};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct BucketId {
    /// A registered name:
    /// `session`: values, history, and transcript of a session. The only kind other programs may share;
    /// `user`: values, session list, and passages of a user;
    /// `node`: the transcript of one node of a pipeline;
    /// `definition`: definitions of pipelines and rules;
    /// `dataset`: namespaces, event logs, graphs, and documents that pipelines work on;
    /// `service`: a service's own data.
    /// Each kind is a name space of its own. A store accepts any kind that matches `[a-z][a-z0-9-]{0,31}`.
    pub kind: String,
    /// `[A-Za-z0-9_-]{1,128}`.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct TimeToLive {
    /// 1 to 3,162,240,000,000 (a hundred years), from creation or, if sliding, from the last use.
    pub milliseconds: u64,
    /// Whether a transaction that uses the bucket (`applied` or `repeated`) starts the time again. A store may skip
    /// a renewal while less than 1 % of the time has passed, and while it takes no writes.
    pub sliding: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExistingBucket {
    /// The generation it must be; none: any.
    pub generation: Option<String>,
    /// Whether this counts as a use, which renews a sliding time to live.
    pub renew: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct NewBucket {
    /// None: the bucket does not expire.
    #[cfg_attr(feature = "component", component(name = "time-to-live"))]
    pub time_to_live: Option<TimeToLive>,
}

/// What a transaction requires of its bucket before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(variant))]
pub enum Precondition {
    /// It exists; otherwise `absent`, `expired`, or `generation-mismatch`.
    #[cfg_attr(feature = "component", component(name = "existing"))]
    Existing(ExistingBucket),
    /// It is created if absent or expired. An existing bucket keeps its time to live, and is used.
    #[cfg_attr(feature = "component", component(name = "create"))]
    Create(NewBucket),
    /// It does not exist; otherwise `exists`.
    #[cfg_attr(feature = "component", component(name = "create-new"))]
    CreateNew(NewBucket),
    /// Any existing generation is deleted and a new one created. Expectations are about the old generation,
    /// operations about the new, empty one.
    #[cfg_attr(feature = "component", component(name = "replace"))]
    Replace(NewBucket),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExpectedEntry {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub key: String,
    pub state: EntryState,
    /// For `equal` and `absent-or-equal`, compared byte by byte; otherwise ignored.
    pub text: String,
}

/// Where a log must stand. A log that is not there stands at 0 and 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExpectedLog {
    pub log: String,
    /// The position of the oldest record; in an empty log, the same as `next`. None: any.
    pub first: Option<u64>,
    /// The position of the next record. None: any.
    pub next: Option<u64>,
}

/// A map must have at most `limit` entries after the entries that the transaction creates with `set`, `add`, and
/// marks. Removals don't count. A transaction that creates none always has room. Once for each map (`invalid`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct ExpectedRoom {
    #[cfg_attr(feature = "component", component(name = "map-name"))]
    pub map_name: String,
    pub limit: u64,
}

/// What must hold before the transaction.
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

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "component", derive(ComponentType, Lift, Lower), component(record))]
pub struct DeleteRequest {
    pub bucket: BucketId,
    /// Only this generation; none: any.
    pub generation: Option<String>,
    /// How many keys to name.
    #[cfg_attr(feature = "component", component(name = "max-keys"))]
    pub max_keys: u32,
}
