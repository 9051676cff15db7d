//! Runs of one memory.

use std::time::Instant;

use axum::http::StatusCode;
use keepline::pipelines::{DefinitionKind, Operation, PipelineErrorCode, is_definition_id};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{desk::Desk, requests::thread_of};
use crate::{
    events::{Event, Executed},
    http::{ApiError, JsonObject, raw},
};

/// What stands in a request beside the intent.
const BESIDE: [&str; 4] = ["variables", "thread_id", "intent", "input"];
/// What the engine says of a run, as far as clients get it.
const DATA: [&str; 7] = ["results", "output", "formatted", "query", "exited", "missing_variables", "warnings"];

/// What a run came to.
#[derive(Serialize)]
pub struct RunReply {
    pub success: bool,
    pub data: JsonObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Milliseconds.
    #[serde(rename = "executionTime")]
    pub execution_time: u64,
}

#[derive(Deserialize)]
struct RunError {
    code: String,
    #[serde(default)]
    path: String,
    message: String,
}

/// Runs a memory. `thread`: what a header says of the thread.
pub async fn execute(desk: &Desk, id: &str, body: JsonObject, thread: Option<&str>) -> Result<RunReply, ApiError> {
    let began = Instant::now();
    if !is_definition_id(id) {
        return Err(ApiError::not_found("there is no such memory"));
    }
    let request = request_of(id, body, thread)?;
    let output = desk.run(Operation::Execute, &request).await?.map_err(|error| {
        // Not the request is wrong, but what is stored.
        let is_stored = error.code == PipelineErrorCode::Invalid && !error.findings.is_empty();
        let error = ApiError::from(error);
        if is_stored { ApiError { status: StatusCode::UNPROCESSABLE_ENTITY, ..error } } else { error }
    })?;
    let mut output = JsonObject::parse(output.as_bytes())?;
    let error: Option<RunError> = output.read("error");
    if let Some(RunError { path, message, .. }) = error.as_ref().filter(|error| error.code == "missing_variable") {
        let error = ApiError::new(StatusCode::BAD_REQUEST, "missing_variable", message.clone());
        return Err(ApiError { path: Some(path.clone()), ..error });
    }
    let mut data = JsonObject::default();
    for name in DATA {
        if let Some(value) = output.remove(name) {
            data.set(name, value);
        }
    }
    let success = output.read("success").unwrap_or(false);
    let execution_time = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let items = count_items(data.get("output"));
    desk.announce(&Event::PipelineExecuted(Executed { memory_id: id, success, items, execution_time }));
    let error = error.map(
        |RunError { path, message, .. }| {
            if path.is_empty() { message } else { format!("{path}: {message}") }
        },
    );
    Ok(RunReply { success, data, error, execution_time })
}

fn count_items(output: Option<&RawValue>) -> usize {
    let Some(output) = output else { return 0 };
    match serde_json::from_str::<Vec<&RawValue>>(output.get()) {
        Ok(items) => items.len(),
        Err(_) => usize::from(output.get() != "\"\""),
    }
}

/// The engine's request: the intent's members stand at the top of the body, or under `intent`, or under `input`.
fn request_of(id: &str, mut body: JsonObject, thread: Option<&str>) -> Result<JsonObject, ApiError> {
    let mut variables = body.expect::<JsonObject>("variables", "an object of variables")?.unwrap_or_default();
    let named: Option<String> = body.expect("thread_id", "a text")?;
    let named = named.or_else(|| variables.read("thread_id"));
    if let Some(thread) = thread_of(named.as_deref(), thread)? {
        variables.put("thread_id", &thread);
    }
    let intent = match ["intent", "input"].into_iter().find(|name| body.get(name).is_some()) {
        Some(name) => body.expect::<JsonObject>(name, "an object")?.unwrap_or_default(),
        None => {
            for name in BESIDE {
                body.remove(name);
            }
            body
        }
    };
    check_intent(&intent)?;
    let mut request = JsonObject::default();
    request.put("id", &id);
    request.put("intent", &intent);
    request.put("variables", &variables);
    Ok(request)
}

/// The clients' types of an intent: texts, and a list of texts.
fn check_intent(intent: &JsonObject) -> Result<(), ApiError> {
    intent.expect::<String>("query", "a text")?;
    intent.expect::<String>("action", "a text")?;
    intent.expect::<Vec<String>>("keywords", "a list of texts")?;
    Ok(())
}

