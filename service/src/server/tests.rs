//! What a caller reaches whose key names a user, another tenant, or fewer scopes: for every row of the table, through the
//! router, with the real filter on a real store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{Router, body::Body, extract::Request, http::Method};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use keepline::{
    Keepline, Options, Pipelines, Plugin, Sandbox,
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
    pipelines::PipelineOptions,
    store::{BucketId, Deadline, DeleteRequest, MemoryStore, Store, Writer},
};
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::watch};

use super::{ServiceOptions, Shared, dispatch};
use crate::{
    access::{KeyRecord, KeyRing, KeySecret, OriginPolicy, Scope, TenantName},
    http::{Access, CONDITIONS, ErrorShape, Route},
    routes,
    tenants::Backend,
};

/// Of the conversations of one tenant, in memory.
struct MemoryBackend {
    keepline: Keepline,
}

#[async_trait]
impl Backend for MemoryBackend {
    fn keepline(&self) -> &Keepline {
        &self.keepline
    }

    async fn open_store(&self, _: &TenantName) -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(MemoryStore::default()))
    }

    fn open_maintenance(&self, keepline: &Keepline) -> anyhow::Result<Maintenance> {
        let options = MaintenanceOptions::default();
        Ok(Maintenance::new(keepline.clone(), Arc::new(NoModel), options, Handle::current()))
    }

    async fn load_pipelines(&self) -> anyhow::Result<Pipelines> {
        let plugin = Plugin::bundled_pipelines(&Sandbox::default())?;
        Ok(Pipelines::new(plugin, self.keepline.store().clone(), PipelineOptions::default()).await?)
    }
}

struct Service {
    store: Arc<dyn Store>,
    router: TowerToHyperService<Router>,
    routes: Vec<Route>,
    /// Never used, and the service stops when it is gone.
    _stop: watch::Sender<bool>,
}

/// A status and a body.
type Reply = (u16, Value);

