//! Puts what a case's world has into a store: definitions past all checks, and data sets.

use std::sync::Arc;

use keepline::{
    pipelines::{Dataset, DatasetKind, Item, Owner, Pipelines},
    store::{BucketId, Deadline, Status, Store, Writer, kind},
};
use keepline_options::bucket_names::definitions_bucket_name;
use keepline_pipelines::value::Value;
use keepline_stores_tests::requests::{create, put_in, transaction};

use crate::case_data::{list, stored_document, text};

/// A definition, whatever is in it, past the component: as a file on disk would be, some are invalid on purpose.
pub async fn put_raw(store: &Arc<dyn Store>, owner: &Owner, map: &str, form: &Value) {
    let bucket = BucketId::new(kind::DEFINITION, definitions_bucket_name(&owner.kind, &owner.name));
    let stored = Value::object([("revision", 1_u64.into()), ("form", form.clone())]).to_json();
    let put = transaction(&bucket, create(), put_in(map, &[(text(form, "id"), stored)]));
    let mut writer = Writer::new();
    let receipt = store.transact(writer.advance(), &put, Deadline::NEVER).await.unwrap();
    assert_eq!(receipt.receipt.status, Status::Applied);
}

async fn put_item(pipelines: &Pipelines, dataset: &Dataset, id: &str, value: &Value) {
    let item = Item { id: id.into(), text: value.to_json() };
    pipelines.put_items(dataset, &[item]).await.unwrap();
}

/// The data sets of an owner.
pub async fn put_data(pipelines: &Pipelines, owner: &Owner, data: &Value) {
    let of = |kind| owner.dataset(kind);
    for row in list(data, "kv") {
        let values = of(DatasetKind::Values).named(text(row, "instance")).in_namespace(text(row, "namespace"));
        let value = row.member("value").cloned().unwrap_or_default();
        put_item(pipelines, &values, &text(row, "key"), &value).await;
    }
    for event in list(data, "events") {
        put_item(pipelines, &of(DatasetKind::Events).named(text(event, "instance")), "", event).await;
    }
    for document in list(data, "documents") {
        let documents = of(DatasetKind::Documents).named(text(document, "collection"));
        put_item(pipelines, &documents, &text(document, "id"), &stored_document(document)).await;
    }
    let graph = data.member("graph").cloned().unwrap_or_default();
    for (kind, name) in [(DatasetKind::Nodes, "nodes"), (DatasetKind::Edges, "edges"), (DatasetKind::Views, "views")] {
        for thing in list(&graph, name) {
            put_item(pipelines, &of(kind), &text(thing, "id"), thing).await;
        }
    }
}
