//! The world of a case: a fresh service over a store in memory that can be made to fail.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    Keepline, Options, Pipelines, Plugin,
    maintenance::{Maintenance, MaintenanceOptions, NoModel},
    pipe::{Answer, ToolActivity},
    pipelines::{Owner, PipelineOptions},
    store::{FailureCode, MemoryStore, Store},
};
use keepline_pipelines::value::Value;
use keepline_service::{Backend, KeyRecord, KeyRing, KeySecret, Scope, Service, ServiceOptions, TenantName};
use keepline_stores_tests::intercept::Intercepted;
use keepline_tests::lanes::{Watch, Watched, plugin, sandbox};
use serde_json::json;
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    case_data::{list, maybe, text, texts},
    stored::{put_data, put_raw},
};

/// However busy the machine is.
const LONG: Duration = Duration::from_secs(60);
/// Later entries were used later, by a clock of milliseconds.
const TICK: Duration = Duration::from_millis(3);

fn watched() -> Arc<Watched> {
    Arc::new(Intercepted::new(Arc::new(MemoryStore::default()), Watch::default()))
}

fn options() -> Options {
    let mut options = Options::default();
    options.entry_timeout = LONG;
    options.breaker.failures = u32::MAX;
    options
}

fn pipelines_plugin() -> Plugin {
    static PLUGIN: std::sync::LazyLock<Plugin> =
        std::sync::LazyLock::new(|| Plugin::bundled_pipelines(&sandbox()).unwrap());
    PLUGIN.clone()
}

/// What the service is built on.
struct CaseBackend {
    /// Of the first key's tenant: what the case has.
    first: Option<TenantName>,
    store: Arc<Watched>,
    keepline: Keepline,
    pipelines: Pipelines,
}

#[async_trait]
impl Backend for CaseBackend {
    fn keepline(&self) -> &Keepline {
        &self.keepline
    }

    async fn open_store(&self, tenant: &TenantName) -> anyhow::Result<Arc<dyn Store>> {
        Ok(if self.first.as_ref() == Some(tenant) { self.store.clone() } else { watched() })
    }

    fn open_maintenance(&self, keepline: &Keepline) -> anyhow::Result<Maintenance> {
        let options = MaintenanceOptions::default();
        Ok(Maintenance::new(keepline.clone(), Arc::new(NoModel), options, Handle::current()))
    }

    async fn load_pipelines(&self) -> anyhow::Result<Pipelines> {
        Ok(self.pipelines.clone())
    }
}

pub struct World {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
}

impl World {
    pub async fn build(setup: &[Value]) -> Self {
        Self::build_with(setup, |_| {}).await
    }

    /// The same with options of its own.
    pub async fn build_with(setup: &[Value], change: impl FnOnce(&mut ServiceOptions)) -> Self {
        let store = watched();
        let option = |name: &str| setup.iter().find_map(|entry| entry.member("option")?.member(name));
        let is_on = option("conversation").and_then(Value::as_bool).unwrap_or(true);
        let mut of_filter = options();
        of_filter.filter = json!({"conversation": is_on}).to_string();
        let keepline = Keepline::new(plugin(), store.clone(), of_filter).await.unwrap();
        let mut of_pipelines = PipelineOptions::default();
        of_pipelines.host = options();
        let pipelines = Pipelines::new(pipelines_plugin(), store.clone(), of_pipelines).await.unwrap();
        for entry in setup {
            set_up(&store, &keepline, &pipelines, entry).await;
        }
        let mut options = ServiceOptions::default();
        options.request_timeout = LONG;
        if let Some(limit) = option("body_limit").and_then(Value::as_whole) {
            options.body_limit = limit.try_into().unwrap();
        }
        let keys: Vec<KeyRecord> = setup.iter().filter_map(|entry| entry.member("key")).map(key_record).collect();
        let first = keys.first().and_then(|key| key.tenant.clone());
        if !keys.is_empty() {
            options.keys = KeyRing::of(keys);
        }
        change(&mut options);
        let backend = Arc::new(CaseBackend { first, store, keepline, pipelines });
        let service = Service::bind("127.0.0.1:0".parse().unwrap(), backend, options).await.unwrap();
        let address = service.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(service.serve(async move { drop(stopped.await) }));
        Self { address, stop: Some(stop) }
    }

    /// Ends the service.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }
}

async fn set_up(store: &Arc<Watched>, keepline: &Keepline, pipelines: &Pipelines, entry: &Value) {
    let owner = Owner::project("default");
    let (name, given) = entry.as_object().unwrap().iter().next().unwrap();
    let plain: Arc<dyn Store> = store.clone();
    match &**name {
        "definition" => put_raw(&plain, &owner, "memories", given).await,
        "rule_engine" => put_raw(&plain, &owner, "rules", given).await,
        "data" => put_data(pipelines, &owner, given).await,
        "session" => put_session(keepline, given).await,
        "fault" => store.fail(Some(FailureCode::Unavailable)),
        // How the service is started.
        "option" | "key" => {}
        other => panic!("no setup is called {other}"),
    }
}

fn key_record(given: &Value) -> KeyRecord {
    let scope = |name: &String| Scope::ALL.into_iter().find(|scope| scope.name() == name).unwrap();
    let scopes: Vec<Scope> = texts(given, "scopes").iter().map(scope).collect();
    let tenant = Some(text(given, "tenant").parse().unwrap());
    KeyRecord { tenant, ..KeyRecord::new(&KeySecret::from_text(&text(given, "secret")), &scopes).unwrap() }
}

/// A conversation, through the lanes.
async fn put_session(keepline: &Keepline, given: &Value) {
    let (id, user) = (text(given, "id"), text(given, "user"));
    let metadata = json!({"session_id": id, "user_id": user}).to_string();
    for turn in list(given, "turns") {
        tokio::time::sleep(TICK).await;
        let activity: Vec<ToolActivity> = list(turn, "tools").iter().flat_map(tool).collect();
        let (question, answer) = (text(turn, "question"), text(turn, "answer"));
        let open = keepline.open_turns().answer(&metadata);
        let answer = Answer {
            text: &answer,
            metadata: &metadata,
            question_text: Some(&question),
            activity: &activity,
            ..Answer::default()
        };
        keepline.pipe().reply_in(&open, answer, None).await.unwrap();
    }
    if let Some(title) = maybe(given, "title") {
        keepline.sessions().set_title((&*id).into(), Some(title)).await.unwrap();
    }
}

/// A call and its result.
fn tool(given: &Value) -> [ToolActivity; 2] {
    let (call_id, name) = (text(given, "call_id"), text(given, "name"));
    let arguments = given.member("arguments").map(Value::to_json);
    let called = ToolActivity { call_id: call_id.clone(), name: name.clone(), arguments, ..ToolActivity::default() };
    let output = Some(text(given, "output"));
    [called, ToolActivity { call_id, name, output, ..ToolActivity::default() }]
}
