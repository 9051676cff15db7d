//! Rewrites the form of CodeBolt's SDK as the pipeline form: one retrieval step from its source, then a format step.

use std::rc::Rc;

use super::ItemFormat;
use crate::{
    finding::Finding,
    value::{Object, Value},
};

/// The pipeline of an SDK form's retrieval.
pub(super) fn to_pipeline(
    retrieval: &Object,
    contribution: &Object,
    findings: &mut Vec<Finding>,
) -> Option<Vec<Value>> {
    let mut fault = |path: &str, message: &str| findings.push(Finding::error(format!("retrieval.{path}"), message));
    let text = |name: &str| retrieval.get(name).and_then(Value::as_text).filter(|text| !text.is_empty());
    let source = text("source_id").map(Value::from);
    if source.is_none() {
        fault("source_id", "a text is required");
    }
    let filters = retrieval.get("filters").and_then(Value::as_object).cloned().unwrap_or_default();
    let filter = |name: &str| filters.get(name).cloned();
    let limit = |name: &'static str| retrieval.get("limit").map(|limit| (name, limit.clone()));
    let mut steps = Vec::new();
    let step =
        |kind: &str, params: Vec<(&str, Value)>| Value::object([("type", Value::from(kind))].into_iter().chain(params));
    let source = source.unwrap_or_default();
    match text("source_type") {
        Some("vectordb") => {
            let mut params = vec![("collection", source)];
            params.extend(limit("topK"));
            params.extend(text("query_template").map(|template| ("query", template.into())));
            steps.push(step("vector_search", params));
            // They speak of what documents carry.
            for (name, value) in &filters {
                let field = format!("metadata.{name}");
                steps.push(step(
                    "filter",
                    vec![("field", field.into()), ("operator", "eq".into()), ("value", value.clone())],
                ));
            }
        }
        Some("kv") => {
            let mut params = vec![("instance", source)];
            for name in ["namespace", "keys"] {
                match filter(name) {
                    Some(value) => params.push((name, value)),
                    None => fault(&format!("filters.{name}"), "a kv source needs namespace and keys"),
                }
            }
            steps.push(step("kv_get", params));
        }
        Some("eventlog") => {
            let mut params = vec![("instance", source)];
            params.extend(limit("limit"));
            params.extend(["eventType", "streamId"].into_iter().filter_map(|name| Some((name, filter(name)?))));
            let fields = filters.iter().filter(|(name, _)| !["eventType", "streamId"].contains(&&***name));
            let fields: Object = fields.map(|(name, value)| (Rc::clone(name), value.clone())).collect();
            if !fields.is_empty() {
                params.push(("fields", fields.into()));
            }
            steps.push(step("log_search", params));
        }
        Some("kg") => {
            let mut params = vec![("viewId", source)];
            if !filters.is_empty() {
                params.push(("filters", filters.clone().into()));
            }
            steps.push(step("graph_view_read", params));
            steps.extend(limit("max_items").map(|limit| step("summarize", vec![limit])));
        }
        _ => fault("source_type", "one of vectordb, kv, eventlog and kg is required"),
    }
    let format = match contribution.get("format").and_then(Value::as_text) {
        None | Some("text") => ItemFormat::Prose.name(),
        Some(other) => other,
    };
    let mut params = vec![("format", format.into())];
    params.extend(contribution.get("template").map(|template| ("template", template.clone())));
    steps.push(step("format", params));
    Some(steps)
}
