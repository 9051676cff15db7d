//! Checks, compacts, backs up, restores and repairs the directory that sessions are kept in.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use keepline::store::{
    DirectoryOptions,
    directory::{self, Checked, Repaired},
};
use serde_json::json;

use super::{spinner, state};
use crate::{
    operations::confirm::confirm,
    terminal::{self, counted, print_result},
};

pub fn check(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
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

pub fn compact(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let bar = bar();
    let freed = directory::compact(path, options, |done, all| show(&bar, done, all));
    bar.finish_and_clear();
    let freed = freed?;
    let plain = format!("{} returned to the disk", HumanBytes(freed));
    print_result(as_json, &json!({"freed_bytes": freed}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn backup(path: &Path, target: &PathBuf, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let bar = bar();
    let done = directory::backup(path, target, options, |done, all| show(&bar, done, all));
    bar.finish_and_clear();
    let bytes = done?;
    let plain = format!("{} copied to {}", HumanBytes(bytes), target.display());
    print_result(as_json, &json!({"target": target.to_string_lossy(), "bytes": bytes}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn restore(backup: &Path, path: &Path, yes: bool, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let shown = terminal::printable(&path.display().to_string());
    let holds_files = std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    if holds_files && !yes {
        confirm(&format!("the store in {shown} would be replaced by the backup"), "\"replace\"", "replace")?;
    }
    let bar = bar();
    let done = directory::restore(backup, path, options, |done, all| show(&bar, done, all));
    bar.finish_and_clear();
    let bytes = done?;
    let plain = format!("{} restored to {shown}", HumanBytes(bytes));
    print_result(as_json, &json!({"directory": path.to_string_lossy(), "bytes": bytes}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn repair(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let spinner = spinner("repairing");
    let repaired = directory::repair(path, options);
    spinner.finish_and_clear();
    let Repaired { clock_set_back, recounted, removed, too_long } = repaired?;
    let milliseconds = clock_set_back.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let all = json!({
        "clock_set_back_ms": milliseconds,
        "recounted": recounted,
        "removed": removed,
        "too_long": too_long,
    });
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
    print_result(as_json, &all, &line)?;
    Ok(ExitCode::SUCCESS)
}

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
