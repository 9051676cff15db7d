//! Sessions as files: `keepline session export` and `keepline session import`.
//!
//! | module | does |
//! |---|---|
//! | `export` | writes sessions of a store to a file, also before old turns are removed |
//! | `import` | imports sessions from a file or a Redis, and reports their outcome |
//! | `importers` | read the sessions of other programs |
//! | `replace` | replaces a transcript of a session, in a copy that takes the session's place |
//!
//! The format itself, and what is promised of it, is in [`keepline_session_file`], which the service shares.

pub mod export;
pub mod import;
pub mod importers;
pub mod replace;

use std::{env, path::PathBuf, sync::Arc};

use anyhow::Result;
use async_trait::async_trait;
use keepline::{Deadline, Keepline, Sessions, config::Config, store::TransferStore};
use keepline_session_file::{CopyWithdrawal, StagingStore};

use crate::{
    app::{self, error::usage_error},
    deferred::{
        run_task::{RESET_TASK, run_task},
        scope::RecallMode,
    },
    operations::transcripts::session_owner,
};

/// The configured store; a usage error if it ends with the process.
fn open_durable_store(config: &Config, command: &str, creates: bool) -> Result<Arc<dyn TransferStore>> {
    if !config.is_durable() {
        return Err(usage_error(format!(
            "keepline session {command} needs a directory or Redis: what the \"memory\" backend holds ends with this \
             process, so that there is nothing to read from it and nothing would be left of what is written; add --dir \
             PATH or --profile redis"
        )));
    }
    app::open_transfer_store(config, creates)
}

/// Calls without a deadline: no entry waits for them.
fn sessions_without_deadline(keepline: &Keepline) -> Sessions {
    keepline.sessions().by(Deadline::NEVER)
}

/// A store for sessions on their way into the configured one: in that one's directory, if there is one, or else in the user's
/// cache.
fn staging_store(config: &Config) -> Result<StagingStore> {
    let store = config.directory().filter(|directory| directory.is_dir()).map(|directory| directory.join("staging"));
    let places: Vec<PathBuf> = store.into_iter().chain(cache_staging_directory()).collect();
    StagingStore::new(&places)
}

/// The folder in the user's cache for sessions on their way in.
pub fn cache_staging_directory() -> Option<PathBuf> {
    let absolute = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(cache?.join("keepline").join("staging"))
}

/// Whether recall copies messages of a session for the user's other sessions.
fn copies_for_users(keepline: &Keepline) -> Result<bool> {
    Ok(RecallMode::from_keepline(keepline)? == Some(RecallMode::User))
}

/// Removes the copies that the user's other sessions recall, because the session's messages are about to change. The new
/// messages are copied after the session's next answer.
async fn withdraw_copies(keepline: &Keepline, session: &str) -> Result<()> {
    if let Some(owner) = session_owner(&mut sessions_without_deadline(keepline), session).await? {
        run_task(keepline, &RecallMode::User.task_buckets(session, Some(&owner))?, RESET_TASK, || ()).await?;
    }
    Ok(())
}

/// Withdraws the copies of sessions that an import replaces.
struct RecallCopies(Keepline);

#[async_trait]
impl CopyWithdrawal for RecallCopies {
    async fn withdraw(&self, session: &str) -> Result<(), String> {
        withdraw_copies(&self.0, session).await.map_err(|error| format!("{error:#}"))
    }
}
