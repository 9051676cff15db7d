//! Every case of `conformance/pipelines/` through the library, on a memory store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod host;
mod matcher;
mod world;

use std::{fs, path::Path, rc::Rc};

use keepline_pipelines::{
    assembly::AssemblyRequest,
    catalog::{self, CatalogFault},
    definition::{check, describe_steps},
    requests::{Outcome, RequestContext, RequestError, ask_rules, assemble_context, execute_memory},
    rules::{AppliedRule, check_rule_engine},
    run::{Answer, RunLimits, RunRequest},
    stored::{DefinitionKind, StoredDefinition, get_definitions, list_definitions, put_definition, remove_definition},
    value::{Object, Value},
};

use crate::{matcher::mismatch, world::World};

type Reply = Result<Vec<(&'static str, Value)>, CatalogFault>;

fn text<'a>(request: &'a Value, name: &str) -> Option<&'a str> {
    request.member(name).and_then(Value::as_text)
}

fn flag(request: &Value, name: &str) -> bool {
    request.member(name).and_then(Value::as_bool).unwrap_or(false)
}

impl World {
    fn get(&self, id: &str) -> Result<StoredDefinition, CatalogFault> {
        let found = get_definitions(&self.host, &self.asker.owner, DefinitionKind::Memory, &[id]).unwrap().pop();
        found.ok_or_else(|| CatalogFault::not_found("id", id))
    }

    fn is_taken(&self, id: &str) -> bool {
        self.get(id).is_ok()
    }

    fn put(&self, id: &str, form: &Value, before: Option<&StoredDefinition>) -> Reply {
        put_definition(&self.host, &self.asker.owner, DefinitionKind::Memory, id, form, before).unwrap();
        Ok(vec![("memory", form.clone())])
    }

    fn list(&self, scope: Option<&str>, only_active: bool) -> Reply {
        let all = list_definitions(&self.host, &self.asker.owner, DefinitionKind::Memory).unwrap();
        let mut listed = Vec::new();
        // An unknown scope is an error also where nothing is stored.
        catalog::is_listed(&Value::Null, scope, only_active)?;
        for stored in all {
            if catalog::is_listed(&stored.form, scope, only_active)? {
                listed.push(stored.form);
            }
        }
        Ok(vec![("memories", listed.into())])
    }

    /// An operation on definitions.
    fn operate(&self, op: &str, request: &Value) -> Reply {
        let id = text(request, "id").unwrap_or_default();
        match op {
            "create" => {
                let definition = check(request.member("definition").unwrap()).accept()?;
                if self.is_taken(&definition.id) {
                    return Err(CatalogFault::exists("id", &definition.id));
                }
                self.put(&definition.id, &definition.form, None)
            }
            "get" => Ok(vec![("memory", self.get(id)?.form)]),
            "export" => Ok(vec![("text", catalog::export(&self.get(id)?.form).into())]),
            "delete" => {
                let stored = self.get(id)?;
                remove_definition(&self.host, &self.asker.owner, DefinitionKind::Memory, &stored).unwrap();
                Ok(Vec::new())
            }
            "list" | "list_by_scope" => self.list(text(request, "inputScope"), flag(request, "activeOnly")),
            "list_active" => self.list(None, true),
            "update" => {
                let stored = self.get(id)?;
                let definition = catalog::update(&stored.form, request.member("changes").unwrap())?;
                self.put(id, &definition.form, Some(&stored))
            }
            "duplicate" => {
                let stored = self.get(id)?;
                let copy = catalog::duplicate(&stored.form, text(request, "new_id"), |id| self.is_taken(id))?;
                self.put(&copy.id, &copy.form, None)
            }
            "import" => {
                let (text, format) = (text(request, "text").unwrap(), text(request, "format"));
                let definition = catalog::import(text, format, flag(request, "overwrite"), |id| self.is_taken(id))?;
                let before = self.get(&definition.id).ok();
                self.put(&definition.id, &definition.form, before.as_ref())
            }
            "step_specs" => Ok(vec![("specs", describe_steps(flag(request, "userConfigurable")))]),
            "required_variables" => {
                let ids =
                    request.member("ids").and_then(Value::as_list).unwrap().iter().map(|id| id.as_text().unwrap());
                let definitions: Vec<_> =
                    ids.map(|id| check(&self.get(id).unwrap().form).accept().map(Rc::new)).collect::<Result<_, _>>()?;
                let (scopes, additional) = catalog::required_variables(&definitions);
                let additional = additional.into_iter().map(Value::Text).collect::<Vec<_>>();
                Ok(vec![("scopes", scopes.into()), ("additional_variables", additional.into())])
            }
            other => panic!("no operation is called {other}"),
        }
    }

