//! Stages the sessions of an export, line by line.
//!
//! Names, positions and counts are checked before anything of a session reaches the target.

use std::collections::BTreeSet;

use anyhow::Result;
use keepline::store::{
    BucketId, Failure, kind,
    names::{VALUES, is_key},
};

use super::{
    lines::InputLines,
    session::{ImportRun, ImportedSession},
};
use crate::session_file::{
    Problem, TRANSCRIPT,
    schema::{BucketHeader, ExportLine, LineCounts, NODES, ONCE, OWNER_KEY},
    staging::{
        StagedBucket,
        deliver::{DeliveryOutcome, StagedSession},
    },
};

/// A session that is being read.
struct IncomingSession {
    session: StagedBucket,
    /// The line where it begins.
    line: u64,
    /// The node whose lines are being read.
    node: Option<StagedBucket>,
    nodes: Vec<BucketId>,
    /// Nodes that the session names.
    named: BTreeSet<String>,
    about: ImportedSession,
}

/// Imports the sessions of an export.
pub async fn lines(import: &mut ImportRun, mut lines: InputLines) -> Result<()> {
    let mut coming: Option<IncomingSession> = None;
    // Until the next session: what belongs to one that was left out.
    let mut is_skipping = false;
    while let Some(line) = lines.next_line()? {
        let read = line.and_then(ExportLine::parse_line);
        let begins = matches!(&read, Ok(ExportLine::Header(header)) if header.node.is_none());
        if is_skipping && !begins {
            continue;
        }
        is_skipping = false;
        if let Some(unfinished) = coming.take_if(|_| begins) {
            let why = "the next session begins before its end: it is incomplete";
            import.tally.left.push((unfinished.session.bucket.name, why.to_owned()));
        }
        let name = coming.as_ref().map(|coming| coming.session.bucket.name.clone()).unwrap_or_default();
        let done = match read {
            Ok(ExportLine::Header(header)) if begins => {
                begin_session(import, header).await.map(|begun| coming = Some(begun))
            }
            Ok(read) => stage_line(import, &mut coming, read).await,
            Err(what) => Err(what.into()),
        };
        if let Err(wrong) = done {
            import.leave_out(&name, &format!("line {}", lines.number), wrong)?;
            coming = None;
            is_skipping = !begins;
        } else if let Some(begun) = coming.as_mut().filter(|_| begins) {
            begun.line = lines.number;
        }
    }
    if let Some(coming) = coming {
        let why = format!("the file ends after line {}, before the end of the session: it is incomplete", lines.number);
        import.tally.left.push((coming.session.bucket.name, why));
    }
    Ok(())
}

async fn stage_line(
    import: &mut ImportRun,
    coming: &mut Option<IncomingSession>,
    read: ExportLine<'_>,
) -> Result<(), Problem> {
    let Some(current) = coming else {
        let what = match read {
            ExportLine::Header(_) => "it is the header of a node, which belongs between its session's header and end",
            _ => "it belongs to no session: a header comes first",
        };
        return Err(what.to_owned().into());
    };
    match read {
        ExportLine::Header(header) => begin_node(import, current, header).await,
        ExportLine::End { name, counts } => {
            if let Some(node) = current.node.take() {
                current.nodes.push(node.bucket.clone());
                return end(node, &name, counts).await;
            }
            let Some(IncomingSession { session, line, nodes, about, .. }) = coming.take() else { return Ok(()) };
            let staged = StagedSession { session: session.bucket.clone(), nodes, is_shell: false };
            end(session, &name, counts).await?;
            let contents = import.delivery.staged_digests(&staged).await?;
            match import.record_source(name.into_owned(), format!("line {line}"), Some(contents)) {
                Ok(false) => import.deliver_session(&staged, &about).await,
                again => {
                    import.delivery.discard_staged(&staged).await?;
                    again?;
                    import.record_outcome(&staged, &about, DeliveryOutcome::AlreadyThere).await
                }
            }
        }
        other => current.add_line(other).await,
    }
}

