//! Whoever forgets a user forgets the definitions and data sets that the user owns.

use std::{sync::Arc, time::Duration};

use keepline::{
    Keepline, Options, Pipelines,
    pipelines::{DatasetKind, DefinitionForm, DefinitionKind, Item, Owner, PipelineErrorCode, PipelineOptions},
    store::{Deadline, kind},
};
use keepline_stores_tests::stores::StoreUnderTest;
use keepline_tests::lanes;
use serde_json::json;

use crate::world::plugin;

const LONG: Duration = Duration::from_secs(60);
/// More than are deleted in one call.
const COLLECTIONS: usize = 40;

async fn fill(pipelines: &Pipelines, owner: &Owner) {
    let definition = json!({"id": "m", "label": "m", "inputs_scope": [], "retrieval": {"pipeline": []}}).to_string();
    pipelines.put(owner, DefinitionKind::Memory, DefinitionForm::Json, &definition, None).await.unwrap();
    for number in 0..COLLECTIONS {
        let notes = owner.dataset(DatasetKind::Documents).named(format!("notes{number}"));
        let note = Item { id: "d".into(), text: r#"{"text":"a secret"}"#.into() };
        pipelines.put_items(&notes, &[note]).await.unwrap();
    }
}

/// How many collections have an item, and whether the definition is there.
async fn left(pipelines: &Pipelines, owner: &Owner) -> (usize, bool) {
    let mut collections = 0;
    for number in 0..COLLECTIONS {
        let notes = owner.dataset(DatasetKind::Documents).named(format!("notes{number}"));
        collections += pipelines.list_items(&notes, "", 10).await.unwrap().items.len();
    }
    let definition = pipelines.get(owner, DefinitionKind::Memory, "m").await;
    if let Err(error) = &definition {
        assert_eq!(error.code, PipelineErrorCode::NotFound, "{error}");
    }
    (collections, definition.is_ok())
}

pub async fn a_forgotten_user_owns_nothing(store: Arc<StoreUnderTest>) {
    let mut options = PipelineOptions::default();
    options.host.entry_timeout = LONG;
    let pipelines = Pipelines::new(plugin(), store.store.clone(), options).await.unwrap();
    let mut options = Options::default();
    options.entry_timeout = LONG;
    let keepline = Keepline::new(lanes::plugin(), store.store.clone(), options).await.unwrap();
    // A project and a user of the same name are two owners.
    let owners = [Owner::user("ann"), Owner::user("ben"), Owner::project("ann")];
    for owner in &owners {
        fill(&pipelines, owner).await;
    }
    assert_eq!(keepline.sessions().forget_user("ann").await.unwrap().remaining, 0);
    assert_eq!(left(&pipelines, &owners[0]).await, (0, false));
    for other in &owners[1..] {
        assert_eq!(left(&pipelines, other).await, (COLLECTIONS, true));
    }
    let names = store.store.list_buckets(kind::DATASET, "", 1_000, Deadline::after(LONG)).await.unwrap().names;
    assert_eq!(names.len(), 2 * COLLECTIONS);
    // Of a user who owns nothing, nothing is left either.
    assert_eq!(keepline.sessions().forget_user("ann").await.unwrap().remaining, 0);
}
