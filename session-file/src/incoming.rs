//! Stages the sessions of an export, line by line, and has them delivered.
//!
//! Names, positions and counts are checked before anything of a session reaches the target. What strangers send is checked
//! further ([`ImportRules`]), and nothing of it is delivered before all of it was read.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufRead,
};

use anyhow::{Context, Result};
use keepline::store::{
    BucketId, Failure, kind,
    names::{VALUES, is_key},
};
use keepline_options::bucket_names::{hashed, node_bucket_name};

use crate::{
    deliver::{DeliveryOutcome, StagedSession},
    import::{ImportedSession, SessionImport},
    lines::NumberedLines,
    problem::{Problem, Reason},
    schema::{BucketHeader, ExportLine, ExportNode, ID_KEY, LineCounts, NODES, ONCE, OWNER_KEY, TRANSCRIPT},
    staging::StagedBucket,
};

/// What a stranger's sessions may say of themselves. Whatever it says, a session names only nodes of its own, so that whoever
/// reads or deletes it reaches no other session's.
#[derive(Clone, Debug, Default)]
pub struct ImportRules {
    /// The name of the bucket of the only user whose sessions may come; none: anybody's.
    pub owner: Option<String>,
}

/// Imports the sessions of an export, each as soon as it was read. What is wrong with one is reported, and the others go on.
///
/// # Errors
/// When the lines can't be read any more, or a store can't be used.
pub async fn import_one_by_one<R: BufRead>(import: &mut SessionImport, lines: &mut NumberedLines<R>) -> Result<()> {
    let mut reader = SessionReader::new(lines, None);
    while let Some(complete) = reader.next_session(import).await? {
        let delivered = deliver(import, &complete).await;
        report(import, &complete, delivered)?;
    }
    Ok(())
}

/// Imports the sessions of an export after all of them were read and checked. One that comes twice is left out.
///
/// # Errors
/// As [`import_one_by_one`].
pub async fn import_at_once<R: BufRead>(
    import: &mut SessionImport,
    lines: &mut NumberedLines<R>,
    rules: ImportRules,
) -> Result<()> {
    let mut reader = SessionReader::new(lines, Some(rules));
    let mut all = Vec::new();
    while let Some(complete) = reader.next_session(import).await? {
        all.push(complete);
    }
    for complete in &all {
        let delivered = import.deliver_session(&complete.staged, &complete.about).await;
        report(import, complete, delivered)?;
    }
    Ok(())
}

async fn deliver(import: &mut SessionImport, complete: &CompleteSession) -> Result<(), Problem> {
    let CompleteSession { staged, about, line, .. } = complete;
    let contents = import.delivery.staged_digests(staged).await?;
    match import.record_source(staged.session.name.clone(), format!("line {line}"), Some(contents)) {
        Ok(false) => import.deliver_session(staged, about).await,
        again => {
            import.delivery.discard_staged(staged).await?;
            again?;
            import.record_outcome(staged, about, DeliveryOutcome::AlreadyThere).await
        }
    }
}

fn report(import: &mut SessionImport, complete: &CompleteSession, delivered: Result<(), Problem>) -> Result<()> {
    let Err(problem) = delivered else { return Ok(()) };
    let place = format!("line {}", complete.end);
    import.leave_out(&complete.staged.session.name, Some(complete.line), &place, problem)
}

/// A session that was read to its end, and is staged.
struct CompleteSession {
    staged: StagedSession,
    about: ImportedSession,
    /// The lines on which it begins and ends.
    line: u64,
    end: u64,
}

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

/// Reads sessions from lines.
struct SessionReader<'r, R> {
    lines: &'r mut NumberedLines<R>,
    /// None: the lines are the operator's own.
    rules: Option<ImportRules>,
    coming: Option<IncomingSession>,
    /// Until the next session: what belongs to one that was left out.
    is_skipping: bool,
    /// The sessions that have begun, with their lines; kept only under rules.
    begun: BTreeMap<String, u64>,
}

