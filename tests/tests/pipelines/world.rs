//! The small world of a case: its definitions and data in a store, its clock, and what its host answers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use keepline::{
    Plugin,
    embedding::{Embedder, Embedding, EmbeddingError},
    logging::Clock,
    pipelines::{Asker, CustomError, CustomStep, CustomSteps, CustomWork, Owner, PipelineOptions, Pipelines},
    store::{BucketId, Status, kind},
};
use keepline_pipelines::value::Value;
use keepline_stores_tests::{
    requests::{append, create, put_in, transaction},
    stores::StoreUnderTest,
};
use keepline_tests::lanes::sandbox;

use crate::{
    case_data::{Kept, KeptData, asking, floats, list, object, others, text},
    matcher::mismatch,
    stored::{put_data, put_raw},
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
                put_raw(&store.store, &world.owner, map, form).await;
            }
        }
        if let Some(data) = case.member("data") {
            put_data(&world.pipelines, &world.owner, data).await;
        }
        world
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
