//! What an assembly or an evaluation is asked with, in the forms that clients write it, as the engine has it.

use keepline::pipelines::InputScope;
use serde_json::value::RawValue;

use crate::http::{ApiError, JsonObject, raw};

/// The thread of a request: what its body names, or else its header.
///
/// # Errors
/// 400 at the header, if both name one and they differ.
pub fn thread_of(named: Option<&str>, header: Option<&str>) -> Result<Option<String>, ApiError> {
    match (named, header) {
        (Some(named), Some(header)) if named != header => {
            Err(ApiError::invalid("x-thread-id", "x-thread-id is another thread than the body names"))
        }
        (named, header) => Ok(named.or(header).map(str::to_owned)),
    }
}

/// A request in the engine's form: `input` may be a text, and a variable may stand without its scope.
///
/// # Errors
/// As [`thread_of`].
pub fn engine_request(mut body: JsonObject, header: Option<&str>) -> Result<JsonObject, ApiError> {
    for name in ["input", "rule_engine_ids", "explicit_memory", "constraints", "additional_variables"] {
        // Null is as if it were absent.
        if body.get(name).is_none() {
            body.remove(name);
        }
    }
    if let Some(text) = body.read::<String>("input") {
        body.put("input", &serde_json::json!({"text": text}));
    }
    // What is no object of variables is the engine's to refuse.
    if let Some(given) = body.get("scope_variables").and_then(JsonObject::of) {
        let mut scopes = scoped(&given, &mut body);
        add_thread(&mut scopes, header)?;
        body.put("scope_variables", &scopes);
    }
    Ok(body)
}

/// Variables by scope. One that stands alone is its scope's, if a scope has one of that name, and else an additional one.
fn scoped(given: &JsonObject, body: &mut JsonObject) -> JsonObject {
    let mut scopes = JsonObject::default();
    let mut additional: Option<JsonObject> = None;
    let mut alone: Vec<(InputScope, &str, &RawValue)> = Vec::new();
    for (name, value) in given.members() {
        if InputScope::from_name(name).is_some() || JsonObject::of(value).is_some() {
            scopes.set(name, value.to_owned());
        } else if let Some(scope) = InputScope::of_variable(name) {
            alone.push((scope, name, value));
        } else {
            let own = || body.get("additional_variables").and_then(JsonObject::of).unwrap_or_default();
            let additional = additional.get_or_insert_with(own);
            if additional.get(name).is_none() {
                additional.set(name, value.to_owned());
            }
        }
    }
    for (scope, name, value) in alone {
        let own = scopes.get(scope.name()).map_or_else(|| Some(JsonObject::default()), JsonObject::of);
        // A scope that is no object is the engine's to refuse.
        let Some(mut variables) = own else { continue };
        if variables.get(name).is_none() {
            variables.set(name, value.to_owned());
        }
        scopes.put(scope.name(), &variables);
    }
    if let Some(additional) = additional {
        body.put("additional_variables", &additional);
    }
    scopes
}

fn add_thread(scopes: &mut JsonObject, header: Option<&str>) -> Result<(), ApiError> {
    let Some(header) = header else { return Ok(()) };
    let scope = InputScope::Thread.name();
    let mut variables = match scopes.get(scope) {
        Some(given) => match JsonObject::of(given) {
            Some(variables) => variables,
            None => return Ok(()),
        },
        None => JsonObject::default(),
    };
    let named: Option<String> = variables.read("thread_id");
    if let Some(thread) = thread_of(named.as_deref(), Some(header))? {
        variables.set("thread_id", raw(&thread));
    }
    scopes.put(scope, &variables);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str, header: Option<&str>) -> Result<String, ApiError> {
        engine_request(JsonObject::parse(body.as_bytes()).unwrap(), header).map(|request| request.to_text())
    }

    #[test]
    fn flat_variables_find_their_scopes_and_others_are_additional() {
        let body = r#"{"scope_variables":{"project_id":"p","agentId":7.0,"user":{"user_id":"u"}},"input":"x","rule_engine_ids":null}"#;
        let expected = r#"{"scope_variables":{"user":{"user_id":"u"},"project":{"project_id":"p"}},"input":{"text":"x"},"additional_variables":{"agentId":7.0}}"#;
        assert_eq!(request(body, None).unwrap(), expected);
    }

    #[test]
    fn the_threads_of_header_and_body_are_the_same() {
        let header = Some("t");
        let expected = r#"{"scope_variables":{"thread":{"thread_id":"t"}}}"#;
        for body in [r#"{"scope_variables":{}}"#, expected, r#"{"scope_variables":{"thread_id":"t"}}"#] {
            assert_eq!(request(body, header).unwrap(), expected);
        }
        let refused = request(expected, Some("u")).unwrap_err();
        assert_eq!(refused.path.as_deref(), Some("x-thread-id"));
        // Without scopes there is nothing to put it into: they are required.
        assert_eq!(request("{}", header).unwrap(), "{}");
    }
}
