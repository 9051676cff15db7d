//! Every case of `conformance/pipelines/` over HTTP: a service on the case's world, of which only the clock, the vectors and the
//! handlers are the test's, and requests to its routes.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    Keepline, Options, Pipelines,
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
    pipelines::{Checked, DefinitionForm, DefinitionKind},
    store::Store,
};
use keepline_pipelines::value::{Object, Value};
use keepline_service::{Backend, KeyRecord, KeyRing, KeySecret, Scope, Service, ServiceOptions, TenantName};
use keepline_stores_tests::stores::StoreUnderTest;
use keepline_tests::lanes::plugin;
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    case_data::{assert_repeated_replies, each_case, flag, items, list, maybe, text, texts, timed, unplaced_findings},
    client::{Request, send},
    matcher::mismatch,
    world::World,
};

/// Cases that no route can bring about, and why. Each is a case, and all others are run.
const SKIPPED: [(&str, &[&str]); 1] =
    [("no route under /keepline/v1 tells which variables memories require", &["required-variables"])];
/// How many cases are run.
const RUN: usize = 401;
/// However busy the machine is.
const LONG: Duration = Duration::from_secs(60);
const SECRET: &str = "kl_of_the_case";

/// What a request came to: the members of its reply, or an error.
type Came = Result<Object, Object>;

struct CaseBackend {
    keepline: Keepline,
    pipelines: Pipelines,
}

#[async_trait]
impl Backend for CaseBackend {
    fn keepline(&self) -> &Keepline {
        &self.keepline
    }

    async fn open_store(&self, _: &TenantName) -> anyhow::Result<Arc<dyn Store>> {
        anyhow::bail!("a case has no tenants")
    }

    fn open_maintenance(&self, keepline: &Keepline) -> anyhow::Result<Maintenance> {
        let options = MaintenanceOptions::default();
        Ok(Maintenance::new(keepline.clone(), Arc::new(NoModel), options, Handle::current()))
    }

    async fn load_pipelines(&self) -> anyhow::Result<Pipelines> {
        Ok(self.pipelines.clone())
    }
}

/// A case at its service.
struct Door {
    address: SocketAddr,
    world: World,
    /// It ends with this.
    _stop: oneshot::Sender<()>,
}

impl Door {
    async fn open(keepline: &Keepline, world: World, name: &str) -> Self {
        let mut options = ServiceOptions::default();
        options.request_timeout = LONG;
        let key = KeyRecord::new(&KeySecret::from_text(SECRET), &Scope::ALL).unwrap();
        options.keys = KeyRing::of(vec![KeyRecord { project: name.to_owned(), ..key }]);
        let backend = CaseBackend { keepline: keepline.clone(), pipelines: world.pipelines.clone() };
        let service = Service::bind("127.0.0.1:0".parse().unwrap(), Arc::new(backend), options).await.unwrap();
        let address = service.address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(service.serve(async move { drop(stopped.await) }));
        Self { address, world, _stop: stop }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<String>) -> Came {
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        headers.push(("authorization".to_owned(), format!("Bearer {SECRET}")));
        let path = format!("/keepline/v1{path}");
        let reply = send(self.address, &Request { method, path: &path, headers, body }).await;
        assert_eq!(reply.headers["content-type"], "application/json", "{method} {path}: {reply:?}");
        let members = reply.json().unwrap().as_object().unwrap().clone();
        if reply.status == 200 { Ok(members) } else { Err(named_error(members["error"].as_object().unwrap())) }
    }

    /// A definition of a reply.
    async fn memory(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<String>) -> Came {
        let reply = self.send(method, &format!("/definitions/memories/{path}"), headers, body).await?;
        Ok(member("memory", reply["definition"].clone()))
    }

