//! Lists, counts and deletes the buckets of a store.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::{Stream, stream};
use indicatif::ProgressBar;
use keepline::store::{BucketId, Deadline, DeleteRequest, Status, Store, Writer, kind};

use crate::terminal::{self, format_count};

/// The kinds of buckets that belong to sessions, in order of deletion.
pub const SESSION_BUCKET_KINDS: [&str; 3] = [kind::SESSION, kind::NODE, kind::USER];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    pub sessions: u64,
    pub nodes: u64,
    pub users: u64,
}

impl BucketCounts {
    pub fn count_bucket(&mut self, kind: &str) {
        match kind {
            kind::SESSION => self.sessions += 1,
            kind::NODE => self.nodes += 1,
            _ => self.users += 1,
        }
    }

    pub fn total(&self) -> u64 {
        self.sessions + self.nodes + self.users
    }

    pub fn format_counts(&self) -> String {
        let sessions = format_count(self.sessions, "session", "sessions");
        let (nodes, users) = (format_count(self.nodes, "node", "nodes"), format_count(self.users, "user", "users"));
        format!("{sessions}, {nodes}, {users}")
    }
}

/// Time limit of a page or a bucket.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Names of a page.
const PAGE: u32 = 1000;

/// The names of all buckets of a kind, page by page.
pub fn pages(store: &Arc<dyn Store>, kind: &'static str) -> impl Stream<Item = Result<Vec<String>>> {
    stream::try_unfold(Some(String::new()), move |cursor: Option<String>| async move {
        let Some(cursor) = cursor else { return Ok(None) };
        let page = store.list_buckets(kind, &cursor, PAGE, Deadline::after(TIMEOUT)).await;
        let page = page.context("can't list the store")?;
        Ok(Some((page.names, Some(page.cursor).filter(|cursor| !cursor.is_empty()))))
    })
}

/// Progress of a walk through all buckets.
pub struct BucketScan {
    bar: ProgressBar,
    what: &'static str,
}

impl BucketScan {
    pub fn start_spinner(what: &'static str) -> Self {
        Self { bar: terminal::spinner(""), what }
    }

    pub fn show_progress(&self, counts: &BucketCounts) {
        self.bar.set_message(format!("{} {}", counts.format_counts(), self.what));
        self.bar.tick();
    }
}

impl Drop for BucketScan {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Deletes a bucket. False if it did not exist.
pub async fn delete_bucket_if_exists(store: &Arc<dyn Store>, kind: &str, name: &str) -> Result<bool> {
    let request = DeleteRequest { bucket: BucketId::new(kind, name), generation: None, max_keys: 0 };
    let deletion = store.delete(Writer::new().advance(), &request, Deadline::after(TIMEOUT)).await;
    Ok(matches!(deletion?.status, Status::Applied | Status::Repeated))
}
