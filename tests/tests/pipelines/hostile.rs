//! Hostile definitions, requests and data end in clear errors within their time: the component is never stopped for them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use keepline::{
    Pipelines,
    pipelines::{
        Asker, DatasetKind, DefinitionForm, DefinitionKind, Item, Operation, Owner, PipelineError, PipelineErrorCode,
        PipelineOptions,
    },
    store::MemoryStore,
};
use serde_json::{Value, json};

use crate::world::plugin;

async fn pipelines() -> Pipelines {
    let mut options = PipelineOptions::default();
    options.host.entry_timeout = Duration::from_secs(60);
    Pipelines::new(plugin(), Arc::new(MemoryStore::default()), options).await.unwrap()
}

fn owner() -> Owner {
    Owner::project("p")
}

fn memory(pipeline: &Value) -> Value {
    json!({"id": "m", "label": "m", "inputs_scope": ["project"], "additional_variables": [{"name": "big", "type": "string"}],
        "retrieval": {"pipeline": pipeline}})
}

async fn put(pipelines: &Pipelines, text: &str) -> Result<(), PipelineError> {
    pipelines.put(&owner(), DefinitionKind::Memory, DefinitionForm::Json, text, None).await.map(drop)
}

async fn define(pipelines: &Pipelines, pipeline: &Value) {
    put(pipelines, &memory(pipeline).to_string()).await.unwrap();
}

async fn run(pipelines: &Pipelines, variables: Value) -> Value {
    let input = json!({"id": "m", "intent": {"query": "a"}, "variables": variables}).to_string();
    let output = pipelines.run(&Asker::new(owner()), Operation::Execute, &input, None).await.unwrap();
    serde_json::from_str(&output).unwrap()
}

/// Of a run that failed: the message.
fn failure(output: &Value) -> &str {
    assert!(output["success"] == false, "it succeeded");
    output["error"]["message"].as_str().unwrap()
}

