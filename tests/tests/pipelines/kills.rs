//! Processes that are killed while they write data sets: each item is there whole and once, and is found by what it says.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    process::Stdio,
    time::Duration,
};

use keepline::{
    Pipelines,
    pipelines::{
        Asker, Dataset, DatasetKind, DefinitionForm, DefinitionKind, Item, Operation, Owner, PipelineError,
        PipelineErrorCode, PipelineOptions,
    },
};
use keepline_tests::{
    place::{PLACE, store_at},
    proxy::Proxy,
    servers,
    watch::{child, is_child},
};
use serde_json::{Value, json};

use crate::world::plugin;

/// More than are written at once.
const ITEMS: usize = 100;

fn owner() -> Owner {
    Owner::project("p")
}

fn documents() -> Dataset {
    owner().dataset(DatasetKind::Documents).named("notes")
}

fn graph(kind: DatasetKind) -> Dataset {
    owner().dataset(kind)
}

async fn open(place: &str) -> Pipelines {
    let mut options = PipelineOptions::default();
    options.host.entry_timeout = Duration::from_secs(60);
    Pipelines::new(plugin(), store_at(place), options).await.unwrap()
}

/// One round of what a child writes: all documents, nodes and edges, each saying the round.
async fn write(pipelines: &Pipelines, round: u64) -> Result<(), PipelineError> {
    let item = |id: String, value: Value| Item { id, text: value.to_string() };
    let notes: Vec<_> = (0..ITEMS)
        .map(|number| item(format!("d{number}"), json!({"text": format!("note word{number} of round{round}")})))
        .collect();
    let nodes: Vec<_> = (0..ITEMS)
        .map(|number| {
            item(
                format!("n{number}"),
                json!({"kind": "k", "name": format!("name{number}"), "attributes": {"round": round}}),
            )
        })
        .collect();
    // All lead to one node, whose list of edges is written again and again.
    let edges: Vec<_> = (0..ITEMS)
        .map(|number| {
            item(
                String::new(),
                json!({"from": format!("n{number}"), "to": "n0", "kind": "e", "attributes": {"round": round}}),
            )
        })
        .collect();
    pipelines.put_items(&documents(), &notes).await?;
    pipelines.put_items(&graph(DatasetKind::Nodes), &nodes).await?;
    pipelines.put_items(&graph(DatasetKind::Edges), &edges).await?;
    let gone: Vec<_> = (0..ITEMS).step_by(7).map(|number| format!("d{number}")).collect();
    pipelines.remove_items(&documents(), &gone).await?;
    Ok(())
}