impl Service {
    /// With a key for each user, whose secret is their name; one for all of the tenant's users; and what else there is.
    async fn new() -> Self {
        let mut options = Options::default();
        options.filter = r#"{"conversation":true,"recall":"user"}"#.into();
        let plugin = Plugin::bundled(&Sandbox::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let keepline = Keepline::new(plugin, store.clone(), options).await.unwrap();
        let key = |secret: &str, scopes: &[Scope], user: Option<&str>, tenant: Option<&str>| KeyRecord {
            user: user.map(str::to_owned),
            tenant: tenant.map(|name| name.parse().unwrap()),
            ..KeyRecord::new(&KeySecret::from_text(secret), scopes).unwrap()
        };
        let keys = vec![
            key("anna", &Scope::ALL, Some("anna"), None),
            key("bob", &Scope::ALL, Some("bob"), None),
            key("all", &Scope::ALL, None, None),
            key("neighbour", &Scope::ALL, None, Some("neighbour")),
            key("reader", &[Scope::Read], None, None),
            key("writer", &[Scope::Read, Scope::Write], None, None),
            key("only-writer", &[Scope::Write], None, None),
        ];
        let mut options = ServiceOptions { keys: KeyRing::of(keys), ..ServiceOptions::default() };
        options.request_timeout = Duration::from_secs(600);
        let (stop, stopping) = watch::channel(false);
        let shared =
            Shared::new(Arc::new(MemoryBackend { keepline }), &options, OriginPolicy::of_loopback(&[], &[]), stopping);
        let router = TowerToHyperService::new(dispatch::router(Arc::new(shared)).unwrap());
        Self { store, router, routes: routes::table(), _stop: stop }
    }

    /// A request of a caller with that user, or of one without.
    async fn send(&self, user: Option<&str>, method: &str, path: &str, body: Value) -> Reply {
        self.send_with(user.unwrap_or("all"), method, path, body).await
    }

    /// A request with that key.
    async fn send_with(&self, key: &str, method: &str, path: &str, body: Value) -> Reply {
        self.send_headed(("x-api-key", key), method, path, body).await
    }

    /// A request with that header, of a caller without a user unless it is another one's key.
    async fn send_headed(&self, header: (&str, &str), method: &str, path: &str, body: Value) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if header.0 != "x-api-key" {
            request = request.header("x-api-key", "all");
        }
        let request = request.header(header.0, header.1);
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let reply = self.router.call(request.body(body).unwrap()).await.unwrap();
        let status = reply.status().as_u16();
        let bytes = axum::body::to_bytes(reply.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// An answer of that caller in that session.
    async fn answer(&self, user: Option<&str>, session: &str) -> Reply {
        let body = json!({"text": "!", "question_text": "?", "metadata": {"session_id": session}});
        self.send(user, "POST", "/keepline/v1/answers", body).await
    }
}

/// A body that each row takes.
fn body_of(route: &Route) -> Value {
    match (route.method.as_str(), route.path.rsplit('/').next().unwrap()) {
        ("POST" | "PUT", "messages") => json!([{"role": "user", "content": "x"}]),
        ("PATCH", "{position}") => json!({"content": "x"}),
        ("POST" | "PUT" | "PATCH", _) => json!({}),
        _ => Value::Null,
    }
}

#[tokio::test]
async fn another_users_session_is_on_every_route_as_if_it_were_absent() {
    let service = Service::new().await;
    assert_eq!(service.answer(Some("bob"), "s").await.0, 200);
    let bobs = service.send(Some("bob"), "GET", "/keepline/v1/sessions/s", Value::Null).await;
    let absent = service.send(Some("anna"), "GET", "/keepline/v1/sessions/t", Value::Null).await;
    assert_eq!((bobs.0, absent.0), (200, 404));
    let mut count = 0;
    for route in service.routes.iter().filter(|route| route.path.contains("/sessions/{id}")) {
        let path = route.path.replace("{position}", "1").replace("{key}", "last_answer");
        let query = if path.ends_with("lines") { "?text=x" } else { "" };
        let send = async |id: &str| {
            let path = format!("{}{query}", path.replace("{id}", id));
            service.send(Some("anna"), route.method.as_str(), &path, body_of(route)).await
        };
        let (status, body) = send("s").await;
        if route.errors == ErrorShape::NeuroLink {
            let absent = send("t").await.1["error"].to_string().replace("\\\"t\\\"", "\\\"s\\\"");
            assert_eq!((status, body["error"].to_string()), (404, absent), "{} {}", route.method, route.path);
            continue;
        }
        let as_absent = absent.1.to_string().replace("\\\"t\\\"", "\\\"s\\\"");
        assert_eq!((status, body.to_string()), (404, as_absent), "{} {}", route.method, route.path);
        count += 1;
    }
    assert!(count > 15, "{count}");
    // Nothing of it was changed.
    assert_eq!(service.send(Some("bob"), "GET", "/keepline/v1/sessions/s", Value::Null).await, bobs);
}

/// A node lives on when its session has expired, whose name somebody else may take then.
#[tokio::test]
async fn another_users_node_is_on_every_route_as_if_it_were_absent() {
    let service = Service::new().await;
    let metadata = json!({"session_id": "s", "memory_mode": "node", "node_id": "n", "app_id": "a"});
    let answer = json!({"text": "!", "question_text": "?", "metadata": metadata});
    assert_eq!(service.send(Some("anna"), "POST", "/keepline/v1/answers", answer).await.0, 200);
    let expired = DeleteRequest { bucket: BucketId::session("s"), generation: None, max_keys: 0 };
    service.store.delete(Writer::new().advance(), &expired, Deadline::NEVER).await.unwrap();
    assert_eq!(service.answer(Some("bob"), "s").await.0, 200);
    let is_of_nodes = |route: &&Route| match route.path.strip_prefix("/keepline/v1/sessions/{id}") {
        Some("") => route.method != "DELETE",
        Some(rest) => ["/messages", "/window", "/branches"].iter().any(|part| rest.starts_with(part)),
        None => false,
    };
    let mut count = 0;
    for route in service.routes.iter().filter(is_of_nodes) {
        let path = route.path.replace("{position}", "0").replace("{id}", "s");
        let send = async |node: &str| {
            let path = format!("{path}?text=x&app=a&node={node}");
            service.send(Some("bob"), route.method.as_str(), &path, body_of(route)).await
        };
        let (status, body) = send("n").await;
        assert_eq!(status, 404, "{} {}: {body}", route.method, route.path);
        // What writes messages may begin a node.
        if !matches!((route.method.as_str(), path.ends_with("/messages")), ("POST" | "PUT", true)) {
            assert_eq!((status, body), send("none").await, "{} {}", route.method, route.path);
        }
        count += 1;
    }
    assert_eq!(count, 12);
    let recall = json!({"query": "what", "session": "s", "node": "n", "app": "a"});
    assert_eq!(service.send(Some("bob"), "POST", "/keepline/v1/recall", recall).await.0, 404);
    // It is as it was, and who has no user reaches it.
    let messages = "/keepline/v1/sessions/s/messages?app=a&node=";
    let (status, page) = service.send(None, "GET", &format!("{messages}n"), Value::Null).await;
    assert_eq!((status, page["data"].as_array().map(Vec::len)), (200, Some(2)), "{page}");
    // Bob's own, and one that nobody in particular has written to, are his.
    let message = json!([{"role": "user", "content": "x"}]);
    assert_eq!(service.send(Some("bob"), "PUT", &format!("{messages}own"), message.clone()).await.0, 200);
    assert_eq!(service.send(None, "PUT", &format!("{messages}anyones"), message).await.0, 200);
    for node in ["own", "anyones"] {
        assert_eq!(service.send(Some("bob"), "GET", &format!("{messages}{node}"), Value::Null).await.0, 200, "{node}");
    }
}

#[tokio::test]
async fn a_session_without_an_owner_is_neither_read_nor_taken() {
    let service = Service::new().await;
    assert_eq!(service.answer(None, "s").await.0, 200);
    let read = service.send(Some("anna"), "GET", "/keepline/v1/sessions/s/messages", Value::Null).await;
    assert_eq!(read.0, 404);
    assert_eq!(service.answer(Some("anna"), "s").await.0, 404);
    let appended = json!([{"role": "user", "content": "x"}]);
    assert_eq!(service.send(Some("anna"), "POST", "/keepline/v1/sessions/s/messages", appended).await.0, 404);
    assert_eq!(service.send(Some("anna"), "POST", "/keepline/v1/sessions", json!({"id": "s"})).await.0, 404);
    let session = service.send(None, "GET", "/keepline/v1/sessions/s", Value::Null).await.1;
    assert_eq!((&session["owner"], &session["messages"]), (&Value::Null, &2.into()));
}

#[tokio::test]
async fn an_entry_of_a_user_is_that_users_and_names_no_other() {
    let service = Service::new().await;
    let ask = async |metadata: Value| {
        let body = json!({"text": "?", "metadata": metadata});
        service.send(Some("anna"), "POST", "/keepline/v1/questions", body).await
    };
    let (status, reply) = ask(json!({"session_id": "s"})).await;
    assert_eq!((status, &reply["metadata"]["user_id"]), (200, &"anna".into()));
    assert_eq!(ask(json!({"session_id": "s", "user_id": "anna"})).await.0, 200);
    assert_eq!(ask(json!({"session_id": "s", "user_id": null})).await.1["metadata"]["user_id"], "anna");
    assert_eq!(ask(json!({"session_id": "s", "user_id": "bob"})).await.0, 404);
    assert_eq!(ask(json!({"session_id": "s", "user_id": 7})).await.0, 400);
    assert_eq!(ask(json!({})).await.1["effect"], "passed");
    assert_eq!(ask(json!({"session_id": "a b"})).await.1["effect"], "ignored");
    // A look begins nothing.
    ask(json!({"session_id": "t", "memory": {"look": true}})).await;
    assert_eq!(service.send(None, "GET", "/keepline/v1/sessions/t", Value::Null).await.0, 404);
    // A turn is bound to the user who asked, whatever it says.
    let turn = reply["turn"].as_str().unwrap();
    for turn in [turn.replace("anna", "bob"), turn.replace("\"user\":\"anna\",", "")] {
        let body = json!({"text": "!", "turn": turn});
        let answered = service.send(Some("anna"), "POST", "/keepline/v1/answers", body).await;
        assert_eq!(answered.0, 404, "{turn}");
    }
    let body = json!({"text": "!", "turn": turn});
    assert_eq!(service.send(Some("bob"), "POST", "/keepline/v1/answers", body.clone()).await.0, 404);
    assert_eq!(service.send(Some("anna"), "POST", "/keepline/v1/answers", body).await.1["effect"], "stored");
    let session = service.send(None, "GET", "/keepline/v1/sessions/s", Value::Null).await.1;
    assert_eq!(session["owner"], "anna");
}

#[tokio::test]
async fn a_forged_turn_reaches_no_session_of_another_user() {
    let service = Service::new().await;
    service.answer(Some("bob"), "secret").await;
    let body = json!({"text": "?", "metadata": {"session_id": "own"}});
    let asked = service.send(Some("anna"), "POST", "/keepline/v1/questions", body).await.1;
    let turn: Value = serde_json::from_str(asked["turn"].as_str().unwrap()).unwrap();
    // The session that the host reads, and the one that the filter's own state names.
    let with = |session: &str, state: String| json!({"session": session, "user": "anna", "state": state}).to_string();
    let state = turn["state"].as_str().unwrap();
    for forged in [with("secret", String::new()), with("secret", state.replace("own", "secret"))] {
        let body = json!({"text": "mine", "turn": forged});
        assert_eq!(service.send(Some("anna"), "POST", "/keepline/v1/answers", body).await.0, 404, "{forged}");
    }
    let body = json!({"text": "mine", "turn": with("own", state.replace("own", "secret"))});
    service.send(Some("anna"), "POST", "/keepline/v1/answers", body).await;
    let kept = service.send(None, "GET", "/keepline/v1/sessions/secret/keys/last_answer", Value::Null).await.1;
    assert_eq!(kept["value"], "!");
    // As it came, it is taken.
    let body = json!({"text": "mine", "turn": asked["turn"]});
    assert_eq!(service.send(Some("anna"), "POST", "/keepline/v1/answers", body).await.1["effect"], "stored");
}

#[tokio::test]
async fn a_caller_with_a_user_lists_searches_and_deletes_only_what_is_theirs() {
    let service = Service::new().await;
    for (user, session) in [(Some("anna"), "a1"), (Some("anna"), "a2"), (Some("bob"), "b1"), (None, "n1")] {
        assert_eq!(service.answer(user, session).await.0, 200);
    }
    let anna = async |method: &str, path: &str, body: Value| service.send(Some("anna"), method, path, body).await;
    let listed = anna("GET", "/keepline/v1/sessions", Value::Null).await.1;
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    assert_eq!(anna("GET", "/keepline/v1/sessions?user=bob", Value::Null).await.0, 404);
    for path in ["", "/sessions", "/keys", "/keys/k"] {
        assert_eq!(anna("GET", &format!("/keepline/v1/users/bob{path}"), Value::Null).await.0, 404, "{path}");
    }
    assert_eq!(anna("DELETE", "/keepline/v1/users/bob", Value::Null).await.0, 404);
    assert_eq!(anna("PUT", "/keepline/v1/users/bob/keys/k", json!(1)).await.0, 404);
    let users = anna("GET", "/keepline/v1/users", Value::Null).await.1;
    assert_eq!(users["data"].as_array().unwrap().len(), 1);
    assert_eq!(anna("POST", "/keepline/v1/search", json!({"query": "x", "user": "bob"})).await.0, 404);
    assert_eq!(anna("POST", "/keepline/v1/search", json!({"query": "x", "session": "b1"})).await.0, 404);
    assert_eq!(anna("POST", "/keepline/v1/recall", json!({"query": "x", "session": "n1"})).await.0, 404);
    assert_eq!(anna("GET", "/keepline/v1/stats", Value::Null).await.1["sessions"], 2);
    assert_eq!(anna("DELETE", "/keepline/v1/sessions", Value::Null).await.1["deleted"], 2);
    let left = service.send(None, "GET", "/keepline/v1/stats", Value::Null).await.1;
    assert_eq!(left["sessions"], 2);
}

#[tokio::test]
async fn a_caller_with_a_user_writes_no_definitions_and_no_data_sets() {
    let service = Service::new().await;
    for route in service.routes.iter().filter(|route| route.method != "GET") {
        let is_write = route.access == Access::Needs(Scope::Write);
        let is_of_project = route.path.contains("/definitions/") || route.path.contains("/items/");
        if !is_write || !(is_of_project || route.errors == ErrorShape::CodeBolt) {
            continue;
        }
        let path = route.path.replace("{kind}", "memories").replace("{definition}", "d").replace("{dataset}", "values");
        let reply = service.send(Some("anna"), route.method.as_str(), &path, json!({})).await;
        assert_eq!(reply.0, 403, "{} {}", route.method, route.path);
    }
    let run = service.send(Some("anna"), "POST", "/keepline/v1/memories/d/run", json!({})).await;
    assert_eq!(run.0, 404);
}

#[tokio::test]
async fn a_body_that_has_to_be_an_object_is_none_as_an_array_of_its_members_values() {
    let service = Service::new().await;
    assert_eq!(service.answer(Some("bob"), "x").await.0, 200);
    for (method, path, body) in [
        ("POST", "/keepline/v1/sessions", json!([null, null])),
        ("PATCH", "/keepline/v1/sessions/x", json!(["title", null])),
        ("PATCH", "/keepline/v1/sessions/x", json!({"settings": [1000, null, null, null]})),
        ("POST", "/keepline/v1/search", json!(["x", null, "x", null, null])),
        ("PUT", "/keepline/v1/items/values?name=n&namespace=n", json!([[{"id": "i", "item": 1}]])),
    ] {
        assert_eq!(service.send(None, method, path, body).await.0, 400, "{method} {path}");
    }
    let session = service.send(None, "GET", "/keepline/v1/sessions/x", Value::Null).await.1;
    assert_ne!(session["title"], "title");
    assert_eq!(session["settings"]["max_context_tokens"], Value::Null);
}

#[tokio::test]
async fn a_wrong_parameter_has_the_name_under_which_it_was_sent() {
    let service = Service::new().await;
    for (method, path, body, name) in [
        ("GET", "/keepline/v1/definitions/memories?scope=galaxy", Value::Null, "scope"),
        ("GET", "/keepline/v1/items/values?namespace=n", Value::Null, "name"),
        ("POST", "/keepline/v1/items/values/remove?namespace=n", json!({"ids": ["i"]}), "name"),
    ] {
        let (status, reply) = service.send(None, method, path, body).await;
        assert_eq!((status, &reply["error"]["param"]), (400, &json!(name)), "{method} {path}: {reply}");
    }
    let request = json!({"scope_variables": {}, "rule_engine_ids": ["none of them"]});
    let (status, reply) = service.send(None, "POST", "/context-assembly/evaluate-rules", request).await;
    assert_eq!((status, &reply["error"]["code"]), (400, &json!("not_found")), "{reply}");
    assert_eq!(reply["error"]["path"], "rule_engine_ids[0]");
    let one = "/context-rule-engine/none%20of%20them/evaluate";
    assert_eq!(service.send(None, "POST", one, json!({"scope_variables": {}})).await.0, 404);
}

/// A path of a route, with something for each of its parameters.
fn path_of(route: &Route) -> String {
    let parts = route.path.split('/').map(|part| match part {
        "{kind}" => "memories",
        "{dataset}" => "values",
        "{position}" => "1",
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_route_but_the_public_ones_takes_a_key_with_its_scope() {
    let service = Service::new().await;
    let mut public = Vec::new();
    for route in &service.routes {
        let (method, path) = (route.method.as_str(), path_of(route));
        let Access::Needs(scope) = route.access else {
            public.push(route.path);
            continue;
        };
        for key in ["", "unknown"] {
            assert_eq!(service.send_with(key, method, &path, Value::Null).await.0, 401, "{method} {path} {key:?}");
        }
        let lacking: &[&str] = match scope {
            Scope::Read => &["only-writer"],
            Scope::Write => &["reader"],
            Scope::Admin => &["reader", "writer"],
        };
        for key in lacking {
            assert_eq!(service.send_with(key, method, &path, Value::Null).await.0, 403, "{method} {path} {key}");
        }
    }
    public.sort_unstable();
    assert_eq!(public, ["/", "/healthz", "/openapi.json", "/page/{folder}/{file}", "/readyz"]);
}

#[tokio::test]
async fn a_condition_is_taken_by_a_route_or_refused() {
    let service = Service::new().await;
    let bound = service.routes.iter().filter(|route| route.errors == ErrorShape::Keepline);
    let mut count = 0;
    for route in bound.filter(|route| route.method != Method::GET) {
        for name in CONDITIONS {
            if route.conditions.contains(&name.as_str()) {
                continue;
            }
            let (method, path) = (route.method.as_str(), path_of(route));
            let (status, body) = service.send_headed((name.as_str(), "*"), method, &path, body_of(route)).await;
            assert_eq!((status, &body["error"]["param"]), (400, &name.as_str().into()), "{method} {path} {body}");
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
}

#[tokio::test]
async fn another_tenant_finds_nothing_of_what_is_there() {
    let service = Service::new().await;
    assert_eq!(service.answer(Some("bob"), "x").await.0, 200);
    let neighbour = async |path: &str| service.send_with("neighbour", "GET", path, Value::Null).await;
    assert_eq!(neighbour("/keepline/v1/sessions/x").await.0, 404);
    assert_eq!(neighbour("/keepline/v1/users/bob").await.0, 404);
    assert_eq!(neighbour("/keepline/v1/sessions").await.1["data"], json!([]));
    assert_eq!(service.send_with("neighbour", "DELETE", "/keepline/v1/sessions", Value::Null).await.0, 200);
    assert_eq!(service.send(None, "GET", "/keepline/v1/sessions/x", Value::Null).await.0, 200);
}