#[tokio::test]
async fn nesting_of_any_depth_is_an_error_or_no_matter() {
    let pipelines = pipelines().await;
    for depth in [1, 50, 96, 99, 100, 101, 126, 127, 128, 129, 1_000, 100_000] {
        for (open, inner, close) in [
            ("[", "", "]"),
            ("{\"a\":", "1", "}"),
            ("{\"type\":\"conditional\",\"condition\":\"true\",\"thenSteps\":[", "", "]}"),
        ] {
            let nested = open.repeat(depth) + inner + &close.repeat(depth);
            let texts = [
                nested.clone(),
                format!(r#"{{"id":"m","label":"m","inputs_scope":[],"retrieval":{{"pipeline":[{nested}]}}}}"#),
                format!(r#"{{"id":"m","label":"m","inputs_scope":[],"x":{nested},"retrieval":{{"pipeline":[]}}}}"#),
            ];
            for text in texts {
                for form in [DefinitionForm::Json, DefinitionForm::Yaml] {
                    for kind in [DefinitionKind::Memory, DefinitionKind::Rules] {
                        let checked = pipelines.check(kind, form, &text).await;
                        let checked = checked.unwrap_or_else(|error| panic!("{depth} {open} {form:?}: {error}"));
                        assert!(checked.definition.is_some() || checked.findings.iter().any(|one| one.is_error));
                    }
                }
            }
            let values = owner().dataset(DatasetKind::Values).named("i").in_namespace("n");
            let item = Item { id: format!("k{depth}{}", open.len()), text: nested };
            match pipelines.put_items(&values, std::slice::from_ref(&item)).await {
                Ok(_) => {
                    define(
                        &pipelines,
                        &json!([
                        {"type": "kv_get", "instance": "i", "namespace": "n", "keys": [item.id]},
                        {"type": "deduplicate", "field": "value"},
                        {"type": "format", "format": "json"}]),
                    )
                    .await;
                    assert_eq!(run(&pipelines, json!({})).await["success"], true, "{depth} {open}");
                }
                Err(error) => assert_eq!(error.code, PipelineErrorCode::Invalid, "{depth} {open}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_definition_beyond_its_limits_names_them() {
    let pipelines = pipelines().await;
    let step = json!({"type": "annotate", "label": "x"});
    let long = memory(&json!([{"type": "annotate", "label": "x".repeat(300 << 10)}])).to_string();
    let many = memory(&json!(vec![step.clone(); 101])).to_string();
    let mut deep = step;
    for _ in 0..9 {
        deep = json!({"type": "conditional", "condition": "true", "thenSteps": [deep]});
    }
    let deep = memory(&json!([deep])).to_string();
    for (text, told) in [(long, "262144 bytes"), (many, "limit of 100"), (deep, "8 levels")] {
        let error = put(&pipelines, &text).await.unwrap_err();
        let all = format!("{error} {:?}", error.findings);
        assert!(error.code == PipelineErrorCode::Invalid && all.contains(told), "{told}: {all}");
    }
}

#[tokio::test]
async fn runs_that_grow_end_with_an_error_that_names_the_limit() {
    let pipelines = pipelines().await;
    let values = owner().dataset(DatasetKind::Values).named("i").in_namespace("n");
    let items: Vec<_> =
        (0..200).map(|n| Item { id: format!("k{n}"), text: json!("x".repeat(500)).to_string() }).collect();
    pipelines.put_items(&values, &items).await.unwrap();
    let keys: Vec<_> = (0..200).map(|n| format!("k{n}")).collect();
    let read = json!({"type": "kv_get", "alias": "r0", "instance": "i", "namespace": "n", "keys": keys});
    // Each merge doubles.
    let mut steps = vec![read.clone()];
    steps.extend((1..40).map(|n| {
        let before = format!("r{}", n - 1);
        json!({"type": "merge", "alias": format!("r{n}"), "sources": [before, before]})
    }));
    define(&pipelines, &json!(steps)).await;
    let began = Instant::now();
    let output = run(&pipelines, json!({})).await;
    assert!(failure(&output).contains("10000"));
    // Each label holds all that were before.
    let mut steps = vec![read];
    steps.extend((0..60).map(|_| json!({"type": "annotate", "label": "${big}${big}${big}${big}"})));
    define(&pipelines, &json!(steps)).await;
    let output = run(&pipelines, json!({"big": "y".repeat(100_000)})).await;
    assert!(failure(&output).contains("limit"));
    define(&pipelines, &json!([{"type": "annotate", "label": "${big}".repeat(100)}])).await;
    let output = run(&pipelines, json!({"big": "y".repeat(100_000)})).await;
    assert!(output["success"] == true || failure(&output).contains("limit"));
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn patterns_that_would_backtrack_for_ever_are_matched_in_time() {
    let pipelines = pipelines().await;
    let text = "a".repeat(50_000) + "!";
    for pattern in ["(a+)+$", "(a|aa)+$", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x?){50}y"] {
        let when = json!([{"field": "input.text", "operator": "regex", "value": pattern}]);
        let rules =
            json!({"id": "e", "rules": [{"id": "r", "when": when, "then": {"add_memories": ["m"]}}]}).to_string();
        let (kind, form) = (DefinitionKind::Rules, DefinitionForm::Json);
        match pipelines.put(&owner(), kind, form, &rules, None).await {
            Ok(_) => {
                let input = json!({"scope_variables": {}, "input": {"text": text}}).to_string();
                pipelines.run(&Asker::new(owner()), Operation::EvaluateRules, &input, None).await.unwrap();
            }
            Err(error) => assert_eq!(error.code, PipelineErrorCode::Invalid, "{pattern}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_definition_that_changes_during_a_run_ends_it() {
    use async_trait::async_trait;
    use keepline::pipelines::{CustomError, CustomStep, CustomSteps};
    use parking_lot::Mutex;

    /// A step that changes the definition that it belongs to.
    struct Changes(Arc<Mutex<Option<Pipelines>>>);

    #[async_trait]
    impl CustomSteps for Changes {
        async fn run(&self, _: CustomStep<'_>) -> Result<String, CustomError> {
            let pipelines = self.0.lock().clone().unwrap();
            let changed = pipelines.update(&owner(), DefinitionKind::Memory, "m", r#"{"label":"new"}"#, None).await;
            changed.map_err(|error| CustomError::Failed(error.to_string()))?;
            Ok("[]".into())
        }
    }

    let itself = Arc::new(Mutex::new(None));
    let mut options = PipelineOptions::default();
    options.custom_steps = Some(Arc::new(Changes(itself.clone())));
    let pipelines = Pipelines::new(plugin(), Arc::new(MemoryStore::default()), options).await.unwrap();
    *itself.lock() = Some(pipelines.clone());
    define(&pipelines, &json!([{"type": "custom", "handler": "h"}])).await;
    let run = pipelines.run(&Asker::new(owner()), Operation::Execute, r#"{"id":"m"}"#, None).await;
    let error = run.unwrap_err();
    assert_eq!((error.code, &*error.path), (PipelineErrorCode::Conflict, "revisions"), "{error}");
    assert!(error.message.contains("memory/m@1"), "{error}");
}
