//! What questions gain from declared memories.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    Keepline, Options, Pipelines,
    pipe::Effect,
    pipelines::{
        AssemblyOptions, CustomError, CustomStep, CustomSteps, DatasetKind, DefinitionForm, DefinitionKind, Item,
        Owner, PipelineOptions,
    },
    store::{MemoryStore, Store},
};
use keepline_tests::{schemas, watch::KeptLog};
use serde_json::{Value, json};

use crate::world::plugin;

/// A step that does not end in time.
struct Endless;

#[async_trait]
impl CustomSteps for Endless {
    async fn run(&self, _: CustomStep<'_>) -> Result<String, CustomError> {
        std::future::pending().await
    }
}

struct Lanes {
    store: Arc<dyn Store>,
    pipelines: Pipelines,
    log: Arc<KeptLog>,
}

impl Lanes {
    async fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut options = PipelineOptions::default();
        options.custom_steps = Some(Arc::new(Endless));
        let pipelines = Pipelines::new(plugin(), store.clone(), options).await.unwrap();
        Self { store, pipelines, log: Arc::default() }
    }

    async fn define(&self, kind: DefinitionKind, form: Value) {
        let text = form.to_string();
        self.pipelines.put(&Owner::project("p"), kind, DefinitionForm::Json, &text, None).await.unwrap();
    }

    /// A memory of one step.
    async fn remember(&self, id: &str, step: Value) {
        let retrieval = json!({"pipeline": [step]});
        let scopes = json!(["user", "thread", "project", "org"]);
        self.define(
            DefinitionKind::Memory,
            json!({"id": id, "label": id, "inputs_scope": scopes, "retrieval": retrieval}),
        )
        .await;
    }

    async fn put(&self, owner: Owner, instance: &str, key: &str, value: &str) {
        let values = owner.dataset(DatasetKind::Values).named(instance).in_namespace("n");
        let item = Item { id: key.into(), text: json!(value).to_string() };
        self.pipelines.put_items(&values, &[item]).await.unwrap();
    }

    async fn keepline(&self, memories: &[&str], engines: &[&str]) -> Keepline {
        let mut assembly = AssemblyOptions::new(Owner::project("p"));
        assembly.tenant = "acme".into();
        assembly.memories = memories.iter().map(|id| (*id).to_owned()).collect();
        assembly.rule_engines = Some(engines.iter().map(|id| (*id).to_owned()).collect());
        let mut options = Options::default();
        options.filter = r#"{"conversation":true}"#.into();
        options.log = self.log.clone();
        options.assembly = Some(self.pipelines.assembly(assembly));
        let filter = keepline_tests::lanes::plugin();
        Keepline::new(filter, self.store.clone(), options).await.unwrap()
    }
}

