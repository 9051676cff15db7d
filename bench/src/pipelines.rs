//! Pipelines: what a run costs by the number of stored items, how often it waits, and what an assembly of several costs.

use std::time::Instant;

use anyhow::Result;
use keepline::{
    CodeCache, Options, Plugin, Sandbox,
    pipelines::{
        Asker, DatasetKind, DefinitionForm, DefinitionKind, Item, Operation, Owner, PipelineOptions, Pipelines,
    },
    plugin::{BUNDLED, BUNDLED_PIPELINES},
};
use serde_json::{Value, json};

use crate::{
    Bench,
    measure::{Comparison, Contender, median},
    report::{Section, thousands},
    stores::{PATIENCE, Stores, Tested},
};

/// Items that are put at a time.
const BATCH: usize = 256;
/// Memories of the largest assembly.
const MEMORIES: usize = 8;

pub async fn measure(bench: &Bench) -> Result<Vec<Section>> {
    let mut sandbox = Sandbox::default();
    sandbox.cache = CodeCache::Default;
    let plugin = Plugin::bundled_pipelines(&sandbox)?;
    let stores = Stores::open(&bench.disk)?;
    Ok(vec![
        by_stored_items(bench, &plugin, &stores).await?,
        assemblies(bench, &plugin, &stores).await?,
        components(bench, &sandbox).await?,
    ])
}

async fn open(plugin: &Plugin, tested: &Tested) -> Result<Pipelines> {
    let mut options = PipelineOptions::default();
    options.host = Options::default();
    options.host.entry_timeout = PATIENCE;
    Ok(Pipelines::new(plugin.clone(), tested.store.clone(), options).await?)
}

/// A request that is made again and again.
struct Request {
    pipelines: Pipelines,
    asker: Asker,
    operation: Operation,
    input: String,
}

impl Contender for Request {
    async fn question(&mut self) -> Result<()> {
        self.pipelines.run(&self.asker, self.operation, &self.input, None).await?;
        Ok(())
    }
}

async fn define(pipelines: &Pipelines, owner: &Owner, id: &str, pipeline: &Value) -> Result<()> {
    let definition = json!({"id": id, "label": id, "inputs_scope": [], "retrieval": {"pipeline": pipeline}});
    let text = definition.to_string();
    pipelines.put(owner, DefinitionKind::Memory, DefinitionForm::Json, &text, None).await?;
    Ok(())
}

/// Five steps over so many events and documents.
async fn by_stored_items(bench: &Bench, plugin: &Plugin, stores: &Stores) -> Result<Section> {
    let mut table = Comparison::new("Pipelines: five steps by stored items", "store, items");
    (table.sides, table.counted) = (["run", ""], Some("requests"));
    for tested in &stores.all {
        for (number, items) in bench.effort.points(&[10, 1_000, 100_000]).enumerate() {
            eprintln!("filling {} with {} events and documents", tested.name, thousands(items));
            let owner = Owner::project(format!("items-{items}"));
            let pipelines = open(plugin, tested).await?;
            fill(&pipelines, &owner, items).await?;
            let steps = json!([
                {"type": "derive_query"},
                {"type": "log_search", "alias": "events", "instance": "log", "eventType": "deploy", "limit": 20},
                {"type": "vector_search", "alias": "documents", "collection": "notes", "topK": 5, "minScore": 0.1},
                {"type": "merge", "sources": ["events", "documents"]},
                {"type": "rank", "topK": 10}
            ]);
            define(&pipelines, &owner, "five", &steps).await?;
            // The last word is one that only an old document has.
            let queries = [("", "gateway port w7"), (", rare word", "gateway port quartz")];
            let queries = queries.into_iter().take(if items > 1_000 { 2 } else { 1 });
            for (place, (suffix, query)) in queries.enumerate() {
                let input = json!({"id": "five", "intent": {"query": query}}).to_string();
                let (asker, operation) = (Asker::new(owner.clone()), Operation::Execute);
                table.enter(
                    number == 0 && place == 0,
                    format!("{}, {}{suffix}", tested.name, thousands(items)),
                    Request { pipelines: pipelines.clone(), asker, operation, input },
                )?;
                if tested.name == "Redis" {
                    let store = tested.store.clone();
                    table.count(move || store.round_trips());
                }
            }
        }
    }
    table.note("a run reads the definition, then what the indexes find, then the records; ×: by rate");
    table.run(bench.effort).await
}

