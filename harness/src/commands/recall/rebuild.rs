//! `keepline recall rebuild`: rebuilds the index and the vectors of sessions and their nodes from their messages.
//!
//! Messages are not touched, and the sessions can be used and edited meanwhile; until it is done, less is recalled than
//! there is. An interrupted rebuild can be repeated at once. Sessions that another process keeps working on are
//! reported and left to the next run.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use futures::TryStreamExt;
use keepline::{
    Keepline,
    maintenance::TaskBucket,
    store::{BucketId, capability, kind},
};
use serde_json::json;
use tokio::sync::watch;

use crate::{
    app::{error::coded_error, shutdown::ShutdownSignals, with_keepline},
    args::{GRACE, GlobalArguments, StoreAccess},
    deferred::{
        run_task::{EMBED_TASK, INDEX_TASK, RESET_TASK, TaskResult, run_task_until},
        scope::{RecallMode, require_recall},
    },
    operations::{buckets::pages, nodes::session_nodes, transcripts::session_owner},
    terminal::{format_count, print_result, progress_bar},
};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["sessions", "all"]))]
pub struct RebuildArguments {
    /// The sessions' ids
    #[arg(value_name = "SESSION")]
    pub sessions: Vec<String>,
    /// All sessions and nodes of the store
    #[arg(long)]
    pub all: bool,
}

pub fn main(global: &GlobalArguments, arguments: &RebuildArguments, json: bool) -> Result<ExitCode> {
    // It handles signals itself, to give back its lease.
    with_keepline(global, StoreAccess::Read, async |keepline, _, _| {
        let (shutdown, (stop, stopped)) = (ShutdownSignals::listen(GRACE)?, watch::channel(false));
        tokio::select! {
            done = rebuild_indexes(&keepline, arguments, json, &stopped) => done,
            () = shutdown.wait_until_grace_ends(|_| _ = stop.send_replace(true)) => Err(interruption_error()),
        }
    })
}

fn interruption_error() -> anyhow::Error {
    let message = "interrupted; run the command again to finish the rebuild";
    coded_error("interrupted", message)
}

async fn rebuild_indexes(
    keepline: &Keepline,
    arguments: &RebuildArguments,
    json: bool,
    stop: &watch::Receiver<bool>,
) -> Result<()> {
    let scope = require_recall(keepline)?;
    if !keepline.store().about().can(capability::INDEXES) {
        bail!("this store has no indexes");
    }
    let found = if arguments.all {
        list_all_transcripts(keepline).await?
    } else {
        list_named_transcripts(keepline, &arguments.sessions).await?
    };
    let bar = progress_bar(found.len() as u64);
    let (mut sessions, mut nodes, mut busy) = (0_u64, 0_u64, Vec::new());
    for bucket in &found {
        match rebuild_transcript(keepline, scope, bucket, stop, || bar.tick()).await? {
            TaskResult::Done if bucket.kind == kind::SESSION => sessions += 1,
            TaskResult::Done => nodes += 1,
            TaskResult::Gone => {}
            TaskResult::Busy => busy.push(format!("{}/{}", bucket.kind, bucket.name)),
            TaskResult::Stopped => return Err(interruption_error()),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let plain = format!("{}, {}", format_count(sessions, "session", "sessions"), format_count(nodes, "node", "nodes"));
    print_result(json, &json!({"sessions": sessions, "nodes": nodes}), &plain)?;
    if busy.is_empty() {
        return Ok(());
    }
    bail!("another process is working on {}: run the same command again", busy.join(", "))
}

/// Rebuilds one transcript, task by task.
async fn rebuild_transcript(
    keepline: &Keepline,
    scope: RecallMode,
    bucket: &BucketId,
    stop: &watch::Receiver<bool>,
    mut told: impl FnMut(),
) -> Result<TaskResult> {
    let BucketId { kind, name } = bucket;
    let mut buckets = vec![TaskBucket { kind: kind.clone(), name: name.clone() }];
    let mut tasks = vec![(buckets.clone(), RESET_TASK)];
    if *kind == kind::SESSION
        && scope == RecallMode::User
        && let Some(owner) = session_owner(&mut keepline.sessions(), name).await?
    {
        buckets = scope.task_buckets(name, Some(&owner))?;
        tasks.push((buckets.clone(), RESET_TASK));
    }
    tasks.push((buckets.clone(), INDEX_TASK));
    if keepline.wants_vectors() {
        tasks.push((buckets, EMBED_TASK));
    }
    for (buckets, task) in tasks {
        let driven = run_task_until(keepline, &buckets, task, stop, &mut told).await?;
        if driven != TaskResult::Done {
            return Ok(driven);
        }
    }
    Ok(TaskResult::Done)
}

async fn list_all_transcripts(keepline: &Keepline) -> Result<Vec<BucketId>> {
    let mut found = Vec::new();
    for kind in [kind::SESSION, kind::NODE] {
        let names = pages(keepline.store(), kind).try_concat().await?;
        found.extend(names.into_iter().map(|name| BucketId::new(kind, name)));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Sessions, which must exist, and their nodes.
async fn list_named_transcripts(keepline: &Keepline, sessions: &[String]) -> Result<Vec<BucketId>> {
    let mut found = Vec::new();
    for id in sessions {
        // The component reports best what is wrong with an id.
        keepline.sessions().describe((&**id).into()).await?;
        let name = keepline.session_ids().bucket_name(id).unwrap_or_default().into_owned();
        let nodes = session_nodes(keepline, id).await?.into_iter();
        found.extend(nodes.map(|node| BucketId::node(node.bucket)));
        found.push(BucketId::session(name));
    }
    Ok(found)
}
