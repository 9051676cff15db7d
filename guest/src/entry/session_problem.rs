//! Why a call of an operator is refused, in the original node's words where it had any.

use self::SessionProblemCode as Code;
pub use crate::contract::sessions::{SessionProblem, SessionProblemCode};
use crate::contract::{Failure, FailureCode, Status};
use crate::text::ids::{ANSWER_COUNT, check_key_name, check_session_name};
use crate::text::quoting::python_repr;

impl SessionProblem {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, store_code: String::new(), message: message.into() }
    }
}

pub(crate) fn answer_count_problem(session: &str) -> SessionProblem {
    let message = format!(
        "Key '{ANSWER_COUNT}' in session {} counts the answers: it must be an integer from 0 to {MAX_COUNT}",
        python_repr(session)
    );
    SessionProblem::new(Code::InvalidValue, message)
}

pub(crate) fn check_status(session: &str, status: Status) -> SessionResult<()> {
    let (code, what) = match status {
        Status::Applied | Status::Repeated => return Ok(()),
        // Another life of it is not the session that the call began with.
        Status::Absent | Status::AnotherLife => (Code::NotFound, "not found"),
        Status::Expired => (Code::Expired, "has expired"),
        Status::Exists => (Code::AlreadyExists, "already exists"),
        Status::Unmet => return Err(out_of_turn_problem(session)),
    };
    Err(SessionProblem::new(code, format!("Session {} {what}", python_repr(session))))
}

pub(crate) fn conflict_problem(session: &str) -> SessionProblem {
    let message = format!("Session {} was written to by others each time; nothing was changed", python_repr(session));
    SessionProblem::new(Code::Conflict, message)
}

pub(crate) fn out_of_turn_problem(session: &str) -> SessionProblem {
    store_problem(session, &Failure::out_of_turn())
}

pub(crate) fn store_problem(session: &str, failure: &Failure) -> SessionProblem {
    let subject = python_repr(&failure.subject);
    match failure.code {
        FailureCode::TooManyBuckets => SessionProblem::new(Code::TooManySessions, failure.sentence()),
        FailureCode::NotACounter => SessionProblem::new(
            Code::NotACounter,
            format!("Value of key {subject} in session {} is not a counter", python_repr(session)),
        ),
        FailureCode::CounterOverflow => SessionProblem::new(
            Code::CounterOverflow,
            format!(
                "Counter {subject} in session {} would leave the range of a signed 64-bit integer",
                python_repr(session)
            ),
        ),
        code => SessionProblem { code: Code::Store, store_code: code.as_str().to_owned(), message: failure.sentence() },
    }
}

/// What an outcome tells, or why it can't be told.
pub(crate) fn store_result<T>(session: &str, outcome: Result<T, Failure>) -> SessionResult<T> {
    outcome.map_err(|failure| store_problem(session, &failure))
}

pub(crate) type SessionResult<T> = Result<T, SessionProblem>;

/// The most that an operator may set the count of answers to: all readers of JSON read it exactly, and it leaves
/// room for more answers than there will ever be.
pub(crate) const MAX_COUNT: i64 = (1 << 53) - 1;

pub(crate) fn require_valid_session(session: &str) -> SessionResult<()> {
    check_session_name(session).map_err(|message| SessionProblem::new(Code::InvalidSession, message))
}

pub(crate) fn require_valid_key(key: &str) -> SessionResult<()> {
    check_key_name(key).map_err(|message| SessionProblem::new(Code::InvalidKey, message))
}