/// What a child does until it is killed.
#[tokio::main]
async fn work() {
    let pipelines = open(&env::var(PLACE).unwrap()).await;
    for round in 0.. {
        match write(&pipelines, round).await {
            Ok(()) => {}
            // Two children write the same items.
            Err(PipelineError { code: PipelineErrorCode::Conflict, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The items of a data set by id.
async fn items(pipelines: &Pipelines, dataset: &Dataset) -> BTreeMap<String, Value> {
    let (mut found, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = pipelines.list_items(dataset, &cursor, 100).await.unwrap();
        for item in page.items {
            let value = serde_json::from_str(&item.text).unwrap();
            assert!(found.insert(item.id.clone(), value).is_none(), "{} is there twice", item.id);
        }
        cursor = page.cursor;
        if cursor.is_empty() {
            return found;
        }
    }
}

async fn run(pipelines: &Pipelines, id: &str, variables: Value) -> Value {
    let input = json!({"id": id, "variables": variables}).to_string();
    let output = pipelines.run(&Asker::new(owner()), Operation::Execute, &input, None).await.unwrap();
    serde_json::from_str(&output).unwrap()
}

async fn define(pipelines: &Pipelines, id: &str, step: Value) {
    let variables = json!([{"name": "word", "type": "string"}]);
    let definition = json!({"id": id, "label": id, "inputs_scope": [], "additional_variables": variables,
        "retrieval": {"pipeline": [step]}});
    let (kind, form) = (DefinitionKind::Memory, DefinitionForm::Json);
    pipelines.put(&owner(), kind, form, &definition.to_string(), None).await.unwrap();
}

/// What is listed is what is found, with the same text.
async fn compare(pipelines: &Pipelines) {
    let (listed, nodes) = (items(pipelines, &documents()).await, items(pipelines, &graph(DatasetKind::Nodes)).await);
    for number in (0..ITEMS).step_by(9) {
        let found = run(pipelines, "documents", json!({"word": format!("word{number}")})).await;
        let found: Vec<_> = found["output"].as_array().unwrap().iter().map(|item| &item["text"]).collect();
        let expected: Vec<_> =
            listed.get(&format!("d{number}")).map(|document| &document["text"]).into_iter().collect();
        assert_eq!(found, expected, "word{number}");
        let found = run(pipelines, "nodes", json!({"word": format!("name{number}")})).await;
        let found: Vec<_> = found["output"].as_array().unwrap().iter().map(|node| &node["attributes"]).collect();
        let expected: Vec<_> = nodes.get(&format!("n{number}")).map(|node| &node["attributes"]).into_iter().collect();
        assert_eq!(found, expected, "name{number}");
    }
}

async fn killed_again_and_again(test: &str, place: &str) {
    let pipelines = open(place).await;
    let search = json!({"type": "vector_search", "collection": "notes", "query": "${word}", "minScore": 0.9});
    define(&pipelines, "documents", search).await;
    let view = json!({"match": {"name": "${word}"}});
    let view = [Item { id: "by-name".into(), text: view.to_string() }];
    pipelines.put_items(&graph(DatasetKind::Views), &view).await.unwrap();
    define(&pipelines, "nodes", json!({"type": "graph_view_read", "viewId": "by-name", "params": {"word": "${word}"}}))
        .await;
    let newest = async || run(&pipelines, "documents", json!({"word": "word1"})).await["output"].clone();
    for _ in 0..3 {
        let start = || child(test, &[(PLACE, place)]).stdout(Stdio::null()).spawn().unwrap();
        let mut doomed = [start(), start()];
        // They are at work when what was written first is written again.
        let before = newest().await;
        while newest().await == before {
            assert!(doomed.iter_mut().all(|child| child.try_wait().unwrap().is_none()));
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..200))).await;
        for child in &mut doomed {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        compare(&pipelines).await;
    }
    // Whoever writes next makes up for what was left.
    write(&pipelines, 1_000_000).await.unwrap();
    compare(&pipelines).await;
    let (documents, nodes) =
        (items(&pipelines, &documents()).await, items(&pipelines, &graph(DatasetKind::Nodes)).await);
    assert_eq!((documents.len(), nodes.len()), (ITEMS - ITEMS.div_ceil(7), ITEMS));
    assert!(documents.values().all(|document| document["text"].as_str().unwrap().ends_with("round1000000")));
    let edges = items(&pipelines, &graph(DatasetKind::Edges)).await;
    assert_eq!(edges.len(), ITEMS);
    assert!(edges.values().all(|edge| edge["attributes"]["round"] == 1_000_000));
}

#[test]
fn killed_processes_leave_each_item_once_in_a_directory() {
    if is_child() {
        return work();
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(killed_again_and_again("kills::killed_processes_leave_each_item_once_in_a_directory", place));
}

#[test]
fn killed_processes_leave_each_item_once_in_redis() {
    if is_child() {
        return work();
    }
    let server = servers::start();
    let place = server.port().to_string();
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(killed_again_and_again("kills::killed_processes_leave_each_item_once_in_redis", &place));
}

/// Connections are cut while data are written and read: what was acknowledged is there once, and a run says what it would
/// have said, or that the store failed.
#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_lose_and_repeat_nothing() {
    const BATCH: usize = 10;
    let server = servers::start();
    let proxy = Proxy::start(server.port()).await;
    let (pipelines, direct) = (open(&proxy.port().to_string()).await, open(&server.port().to_string()).await);
    let log = owner().dataset(DatasetKind::Events).named("log");
    define(&direct, "newest", json!({"type": "log_search", "instance": "log", "limit": 1})).await;
    proxy.cut_at_random(Some(6), 7);
    let (mut acknowledged, mut failed, mut runs) = (BTreeSet::new(), BTreeSet::new(), 0);
    for batch in 0..60 {
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        let event = |number: usize| {
            let at = format!("2026-01-01T{:02}:{:02}:{:02}Z", number / 3600, number / 60 % 60, number % 60);
            let event = json!({"timestamp": at, "event_type": "t", "payload": {"number": number}});
            Item { id: String::new(), text: event.to_string() }
        };
        match pipelines.put_items(&log, &numbers.clone().map(event).collect::<Vec<_>>()).await {
            Ok(_) => acknowledged.extend(numbers),
            Err(error) => {
                assert!(matches!(error.code, PipelineErrorCode::Store(_)), "{error}");
                failed.extend(numbers);
            }
        }
        let expected = run(&direct, "newest", json!({})).await["output"].clone();
        let input = json!({"id": "newest"}).to_string();
        match pipelines.run(&Asker::new(owner()), Operation::Execute, &input, None).await {
            Ok(output) => {
                let output: Value = serde_json::from_str(&output).unwrap();
                assert_eq!(output["output"], expected);
                runs += 1;
            }
            Err(error) => assert!(matches!(error.code, PipelineErrorCode::Store(_)), "{error}"),
        }
    }
    proxy.cut_at_random(None, 0);
    assert!(proxy.cuts() > 10 && runs > 10 && acknowledged.len() > 100, "{} {runs}", proxy.cuts());
    let mut found = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let page = direct.list_items(&log, &cursor, 100).await.unwrap();
        for item in page.items {
            let event: Value = serde_json::from_str(&item.text).unwrap();
            *found.entry(event["payload"]["number"].as_u64().unwrap() as usize).or_insert(0) += 1;
        }
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert!(found.values().all(|count| *count == 1), "{found:?}");
    assert!(acknowledged.iter().all(|number| found.contains_key(number)), "an acknowledged event is gone");
    assert!(found.keys().all(|number| acknowledged.contains(number) || failed.contains(number)));
}
