//! `/persistent-memory`.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use keepline::pipelines::DefinitionKind;
use serde_json::{json, value::RawValue};

use super::{
    super::{
        definitions::{self, Stored},
        runs, steps,
    },
    body_of, definition_id, desk, object_of, object_or_nothing, thread_of,
};
use crate::http::{self, ApiError, Call, JsonObject, expected_revision, with_revision};

const KIND: DefinitionKind = DefinitionKind::Memory;

/// How many there are without `limit` and `offset`.
const TOTAL: &str = "x-total-count";

fn place_of(id: &str) -> String {
    format!("/persistent-memory/types/{id}")
}

fn created(stored: &Stored) -> Result<Response, ApiError> {
    Ok(with_revision(http::created(&place_of(&stored.id), &stored.form)?, stored.revision))
}

fn found(stored: &Stored) -> Result<Response, ApiError> {
    Ok(with_revision(http::json(&stored.form)?, stored.revision))
}

/// All memories, by id.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let only_active = call.query.parse("activeOnly", "true or false")?.unwrap_or(false);
    let wanted = "a whole number from 1";
    let limit: Option<usize> = call.query.parse("limit", wanted)?;
    if limit == Some(0) {
        return Err(ApiError::invalid("limit", format!("limit must be {wanted}")));
    }
    let offset: usize = call.query.parse("offset", "a whole number from 0")?.unwrap_or(0);
    let scope = call.query.get("inputScope").filter(|scope| !scope.is_empty());
    let all = definitions::list(&desk(&call), KIND, scope, only_active).await?;
    let total = all.len();
    let page: Vec<JsonObject> =
        all.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).map(|stored| stored.form).collect();
    let mut response = http::json(&page)?;
    response.headers_mut().insert(TOTAL, HeaderValue::from(total));
    Ok(response)
}

/// Stores a new memory.
pub async fn create(mut call: Call) -> Result<Response, ApiError> {
    let body = object_of(&mut call).await?;
    created(&definitions::create(&desk(&call), KIND, body).await?)
}

/// One memory.
pub async fn get(call: Call) -> Result<Response, ApiError> {
    found(&definitions::get(&desk(&call), KIND, definition_id(&call)).await?)
}

/// Puts members in the place of those of a memory.
pub async fn update(mut call: Call) -> Result<Response, ApiError> {
    let expected = expected_revision(call.headers())?;
    let changes = object_of(&mut call).await?;
    found(&definitions::update(&desk(&call), KIND, definition_id(&call), changes, expected).await?)
}

/// Removes a memory.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let expected = expected_revision(call.headers())?;
    let id = definition_id(&call);
    definitions::remove(&desk(&call), KIND, id, expected).await?;
    http::json(&json!({"success": true, "id": id}))
}

/// Runs a memory. A run that fails was a good request.
pub async fn execute(mut call: Call) -> Result<Response, ApiError> {
    let body = object_or_nothing(&mut call).await?;
    http::json(&runs::execute(&desk(&call), definition_id(&call), body, thread_of(&call)?).await?)
}

/// The definition as a file.
pub async fn export(call: Call) -> Result<Response, ApiError> {
    let stored = definitions::get(&desk(&call), KIND, definition_id(&call)).await?;
    // An id is of letters, digits, points and hyphens.
    let name = format!("attachment; filename=\"{}.json\"", stored.id);
    let mut response = http::json(&stored.into_export())?;
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Stores a memory once more.
pub async fn duplicate(mut call: Call) -> Result<Response, ApiError> {
    let body = object_or_nothing(&mut call).await?;
    created(&definitions::duplicate(&desk(&call), definition_id(&call), &body).await?)
}

/// Stores what was exported.
pub async fn import(mut call: Call) -> Result<Response, ApiError> {
    let overwrite = call.query.parse("overwrite", "true or false")?;
    let body = object_of(&mut call).await?;
    match definitions::import(&desk(&call), body, overwrite).await? {
        (stored, true) => created(&stored),
        (stored, false) => found(&stored),
    }
}

/// Checks a memory. Faults are the answer.
pub async fn validate(mut call: Call) -> Result<Response, ApiError> {
    let body = body_of(&mut call).await?;
    let memory: &RawValue = serde_json::from_slice(&body).map_err(|error| {
        ApiError::new(StatusCode::BAD_REQUEST, "malformed", format!("the body is no JSON: {error}"))
    })?;
    http::json(&definitions::validate(&desk(&call), memory).await?.to_json())
}

/// All types of steps.
pub async fn step_specs(call: Call) -> Result<Response, ApiError> {
    http::json(&steps::specs(&desk(&call), false).await?)
}

/// Those that are for users.
pub async fn user_step_specs(call: Call) -> Result<Response, ApiError> {
    http::json(&steps::specs(&desk(&call), true).await?)
}
