//! `keepline session export`: writes sessions as they are stored, as JSON lines, or nodes as Dify documents.
//!
//! A session that keeps changing, or can't be written as text, is left out and reported.

pub mod archive;

use std::{
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result};
use keepline::{SessionIds, Sessions, store::TransferStore};
use keepline_session_file::{
    BucketHeader, ExportLine, ExportNode, ExportedSession, KEPT_CHANGING, Problem, SessionExport, TRANSCRIPT,
    list_sessions,
};
use serde_json::json;
use tempfile::{NamedTempFile, SpooledTempFile};

use super::{importers::dify::DifyDocument, open_durable_store};
use crate::{
    app::{self, error::usage_error, runtime},
    args::{ExportArguments, ExportFormat, GlobalArguments},
    operations::pages::{PageLimits, require_older_position},
    terminal::{self, format_count, print_result, progress_bar},
};

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
            None if arguments.all => list_sessions(&*store).await.context("can't list the sessions")?,
            None => arguments.sessions.iter().map(bucket_name).collect(),
        };
        let mut output = ExportOutput::open(arguments)?;
        let mut export = ExportRun { store, tally: ExportReport::default() };
        export.export_sessions(&names, &mut output).await?;
        export.finish(output, arguments, json)
    })
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
    tally: ExportReport,
}

impl ExportRun {
    async fn export_sessions(&mut self, names: &[String], output: &mut ExportOutput) -> Result<()> {
        // Of sessions, or of the lines of the only one.
        let (bar, is_alone) = (progress_bar(names.len() as u64), names.len() == 1);
        let (begins, advances) = (|length| bar.set_length(length), |lines| bar.inc(lines));
        let store = self.store.clone();
        let mut export = SessionExport::new(&store);
        if is_alone {
            export = export.with_progress(&begins, &advances);
        }
        for name in names {
            match export.session(name).await {
                Ok(ExportedSession { mut lines, nodes, records, .. }) => {
                    self.write_to_output(&mut lines, output)?;
                    self.tally.sessions += 1;
                    self.tally.nodes += nodes;
                    self.tally.records += records;
                }
                Err(Problem::Input(mut why) | Problem::Left(_, mut why)) => {
                    if why == KEPT_CHANGING {
                        why.push_str("; stop its pipes and run the command again");
                    }
                    self.tally.left.push((name.clone(), why));
                }
                Err(Problem::Failed(error)) => return Err(error),
            }
            if !is_alone {
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
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
