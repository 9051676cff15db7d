//! Checks, compacts, backs up, restores and repairs the directory that sessions are kept in.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use keepline::store::{
    DirectoryOptions,
    directory::{self, CheckReport, RepairReport},
};
use serde_json::json;

use super::{format_check_result, start_spinner};
use crate::{
    operations::confirm::confirm_deletion,
    terminal::{self, format_count, print_result},
};

pub fn check(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let spinner = start_spinner("checking");
    let checked = directory::check(path, options);
    spinner.finish_and_clear();
    let CheckReport { problems, buckets, bytes, free_bytes } = checked?;
    if as_json {
        let all = json!({"problems": problems, "buckets": buckets, "bytes": bytes, "free_bytes": free_bytes});
        terminal::print_json(&all)?;
    } else {
        problems.iter().for_each(|problem| terminal::print_error(problem));
        let state = format_check_result(problems.len());
        terminal::print_line(&format!(
            "{state}: {} (sessions and others), {}, of which {} unused",
            format_count(buckets, "bucket", "buckets"),
            HumanBytes(bytes),
            HumanBytes(free_bytes)
        ))?;
    }
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print_note(
        "`keepline store repair` repairs what can be repaired without losing data; else restore a backup with \
         `keepline store restore`",
    );
    Ok(ExitCode::FAILURE)
}

pub fn compact_directory(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let bar = percent_progress_bar();
    let freed = directory::compact(path, options, |done, all| update_progress(&bar, done, all));
    bar.finish_and_clear();
    let freed = freed?;
    let plain = format!("{} returned to the disk", HumanBytes(freed));
    print_result(as_json, &json!({"freed_bytes": freed}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn backup_directory(path: &Path, target: &PathBuf, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let bar = percent_progress_bar();
    let done = directory::backup(path, target, options, |done, all| update_progress(&bar, done, all));
    bar.finish_and_clear();
    let bytes = done?;
    let plain = format!("{} copied to {}", HumanBytes(bytes), target.display());
    print_result(as_json, &json!({"target": target.to_string_lossy(), "bytes": bytes}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn restore_directory(
    backup: &Path,
    path: &Path,
    yes: bool,
    options: &DirectoryOptions,
    as_json: bool,
) -> Result<ExitCode> {
    let shown = terminal::escape_unprintable(&path.display().to_string());
    let holds_files = std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    if holds_files && !yes {
        confirm_deletion(&format!("the store in {shown} would be replaced by the backup"), "\"replace\"", "replace")?;
    }
    let bar = percent_progress_bar();
    let done = directory::restore(backup, path, options, |done, all| update_progress(&bar, done, all));
    bar.finish_and_clear();
    let bytes = done?;
    let plain = format!("{} restored to {shown}", HumanBytes(bytes));
    print_result(as_json, &json!({"directory": path.to_string_lossy(), "bytes": bytes}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn repair(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let spinner = start_spinner("repairing");
    let repaired = directory::repair(path, options);
    spinner.finish_and_clear();
    let RepairReport { clock_set_back, recounted, removed, too_long } = repaired?;
    let milliseconds = clock_set_back.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let all = json!({
        "clock_set_back_ms": milliseconds,
        "recounted": recounted,
        "removed": removed,
        "too_long": too_long,
    });
    let mut line = format!(
        "indexes rebuilt, {} corrected, {} removed that belonged to nothing",
        format_count(recounted, "count", "counts"),
        format_count(removed, "row", "rows")
    );
    if too_long > 0 {
        line.push_str(&format!(
            ", {} removed that no call could read",
            format_count(too_long, "over-long text", "over-long texts")
        ));
    }
    if let Some(time) = clock_set_back {
        line.push_str(&format!(", the store's time set back by {} s to this machine's clock", time.as_secs()));
    }
    print_result(as_json, &all, &line)?;
    Ok(ExitCode::SUCCESS)
}

fn percent_progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}%  {eta} left") {
        bar.set_style(style);
    }
    terminal::set_progress_bar(&bar);
    bar
}

fn update_progress(bar: &ProgressBar, done: u64, all: u64) {
    bar.set_length(all);
    bar.set_position(done);
}
