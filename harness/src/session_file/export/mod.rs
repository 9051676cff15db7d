//! `keepline session export`: writes sessions as they are stored, as JSON lines, or nodes as Dify documents.
//!
//! A session is written as it was at one moment: it is read into a temporary file, which is used only if
//! the session is unchanged afterwards. Memory does not grow with a session. A session that keeps changing is left out
//! and reported.

pub mod archive;
mod writer;

use std::{
    io::{self, BufRead, BufReader, BufWriter, Seek, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use keepline::{
    SessionIds, Sessions,
    store::{
        BucketId, Failure, TransferStore, kind,
        names::is_bucket,
        transfer::{WeighedBucket, list_all_buckets},
    },
};
use serde_json::json;
use tempfile::{NamedTempFile, SpooledTempFile};

use self::writer::{BucketWriter, estimate_line_count, write_end};
use super::{
    Problem, TRANSCRIPT,
    importers::dify::DifyDocument,
    open_durable_store,
    schema::{BucketHeader, ExportLine, ExportNode},
};
use crate::{
    app::{self, error::usage_error, runtime},
    args::{ExportArguments, ExportFormat, GlobalArguments},
    operations::pages::{PageLimits, require_older_position},
    terminal::{self, format_count, print_result, progress_bar},
};

/// Attempts to read a session that changes.
const TRIES: u32 = 3;
const KEPT_CHANGING: &str = "it kept changing while it was being read";
/// Bytes of a session beyond which it is spooled to a file.
const SPOOL_BYTES: usize = 4 << 20;

pub fn main(global: &GlobalArguments, arguments: &ExportArguments, json: bool) -> Result<ExitCode> {
    if arguments.format == ExportFormat::Dify && arguments.output.is_none() {
        let message = "--format dify writes a file for each node: use --output to name a directory for them";
        return Err(usage_error(message));
    }
    let config = app::load_config(global)?;
    let store = open_durable_store(&config, "export", false)?;
    runtime::build_single_threaded()?.block_on(async {
        store.check().await.context("the store can't be used")?;
        let ids = SessionIds::of_options(&config.filter_options());
        let bucket_name = |id: &String| ids.bucket_name(id).map_or_else(|| id.clone(), Into::into);
        let names: Vec<String> = match &arguments.user {
            Some(user) => {
                let plugin = app::load_plugin(global, &config)?;
                let keepline = app::open_keepline_on(store.clone(), plugin, &config).await?;
                list_user_sessions(&mut keepline.sessions(), user).await?.iter().map(bucket_name).collect()
            }
            None if arguments.all => all_sessions(&*store).await?,
            None => arguments.sessions.iter().map(bucket_name).collect(),
        };
        let mut output = ExportOutput::open(arguments)?;
        let mut export = ExportRun { store, bar: None, tally: ExportReport::default() };
        export.export_sessions(&names, &mut output).await?;
        export.finish(output, arguments, json)
    })
}

/// Writes `session/NAME` with its nodes, or `node/NAME`, to a file, whole or not at all.
pub async fn export_to_file(store: Arc<dyn TransferStore>, subject: &str, path: &Path) -> Result<()> {
    let mut export = ExportRun { store, bar: None, tally: ExportReport::default() };
    let mut spooled = SpooledTempFile::new(SPOOL_BYTES);
    let (kind, name) = match subject.split_once('/') {
        Some(("session", name)) => (kind::SESSION, name),
        Some(("node", name)) => (kind::NODE, name),
        _ => bail!("{subject} is neither a session nor a node"),
    };
    export.read(kind, name, false, &mut spooled).await.map_err(|problem| match problem {
        Problem::Input(why) | Problem::Left(why) => anyhow!(why),
        Problem::Failed(error) => error,
    })?;
    spooled.rewind()?;
    let told = || format!("can't write {}", path.display());
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).with_context(told)?;
    io::copy(&mut spooled, &mut file).with_context(told)?;
    file.as_file().sync_all().with_context(told)?;
    file.persist(path).with_context(told)?;
    Ok(())
}

async fn all_sessions(store: &dyn TransferStore) -> Result<Vec<String>> {
    let listed = list_all_buckets(store).await.context("can't list the sessions")?;
    Ok(listed.into_iter().filter(|bucket| bucket.kind == kind::SESSION).map(|bucket| bucket.name).collect())
}

/// All existing sessions of a user, sorted.
async fn list_user_sessions(sessions: &mut Sessions, user: &str) -> Result<Vec<String>> {
    let (mut names, mut before, mut pages) = (Vec::new(), None, PageLimits::default());
    loop {
        let page = sessions.user_sessions(user, before, 100).await?;
        require_older_position(page.older, before)?;
        let listed = page.sessions.iter().map(|listed| &*listed.session);
        pages.count_kept_page(listed, "name the sessions in place of --user")?;
        names.extend(page.sessions.into_iter().map(|listed| listed.session));
        before = page.older;
        if before.is_none() {
            names.sort_unstable();
            names.dedup();
            return Ok(names);
        }
    }
}

enum ExportOutput {
    Standard,
    /// A temporary file, renamed when it is complete.
    File(BufWriter<NamedTempFile>),
    /// Dify's documents.
    Directory(PathBuf),
}

impl ExportOutput {
    fn open(arguments: &ExportArguments) -> Result<Self> {
        let Some(path) = &arguments.output else { return Ok(Self::Standard) };
        if arguments.format == ExportFormat::Dify {
            return Ok(Self::Directory(path.clone()));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(parent).with_context(|| format!("can't write to {}", parent.display()))?;
        Ok(Self::File(BufWriter::new(file)))
    }
}

#[derive(Default)]
struct ExportReport {
    sessions: u64,
    nodes: u64,
    records: u64,
    /// With the reason.
    left: Vec<(String, String)>,
}

struct ExportRun {
    store: Arc<dyn TransferStore>,
    bar: Option<ProgressBar>,
    tally: ExportReport,
}

impl ExportRun {
    async fn export_sessions(&mut self, names: &[String], output: &mut ExportOutput) -> Result<()> {
        self.bar = (names.len() > 1).then(|| progress_bar(names.len() as u64));
        let mut spooled = SpooledTempFile::new(SPOOL_BYTES);
        for name in names {
            match self.read(kind::SESSION, name, names.len() == 1, &mut spooled).await {
                Ok(done) => {
                    spooled.rewind()?;
                    self.write_to_output(&mut spooled, output)?;
                    self.tally.sessions += 1;
                    self.tally.nodes += done.nodes;
                    self.tally.records += done.records;
                }
                Err(Problem::Input(mut why) | Problem::Left(mut why)) => {
                    if why == KEPT_CHANGING {
                        why.push_str("; stop its pipes and run the command again");
                    }
                    self.tally.left.push((name.clone(), why));
                }
                Err(Problem::Failed(error)) => return Err(error),
            }
            if let Some(bar) = self.bar.as_ref().filter(|_| names.len() > 1) {
                bar.inc(1);
            }
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        Ok(())
    }

    fn write_to_output(&self, spooled: &mut SpooledTempFile, output: &mut ExportOutput) -> Result<()> {
        match output {
            ExportOutput::Standard => {
                let mut standard = io::stdout().lock();
                io::copy(spooled, &mut standard)?;
                standard.flush()?;
            }
            ExportOutput::File(file) => _ = io::copy(spooled, file).context("can't write the export")?,
            ExportOutput::Directory(directory) => documents(spooled, directory)?,
        }
        Ok(())
    }

    /// Reads a session with its nodes, or a node by itself, as they were at one moment. The session of a node by itself is
    /// not known: the node's bucket stands for it.
    async fn read(
        &mut self,
        kind: &str,
        name: &str,
        is_alone: bool,
        out: &mut SpooledTempFile,
    ) -> Result<ExportedCounts, Problem> {
        if !is_bucket(name) {
            return Err(Problem::Left(
                "this can't be a session's id; allowed are 1 to 128 letters, digits, hyphens and underscores, or with \
                 session_ids \"hash\", any text of at most 1,024 bytes"
                    .into(),
            ));
        }
        let whole = BucketId::new(kind, name);
        let own = (kind == kind::NODE).then(|| ExportNode { bucket: name.into(), ..ExportNode::default() });
        for _ in 0..TRIES {
            out.set_len(0)?;
            out.rewind()?;
            let mut out = BufWriter::new(&mut *out);
            let mut seen = vec![(whole.clone(), self.bucket_digest(&whole).await?)];
            let Some(head) = self.store.head(&whole).await? else {
                return Err(Problem::Left(format!("there is no such {kind}")));
            };
            if is_alone {
                self.bar = Some(progress_bar(estimate_line_count(&head)));
            }
            let lines = BucketWriter { store: &*self.store, bar: self.bar.as_ref().filter(|_| is_alone) };
            let (counts, nodes) = lines.write_bucket(&whole, &head, name, own.clone(), &mut out).await?;
            let mut done = ExportedCounts { nodes: u64::from(own.is_some()), records: counts.records };
            for (node, ids) in nodes {
                let bucket = BucketId::node(node);
                seen.push((bucket.clone(), self.bucket_digest(&bucket).await?));
                // One that has expired is still named.
                let Some(head) = self.store.head(&bucket).await? else { continue };
                let node = ExportNode {
                    bucket: bucket.name.as_str().into(),
                    ..serde_json::from_str(&ids).unwrap_or_default()
                };
                let (counts, _) = lines.write_bucket(&bucket, &head, name, Some(node), &mut out).await?;
                write_end(&bucket.name, counts, &mut out)?;
                done = ExportedCounts { nodes: done.nodes + 1, records: done.records + counts.records };
            }
            write_end(name, counts, &mut out)?;
            out.flush()?;
            let mut is_same = true;
            for (bucket, before) in &seen {
                is_same = is_same && self.bucket_digest(bucket).await? == *before;
            }
            if is_same {
                return Ok(done);
            }
        }
        Err(Problem::Left(KEPT_CHANGING.to_owned()))
    }

    /// The digest of a bucket's contents. `None`: it does not exist.
    async fn bucket_digest(&self, bucket: &BucketId) -> Result<Option<String>, Failure> {
        Ok(match self.store.weigh(bucket).await? {
            WeighedBucket::There(weight) => Some(weight.digest),
            WeighedBucket::Absent { .. } => None,
        })
    }

    fn finish(self, output: ExportOutput, arguments: &ExportArguments, as_json: bool) -> Result<ExitCode> {
        let ExportReport { sessions, nodes, records, left } = self.tally;
        for (session, why) in &left {
            terminal::print_error_with_code("not-exported", &format!("session {session}: {why}"));
        }
        if let Some(path) = &arguments.output {
            if let ExportOutput::File(file) = output {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error);
                let file = file.context("can't write the export")?;
                file.as_file().sync_all().context("can't write the export")?;
                file.persist(path).with_context(|| format!("can't write {}", path.display()))?;
            }
            let told: Vec<_> = left.iter().map(|(session, why)| json!({"session": session, "why": why})).collect();
            let told = json!({"sessions": sessions, "nodes": nodes, "records": records, "left": told});
            let sessions = format_count(sessions, "session", "sessions");
            let records = format_count(records, "record", "records");
            let nodes = if nodes > 0 { format!(", {}", format_count(nodes, "node", "nodes")) } else { String::new() };
            print_result(as_json, &told, &format!("{}: {sessions}{nodes}, {records}", path.display()))?;
        }
        Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[derive(Default)]
struct ExportedCounts {
    nodes: u64,
    records: u64,
}

/// Writes the nodes of a session as documents below a directory.
fn documents(spooled: &mut SpooledTempFile, directory: &Path) -> Result<()> {
    let mut current: Option<(ExportNode<'static>, String, DifyDocument)> = None;
    for line in BufReader::new(spooled).lines() {
        let line = line?;
        match ExportLine::parse_line(&line) {
            Ok(ExportLine::Header(BucketHeader { node: Some(node), session, .. })) => {
                let node = ExportNode { bucket: node.bucket.into_owned().into(), ..node };
                current = Some((node, session.into_owned(), DifyDocument::default()));
            }
            Ok(ExportLine::Record { log, text, .. }) if log == TRANSCRIPT => {
                if let Some((.., document)) = &mut current {
                    document.add_record(&text);
                }
            }
            Ok(ExportLine::End { .. }) => {
                if let Some((node, session, document)) = current.take() {
                    let id = node.node_id.as_deref().unwrap_or(&node.bucket);
                    let written = document.write_below(directory, &session, node.app_id.as_deref(), id);
                    written.with_context(|| format!("can't write to {}", directory.display()))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
