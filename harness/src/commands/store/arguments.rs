//! Arguments of `keepline store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::help::JSON_HELP;

#[derive(Debug, Args)]
pub struct StoreArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// What can be done to a store in a directory; `check` and `repair` also to one in Redis.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Check the store's integrity without changing anything
    ///
    /// In Redis and Redis Cluster: scans the keys of the prefix and names each damaged bucket and key. Does not block the
    /// server, and may run beside pipes. The Redis user needs SCAN (`keepline config --acl --scan`).
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
    /// No process may have the directory open. Copy it first. Restore what can't be repaired from a backup.
    ///
    /// In Redis and Redis Cluster, which may be in use: makes each bucket's set of keys name the values that exist,
    /// corrects expiries that differ from the bucket's, lists lost buckets again, and removes what belongs to no bucket.
    /// It names what is left; `keepline session delete` ends that. Exit code 1 if anything is left.
    Repair,
}
