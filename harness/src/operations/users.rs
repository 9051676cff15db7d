//! Lists users, and forgets them in as many calls as it takes.

use std::sync::Arc;

use anyhow::{Result, bail};
use keepline::{
    Deadline, Sessions,
    store::{Description, IndexedTransaction, Store, Writer, kind, part},
};
use serde::Serialize;

use super::{buckets::TIMEOUT, pages::PageLimits};
use crate::{
    app::look::{bucket_description, describe},
    terminal,
};

/// Users that are read at a time.
const USERS_PER_BATCH: usize = 64;

/// Successive calls of `forget` that delete nothing although something is left.
const IDLE_CALLS: u32 = 100;
/// Successive calls of `forget` after which no less is left. The remainder is counted up to a bound, so for a user with very
/// many sessions it stays the same for a while.
const STALLED_CALLS: u32 = 10_000;

/// Forgets a user, batch by batch. Returns the numbers of deleted sessions and nodes.
pub async fn forget_in_batches(sessions: &mut Sessions, user: &str) -> Result<(u64, u64)> {
    let (mut gone, mut nodes) = (0_u64, 0_u64);
    let (mut idle, mut stalled, mut least) = (0, 0, u64::MAX);
    let mut pages = PageLimits::default();
    loop {
        let done = sessions.forget_user(user).await?;
        gone = gone.saturating_add(done.sessions);
        nodes = nodes.saturating_add(done.nodes);
        if done.remaining == 0 {
            return Ok((gone, nodes));
        }
        idle = if done.sessions == 0 && done.nodes == 0 { idle + 1 } else { 0 };
        if idle > IDLE_CALLS {
            bail!("entries keep coming for this user: stop them, and run the same command again");
        }
        // The count of deletions is only what the plugin claims.
        stalled = if done.remaining < least { 0 } else { stalled + 1 };
        least = least.min(done.remaining);
        if stalled > STALLED_CALLS {
            bail!(
                "the plugin makes no progress: after {STALLED_CALLS} calls as much is left as before; if the user has \
                 very many sessions, run the same command again"
            );
        }
        pages.count_page(true)?;
    }
}

/// Counts of a user's data.
#[derive(Clone, Serialize)]
pub struct UserCounts {
    /// The name of the user's bucket: a plain id as it is, any other hashed.
    #[serde(rename = "user")]
    pub name: String,
    pub sessions: u64,
    pub nodes: u64,
    pub values: u64,
}

impl UserCounts {
    /// False for a forgotten user, of whom only a mark is left.
    fn has_contents(&self) -> bool {
        self.sessions > 0 || self.nodes > 0 || self.values > 0
    }
}

pub struct UserPage {
    pub users: Vec<UserCounts>,
    /// For the next page; empty after the last.
    pub cursor: String,
}

/// About `limit` users from a cursor on, sorted, in one wait and one for each 64 of them. Forgotten users are left out.
pub async fn user_page(store: &Arc<dyn Store>, cursor: &str, limit: u32) -> Result<UserPage> {
    let deadline = Deadline::after(TIMEOUT);
    let page = store.list_buckets(kind::USER, cursor, limit, deadline).await?;
    let mut users = Vec::new();
    for names in page.names.chunks(USERS_PER_BATCH) {
        let looks: Vec<IndexedTransaction> = names.iter().map(|name| describe(kind::USER, name)).collect();
        let receipts = store.transact_each(Writer::new().advance(), &looks, deadline).await;
        for (name, receipt) in names.iter().zip(receipts) {
            match receipt {
                Ok(receipt) => users.extend(
                    bucket_description(receipt)
                        .map(|it| count_user_contents(name, &it))
                        .filter(UserCounts::has_contents),
                ),
                Err(failure) if failure.code.is_store_failure() => return Err(failure.into()),
                Err(failure) => terminal::print_warning(&format!("user {name} can't be read: {failure}")),
            }
        }
    }
    Ok(UserPage { users, cursor: page.cursor })
}

fn count_user_contents(name: &str, description: &Description) -> UserCounts {
    let entries = |map: &str| {
        let found = description.parts.iter().find(|found| found.kind == part::MAP && found.name == map);
        found.map_or(0, |found| found.count)
    };
    UserCounts {
        name: name.to_owned(),
        sessions: entries("sessions"),
        nodes: entries("nodes"),
        values: description.values,
    }
}
