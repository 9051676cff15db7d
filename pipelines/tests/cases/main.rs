//! Every case of `conformance/pipelines/` through the library, on a memory store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod case_data;
mod host;
mod matcher;
mod world;

use std::{fs, path::Path};

use keepline_pipelines::{
    assembly::AssemblyRequest,
    catalog::{self, CatalogFault, DefinitionKind},
    datasets::{Collection, DataItem, DataKind, put_items, remove_items},
    definition::{DefinitionLimits, check, describe_steps},
    requests::error::RequestError,
    requests::operations::Definitions,
    requests::stored::StoredDefinition,
    requests::{self, Outcome, RequestContext, ask_rules, assemble_context, execute_memory},
    rules::{AppliedRule, check_rule_engine},
    run::{Answer, RunLimits, RunRequest},
    value::{Object, Value},
};

use crate::{
    case_data::{assert_repeated_replies, each_case, flag, items, maybe, text, texts, timed, unplaced_findings},
    matcher::mismatch,
    world::World,
};

const LIMITS: &DefinitionLimits = &DefinitionLimits::DEFAULT;

type Reply = Vec<(&'static str, Value)>;

impl World {
    fn definitions(&self) -> Definitions<'_, host::TestHost> {
        Definitions { host: &self.host, owner: &self.asker.owner, kind: DefinitionKind::Memory, limits: LIMITS }
    }

    /// An operation on definitions.
    fn operate(&self, op: &str, request: &Value) -> Result<Reply, RequestError> {
        let id = maybe(request, "id").unwrap_or_default();
        let definitions = self.definitions();
        let memory = |stored: StoredDefinition| Ok(vec![("memory", stored.form)]);
        match op {
            "create" => {
                let accepted = DefinitionKind::Memory.accept(request.member("definition").unwrap(), LIMITS)?;
                memory(definitions.put(&accepted, Some(0))?)
            }
            "get" => memory(definitions.get(id)?),
            "export" => Ok(vec![("text", catalog::export(&definitions.get(id)?.form).into())]),
            "delete" => definitions.remove(id, None).map(|_| Vec::new()),
            "list" | "list_by_scope" | "list_active" => {
                let only_active = op == "list_active" || flag(request, "activeOnly");
                let mut listed = definitions.list(maybe(request, "inputScope"), only_active, "")?.definitions;
                listed.sort_by(|one, two| one.id.cmp(&two.id));
                Ok(vec![("memories", listed.into_iter().map(|stored| stored.form).collect::<Vec<_>>().into())])
            }
            "update" => memory(definitions.update(id, request.member("changes").unwrap(), None)?),
            "duplicate" => memory(definitions.duplicate(id, maybe(request, "new_id"))?),
            "import" => {
                let form = catalog::import_form(maybe(request, "format"))?;
                let accepted = DefinitionKind::Memory.accept_text(form, maybe(request, "text").unwrap(), LIMITS)?;
                memory(definitions.put(&accepted, (!flag(request, "overwrite")).then_some(0))?)
            }
            "step_specs" => Ok(vec![("specs", describe_steps(flag(request, "userConfigurable")))]),
            "required_variables" => {
                let ids = texts(request, "ids");
                let ids: Vec<_> = ids.iter().map(String::as_str).collect();
                let (scopes, additional) = definitions.required_variables(&ids)?;
                let additional = additional.into_iter().map(Value::Text).collect::<Vec<_>>();
                Ok(vec![("scopes", scopes.into()), ("additional_variables", additional.into())])
            }
            "put_items" | "remove_items" => self.change_items(op, request),
            other => panic!("no operation is called {other}"),
        }
    }

    /// An operation on a data set.
    fn change_items(&self, op: &str, request: &Value) -> Result<Reply, RequestError> {
        let kind = DataKind::from_name(&text(request, "kind")).unwrap();
        let collection = Collection { name: text(request, "collection"), namespace: text(request, "namespace") };
        let (host, owner) = (&self.host, &self.asker.owner);
        let changed = if op == "put_items" {
            let items: Vec<_> =
                items(request).into_iter().map(|(id, value)| DataItem { id: id.into(), value }).collect();
            put_items(host, owner, kind, &collection, &items)
        } else {
            let ids: Vec<_> = texts(request, "ids").into_iter().map(Into::into).collect();
            remove_items(host, owner, kind, &collection, &ids)
        };
        let changed = changed.map_err(|problem| match &*problem.code {
            "invalid" => CatalogFault::new("invalid", problem.subject, problem.message).into(),
            _ => RequestError::Store(problem),
        })?;
        Ok(match op {
            "put_items" => vec![("added", changed.added.into()), ("changed", changed.changed.into())],
            _ => vec![("removed", changed.changed.into())],
        })
    }

    /// Go on with the case's answers until nothing is needed any more.
    fn finish<T>(
        &self,
        mut call: impl FnMut(&RequestContext<'_, host::TestHost>) -> Result<requests::Reply<T>, RequestError>,
    ) -> Result<T, RequestError> {
        let (mut answers, mut revisions): (Vec<(String, Answer)>, Vec<String>) = (Vec::new(), Vec::new());
        loop {
            let reply = call(&self.context(&answers, &revisions))?;
            revisions = reply.revisions;
            match reply.outcome {
                Outcome::Done(done) => return Ok(done),
                Outcome::Needs(needs) => {
                    assert!(!needs.is_empty() && answers.len() < 100, "it asks for ever");
                    answers.extend(needs.iter().map(|need| (need.digest(), self.answer(need))));
                }
            }
        }
    }

    fn context<'a>(
        &'a self,
        answers: &'a [(String, Answer)],
        revisions: &'a [String],
    ) -> RequestContext<'a, host::TestHost> {
        let (limits, now) = (RunLimits::default(), self.now);
        RequestContext {
            host: &self.host,
            asker: &self.asker,
            now,
            limits,
            definition_limits: LIMITS,
            answers,
            revisions,
        }
    }

    fn reply(&self, request: &Value) -> Value {
        let op = maybe(request, "op").unwrap();
        let reply = match op {
            "sequence" => {
                let requests = request.member("requests").and_then(Value::as_list).unwrap();
                let replies: Vec<_> = requests.iter().map(|request| self.reply(request)).collect();
                assert_repeated_replies(requests, &replies);
                return Value::object([("replies", Value::from(replies))]);
            }
            "validate" => {
                let checked = check(request.member("definition").unwrap(), LIMITS);
                return findings(checked.errors().cloned().collect(), checked.warnings().cloned().collect());
            }
            "validate_rule_engine" => {
                let found = check_rule_engine(request.member("rule_engine").unwrap(), LIMITS).findings;
                let (errors, warnings) = found.into_iter().partition(|finding| finding.is_error);
                return findings(errors, warnings);
            }
            "execute" => self.execute(request).map(|report| report.as_object().unwrap().clone()),
            "evaluate_rules" => AssemblyRequest::parse(request).map_err(invalid).and_then(|request| {
                let asked = ask_rules(&self.context(&[], &[]), &request)?;
                let memories = asked.memories.into_iter().map(Value::Text).collect::<Vec<_>>();
                let applied = asked.applied.iter().map(AppliedRule::to_value).collect::<Vec<_>>();
                Ok(object(vec![("memories", memories.into()), ("rules_applied", applied.into())]))
            }),
            "assemble" => AssemblyRequest::parse(request).map_err(invalid).and_then(|request| {
                let assembled = self.finish(|context| assemble_context(context, &request))?;
                Ok(assembled.to_value().as_object().unwrap().clone())
            }),
            _ => self.operate(op, request).map(object),
        };
        let reply = reply.map_err(|error| match error {
            RequestError::Fault(fault) => fault,
            RequestError::Store(problem) => panic!("{problem:?}"),
        });
        let mut members = Object::from_iter([("success".into(), Value::Bool(reply.is_ok()))]);
        match reply {
            Ok(reply) => members.extend(reply),
            Err(fault) => drop(members.insert("error".into(), fault.to_value())),
        }
        timed(members)
    }

    fn execute(&self, request: &Value) -> Result<Value, RequestError> {
        let member = |name: &str| request.member(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut variables = member("variables");
        if let Some(thread) = maybe(request, "thread_id") {
            variables.insert("thread_id".into(), thread.into());
        }
        let run = RunRequest { intent: member("intent"), variables, now: self.now, limits: RunLimits::default() };
        let id = maybe(request, "id").unwrap();
        self.finish(|context| execute_memory(context, id, &run)).map(|report| report.to_value())
    }
}

fn object(members: Vec<(&'static str, Value)>) -> Object {
    members.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn invalid(fault: keepline_pipelines::assembly::RequestFault) -> RequestError {
    CatalogFault::new("invalid", fault.path, fault.message).into()
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

#[test]
fn every_case_holds() {
    let mut failures = Vec::new();
    let cases = each_case();
    for (name, case) in &cases {
        let world = World::build(case);
        let reply = world.reply(case.member("request").unwrap());
        let expected = case.member("expect").unwrap();
        failures
            .extend(unplaced_findings(expected, &reply).iter().map(|finding| format!("{name}: no path: {finding}")));
        failures.extend(mismatch(expected, Some(&reply)).map(|difference| format!("{name}: {difference}")));
    }
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn each_case_that_the_seed_table_names_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/pipelines");
    let table = fs::read_to_string(folder.join("SEED.md")).unwrap();
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let held_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names = held_by.split('`').skip(1).step_by(2).filter(|name| !name.contains("::"));
        for name in names {
            assert!(folder.join("cases").join(format!("{name}.json")).exists(), "{name}: {row}");
            named += 1;
        }
        assert!(held_by == "service" || held_by.contains('`'), "{row}");
    }
    assert!(named > 100, "{named}");
}
