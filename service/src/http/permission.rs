//! What a caller's key is enough for, beside reaching a route.

use axum::http::StatusCode;

use super::ApiError;
use crate::access::{Caller, Scope};

/// That the caller may do what takes this scope.
///
/// # Errors
/// 403 if not.
pub fn require_scope(caller: &Caller, needed: Scope) -> Result<(), ApiError> {
    if caller.scopes.has(needed) {
        return Ok(());
    }
    let key = caller.key_id.as_deref().unwrap_or_default();
    Err(forbidden(format!("the key {key} lacks the scope {:?}", needed.name())))
}

/// Definitions and data sets belong to the project: a caller with a user reads and runs them, and writes none.
///
/// # Errors
/// 403 for a caller with a user.
pub fn require_project_writer(caller: &Caller) -> Result<(), ApiError> {
    if caller.user.is_none() {
        return Ok(());
    }
    let message = "definitions and data sets belong to the project: a key that names a user can't write them";
    Err(forbidden(message))
}

fn forbidden(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
}
