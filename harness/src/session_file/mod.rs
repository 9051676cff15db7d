//! Sessions as files: `keepline session export` and `keepline session import`.
//!
//! | module | does |
//! |---|---|
//! | `schema` | defines the lines of an export |
//! | `export` | writes sessions of a store as lines, also before old turns are removed |
//! | `import` | reads sessions from a file or a Redis, checks and stages them, and reports their outcome |
//! | `importers` | read the sessions of other programs |
//! | `staging` | keeps sessions in a temporary store until they are complete, then copies them to the target |
//! | `replace` | replaces a transcript of a session, in a copy that takes the session's place |
//!
//! A session is exported as it was at one moment, and imported whole or not at all. Existing sessions are not overwritten
//! unless `--replace` says so.

pub mod export;
pub mod import;
pub mod importers;
pub mod replace;
mod schema;
mod staging;

use std::{io, sync::Arc};

use anyhow::Result;
use keepline::{
    Deadline, Keepline, Sessions,
    config::Config,
    sessions::SessionError,
    store::{Failure, TransferStore},
};

use crate::{
    app::{self, error::usage_error},
    deferred::{
        run_task::{RESET_TASK, run_task},
        scope::RecallMode,
    },
    operations::transcripts::session_owner,
};

const TRANSCRIPT: &str = "transcript";

/// Why a session is not exported or imported.
enum Problem {
    /// Invalid input, reported with its place.
    Input(String),
    /// The session is left out, wherever it comes from.
    Left(String),
    /// The command ends.
    Failed(anyhow::Error),
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self::Input(what)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Left(failure.message)
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        Self::Left(error.message)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

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
