//! `keepline migrate`: sessions from one Redis to another, a single server or a cluster each.
//!
//! What is there already is left alone, so a migration that was broken off goes on where it was. Nothing is done
//! before both sides are known to be apart, and nothing is deleted but what is the same on both at that moment.

use std::{collections::HashMap, fmt, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream};
use indicatif::{HumanBytes, ProgressBar, ProgressState, ProgressStyle};
use keepline::{
    config::Config,
    store::{
        Arrival, Deadline, Failure, FailureCode, NotApart, RedisOptions, RedisStore, Removed, Store, Transfer,
        Transferred,
    },
};
use serde_json::json;

use crate::{
    cli::{Global, MigrateArguments},
    ending::Ending,
    setup,
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
        return Err(same("source and target are the same").into());
    }
    runtime::single()?.block_on(migrate(&transfer, arguments))
}

fn same(what: &str) -> Usage {
    Usage(format!(
        "{what}: use --to to say what differs, for example \
         --to redis_cluster=true --to redis_nodes=node1:6379,node2:6379"
    ))
}

fn store(config: &Config) -> Result<RedisStore> {
    if !config.is_redis() {
        let message = "keepline migrate needs Redis on both sides: the \"memory\" backend exists only within a process; \
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

/// The sessions to carry.
struct Found {
    names: Vec<String>,
    /// Of those, the ones that the source's list does not have; none: it was not looked for them.
    unlisted: Option<u64>,
}

/// What became of the sessions.
#[derive(Default)]
struct Tally {
    unlisted: Option<u64>,
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
    transfer.prove_apart().await.map_err(|not_apart| match not_apart {
        NotApart::Same => same(&not_apart.to_string()).into(),
        not_apart => anyhow::anyhow!("can't prove that source and target differ: {not_apart}"),
    })?;
    let Found { names: sessions, unlisted } = find(&transfer.from, arguments.scan).await?;
    let bar = bar(sessions.len() as u64);
    let mut tally = Tally { unlisted, ..Tally::default() };
    let mut done = HashMap::with_capacity(sessions.len());
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
                        "stopped after {} of {} sessions; run the same command again to resume",
                        done.len() + tally.left.len() + usize::try_from(tally.gone).unwrap_or_default(),
                        sessions.len()
                    );
                }
            };
            bar.inc(1);
            match outcome {
                Ok(Carried { bytes, expires_at, outcome, is_deleted }) => {
                    match outcome {
                        Outcome::Copied => tally.copied += 1,
                        Outcome::AlreadyThere => tally.already_there += 1,
                        Outcome::Gone => tally.gone += 1,
                    }
                    tally.bytes += bytes;
                    tally.deleted += u64::from(is_deleted);
                    if !matches!(outcome, Outcome::Gone) {
                        done.insert(session.as_str(), expires_at);
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

/// Each session whose contents were compared must be in the target's list, too, unless its time is over.
async fn count(transfer: &Transfer, mut done: HashMap<&str, Option<u64>>, tally: &mut Tally) -> Result<()> {
    for there in names(&transfer.to).await.context("can't list the sessions of the target")? {
        done.remove(there.as_str());
    }
    for (session, expires_at) in done {
        let why = match transfer.arrival(session, expires_at).await.map_err(|failure| told(&failure))? {
            Arrival::There | Arrival::Expired => continue,
            Arrival::NotListed => "it is in the target but missing from its session list",
            _ => "its copy in the target was verified but has disappeared since",
        };
        tally.left.push((session.to_owned(), why.to_owned()));
    }
    Ok(())
}

/// What became of a session.
struct Carried {
    outcome: Outcome,
    bytes: u64,
    expires_at: Option<u64>,
    is_deleted: bool,
}

enum Outcome {
    Copied,
    AlreadyThere,
    Gone,
}

async fn carry(transfer: &Transfer, session: &str, delete: bool) -> Result<Carried, String> {
    let failed = |failure: Failure| failure.message;
    let (outcome, bytes, expires_at) = match transfer.bucket(session).await.map_err(failed)? {
        Transferred::Copied { bytes, expires_at } => (Outcome::Copied, bytes, expires_at),
        Transferred::AlreadyThere { expires_at } => (Outcome::AlreadyThere, 0, expires_at),
        Transferred::Gone => {
            return Ok(Carried { outcome: Outcome::Gone, bytes: 0, expires_at: None, is_deleted: false });
        }
        Transferred::Conflict => {
            return Err(
                "the target has a session of that name with different contents; use --overwrite to replace it".into()
            );
        }
        Transferred::Changing => {
            return Err("it kept changing while it was copied; stop the pipes and run again with --overwrite".into());
        }
        other => return Err(format!("unexpected outcome: {other:?}")),
    };
    let mut is_deleted = false;
    if delete {
        is_deleted = match transfer.remove(session).await.map_err(failed)? {
            Removed::Done => true,
            Removed::Gone => false,
            Removed::Differs => {
                return Err("it changed after it was compared and was not deleted; stop the pipes and run again \
                            with --overwrite"
                    .into());
            }
            _ => return Err("it is missing from the target's session list, so it was not deleted".into()),
        };
    }
    Ok(Carried { outcome, bytes, expires_at, is_deleted })
}

/// What the source's list names, and on request also what it does not.
async fn find(source: &RedisStore, scan: bool) -> Result<Found> {
    let listed = names(source).await.context("can't list the sessions of the source")?;
    if !scan {
        return Ok(Found { names: listed, unlisted: None });
    }
    let scanned = source.scan_buckets().await.map_err(|failure| match failure.code {
        FailureCode::Denied => anyhow::anyhow!(
            "Redis denies SCAN to this user; `keepline config --acl --scan` prints the permissions needed"
        ),
        _ => anyhow::anyhow!("can't scan the keys of the source: {}", failure.message),
    })?;
    let unlisted = scanned.iter().filter(|name| listed.binary_search(name).is_err()).count() as u64;
    let mut names = [listed, scanned].concat();
    names.sort_unstable();
    names.dedup();
    Ok(Found { names, unlisted: Some(unlisted) })
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
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} sessions  {rate}/s  {eta} left") {
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
            "unlisted": tally.unlisted,
            "left": left,
        });
        return Ok(terminal::print_line(&all.to_string())?);
    }
    let Tally { copied, already_there, gone, deleted, unlisted, left, .. } = tally;
    let mut line = format!("{copied} sessions copied ({})", HumanBytes(tally.bytes));
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
        (0, 0, None) => "; the source lists none. --scan also finds sessions that its list has lost",
        (0, 0, Some(_)) => "; the source has none",
        (0, _, None) => "; all that the source lists is in the target, with the same contents",
        (0, _, Some(_)) => "; all that the source holds is in the target, with the same contents",
    });
    Ok(terminal::print_line(&line)?)
}
