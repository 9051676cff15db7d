//! Sessions as files: `keepline session export` and `keepline session import`.
//!
//! | module | holds |
//! |---|---|
//! | `form` | the lines of an export, written and read |
//! | `export`, `writer` | from a store to lines |
//! | `archive` | the same, before turns are removed |
//! | `staging`, `private` | a session as it comes in, in a store of its own, in a folder that nobody else can read |
//! | `deliver` | from there to the target |
//! | `import` | from a file or a Redis to the target |
//! | `own`, `others` | from lines of an export, and from what other programs have kept, to a session that is staged |
//! | `replace` | a transcript of a session, in a copy that takes the session's place |
//! | `lines`, `tally` | what is read, and what is told of it |
//!
//! Promises that a session comes out as it was at one moment, and goes in whole or not at all. Refuses to overwrite what is
//! there unless it is told to.

pub mod archive;
mod deliver;
pub mod export;
mod form;
pub mod import;
mod lines;
mod others;
mod own;
mod private;
pub mod replace;
mod staging;
mod tally;
mod writer;

use std::sync::Arc;

use anyhow::Result;
use keepline::{
    Keepline,
    config::Config,
    sessions::SessionErrorCode,
    store::{DirectoryStore, Failure, TransferStore},
};

use self::import::patient;
use crate::{
    error::Usage,
    migrate,
    recall::{Scope, drive},
};

/// The log whose records are messages.
const TRANSCRIPT: &str = "transcript";

/// The configured store, which has to outlive this process.
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
        return migrate::store(config, |path, options| DirectoryStore::open(path, options));
    }
    migrate::store(config, |path, options| DirectoryStore::open_existing(path, options))
}

/// Whether recall copies what is said in one session for its user's others.
fn copies_for_users(keepline: &Keepline) -> Result<bool> {
    Ok(Scope::of(keepline)? == Some(Scope::User))
}

/// What the user's other sessions recall of a session goes, since it is about to have other messages. Those follow after its
/// next answer.
async fn withdraw_copies(keepline: &Keepline, session: &str) -> Result<()> {
    use SessionErrorCode::{Expired, InvalidSession, NotFound};
    let mut sessions = patient(keepline);
    let id = sessions.id_of(session).await?;
    let owner = match sessions.describe((&*id).into()).await {
        Ok(state) => state.owner,
        // One that is called like a hash, and is not there, can't be.
        Err(error) if matches!(error.code, NotFound | Expired | InvalidSession) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(owner) = owner {
        drive::drive(keepline, &Scope::User.subject(session, Some(&owner))?, drive::FORGET, || ()).await?;
    }
    Ok(())
}

fn told(failure: &Failure) -> anyhow::Error {
    anyhow::Error::from(failure.clone())
}
