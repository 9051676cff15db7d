//! Runs, assemblies and rules: requests as JSON, and what comes of them, as the library has them.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use keepline::pipelines::{Asker, Operation};
use serde_json::{Map, Value};

use super::super::ownership::{OwnedSession, reached_user};
use super::{definitions::at_id, pipelines, project};
use crate::http::{ApiError, Call};

/// Runs a memory. The body: `intent`, `variables`, `thread_id`; the reply says whether it succeeded.
pub async fn run(mut call: Call) -> Result<Response, ApiError> {
    let mut request = request_of(&mut call).await?;
    request.insert("id".to_owned(), call.path("definition").into());
    for name in ["intent", "variables"] {
        request.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    carry_out(&call, Operation::Execute, request).await
}

/// Assembles what memories contribute, under a budget.
pub async fn assemble(mut call: Call) -> Result<Response, ApiError> {
    let request = request_of(&mut call).await?;
    carry_out(&call, Operation::Assemble, request).await
}

/// Asks rule engines which memories a request calls for.
pub async fn evaluate(mut call: Call) -> Result<Response, ApiError> {
    let request = request_of(&mut call).await?;
    carry_out(&call, Operation::EvaluateRules, request).await
}

async fn request_of(call: &mut Call) -> Result<Map<String, Value>, ApiError> {
    let body = call.bytes().await?;
    if body.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(&body).map_err(|error| {
        ApiError::new(StatusCode::BAD_REQUEST, "malformed", format!("the body must be a JSON object: {error}"))
    })
}

/// The asking session and user come from the parameters `session` and `user`, and never from the request's variables.
async fn carry_out(call: &Call, operation: Operation, request: Map<String, Value>) -> Result<Response, ApiError> {
    let mut asker = Asker::new(project(call));
    asker.user = reached_user(call, call.query.get("user"))?;
    let session = match call.query.get("session").filter(|session| !session.is_empty()) {
        Some(session) => Some(OwnedSession::open_or_absent(call, session).await?),
        None => None,
    };
    asker.session = session.as_ref().map(|session| session.id().to_owned());
    let input = Value::from(request).to_string();
    let output = pipelines(call).await?.run(&asker, operation, &input, Some(call.deadline)).await.map_err(at_id)?;
    if let Some(session) = &session {
        OwnedSession::open_or_absent(call, session.id()).await?;
    }
    // The order of members is the plugin's.
    let mut response = Response::new(Body::from(output));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
