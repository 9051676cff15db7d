//! Data sets that definitions read: values, events, documents, and a graph's nodes, edges and views.

use axum::response::Response;
use keepline::pipelines::{Dataset, DatasetKind, Item, ItemsChanged, PipelineError};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use super::{named_as, pipelines, project};
use crate::http::{self, ApiError, Call, OnlyObject, Page, PageQuery, raw_json, require_project_writer};

/// Items of one call of the library, and bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;

/// An item as it is sent. Its id: the key of a value, the id of a document, node or view; of an event one under which it is
/// appended once.
#[derive(Deserialize)]
struct NewItem<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow)]
    item: &'a RawValue,
}

#[derive(Deserialize)]
struct NewItems<'a> {
    #[serde(borrow)]
    items: Vec<NewItem<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemIds {
    ids: Vec<String>,
}

#[derive(Serialize)]
struct ItemFields {
    object: &'static str,
    id: String,
    item: Box<RawValue>,
}

/// The data set of the path and of the parameters `name` (instance or collection) and `namespace`.
fn dataset_of(call: &Call) -> Result<Dataset, ApiError> {
    let unknown = || ApiError::not_found(format!("there are data sets of {}", DatasetKind::names().join(", ")));
    let kind = DatasetKind::from_name(call.path("dataset")).ok_or_else(unknown)?;
    let text = |name| call.query.get(name).unwrap_or_default();
    Ok(project(call).dataset(kind).named(text("name")).in_namespace(text("namespace")))
}

/// An error about a data set, at the parameter that names it.
fn of_dataset(error: PipelineError) -> ApiError {
    named_as(&["instance", "collection"], "name", error)
}

/// Lists items: of events and documents the newest first, of others in no order.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let (dataset, page) = (dataset_of(&call)?, PageQuery::of(&call)?);
    let after = page.after.as_deref().unwrap_or_default();
    let found = pipelines(&call).await?.list_items(&dataset, after, page.limit).await.map_err(of_dataset)?;
    let item = |item: Item| ItemFields { object: "item", id: item.id, item: raw_json(&item.text) };
    let items = found.items.into_iter().map(item).collect();
    let next = Some(found.cursor).filter(|cursor| !cursor.is_empty());
    http::json(&Page::new(items, |item| item.id.clone(), next))
}

/// Puts items into a data set. Some are written at a time: where one is refused, those of the batches before it are there,
/// and the same request can be sent again; one of events under its idempotency key.
pub async fn put(mut call: Call) -> Result<Response, ApiError> {
    require_project_writer(&call.caller)?;
    let dataset = dataset_of(&call)?;
    let key = call.idempotency_key()?.map(str::to_owned).filter(|_| dataset.kind == DatasetKind::Events.name());
    let body = call.bytes().await?;
    let OnlyObject(NewItems { items }) = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the body must be {{\"items\": [{{\"id\", \"item\"}}]}}: {error}");
        ApiError::invalid("items", message)
    })?;
    let pipelines = pipelines(&call).await?;
    let mut changed = ItemsChanged { added: 0, changed: 0 };
    let (mut batch, mut bytes, mut count) = (Vec::new(), 0, 0);
    let mut items = items.into_iter().peekable();
    while let Some(NewItem { id, item }) = items.next() {
        bytes += item.get().len();
        // The same event of the same request has the same id.
        let keyed = || key.as_ref().map(|key| format!("request {key} {}", count + batch.len()));
        let id = id.filter(|id| !id.is_empty()).or_else(keyed).unwrap_or_default();
        batch.push(Item { id, text: item.get().to_owned() });
        let is_full =
            batch.len() == BATCH || items.peek().is_none_or(|next| bytes + next.item.get().len() > BATCH_BYTES);
        if is_full {
            let more = pipelines.put_items(&dataset, &batch).await.map_err(|mut error| {
                error.path = renumber(&error.path, count);
                of_dataset(error)
            })?;
            count += batch.len();
            changed = ItemsChanged { added: changed.added + more.added, changed: changed.changed + more.changed };
            (bytes, batch) = (0, Vec::new());
        }
    }
    http::json(&json!({"object": "items.changed", "added": changed.added, "changed": changed.changed}))
}

/// `items[3].id` of a batch after so many items.
fn renumber(path: &str, before: usize) -> String {
    let renumbered = path.strip_prefix("items[").and_then(|rest| {
        let (number, rest) = rest.split_once(']')?;
        Some(format!("items[{}]{rest}", number.parse::<usize>().ok()? + before))
    });
    renumbered.unwrap_or_else(|| path.to_owned())
}

/// Removes items. Those that are not there are skipped.
pub async fn remove(mut call: Call) -> Result<Response, ApiError> {
    require_project_writer(&call.caller)?;
    let dataset = dataset_of(&call)?;
    let ItemIds { ids } = call.json().await?;
    let changed = pipelines(&call).await?.remove_items(&dataset, &ids).await.map_err(of_dataset)?;
    http::json(&json!({"object": "items.changed", "added": changed.added, "changed": changed.changed}))
}
