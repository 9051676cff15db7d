//! What an operator, or another part of a pipeline, does to sessions: the component's `sessions` export.

use std::{fmt, sync::Arc};

pub use crate::contract::sessions::{
    HistoryPage, KeyCounted, KeyList, KeysCleared, SessionCreated, SessionDeleted, SessionPage, SessionState,
    ValueFound, ValueStored,
};
use tokio::time::Instant;

use crate::{
    contract::sessions::{SessionProblem, ToldCode},
    lend::{MAX_MESSAGE, tame},
    runtime::Refusal,
    shared::Shared,
    store::{Deadline, FailureCode, Guard, Writer},
};

/// Why a call on a session failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct SessionError {
    /// What kind of problem.
    pub code: SessionErrorCode,
    /// One sentence.
    pub message: String,
}

/// What kind of problem. Displayed as the contract spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionErrorCode {
    /// This can't be a session's id.
    InvalidSession,
    /// This can't be a key.
    InvalidKey,
    /// This can't be a value, or what is stored is none.
    InvalidValue,
    /// There is no such session.
    NotFound,
    /// The session's time has run out.
    Expired,
    /// There is a session of that id.
    AlreadyExists,
    /// What is under that key can't be counted.
    NotACounter,
    /// The counter would leave its range.
    CounterOverflow,
    /// A limit of the configuration, which the message names.
    Limit,
    /// The store takes no more sessions.
    TooManySessions,
    /// Others kept writing in between; nothing was changed.
    Conflict,
    /// The store failed.
    Store(FailureCode),
    /// The plugin was stopped.
    Plugin,
    /// No instance of the plugin came free in time.
    Busy,
    /// After [`Keepline::shutdown`](crate::Keepline::shutdown).
    Closed,
}

impl fmt::Display for SessionErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidSession => "invalid-session",
            Self::InvalidKey => "invalid-key",
            Self::InvalidValue => "invalid-value",
            Self::NotFound => "not-found",
            Self::Expired => "expired",
            Self::AlreadyExists => "already-exists",
            Self::NotACounter => "not-a-counter",
            Self::CounterOverflow => "counter-overflow",
            Self::Limit => "limit",
            Self::TooManySessions => "too-many-sessions",
            Self::Conflict => "conflict",
            Self::Store(_) => "store",
            Self::Plugin => "plugin",
            Self::Busy => "busy",
            Self::Closed => "closed",
        })
    }
}

impl From<SessionProblem> for SessionError {
    fn from(SessionProblem { code, store_code, mut message }: SessionProblem) -> Self {
        tame(&mut message, MAX_MESSAGE);
        let code = match code {
            ToldCode::InvalidSession => SessionErrorCode::InvalidSession,
            ToldCode::InvalidKey => SessionErrorCode::InvalidKey,
            ToldCode::InvalidValue => SessionErrorCode::InvalidValue,
            ToldCode::NotFound => SessionErrorCode::NotFound,
            ToldCode::Expired => SessionErrorCode::Expired,
            ToldCode::AlreadyExists => SessionErrorCode::AlreadyExists,
            ToldCode::NotACounter => SessionErrorCode::NotACounter,
            ToldCode::CounterOverflow => SessionErrorCode::CounterOverflow,
            ToldCode::Limit => SessionErrorCode::Limit,
            ToldCode::TooManySessions => SessionErrorCode::TooManySessions,
            ToldCode::Conflict => SessionErrorCode::Conflict,
            ToldCode::Store => SessionErrorCode::Store(FailureCode::named(&store_code).unwrap_or(FailureCode::Other)),
        };
        Self { code, message }
    }
}

impl From<Refusal> for SessionError {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Full(_) | Refusal::Late(_) => SessionErrorCode::Busy,
            Refusal::Closed => SessionErrorCode::Closed,
            Refusal::Fault(_) => SessionErrorCode::Plugin,
        };
        Self { code, message: refusal.to_string() }
    }
}

/// Sessions, by id. The rules are the lanes', checked in the same place: the component. See
/// `wit/sessions.wit` for what each call promises; each fails with a [`SessionError`], in time: it has
/// [`Options::entry_timeout`](crate::Options::entry_timeout), as an entry has, or a deadline of the caller's.
pub struct Sessions {
    shared: Arc<Shared>,
    store: Arc<Guard>,
    /// Of all calls; none: each has its own.
    deadline: Option<Deadline>,
    writer: Option<Writer>,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $call:ident($($argument:ident: $type:ty),*) -> $reply:ty;)*) => {
        impl Sessions {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// See [`SessionError`].
                pub async fn $name(&mut self, $($argument: $type),*) -> Result<$reply, SessionError> {
                    let due = self.shared.due(Instant::now(), self.deadline);
                    let called = self.shared.call(&self.store, &mut self.writer, due, async |instance, writer, due| {
                        instance.$call(writer, due, $($argument),*).await
                    });
                    Ok(called.await??)
                }
            )*
        }
    };
}

calls! {
    /// Create a session that must not be there.
    create = create(session: &str) -> SessionCreated;
    /// Look at a session. It counts as a use of it.
    resume = resume(session: &str) -> SessionState;
    /// A page of session ids, from the empty cursor on; a limit of 0 means 100.
    list = list_sessions(cursor: &str, limit: u32) -> SessionPage;
    /// Delete a session and all that it holds.
    delete = delete(session: &str) -> SessionDeleted;
    /// Store a JSON text under a key.
    put = put(session: &str, key: &str, value: &str) -> ValueStored;
    /// The JSON text under a key.
    get = get(session: &str, key: &str) -> ValueFound;
    /// The session's keys, sorted.
    keys = keys(session: &str) -> KeyList;
    /// Clear one key, or all.
    clear = clear(session: &str, key: Option<&str>) -> KeysCleared;
    /// Add to a counter.
    increment = increment(session: &str, key: &str, amount: i64) -> KeyCounted;
    /// At most `limit` records of the session's history before the position `before` (none: the newest), oldest first;
    /// 0: as many as fit in one reply.
    history = history(session: &str, before: Option<u64>, limit: u32) -> HistoryPage;
}

impl Sessions {
    pub(crate) fn new(shared: Arc<Shared>, store: Arc<Guard>) -> Self {
        Self { shared, store, deadline: None, writer: None }
    }

    /// All calls end by this deadline, in place of a time for each: for a service whose request has one.
    /// [`Deadline::NEVER`]: only the store's own limits hold.
    #[must_use]
    pub fn by(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }
}
