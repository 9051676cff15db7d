//! Sessions as files: exported as JSON lines, and imported whole or not at all. `docs/export.md` describes the lines.

pub mod export;
pub mod import;

use axum::http::StatusCode;
use keepline::store::Failure;
use keepline_session_file::{Problem, Reason};

use super::ownership::session_not_found;
use crate::http::ApiError;

/// Why a session was left out, as an error of its own. An empty id: it is not known.
fn error_of(reason: Reason, id: &str, why: &str) -> ApiError {
    let message = if id.is_empty() { why.to_owned() } else { format!("session {id:?}: {why}") };
    match reason {
        Reason::Exists => {
            ApiError::new(StatusCode::CONFLICT, "exists", format!("session {id:?}: {why}; replace=true replaces it"))
        }
        Reason::Conflict => {
            ApiError::new(StatusCode::CONFLICT, "conflict", format!("session {id:?}: {why}; try again"))
        }
        Reason::Expired => ApiError::new(StatusCode::CONFLICT, "expired", format!("session {id:?}: {why}")),
        Reason::Foreign => ApiError::new(StatusCode::FORBIDDEN, "forbidden", format!("session {id:?}: {why}")),
        Reason::NotFound => session_not_found(id),
        Reason::Store(code) => Failure::new(code, "", why).into(),
        _ => ApiError::new(StatusCode::BAD_REQUEST, "invalid", message),
    }
}

/// Why a session is not exported.
fn export_error(id: &str, problem: Problem) -> ApiError {
    match problem {
        Problem::Left(Reason::Invalid, why) | Problem::Input(why) => {
            ApiError::new(StatusCode::CONFLICT, "not_exportable", format!("session {id:?} can't be exported: {why}"))
        }
        Problem::Left(reason, why) => error_of(reason, id, &why),
        Problem::Failed(error) => error.into(),
    }
}
