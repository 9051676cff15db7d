//! The REST routes: bodies, parameters and headers in, the thing itself out, without an envelope.

pub mod context;
pub mod engines;
pub mod memories;

use axum::http::{StatusCode, header};

use super::desk::Desk;
use crate::http::{ApiError, Call, JsonObject};

/// The whole body, which is JSON with any parameters, or says nothing of what it is.
///
/// # Errors
/// 415 for another media type; 413 over the limit.
async fn body_of(call: &mut Call) -> Result<bytes::Bytes, ApiError> {
    if let Some(kind) = call.headers().get(header::CONTENT_TYPE) {
        let kind = kind.to_str().unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let message = "the body must be application/json";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
        }
    }
    call.bytes().await
}

/// A body that has to be an object.
async fn object_of(call: &mut Call) -> Result<JsonObject, ApiError> {
    JsonObject::parse(&body_of(call).await?)
}

/// A body that may be left out.
async fn object_or_nothing(call: &mut Call) -> Result<JsonObject, ApiError> {
    let body = body_of(call).await?;
    if body.is_empty() { Ok(JsonObject::default()) } else { JsonObject::parse(&body) }
}

/// What the header x-thread-id says.
fn thread_of(call: &Call) -> Result<Option<&str>, ApiError> {
    let Some(thread) = call.headers().get("x-thread-id") else { return Ok(None) };
    let thread = thread.to_str().map_err(|_| ApiError::invalid("x-thread-id", "x-thread-id must be ASCII"))?;
    Ok(Some(thread.trim()).filter(|thread| !thread.is_empty()))
}

fn definition_id(call: &Call) -> &str {
    call.path("definition")
}

fn desk(call: &Call) -> Desk {
    Desk::of(call)
}