    /// Go on with the case's answers until nothing is needed any more.
    fn finish<T>(
        &self,
        mut call: impl FnMut(&RequestContext<'_, host::TestHost>) -> Result<Outcome<T>, RequestError>,
    ) -> Result<T, CatalogFault> {
        let mut answers: Vec<(String, Answer)> = Vec::new();
        loop {
            match call(&self.context(&answers)) {
                Ok(Outcome::Done(done)) => return Ok(done),
                Ok(Outcome::Needs(needs)) => {
                    assert!(!needs.is_empty() && answers.len() < 100, "it asks for ever");
                    answers.extend(needs.iter().map(|need| (need.digest(), self.answer(need))));
                }
                Err(RequestError::Fault(fault)) => return Err(fault),
                Err(RequestError::Store(problem)) => panic!("{problem:?}"),
            }
        }
    }

    fn context<'a>(&'a self, answers: &'a [(String, Answer)]) -> RequestContext<'a, host::TestHost> {
        let (limits, now) = (RunLimits::default(), self.now);
        RequestContext { host: &self.host, asker: &self.asker, now, limits, answers }
    }

    fn reply(&self, request: &Value) -> Value {
        let op = text(request, "op").unwrap();
        let reply = match op {
            "sequence" => {
                let requests = request.member("requests").and_then(Value::as_list).unwrap();
                let replies: Vec<_> = requests.iter().map(|request| self.reply(request)).collect();
                // The same state and request give the same bytes.
                for (at, other) in requests.iter().enumerate() {
                    let same = requests[..at].iter().position(|earlier| earlier == other && op_of(other) == "assemble");
                    if let Some(earlier) = same {
                        assert_eq!(replies[earlier].to_json(), replies[at].to_json());
                    }
                }
                return Value::object([("replies", Value::from(replies))]);
            }
            "validate" => {
                let checked = check(request.member("definition").unwrap());
                return findings(checked.errors().cloned().collect(), checked.warnings().cloned().collect());
            }
            "validate_rule_engine" => {
                let found = check_rule_engine(request.member("rule_engine").unwrap()).findings;
                let (errors, warnings) = found.into_iter().partition(|finding| finding.is_error);
                return findings(errors, warnings);
            }
            "execute" => self.execute(request).map(|report| report.as_object().unwrap().clone()),
            "evaluate_rules" => AssemblyRequest::parse(request).map_err(invalid).and_then(|request| {
                let asked = ask_rules(&self.context(&[]), &request);
                let (memories, applied) = asked.map_err(|error| match error {
                    RequestError::Fault(fault) => fault,
                    RequestError::Store(problem) => panic!("{problem:?}"),
                })?;
                let memories = memories.into_iter().map(Value::Text).collect::<Vec<_>>();
                let applied = applied.iter().map(AppliedRule::to_value).collect::<Vec<_>>();
                Ok(object(vec![("memories", memories.into()), ("rules_applied", applied.into())]))
            }),
            "assemble" => AssemblyRequest::parse(request).map_err(invalid).and_then(|request| {
                let assembled = self.finish(|context| assemble_context(context, &request))?;
                Ok(assembled.to_value().as_object().unwrap().clone())
            }),
            _ => self.operate(op, request).map(object),
        };
        let mut members = Object::from_iter([("success".into(), Value::Bool(reply.is_ok()))]);
        match reply {
            Ok(reply) => members.extend(reply),
            Err(fault) => drop(members.insert("error".into(), fault.to_value())),
        }
        timed(members)
    }

    fn execute(&self, request: &Value) -> Result<Value, CatalogFault> {
        let member = |name: &str| request.member(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut variables = member("variables");
        if let Some(thread) = text(request, "thread_id") {
            variables.insert("thread_id".into(), thread.into());
        }
        let run = RunRequest { intent: member("intent"), variables, now: self.now, limits: RunLimits::default() };
        let id = text(request, "id").unwrap();
        self.finish(|context| execute_memory(context, id, &run)).map(|report| report.to_value())
    }
}

fn op_of(request: &Value) -> &str {
    text(request, "op").unwrap_or_default()
}

fn object(members: Vec<(&'static str, Value)>) -> Object {
    members.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn invalid(fault: keepline_pipelines::assembly::RequestFault) -> CatalogFault {
    CatalogFault::new("invalid", fault.path, fault.message)
}

fn findings(
    errors: Vec<keepline_pipelines::finding::Finding>,
    warnings: Vec<keepline_pipelines::finding::Finding>,
) -> Value {
    let values = |findings: Vec<keepline_pipelines::finding::Finding>| {
        findings.iter().map(keepline_pipelines::finding::Finding::to_value).collect::<Vec<_>>()
    };
    Value::object([
        ("valid", Value::Bool(errors.is_empty())),
        ("errors", values(errors).into()),
        ("warnings", values(warnings).into()),
    ])
}

/// The clock is the caller's: a library's reply has no time taken, so the runner adds it.
fn timed(mut members: Object) -> Value {
    match members.get_mut("meta") {
        Some(Value::Object(meta)) => drop(Rc::make_mut(meta).insert("duration_ms".into(), 0_u64.into())),
        _ => drop(members.insert("duration_ms".into(), 0_u64.into())),
    }
    members.into()
}

#[test]
fn every_case_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/pipelines/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 359, "{} cases", files.len());
    let mut failures = Vec::new();
    for file in &files {
        let case = Value::parse(&fs::read_to_string(file).unwrap()).unwrap();
        let world = World::build(&case);
        let reply = world.reply(case.member("request").unwrap());
        if let Some(difference) = mismatch(case.member("expect").unwrap(), Some(&reply)) {
            failures.push(format!("{}: {difference}", text(&case, "name").unwrap()));
        }
    }
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), files.len(), failures.join("\n"));
}
