//! `/context-assembly`.

use axum::response::Response;
use serde_json::{Value, json};

use super::{
    super::{assembly, requests::engine_request, rules, runs},
    desk, object_of, thread_of,
};
use crate::http::{self, ApiError, Call, Finding, JsonObject};

async fn request_of(call: &mut Call) -> Result<JsonObject, ApiError> {
    let body = object_of(call).await?;
    engine_request(body, thread_of(call)?)
}

/// Assembles what memories contribute.
pub async fn assemble(mut call: Call) -> Result<Response, ApiError> {
    let request = request_of(&mut call).await?;
    http::json(&assembly::assemble(&desk(&call), &request).await?)
}

/// Checks a request without running anything.
pub async fn validate(mut call: Call) -> Result<Response, ApiError> {
    let request = request_of(&mut call).await?;
    let checked = assembly::check(&desk(&call), request).await?;
    let of = |found: &[Finding]| -> Value {
        found.iter().map(|found| json!({"path": found.path, "message": found.message})).collect()
    };
    http::json(&json!({
        "valid": checked.errors.is_empty(),
        "errors": of(&checked.errors),
        "warnings": of(&checked.warnings),
        "resolved_memories": checked.resolved_memories,
    }))
}

/// The memories in use, in short.
pub async fn memory_types(call: Call) -> Result<Response, ApiError> {
    http::json(&runs::memory_types(&desk(&call)).await?)
}

/// Asks rule engines.
pub async fn evaluate_rules(mut call: Call) -> Result<Response, ApiError> {
    let request = request_of(&mut call).await?;
    http::json(&rules::evaluate(&desk(&call), &request).await?)
}

/// What a caller has to bring for some memories.
pub async fn required_variables(mut call: Call) -> Result<Response, ApiError> {
    let body = object_of(&mut call).await?;
    http::json(&runs::required_variables(&desk(&call), &body).await?)
}
