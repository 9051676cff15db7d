//! Sessions as files: `keepline session export` and `keepline session import`.
//!
//! | module | does |
//! |---|---|
//! | `schema` | defines the lines of an export |
//! | `export`, `writer` | write sessions of a store as lines |
//! | `archive` | does the same before turns are removed |
//! | `import` | imports sessions from a file or a Redis |
//! | `lines`, `import_session`, `import_report` | read its input, record and report its outcome |
//! | `stage_export`, `stage_conversations` | check what comes from an export, or from other programs (`importers`), and stage it |
//! | `staging`, `private_folder` | keep staged sessions in a temporary store that only the user can read |
//! | `deliver` | copies staged sessions to the target |
//! | `replace` | replaces a transcript of a session, in a copy that takes the session's place |
//!
//! A session is exported as it was at one moment, and imported whole or not at all. Existing sessions are not overwritten
//! unless `--replace` says so.

pub mod archive;
mod deliver;
pub mod export;
pub mod import;
mod import_report;
mod import_session;
pub mod importers;
mod lines;
mod private_folder;
pub mod replace;
mod schema;
mod stage_conversations;
mod stage_export;
mod staging;
mod writer;

use std::sync::Arc;

use anyhow::Result;
use keepline::{
    Keepline,
    config::Config,
    sessions::SessionErrorCode,
    store::{DirectoryStore, Failure, TransferStore},
};

use self::import_session::sessions_without_deadline;
use crate::{
    app::{self, error::Usage},
    deferred::{
        run_task::{RESET_TASK, run_task},
        scope::Scope,
    },
};

/// The log of messages.
const TRANSCRIPT: &str = "transcript";

/// The configured store; a usage error if it ends with the process.
fn store(config: &Config, command: &str, is_created: bool) -> Result<Arc<dyn TransferStore>> {
    if !config.is_durable() {
        return Err(Usage(format!(
            "keepline session {command} needs a directory or Redis: what the \"memory\" backend holds ends with this \
             process, so that there is nothing to read from it and nothing would be left of what is written; add --dir \
             PATH or --profile redis"
        ))
        .into());
    }
    if is_created {
        return app::transfer_store(config, |path, options| DirectoryStore::open(path, options));
    }
    app::transfer_store(config, |path, options| DirectoryStore::open_existing(path, options))
}

/// Whether recall copies messages of a session for the user's other sessions.
fn copies_for_users(keepline: &Keepline) -> Result<bool> {
    Ok(Scope::of(keepline)? == Some(Scope::User))
}

/// Removes the copies that the user's other sessions recall, because the session's messages are about to change. The new
/// messages are copied after the session's next answer.
async fn withdraw_copies(keepline: &Keepline, session: &str) -> Result<()> {
    use SessionErrorCode::{Expired, InvalidSession, NotFound};
    let mut sessions = sessions_without_deadline(keepline);
    let id = sessions.id_of(session).await?;
    let owner = match sessions.describe((&*id).into()).await {
        Ok(state) => state.owner,
        // A missing session whose name looks like a hash is invalid.
        Err(error) if matches!(error.code, NotFound | Expired | InvalidSession) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(owner) = owner {
        run_task(keepline, &Scope::User.subject(session, Some(&owner))?, RESET_TASK, || ()).await?;
    }
    Ok(())
}

fn store_error(failure: &Failure) -> anyhow::Error {
    anyhow::Error::from(failure.clone())
}
