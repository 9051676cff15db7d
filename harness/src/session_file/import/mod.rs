//! `keepline session import`: imports sessions from an export, or from other programs.
//!
//! A session is imported whole or not at all, existing ones are left alone, and an interrupted import can be repeated.
//! Invalid input is reported with its line or key; its session is left out and the others continue. Files that end in
//! the middle of a session are refused.

mod from_programs;
mod lines;
mod report;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use keepline::{Plugin, config::Config, store::DirectoryError};
use keepline_json::for_each_element;
use keepline_session_file::{CopyWithdrawal, Problem, SessionDelivery, SessionImport, import_one_by_one};

pub use self::from_programs::split_into_pieces;
use self::lines::InputLines;
use super::{
    RecallCopies, copies_for_users,
    importers::{self, SourceItem, dify},
    open_durable_store, staging_store,
};
use crate::{
    app::{
        self,
        error::{UsageError, usage_error},
        runtime,
    },
    args::{GlobalArguments, ImportArguments, ImportFormat},
    terminal,
};

pub fn main(global: &GlobalArguments, arguments: &ImportArguments, as_json: bool) -> Result<ExitCode> {
    if arguments.from_redis.is_some() && !arguments.format.has_keys() {
        let message = "--from-redis needs --format langchain, neurolink or rocketride, to say whose keys to read";
        return Err(usage_error(message));
    }
    let ids: &[(&str, &str)] = if arguments.hash_ids { &[("session_ids", "hash")] } else { &[] };
    let config = app::load_config_with(global, ids)?;
    let target = match open_durable_store(&config, "import", !arguments.dry_run) {
        Ok(target) => Some(target),
        // Where nothing is to be written, there may be no directory yet.
        Err(error) if arguments.dry_run && is_missing_directory(&error) => None,
        Err(error) => return Err(error),
    };
    let plugin = app::load_plugin(global, &config)?;
    runtime::build_single_threaded()?.block_on(async {
        let mut keepline = None;
        if let Some(target) = &target {
            target.check().await.context("the store can't be used")?;
            keepline = Some(app::open_keepline_on(target.clone(), plugin.clone(), &config).await?);
        }
        let (replaces, is_dry_run) = (arguments.replace, arguments.dry_run);
        let staging = staging_store(&config)?;
        let delivery = SessionDelivery { target, staging, replaces, is_dry_run, owner: None };
        let mut sessions = SessionImport::new(delivery, keepline);
        if let Some(keepline) = &sessions.keepline
            && copies_for_users(keepline)?
        {
            let withdrawal: Box<dyn CopyWithdrawal> = Box::new(RecallCopies(keepline.clone()));
            sessions.withdrawal = Some(withdrawal);
        }
        let ids = IdentityOverrides::from_arguments(arguments);
        let mut import = ImportRun { sessions, plugin, config, ids };
        import_all(&mut import, arguments).await?;
        for id in &import.ids.unused {
            terminal::print_warning(&format!("--rename: no session {id:?} was imported"));
        }
        report::print_report(&import.sessions.report, arguments.dry_run, as_json)
    })
}

/// The names and owners that the command line gives to other programs' sessions.
struct IdentityOverrides {
    renamed: HashMap<String, String>,
    /// Sessions to rename that were not imported.
    unused: BTreeSet<String>,
    /// The owner of sessions that name none.
    user: Option<String>,
}

impl IdentityOverrides {
    fn from_arguments(arguments: &ImportArguments) -> Self {
        let unused = arguments.rename.iter().map(|(old, _)| old.clone()).collect();
        Self { renamed: arguments.rename.iter().cloned().collect(), unused, user: arguments.user.clone() }
    }

    fn apply_rename(&mut self, id: String) -> String {
        self.unused.remove(&id);
        self.renamed.get(&id).cloned().unwrap_or(id)
    }
}

struct ImportRun {
    sessions: SessionImport,
    /// For the staging store, which conversations of other programs are written to by the component.
    plugin: Plugin,
    config: Config,
    ids: IdentityOverrides,
}

const DIFY_PATH_ERROR: &str =
    "the path of a node's document is node_memory/APP/CONVERSATION/NODE.json: it names the session";

fn unknown_format_error(path: &Path) -> anyhow::Error {
    let message = format!(
        "{} has no known format: it is neither an export of Keepline, nor a dump of LangChain, NeuroLink or RocketRide, nor \
         node memory of Dify, nor a ChatGPT export, nor conversations in ShareGPT's or OpenAI's form; --format names one",
        path.display()
    );
    usage_error(message)
}

