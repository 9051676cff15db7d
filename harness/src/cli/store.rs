//! The command line of `keepline store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::help::JSON_HELP;

/// `keepline store`.
#[derive(Debug, Args)]
pub struct StoreArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// What can be done to a store in a directory.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Check the store's integrity without changing anything
    Check,
    /// Return unused space to the disk, while the store may be in use
    Compact,
    /// Copy the store to an empty directory, while it may be in use
    ///
    /// The copy is the state of one moment, and is a store like any other: use it with --dir TARGET. It appears under
    /// its final name when it is complete.
    Backup {
        /// The directory to copy to; created if missing
        target: PathBuf,
    },
    /// Put a backup in the place of the store, which is deleted
    ///
    /// No process may have the store open. The backup stays as it is.
    Restore {
        /// The directory of the backup
        backup: PathBuf,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Repair what can be repaired without losing data: indexes, counts, orphaned rows, a time in the future
    ///
    /// No process may have the store open. Copy the directory first. Restore what can't be repaired from a backup.
    Repair,
}
