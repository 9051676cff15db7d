//! `keepline migrate`: sessions from one Redis to another, a single server or a cluster each.
//!
//! What is there already is left alone, so a migration that was broken off goes on where it was.

use std::{collections::HashSet, fmt, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream};
use indicatif::{HumanBytes, ProgressBar, ProgressState, ProgressStyle};
use keepline::{
    config::Config,
    store::{Deadline, Failure, RedisOptions, RedisStore, Store, Transfer, Transferred, Writer},
};
use serde_json::json;

use crate::{
    cli::{Global, MigrateArguments},
    ending::Ending,
    setup::{self, Usage},
    terminal,
};

/// Sessions that are copied side by side.
const SIDE_BY_SIDE: usize = 16;
/// Names of a page of the list.
const PAGE: u32 = 1000;
/// Nobody waits for one entry here: better late than not.
const TIMEOUT: Duration = Duration::from_secs(30);

pub fn main(global: &Global, arguments: &MigrateArguments) -> Result<ExitCode> {
    let source = setup::config(global)?;
    let target = setup::target_config(global, arguments)?;
    let transfer = Transfer { from: store(&source)?, to: store(&target)?, overwrite: arguments.overwrite };
    if same_place(&source.redis_options(), &target.redis_options()) {
        let message = "source and target are the same: say with --to what is different, for example \
                       --to redis_cluster=true --to redis_nodes=node1:6379,node2:6379";
        return Err(Usage(message.to_owned()).into());
    }
    setup::single_runtime()?.block_on(migrate(&transfer, arguments))
}

fn store(config: &Config) -> Result<RedisStore> {
    if !config.is_redis() {
        let message = "keepline migrate needs Redis on both sides: the backend \"memory\" lives in its process only; \
                       add --profile redis or --set backend=redis";
        return Err(Usage(message.to_owned()).into());
    }
    let options = config.redis_options();
    let store_timeout = options.store_timeout.max(TIMEOUT);
    Ok(RedisStore::new(RedisOptions { store_timeout, ..options })?)
}

/// As far as names tell.
fn same_place(one: &RedisOptions, other: &RedisOptions) -> bool {
    let url = |options: &RedisOptions| options.url.as_ref().map(|url| url.expose().to_owned());
    (url(one), &one.host, one.port, one.database, one.cluster, &one.nodes, &one.key_prefix)
        == (url(other), &other.host, other.port, other.database, other.cluster, &other.nodes, &other.key_prefix)
}

/// What became of the sessions.
#[derive(Default)]
struct Tally {
    copied: u64,
    bytes: u64,
    already_there: u64,
    gone: u64,
    deleted: u64,
    /// With why, for people.
    left: Vec<(String, String)>,
}

