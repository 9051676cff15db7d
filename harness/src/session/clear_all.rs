//! `keepline session clear-all`: everything that sessions, nodes and users have, under the configured prefix or directory.
//!
//! Promises that what is listed goes, page by page, and is looked for again until nothing is left; that one that was
//! interrupted can be called again; and that other prefixes, and what others keep in the same database, are not touched.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures::{StreamExt, stream};
use keepline::store::{BucketId, BucketKind, Deadline, Status, Store, Writer};
use serde_json::json;

use super::answer;
use crate::{
    cli::Global,
    setup,
    stats::{Counts, KINDS, Scan},
    terminal,
};

/// Buckets that are deleted at one time.
const SIDE_BY_SIDE: usize = 16;
/// How often to look again: others may write meanwhile.
const PASSES: usize = 10;

/// Nobody clears a store by a slip of the finger.
pub(super) fn confirm(global: &Global) -> Result<()> {
    let store = setup::store_name(global)?;
    let warning = format!("all sessions, with their nodes and users, would be deleted from {store}");
    terminal::confirm(&warning, "\"all\"", "all")
}

/// Delete them.
pub(super) async fn clear_all(store: &Arc<dyn Store>, json: bool) -> Result<()> {
    let mut deleted = Counts::default();
    let scan = Scan::begin("deleted");
    for _ in 0..PASSES {
        let before = deleted.total();
        // Users last: their buckets tell what was theirs, should this end halfway.
        for kind in KINDS {
            let mut cursor = String::new();
            loop {
                let page = Scan::page(store, kind, &cursor).await?;
                let work = stream::iter(page.names.iter().map(|name| delete(store, kind, name)));
                let mut work = work.buffer_unordered(SIDE_BY_SIDE);
                while let Some(is_deleted) = work.next().await {
                    if is_deleted? {
                        deleted.count(kind);
                        scan.tell(&deleted);
                    }
                }
                cursor = page.cursor;
                if cursor.is_empty() {
                    break;
                }
            }
        }
        if deleted.total() == before {
            drop(scan);
            let Counts { sessions, nodes, users } = deleted;
            let told = format!("deleted: {}; 0 are left", deleted.told());
            return answer(json, &json!({"sessions": sessions, "nodes": nodes, "users": users, "remaining": 0}), &told);
        }
    }
    bail!("others keep writing: stop the pipes and run the same command again")
}

/// Whether it was there.
pub async fn delete(store: &Arc<dyn Store>, kind: BucketKind, name: &str) -> Result<bool> {
    let (mut writer, bucket) = (Writer::new(), BucketId { kind, name: name.into() });
    let deadline = Deadline::after(Scan::TIMEOUT);
    let deletion = store.delete_bucket(writer.advance(), &bucket, None, 0, deadline).await;
    Ok(matches!(deletion?.status, Status::Applied | Status::Repeated))
}
