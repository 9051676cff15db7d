//! Checks, compacts, backs up, restores and repairs the directory that sessions are kept in.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use indicatif::HumanBytes;
use keepline::store::{
    DirectoryOptions,
    directory::{self, CheckReport, RepairReport},
};
use serde_json::json;

use super::{format_check_result, with_spinner};
use crate::{
    operations::confirm::confirm_deletion,
    terminal::{self, format_count, print_result},
};

pub fn check(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let checked = with_spinner("checking", || directory::check(path, options));
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
    let freed = with_percent_bar(|progress| directory::compact(path, options, progress))?;
    let plain = format!("{} returned to the disk", HumanBytes(freed));
    print_result(as_json, &json!({"freed_bytes": freed}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn backup_directory(path: &Path, target: &PathBuf, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let bytes = with_percent_bar(|progress| directory::backup(path, target, options, progress))?;
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
    let bytes = with_percent_bar(|progress| directory::restore(backup, path, options, progress))?;
    let plain = format!("{} restored to {shown}", HumanBytes(bytes));
    print_result(as_json, &json!({"directory": path.to_string_lossy(), "bytes": bytes}), &plain)?;
    Ok(ExitCode::SUCCESS)
}

pub fn repair(path: &Path, options: &DirectoryOptions, as_json: bool) -> Result<ExitCode> {
    let repaired = with_spinner("repairing", || directory::repair(path, options));
    let RepairReport { clock_set_back, recounted, removed, too_long } = repaired?;
    let milliseconds = clock_set_back.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let all = json!({
        "clock_set_back_ms": milliseconds, "recounted": recounted, "removed": removed, "too_long": too_long,
    });
    let mut line = format!(
        "indexes rebuilt, {} corrected, {} removed that belonged to nothing",
        format_count(recounted, "count", "counts"),
        format_count(removed, "row", "rows")
    );
    if too_long > 0 {
        let texts = format_count(too_long, "over-long text", "over-long texts");
        line.push_str(&format!(", {texts} removed that no call could read"));
    }
    if let Some(time) = clock_set_back {
        line.push_str(&format!(", the store's time set back by {} s to this machine's clock", time.as_secs()));
    }
    print_result(as_json, &all, &line)?;
    Ok(ExitCode::SUCCESS)
}

/// Does work that reports how much of all is done.
fn with_percent_bar<T>(work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
    let bar = terminal::percent_bar();
    let worked = work(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    worked
}