    /// Stores a definition under its own id, or where it has none, under any.
    async fn put(&self, form: DefinitionForm, text: &str, replaces: bool) -> Came {
        let Checked { definition, .. } =
            self.world.pipelines.check(DefinitionKind::Memory, form, text).await.map_err(|_| Object::new()).unwrap();
        let id = definition.map_or_else(|| "unnamed".to_owned(), |definition| definition.id);
        let kind = if form == DefinitionForm::Yaml { "application/yaml" } else { "application/json" };
        let mut headers = vec![("content-type", kind)];
        if !replaces {
            headers.push(("if-none-match", "*"));
        }
        let stored = self.memory("PUT", &encoded(&id), &headers, Some(text.to_owned())).await;
        match stored {
            // The error names the first fault; all of them are told where it is checked.
            Err(mut error) if error["code"] == Value::from("invalid") => {
                let headers = headers.get(..1).unwrap_or_default();
                let path = "/definitions/memories/check";
                error.extend(self.send("POST", path, headers, Some(text.to_owned())).await?);
                Err(error)
            }
            stored => stored,
        }
    }

    async fn list(&self, request: &Value, only_active: bool) -> Came {
        let (mut memories, mut after) = (Vec::new(), String::new());
        loop {
            let scope = maybe(request, "inputScope").unwrap_or_default();
            let scope = if scope.is_empty() { String::new() } else { format!("&scope={}", encoded(scope)) };
            let path = format!("/definitions/memories?active={only_active}{scope}&after={}", encoded(&after));
            let page = Value::from(self.send("GET", &path, &[], None).await?);
            memories.extend(list(&page, "data").iter().map(|found| found.member("definition").unwrap().clone()));
            if !flag(&page, "has_more") {
                return Ok(member("memories", Value::from(memories)));
            }
            after = text(&page, "last_id");
        }
    }

    async fn operate(&self, op: &str, request: &Value) -> Came {
        let id = maybe(request, "id").map(encoded).unwrap_or_default();
        let sent = |name| request.member(name).unwrap().to_json();
        match op {
            "create" => self.put(DefinitionForm::Json, &sent("definition"), false).await,
            "get" => self.memory("GET", &id, &[], None).await,
            // What is stored is JSON, and what is exported is that.
            "export" => {
                let stored = self.memory("GET", &id, &[], None).await?;
                Ok(member("text", keepline_pipelines::catalog::export(&stored["memory"]).into()))
            }
            "delete" => self.send("DELETE", &format!("/definitions/memories/{id}"), &[], None).await,
            "list" | "list_by_scope" => self.list(request, flag(request, "activeOnly")).await,
            "list_active" => self.list(request, true).await,
            "update" => self.memory("PATCH", &id, &[], Some(sent("changes"))).await,
            "duplicate" => {
                let copy = maybe(request, "new_id").map(|id| member("id", id.into())).unwrap_or_default();
                self.memory("POST", &format!("{id}/duplicate"), &[], Some(Value::from(copy).to_json())).await
            }
            "import" => {
                let form = DefinitionForm::from_name(maybe(request, "format").unwrap_or("json")).unwrap();
                self.put(form, maybe(request, "text").unwrap(), flag(request, "overwrite")).await
            }
            "validate" => self.send("POST", "/definitions/memories/check", &[], Some(sent("definition"))).await,
            "validate_rule_engine" => {
                self.send("POST", "/definitions/rule-engines/check", &[], Some(sent("rule_engine"))).await
            }
            "step_specs" => {
                let path = format!("/steps?configurable={}", flag(request, "userConfigurable"));
                Ok(member("specs", self.send("GET", &path, &[], None).await?["data"].clone()))
            }
            "execute" => self.run(&format!("/memories/{id}/run"), request, &["op", "id"]).await,
            "assemble" => self.run("/assemble", request, &["op"]).await,
            "evaluate_rules" => self.run("/evaluate", request, &["op"]).await,
            "put_items" => {
                let item = |(id, item): (String, Value)| Value::object([("id", Value::from(id)), ("item", item)]);
                let items: Vec<_> = items(request).into_iter().map(item).collect();
                let body = Value::object([("items", Value::from(items))]).to_json();
                self.send("PUT", &of_dataset(request, ""), &[], Some(body)).await
            }
            "remove_items" => {
                let ids: Vec<_> = texts(request, "ids").into_iter().map(Value::from).collect();
                let body = Value::object([("ids", Value::from(ids))]).to_json();
                let changed = self.send("POST", &of_dataset(request, "/remove"), &[], Some(body)).await?;
                Ok(member("removed", changed["changed"].clone()))
            }
            other => panic!("no operation is called {other}"),
        }
    }

