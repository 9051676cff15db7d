//! Problems of calls about sessions, in the original node's words where it had any.

use crate::contract::{BucketId, Problem, Status, codes, kind};
use crate::text::ids::{ANSWER_COUNT, check_key_name, check_session_name};
use crate::text::quoting::python_repr;

pub(crate) type SessionResult<T> = Result<T, Box<Problem>>;

pub(crate) fn answer_count_problem(session: &str) -> Box<Problem> {
    let message = format!(
        "Key '{ANSWER_COUNT}' in session {} counts the answers: it must be an integer from 0 to {MAX_COUNT}",
        python_repr(session)
    );
    Problem::invalid("value", message)
}

/// What it means that a transaction on a bucket of the session, or of one of its nodes, was not applied.
pub(crate) fn check_status(session: &str, bucket: BucketId<'_>, status: Status) -> SessionResult<()> {
    let (code, what) = match status {
        Status::Applied | Status::Repeated => return Ok(()),
        // Another generation of it is not the session that the call began with.
        Status::Absent | Status::GenerationMismatch => (codes::NOT_FOUND, "not found"),
        Status::Expired => (codes::EXPIRED, "has expired"),
        Status::Exists => (codes::ALREADY_EXISTS, "already exists"),
        Status::Unmet => return Err(Problem::out_of_turn()),
    };
    let (subject, of) = match bucket.kind {
        kind::NODE => ("node", "Node of session "),
        _ => ("session", "Session "),
    };
    Err(Problem::new(code, subject, [of, &python_repr(session), " ", what].concat()))
}

pub(crate) fn conflict_problem(session: &str) -> Box<Problem> {
    let message = format!("Session {} was written to by others each time; nothing was changed", python_repr(session));
    Problem::new(codes::CONFLICT, "", message)
}

/// Why a write to a session failed that counts something.
pub(crate) fn write_problem(session: &str, failure: Box<Problem>) -> Box<Problem> {
    let (key, session) = (python_repr(&failure.subject), python_repr(session));
    let message = match &*failure.code {
        codes::NOT_A_COUNTER => format!("Value of key {key} in session {session} is not a counter"),
        codes::COUNTER_OVERFLOW => {
            format!("Counter {key} in session {session} would leave the range of a signed 64-bit integer")
        }
        _ => return failure,
    };
    Box::new(Problem { message, ..*failure })
}

/// The most that an operator may set the count of answers to: all readers of JSON read it exactly, and it leaves
/// room for more answers than there will ever be.
pub(crate) const MAX_COUNT: i64 = (1 << 53) - 1;

pub(crate) fn require_valid_session(session: &str) -> SessionResult<()> {
    check_session_name(session).map_err(|message| Problem::invalid("session", message))
}

pub(crate) fn require_valid_key(key: &str) -> SessionResult<()> {
    check_key_name(key).map_err(|message| Problem::invalid("key", message))
}
