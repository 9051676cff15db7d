//! The requests of the socket: type, scope, and what it does. Their parameters are the members that REST has in paths and
//! bodies.

use keepline::pipelines::DefinitionKind;
use serde_json::{json, value::RawValue};

use super::{
    assembly::{self, error_text},
    definitions::{self, Stored},
    desk::Desk,
    requests::engine_request,
    rules, runs, steps,
};
use crate::{
    access::Scope,
    http::{ApiError, Finding, JsonObject, raw},
};

/// What a request came to: `data` of a success, or an error, with `data` only where something was found until then.
#[derive(Debug)]
pub struct Outcome {
    pub data: Option<Box<RawValue>>,
    pub error: Option<String>,
}

/// What a type asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    CreateMemory,
    GetMemory,
    ListMemories,
    UpdateMemory,
    DeleteMemory,
    ExecuteMemory,
    ValidateMemory,
    StepSpecs,
    Assemble,
    ValidateAssembly,
    MemoryTypes,
    Evaluate,
    RequiredVariables,
    CreateEngine,
    GetEngine,
    ListEngines,
    UpdateEngine,
    DeleteEngine,
    PossibleVariables,
}

const TABLE: [(&str, Scope, Request); 20] = [
    ("persistentMemory.create", Scope::Write, Request::CreateMemory),
    ("persistentMemory.get", Scope::Read, Request::GetMemory),
    ("persistentMemory.list", Scope::Read, Request::ListMemories),
    ("persistentMemory.update", Scope::Write, Request::UpdateMemory),
    ("persistentMemory.delete", Scope::Write, Request::DeleteMemory),
    ("persistentMemory.executeRetrieval", Scope::Read, Request::ExecuteMemory),
    ("persistentMemory.validate", Scope::Read, Request::ValidateMemory),
    ("persistentMemory.getStepSpecs", Scope::Read, Request::StepSpecs),
    ("contextAssembly.getContext", Scope::Read, Request::Assemble),
    ("contextAssembly.validate", Scope::Read, Request::ValidateAssembly),
    ("contextAssembly.listMemoryTypes", Scope::Read, Request::MemoryTypes),
    ("contextAssembly.evaluateRules", Scope::Read, Request::Evaluate),
    ("contextAssembly.getRequiredVariables", Scope::Read, Request::RequiredVariables),
    ("contextRuleEngine.create", Scope::Write, Request::CreateEngine),
    ("contextRuleEngine.get", Scope::Read, Request::GetEngine),
    ("contextRuleEngine.list", Scope::Read, Request::ListEngines),
    ("contextRuleEngine.update", Scope::Write, Request::UpdateEngine),
    ("contextRuleEngine.delete", Scope::Write, Request::DeleteEngine),
    ("contextRuleEngine.evaluate", Scope::Read, Request::Evaluate),
    ("contextRuleEngine.getPossibleVariables", Scope::Read, Request::PossibleVariables),
];

/// The types of all requests.
pub fn request_types() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, ..)| *name)
}

/// Does what a type asks for.
pub async fn answer(desk: &Desk, kind: &str, params: JsonObject) -> Outcome {
    let answered = match TABLE.iter().find(|(name, ..)| *name == kind) {
        Some((_, scope, request)) => match desk.require(*scope) {
            Ok(()) => carry_out(desk, *request, params).await,
            Err(error) => Err(error),
        },
        None => {
            let kind: String = kind.chars().take(128).collect();
            Err(ApiError::not_found(format!("there are no requests of the type {kind}")))
        }
    };
    answered.unwrap_or_else(|error| Outcome { data: None, error: Some(error_text(&error)) })
}

