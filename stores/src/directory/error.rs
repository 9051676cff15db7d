//! Errors of opening and maintaining a directory, which say how to fix them, and failures of calls, which reveal neither
//! paths nor SQLite's messages.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::ErrorCode;
use thiserror::Error;

use crate::{Failure, FailureCode, failure};

/// Why a directory can't be used as a store.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// It can't be created or looked at.
    #[error("the directory {} can't be used: {source}", path.display())]
    Unusable {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The files, or the directory, can't be written to.
    #[error(
        "the directory, or a file in it, is read-only: a store needs to write there; change its permissions or \
         choose another directory"
    )]
    ReadOnly,
    /// Another program's database, or no database.
    #[error(
        "the file keepline.db in this directory is not a Keepline store; choose an empty directory or that of a store"
    )]
    Foreign,
    /// A later release wrote it.
    #[error(
        "this store has version {found} of the layout and this release knows {known}: use the release that wrote it, \
         or a later one"
    )]
    Newer {
        /// The version of the layout.
        found: i64,
        /// The newest that this release can read.
        known: i64,
    },
    /// The SQLite that this program was built with has bugs that lose data.
    #[error("this program was built with SQLite {found}; {required} or newer is needed: build it with the bundled one")]
    OldSqlite {
        /// The library's version.
        found: &'static str,
        /// The oldest that will do.
        required: &'static str,
    },
    /// Its contents contradict each other.
    #[error(
        "the store is damaged: {detail}; `keepline store check` tells more, and `keepline store restore` puts a backup \
         in its place"
    )]
    Damaged {
        /// What SQLite, or a check, found.
        detail: String,
    },
    /// A database that was put beside another one's log.
    #[error(
        "keepline.db was replaced, but keepline.db-wal is the log of the former one and would be written into it: run \
         `keepline store restore BACKUP` to restore a backup, or put the former keepline.db back"
    )]
    Replaced,
    /// Another process has it open and it would have to be alone, or keeps it locked.
    #[error("{what}: another process has the store open; stop it first, or try again later")]
    InUse {
        /// What could not be done.
        what: &'static str,
    },
    /// Another machine's disk.
    #[error(
        "the directory is on a network file system ({kind}), where several machines can't share a store and locks \
         can't be relied on: choose a local disk, or the Redis backend for several machines"
    )]
    NetworkFileSystem {
        /// Which one.
        kind: &'static str,
    },
    /// The newest instant stored lies in the future.
    #[error(
        "the store was last written {} in the future of this machine's clock: set the clock, or run \
         `keepline store repair` to let the store go by it",
        format_duration(*ahead)
    )]
    ClockAhead {
        /// By how much.
        ahead: Duration,
    },
    /// There is no room on the disk, or up to the limit in bytes.
    #[error("there is no room: the disk is full, or the store has reached its limit in bytes")]
    Full,
    /// There is no store in the directory.
    #[error("there is no store in {}", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The target of a backup has a store already.
    #[error("{} already has a store in it: choose an empty directory", path.display())]
    Occupied {
        /// The target.
        path: PathBuf,
    },
    /// Anything else that SQLite can't do.
    #[error("the database can't be used: {0}")]
    Database(#[source] rusqlite::Error),
}

impl DirectoryError {
    /// What an error comes to that the system reports of a directory, or of a file in it.
    pub(super) fn unusable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Unusable { path, source }
    }
}

impl From<rusqlite::Error> for DirectoryError {
    fn from(error: rusqlite::Error) -> Self {
        if is_of_another_type(&error) {
            return Self::Damaged { detail: error.to_string() };
        }
        if is_full(&error) {
            return Self::Full;
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::InUse { what: "the store is locked" },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { detail: error.to_string() },
            _ => Self::Database(error),
        }
    }
}

/// Whether there is no room, for the database or for what SQLite needs beside it.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
        || error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// Whether a row holds what we never write, or is not there.
fn is_of_another_type(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows
    )
}

fn format_duration(time: Duration) -> String {
    match time.as_secs() / 86_400 {
        0 => format!("{} seconds", time.as_secs()),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

/// Why a transaction on rows stopped, all of it undone.
#[derive(Debug)]
pub(super) enum TransactionError {
    /// A rule of the contract.
    Refused(Failure),
    /// It would write, and a reader has begun it.
    NeedsWriter,
    /// SQLite.
    Database(rusqlite::Error),
}

/// The failure of who finds no room.
pub(super) fn store_full(max_bytes: u64) -> Failure {
    let message = "the store is full: its disk, or its limit in bytes";
    Failure { limit: max_bytes, ..failure(FailureCode::Full, "", message) }
}

impl From<Failure> for TransactionError {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<rusqlite::Error> for TransactionError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl TransactionError {
    /// Whether room can help.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Database(error) if is_full(error))
    }

    /// Whether somebody else's lock is in the way.
    pub(super) fn is_busy(&self) -> bool {
        let busy = [Some(ErrorCode::DatabaseBusy), Some(ErrorCode::DatabaseLocked)];
        matches!(self, Self::Database(error) if busy.contains(&error.sqlite_error_code()))
    }

    /// The failure that the caller is given. `max_bytes` is the limit of the store.
    pub(super) fn to_failure(&self, max_bytes: u64) -> Failure {
        let error = match self {
            Self::Refused(failure) => return failure.clone(),
            // Readers hand it on.
            Self::NeedsWriter => return failure(FailureCode::Other, "", "a reader of the store can't write"),
            Self::Database(error) => error,
        };
        if is_full(error) {
            return store_full(max_bytes);
        }
        let (code, message) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (FailureCode::TimedOut, "another process keeps the store locked")
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                (FailureCode::ReadOnly, "the store's files are read-only")
            }
            Some(ErrorCode::TooBig) => (FailureCode::TooLarge, "a text is longer than the store can take"),
            code => {
                let is_damaged = matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase));
                let message = match is_damaged || is_of_another_type(error) {
                    true => "the store's files are damaged; `keepline store check` tells more",
                    false => "the store's files can't be used",
                };
                (FailureCode::Unavailable, message)
            }
        };
        // The rest says all that there is to say, and may be met by every call: by each for which a lock is held, say.
        if code == FailureCode::Unavailable {
            tracing::warn!(error = %error, "the directory store's database failed");
        } else {
            tracing::debug!(error = %error, "the directory store's database refused a call");
        }
        failure(code, "", message)
    }
}
