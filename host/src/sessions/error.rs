//! Errors of calls on a session.

use std::fmt;

use crate::{
    contract::shared,
    entry::{Problem, ProblemCode},
    logging::{MAX_MESSAGE, make_printable},
    runtime::CallRefusal,
    store::{Failure, FailureCode},
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

/// What kind of problem. Displayed in one word, as scripts have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionErrorCode {
    /// This can't be a session's id.
    InvalidSession,
    /// This can't be a key.
    InvalidKey,
    /// The text is not a value, or what is stored is not.
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
    /// The plugin was stopped, or what it tells can't be.
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

impl SessionErrorCode {
    /// That it is not there, or can't be.
    pub(super) fn is_session_missing(self) -> bool {
        matches!(self, Self::InvalidSession | Self::NotFound | Self::Expired)
    }
}

impl SessionError {
    /// The session's time is over, or it is not there.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.code, SessionErrorCode::NotFound | SessionErrorCode::Expired)
    }
}

impl From<shared::Problem> for SessionError {
    fn from(shared::Problem { code, subject, mut message, .. }: shared::Problem) -> Self {
        make_printable(&mut message, MAX_MESSAGE);
        let code = match (code.as_str(), subject.as_str()) {
            ("invalid", "session") => SessionErrorCode::InvalidSession,
            ("invalid", "key") => SessionErrorCode::InvalidKey,
            ("invalid", _) => SessionErrorCode::InvalidValue,
            ("not-found", _) => SessionErrorCode::NotFound,
            ("expired", _) => SessionErrorCode::Expired,
            ("already-exists", _) => SessionErrorCode::AlreadyExists,
            ("not-a-counter", _) => SessionErrorCode::NotACounter,
            ("counter-overflow", _) => SessionErrorCode::CounterOverflow,
            ("limit", _) => SessionErrorCode::Limit,
            ("too-many-buckets", _) => SessionErrorCode::TooManySessions,
            ("conflict", _) => SessionErrorCode::Conflict,
            (code, _) => SessionErrorCode::Store(FailureCode::named(code).unwrap_or(FailureCode::Other)),
        };
        Self { code, message }
    }
}

impl From<CallRefusal> for SessionError {
    fn from(refusal: CallRefusal) -> Self {
        let code = match refusal {
            CallRefusal::Full(_) | CallRefusal::Late(_) | CallRefusal::NoMemory(_) => SessionErrorCode::Busy,
            CallRefusal::Closed => SessionErrorCode::Closed,
            CallRefusal::Fault(_) | CallRefusal::LeftAlone(_) => SessionErrorCode::Plugin,
        };
        Self { code, message: refusal.to_string() }
    }
}

impl From<SessionError> for Problem {
    fn from(SessionError { code, message }: SessionError) -> Self {
        let code = match code {
            SessionErrorCode::Store(code) => ProblemCode::Store(code),
            other => ProblemCode::Other(other.to_string()),
        };
        Self { code, message }
    }
}

impl From<Failure> for SessionError {
    fn from(failure: Failure) -> Self {
        Self { code: SessionErrorCode::Store(failure.code), message: failure.message }
    }
}
