//! The host kit of `conformance/host/`: its cases, and whether what came of a step is what the case expects. Its README tells
//! what steps and expectations mean.

use std::{collections::HashMap, fs, path::Path};

use keepline_stores_tests::kit::pattern::{expanded, matches};
use serde_json::{Value, json};

/// Every case, with the name of its file.
pub fn cases() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/host");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).collect();
    files.sort();
    let cases = files.iter().flat_map(|file| {
        let topic: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        topic["cases"].as_array().unwrap().iter().map(|case| (name.clone(), case.clone())).collect::<Vec<_>>()
    });
    cases.collect()
}

/// The steps of a case, one after the other.
pub fn steps(case: &Value) -> Vec<Value> {
    flat(expanded(case["steps"].clone()))
}

/// Lists among the steps are steps, too.
fn flat(steps: Value) -> Vec<Value> {
    match steps {
        Value::Array(steps) => steps.into_iter().flat_map(flat).collect(),
        step => vec![step],
    }
}

/// Whether what came of a step is what it expects.
///
/// # Errors
/// What differs.
pub fn check(step: &Value, came: &Value, names: &mut HashMap<String, Value>) -> Result<(), String> {
    let mut expected = step.get("expect").and_then(Value::as_object).cloned().unwrap_or_default();
    let whole = came["metadata"].as_str().map_or_else(|| came.to_string(), str::to_owned);
    for (member, is_wanted) in [("verbatim", true), ("lacks", false)] {
        let texts = expected.remove(member).unwrap_or_else(|| json!([]));
        for text in texts.as_array().unwrap() {
            if whole.contains(text.as_str().unwrap()) != is_wanted {
                return Err(format!("{member}: {text}"));
            }
        }
    }
    expected.entry("reported").or_insert_with(|| json!([]));
    if step["call"] == "answer" {
        expected.insert("metadata".into(), step["metadata"].clone());
    }
    let mut came = came.clone();
    if expected.get("metadata").is_some_and(Value::is_object) {
        came["metadata"] = serde_json::from_str(&whole).map_err(|error| error.to_string())?;
    }
    matches(&Value::Object(expected), &came, names)
}
