//! Checks and repairs a Redis or a Redis Cluster, beside running pipes.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use keepline::{
    config::Config,
    store::{BucketDamage, Failure, FailureCode},
};
use serde_json::{Value, json};

use super::{spinner, state};
use crate::{
    app::{runtime, transfer_redis},
    terminal::{self, counted},
};

/// Checks all buckets. Fails if any is damaged.
pub fn check(config: &Config, as_json: bool) -> Result<ExitCode> {
    let store = transfer_redis(config)?;
    let spinner = spinner("checking");
    let checked = runtime::single()?.block_on(store.check_buckets());
    spinner.finish_and_clear();
    let checked = checked.map_err(store_error)?;
    let damage = checked.damage;
    if as_json {
        terminal::print_json(&json!({"problems": listed(&damage), "buckets": checked.buckets}))?;
    } else {
        damage.iter().for_each(|damage| terminal::error(&damage.to_string()));
        let buckets = counted(checked.buckets, "bucket", "buckets");
        terminal::print_line(&format!("{}: {buckets} (sessions and others)", state(damage.len())))?;
    }
    if damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::note("`keepline store repair` repairs what can be repaired without a guess");
    Ok(ExitCode::FAILURE)
}

/// Repairs what can be repaired without a guess. Fails if anything is left.
pub fn repair(config: &Config, as_json: bool) -> Result<ExitCode> {
    let store = transfer_redis(config)?;
    let spinner = spinner("repairing");
    let repaired = runtime::single()?.block_on(store.repair_buckets());
    spinner.finish_and_clear();
    let repaired = repaired.map_err(store_error)?;
    if as_json {
        terminal::print_json(&json!({"repaired": listed(&repaired.mended), "left": listed(&repaired.left)}))?;
    } else {
        for damage in &repaired.mended {
            terminal::print_line(&terminal::printable(&format!("repaired: {damage}")))?;
        }
        repaired.left.iter().for_each(|damage| terminal::error(&format!("not repaired: {damage}")));
        let problems = counted(repaired.mended.len() as u64, "problem", "problems");
        terminal::print_line(&format!("{problems} repaired, {} left", repaired.left.len()))?;
    }
    if repaired.left.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::note(
        "`keepline session delete SESSION` ends what is left of a session; a key that `keepline store check` still names \
         after that can be deleted in Redis",
    );
    Ok(ExitCode::FAILURE)
}

fn store_error(failure: Failure) -> anyhow::Error {
    match failure.code {
        FailureCode::Denied => anyhow!(
            "{}; finding all sessions needs SCAN, too: `keepline config --acl --scan` prints the permissions",
            failure.message
        ),
        _ => anyhow!("{}", failure.message),
    }
}

fn listed(damage: &[BucketDamage]) -> Value {
    let item = |damage: &BucketDamage| {
        json!({
            "kind": damage.bucket.kind.name(),
            "bucket": damage.bucket.name,
            "key": damage.key,
            "problem": damage.problem,
            "names": damage.names,
        })
    };
    damage.iter().map(item).collect()
}