impl<'r, R: BufRead> SessionReader<'r, R> {
    fn new(lines: &'r mut NumberedLines<R>, rules: Option<ImportRules>) -> Self {
        Self { lines, rules, coming: None, is_skipping: false, begun: BTreeMap::new() }
    }

    /// The next session that is complete. Those that are not are left out, and reported.
    async fn next_session(&mut self, import: &mut SessionImport) -> Result<Option<CompleteSession>> {
        let Self { lines, rules, coming, is_skipping, begun } = self;
        while let Some(line) = lines.next_line().context("can't read the lines")? {
            let read = line.and_then(ExportLine::parse_line);
            let begins = matches!(&read, Ok(ExportLine::Header(header)) if header.node.is_none());
            if *is_skipping && !begins {
                continue;
            }
            *is_skipping = false;
            if let Some(unfinished) = coming.take_if(|_| begins) {
                let why = "the next session begins before its end: it is incomplete";
                leave_unfinished(import, &unfinished, why.to_owned())?;
            }
            let mut name = coming.as_ref().map(|coming| coming.session.bucket().name.clone()).unwrap_or_default();
            let done = match read {
                Ok(ExportLine::Header(header)) if begins => {
                    name = header.session.to_string();
                    begin_session(import, rules.as_ref(), begun, header).await.map(|session| {
                        *coming = Some(session);
                        None
                    })
                }
                Ok(read) => stage_line(import, rules.as_ref(), coming, read).await,
                Err(what) => Err(what.into()),
            };
            let number = lines.number();
            match done {
                Ok(Some(complete)) => return Ok(Some(CompleteSession { end: number, ..complete })),
                Ok(None) => {
                    if let Some(session) = coming.as_mut().filter(|_| begins) {
                        session.line = number;
                        if rules.is_some() {
                            begun.insert(name, number);
                        }
                    }
                }
                Err(wrong) => {
                    import.leave_out(&name, Some(number), &format!("line {number}"), wrong)?;
                    *coming = None;
                    *is_skipping = true;
                }
            }
        }
        if let Some(unfinished) = coming.take() {
            let number = lines.number();
            let why = format!("the file ends after line {number}, before the end of the session: it is incomplete");
            leave_unfinished(import, &unfinished, why)?;
        }
        Ok(None)
    }
}

fn leave_unfinished(import: &mut SessionImport, unfinished: &IncomingSession, why: String) -> Result<()> {
    import.leave_out(&unfinished.session.bucket().name, Some(unfinished.line), "", Problem::invalid(why))
}

/// Takes a line in. The session, if it ends with it.
async fn stage_line(
    import: &SessionImport,
    rules: Option<&ImportRules>,
    coming: &mut Option<IncomingSession>,
    read: ExportLine<'_>,
) -> Result<Option<CompleteSession>, Problem> {
    let Some(current) = coming else {
        let what = match read {
            ExportLine::Header(_) => "it is the header of a node, which belongs between its session's header and end",
            _ => "it belongs to no session: a header comes first",
        };
        return Err(what.to_owned().into());
    };
    match read {
        ExportLine::Header(header) => begin_node(import, rules, current, header).await.map(|()| None),
        ExportLine::End { name, counts } => {
            if let Some(node) = current.node.take() {
                current.nodes.push(node.bucket().clone());
                return end(node, &name, counts).await.map(|()| None);
            }
            let Some(IncomingSession { session, line, nodes, about, .. }) = coming.take() else { return Ok(None) };
            let staged = StagedSession { session: session.bucket().clone(), nodes, is_shell: false };
            end(session, &name, counts).await?;
            Ok(Some(CompleteSession { staged, about, line, end: 0 }))
        }
        other => current.add_line(rules, other).await.map(|()| None),
    }
}