/// Which variables a caller has to bring for these memories.
pub async fn required_variables(desk: &Desk, body: &JsonObject) -> Result<Value, ApiError> {
    let wanted = "a list of ids of memories";
    let required = || ApiError::invalid("memory_names", format!("memory_names is required: {wanted}"));
    let ids: Vec<String> = body.expect("memory_names", wanted)?.ok_or_else(required)?;
    if let Some(position) = ids.iter().position(|id| !is_definition_id(id)) {
        return Err(unknown(format!("memory_names[{position}]")));
    }
    let pipelines = desk.pipelines().await?;
    let found = pipelines.required_variables(&desk.owner(), &ids).await.map_err(|error| {
        let path = error.path.replacen("ids", "memory_names", 1);
        match error.code {
            PipelineErrorCode::NotFound => unknown(path),
            _ => ApiError { path: Some(path), ..error.into() },
        }
    })?;
    let mut names: Vec<&str> = found.scopes.iter().flat_map(|scope| &scope.variables).map(|name| &**name).collect();
    names.dedup();
    let scopes: serde_json::Map<String, Value> =
        found.scopes.iter().map(|scope| (scope.scope.clone(), scope.variables.clone().into())).collect();
    let mut additional = serde_json::Map::new();
    for id in &ids {
        let memory = pipelines.get(&desk.owner(), DefinitionKind::Memory, id).await?;
        for (name, variable) in declared_variables(&memory.text) {
            let is_required = variable.read("required").unwrap_or(false);
            let kind: String = variable.read("type").unwrap_or_else(|| "string".to_owned());
            let described = serde_json::json!({"type": kind, "required": is_required, "from_memory": id});
            let before = additional.get(&name).and_then(|before| before.get("required")).and_then(Value::as_bool);
            // One memory that requires it is enough.
            if before.is_none_or(|before| !before && is_required) {
                additional.insert(name, described);
            }
        }
    }
    Ok(serde_json::json!({"scope_variables": names, "scopes": scopes, "additional_variables": additional}))
}

fn unknown(path: String) -> ApiError {
    let error = ApiError::new(StatusCode::BAD_REQUEST, "not_found", "there is no such memory");
    ApiError { path: Some(path), ..error }
}

/// The additional variables that a stored memory declares.
pub fn declared_variables(form: &str) -> Vec<(String, JsonObject)> {
    let form: JsonObject = serde_json::from_str(form).unwrap_or_default();
    let variables: Vec<Box<RawValue>> = form.read("additional_variables").unwrap_or_default();
    let variables = variables.iter().filter_map(|variable| {
        // A name alone is a variable, too.
        let object = JsonObject::of(variable).unwrap_or_default();
        let name = object.read("name").or_else(|| serde_json::from_str(variable.get()).ok())?;
        Some((name, object))
    });
    variables.collect()
}

/// A short description of each memory in use.
pub async fn memory_types(desk: &Desk) -> Result<Vec<JsonObject>, ApiError> {
    let active = desk.pipelines().await?.list(&desk.owner(), DefinitionKind::Memory, None, true).await?;
    let described = active.into_iter().map(|memory| {
        let form: JsonObject = serde_json::from_str(&memory.text).unwrap_or_default();
        let mut described = JsonObject::default();
        described.put("id", &memory.id);
        described.put("name", &memory.id);
        for (name, missing) in [
            ("label", raw(&memory.id)),
            ("description", raw(&"")),
            ("inputs_scope", raw(&[""; 0])),
            ("additional_variables", raw(&[""; 0])),
            ("contribution", raw(&serde_json::json!({"format": "bullet_list"}))),
        ] {
            described.set(name, form.get(name).map(ToOwned::to_owned).unwrap_or(missing));
        }
        described
    });
    Ok(described.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str, thread: Option<&str>) -> Result<String, ApiError> {
        request_of("m", JsonObject::parse(body.as_bytes()).unwrap(), thread).map(|request| request.to_text())
    }

    #[test]
    fn an_intent_stands_in_three_places_and_the_thread_in_three() {
        let expected = r#"{"id":"m","intent":{"query":"q"},"variables":{"thread_id":"t"}}"#;
        for (body, thread) in [
            (r#"{"query":"q"}"#, Some("t")),
            (r#"{"intent":{"query":"q"},"thread_id":"t"}"#, None),
            (r#"{"input":{"query":"q"},"variables":{"thread_id":"t"}}"#, Some("t")),
        ] {
            assert_eq!(request(body, thread).unwrap(), expected);
        }
        let refused = |body, thread| request(body, thread).unwrap_err().path.unwrap();
        assert_eq!(refused(r#"{"thread_id":"t"}"#, Some("u")), "x-thread-id");
        assert_eq!(refused(r#"{"intent":[]}"#, None), "intent");
        assert_eq!(refused(r#"{"intent":{"keywords":"one"}}"#, None), "keywords");
    }
}
