//! `/context-rule-engine`.

use axum::response::Response;
use keepline::pipelines::DefinitionKind;
use serde_json::json;

use super::{
    super::{definitions, requests::engine_request, rules},
    definition_id, desk, object_of, thread_of,
};
use crate::http::{self, ApiError, Call, JsonObject, expected_revision, with_revision};

const KIND: DefinitionKind = DefinitionKind::Rules;

/// All rule engines, by id.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let all = definitions::list(&desk(&call), KIND, None, false).await?;
    http::json(&all.into_iter().map(|stored| stored.form).collect::<Vec<JsonObject>>())
}

/// Stores a new rule engine.
pub async fn create(mut call: Call) -> Result<Response, ApiError> {
    let body = object_of(&mut call).await?;
    let stored = definitions::create(&desk(&call), KIND, body).await?;
    let place = format!("/context-rule-engine/{}", stored.id);
    Ok(with_revision(http::created(&place, &stored.form)?, stored.revision))
}

/// One rule engine.
pub async fn get(call: Call) -> Result<Response, ApiError> {
    let stored = definitions::get(&desk(&call), KIND, definition_id(&call)).await?;
    Ok(with_revision(http::json(&stored.form)?, stored.revision))
}

/// Puts members in the place of those of a rule engine.
pub async fn update(mut call: Call) -> Result<Response, ApiError> {
    let expected = expected_revision(call.headers())?;
    let changes = object_of(&mut call).await?;
    let stored = definitions::update(&desk(&call), KIND, definition_id(&call), changes, expected).await?;
    Ok(with_revision(http::json(&stored.form)?, stored.revision))
}

/// Removes a rule engine.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let expected = expected_revision(call.headers())?;
    let id = definition_id(&call);
    definitions::remove(&desk(&call), KIND, id, expected).await?;
    http::json(&json!({"success": true, "id": id}))
}

/// Asks one rule engine.
pub async fn evaluate(mut call: Call) -> Result<Response, ApiError> {
    let request = engine_request(object_of(&mut call).await?, thread_of(&call)?)?;
    http::json(&rules::evaluate_one(&desk(&call), definition_id(&call), request).await?)
}

/// What rules may look at.
pub async fn variables(call: Call) -> Result<Response, ApiError> {
    http::json(&rules::variables(&desk(&call)).await?)
}
