//! The types of steps, as clients show them to those who build a memory.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::desk::Desk;
use crate::http::ApiError;

/// What each type does, in a sentence.
const ABOUT: [(&str, &str); 21] = [
    ("derive_query", "Makes the query out of the request"),
    ("rewrite_query", "Rewrites the query by a template"),
    ("vector_search", "Finds the documents of a collection that are most like the query"),
    ("graph_view_read", "Reads the rows of a stored view of the graph"),
    ("kv_get", "Reads values by their keys"),
    ("log_search", "Finds events of a log, the newest first"),
    ("graph_view_expand", "Runs a view of the graph for each item, and adds its rows"),
    ("graph_neighbor_expand", "Follows edges of the graph from some nodes"),
    ("filter", "Keeps the items that a condition holds for"),
    ("deduplicate", "Keeps one of the items that are alike"),
    ("group_by", "Groups items by a field"),
    ("reduce_latest", "Keeps the latest item of each group"),
    ("merge", "Joins what several steps found"),
    ("rank", "Sorts items"),
    ("score", "Gives items a score"),
    ("summarize", "Keeps the first items, or few enough for a number of tokens"),
    ("format", "Writes items as a text"),
    ("annotate", "Adds to items where they come from"),
    ("conditional", "Runs one branch of steps or another"),
    ("early_exit", "Ends the run if a condition holds"),
    ("custom", "Runs a step of the host's own"),
];

/// A type as the library describes it.
#[derive(Deserialize)]
struct Described {
    r#type: String,
    category: String,
    params: Vec<Param>,
}

#[derive(Deserialize, Serialize)]
struct Param {
    name: String,
    required: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alias: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Value>>,
}

/// A type as clients get it.
#[derive(Serialize)]
pub struct StepSpec {
    r#type: String,
    name: String,
    category: String,
    description: &'static str,
    params: Vec<Param>,
    #[serde(rename = "configSchema")]
    config_schema: Value,
    #[serde(rename = "userConfigurable")]
    user_configurable: bool,
}

/// All types, or those that are for users.
pub async fn specs(desk: &Desk, only_configurable: bool) -> Result<Vec<StepSpec>, ApiError> {
    let pipelines = desk.pipelines().await?;
    let parse = |text: String| -> Result<Vec<Described>, ApiError> {
        serde_json::from_str(&text).map_err(|error| ApiError::internal(&error))
    };
    let configurable = parse(pipelines.describe_steps(true).await?)?;
    let all = if only_configurable { Vec::new() } else { parse(pipelines.describe_steps(false).await?)? };
    let is_configurable: Vec<String> = configurable.iter().map(|step| step.r#type.clone()).collect();
    let shown = if only_configurable { configurable } else { all };
    Ok(shown.into_iter().map(|step| spec(step, &is_configurable)).collect())
}

fn spec(step: Described, configurable: &[String]) -> StepSpec {
    let Described { r#type, category, params } = step;
    let properties: Map<String, Value> = params
        .iter()
        .map(|param| {
            let schema = param.values.as_ref().map_or_else(|| json!({}), |values| json!({"enum": values}));
            (param.name.clone(), schema)
        })
        .collect();
    let required: Vec<&str> = params.iter().filter(|param| param.required).map(|param| &*param.name).collect();
    let config_schema = json!({"type": "object", "properties": properties, "required": required});
    let description = ABOUT.iter().find(|(name, _)| *name == r#type).map(|(_, about)| *about).unwrap_or_default();
    StepSpec {
        name: title(&r#type),
        user_configurable: configurable.contains(&r#type),
        r#type,
        category,
        description,
        params,
        config_schema,
    }
}

/// `kv_get` as `Kv get`.
fn title(name: &str) -> String {
    let words = name.replace('_', " ");
    let (first, rest) = words.split_at_checked(1).unwrap_or_default();
    first.to_ascii_uppercase() + rest
}
