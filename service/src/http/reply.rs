//! Replies that most handlers give.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::ApiError;

/// The media type of JSON lines.
pub const NDJSON: &str = "application/x-ndjson";

/// 200 with a JSON body.
pub fn json(body: &impl Serialize) -> Result<Response, ApiError> {
    with_status(StatusCode::OK, body)
}

/// 201 with a JSON body and the place of what is new.
pub fn created(location: &str, body: &impl Serialize) -> Result<Response, ApiError> {
    let mut response = with_status(StatusCode::CREATED, body)?;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// A text that is JSON, to be embedded as it stands: numbers keep their digits. What only lenient readers take becomes what
/// all take.
pub fn raw_json(text: &str) -> Box<RawValue> {
    let mended = keepline_json::mend_json(text).unwrap_or("null".into());
    RawValue::from_string(mended.into_owned()).unwrap_or_default()
}

fn with_status(status: StatusCode, body: &impl Serialize) -> Result<Response, ApiError> {
    let text = serde_json::to_vec(body).map_err(|error| ApiError::internal(&error))?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
