//! The small world of a case: its definitions and data in a store, its clock, and what its host answers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    Plugin,
    embedding::{Embedder, Embedding, EmbeddingError},
    logging::Clock,
    pipelines::{
        Asker, CustomError, CustomStep, CustomSteps, CustomWork, Dataset, DatasetKind, Item, Owner, PipelineOptions,
        Pipelines,
    },
    store::{BucketId, Status, kind},
};
use keepline_options::bucket_names::definitions_bucket_name;
use keepline_pipelines::value::Value;
use keepline_stores_tests::{
    requests::{append, create, put_in, transaction},
    stores::StoreUnderTest,
};
use keepline_tests::lanes::sandbox;

use crate::{
    case_data::{Kept, KeptData, asking, floats, list, object, others, stored_document, text},
    matcher::mismatch,
};

/// A run has as much time as it needs on a busy machine.
const LONG: Duration = Duration::from_secs(60);

pub struct World {
    pub pipelines: Pipelines,
    pub asker: Asker,
    pub owner: Owner,
}

/// A clock that stands still.
struct StoppedClock(Duration);

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        self.0
    }
}

/// The vectors that a case has, by text.
struct CaseVectors(BTreeMap<String, Vec<f32>>);

#[async_trait]
impl Embedder for CaseVectors {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
        let vector = |text: &String| {
            let values = self.0.get(text).ok_or_else(|| EmbeddingError::Refused("there is no endpoint".into()))?;
            Ok(Embedding { model: "m".into(), values: values.clone() })
        };
        texts.iter().map(vector).collect()
    }
}

/// The handlers that a case has, as JSON.
struct CaseHandlers(String);

#[async_trait]
impl CustomSteps for CaseHandlers {
    async fn run(&self, step: CustomStep<'_>) -> Result<String, CustomError> {
        let handlers = Value::parse(&self.0).unwrap();
        let name = match step.work {
            CustomWork::Handler(name) => name,
            CustomWork::ActionBlock(_) => return Err(CustomError::Refused("there is no such component".into())),
            _ => return Err(CustomError::Refused("there is no interpreter".into())),
        };
        let Some(handler) = handlers.member(name) else {
            return Err(CustomError::Refused("no handler of that name is registered".into()));
        };
        for (member, given) in [("input", step.input), ("params", step.params)] {
            if let Some(expected) = handler.member(member) {
                let given = Value::parse(given).unwrap();
                assert_eq!(mismatch(expected, Some(&given)), None, "the handler's {member}");
            }
        }
        match handler.member("error").and_then(Value::as_text) {
            Some(error) => Err(CustomError::Failed(error.into())),
            None => Ok(handler.member("output").cloned().unwrap_or_default().to_json()),
        }
    }
}

pub fn plugin() -> Plugin {
    static PLUGIN: std::sync::LazyLock<Plugin> =
        std::sync::LazyLock::new(|| Plugin::bundled_pipelines(&sandbox()).unwrap());
    PLUGIN.clone()
}

impl World {
    /// The case's own project is what sets it apart from others in the same store.
    pub async fn build(store: &StoreUnderTest, case: &Value) -> Self {
        let now = case.member("now").and_then(Value::as_text).unwrap_or("2026-03-01T12:00:00Z");
        let now = now.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let mut options = PipelineOptions::default();
        options.host.clock = Arc::new(StoppedClock(Duration::from_millis(now as u64)));
        options.host.entry_timeout = LONG;
        let vectors = object(case, "vectors");
        if !vectors.is_empty() {
            let vectors = vectors.iter().map(|(text, vector)| (text.to_string(), floats(vector)));
            options.host.embedder = Some(Arc::new(CaseVectors(vectors.collect())));
        }
        options.custom_steps = Some(Arc::new(CaseHandlers(Value::from(object(case, "handlers")).to_json())));
        let pipelines = Pipelines::new(plugin(), store.store.clone(), options).await.unwrap();
        let owner = Owner::project(text(case, "name"));
        let mut asker = Asker::new(owner.clone());
        if let Some(kept) = asking(case) {
            put_kept(store, &kept).await;
            asker = asker.in_session(&*kept.name).for_user(&*kept.name);
        }
        if let Some(kept) = others(case) {
            put_kept(store, &kept).await;
        }
        let world = Self { pipelines, asker, owner };
        // As a file on disk would be: some are invalid on purpose.
        for (map, name) in [("memories", "definitions"), ("rules", "rule_engines")] {
            for form in list(case, name) {
                put_raw(store, &world.owner, map, form).await;
            }
        }
        if let Some(data) = case.member("data") {
            world.put_data(data).await;
        }
        world
    }

    async fn put_item(&self, dataset: &Dataset, id: &str, value: &Value) {
        let item = Item { id: id.into(), text: value.to_json() };
        self.pipelines.put_items(dataset, &[item]).await.unwrap();
    }

    async fn put_data(&self, data: &Value) {
        let of = |kind| self.owner.dataset(kind);
        for row in list(data, "kv") {
            let values = of(DatasetKind::Values).named(text(row, "instance")).in_namespace(text(row, "namespace"));
            let value = row.member("value").cloned().unwrap_or_default();
            self.put_item(&values, &text(row, "key"), &value).await;
        }
        for event in list(data, "events") {
            self.put_item(&of(DatasetKind::Events).named(text(event, "instance")), "", event).await;
        }
        for document in list(data, "documents") {
            let documents = of(DatasetKind::Documents).named(text(document, "collection"));
            self.put_item(&documents, &text(document, "id"), &stored_document(document)).await;
        }
        let graph = data.member("graph").cloned().unwrap_or_default();
        for (kind, name) in
            [(DatasetKind::Nodes, "nodes"), (DatasetKind::Edges, "edges"), (DatasetKind::Views, "views")]
        {
            for thing in list(&graph, name) {
                self.put_item(&of(kind), &text(thing, "id"), thing).await;
            }
        }
    }
}

async fn put_kept(store: &StoreUnderTest, kept: &Kept) {
    put_bucket(store, BucketId::new(kind::SESSION, &*kept.name), &kept.session).await;
    put_bucket(store, BucketId::new(kind::USER, &*kept.name), &kept.user).await;
}

async fn put_bucket(store: &StoreUnderTest, bucket: BucketId, data: &KeptData) {
    let mut operations = vec![put_in("values", &data.values), put_in("vectors", &data.vectors)];
    operations.extend(data.logs.iter().map(|(log, records)| append(log, records)));
    let put = transaction(&bucket, create(), operations);
    assert_eq!(store.try_send(&put).await.unwrap().receipt.status, Status::Applied);
}

/// A definition, whatever is in it, past the component.
async fn put_raw(store: &StoreUnderTest, owner: &Owner, map: &str, form: &Value) {
    let bucket = BucketId::new(kind::DEFINITION, definitions_bucket_name(&owner.kind, &owner.name));
    let stored = Value::object([("revision", 1_u64.into()), ("form", form.clone())]).to_json();
    let put = transaction(&bucket, create(), put_in(map, &[(text(form, "id"), stored)]));
    assert_eq!(store.try_send(&put).await.unwrap().receipt.status, Status::Applied);
}
