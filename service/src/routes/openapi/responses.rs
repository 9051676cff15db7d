//! The statuses with which a route may answer, each with its body.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::{
    descriptions::{Description, Form},
    links,
};
use crate::http::{Access, ErrorShape, Route};

/// The schema of a shape of errors, and the name of the response that has it.
const fn error_of(shape: ErrorShape) -> &'static str {
    match shape {
        ErrorShape::Keepline => "Error",
        ErrorShape::CodeBolt => "CodeBoltError",
        ErrorShape::NeuroLink => "NeuroLinkError",
    }
}

/// What all routes that fail in one shape share.
pub fn shared() -> Value {
    let shapes = [ErrorShape::Keepline, ErrorShape::CodeBolt, ErrorShape::NeuroLink].map(error_of);
    let shared =
        shapes.map(|name| (name.to_owned(), response("It was refused, or failed.", [("application/json", name)])));
    Map::from_iter(shared).into()
}

/// By status.
pub fn of(route: &Route, description: &Description) -> Value {
    let error = json!({"$ref": format!("#/components/responses/{}", error_of(route.errors))});
    let mut responses: Map<String, Value> =
        refusals(route, description).map(|status| (status.to_string(), error.clone())).collect();
    for status in description.statuses {
        let is_bare = matches!(status, 101 | 304);
        let forms = description.media.iter().map(|media| (*media, description.reply)).chain(description.also_sends);
        let mut response = response(about(*status), forms.filter(|_| !is_bare));
        let links = links::of(route);
        if let Some(members) = response.as_object_mut() {
            if description.is_tagged {
                let tag =
                    json!({"description": "The tag of what is shown, for if-match", "schema": {"type": "string"}});
                members.insert("headers".to_owned(), json!({"etag": tag}));
            }
            if !links.is_empty() {
                members.insert("links".to_owned(), links.into());
            }
        }
        responses.insert(status.to_string(), response);
    }
    responses.into()
}

/// With which statuses a route may refuse, or fail.
fn refusals(route: &Route, description: &Description) -> impl Iterator<Item = u16> {
    let is_keyed = route.access != Access::Public;
    let takes_body = matches!(route.method, Method::POST | Method::PUT | Method::PATCH);
    let is_read = matches!(route.method, Method::GET);
    let names_something =
        route.path.contains('{') || takes_body || description.query.iter().any(|(name, _)| *name == "session");
    let is_keepline = route.errors == ErrorShape::Keepline;
    let refusals = [
        (400, true),
        (401, is_keyed),
        (403, true),
        (404, names_something),
        (409, is_keyed && (is_keepline || !is_read)),
        (412, !route.conditions.is_empty()),
        (413, takes_body),
        (415, takes_body),
        (422, takes_body),
        (426, description.statuses == [101]),
        (500, true),
        (501, is_keyed && is_keepline),
        (503, true),
        (504, true),
    ];
    refusals.into_iter().filter_map(|(status, may_come)| may_come.then_some(status))
}

fn about(status: u16) -> &'static str {
    match status {
        101 => "The socket is open.",
        201 => "It is new; location says where it is.",
        304 => "It is still the same.",
        503 => "It is not so.",
        _ => "It was done.",
    }
}

/// A body in one of these forms; without one, none.
fn response(about: &str, forms: impl IntoIterator<Item = Form>) -> Value {
    let content = content(forms);
    match content.is_empty() {
        true => json!({"description": about}),
        false => json!({"description": about, "content": content}),
    }
}

/// The schema of a body by its media type.
pub fn content(forms: impl IntoIterator<Item = Form>) -> Map<String, Value> {
    forms.into_iter().map(|(media, schema)| (media.to_owned(), json!({"schema": schema_of(schema)}))).collect()
}

/// A schema by its name; without one: anything.
fn schema_of(name: &str) -> Value {
    if name.is_empty() { json!({}) } else { json!({"$ref": format!("#/components/schemas/{name}")}) }
}
