//! `/openapi.json`: the table of routes as an OpenAPI 3.1 description.
//!
//! Paths, methods, scopes and summaries come from the table itself, so no route is missing and none is made up. What a row of
//! [`descriptions`] adds is its query, its headers, its body and its reply; the schemas that these name are in `schemas.json`, and
//! those of other systems beside it.

mod codebolt;
pub mod descriptions;
pub mod links;
mod neurolink;
mod responses;

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderValue, Method, header},
    response::Response,
};
use keepline::pipelines::InputScope;
use serde_json::{Map, Value, json};

use self::descriptions::{NONE, description_of, of};
use super::codebolt::request_types;
use crate::{
    events,
    http::{Access, ApiError, Call, ErrorShape, Route, handler},
};

/// Schemas by name: Keepline's, and those of each other system.
const SCHEMAS: [&str; 3] =
    [include_str!("schemas.json"), include_str!("codebolt.json"), include_str!("neurolink.json")];

/// The route of the description: of these routes, and itself.
pub fn routes(others: &[Route]) -> Vec<Route> {
    let mut own = Route {
        method: Method::GET,
        path: "/openapi.json",
        access: Access::Public,
        errors: ErrorShape::Keepline,
        conditions: &[],
        about: "Describes all routes",
        handler: handler(missing),
    };
    let document: Arc<str> = describe(others.iter().chain([&own])).to_string().into();
    own.handler = Box::new(move |_| {
        let document = document.clone();
        Box::pin(async move { Ok(reply(&document)) })
    });
    vec![own]
}

/// Stands for the handler until there is a description.
async fn missing(_: Call) -> Result<Response, ApiError> {
    Err(ApiError::not_found("there is no description"))
}

fn reply(document: &str) -> Response {
    let mut response = Response::new(Body::from(document.to_owned()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The description of these routes.
pub fn describe<'a>(routes: impl IntoIterator<Item = &'a Route>) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.as_str().to_ascii_lowercase(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Keepline", "version": env!("CARGO_PKG_VERSION"), "description": "Memory for LLM pipelines"},
        "paths": paths,
        "x-socket": {"requests": request_types().collect::<Vec<_>>(), "events": events::TYPES},
        "components": {
            "schemas": schemas(),
            "responses": responses::shared(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    })
}

/// All schemas, by name.
pub fn schemas() -> Map<String, Value> {
    let parsed = SCHEMAS.iter().map(|text| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default());
    parsed.flatten().collect()
}

fn operation(route: &Route) -> Value {
    let description = description_of(route).unwrap_or(of("", NONE, "", ""));
    let path = links::path_names(route.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": kind_of(route, name)}));
    let named = |(parameters, place): (descriptions::Parameters, &'static str)| {
        parameters.iter().map(move |(name, about)| {
            // Of lines it says which.
            let required = *name == "text";
            json!({"name": name, "in": place, "description": about, "required": required, "schema": kind_of(route, name)})
        })
    };
    let beside = [(description.query, "query"), (description.headers, "header")].into_iter().flat_map(named);
    let conditions = route.conditions.iter().map(|name| condition(name));
    let parameters: Vec<Value> = path.chain(beside).chain(conditions).collect();
    let responses = responses::of(route, &description);
    let mut operation = json!({"summary": route.about, "parameters": parameters, "responses": responses});
    if let Some(members) = operation.as_object_mut() {
        match route.access {
            Access::Public => drop(members.insert("security".to_owned(), json!([]))),
            Access::Needs(scope) => {
                members.insert("security".to_owned(), json!([{"bearer": []}, {"key": []}]));
                members.insert("x-scope".to_owned(), scope.name().into());
            }
        }
        if !description.request.is_empty() {
            let media = description.request_media.iter().map(|media| (*media, description.request));
            let content = responses::content(media.chain(description.also_takes));
            let is_required = !MAY_LACK_BODY.contains(&route.path);
            members.insert("requestBody".to_owned(), json!({"required": is_required, "content": content}));
        }
    }
    operation
}

/// A header that makes a change depend on what is there.
fn condition(name: &str) -> Value {
    let (about, schema) = match name {
        "if-match" => ("The etag of what is changed", json!({"type": "string", "pattern": "^\"[!#-~]+\"$"})),
        _ => ("*: only where there is none", json!({"const": "*"})),
    };
    json!({"name": name, "in": "header", "description": about, "schema": schema})
}

/// Routes that take no body for an empty one.
const MAY_LACK_BODY: [&str; 7] = [
    "/keepline/v1/memories/{definition}/run",
    "/keepline/v1/definitions/{kind}/check",
    "/keepline/v1/sessions/{id}/keys/{key}/increment",
    "/keepline/v1/import",
    "/persistent-memory/types/{definition}/execute",
    "/persistent-memory/types/{definition}/duplicate",
    "/context-rule-engine/{definition}/evaluate",
];

/// What a parameter of that name may be.
fn kind_of(route: &Route, name: &str) -> Value {
    let is_keepline = route.path.starts_with("/keepline/");
    match name {
        "kind" => json!({"enum": ["memories", "rule-engines"]}),
        "dataset" => json!({"enum": ["values", "events", "documents", "nodes", "edges", "views"]}),
        "order" => json!({"enum": ["asc", "desc"]}),
        "role" => json!({"enum": ["user", "assistant", "tool"]}),
        "scope" | "inputScope" => json!({"enum": InputScope::ALL.iter().map(|scope| scope.name()).collect::<Vec<_>>()}),
        "ignore_case" | "active" | "activeOnly" | "configurable" | "overwrite" | "replace" | "dry_run" => {
            json!({"type": "boolean"})
        }
        "limit" if route.path.ends_with("/text") => json!({"type": "integer", "minimum": 1, "maximum": 200_000}),
        "limit" if route.path.ends_with("/lines") => json!({"type": "integer", "minimum": 1, "maximum": 1000}),
        "limit" if is_keepline => json!({"type": "integer", "minimum": 1, "maximum": 100}),
        "limit" => json!({"type": "integer", "minimum": 1}),
        "budget" => json!({"type": "integer", "minimum": 64, "maximum": 2_000_000}),
        "context" => json!({"type": "integer", "minimum": 0, "maximum": 20}),
        // Where it stands for what is to be removed; elsewhere it is a message's id.
        "branch" if route.method == Method::DELETE => whole_number(),
        "position" | "offset" | "from" => whole_number(),
        "text" => json!({"type": "string", "minLength": 1, "maxLength": 256}),
        "key" => json!({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,256}$"}),
        "definition" => json!({"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$"}),
        "id" | "user" if route.path.contains(&format!("{{{name}}}")) => json!({"type": "string", "minLength": 1}),
        "idempotency-key" => json!({"type": "string", "pattern": "^[!-~]{1,128}$"}),
        "if-match" => json!({"type": "string", "pattern": "^\"[1-9][0-9]{0,17}\"$"}),
        "if-none-match" if route.method != Method::GET => json!({"enum": ["*"]}),
        _ => json!({"type": "string"}),
    }
}

fn whole_number() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})
}