    /// A run for who asks. Of the request goes what the path does not say.
    async fn run(&self, path: &str, request: &Value, said: &[&str]) -> Came {
        let mut body = request.as_object().unwrap().clone();
        said.iter().for_each(|name| drop(body.shift_remove(*name)));
        let asker = &self.world.asker;
        let who = [("session", &asker.session), ("user", &asker.user)];
        let who = who.iter().filter_map(|(name, id)| Some(format!("{name}={}", encoded(id.as_deref()?))));
        let path = format!("{path}?{}", who.collect::<Vec<_>>().join("&"));
        self.send("POST", &path, &[], Some(Value::from(body).to_json())).await
    }

    async fn reply(&self, request: &Value) -> Value {
        let op = maybe(request, "op").unwrap();
        if op == "sequence" {
            let (requests, mut replies) = (list(request, "requests"), Vec::new());
            for request in requests {
                replies.push(Box::pin(self.reply(request)).await);
            }
            assert_repeated_replies(requests, &replies);
            return Value::object([("replies", Value::from(replies))]);
        }
        // The service tells an error by its status, and so the runner says of the others that they succeeded.
        match self.operate(op, request).await {
            Ok(mut reply) => {
                reply.entry("success".into()).or_insert(Value::Bool(true));
                timed(reply)
            }
            Err(error) => {
                let failed = [("success".into(), Value::Bool(false)), ("error".into(), error.into())];
                timed(Object::from_iter(failed))
            }
        }
    }
}

fn member(name: &str, value: Value) -> Object {
    Object::from_iter([(name.into(), value)])
}

/// The data set of a request, as a path.
fn of_dataset(request: &Value, below: &str) -> String {
    let name = |name| encoded(maybe(request, name).unwrap_or_default());
    format!("/items/{}{below}?name={}&namespace={}", name("kind"), name("collection"), name("namespace"))
}

fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

/// An error by the cases' names, of codes and of parameters.
fn named_error(error: &Object) -> Object {
    let text = |name: &str| error.get(name).and_then(Value::as_text).unwrap_or_default();
    let code = match text("code") {
        "changed" => "exists",
        "limit" => "step_failed",
        "malformed" => "invalid",
        other => other,
    };
    let path = match text("param") {
        "name" => "collection",
        "scope" => "inputScope",
        other => other,
    };
    let members = [("code", code), ("path", path), ("message", text("message"))];
    Object::from_iter(members.map(|(name, text)| (name.into(), Value::from(text))))
}

async fn failures_of(store: &StoreUnderTest, keepline: &Keepline, name: &str, case: &Value) -> Vec<String> {
    let door = Door::open(keepline, World::build(store, case).await, name).await;
    let reply = door.reply(case.member("request").unwrap()).await;
    let expected = case.member("expect").unwrap();
    let unplaced = unplaced_findings(expected, &reply);
    let mut failures: Vec<_> = unplaced.iter().map(|finding| format!("{name}: no path: {finding}")).collect();
    failures.extend(mismatch(expected, Some(&reply)).map(|difference| format!("{name}: {difference}")));
    failures
}

pub async fn every_case_holds_over_http(store: Arc<StoreUnderTest>) {
    let mut options = Options::default();
    options.entry_timeout = LONG;
    let keepline = Keepline::new(plugin(), store.store.clone(), options).await.unwrap();
    let skipped: Vec<&str> = SKIPPED.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let cases = each_case();
    for name in &skipped {
        assert!(cases.iter().any(|(known, _)| known == name), "there is no case {name}");
    }
    let (mut run, mut failures) = (0, Vec::new());
    for (name, case) in cases.iter().filter(|(name, _)| !skipped.contains(&&**name)) {
        failures.extend(failures_of(&store, &keepline, name, case).await);
        run += 1;
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(run, RUN, "{} cases were skipped", skipped.len());
}
