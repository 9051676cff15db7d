//! Checks and repairs a Redis or a Redis Cluster, beside running pipes.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use keepline::{
    config::Config,
    store::{BucketDamage, Failure, FailureCode},
};
use serde_json::{Value, json};

use super::{format_check_result, with_spinner};
use crate::{
    app::{runtime, transfer_redis},
    terminal::{self, format_count},
};

/// Checks all buckets. Fails if any is damaged.
pub fn check_redis(config: &Config, as_json: bool) -> Result<ExitCode> {
    let store = transfer_redis(config)?;
    let runtime = runtime::build_single_threaded()?;
    let checked = with_spinner("checking", || runtime.block_on(store.check_buckets()));
    let checked = checked.map_err(explain_redis_failure)?;
    let damage = checked.damage;
    if as_json {
        terminal::print_json(&json!({"problems": damage_json(&damage), "buckets": checked.buckets}))?;
    } else {
        damage.iter().for_each(|damage| terminal::print_error(&damage.to_string()));
        let buckets = format_count(checked.buckets, "bucket", "buckets");
        terminal::print_line(&format!("{}: {buckets} (sessions and others)", format_check_result(damage.len())))?;
    }
    if damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print_note("`keepline store repair` repairs what can be repaired without a guess");
    Ok(ExitCode::FAILURE)
}

/// Repairs what can be repaired without a guess. Fails if anything is left.
pub fn repair_redis(config: &Config, as_json: bool) -> Result<ExitCode> {
    let store = transfer_redis(config)?;
    let runtime = runtime::build_single_threaded()?;
    let repaired = with_spinner("repairing", || runtime.block_on(store.repair_buckets()));
    let repaired = repaired.map_err(explain_redis_failure)?;
    if as_json {
        terminal::print_json(&json!({"repaired": damage_json(&repaired.mended), "left": damage_json(&repaired.left)}))?;
    } else {
        for damage in &repaired.mended {
            terminal::print_line(&terminal::escape_unprintable(&format!("repaired: {damage}")))?;
        }
        repaired.left.iter().for_each(|damage| terminal::print_error(&format!("not repaired: {damage}")));
        let problems = format_count(repaired.mended.len() as u64, "problem", "problems");
        terminal::print_line(&format!("{problems} repaired, {} left", repaired.left.len()))?;
    }
    if repaired.left.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print_note(
        "`keepline session delete SESSION` ends what is left of a session; a key that `keepline store check` still names \
         after that can be deleted in Redis",
    );
    Ok(ExitCode::FAILURE)
}

fn explain_redis_failure(failure: Failure) -> anyhow::Error {
    match failure.code {
        FailureCode::Denied => anyhow!(
            "{}; finding all sessions needs SCAN, too: `keepline config --acl --scan` prints the permissions",
            failure.message
        ),
        _ => anyhow!("{}", failure.message),
    }
}

fn damage_json(damage: &[BucketDamage]) -> Value {
    let item = |damage: &BucketDamage| {
        json!({
            "kind": damage.bucket.kind,
            "bucket": damage.bucket.name,
            "key": damage.key,
            "problem": damage.problem,
            "names": damage.names,
        })
    };
    damage.iter().map(item).collect()
}
