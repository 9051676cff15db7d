//! Why a call is refused, in the original node's words where it had any.

use super::{Answer, MAX_COUNT};
use crate::names::{ANSWER_COUNT, repr};
use crate::store::{Failure, FailureCode, Status};

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the codes are those of the contract")]
pub enum SessionProblemCode {
    InvalidSession,
    InvalidKey,
    InvalidValue,
    NotFound,
    Expired,
    AlreadyExists,
    NotACounter,
    CounterOverflow,
    Limit,
    TooManySessions,
    Conflict,
    Store,
}

pub(crate) use SessionProblemCode as Code;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionProblem {
    /// Why.
    pub code: SessionProblemCode,
    /// For `Store`: the failure's code as the contract spells it. Otherwise empty.
    pub store_code: &'static str,
    /// For people.
    pub message: String,
}

impl SessionProblem {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, store_code: "", message: message.into() }
    }
}

pub(super) fn no_count(session: &str) -> SessionProblem {
    let message = format!(
        "Key '{ANSWER_COUNT}' in session {} counts the answers: it must be an integer from 0 to {MAX_COUNT}",
        repr(session)
    );
    SessionProblem::new(Code::InvalidValue, message)
}

pub(crate) fn check_status(session: &str, status: Status) -> Answer<()> {
    let (code, what) = match status {
        Status::Applied | Status::Repeated => return Ok(()),
        // Another life of it is not the session that the call began with.
        Status::Absent | Status::AnotherLife => (Code::NotFound, "not found"),
        Status::Expired => (Code::Expired, "has expired"),
        Status::Exists => (Code::AlreadyExists, "already exists"),
        Status::Unmet => return Err(out_of_turn(session)),
    };
    Err(SessionProblem::new(code, format!("Session {} {what}", repr(session))))
}

pub(crate) fn conflict(session: &str) -> SessionProblem {
    let message = format!("Session {} was written to by others each time; nothing was changed", repr(session));
    SessionProblem::new(Code::Conflict, message)
}

pub(super) fn out_of_turn(session: &str) -> SessionProblem {
    store_problem(session, &Failure::out_of_turn())
}

pub(crate) fn store_problem(session: &str, failure: &Failure) -> SessionProblem {
    let subject = repr(&failure.subject);
    match failure.code {
        FailureCode::TooManyBuckets => SessionProblem::new(Code::TooManySessions, failure.sentence()),
        FailureCode::NotACounter => SessionProblem::new(
            Code::NotACounter,
            format!("Value of key {subject} in session {} is not a counter", repr(session)),
        ),
        FailureCode::CounterOverflow => SessionProblem::new(
            Code::CounterOverflow,
            format!("Counter {subject} in session {} would leave the range of a signed 64-bit integer", repr(session)),
        ),
        code => SessionProblem { code: Code::Store, store_code: code.as_str(), message: failure.sentence() },
    }
}