async fn carry_out(desk: &Desk, request: Request, params: JsonObject) -> Result<Outcome, ApiError> {
    const MEMORY: DefinitionKind = DefinitionKind::Memory;
    const RULES: DefinitionKind = DefinitionKind::Rules;
    let data = match request {
        Request::CreateMemory => memory(definitions::create(desk, MEMORY, params).await?),
        Request::GetMemory => memory(definitions::get(desk, MEMORY, &required(&params, "memoryId")?).await?),
        Request::ListMemories => {
            let scope: Option<String> = params.expect("inputScope", "the name of a scope")?;
            let only_active = params.expect("activeOnly", "true or false")?.unwrap_or(false);
            let found = definitions::list(desk, MEMORY, scope.as_deref(), only_active).await?;
            member("memories", &forms_of(found))
        }
        Request::UpdateMemory => {
            let (id, changes) = without(params, "memoryId")?;
            memory(definitions::update(desk, MEMORY, &id, changes, None).await?)
        }
        Request::DeleteMemory => {
            let id = required(&params, "memoryId")?;
            definitions::remove(desk, MEMORY, &id, None).await?;
            raw(&json!({"deleted": true, "id": id}))
        }
        Request::ExecuteMemory => {
            let (id, body) = without(params, "memoryId")?;
            let ran = runs::execute(desk, &id, body, None).await?;
            return Ok(Outcome { data: Some(member("result", &ran)), error: ran.error });
        }
        Request::ValidateMemory => validation_of(desk, &params).await?,
        Request::StepSpecs => member("specs", &steps::specs(desk, false).await?),
        Request::Assemble => {
            let request = engine_request(params, None)?;
            member("context", &assembly::assemble(desk, &request).await?.to_context()?)
        }
        Request::ValidateAssembly => {
            let checked = assembly::check(desk, engine_request(params, None)?).await?;
            let texts = |found: &[Finding]| found.iter().map(definitions::text_of).collect::<Vec<_>>();
            let (errors, warnings) = (texts(&checked.errors), texts(&checked.warnings));
            raw(&json!({"validation": {
                "valid": errors.is_empty(), "errors": errors, "warnings": warnings,
                "resolved_memories": checked.resolved_memories,
            }}))
        }
        Request::MemoryTypes => member("memoryTypes", &runs::memory_types(desk).await?),
        Request::Evaluate => raw(&rules::evaluate(desk, &engine_request(params, None)?).await?),
        Request::RequiredVariables => raw(&runs::required_variables(desk, &params).await?),
        Request::CreateEngine => engine(definitions::create(desk, RULES, params).await?),
        Request::GetEngine => engine(definitions::get(desk, RULES, &required(&params, "id")?).await?),
        Request::ListEngines => member("ruleEngines", &forms_of(definitions::list(desk, RULES, None, false).await?)),
        Request::UpdateEngine => {
            let (id, changes) = without(params, "id")?;
            engine(definitions::update(desk, RULES, &id, changes, None).await?)
        }
        Request::DeleteEngine => {
            let id = required(&params, "id")?;
            definitions::remove(desk, RULES, &id, None).await?;
            raw(&json!({"deleted": true, "id": id}))
        }
        Request::PossibleVariables => member("variables", &rules::variables(desk).await?),
    };
    Ok(Outcome { data: Some(data), error: None })
}

/// `valid` and `errors` stand beside the SDK's `validation`, as the documents have it.
async fn validation_of(desk: &Desk, params: &JsonObject) -> Result<Box<RawValue>, ApiError> {
    let missing = || ApiError::invalid("memory", "memory is required: the definition to check");
    let found = definitions::validate(desk, params.get("memory").ok_or_else(missing)?).await?;
    let listed = found.to_json();
    Ok(raw(&json!({"validation": found.to_texts(), "valid": found.is_valid(), "errors": listed.get("errors")})))
}

fn required(params: &JsonObject, name: &'static str) -> Result<String, ApiError> {
    let missing = || ApiError::invalid(name, format!("{name} is required"));
    params.expect(name, "a text")?.ok_or_else(missing)
}

/// The id that a member names, and the other members.
fn without(mut params: JsonObject, name: &'static str) -> Result<(String, JsonObject), ApiError> {
    let id = required(&params, name)?;
    params.remove(name);
    Ok((id, params))
}

fn member(name: &str, value: &impl serde::Serialize) -> Box<RawValue> {
    let mut data = JsonObject::default();
    data.put(name, value);
    raw(&data)
}

fn memory(stored: Stored) -> Box<RawValue> {
    member("memory", &stored.form)
}

fn engine(stored: Stored) -> Box<RawValue> {
    member("ruleEngine", &stored.form)
}

fn forms_of(stored: Vec<Stored>) -> Vec<JsonObject> {
    stored.into_iter().map(|stored| stored.form).collect()
}
