//! Assemblies: what memories contribute to a request, announced step by step.

use std::time::Instant;

use axum::http::StatusCode;
use keepline::pipelines::{DefinitionKind, Operation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::{
    definitions::text_of,
    desk::Desk,
    rules::{self, Evaluation, evaluate, known_ids, of_request, rule_ids},
};
use crate::{
    events::{AssemblyCompleted, Event, MemoryCompleted, RulesEvaluated},
    http::{ApiError, Finding, JsonObject, raw},
};

/// Faults of one request that are told together.
const MOST_FAULTS: usize = 32;

/// What an assembly came to.
#[derive(Serialize)]
pub struct Assembled {
    context: Box<RawValue>,
    trace: Box<RawValue>,
    meta: JsonObject,
    #[serde(skip)]
    contributions: Vec<Contribution>,
}

/// What one memory contributes.
#[derive(Deserialize)]
struct Contribution {
    memory_id: String,
    label: String,
    text: String,
    tokens: u64,
}

/// As the engine tells it.
#[derive(Deserialize)]
struct EngineReply {
    context: Box<RawValue>,
    trace: Box<RawValue>,
    meta: JsonObject,
    #[serde(default)]
    contributions: Vec<Contribution>,
}

#[derive(Deserialize)]
struct Trace {
    #[serde(default)]
    memory_calls: Vec<MemoryCall>,
    rules_applied: Box<RawValue>,
    #[serde(default)]
    warnings: Vec<TraceWarning>,
}

#[derive(Deserialize)]
struct MemoryCall {
    memory_id: String,
    success: bool,
}

#[derive(Deserialize)]
struct TraceWarning {
    memory_id: String,
    #[serde(default)]
    path: String,
    message: String,
}

/// Assembles. What is refused before anything runs is announced as an error, and as nothing else.
pub async fn assemble(desk: &Desk, request: &JsonObject) -> Result<Assembled, ApiError> {
    let assembled = announced(desk, request).await;
    if let Err(error) = &assembled {
        desk.announce(&Event::AssemblyFailed(&error_text(error)));
    }
    assembled
}

/// An error as one text, which names its place.
pub fn error_text(error: &ApiError) -> String {
    if error.findings.is_empty() {
        let path = error.path.clone().unwrap_or_default();
        return text_of(&Finding { path, message: error.message.clone() });
    }
    error.findings.iter().map(text_of).collect::<Vec<_>>().join("; ")
}

/// The rules are evaluated alone at first, so that followers learn which memories run before they do.
async fn announced(desk: &Desk, request: &JsonObject) -> Result<Assembled, ApiError> {
    let began = Instant::now();
    let Evaluation { memories: by_rules, rules_applied, .. } = evaluate(desk, request).await?;
    let mut memories: Vec<String> = request.read("explicit_memory").unwrap_or_default();
    let known = known_ids(desk, DefinitionKind::Memory, &memories).await?;
    if let Some(position) = memories.iter().position(|id| !known.contains(id)) {
        let error = ApiError::new(StatusCode::BAD_REQUEST, "not_found", "there is no such memory");
        return Err(ApiError { path: Some(format!("explicit_memory[{position}]")), ..error });
    }
    let added: Vec<String> = by_rules.into_iter().filter(|id| !memories.contains(id)).collect();
    memories.extend(added);
    let assembly_id = format!("asm_{:016x}", fastrand::u64(..));
    desk.announce(&Event::AssemblyStarted(&assembly_id));
    desk.announce(&Event::RulesEvaluated(RulesEvaluated {
        assembly_id: &assembly_id,
        memories: &memories,
        rules_applied: &rules_applied,
    }));
    let output = desk.run(Operation::Assemble, request).await?.map_err(of_request)?;
    let EngineReply { context, trace, mut meta, contributions } =
        serde_json::from_str(&output).map_err(|error| ApiError::internal(&error))?;
    meta.put("duration_ms", &u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    let Trace { memory_calls, .. } = parse_trace(&trace)?;
    for call in &memory_calls {
        let MemoryCall { memory_id, success } = call;
        let completed = MemoryCompleted { assembly_id: &assembly_id, memory_id, success: *success };
        desk.announce(&Event::MemoryCompleted(completed));
    }
    let completed = AssemblyCompleted { assembly_id: &assembly_id, meta: &raw(&meta), trace: &trace };
    desk.announce(&Event::AssemblyCompleted(completed));
    Ok(Assembled { context, trace, meta, contributions })
}

fn parse_trace(trace: &RawValue) -> Result<Trace, ApiError> {
    serde_json::from_str(trace.get()).map_err(|error| ApiError::internal(&error))
}

impl Assembled {
    /// As the agent SDK's types have it: a text of each memory, with the sections beside.
    pub fn to_context(&self) -> Result<JsonObject, ApiError> {
        let trace = parse_trace(&self.trace)?;
        let contributions: Vec<Value> = self.contributions.iter().map(contribution_json).collect();
        let warnings: Vec<String> = trace.warnings.iter().map(warning_text).collect();
        let mut context = JsonObject::default();
        context.put("contributions", &contributions);
        for (name, of_meta) in [("total_tokens", "token_estimate"), ("assembly_time_ms", "duration_ms")] {
            context.put(name, &self.meta.get(of_meta));
        }
        context.put("applied_rules", &rule_ids(&trace.rules_applied));
        context.put("warnings", &warnings);
        context.put("sections", &self.context);
        context.put("truncated", &self.meta.get("truncated"));
        Ok(context)
    }
}

fn contribution_json(contribution: &Contribution) -> Value {
    let Contribution { memory_id, label, text, tokens } = contribution;
    json!({"memory_id": memory_id, "memory_label": label, "content": text, "format": "text", "tokens": tokens})
}

fn warning_text(warning: &TraceWarning) -> String {
    let TraceWarning { memory_id, path, message } = warning;
    format!("{memory_id}: {}", text_of(&Finding { path: path.clone(), message: message.clone() }))
}

/// What a check of a request found, without running anything.
pub struct RequestCheck {
    pub errors: Vec<Finding>,
    pub warnings: Vec<Finding>,
    pub resolved_memories: Vec<String>,
}

/// Checks a request as an assembly would, and goes on behind each fault: what is wrong is left out, and all faults are told.
pub async fn check(desk: &Desk, mut request: JsonObject) -> Result<RequestCheck, ApiError> {
    let mut errors = Vec::new();
    for (kind, member) in [(DefinitionKind::Memory, "explicit_memory"), (DefinitionKind::Rules, "rule_engine_ids")] {
        let missing = rules::split_known(desk, kind, member, &mut request).await?;
        errors.extend(
            missing.into_iter().map(|path| Finding { path, message: format!("there is no such {}", kind.noun()) }),
        );
    }
    let evaluation = loop {
        match evaluate(desk, &request).await {
            Ok(evaluation) => break Some(evaluation),
            Err(error) if error.status == StatusCode::BAD_REQUEST && errors.len() < MOST_FAULTS => {
                let path = error.path.unwrap_or_default();
                let is_mended = leave_out(&mut request, &path);
                errors.push(Finding { path, message: error.message });
                if !is_mended {
                    break None;
                }
            }
            Err(error) => return Err(error),
        }
    };
    let mut memories: Vec<String> = request.read("explicit_memory").unwrap_or_default();
    let by_rules = evaluation.map(|evaluation| evaluation.memories).unwrap_or_default();
    let added: Vec<String> = by_rules.into_iter().filter(|id| !memories.contains(id)).collect();
    let known = known_ids(desk, DefinitionKind::Memory, &added).await?;
    let (added, missing): (Vec<_>, Vec<_>) = added.into_iter().partition(|id| known.contains(id));
    memories.extend(added);
    let warning = |id: String| Finding { path: String::new(), message: format!("a rule adds {id}, which isn't there") };
    Ok(RequestCheck { errors, warnings: missing.into_iter().map(warning).collect(), resolved_memories: memories })
}

/// Takes what stands at a place out of a request. Whether anything was there to be done.
fn leave_out(request: &mut JsonObject, path: &str) -> bool {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (member, rest) = path.split_at(end);
    if member != "scope_variables" {
        return request.remove(member).is_some();
    }
    let name = rest.strip_prefix('.').unwrap_or_default();
    match request.get(member).and_then(JsonObject::of) {
        Some(mut scopes) if !name.is_empty() => {
            let is_there = scopes.remove(name).is_some();
            request.put(member, &scopes);
            is_there
        }
        Some(_) => false,
        None => {
            request.put(member, &JsonObject::default());
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_left_out_until_nothing_is() {
        let mut request =
            JsonObject::parse(br#"{"scope_variables":{"galaxy":1,"user":{}},"constraints":{"max_tokens":0}}"#).unwrap();
        assert!(leave_out(&mut request, "scope_variables.galaxy") && leave_out(&mut request, "constraints.max_tokens"));
        assert!(!leave_out(&mut request, "constraints.max_tokens") && !leave_out(&mut request, "scope_variables"));
        assert_eq!(request.to_text(), r#"{"scope_variables":{"user":{}}}"#);
        let mut request = JsonObject::default();
        assert!(leave_out(&mut request, "scope_variables"));
        assert_eq!(request.to_text(), r#"{"scope_variables":{}}"#);
    }
}
