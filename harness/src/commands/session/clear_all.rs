//! `keepline session clear-all`: deletes all sessions, nodes and users under the configured prefix or directory.
//!
//! Buckets are listed and deleted page by page until a pass finds none. An interrupted run can be repeated. Other
//! prefixes and other data in the same database are not touched.

use std::{pin::pin, sync::Arc};

use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use keepline::store::Store;
use serde_json::json;

use crate::{
    app,
    args::GlobalArguments,
    operations::{
        buckets::{BucketCounts, BucketScan, SESSION_BUCKET_KINDS, delete_bucket_if_exists, pages},
        confirm::confirm_deletion,
    },
    terminal::print_result,
};

const CONCURRENT_DELETIONS: usize = 16;
/// Passes over the store: others may write meanwhile.
const PASSES: usize = 10;

pub(super) fn confirm_clear_all(global: &GlobalArguments) -> Result<()> {
    let store = app::quiet_config(global)?.store_name;
    let warning = format!("all sessions, with their nodes and users, would be deleted from {store}");
    confirm_deletion(&warning, "\"all\"", "all")
}

pub(super) async fn clear_all(store: &Arc<dyn Store>, json: bool) -> Result<()> {
    let mut deleted = BucketCounts::default();
    let scan = BucketScan::start_spinner("deleted");
    for _ in 0..PASSES {
        let before = deleted.total();
        // Users last: their buckets list their sessions, in case this ends halfway.
        for kind in SESSION_BUCKET_KINDS {
            let mut pages = pin!(pages(store, kind));
            while let Some(names) = pages.try_next().await? {
                let work = stream::iter(names.iter().map(|name| delete_bucket_if_exists(store, kind, name)));
                let mut work = work.buffer_unordered(CONCURRENT_DELETIONS);
                while let Some(is_deleted) = work.next().await {
                    if is_deleted? {
                        deleted.count_bucket(kind);
                        scan.show_progress(&deleted);
                    }
                }
            }
        }
        if deleted.total() == before {
            drop(scan);
            let BucketCounts { sessions, nodes, users } = deleted;
            let told = format!("deleted: {}; 0 are left", deleted.format_counts());
            return print_result(
                json,
                &json!({"sessions": sessions, "nodes": nodes, "users": users, "remaining": 0}),
                &told,
            );
        }
    }
    bail!("others keep writing: stop the pipes and run the same command again")
}
