//! Every case of `conformance/pipelines/` through the library and the compiled component.

use std::{fs, path::Path, rc::Rc, sync::Arc};

use keepline::pipelines::{
    Checked, DefinitionForm, DefinitionKind, Finding, Operation, PipelineError, PipelineErrorCode,
};
use keepline_pipelines::value::{Object, Value};
use keepline_stores_tests::stores::StoreUnderTest;

use crate::{case_data::text, matcher::mismatch, world::World};

type Reply = Result<Vec<(&'static str, Value)>, PipelineError>;

const MEMORY: DefinitionKind = DefinitionKind::Memory;

pub fn json(text: &str) -> Value {
    Value::parse(text).unwrap()
}

pub fn flag(request: &Value, name: &str) -> bool {
    request.member(name).and_then(Value::as_bool).unwrap_or(false)
}

pub fn maybe<'a>(request: &'a Value, name: &str) -> Option<&'a str> {
    request.member(name).and_then(Value::as_text)
}

impl World {
    /// An operation on definitions.
    async fn operate(&self, op: &str, request: &Value) -> Reply {
        let (pipelines, owner) = (&self.pipelines, &self.owner);
        let id = maybe(request, "id").unwrap_or_default();
        let member = |name| request.member(name).unwrap().to_json();
        let put = async |form, text: &str, revision| pipelines.put(owner, MEMORY, form, text, revision).await;
        Ok(vec![match op {
            "create" => {
                let text = member("definition");
                ("memory", json(&put(DefinitionForm::Json, &text, Some(0)).await?.text))
            }
            "get" => ("memory", json(&pipelines.get(owner, MEMORY, id).await?.text)),
            "export" => {
                let form = json(&pipelines.get(owner, MEMORY, id).await?.text);
                ("text", keepline_pipelines::catalog::export(&form).into())
            }
            "delete" => {
                pipelines.remove(owner, MEMORY, id, None).await?;
                return Ok(Vec::new());
            }
            "list" | "list_by_scope" | "list_active" => {
                let only_active = op == "list_active" || flag(request, "activeOnly");
                let listed = pipelines.list(owner, MEMORY, maybe(request, "inputScope"), only_active).await?;
                ("memories", listed.iter().map(|found| json(&found.text)).collect::<Vec<_>>().into())
            }
            "update" => ("memory", json(&pipelines.update(owner, MEMORY, id, &member("changes"), None).await?.text)),
            "duplicate" => {
                let copy = pipelines.duplicate(owner, MEMORY, id, maybe(request, "new_id")).await?;
                ("memory", json(&copy.text))
            }
            "import" => {
                let format = maybe(request, "format").unwrap_or("json");
                let Some(form) = DefinitionForm::from_name(format) else { return Err(wrong_format(format)) };
                let revision = (!flag(request, "overwrite")).then_some(0);
                ("memory", json(&put(form, maybe(request, "text").unwrap(), revision).await?.text))
            }
            "step_specs" => ("specs", json(&pipelines.describe_steps(flag(request, "userConfigurable")).await?)),
            "required_variables" => {
                let ids = request.member("ids").and_then(Value::as_list).unwrap();
                let ids: Vec<_> = ids.iter().map(|id| id.as_text().unwrap().to_owned()).collect();
                let required = pipelines.required_variables(owner, &ids).await?;
                let texts = |texts: Vec<String>| texts.into_iter().map(Value::from).collect::<Vec<_>>();
                let scopes = required.scopes.into_iter().map(|scope| (scope.scope, texts(scope.variables).into()));
                let scopes = Value::object(scopes.collect::<Vec<(String, Value)>>());
                return Ok(vec![("scopes", scopes), ("additional_variables", texts(required.additional).into())]);
            }
            other => panic!("no operation is called {other}"),
        }])
    }

