//! Every case of `conformance/pipelines/` through the library and the compiled component.

use std::sync::Arc;

use keepline::pipelines::{
    Checked, Dataset, DatasetKind, DefinitionForm, DefinitionKind, Finding, Item, Operation, PipelineError,
    PipelineErrorCode,
};
use keepline_pipelines::value::{Object, Value};
use keepline_stores_tests::stores::StoreUnderTest;

use crate::{
    case_data::{assert_repeated_replies, each_case, flag, items, list, maybe, text, texts, timed, unplaced_findings},
    matcher::mismatch,
    world::World,
};

type Reply = Result<Vec<(&'static str, Value)>, PipelineError>;

const MEMORY: DefinitionKind = DefinitionKind::Memory;

pub fn json(text: &str) -> Value {
    Value::parse(text).unwrap()
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
                let required = pipelines.required_variables(owner, &texts(request, "ids")).await?;
                let texts = |texts: Vec<String>| texts.into_iter().map(Value::from).collect::<Vec<_>>();
                let scopes = required.scopes.into_iter().map(|scope| (scope.scope, texts(scope.variables).into()));
                let scopes = Value::object(scopes.collect::<Vec<(String, Value)>>());
                return Ok(vec![("scopes", scopes), ("additional_variables", texts(required.additional).into())]);
            }
            "put_items" => {
                let item = |(id, value): (String, Value)| Item { id, text: value.to_json() };
                let items: Vec<_> = items(request).into_iter().map(item).collect();
                let changed = pipelines.put_items(&self.dataset(request), &items).await?;
                return Ok(vec![("added", changed.added.into()), ("changed", changed.changed.into())]);
            }
            "remove_items" => {
                let removed = pipelines.remove_items(&self.dataset(request), &texts(request, "ids")).await?;
                ("removed", removed.changed.into())
            }
            other => panic!("no operation is called {other}"),
        }])
    }

    fn dataset(&self, request: &Value) -> Dataset {
        let of_kind = Dataset { kind: text(request, "kind"), ..self.owner.dataset(DatasetKind::Values) };
        of_kind.named(text(request, "collection")).in_namespace(text(request, "namespace"))
    }

    async fn reply(&self, request: &Value) -> Value {
        let op = maybe(request, "op").unwrap();
        let operation = match op {
            "sequence" => {
                let mut replies = Vec::new();
                let requests = list(request, "requests");
                for request in requests {
                    replies.push(Box::pin(self.reply(request)).await);
                }
                assert_repeated_replies(requests, &replies);
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

pub async fn every_case_holds(store: Arc<StoreUnderTest>) {
    let mut failures = Vec::new();
    for (name, case) in each_case() {
        let world = World::build(&store, &case).await;
        let reply = world.reply(case.member("request").unwrap()).await;
        let expected = case.member("expect").unwrap();
        failures
            .extend(unplaced_findings(expected, &reply).iter().map(|finding| format!("{name}: no path: {finding}")));
        failures.extend(mismatch(expected, Some(&reply)).map(|difference| format!("{name}: {difference}")));
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_library_knows_the_scopes_of_the_component_and_their_variables() {
    let of_component = keepline_pipelines::definition::Scope::ALL.iter().map(|scope| (scope.name(), scope.variables()));
    let of_library = keepline::pipelines::InputScope::ALL.iter().map(|scope| (scope.name(), scope.variables()));
    assert_eq!(of_component.collect::<Vec<_>>(), of_library.collect::<Vec<_>>());
}