fn is_missing_directory(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(DirectoryError::Missing { .. })))
}

async fn import_all(import: &mut ImportRun, arguments: &ImportArguments) -> Result<()> {
    let asked = arguments.format;
    let prefix = |format: ImportFormat| arguments.prefix.clone().unwrap_or_else(|| format.prefix().to_owned());
    if let Some(url) = &arguments.from_redis {
        return from_programs::stage_redis_keys(import, url, asked, &prefix(asked)).await;
    }
    let path = arguments.file.as_deref().unwrap_or(Path::new("-"));
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let is_node = || path.components().any(|part| part.as_os_str() == "node_memory");
    let is_documents = path.is_dir() || (is_json && (asked == ImportFormat::Dify || is_node()));
    if is_documents && matches!(asked, ImportFormat::Dify | ImportFormat::Auto) {
        let documents = dify_documents(import, path)?;
        return from_programs::stage_found(import, documents.into_iter().map(dify::read_file)).await;
    }
    let mut lines = InputLines::open(path)?;
    let file = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-").unwrap_or("import");
    if let Some(document) = lines.read_document()? {
        let mut items = Vec::new();
        if for_each_element(&document, |element| items.push((items.len() as u64 + 1, element))).is_none() {
            items.push((1, document.as_str()));
        }
        let found = match asked {
            ImportFormat::Auto | ImportFormat::Keepline => {
                items.first().and_then(|(_, text)| importers::detect_program(text))
            }
            asked => Some(asked),
        };
        return match found {
            _ if items.is_empty() => Ok(()),
            Some(format) if format.has_files() => {
                from_programs::stage_found(import, importers::parse_conversations(format, &items, file)).await
            }
            Some(format @ (ImportFormat::Neurolink | ImportFormat::Langchain)) => {
                let items = items.iter().map(|(_, text)| SourceItem::parse_dump_line(text));
                let items = items.collect::<Result<Vec<_>, _>>().map_err(UsageError)?;
                let found = items.into_iter().map(|item| format.read_item(item, format.prefix()));
                from_programs::stage_found(import, found).await
            }
            Some(ImportFormat::Dify) => Err(usage_error(DIFY_PATH_ERROR)),
            _ => Err(unknown_format_error(path)),
        };
    }
    let mut format = asked;
    if asked == ImportFormat::Auto {
        let first = lines.next_line()?.map(|line| line.ok().and_then(importers::detect_program));
        if first.is_some() {
            lines.repeat_line();
        }
        format = first.flatten().unwrap_or(ImportFormat::Keepline);
        if is_json && format == ImportFormat::Keepline && !lines.is_keepline_export()? {
            return Err(unknown_format_error(path));
        }
    }
    if format.has_files() {
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            match line.map(str::to_owned) {
                Ok(line) => all.push((lines.number(), line)),
                Err(what) => {
                    let number = lines.number();
                    import.sessions.leave_out("", Some(number), &format!("line {number}"), what.into())?;
                }
            }
        }
        let items: Vec<(u64, &str)> = all.iter().map(|(number, line)| (*number, &**line)).collect();
        return from_programs::stage_found(import, importers::parse_conversations(format, &items, file)).await;
    }
    if format != ImportFormat::Keepline {
        return from_programs::stage_dump(import, lines, format, &prefix(format)).await;
    }
    if !arguments.rename.is_empty() || arguments.user.is_some() || arguments.hash_ids {
        let message =
            "--rename, --hash-ids and --user are for sessions of other programs: an export comes back as it was";
        return Err(usage_error(message));
    }
    let imported = import_one_by_one(&mut import.sessions, lines.all()).await;
    lines.finish();
    imported
}

/// The Dify documents at or below a path; what is not read there is reported.
fn dify_documents(import: &mut ImportRun, path: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || format!("can't read {}", path.display());
    if !path.is_dir() {
        dify::read_document(path).with_context(unreadable)?;
        return Ok(vec![path.to_owned()]);
    }
    let (found, skipped) = dify::find_documents(path).with_context(unreadable)?;
    for path in skipped {
        let what = "it is a link or no regular file, and is not read".to_owned();
        import.sessions.leave_out("", None, &path.display().to_string(), Problem::Input(what))?;
    }
    if found.is_empty() {
        let message = format!(
            "{} contains no Dify node memory: files node_memory/APP/CONVERSATION/NODE.json are expected in it; for \
             anything else, name a file",
            path.display()
        );
        return Err(usage_error(message));
    }
    Ok(found)
}