async fn migrate(transfer: &Transfer, arguments: &MigrateArguments) -> Result<ExitCode> {
    let reached = async |store: &RedisStore, which: &str| {
        store.check().await.map_err(|failure| anyhow::anyhow!("the {which} can't be used: {}", failure.message))
    };
    reached(&transfer.from, "source").await?;
    reached(&transfer.to, "target").await?;
    let sessions = names(&transfer.from).await.context("can't list the sessions of the source")?;
    let bar = bar(sessions.len() as u64);
    let mut tally = Tally::default();
    let mut done = HashSet::with_capacity(sessions.len());
    {
        let work =
            stream::iter(&sessions).map(async |session| (session, carry(transfer, session, arguments.delete).await));
        let mut work = std::pin::pin!(work.buffer_unordered(SIDE_BY_SIDE));
        let mut stopped = std::pin::pin!(Ending::listen(Duration::ZERO)?.told(|| ()));
        loop {
            let (session, outcome) = tokio::select! {
                biased;
                next = work.next() => match next {
                    Some(next) => next,
                    None => break,
                },
                () = &mut stopped => {
                    bar.finish_and_clear();
                    tell(&tally, arguments.json)?;
                    bail!(
                        "stopped; {} of {} sessions were looked at, and the same command goes on from there",
                        done.len() + tally.left.len(),
                        sessions.len()
                    );
                }
            };
            bar.inc(1);
            match outcome {
                Ok(transferred) => {
                    match transferred {
                        Carried::Copied { bytes } => {
                            tally.copied += 1;
                            tally.bytes += bytes;
                        }
                        Carried::AlreadyThere => tally.already_there += 1,
                        Carried::Gone => tally.gone += 1,
                    }
                    if !matches!(transferred, Carried::Gone) {
                        tally.deleted += u64::from(arguments.delete);
                        done.insert(session.as_str());
                    }
                }
                Err(why) => tally.left.push((session.clone(), why)),
            }
        }
    }
    bar.finish_and_clear();
    count(transfer, done, &mut tally).await?;
    tell(&tally, arguments.json)?;
    Ok(if tally.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each session whose contents were compared must be in the target's list, too.
async fn count(transfer: &Transfer, mut done: HashSet<&str>, tally: &mut Tally) -> Result<()> {
    for there in names(&transfer.to).await.context("can't list the sessions of the target")? {
        done.remove(there.as_str());
    }
    for session in done {
        // It may have expired since.
        let description =
            transfer.to.describe_bucket(session, Deadline::NEVER).await.map_err(|failure| told(&failure))?;
        if description.status == keepline::store::Status::Applied {
            tally.left.push((session.to_owned(), "it is in the target, but not in its list of sessions".to_owned()));
        }
    }
    Ok(())
}

enum Carried {
    Copied { bytes: u64 },
    AlreadyThere,
    Gone,
}

async fn carry(transfer: &Transfer, session: &str, delete: bool) -> Result<Carried, String> {
    let failed = |failure: Failure| failure.message;
    let carried = match transfer.bucket(session).await.map_err(failed)? {
        Transferred::Copied { bytes } => Carried::Copied { bytes },
        Transferred::AlreadyThere => Carried::AlreadyThere,
        Transferred::Gone => return Ok(Carried::Gone),
        Transferred::Conflict => {
            return Err("the target has a session of that name with other contents; --overwrite replaces it".into());
        }
        Transferred::Changing => {
            return Err(
                "it was changed each time while it was copied; stop the pipes and migrate with --overwrite".into()
            );
        }
        other => return Err(format!("it came to {other:?}")),
    };
    if delete {
        transfer.from.delete_bucket(Writer::new().advance(), session, Deadline::NEVER).await.map_err(failed)?;
    }
    Ok(carried)
}

async fn names(store: &RedisStore) -> Result<Vec<String>> {
    let (mut names, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = store.list_buckets(&cursor, PAGE, Deadline::NEVER).await.map_err(|failure| told(&failure))?;
        names.extend(page.buckets);
        cursor = page.cursor;
        if cursor.is_empty() {
            // A name may come twice.
            names.sort_unstable();
            names.dedup();
            return Ok(names);
        }
    }
}

fn told(failure: &Failure) -> anyhow::Error {
    anyhow::anyhow!("{}", failure.message)
}

fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} sessions  {rate} a second  {eta} left") {
        let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
            // A bar that can't be drawn is no reason to stop.
            let _ = write!(out, "{:.0}", state.per_sec());
        };
        bar.set_style(style.with_key("rate", rate));
    }
    terminal::write_above(&bar);
    bar
}

fn tell(tally: &Tally, as_json: bool) -> Result<()> {
    for (session, why) in &tally.left {
        terminal::error(&format!("session {session}: {why}"));
    }
    if as_json {
        let left: Vec<_> = tally.left.iter().map(|(session, why)| json!({"session": session, "why": why})).collect();
        let all = json!({
            "copied": tally.copied,
            "bytes": tally.bytes,
            "already_there": tally.already_there,
            "gone": tally.gone,
            "deleted": tally.deleted,
            "left": left,
        });
        return Ok(terminal::print_line(&all.to_string())?);
    }
    let Tally { copied, already_there, gone, deleted, left, .. } = tally;
    let mut line = format!("{copied} sessions copied ({})", HumanBytes(tally.bytes));
    for (count, what) in [
        (*already_there, "there already"),
        (*gone, "gone meanwhile"),
        (*deleted, "deleted in the source"),
        (left.len() as u64, "left"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    line.push_str(if left.is_empty() { "; counts and contents agree" } else { "; see above" });
    Ok(terminal::print_line(&line)?)
}
