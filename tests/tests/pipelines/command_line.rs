//! Every case of `conformance/pipelines/` through `keepline pipeline`, on a store in a directory.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use futures::future::join_all;
use keepline_pipelines::value::{Object, Value};
use keepline_stores_tests::stores::StoreUnderTest;
use keepline_tests::{
    models::{ModelServer, Reply},
    programs::{self, program},
};
use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{
    case_data::{assert_repeated_replies, each_case, flag, floats, list, maybe, text, texts, unplaced_findings},
    cases::json,
    matcher::mismatch,
    world::World,
};

/// Cases that are under way at a time.
const LANES: usize = 4;

/// A case at the command line.
struct Door {
    arguments: Vec<String>,
    /// Who asks, of a run.
    asker: Vec<String>,
    environment: Vec<(&'static str, String)>,
    now: String,
}

/// What a command came to: its result, or its error.
type Came = Result<Value, Value>;

impl Door {
    fn call(&self, arguments: &[&str], input: &str) -> Came {
        let mut command = programs::command(program("--bin", "keepline"));
        command.args(["pipeline", "--json"]).args(arguments).args(&self.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = run(&mut command, input);
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        // A run that fails, and a definition that is invalid, are results as well.
        if !out.is_empty() {
            assert_eq!(out.lines().count(), 1, "{arguments:?}: {out}");
            return Ok(json(&out));
        }
        assert!(!output.status.success(), "{arguments:?}: neither a result nor an error");
        let last = err.lines().last().unwrap_or_else(|| panic!("{arguments:?}: no error"));
        Err(json(last).member("error").unwrap().clone())
    }

    fn operate(&self, op: &str, request: &Value) -> Came {
        let id = maybe(request, "id").unwrap_or_default();
        let member = |name| request.member(name).unwrap().to_json();
        match op {
            "create" => self.call(&["create", "-"], &member("definition")),
            "get" => self.call(&["show", id], ""),
            "export" => self.call(&["export", id], ""),
            "delete" => self.call(&["delete", id, "--yes"], ""),
            "list" | "list_by_scope" | "list_active" => {
                let mut arguments = vec!["list"];
                if op == "list_active" || flag(request, "activeOnly") {
                    arguments.push("--active");
                }
                arguments.extend(maybe(request, "inputScope").into_iter().flat_map(|scope| ["--scope", scope]));
                self.call(&arguments, "")
            }
            "update" => self.call(&["update", id, &member("changes")], ""),
            "duplicate" => {
                let arguments = ["duplicate", id].into_iter().chain(maybe(request, "new_id")).collect::<Vec<_>>();
                self.call(&arguments, "")
            }
            "import" => {
                let mut arguments = vec!["import", "-"];
                arguments.extend(maybe(request, "format").into_iter().flat_map(|format| ["--format", format]));
                arguments.extend(flag(request, "overwrite").then_some("--overwrite"));
                self.call(&arguments, maybe(request, "text").unwrap())
            }
            "validate" => self.call(&["validate", "-"], &member("definition")),
            "validate_rule_engine" => self.call(&["validate", "-", "--rules"], &member("rule_engine")),
            "step_specs" if flag(request, "userConfigurable") => self.call(&["steps", "--configurable"], ""),
            "step_specs" => self.call(&["steps"], ""),
            "required_variables" => {
                let ids = texts(request, "ids");
                self.call(&["variables"].into_iter().chain(ids.iter().map(String::as_str)).collect::<Vec<_>>(), "")
            }
            "execute" => {
                let or_empty = |name| request.member(name).map_or("{}".into(), Value::to_json);
                let (intent, variables) = (or_empty("intent"), or_empty("variables"));
                let mut arguments = vec!["run", id, "--intent", &intent, "--variables", &variables, "--at", &self.now];
                arguments.extend(self.asker.iter().map(String::as_str));
                arguments.extend(maybe(request, "thread_id").into_iter().flat_map(|id| ["--thread-id", id]));
                self.call(&arguments, "")
            }
            "assemble" => self.call(&["assemble", "--request", "-", "--at", &self.now], &request.to_json()),
            "evaluate_rules" => self.call(&["evaluate", "--request", "-", "--at", &self.now], &request.to_json()),
            "put_items" => {
                let lines: String = list(request, "items").iter().map(|item| item.to_json() + "\n").collect();
                self.change_items("put", request, &[], &lines)
            }
            "remove_items" => self.change_items("remove", request, &texts(request, "ids"), ""),
            other => panic!("no operation is called {other}"),
        }
    }

    fn change_items(&self, command: &str, request: &Value, ids: &[String], lines: &str) -> Came {
        let mut arguments = vec![command, maybe(request, "kind").unwrap()];
        arguments.extend(maybe(request, "collection"));
        arguments.extend(maybe(request, "namespace").into_iter().flat_map(|name| ["--namespace", name]));
        arguments.extend(ids.iter().flat_map(|id| ["--id", id]));
        self.call(&arguments, lines)
    }

    fn reply(&self, request: &Value) -> Value {
        let op = maybe(request, "op").unwrap();
        if op == "sequence" {
            let requests = list(request, "requests");
            let replies: Vec<_> = requests.iter().map(|request| self.reply(request)).collect();
            assert_repeated_replies(requests, &replies);
            return Value::object([("replies", Value::from(replies))]);
        }
        let mut members = Object::new();
        match self.operate(op, request) {
            Ok(result) => {
                members.insert("success".into(), Value::Bool(true));
                members.extend(result.as_object().unwrap().clone());
            }
            Err(error) => {
                members.insert("success".into(), Value::Bool(false));
                members.insert("error".into(), named_error(&error, request).into());
            }
        }
        // The other operations have no time of their own here.
        if !members.contains_key("meta") {
            members.entry("duration_ms".into()).or_insert(0_u64.into());
        }
        members.into()
    }
}

/// An error by the cases' names.
fn named_error(error: &Value, request: &Value) -> Object {
    let mut error = error.as_object().unwrap().clone();
    let code = match error.get("code").and_then(Value::as_text).unwrap() {
        "not-found" => "not_found",
        "limit" => "step_failed",
        // The command line names the formats that there are.
        "usage" if maybe(request, "format").is_some() => {
            assert!(error.get("message").and_then(Value::as_text).unwrap().contains("json, yaml"));
            error.insert("path".into(), "format".into());
            "invalid"
        }
        other => other,
    }
    .to_owned();
    error.insert("code".into(), code.into());
    error
}

fn run(command: &mut Command, input: &str) -> Output {
    let mut child = command.spawn().unwrap();
    // A command may end without reading all.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// A server that gives a case's vectors, and refuses every other text.
fn model_of(case: &Value) -> Option<ModelServer> {
    let vectors = case.member("vectors").and_then(Value::as_object)?;
    let vectors: Vec<_> = vectors.iter().map(|(text, vector)| (text.to_string(), floats(vector))).collect();
    Some(ModelServer::start(move |asked| {
        let vector = |text: &str| vectors.iter().find(|(known, _)| known == text).map(|(_, vector)| vector.clone());
        match asked.texts().into_iter().map(vector).collect() {
            Some(vectors) => Reply::Embed(vectors),
            None => Reply::Raw(400, "", b"{\"error\":{\"message\":\"there is no endpoint\"}}".to_vec()),
        }
    }))
}

/// What differs in a case. None: no handler can be registered at this door, and the case needs one.
async fn failures_of(store: &Arc<StoreUnderTest>, name: &str, case: &Value) -> Option<Vec<String>> {
    if case.member("handlers").is_some() {
        return None;
    }
    let world = World::build(store, case).await;
    let mut arguments = vec!["--owner".into(), format!("project/{name}")];
    let model = model_of(case);
    if let Some(model) = &model {
        let fields = [("embedding", "openai"), ("embedding_url", &model.url()), ("embedding_name", "m")];
        arguments.extend(fields.iter().map(|(field, value)| format!("--set={field}={value}")));
    }
    let mut asker = Vec::new();
    asker.extend(world.asker.session.iter().flat_map(|id| ["--session".to_owned(), id.clone()]));
    asker.extend(world.asker.user.iter().flat_map(|id| ["--user".to_owned(), id.clone()]));
    drop(world);
    let now = text(case, "now");
    let now = if now.is_empty() { "2026-03-01T12:00:00Z".to_owned() } else { now };
    let door = Door { arguments, asker, environment: store.environment(), now };
    let reply = door.reply(case.member("request").unwrap());
    let expected = case.member("expect").unwrap();
    let unplaced = unplaced_findings(expected, &reply);
    let mut failures: Vec<_> = unplaced.iter().map(|finding| format!("{name}: no path: {finding}")).collect();
    failures.extend(mismatch(expected, Some(&reply)).map(|difference| format!("{name}: {difference}")));
    Some(failures)
}

pub async fn every_case_holds_at_the_command_line(store: Arc<StoreUnderTest>) {
    // Most of the time a case waits for its processes.
    let lanes = (0..LANES).map(|lane| {
        let (store, runtime) = (store.clone(), Handle::current());
        spawn_blocking(move || {
            let cases = each_case().into_iter().skip(lane).step_by(LANES);
            cases.map(|(name, case)| runtime.block_on(failures_of(&store, &name, &case))).collect::<Vec<_>>()
        })
    });
    let (mut skipped, mut failures) = (0, Vec::new());
    for lane in join_all(lanes).await {
        for found in lane.unwrap() {
            match found {
                Some(found) => failures.extend(found),
                None => skipped += 1,
            }
        }
    }
    println!("{skipped} cases need handlers");
    assert!(skipped < 30, "{skipped} cases were skipped");
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}
