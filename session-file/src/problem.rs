//! Says why a session is not exported or imported.

use std::io;

use keepline::{
    sessions::{SessionError, SessionErrorCode},
    store::{Failure, FailureCode},
};

/// Why a session is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// What was read of it is not allowed, or incomplete.
    Invalid,
    /// There is one of that name with other contents.
    Exists,
    /// It changed meanwhile.
    Conflict,
    /// It belongs to nobody, or to another user than the one whose sessions may come.
    Foreign,
    /// There is no such session, as far as the one who asks may know.
    NotFound,
    /// Its time is over.
    Expired,
    /// The store failed, or refused it.
    Store(FailureCode),
}

/// Why a session is not exported or imported.
#[derive(Debug)]
pub enum Problem {
    /// Invalid input, reported with its place.
    Input(String),
    /// The session is left out, wherever it comes from.
    Left(Reason, String),
    /// Nothing more is exported or imported.
    Failed(anyhow::Error),
}

impl Problem {
    /// A session that is left out for what was read of it.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Left(Reason::Invalid, why.into())
    }
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self::Input(what)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Left(Reason::Store(failure.code), failure.message)
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let reason = match error.code {
            SessionErrorCode::Store(code) => Reason::Store(code),
            SessionErrorCode::Busy | SessionErrorCode::Closed => Reason::Store(FailureCode::Unavailable),
            SessionErrorCode::NotFound | SessionErrorCode::Expired => Reason::Expired,
            SessionErrorCode::AlreadyExists => Reason::Foreign,
            SessionErrorCode::Conflict => Reason::Conflict,
            _ => Reason::Invalid,
        };
        Self::Left(reason, error.message)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}
