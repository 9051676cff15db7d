//! Commands about the store as a whole. Only `stats` loads the plugin.

mod directory;
pub mod health;
pub mod migrate;
mod redis;
pub mod stats;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    app::{self, error::usage_error},
    args::{GlobalArguments, help::JSON_HELP},
    terminal,
};

const TICK: Duration = Duration::from_millis(100);

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

/// Runs `keepline store`. Only its subcommands `restore` and `repair` need a directory that no other process uses.
pub fn main(global: &GlobalArguments, arguments: &StoreArguments) -> Result<ExitCode> {
    let config = app::load_config(global)?;
    let json = arguments.json;
    let Some(path) = config.directory() else {
        let backend = &config.host.backend;
        return match &arguments.command {
            StoreCommand::Check if backend == "redis" => redis::check_redis(&config, json),
            StoreCommand::Repair if backend == "redis" => redis::repair_redis(&config, json),
            _ => Err(usage_error(format!(
                "keepline store works on a directory (`check` and `repair` on Redis, too), and the backend is \"{backend}\": add \
                 --dir PATH"
            ))),
        };
    };
    let options = config.directory_options();
    match &arguments.command {
        StoreCommand::Check => directory::check(path, &options, json),
        StoreCommand::Compact => directory::compact_directory(path, &options, json),
        StoreCommand::Backup { target } => directory::backup_directory(path, target, &options, json),
        StoreCommand::Restore { backup, yes } => directory::restore_directory(backup, path, *yes, &options, json),
        StoreCommand::Repair => directory::repair(path, &options, json),
    }
}

fn format_check_result(problems: usize) -> String {
    match problems {
        0 => "no problems".to_owned(),
        1 => "1 problem; see above".to_owned(),
        count => format!("{count} problems; see above"),
    }
}

/// Shows that there is progress, without a known end.
fn with_spinner<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let spinner = terminal::spinner(what);
    spinner.enable_steady_tick(TICK);
    let worked = work();
    spinner.finish_and_clear();
    worked
}