/// The text of the sections; none: there are none.
async fn asked(keepline: &Keepline, text: &str, metadata: Value) -> (Effect, Option<String>) {
    let passed = keepline.pipe().question(text, &metadata.to_string()).await.unwrap();
    let metadata: Value = serde_json::from_str(passed.metadata.as_deref().unwrap_or("{}")).unwrap();
    schemas::check(&metadata);
    (passed.effect, metadata["memory_sections"]["text"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn variables_are_the_entrys_own_whatever_it_says() {
    let lanes = Lanes::new().await;
    lanes
        .remember(
            "who",
            json!({"type": "kv_get", "instance": "i", "namespace": "n",
        "keys": ["${user_id}", "${thread_id}", "${project_id}", "${org_id}"]}),
        )
        .await;
    for key in ["ann", "s1", "p", "acme", "bob", "s2"] {
        lanes.put(Owner::project("p"), "i", key, &format!("of {key}")).await;
    }
    let keepline = lanes.keepline(&["who"], &[]).await;
    let metadata = json!({"session_id": "s1", "user_id": "ann", "thread_id": "s2", "x-thread-id": "s2",
        "scope_variables": {"user": {"user_id": "bob"}}, "variables": {"user_id": "bob"}, "project_id": "q"});
    let (_, text) = asked(&keepline, "?", metadata).await;
    assert_eq!(text.unwrap(), "## Knowledge\n- of ann\n- of s1\n- of p\n- of acme");
}

#[tokio::test]
async fn the_asking_session_and_user_are_the_entrys_and_no_other_owner_is_reached() {
    let lanes = Lanes::new().await;
    lanes
        .remember("mine", json!({"type": "kv_get", "instance": "user", "namespace": "values", "keys": ["city"]}))
        .await;
    lanes
        .remember("theirs", json!({"type": "kv_get", "instance": "${user_id}", "namespace": "n", "keys": ["city"]}))
        .await;
    let keepline = lanes.keepline(&["mine", "theirs"], &[]).await;
    let mut sessions = keepline.sessions();
    for (user, city) in [("ann", "\"Ulm\""), ("bob", "\"Bern\"")] {
        sessions.put_user_value(user, "city", Some(city)).await.unwrap();
    }
    lanes.put(Owner::user("ann"), "ann", "city", "Rome").await;
    let (_, text) = asked(&keepline, "?", json!({"session_id": "s1", "user_id": "ann"})).await;
    assert_eq!(text.unwrap(), "## Knowledge\n- Ulm");
}

#[tokio::test]
async fn only_questions_of_ones_own_session_gain_sections() {
    let lanes = Lanes::new().await;
    lanes.remember("style", json!({"type": "kv_get", "instance": "i", "namespace": "n", "keys": ["indent"]})).await;
    lanes.put(Owner::project("p"), "i", "indent", "four spaces").await;
    let keepline = lanes.keepline(&["style"], &[]).await;
    let own = json!({"session_id": "s1", "user_id": "ann"});
    let mut pipe = keepline.pipe();
    pipe.question("?", &own.to_string()).await.unwrap();
    pipe.answer("!", &own.to_string()).await.unwrap();
    assert_eq!(asked(&keepline, "?", own).await.1.unwrap(), "## Knowledge\n- four spaces");
    let foreign = asked(&keepline, "?", json!({"session_id": "s1", "user_id": "bob"})).await;
    assert_eq!(foreign, (Effect::Foreign, None));
    assert_eq!(asked(&keepline, "?", json!({})).await, (Effect::Passed, None));
    assert_eq!(asked(&keepline, "?", json!({"session_id": "no session"})).await, (Effect::Ignored, None));
}

#[tokio::test]
async fn rules_call_for_memories_by_what_the_question_says() {
    let lanes = Lanes::new().await;
    lanes.remember("style", json!({"type": "kv_get", "instance": "i", "namespace": "n", "keys": ["indent"]})).await;
    lanes.put(Owner::project("p"), "i", "indent", "four spaces").await;
    let condition = json!({"field": "input.text", "operator": "contains", "value": "indent"});
    let rule = json!({"id": "r", "when": [condition], "then": {"add_memories": ["style"]}});
    lanes.define(DefinitionKind::Rules, json!({"id": "e", "rules": [rule]})).await;
    let keepline = lanes.keepline(&[], &["e"]).await;
    let metadata = || json!({"session_id": "s1"});
    assert!(asked(&keepline, "how do I indent?", metadata()).await.1.is_some());
    assert!(asked(&keepline, "what time is it?", metadata()).await.1.is_none());
}

#[tokio::test]
async fn what_is_late_is_left_out_and_logged() {
    let lanes = Lanes::new().await;
    lanes.remember("slow", json!({"type": "custom", "handler": "endless"})).await;
    let keepline = lanes.keepline(&["slow"], &[]).await;
    let mut pipe = keepline.pipe();
    let question = keepline::pipe::Question { text: "?", metadata: r#"{"session_id":"s1"}"#, ..Default::default() };
    let by = keepline::store::Deadline::after(Duration::from_millis(500));
    let passed = pipe.ask(question, Some(by)).await.unwrap();
    assert_eq!((passed.effect, passed.metadata), (Effect::Resumed, None));
    let told = lanes.log.of("keepline.pipeline");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].message.contains("memory_sections are left out"), "{told:?}");
}

#[tokio::test]
async fn the_same_question_gains_the_same_bytes() {
    let lanes = Lanes::new().await;
    for id in ["a", "b", "c"] {
        lanes.remember(id, json!({"type": "kv_get", "instance": "i", "namespace": "n", "keys": [id]})).await;
        lanes.put(Owner::project("p"), "i", id, id).await;
    }
    let keepline = lanes.keepline(&["c", "a", "b"], &[]).await;
    let ask = async || keepline.pipe().question("?", r#"{"session_id":"s1"}"#).await.unwrap().metadata.unwrap();
    let first = ask().await;
    for _ in 0..20 {
        assert_eq!(ask().await, first);
    }
    assert!(first.ends_with(r#""priority":"medium"}]}}}"#), "{first}");
}