async fn fill(pipelines: &Pipelines, owner: &Owner, items: u64) -> Result<()> {
    let events = owner.dataset(DatasetKind::Events).named("log");
    let documents = owner.dataset(DatasetKind::Documents).named("notes");
    let (mut of_log, mut of_notes) = (Vec::new(), Vec::new());
    for number in 0..items {
        let at = jiff_timestamp(number);
        let kind = if number % 10 == 0 { "deploy" } else { "build" };
        let event = json!({"timestamp": at, "event_type": kind, "payload": {"number": number}});
        of_log.push(Item { id: String::new(), text: event.to_string() });
        let text = format!(
            "note {number} about w{} and w{}: the gateway listens on port {}{}",
            number % 97,
            number % 89,
            number % 7,
            if number == 3 { " of quartz" } else { "" }
        );
        let id = format!("d{number}");
        of_notes.push(Item { text: json!({"id": id, "text": text}).to_string(), id });
        if of_log.len() == BATCH || number + 1 == items {
            pipelines.put_items(&events, &of_log).await?;
            pipelines.put_items(&documents, &of_notes).await?;
            (of_log, of_notes) = (Vec::new(), Vec::new());
        }
    }
    Ok(())
}

/// A minute after the other, in 2020.
fn jiff_timestamp(minute: u64) -> String {
    let (day, minute) = (minute / 1440, minute % 1440);
    format!("2020-{:02}-{:02}T{:02}:{:02}:00Z", day / 28 + 1, day % 28 + 1, minute / 60, minute % 60)
}

/// One memory, and several together: they wait as often as the longest of them.
async fn assemblies(bench: &Bench, plugin: &Plugin, stores: &Stores) -> Result<Section> {
    let mut table = Comparison::new("Pipelines: an assembly by its memories", "store, memories");
    (table.sides, table.counted) = (["assembly", ""], Some("requests"));
    for tested in &stores.all {
        let owner = Owner::project("assembly");
        let pipelines = open(plugin, tested).await?;
        let ids: Vec<_> = (0..MEMORIES).map(|number| format!("m{number}")).collect();
        for id in &ids {
            let values = owner.dataset(DatasetKind::Values).named(&**id).in_namespace("n");
            let item =
                |key: u32| Item { id: format!("k{key}"), text: json!(format!("value {key} of {id}")).to_string() };
            pipelines.put_items(&values, &(0..5).map(item).collect::<Vec<_>>()).await?;
            let keys = ["k0", "k1", "k2", "k3", "k4"];
            define(
                &pipelines,
                &owner,
                id,
                &json!([{"type": "kv_get", "instance": id, "namespace": "n", "keys": keys}]),
            )
            .await?;
        }
        for (number, count) in [1, MEMORIES].into_iter().enumerate() {
            let memories: Vec<_> = ids.iter().take(count).collect();
            let input = json!({"scope_variables": {}, "explicit_memory": memories, "rule_engine_ids": [],
                "constraints": {"max_tokens": 1_000}});
            let (asker, operation, pipelines) = (Asker::new(owner.clone()), Operation::Assemble, pipelines.clone());
            let request = Request { pipelines, asker, operation, input: input.to_string() };
            table.enter(number == 0, format!("{}, {count}", tested.name), request)?;
            if tested.name == "Redis" {
                let store = tested.store.clone();
                table.count(move || store.round_trips());
            }
        }
    }
    table.note("each memory reads five values of an instance of its own");
    table.run(bench.effort).await
}

/// Both components: their size, and how soon they serve.
async fn components(bench: &Bench, sandbox: &Sandbox) -> Result<Section> {
    eprintln!("Pipelines: both components");
    let columns = ["KiB", "compiled in ms", "loaded in ms", "first call in ms"].map(str::to_owned).to_vec();
    let mut section = Section::new("Pipelines: both components", "component", columns);
    for (name, bytes) in [("filter", BUNDLED), ("pipelines", BUNDLED_PIPELINES)] {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..bench.effort.rounds {
            let mut uncached = sandbox.clone();
            uncached.cache = CodeCache::Off;
            let timed = |begun: Instant| begun.elapsed().as_secs_f64() * 1e3;
            let begun = Instant::now();
            drop(Plugin::from_bytes(bytes, &uncached)?);
            let compiled = timed(begun);
            let begun = Instant::now();
            let plugin = Plugin::from_bytes(bytes, sandbox)?;
            let loaded = timed(begun);
            let begun = Instant::now();
            let store = std::sync::Arc::new(keepline::store::MemoryStore::default());
            if name == "filter" {
                keepline::Keepline::new(plugin, store, Options::default()).await?;
            } else {
                let pipelines = Pipelines::new(plugin, store, PipelineOptions::default()).await?;
                pipelines.describe_steps(false).await?;
            }
            for (times, time) in times.iter_mut().zip([compiled, loaded, timed(begun)]) {
                times.push(time);
            }
        }
        let mut values = vec![Some(bytes.len() as f64 / 1024.0)];
        values.extend(times.iter().map(|times| Some(median(times))));
        section.row(name, values);
    }
    Ok(section)
}