async fn begin_session(
    import: &SessionImport,
    rules: Option<&ImportRules>,
    begun: &BTreeMap<String, u64>,
    header: BucketHeader<'_>,
) -> Result<IncomingSession, Problem> {
    if let Some(rules) = rules {
        rules.check_session(&header)?;
        if let Some(line) = begun.get(&*header.session) {
            return Err(format!("the session {} comes twice; it begins on line {line}", header.session).into());
        }
    }
    let session = begin_bucket(import, kind::SESSION, &header.session, &header).await?;
    let once = |key| header.once(key).map(str::to_owned);
    let about = ImportedSession { id: once(ID_KEY), owner: once(OWNER_KEY), ..ImportedSession::default() };
    Ok(IncomingSession { session, line: 0, node: None, nodes: Vec::new(), named: BTreeSet::new(), about })
}

async fn begin_node(
    import: &SessionImport,
    rules: Option<&ImportRules>,
    current: &mut IncomingSession,
    header: BucketHeader<'_>,
) -> Result<(), Problem> {
    let Some(node) = &header.node else { return Ok(()) };
    let session = &current.session.bucket().name;
    if header.session != *session || !current.named.contains(&*node.bucket) {
        return Err(format!("the map {NODES} of session {session} does not name the node {}", node.bucket).into());
    }
    if let Some(unfinished) = &current.node {
        return Err(format!("the node {} has no end", unfinished.bucket().name).into());
    }
    if current.nodes.iter().any(|other| other.name == *node.bucket) {
        return Err(format!("the node {} comes twice", node.bucket).into());
    }
    if let Some(rules) = rules {
        require_own_node(session, node)?;
        rules.check_node_owner(&header)?;
    }
    if let Some(id) = &node.node_id {
        current.about.nodes.push((node.app_id.clone(), id.clone()));
    }
    current.node = Some(begin_bucket(import, kind::NODE, &node.bucket, &header).await?);
    Ok(())
}

async fn begin_bucket(
    import: &SessionImport,
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

impl ImportRules {
    fn check_session(&self, header: &BucketHeader<'_>) -> Result<(), Problem> {
        if self.owner.is_some() && header.once(OWNER_KEY) != self.owner.as_deref() {
            return Err(foreign());
        }
        match header.once(ID_KEY) {
            Some(id) if hashed(id) != header.session => {
                Err(format!("the session {} is not called like the hash of its \"id\"", header.session).into())
            }
            _ => Ok(()),
        }
    }

    fn check_node_owner(&self, header: &BucketHeader<'_>) -> Result<(), Problem> {
        let is_foreign =
            self.owner.is_some() && header.once(OWNER_KEY).is_some_and(|owner| Some(owner) != self.owner.as_deref());
        if is_foreign { Err(foreign()) } else { Ok(()) }
    }
}

fn foreign() -> Problem {
    let why = "it belongs to another user, or to nobody: only sessions of the one user whom the key names may come";
    Problem::Left(Reason::Foreign, why.to_owned())
}

/// That a node is one of this session: its bucket is called after the session's name and the node's ids.
fn require_own_node(session: &str, node: &ExportNode<'_>) -> Result<(), Problem> {
    let own = node.node_id.as_deref().map(|id| node_bucket_name(node.app_id.as_deref(), session, id));
    if own.as_deref() == Some(&*node.bucket) {
        return Ok(());
    }
    let bucket = &node.bucket;
    Err(format!("the node {bucket} is not one of session {session} by its \"app_id\" and \"node_id\"").into())
}

impl IncomingSession {
    /// Adds a value, record or entry to the session, or to the node that is being read.
    async fn add_line(&mut self, rules: Option<&ImportRules>, read: ExportLine<'_>) -> Result<(), Problem> {
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
                if map == NODES && !is_node && rules.is_some() {
                    let ids: ExportNode<'_> = serde_json::from_str(&text).unwrap_or_default();
                    require_own_node(&to.bucket().name, &ExportNode { bucket: (&*key).into(), ..ids })?;
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
    let (own, came) = (arriving.bucket().name.clone(), arriving.counts());
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
