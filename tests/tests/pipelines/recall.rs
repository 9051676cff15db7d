//! What a definition finds of the asking session and user is what the filter keeps of them.

use std::sync::Arc;

use keepline::{
    Keepline, Options, Pipelines,
    maintenance::{Maintenance, MaintenanceOptions, NoModel, Outcome, Task, session_buckets},
    pipelines::{Asker, DefinitionForm, DefinitionKind, Operation, Owner, PipelineOptions},
    store::{MemoryStore, Store},
};
use keepline_tests::lanes;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::world::plugin;

/// A filter and pipelines on one store.
struct Both {
    keepline: Keepline,
    pipelines: Pipelines,
}

impl Both {
    async fn new(options: Value) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut filter = Options::default();
        filter.filter = options.to_string();
        let keepline = Keepline::new(lanes::plugin(), store.clone(), filter).await.unwrap();
        let pipelines = Pipelines::new(plugin(), store, PipelineOptions::default()).await.unwrap();
        Self { keepline, pipelines }
    }

    async fn say(&self, session: &str, user: &str, text: &str) {
        let mut pipe = self.keepline.pipe();
        let metadata = json!({"session_id": session, "user_id": user}).to_string();
        pipe.question(text, &metadata).await.unwrap();
        pipe.answer("Noted.", "{}").await.unwrap();
    }

    async fn index(&self, session: &str, user: Option<&str>) {
        let (runtime, options) = (Handle::current(), MaintenanceOptions::default());
        let maintenance = Maintenance::new(self.keepline.clone(), Arc::new(NoModel), options, runtime);
        let task = Task { buckets: session_buckets(session, user), name: "recall".into(), state: String::new() };
        assert_eq!(maintenance.run(task).await, Outcome::Done);
    }

    /// The results of a step for who asks.
    async fn run(&self, asker: &Asker, step: Value) -> Value {
        let definition = json!({"id": "m", "label": "m", "inputs_scope": [], "retrieval": {"pipeline": [step]}});
        let (kind, form) = (DefinitionKind::Memory, DefinitionForm::Json);
        self.pipelines.put(&asker.owner, kind, form, &definition.to_string(), None).await.unwrap();
        let output = self.pipelines.run(asker, Operation::Execute, r#"{"id":"m"}"#, None).await.unwrap();
        let output: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(output["success"], true, "{output}");
        output
    }
}

fn asker(session: &str, user: &str) -> Asker {
    Asker::new(Owner::project("p")).in_session(session).for_user(user)
}

fn search(collection: &str, query: &str) -> Value {
    json!({"type": "vector_search", "collection": collection, "query": query, "topK": 3, "minScore": 0.2})
}

fn texts(output: &Value) -> Vec<&str> {
    output["output"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect()
}

const BRUNO: &str = "Our dog Bruno chased a squirrel.";

#[tokio::test]
async fn a_session_s_passages_are_found_in_its_index_and_before_they_are_in_it() {
    let both = Both::new(json!({"conversation": true, "recall": "session"})).await;
    both.say("s1", "ann", BRUNO).await;
    both.index("s1", None).await;
    let found = both.run(&asker("s1", "ann"), search("session", "dog Bruno")).await;
    assert_eq!(texts(&found), [BRUNO]);
    assert_eq!(found["output"][0]["score"], 1.0);
    // Enough that the oldest are moved into the index, and the newest are not.
    for number in 0..100 {
        both.say("s1", "ann", &format!("Please explain topic{number}.")).await;
    }
    both.index("s1", None).await;
    for (query, text) in
        [("dog Bruno", BRUNO), ("topic3", "Please explain topic3."), ("topic99", "Please explain topic99.")]
    {
        let found = both.run(&asker("s1", "ann"), search("session", query)).await;
        assert_eq!(texts(&found).first(), Some(&text), "{query}");
    }
    // Others' are not.
    both.say("s2", "ben", "The dog of s2 is Rex.").await;
    both.index("s2", None).await;
    let found = both.run(&asker("s2", "ben"), search("session", "dog Bruno Rex")).await;
    assert_eq!(texts(&found), ["The dog of s2 is Rex."]);
    let found = both.run(&asker("s1", "ann"), search("s2", "dog Rex")).await;
    assert_eq!(texts(&found), Vec::<&str>::new());
}

#[tokio::test]
async fn a_user_s_passages_are_those_of_all_sessions_and_no_other_user_s() {
    let both = Both::new(json!({"conversation": true, "recall": "user"})).await;
    both.say("s1", "ann", BRUNO).await;
    both.say("s2", "ben", "The dog of Ben is Rex.").await;
    both.index("s1", Some("ann")).await;
    both.index("s2", Some("ben")).await;
    let found = both.run(&asker("s3", "ann"), search("user", "dog")).await;
    assert_eq!(texts(&found), [BRUNO]);
    let found = both.run(&asker("s3", "ben"), search("user", "dog")).await;
    assert_eq!(texts(&found), ["The dog of Ben is Rex."]);
}

#[tokio::test]
async fn a_session_s_history_is_a_log_and_a_user_has_none() {
    let both = Both::new(json!({})).await;
    both.say("s1", "ann", BRUNO).await;
    both.say("s2", "ann", BRUNO).await;
    both.say("s2", "ann", BRUNO).await;
    let log = |instance: &str| json!({"type": "log_search", "instance": instance, "limit": 50});
    let found = both.run(&asker("s1", "ann"), log("session")).await;
    let events = found["output"].as_array().unwrap();
    assert!(!events.is_empty(), "{found}");
    assert!(
        events.iter().all(|event| event["stream_id"] == "session" && event["payload"]["op"] == event["event_type"])
    );
    let more = both.run(&asker("s2", "ann"), log("session")).await;
    assert_eq!(more["output"].as_array().unwrap().len(), 2 * events.len());
    let of_user = both.run(&asker("s1", "ann"), log("user")).await;
    assert_eq!(of_user["output"], json!([]));
    assert_eq!(of_user["warnings"].as_array().unwrap().len(), 1, "{of_user}");
}
