//! Definitions of memories and rule engines.
//!
//! A definition's revision is its `ETag`. With `If-Match` a change is made only on that revision, and with `If-None-Match: *`
//! a definition is stored only where there is none (412 otherwise).

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use keepline::pipelines::{Checked, Definition, DefinitionForm, DefinitionKind, DefinitionQuery, PipelineError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::{named_as, pipelines, project};
use crate::http::{
    self, ApiError, Call, Page, expected_revision, raw_json, require_project_writer, with_expectation, with_revision,
};

/// A stored definition.
#[derive(Serialize)]
struct DefinitionFields {
    object: &'static str,
    id: String,
    kind: &'static str,
    revision: u64,
    definition: Box<RawValue>,
}

impl DefinitionFields {
    fn new(kind: DefinitionKind, found: Definition) -> Self {
        let definition = raw_json(&found.text);
        Self { object: "definition", id: found.id, kind: kind.name(), revision: found.revision, definition }
    }
}

fn reply(kind: DefinitionKind, found: Definition) -> Result<Response, ApiError> {
    let revision = found.revision;
    Ok(with_revision(http::json(&DefinitionFields::new(kind, found))?, revision))
}

fn kind_of(call: &Call) -> Result<DefinitionKind, ApiError> {
    match call.path("kind") {
        "memories" => Ok(DefinitionKind::Memory),
        "rule-engines" => Ok(DefinitionKind::Rules),
        _ => Err(ApiError::not_found("there are definitions of two kinds: memories and rule-engines")),
    }
}

fn form_of(headers: &HeaderMap) -> DefinitionForm {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/yaml" | "application/x-yaml" | "text/yaml" => DefinitionForm::Yaml,
        _ => DefinitionForm::Json,
    }
}

async fn text_of_body(call: &mut Call) -> Result<String, ApiError> {
    let body = call.bytes().await?;
    String::from_utf8(body.to_vec()).map_err(|_| ApiError::invalid("definition", "the body must be UTF-8"))
}

/// Lists definitions, by id.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let kind = kind_of(&call)?;
    let only_active = call.query.parse("active", "true or false")?.unwrap_or(false);
    let scope = call.query.get("scope").map(str::to_owned);
    let cursor = call.query.get("after").unwrap_or_default().to_owned();
    let query = DefinitionQuery { ids: Vec::new(), scope, only_active, cursor };
    let found = pipelines(&call).await?.find(&project(&call), kind, &query).await;
    let found = found.map_err(|error| named_as(&["inputScope"], "scope", error))?;
    let definitions = found.definitions.into_iter().map(|found| DefinitionFields::new(kind, found)).collect();
    let next = Some(found.cursor).filter(|cursor| !cursor.is_empty());
    http::json(&Page::new(definitions, |definition| definition.id.clone(), next))
}

/// An error about the key that an id is in the store, at the parameter.
pub fn at_id(mut error: PipelineError) -> PipelineError {
    if error.path == "key" {
        "definition".clone_into(&mut error.path);
    }
    error
}

/// One definition.
pub async fn get(call: Call) -> Result<Response, ApiError> {
    let kind = kind_of(&call)?;
    let found = pipelines(&call).await?.get(&project(&call), kind, call.path("definition")).await;
    reply(kind, found.map_err(at_id)?)
}

/// Stores a definition under the id of the path: JSON, or with `content-type: application/yaml` YAML.
pub async fn put(mut call: Call) -> Result<Response, ApiError> {
    require_project_writer(&call.caller)?;
    let (kind, form, expected) = (kind_of(&call)?, form_of(call.headers()), expected_revision(call.headers())?);
    let text = text_of_body(&mut call).await?;
    let pipelines = pipelines(&call).await?;
    let checked = pipelines.check(kind, form, &text).await?;
    if let Some(definition) = &checked.definition
        && definition.id != call.path("definition")
    {
        return Err(ApiError::invalid("id", "id must be that of the path"));
    }
    let stored = pipelines.put(&project(&call), kind, form, &text, expected).await;
    reply(kind, stored.map_err(|error| with_expectation(error, expected.is_some()))?)
}

/// Puts members in place of those of a stored definition.
pub async fn update(mut call: Call) -> Result<Response, ApiError> {
    require_project_writer(&call.caller)?;
    let (kind, expected) = (kind_of(&call)?, expected_revision(call.headers())?);
    let changes = text_of_body(&mut call).await?;
    if let Err(error) = serde_json::from_str::<Map<String, Value>>(&changes) {
        let message = format!("the body must be a JSON object: {error}");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "malformed", message));
    }
    let pipelines = pipelines(&call).await?;
    let stored = pipelines.update(&project(&call), kind, call.path("definition"), &changes, expected).await;
    reply(kind, stored.map_err(|error| with_expectation(at_id(error), expected.is_some()))?)
}

/// Removes a definition.
pub async fn remove(call: Call) -> Result<Response, ApiError> {
    require_project_writer(&call.caller)?;
    let (kind, expected, id) = (kind_of(&call)?, expected_revision(call.headers())?, call.path("definition"));
    let removed = pipelines(&call).await?.remove(&project(&call), kind, id, expected).await;
    let revision = removed.map_err(|error| with_expectation(at_id(error), expected.is_some()))?;
    http::json(&json!({"object": "definition.deleted", "id": id, "deleted": true, "revision": revision}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Copy {
    id: Option<String>,
}

/// Stores a definition once more, under another id.
pub async fn duplicate(mut call: Call) -> Result<Response, ApiError> {
    require_project_writer(&call.caller)?;
    let kind = kind_of(&call)?;
    let Copy { id } = call.json().await?;
    let pipelines = pipelines(&call).await?;
    let copy = pipelines.duplicate(&project(&call), kind, call.path("definition"), id.as_deref()).await;
    reply(kind, copy.map_err(at_id)?)
}

/// Validates a definition without storing it.
pub async fn check(mut call: Call) -> Result<Response, ApiError> {
    let (kind, form) = (kind_of(&call)?, form_of(call.headers()));
    let text = text_of_body(&mut call).await?;
    let Checked { findings, definition } = pipelines(&call).await?.check(kind, form, &text).await?;
    let of = |is_error: bool| -> Vec<Value> {
        let findings = findings.iter().filter(|finding| finding.is_error == is_error);
        findings.map(|finding| json!({"path": finding.path, "message": finding.message})).collect()
    };
    http::json(&json!({
        "object": "definition.checked", "valid": definition.is_some(), "errors": of(true), "warnings": of(false),
    }))
}

/// The types of steps, with their parameters.
pub async fn steps(call: Call) -> Result<Response, ApiError> {
    let only_configurable = call.query.parse("configurable", "true or false")?.unwrap_or(false);
    let steps = pipelines(&call).await?.describe_steps(only_configurable).await?;
    let steps: Vec<Box<RawValue>> = serde_json::from_str(&steps).map_err(|error| ApiError::internal(&error))?;
    http::json(&json!({"object": "list", "data": steps, "has_more": false}))
}
