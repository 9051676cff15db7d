//! `keepline migrate`: copies buckets of all kinds from one store to another, each a directory, a Redis server or a
//! Redis Cluster.
//!
//! Existing buckets are left alone, so an interrupted migration continues where it stopped. Nothing is copied before
//! both stores are proven to be different, and only buckets that are identical on both sides are deleted from the
//! source.

use std::{collections::HashMap, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args;
use futures::{StreamExt, stream};
use indicatif::HumanBytes;
use keepline::store::{
    Arrival, BucketId, Failure, FailureCode, NotApart, RedisOptions, RemovalOutcome, Transfer, TransferStore,
    Transferred, kind, transfer::list_all_buckets,
};
use serde_json::json;

use crate::{
    app::{self, error::usage_error, runtime, shutdown::ShutdownSignals},
    args::{GlobalArguments, help::JSON_HELP, parse::parse_assignment},
    terminal::{self, progress_bar},
};

#[derive(Debug, Args)]
pub struct MigrateArguments {
    /// Set one field of the target, for example --to redis_cluster=true (may be repeated)
    #[arg(long, value_name = "FIELD=VALUE", value_parser = parse_assignment, required_unless_present_any = ["to_config", "to_dir"])]
    pub to: Vec<(String, String)>,
    /// Copy to this directory: short for --to backend=directory --to directory=PATH
    #[arg(long, value_name = "PATH")]
    pub to_dir: Option<PathBuf>,
    /// Read the target's configuration from this JSON file instead of deriving it from the source's
    #[arg(long, value_name = "FILE")]
    pub to_config: Option<PathBuf>,
    /// Replace sessions in the target whose contents differ
    #[arg(long)]
    pub overwrite: bool,
    /// Delete each session from the source if both sides are the same at that moment
    #[arg(long)]
    pub delete: bool,
    /// Also find sessions missing from the list of a Redis by scanning all its keys; needs SCAN (config --acl --scan)
    #[arg(long)]
    pub scan: bool,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
pub const MIGRATE_HELP: &str = r#"The source is the effective configuration. The target is the same configuration with the changes given by --to, or the file given by --to-config. Each side is a directory, a Redis server or a Redis Cluster. For example, from a directory to Redis, from Redis to a directory, and from a single server to a cluster:
  keepline migrate --dir ./memory --to backend=redis \
      --to redis_url=redis://localhost:6379
  keepline migrate --profile redis --to-dir ./memory
  keepline migrate --set backend=redis --set redis_host=old \
      --to redis_cluster=true --to redis_nodes=n1:6379,n2:6379

What is stored for users, pipeline nodes and the like is copied as sessions are. Each session is copied along with its expiry and the numbers of recent writers, so that a call repeated on the other side counts once, then both sides are compared byte for byte; at the end the target's session list is checked, too. Sessions that are already in the target are left untouched, so after an interruption the same command resumes. Stop the pipes first: writes made during the copy are caught by the comparison and copied again, later ones are not. --delete removes a session from the source only if both sides are the same at that moment.

Before anything else, each side writes a mark that the other must not see: this proves that source and target are not the same place under two names.

Sessions are found through the source's session list. In Redis, a session whose list entry was evicted or removed by hand is missing there: --scan also walks all keys of the source, in steps. It needs the SCAN permission (`keepline config --acl --scan`), and in a cluster no slots may move in the meantime.

Exit codes: 0 all sessions are in the target, 1 some are not (each is reported with the reason), 2 the command line or the configuration is wrong."#;

/// Buckets that are copied at a time.
const CONCURRENT_COPIES: usize = 16;

pub fn main(global: &GlobalArguments, arguments: &MigrateArguments) -> Result<ExitCode> {
    let source = app::load_config(global)?;
    let target =
        app::target_config(global, &arguments.to, arguments.to_dir.as_deref(), arguments.to_config.as_deref())?;
    for (config, flags) in
        [(&source, "--dir PATH or --profile redis"), (&target, "--to-dir PATH or --to backend=redis")]
    {
        if !config.is_durable() {
            return Err(usage_error(format!(
                "keepline migrate copies between directories and Redis: the \"memory\" backend exists only within a \
                 process; add {flags}"
            )));
        }
    }
    if source.is_redis() && target.is_redis() && is_same_redis(&source.redis_options(), &target.redis_options()) {
        return Err(same_store_error("source and target are the same"));
    }
    let from = app::open_transfer_store(&source, false).context("the source can't be used")?;
    let to = app::open_transfer_store(&target, true).context("the target can't be used")?;
    let transfer = Transfer { from, to, overwrite: arguments.overwrite };
    let places = [&source, &target].map(app::store_address);
    runtime::build_single_threaded()?.block_on(migrate_buckets(&transfer, places, arguments))
}

fn same_store_error(what: &str) -> anyhow::Error {
    usage_error(format!(
        "{what}: use --to or --to-dir to say what differs, for example \
         --to redis_cluster=true --to redis_nodes=node1:6379,node2:6379"
    ))
}

/// Compares stores by their names, which may differ for the same store.
fn is_same_redis(one: &RedisOptions, other: &RedisOptions) -> bool {
    let url = |options: &RedisOptions| options.url.as_ref().map(|url| url.expose().to_owned());
    (url(one), &one.host, one.port, one.database, one.cluster, &one.nodes, &one.key_prefix)
        == (url(other), &other.host, other.port, other.database, other.cluster, &other.nodes, &other.key_prefix)
}

#[derive(Default)]
struct MigrationTally {
    /// Whether there are buckets other than sessions.
    of_other_kinds: bool,
    /// Buckets that the source's list lacks; `None` without `--scan`.
    unlisted: Option<u64>,
    copied: u64,
    bytes: u64,
    already_there: u64,
    gone: u64,
    deleted: u64,
    /// With the reason.
    left: Vec<(BucketId, String)>,
}

async fn migrate_buckets(
    transfer: &Transfer,
    places: [Option<String>; 2],
    arguments: &MigrateArguments,
) -> Result<ExitCode> {
    for ((store, which), place) in [(&transfer.from, "source"), (&transfer.to, "target")].into_iter().zip(places) {
        let place = place.map_or_else(String::new, |place| format!(" ({place})"));
        let unusable = |failure: Failure| anyhow::anyhow!("the {which} can't be used: {}{place}", failure.message);
        store.check().await.map_err(unusable)?;
    }
    transfer.prove_apart().await.map_err(|not_apart| match not_apart {
        NotApart::Same => same_store_error(&not_apart.to_string()),
        not_apart => anyhow::anyhow!("can't prove that source and target differ: {not_apart}"),
    })?;
    let (buckets, unlisted) = find_source_buckets(&*transfer.from, arguments.scan).await?;
    let bar = progress_bar(buckets.len() as u64);
    let of_other_kinds = buckets.iter().any(|bucket| bucket.kind != kind::SESSION);
    let mut tally = MigrationTally { of_other_kinds, unlisted, ..MigrationTally::default() };
    let mut done = HashMap::with_capacity(buckets.len());
    let stopped = ShutdownSignals::listen(Duration::ZERO)?.wait_until_grace_ends(|_| ());
    let work = stream::iter(&buckets)
        .map(async |bucket| (bucket, migrate_bucket(transfer, bucket, arguments.delete).await))
        .buffer_unordered(CONCURRENT_COPIES)
        .take_until(stopped);
    let mut work = std::pin::pin!(work);
    while let Some((bucket, outcome)) = work.next().await {
        bar.inc(1);
        let (transferred, is_deleted) = match outcome {
            Ok(outcome) => outcome,
            Err(why) => {
                tally.left.push((bucket.clone(), why));
                continue;
            }
        };
        tally.deleted += u64::from(is_deleted);
        match transferred {
            Transferred::Copied { bytes, expires_at } => {
                tally.copied += 1;
                tally.bytes += bytes;
                done.insert(bucket, expires_at);
            }
            // A moved one was compared by the run that moved it.
            Transferred::AlreadyThere { expires_at } | Transferred::Moved { expires_at } => {
                tally.already_there += 1;
                done.insert(bucket, expires_at);
            }
            _ => tally.gone += 1,
        }
    }
    bar.finish_and_clear();
    let finished = done.len() + tally.left.len() + usize::try_from(tally.gone).unwrap_or_default();
    if finished < buckets.len() {
        print_outcome(&tally, arguments.json)?;
        let (all, noun) = (buckets.len(), tally.bucket_noun(buckets.len() as u64));
        bail!("stopped after {finished} of {all} {noun}; run the same command again to resume");
    }
    verify_listed_in_target(transfer, done, &mut tally).await?;
    print_outcome(&tally, arguments.json)?;
    Ok(if tally.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl MigrationTally {
    fn bucket_noun(&self, count: u64) -> &'static str {
        match (self.of_other_kinds, count) {
            (true, 1) => "bucket",
            (true, _) => "buckets",
            (false, 1) => "session",
            (false, _) => "sessions",
        }
    }
}

/// Checks that each compared bucket is in the target's list, unless it has expired.
async fn verify_listed_in_target(
    transfer: &Transfer,
    mut done: HashMap<&BucketId, Option<u64>>,
    tally: &mut MigrationTally,
) -> Result<()> {
    let there = list_all_buckets(&*transfer.to).await.map_err(store_error);
    for there in there.context("can't list the sessions of the target")? {
        done.remove(&there);
    }
    for (bucket, expires_at) in done {
        let why = match transfer.arrival(bucket, expires_at).await.map_err(store_error)? {
            Arrival::There | Arrival::Expired => continue,
            Arrival::NotListed => "it is in the target but missing from its session list",
            _ => "its copy in the target was verified but has disappeared since",
        };
        tally.left.push((bucket.clone(), why.to_owned()));
    }
    Ok(())
}

const DELETED_MEANWHILE: &str = "it was deleted from the source after it had been copied; its copy is in the target: delete it there, \
                       too, if it is not wanted";

/// Copies a bucket. Returns how it went, unless it is left, and whether the source's was deleted. The error is the reason
/// why the bucket is left.
async fn migrate_bucket(transfer: &Transfer, bucket: &BucketId, delete: bool) -> Result<(Transferred, bool), String> {
    let failed = |failure: Failure| failure.message;
    let transferred = transfer.copy_bucket(bucket).await.map_err(failed)?;
    match &transferred {
        Transferred::Copied { .. } | Transferred::AlreadyThere { .. } => {}
        Transferred::Moved { .. } | Transferred::Gone => return Ok((transferred, false)),
        Transferred::Deleted => return Err(DELETED_MEANWHILE.into()),
        Transferred::Conflict => {
            return Err("the target has one of that name with different contents; use --overwrite to replace it".into());
        }
        Transferred::Changing => {
            return Err("it kept changing while it was copied; stop the pipes and run again with --overwrite".into());
        }
        other => return Err(format!("unexpected outcome: {other:?}")),
    }
    if !delete {
        return Ok((transferred, false));
    }
    match transfer.remove(bucket).await.map_err(failed)? {
        RemovalOutcome::Done => Ok((transferred, true)),
        RemovalOutcome::Moved | RemovalOutcome::Gone => Ok((transferred, false)),
        RemovalOutcome::Deleted => Err(DELETED_MEANWHILE.into()),
        RemovalOutcome::Differs => {
            Err("it changed after it was compared and was not deleted; stop the pipes and run again \
                                 with --overwrite"
                .into())
        }
        _ => Err("it is missing from the target's session list, so it was not deleted".into()),
    }
}

/// The buckets that the source's list names and, with `scan`, those that it lacks, with their number.
async fn find_source_buckets(source: &dyn TransferStore, scan: bool) -> Result<(Vec<BucketId>, Option<u64>)> {
    let listed = list_all_buckets(source).await.map_err(store_error);
    let listed = listed.context("can't list the sessions of the source")?;
    if !scan {
        return Ok((listed, None));
    }
    let scanned = source.scan_buckets().await.map_err(|failure| match failure.code {
        FailureCode::Denied => anyhow::anyhow!(
            "Redis denies SCAN to this user; `keepline config --acl --scan` prints the permissions needed"
        ),
        _ => anyhow::anyhow!("can't scan the keys of the source: {}", failure.message),
    })?;
    let unlisted = scanned.iter().filter(|bucket| listed.binary_search(bucket).is_err()).count() as u64;
    let mut buckets = [listed, scanned].concat();
    buckets.sort_unstable();
    buckets.dedup();
    Ok((buckets, Some(unlisted)))
}

fn store_error(failure: Failure) -> anyhow::Error {
    anyhow::Error::msg(failure.message)
}

fn print_outcome(tally: &MigrationTally, as_json: bool) -> Result<()> {
    for (bucket, why) in &tally.left {
        terminal::print_error(&format!("{} {}: {why}", bucket.kind, bucket.name));
    }
    if as_json {
        // A session is {"session": …, "why": …}; any other bucket is named by its kind.
        let told = |(bucket, why): &(BucketId, String)| json!({bucket.kind.clone(): bucket.name, "why": why});
        let left: Vec<_> = tally.left.iter().map(told).collect();
        let all = json!({
            "copied": tally.copied,
            "bytes": tally.bytes,
            "already_there": tally.already_there,
            "gone": tally.gone,
            "deleted": tally.deleted,
            "unlisted": tally.unlisted,
            "left": left,
        });
        return terminal::print_json(&all);
    }
    let MigrationTally { copied, already_there, gone, deleted, unlisted, left, .. } = tally;
    let mut line = format!("{copied} {} copied ({})", tally.bucket_noun(*copied), HumanBytes(tally.bytes));
    for (count, what) in [
        (*already_there, "already there"),
        (*gone, "gone in the meantime"),
        (*deleted, "deleted from the source"),
        (left.len() as u64, "not migrated"),
        (unlisted.unwrap_or_default(), "not in the source's list"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    // No more than is known.
    line.push_str(match (left.len(), copied + already_there + gone, unlisted) {
        (1.., _, _) => "; see above",
        _ if *gone > 0 => "; what is gone expired or was deleted; all else is in the target, with the same contents",
        (0, 0, None) => "; the source lists none. --scan also finds sessions that its list has lost",
        (0, 0, Some(_)) => "; the source has none",
        (0, _, None) => "; all that the source lists is in the target, with the same contents",
        (0, _, Some(_)) => "; all that the source holds is in the target, with the same contents",
    });
    terminal::print_line(&line)
}
