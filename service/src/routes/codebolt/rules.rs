//! Rule engines asked which memories a request calls for, and what rules may look at.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use keepline::pipelines::{DefinitionKind, InputScope, Operation, PipelineError, PipelineErrorCode, is_definition_id};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{desk::Desk, runs::declared_variables};
use crate::http::{ApiError, JsonObject, raw};

/// What the rules came to: the engine's members, and those of the agent SDK.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    pub memories: Vec<String>,
    pub rules_applied: Box<RawValue>,
    variables_used: Vec<String>,
    pub matched: bool,
    pub matched_rules: Vec<String>,
    included_memories: Vec<String>,
    /// No rule excludes or forces a memory.
    excluded_memories: [String; 0],
    forced_memories: [String; 0],
}

#[derive(Deserialize)]
struct Evaluated {
    memories: Vec<String>,
    rules_applied: Box<RawValue>,
    #[serde(default)]
    variables_used: Vec<String>,
}

#[derive(Deserialize)]
struct AppliedRule {
    rule_id: String,
}

/// The ids of the rules of a list of engine and rule.
pub fn rule_ids(applied: &RawValue) -> Vec<String> {
    let applied: Vec<AppliedRule> = serde_json::from_str(applied.get()).unwrap_or_default();
    applied.into_iter().map(|rule| rule.rule_id).collect()
}

/// An error of a request that names what isn't there: it is the request's, and no missing path.
pub fn of_request(error: PipelineError) -> ApiError {
    let is_named = error.code == PipelineErrorCode::NotFound;
    let error = ApiError::from(error);
    if is_named { ApiError { status: StatusCode::BAD_REQUEST, ..error } } else { error }
}

/// Asks the engines that a request names, or all.
pub async fn evaluate(desk: &Desk, request: &JsonObject) -> Result<Evaluation, ApiError> {
    evaluate_rules(desk, request).await.map_err(|error| match error {
        Unevaluated::Pipelines(error) => of_request(error),
        Unevaluated::Other(error) => error,
    })
}

/// Asks one engine.
pub async fn evaluate_one(desk: &Desk, id: &str, mut request: JsonObject) -> Result<Evaluation, ApiError> {
    request.put("rule_engine_ids", &[id]);
    evaluate_rules(desk, &request).await.map_err(|error| match error {
        Unevaluated::Pipelines(error) if error.code == PipelineErrorCode::NotFound => {
            ApiError::not_found("there is no such rule engine")
        }
        Unevaluated::Pipelines(error) => error.into(),
        Unevaluated::Other(error) => error,
    })
}

/// Why rules were not evaluated.
enum Unevaluated {
    Pipelines(PipelineError),
    Other(ApiError),
}

impl From<ApiError> for Unevaluated {
    fn from(error: ApiError) -> Self {
        Self::Other(error)
    }
}

async fn evaluate_rules(desk: &Desk, request: &JsonObject) -> Result<Evaluation, Unevaluated> {
    // What can be no id is as unknown as any other.
    let ids: Vec<String> = request.read("rule_engine_ids").unwrap_or_default();
    if let Some(position) = ids.iter().position(|id| !is_definition_id(id)) {
        let mut error = PipelineError::invalid(format!("rule_engine_ids[{position}]"), "there is no such rule engine");
        error.code = PipelineErrorCode::NotFound;
        return Err(Unevaluated::Pipelines(error));
    }
    let output = desk.run(Operation::EvaluateRules, request).await?.map_err(Unevaluated::Pipelines)?;
    let Evaluated { memories, rules_applied, variables_used } =
        serde_json::from_str(&output).map_err(|error| ApiError::internal(&error))?;
    let matched_rules = rule_ids(&rules_applied);
    Ok(Evaluation {
        included_memories: memories.clone(),
        memories,
        variables_used,
        matched: !matched_rules.is_empty(),
        matched_rules,
        rules_applied,
        excluded_memories: [],
        forced_memories: [],
    })
}

/// What a rule may look at: the text of the input, what conditions look at already, and what memories declare.
pub async fn variables(desk: &Desk) -> Result<Vec<Value>, ApiError> {
    let (pipelines, owner) = (desk.pipelines().await?, desk.owner());
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    let mut add = |name: String| {
        let source = if name == "input.text" {
            "system"
        } else if name.starts_with("scope.") {
            "scope"
        } else {
            "memory"
        };
        let variable = json!({"name": name, "type": "string", "source": source});
        found.entry(name).or_insert(variable);
    };
    add("input.text".to_owned());
    for engine in pipelines.list(&owner, DefinitionKind::Rules, None, false).await? {
        fields_of(&engine.text).into_iter().for_each(&mut add);
    }
    for memory in pipelines.list(&owner, DefinitionKind::Memory, None, false).await? {
        let form: JsonObject = serde_json::from_str(&memory.text).unwrap_or_default();
        let scopes: Vec<String> = form.read("inputs_scope").unwrap_or_default();
        for scope in scopes.iter().filter_map(|name| InputScope::from_name(name)) {
            scope.variables().iter().for_each(|name| add(format!("scope.{}.{name}", scope.name())));
        }
        declared_variables(&memory.text).into_iter().for_each(|(name, _)| add(format!("addVar.{name}")));
    }
    Ok(found.into_values().collect())
}

/// The fields of an engine's conditions.
fn fields_of(form: &str) -> Vec<String> {
    let form: JsonObject = serde_json::from_str(form).unwrap_or_default();
    let rules: Vec<JsonObject> = form.read("rules").unwrap_or_default();
    let conditions = rules.iter().flat_map(|rule| rule.read::<Vec<JsonObject>>("when").unwrap_or_default());
    conditions.filter_map(|condition| condition.read("field")).collect()
}

/// Takes the ids that aren't there out of a list of a request. Their places in it.
pub async fn split_known(
    desk: &Desk,
    kind: DefinitionKind,
    member: &str,
    request: &mut JsonObject,
) -> Result<Vec<String>, ApiError> {
    let Some(ids) = request.read::<Vec<String>>(member) else { return Ok(Vec::new()) };
    let known = known_ids(desk, kind, &ids).await?;
    let is_known = |id: &String| known.contains(id);
    let missing = ids.iter().enumerate().filter(|(_, id)| !is_known(id));
    let missing = missing.map(|(position, _)| format!("{member}[{position}]")).collect();
    let kept: Vec<&String> = ids.iter().filter(|id| is_known(id)).collect();
    request.set(member, raw(&kept));
    Ok(missing)
}

/// Those of these ids that are there.
pub async fn known_ids(desk: &Desk, kind: DefinitionKind, ids: &[String]) -> Result<Vec<String>, ApiError> {
    let named: Vec<String> = ids.iter().filter(|id| keepline::pipelines::is_definition_id(id)).cloned().collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let query =
        keepline::pipelines::DefinitionQuery { ids: named, scope: None, only_active: false, cursor: String::new() };
    let found = desk.pipelines().await?.find(&desk.owner(), kind, &query).await?;
    Ok(found.definitions.into_iter().map(|found| found.id).collect())
}
