//! The envelope of every reply, and the codes of errors.

use axum::{http::StatusCode, response::Response};
use serde_json::{Value, json};

use crate::{
    http::{self, ApiError, Call},
    time::timestamp,
};

/// `{data, metadata}`.
pub fn reply(call: &Call, data: &Value) -> Result<Response, ApiError> {
    let duration = u64::try_from(call.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    http::json(&json!({
        "data": data,
        "metadata": {"requestId": &*call.request_id, "timestamp": timestamp(), "duration": duration},
    }))
}

/// A conversation that the caller does not reach, whatever the reason.
pub fn session_not_found(id: &str) -> ApiError {
    let id: String = id.chars().take(128).collect();
    ApiError::new(StatusCode::NOT_FOUND, "SESSION_NOT_FOUND", format!("there is no session {id:?}"))
}

/// Conversations are off.
pub fn unavailable() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "MEMORY_UNAVAILABLE", "conversations are not kept here")
}

/// An error of the library as this server's clients know it. What failed is logged: a message of the store's might name
/// its address.
pub fn of_memory(error: ApiError) -> ApiError {
    if !error.status.is_server_error() {
        return error;
    }
    tracing::warn!(target: "keepline.service", "the memory failed: {}", error.message);
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "MEMORY_ERROR", "the memory can't be reached")
}

/// The same of an error about a session: one that is not there, and an id that can be none, are alike.
pub fn of_session(id: &str) -> impl Fn(ApiError) -> ApiError {
    move |error| {
        let is_absent = error.status == StatusCode::NOT_FOUND
            || (error.status == StatusCode::BAD_REQUEST && error.path.as_deref() == Some("session"));
        if is_absent { session_not_found(id) } else { of_memory(error) }
    }
}
