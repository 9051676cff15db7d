//! Why a call of an operator is refused, in the original node's words where it had any.

use self::SessionProblemCode as Code;
pub use crate::contract::sessions::{SessionProblem, SessionProblemCode};
use crate::contract::{Failure, Status, code};
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
        Status::Absent | Status::GenerationMismatch => (Code::NotFound, "not found"),
        Status::Expired => (Code::Expired, "has expired"),
        Status::Exists => (Code::AlreadyExists, "already exists"),
        Status::Unmet => return Err(Failure::out_of_turn().into()),
    };
    Err(SessionProblem::new(code, format!("Session {} {what}", python_repr(session))))
}

pub(crate) fn conflict_problem(session: &str) -> SessionProblem {
    let message = format!("Session {} was written to by others each time; nothing was changed", python_repr(session));
    SessionProblem::new(Code::Conflict, message)
}

impl From<Failure> for SessionProblem {
    fn from(failure: Failure) -> Self {
        let message = failure.sentence();
        match &*failure.code {
            code::TOO_MANY_BUCKETS => Self::new(Code::TooManySessions, message),
            _ => Self { code: Code::Store, store_code: failure.code, message },
        }
    }
}

/// Why a write to a session failed that counts something.
pub(crate) fn write_problem(session: &str, failure: Failure) -> SessionProblem {
    let (key, session) = (python_repr(&failure.subject), python_repr(session));
    match &*failure.code {
        code::NOT_A_COUNTER => {
            SessionProblem::new(Code::NotACounter, format!("Value of key {key} in session {session} is not a counter"))
        }
        code::COUNTER_OVERFLOW => SessionProblem::new(
            Code::CounterOverflow,
            format!("Counter {key} in session {session} would leave the range of a signed 64-bit integer"),
        ),
        _ => failure.into(),
    }
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
