//! Sessions as files: `keepline session export` and `keepline session import`.
//!
//! | module | holds |
//! |---|---|
//! | `form` | the lines of an export, written and read |
//! | `export`, `writer` | from a store to lines |
//! | `archive` | the same, before turns are removed |
//! | `staging` | a session as it comes in, in a store of its own |
//! | `deliver` | from there to the target |
//! | `import` | from a file or a Redis to the target |
//! | `own`, `others` | from lines of an export, and from what other programs have kept, to a session that is staged |
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
mod staging;
mod tally;
mod writer;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use keepline::{
    config::Config,
    store::{DirectoryStore, Failure, TransferStore},
};

use crate::{error::Usage, migrate};

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

fn told(failure: &Failure) -> anyhow::Error {
    anyhow!("{}", failure.message)
}

/// `1 session`, `2 sessions`.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