    async fn reply(&self, request: &Value) -> Value {
        let op = maybe(request, "op").unwrap();
        let operation = match op {
            "sequence" => {
                let mut replies = Vec::new();
                for request in request.member("requests").and_then(Value::as_list).unwrap() {
                    replies.push(Box::pin(self.reply(request)).await);
                }
                return Value::object([("replies", Value::from(replies))]);
            }
            "validate" => return self.validate(MEMORY, request.member("definition").unwrap()).await,
            "validate_rule_engine" => {
                return self.validate(DefinitionKind::Rules, request.member("rule_engine").unwrap()).await;
            }
            "execute" => Some(Operation::Execute),
            "assemble" => Some(Operation::Assemble),
            "evaluate_rules" => Some(Operation::EvaluateRules),
            _ => None,
        };
        let reply = match operation {
            Some(operation) => {
                let output = self.pipelines.run(&self.asker, operation, &request.to_json(), None).await;
                output.map(|output| json(&output).as_object().unwrap().clone())
            }
            None => self.operate(op, request).await.map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.into(), value));
                Object::from_iter([("success".into(), Value::Bool(true))].into_iter().chain(members))
            }),
        };
        timed(reply.unwrap_or_else(|error| {
            let of_error = Value::from(error_object(&error));
            Object::from_iter([("success".into(), Value::Bool(false)), ("error".into(), of_error)])
        }))
    }

    async fn validate(&self, kind: DefinitionKind, definition: &Value) -> Value {
        let checked = self.pipelines.check(kind, DefinitionForm::Json, &definition.to_json()).await.unwrap();
        let Checked { findings, .. } = checked;
        let (errors, warnings): (Vec<_>, Vec<_>) = findings.into_iter().partition(|finding| finding.is_error);
        Value::object([
            ("valid", Value::Bool(errors.is_empty())),
            ("errors", values(&errors)),
            ("warnings", values(&warnings)),
        ])
    }
}

/// The library takes a form, and whoever reads a format says which there are.
fn wrong_format(format: &str) -> PipelineError {
    match keepline_pipelines::catalog::import_form(Some(format)) {
        Ok(_) => panic!("{format} is a format"),
        Err(fault) => keepline::pipelines::PipelineError::invalid(fault.path, fault.message),
    }
}

fn values(findings: &[Finding]) -> Value {
    let value = |finding: &Finding| {
        Value::object([("path", Value::from(&*finding.path)), ("message", Value::from(&*finding.message))])
    };
    findings.iter().map(value).collect::<Vec<_>>().into()
}

fn error_object(error: &PipelineError) -> Object {
    let code = match error.code {
        PipelineErrorCode::NotFound => "not_found",
        PipelineErrorCode::Exists => "exists",
        PipelineErrorCode::Invalid => "invalid",
        PipelineErrorCode::Conflict => "conflict",
        PipelineErrorCode::Limit => "step_failed",
        _ => panic!("{error:?}"),
    };
    let mut members = Object::from_iter([
        ("code".into(), Value::from(code)),
        ("path".into(), Value::from(&*error.path)),
        ("message".into(), Value::from(&*error.message)),
    ]);
    if !error.findings.is_empty() {
        members.insert("errors".into(), values(&error.findings));
    }
    members
}

/// A library's reply has no time taken, so the runner adds it.
fn timed(mut members: Object) -> Value {
    match members.get_mut("meta") {
        Some(Value::Object(meta)) => drop(Rc::make_mut(meta).insert("duration_ms".into(), 0_u64.into())),
        _ => drop(members.insert("duration_ms".into(), 0_u64.into())),
    }
    members.into()
}

/// Every case, by name.
pub fn each_case() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/pipelines/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 381, "{} cases", files.len());
    let case = |file| json(&fs::read_to_string(file).unwrap());
    files.into_iter().map(case).map(|case| (text(&case, "name"), case)).collect()
}

pub async fn every_case_holds(store: Arc<StoreUnderTest>) {
    let mut failures = Vec::new();
    for (name, case) in each_case() {
        let world = World::build(&store, &case).await;
        let reply = world.reply(case.member("request").unwrap()).await;
        if let Some(difference) = mismatch(case.member("expect").unwrap(), Some(&reply)) {
            failures.push(format!("{name}: {difference}"));
        }
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}
