//! What a request is refused with, in the shape that its clients know.

use std::{
    borrow::Cow,
    fmt::Display,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde_json::{Map, Value, json};

use crate::time::timestamp;

/// One fault of what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub message: String,
}

/// Why a request is refused. Messages name no secret, no address of a store and no text of a conversation.
#[derive(Clone, Debug)]
pub struct ApiError {
    pub status: StatusCode,
    /// One of the route's codes, in small letters with `_`.
    pub code: Cow<'static, str>,
    pub message: String,
    /// The parameter, header or member that is wrong.
    pub path: Option<String>,
    /// All faults, where several are found at once.
    pub findings: Vec<Finding>,
    /// When to try again.
    pub retry_after: Option<Duration>,
}

/// How errors look: each system's clients know their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorShape {
    /// `{error: {message, type, param, code}}`, as OpenAI's.
    Keepline,
    /// `{error: {code, message, path, errors: [{path, message}]}}`.
    CodeBolt,
    /// `{error: {code, message}, metadata: {requestId, timestamp, duration}}`.
    NeuroLink,
}

impl ApiError {
    /// An error without a place.
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let (code, message) = (code.into(), message.into());
        Self { status, code, message, path: None, findings: Vec::new(), retry_after: None }
    }

    /// 400: a parameter, header or member is wrong.
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..Self::new(StatusCode::BAD_REQUEST, "invalid", message) }
    }

    /// 404, the same for what is unknown, deleted or another's.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 503: the store failed, or there is too much to do.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let retry_after = Some(Duration::from_secs(1));
        Self { retry_after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message) }
    }

    /// 500. What it was is logged and not sent.
    pub fn internal(error: &dyn Display) -> Self {
        tracing::error!(target: "keepline.service", "a request failed: {error:#}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request failed; the service's log says why")
    }

    /// The reply to a request with this id, which began then.
    pub fn respond(&self, shape: ErrorShape, request_id: &str, started: Instant) -> Response {
        let mut response = Response::new(Body::from(self.to_json(shape, request_id, started).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn to_json(&self, shape: ErrorShape, request_id: &str, started: Instant) -> Value {
        match shape {
            ErrorShape::Keepline => json!({"error": {
                "message": self.message, "type": self.kind(), "param": self.path, "code": self.code,
            }}),
            ErrorShape::CodeBolt => {
                let code = if self.status == StatusCode::UNAUTHORIZED { "unauthorized" } else { &self.code };
                let mut error = Map::from_iter([
                    ("code".to_owned(), Value::from(code)),
                    ("message".to_owned(), Value::from(self.message.as_str())),
                ]);
                // Of several faults, the first one's.
                let first = self.findings.first().map(|first| &first.path);
                if let Some(path) = self.path.as_ref().or(first) {
                    error.insert("path".to_owned(), Value::from(path.as_str()));
                }
                if !self.findings.is_empty() {
                    let findings = self.findings.iter();
                    let findings = findings.map(|found| json!({"path": found.path, "message": found.message}));
                    error.insert("errors".to_owned(), findings.collect());
                }
                json!({"error": error})
            }
            ErrorShape::NeuroLink => json!({
                "error": {"code": self.neurolink_code(), "message": self.message},
                "metadata": {
                    "requestId": request_id,
                    "timestamp": timestamp(),
                    "duration": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                },
            }),
        }
    }

    /// As NeuroLink's server spells it.
    fn neurolink_code(&self) -> String {
        match &*self.code {
            "key_required" => "AUTH_REQUIRED".to_owned(),
            "key_invalid" => "AUTH_INVALID".to_owned(),
            code => code.to_ascii_uppercase(),
        }
    }

    /// OpenAI's `type`.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            409 | 412 => "conflict_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }
}

impl From<anyhow::Error> for ApiError {
    fn from(error: anyhow::Error) -> Self {
        Self::internal(&format_args!("{error:#}"))
    }
}
