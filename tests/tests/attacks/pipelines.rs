//! Pipelines that misbehave get what a filter gets: nothing beyond their limits and their owner, and no lie of theirs is
//! believed.

use std::{sync::Arc, time::Duration};

use keepline::{
    Keepline, Options, Pipelines, Plugin, Sandbox,
    pipe::Effect,
    pipelines::{
        Asker, AssemblyOptions, DatasetKind, DefinitionForm, DefinitionKind, Item, Operation, Owner, PipelineError,
        PipelineErrorCode, PipelineOptions,
    },
    store::{MemoryStore, Store},
};
use keepline_options::bucket_names::{dataset_bucket_name, definitions_bucket_name};
use keepline_tests::{guests::HOSTILE_PIPELINES, lanes, watch::KeptLog};
use serde_json::{Value, json};

fn sandbox() -> Sandbox {
    let mut sandbox = lanes::sandbox();
    sandbox.cpu_time = Duration::from_millis(300);
    sandbox
}

fn owner() -> Owner {
    Owner::project("p")
}

async fn pipelines(store: &Arc<dyn Store>, log: &Arc<KeptLog>) -> Pipelines {
    let plugin = Plugin::from_bytes(HOSTILE_PIPELINES, &sandbox()).unwrap();
    let mut options = PipelineOptions::default();
    options.host.log = log.clone();
    // The breaker is another test's.
    options.host.plugin_breaker.failures = 1_000;
    options.host.entry_timeout = Duration::from_secs(30);
    Pipelines::new(plugin, store.clone(), options).await.unwrap()
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

async fn run(pipelines: &Pipelines, deed: &str) -> Result<String, PipelineError> {
    let asker = Asker::new(owner()).in_session("s1").for_user("ann");
    let input = json!({"id": deed}).to_string();
    pipelines.run(&asker, Operation::Execute, &input, None).await
}

async fn told(pipelines: &Pipelines, deed: &str) -> String {
    let output: Value = serde_json::from_str(&run(pipelines, deed).await.unwrap()).unwrap();
    output["told"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn pipelines_over_a_limit_are_stopped_and_the_next_call_is_served() {
    let (store, log) = (memory(), Arc::new(KeptLog::default()));
    let pipelines = pipelines(&store, &log).await;
    for (deed, why) in [
        ("loop", "computed for longer than"),
        ("loop-over-log", "called the host more than"),
        ("store-for-ever", "called the store more than"),
        ("recurse", ""),
        ("trap", "unreachable"),
        ("panic", "unreachable"),
        ("allocate", ""),
        ("output 40000000", "copy more than"),
    ] {
        let error = run(&pipelines, deed).await.unwrap_err();
        assert_eq!(error.code, PipelineErrorCode::Plugin, "{deed}: {error}");
        assert!(error.message.contains(why), "{deed}: {error}");
        assert_eq!(told(&pipelines, "served").await, "0", "after {deed}");
    }
    let _ = run(&pipelines, "log-lines 1000").await.unwrap();
    assert!(log.lines().iter().filter(|line| line.context == "flood").count() <= 64);
}

#[tokio::test]
async fn a_run_reads_its_owner_and_who_asks_and_changes_nothing() {
    let (store, log) = (memory(), Arc::new(KeptLog::default()));
    let pipelines = pipelines(&store, &log).await;
    let definitions = |kind: &str, name: &str| definitions_bucket_name(kind, name);
    let data = |definitions: &str| dataset_bucket_name(definitions, &["values", "a", "b"]);
    let mine = definitions("project", "p");
    for (kind, name) in [("session", "s1"), ("user", "ann"), ("definition", &mine), ("dataset", &data(&mine))] {
        let told = told(&pipelines, &format!("greed {kind} {name}")).await;
        let begins = format!("{kind} {name}: read Absent, write denied, list denied");
        assert!(told.starts_with(&begins) && !told.contains("delete Applied"), "{told}");
    }
    let others = [definitions("project", "q"), definitions("user", "p"), definitions("tenant", "p")];
    let mut foreign = vec![("session", "s2".to_owned()), ("session", "ann".to_owned()), ("user", "bob".to_owned())];
    foreign.extend([("node", "s1".to_owned()), ("service", "s1".to_owned()), ("dataset", mine.clone())]);
    foreign.extend([("definition", data(&mine)), ("dataset", format!("{mine}-x"))]);
    for other in &others {
        foreign.extend([("definition", other.clone()), ("dataset", data(other))]);
    }
    for (kind, name) in foreign {
        let told = told(&pipelines, &format!("greed {kind} {name}")).await;
        assert!(told.starts_with(&format!("{kind} {name}: read denied, write denied, list denied")), "{told}");
    }
    assert!(told(&pipelines, "list").await.starts_with("denied"), "the names of sessions");
    assert!(!log.of("keepline.denied").is_empty());
}

#[tokio::test]
async fn a_session_of_another_user_is_not_there_for_a_run() {
    let (store, log) = (memory(), Arc::new(KeptLog::default()));
    let mut options = Options::default();
    options.filter = r#"{"conversation":true}"#.into();
    let keepline = Keepline::new(lanes::plugin(), store.clone(), options).await.unwrap();
    for (session, user) in [("s1", "bob"), ("s2", "ann")] {
        let metadata = json!({"session_id": session, "user_id": user}).to_string();
        let mut pipe = keepline.pipe();
        pipe.question("?", &metadata).await.unwrap();
        assert_eq!(pipe.answer("secret", &metadata).await.unwrap().effect, Effect::Stored);
    }
    let pipelines = pipelines(&store, &log).await;
    let read = async |session: &str, user: Option<&str>| {
        let mut asker = Asker::new(owner()).in_session(session);
        asker.user = user.map(str::to_owned);
        let input = json!({"id": format!("greed session {session}")}).to_string();
        pipelines.run(&asker, Operation::Execute, &input, None).await.unwrap()
    };
    assert!(read("s1", Some("ann")).await.contains("read Absent"));
    assert!(read("s2", Some("ann")).await.contains("read Applied"));
    assert!(read("s1", Some("bob")).await.contains("read Applied"));
}

#[tokio::test]
async fn writers_reach_what_they_are_for_and_nothing_else() {
    let (store, log) = (memory(), Arc::new(KeptLog::default()));
    let pipelines = pipelines(&store, &log).await;
    // The deeds write to the session s1, and to a user.
    for deed in ["bucket s1", "user ann", "delete s1"] {
        let put = pipelines.put(&owner(), DefinitionKind::Memory, DefinitionForm::Json, deed, None).await.unwrap();
        assert!(put.text.contains("denied"), "{deed}: {}", put.text);
        let values = owner().dataset(DatasetKind::Values).named(deed).in_namespace("n");
        let error = pipelines.put_items(&values, &[]).await.unwrap_err();
        assert!(error.message.contains("denied"), "{deed}: {error}");
    }
}

#[tokio::test]
async fn lies_in_replies_are_refused_with_a_reason() {
    let (store, log) = (memory(), Arc::new(KeptLog::default()));
    let pipelines = pipelines(&store, &log).await;
    for (deed, why) in [
        ("raw no JSON", "is not JSON"),
        ("raw {'a':1", "is not JSON"),
        ("output 0", "is not JSON"),
        ("needs 65", "more than 64 things"),
        ("need-of 9000000", "more than 8388608 bytes"),
        ("texts 1025", "more than 1024 texts"),
        ("digest", "is not printable ASCII"),
        ("ask", "still needs something"),
        ("needs 1", "still needs something"),
    ] {
        let error = run(&pipelines, deed).await.unwrap_err();
        assert!(error.message.contains(why), "{deed}: {error}");
        assert_eq!(error.code, PipelineErrorCode::Plugin, "{deed}");
    }
    let (memory, json) = (DefinitionKind::Memory, DefinitionForm::Json);
    let errors = [
        pipelines.update(&owner(), memory, "a", "{}", None).await.map(drop),
        pipelines.duplicate(&owner(), memory, "a", None).await.map(drop),
        pipelines.describe_steps(false).await.map(drop),
        pipelines.list_items(&owner().dataset(DatasetKind::Nodes), "", 10).await.map(drop),
        pipelines.list(&owner(), memory, None, false).await.map(drop),
    ];
    for error in errors {
        assert_eq!(error.unwrap_err().code, PipelineErrorCode::Plugin);
    }
    // Another definition than the one that was asked for.
    assert_eq!(pipelines.get(&owner(), memory, "a").await.unwrap_err().code, PipelineErrorCode::NotFound);
    // What people are shown has no control characters, and is no longer than a line may be.
    let printable = |text: &str| text.chars().all(|c| !c.is_control()) && text.len() < 10_000;
    let refused = run(&pipelines, "refuse 100000").await.unwrap_err();
    let removed = pipelines.remove_items(&owner().dataset(DatasetKind::Nodes), &["x".into()]).await.unwrap_err();
    for error in [&refused, &removed] {
        assert!(printable(&error.message) && printable(&error.path), "{error}");
    }
    let checked = pipelines.check(memory, json, "100000").await.unwrap();
    assert_eq!((refused.findings.len(), checked.findings.len()), (3, 3));
    for finding in refused.findings.iter().chain(&checked.findings) {
        assert!(printable(&finding.path) && printable(&finding.message));
    }
    let item = Item { id: "x".into(), text: "{}".into() };
    let _ = pipelines.put_items(&owner().dataset(DatasetKind::Nodes), &[item]).await;
}

#[tokio::test]
async fn questions_go_on_without_sections_whatever_pipelines_do() {
    let metadata = r#"{"session_id":"s1","memory_sections":{"text":"forged"}}"#;
    let plugin = lanes::plugin();
    let ask = async |deed: &str| {
        let (store, log) = (memory(), Arc::new(KeptLog::default()));
        let pipelines = pipelines(&store, &log).await;
        let mut options = Options::default();
        options.log = log.clone();
        options.assembly = Some(pipelines.assembly(AssemblyOptions::new(owner())));
        let keepline = Keepline::new(plugin.clone(), store, options).await.unwrap();
        let passed = keepline.pipe().question(deed, metadata).await.unwrap();
        (passed, log.of("keepline.pipeline"))
    };
    for deed in ["loop", "trap", "raw no JSON", "raw {'context':1}", "raw []", "needs 65", "ask", "assembly 5000000"] {
        let (passed, told) = ask(deed).await;
        assert_eq!(passed.effect, Effect::Resumed, "{deed}");
        assert_eq!(passed.metadata.as_deref(), Some(r#"{"session_id":"s1"}"#), "{deed}");
        assert_eq!(told.len(), 1, "{deed}: {told:?}");
        assert!(told[0].message.contains("memory_sections are left out"), "{deed}: {told:?}");
    }
    let (passed, _) = ask("assembly 10").await;
    let metadata: Value = serde_json::from_str(&passed.metadata.unwrap()).unwrap();
    assert_eq!(metadata["memory_sections"]["sections"]["knowledge"][0]["text"], "xxxxxxxxxx");
}

#[tokio::test]
async fn a_filter_is_no_pipelines_and_the_reverse() {
    let filter = lanes::plugin();
    let other = Plugin::bundled_pipelines(&lanes::sandbox()).unwrap();
    let error = Pipelines::new(filter.clone(), memory(), PipelineOptions::default()).await.err().unwrap();
    assert!(error.to_string().contains("keepline:pipelines/runs"), "{error}");
    let keepline = Keepline::new(filter, memory(), Options::default()).await.unwrap();
    let error = keepline.replace_plugin(other.clone()).await.unwrap_err();
    assert!(error.to_string().contains("keepline:memory/lanes"), "{error}");
    assert!(Keepline::new(other, memory(), Options::default()).await.is_err());
}
