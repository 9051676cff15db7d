//! `keepline store`: maintains the directory that sessions are kept in, or a Redis (`redis`).
//!
//! No plugin is loaded: nothing here depends on what is stored. All subcommands but `repair` work while other processes
//! use the store.

mod redis;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use keepline::store::{
    DirectoryOptions,
    directory::{self, Checked, Repaired},
};
use serde_json::json;

use crate::{
    app::{self, error::Usage},
    args::{Global, StoreArguments, StoreCommand},
    operations::confirm::confirm,
    terminal::{self, counted},
};

/// How often a spinner moves.
const TICK: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn main(global: &Global, arguments: &StoreArguments) -> Result<ExitCode> {
    let config = app::config(global)?;
    let json = arguments.json;
    let Some(path) = config.directory() else {
        let backend = &config.host.backend;
        return match &arguments.command {
            StoreCommand::Check if backend == "redis" => redis::check(&config, json),
            StoreCommand::Repair if backend == "redis" => redis::repair(&config, json),
            _ => Err(Usage(format!(
                "keepline store works on a directory (`check` and `repair` on Redis, too), and the backend is \"{backend}\": add \
                 --dir PATH"
            ))
            .into()),
        };
    };
    let options = config.directory_options();
    match &arguments.command {
        StoreCommand::Check => check(path, &options, json),
        StoreCommand::Compact => compact(path, &options, json),
        StoreCommand::Backup { target } => backup(path, target, &options, json),
        StoreCommand::Restore { backup, yes } => restore(backup, path, *yes, &options, json),
        StoreCommand::Repair => repair(path, &options, json),
    }
}

fn check(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let spinner = spinner("checking");
    let checked = directory::check(path, options);
    spinner.finish_and_clear();
    let Checked { problems, buckets, bytes, free_bytes } = checked?;
    if as_json {
        let all = json!({"problems": problems, "buckets": buckets, "bytes": bytes, "free_bytes": free_bytes});
        terminal::print_json(&all)?;
    } else {
        problems.iter().for_each(|problem| terminal::error(problem));
        let state = state(problems.len());
        terminal::print_line(&format!(
            "{state}: {} (sessions and others), {}, of which {} unused",
            counted(buckets, "bucket", "buckets"),
            HumanBytes(bytes),
            HumanBytes(free_bytes)
        ))?;
    }
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::note(
        "`keepline store repair` repairs what can be repaired without losing data; else restore a backup with \
         `keepline store restore`",
    );
    Ok(ExitCode::FAILURE)
}

/// How a check ended.
pub fn state(problems: usize) -> String {
    match problems {
        0 => "no problems".to_owned(),
        1 => "1 problem; see above".to_owned(),
        count => format!("{count} problems; see above"),
    }
}

fn compact(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let bar = bar();
    let freed = directory::compact(path, options, |done, all| show(&bar, done, all));
    bar.finish_and_clear();
    let freed = freed?;
    if as_json {
        terminal::print_json(&json!({"freed_bytes": freed}))?;
    } else {
        terminal::print_line(&format!("{} returned to the disk", HumanBytes(freed)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn backup(path: &Path, target: &PathBuf, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let bar = bar();
    let done = directory::backup(path, target, options, |done, all| show(&bar, done, all));
    bar.finish_and_clear();
    let bytes = done?;
    if as_json {
        terminal::print_json(&json!({"target": target.to_string_lossy(), "bytes": bytes}))?;
    } else {
        let target = terminal::printable(&target.display().to_string());
        terminal::print_line(&format!("{} copied to {target}", HumanBytes(bytes)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn restore(backup: &Path, path: &Path, yes: bool, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let shown = terminal::printable(&path.display().to_string());
    let holds_files = std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    if holds_files && !yes {
        confirm(&format!("the store in {shown} would be replaced by the backup"), "\"replace\"", "replace")?;
    }
    let bar = bar();
    let done = directory::restore(backup, path, options, |done, all| show(&bar, done, all));
    bar.finish_and_clear();
    let bytes = done?;
    if as_json {
        terminal::print_json(&json!({"directory": path.to_string_lossy(), "bytes": bytes}))?;
    } else {
        terminal::print_line(&format!("{} restored to {shown}", HumanBytes(bytes)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn repair(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let spinner = spinner("repairing");
    let repaired = directory::repair(path, options);
    spinner.finish_and_clear();
    let Repaired { clock_set_back, recounted, removed, too_long } = repaired?;
    if as_json {
        let milliseconds = clock_set_back.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let all = json!({
            "clock_set_back_ms": milliseconds,
            "recounted": recounted,
            "removed": removed,
            "too_long": too_long,
        });
        terminal::print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut line = format!(
        "indexes rebuilt, {} corrected, {} removed that belonged to nothing",
        counted(recounted, "count", "counts"),
        counted(removed, "row", "rows")
    );
    if too_long > 0 {
        line.push_str(&format!(
            ", {} removed that no call could read",
            counted(too_long, "over-long text", "over-long texts")
        ));
    }
    if let Some(time) = clock_set_back {
        line.push_str(&format!(", the store's time set back by {} s to this machine's clock", time.as_secs()));
    }
    terminal::print_line(&line)?;
    Ok(ExitCode::SUCCESS)
}

/// Pages done, of all.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}%  {eta} left") {
        bar.set_style(style);
    }
    terminal::write_above(&bar);
    bar
}

fn show(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}

/// For what can't tell how far it is.
pub fn spinner(what: &'static str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(what);
    terminal::write_above(&spinner);
    spinner.enable_steady_tick(TICK);
    spinner
}
