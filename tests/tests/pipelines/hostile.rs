//! Hostile definitions, requests and data end in clear errors within their time: the component is never stopped for them.

use std::{sync::Arc, time::Duration};

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

/// A run failed at this place, and tells this.
fn assert_failed(output: &Value, path: &str, told: &str) {
    let error = &output["error"];
    assert_eq!(
        (&output["success"], &error["code"], &error["path"]),
        (&json!(false), &json!("step_failed"), &json!(path))
    );
    assert!(error["message"].as_str().unwrap().contains(told), "{error}");
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
            let levels = depth * open.matches(['[', '{']).count();
            let put = pipelines.put_items(&values, std::slice::from_ref(&item)).await;
            assert_eq!(put.is_ok(), levels <= 100, "{depth} {open}: {put:?}");
            match put {
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
        deep = json!({"type": "conditional", "condition": "1 == 1", "thenSteps": [deep]});
    }
    let deep = memory(&json!([deep])).to_string();
    let deepest = format!("retrieval.pipeline[0]{}.thenSteps", ".thenSteps[0]".repeat(7));
    let beyond = [
        (long, "", "limit of 262144 bytes (max_definition_bytes)"),
        (many, "retrieval.pipeline", "101 steps are over the limit of 100 (max_steps)"),
        (deep, &*deepest, "more than 8 levels of steps (max_levels)"),
    ];
    for (text, path, told) in beyond {
        let error = put(&pipelines, &text).await.unwrap_err();
        assert_eq!((error.code, &*error.path), (PipelineErrorCode::Invalid, path), "{error}");
        assert!(error.message.contains(told), "{error}");
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
    // 200 items, doubled five times, are 6,400.
    let output = run(&pipelines, json!({})).await;
    assert_failed(&output, "retrieval.pipeline[6]", "12800 items are over the limit of 10000 (max_items)");
    // Each label is 400,000 characters on each of 200 items.
    let label = |times: usize| json!({"type": "annotate", "label": "${big}".repeat(times)});
    let long = json!({"big": "y".repeat(100_000)});
    define(&pipelines, &json!([read, label(4)])).await;
    let output = run(&pipelines, long.clone()).await;
    assert_failed(&output, "retrieval.pipeline[1]", "limit of 16777216 bytes (max_run_bytes)");
    // One text that grows beyond the limit has no item to stand in.
    define(&pipelines, &json!([label(400)])).await;
    let output = run(&pipelines, long).await;
    assert_failed(&output, "retrieval.pipeline[0]", "limit of 1048576 bytes");
}

/// A rule engine that adds the memory `m` where the text of the request matches.
async fn put_pattern(pipelines: &Pipelines, pattern: &str) -> Result<(), PipelineError> {
    let when = json!([{"field": "input.text", "operator": "regex", "value": pattern}]);
    let rules = json!({"id": "e", "rules": [{"id": "r", "when": when, "then": {"add_memories": ["m"]}}]}).to_string();
    pipelines.put(&owner(), DefinitionKind::Rules, DefinitionForm::Json, &rules, None).await.map(drop)
}

#[tokio::test]
async fn patterns_that_would_backtrack_for_ever_are_matched() {
    // One that backtracks would need years.
    let pipelines = pipelines().await;
    let text = "a".repeat(50_000) + "!";
    let patterns = [
        ("(a+)+$", false),
        ("(a|aa)+!$", true),
        ("(.*)*x", false),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", false),
        ("(x?){50}y", false),
        ("^(a?){20}a{20}", true),
    ];
    for (pattern, matches) in patterns {
        put_pattern(&pipelines, pattern).await.unwrap();
        let input = json!({"scope_variables": {}, "input": {"text": text}}).to_string();
        let output = pipelines.run(&Asker::new(owner()), Operation::EvaluateRules, &input, None).await.unwrap();
        let output: Value = serde_json::from_str(&output).unwrap();
        let expected = if matches { json!(["m"]) } else { json!([]) };
        assert_eq!(output["memories"], expected, "{pattern}: {output}");
    }
}

#[tokio::test]
async fn patterns_that_are_too_long_too_large_or_unbounded_are_refused() {
    let pipelines = pipelines().await;
    // Characters count, not bytes.
    for longest in ["a", "é", "🦀"] {
        put_pattern(&pipelines, &longest.repeat(1_000)).await.unwrap();
    }
    let refused = [
        ("a".repeat(1_001), "1001 characters is over the limit of 1000 (max_pattern_characters)"),
        ("é".repeat(1_001), "1001 characters is over the limit of 1000 (max_pattern_characters)"),
        ("(a{1000}){1000}".into(), "not a pattern that can be used"),
        ("(a)\\1".into(), "not a pattern that can be used"),
        ("(?=a)b".into(), "not a pattern that can be used"),
        ("(".into(), "not a pattern that can be used"),
    ];
    for (pattern, told) in refused {
        let error = put_pattern(&pipelines, &pattern).await.unwrap_err();
        let finding = error.findings.first().unwrap_or_else(|| panic!("{pattern}: {error}"));
        assert_eq!((error.code, &*finding.path), (PipelineErrorCode::Invalid, "rules[0].when[0].value"), "{error}");
        assert!(finding.message.contains(told), "{}", finding.message);
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
