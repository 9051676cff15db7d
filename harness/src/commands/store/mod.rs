//! Commands about the store as a whole. Only `stats` loads the plugin.

pub mod arguments;
mod directory;
pub mod health;
pub mod migrate;
mod redis;
pub mod stats;

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use indicatif::ProgressBar;

use self::arguments::{StoreArguments, StoreCommand};
use crate::{
    app::{self, error::UsageError},
    args::GlobalArguments,
    terminal,
};

const TICK: Duration = Duration::from_millis(100);

/// Runs `keepline store`. Only its subcommands `restore` and `repair` need a directory that no other process uses.
pub fn main(global: &GlobalArguments, arguments: &StoreArguments) -> Result<ExitCode> {
    let config = app::load_config(global)?;
    let json = arguments.json;
    let Some(path) = config.directory() else {
        let backend = &config.host.backend;
        return match &arguments.command {
            StoreCommand::Check if backend == "redis" => redis::check_redis(&config, json),
            StoreCommand::Repair if backend == "redis" => redis::repair_redis(&config, json),
            _ => Err(UsageError(format!(
                "keepline store works on a directory (`check` and `repair` on Redis, too), and the backend is \"{backend}\": add \
                 --dir PATH"
            ))
            .into()),
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

/// Shows progress without a known end.
fn start_spinner(what: &'static str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what);
    terminal::set_progress_bar(&spinner);
    spinner.enable_steady_tick(TICK);
    spinner
}
