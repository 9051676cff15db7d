//! Types of the interface `sessions`.

use wasmtime::component::{ComponentType, Lift};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code, reason = "lifting makes them from a number")]
pub(crate) enum SessionProblemCode {
    #[component(name = "invalid-session")]
    InvalidSession,
    #[component(name = "invalid-key")]
    InvalidKey,
    #[component(name = "invalid-value")]
    InvalidValue,
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "expired")]
    Expired,
    #[component(name = "already-exists")]
    AlreadyExists,
    #[component(name = "not-a-counter")]
    NotACounter,
    #[component(name = "counter-overflow")]
    CounterOverflow,
    #[component(name = "limit")]
    Limit,
    #[component(name = "too-many-sessions")]
    TooManySessions,
    #[component(name = "conflict")]
    Conflict,
    #[component(name = "store")]
    Store,
}

/// As the component tells it; people get a [`SessionError`](crate::SessionError).
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct SessionProblem {
    pub(crate) code: SessionProblemCode,
    #[component(name = "store-code")]
    pub(crate) store_code: String,
    pub(crate) message: String,
}

/// A new session.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct SessionCreated {
    /// Its id.
    pub session: String,
    /// Its creation stamp, unique among its lives.
    pub generation: String,
}

/// What a session holds, in figures.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct SessionState {
    /// Its id.
    pub session: String,
    /// Its creation stamp, unique among its lives.
    pub generation: String,
    /// How many values it has.
    #[component(name = "key-count")]
    pub key_count: u64,
    /// How many records its history has.
    #[component(name = "history-length")]
    pub history_length: u64,
    /// Milliseconds of life left; none: it does not expire.
    #[component(name = "expires-in")]
    pub expires_in: Option<u64>,
}

/// Some of the sessions.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct SessionPage {
    /// Sorted within the page.
    pub sessions: Vec<String>,
    /// For the next page; empty after the last.
    pub cursor: String,
}

/// A session that is gone.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct SessionDeleted {
    /// Its id.
    pub session: String,
    /// How many values it had.
    #[component(name = "key-count")]
    pub key_count: u64,
    /// The first 10,000 of their keys, sorted.
    #[component(name = "keys-cleared")]
    pub keys_cleared: Vec<String>,
}

/// A value was stored.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct ValueStored {
    /// The session's id.
    pub session: String,
    /// Where.
    pub key: String,
}

/// What is under a key.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct ValueFound {
    /// The session's id.
    pub session: String,
    /// Which key.
    pub key: String,
    /// JSON text. None: the session has no such key.
    pub value: Option<String>,
}

/// The keys of a session.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct KeyList {
    /// The session's id.
    pub session: String,
    /// Sorted, at most 10,000.
    pub keys: Vec<String>,
}

/// What was cleared.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct KeysCleared {
    /// The session's id.
    pub session: String,
    /// Sorted; empty when there was nothing to clear.
    pub cleared: Vec<String>,
}

/// Where a counter stands.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct KeyCounted {
    /// The session's id.
    pub session: String,
    /// Which counter.
    pub key: String,
    /// With what was added.
    pub value: i64,
}

/// Some of a session's history.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct HistoryPage {
    /// The session's id.
    pub session: String,
    /// JSON records, oldest first.
    pub entries: Vec<String>,
    /// The position of the first one.
    pub first: u64,
    /// The position of the oldest record that there is: there is more before this page if `first` is above it.
    pub oldest: u64,
    /// The position that the next record gets.
    pub next: u64,
}

/// What a call of the exports `sessions`, `transcripts` and `users` replies.
pub(crate) type SessionReply<T> = Result<T, SessionProblem>;