async fn begin_session(import: &mut ImportRun, header: BucketHeader<'_>) -> Result<IncomingSession, Problem> {
    let session = begin_bucket(import, kind::SESSION, &header.session, &header).await?;
    let has_owner = header.conversation.iter().any(|(key, _)| key == OWNER_KEY);
    let about = ImportedSession { has_owner, ..ImportedSession::default() };
    Ok(IncomingSession { session, line: 0, node: None, nodes: Vec::new(), named: BTreeSet::new(), about })
}

async fn begin_node(
    import: &mut ImportRun,
    current: &mut IncomingSession,
    header: BucketHeader<'_>,
) -> Result<(), Problem> {
    let Some(node) = &header.node else { return Ok(()) };
    if header.session != current.session.bucket.name || !current.named.contains(&*node.bucket) {
        let session = &current.session.bucket.name;
        return Err(format!("the map {NODES} of session {session} does not name the node {}", node.bucket).into());
    }
    if let Some(unfinished) = &current.node {
        return Err(format!("the node {} has no end", unfinished.bucket.name).into());
    }
    if let Some(id) = &node.node_id {
        current.about.nodes.push((node.app_id.clone(), id.clone()));
    }
    current.node = Some(begin_bucket(import, kind::NODE, &node.bucket, &header).await?);
    Ok(())
}

async fn begin_bucket(
    import: &ImportRun,
    kind: &str,
    name: &str,
    header: &BucketHeader<'_>,
) -> Result<StagedBucket, Failure> {
    let mut arriving = StagedBucket::begin(&import.delivery.staging, kind, name, header.head.clone()).await?;
    for (key, text) in &header.conversation {
        arriving.add_entry(ONCE, key, text).await?;
    }
    Ok(arriving)
}

impl IncomingSession {
    /// Adds a value, record or entry to the session, or to the node that is being read.
    async fn add_line(&mut self, read: ExportLine<'_>) -> Result<(), Problem> {
        let (is_node, to) = match &mut self.node {
            Some(node) => (true, node),
            None => (false, &mut self.session),
        };
        match read {
            ExportLine::Value { key, text } => {
                if !is_key(&key) {
                    return Err(format!(
                        "{key:?} can't be a key; allowed are 1 to 256 letters, digits, hyphens, underscores and dots"
                    )
                    .into());
                }
                Ok(to.add_entry(VALUES, &key, &text).await?)
            }
            ExportLine::Record { log, position, text } => {
                let expected = to.next_position(&log).ok_or_else(|| format!("the header has no log {log:?}"))?;
                if position != expected {
                    return Err(format!("position {position}, but {expected} comes next in the log {log}").into());
                }
                self.about.messages += u64::from(log == TRANSCRIPT);
                Ok(to.add_record(&log, &text).await?)
            }
            ExportLine::Entry { map, key, text } => {
                if !to.has_map(&map) {
                    return Err(format!("the header has no map {map:?}").into());
                }
                to.add_entry(&map, &key, &text).await?;
                if map == NODES && !is_node {
                    self.named.insert(key.into_owned());
                }
                Ok(())
            }
            ExportLine::Header(_) | ExportLine::End { .. } => Ok(()),
        }
    }
}

/// Completes a bucket, after its name and counts are checked.
async fn end(arriving: StagedBucket, name: &str, told: LineCounts) -> Result<(), Problem> {
    let (own, came) = (arriving.bucket.name.clone(), arriving.counts);
    if name != own {
        return Err(format!("it ends {name:?}, but {own} should end here").into());
    }
    if came != told {
        return Err(format!(
            "it counts {} values, {} records and {} entries, but there were {}, {} and {}: lines are missing",
            told.values, told.records, told.entries, came.values, came.records, came.entries
        )
        .into());
    }
    match arriving.finish_staging().await? {
        Some(held) if held != came.values + came.entries => {
            Err(format!("values or entries of {own} are duplicates: {}", came.values + came.entries - held).into())
        }
        _ => Ok(()),
    }
}
