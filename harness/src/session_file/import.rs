//! `keepline session import`: imports sessions from an export, or from other programs.
//!
//! A session is imported whole or not at all, existing ones are left alone, and an interrupted import can be repeated.
//! Invalid input is reported with its line or key; its session is left out and the others continue. Files that end in
//! the middle of a session are refused.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};
use keepline::{Plugin, config::Config, store::DirectoryError};
use keepline_json::elements;

use super::{
    deliver::Delivery,
    import_session::{Ids, Import, ImportError},
    importers::{self, Item, Program, dify},
    lines::Lines,
    stage_conversations, stage_export,
    staging::Staging,
    store, store_error,
};
use crate::{
    app::{self, error::Usage, runtime},
    args::{Global, ImportArguments, ImportFormat},
    terminal,
};

/// Runs the command.
pub fn main(global: &Global, arguments: &ImportArguments, as_json: bool) -> Result<ExitCode> {
    let has_keys = |program| matches!(program, Program::LangChain | Program::NeuroLink | Program::RocketRide);
    if arguments.from_redis.is_some() && !program(arguments.format).is_some_and(has_keys) {
        let message = "--from-redis needs --format langchain, neurolink or rocketride, to say whose keys to read";
        return Err(Usage(message.to_owned()).into());
    }
    let ids: &[(&str, &str)] = if arguments.hash_ids { &[("session_ids", "hash")] } else { &[] };
    let config = app::config_with(global, ids)?;
    let target = match store(&config, "import", !arguments.dry_run) {
        Ok(target) => Some(target),
        // Where nothing is to be written, there may be no directory yet.
        Err(error) if arguments.dry_run && is_missing(&error) => None,
        Err(error) => return Err(error),
    };
    let plugin = app::plugin(global, &config)?;
    runtime::single()?.block_on(async {
        let mut keepline = None;
        if let Some(target) = &target {
            target.check().await.map_err(|failure| store_error(&failure)).context("the store can't be used")?;
            keepline = Some(app::keepline_on(target.clone(), plugin.clone(), &config).await?);
        }
        let (replaces, is_dry_run) = (arguments.replace, arguments.dry_run);
        let delivery = Delivery { target, staging: Staging::new(&config)?, replaces, is_dry_run };
        let mut import = Import::new(delivery, keepline, Ids::of(arguments));
        import_all(&mut import, arguments, plugin, &config).await?;
        for id in import.ids.unused() {
            terminal::warning(&format!("--rename: no session {id:?} was imported"));
        }
        import.tally.tell(arguments.dry_run, as_json)
    })
}

/// The error for a Dify document whose path does not name it.
const NO_NODE: &str = "the path of a node's document is node_memory/APP/CONVERSATION/NODE.json: it names the session";

fn unknown(path: &Path) -> anyhow::Error {
    let message = format!(
        "{} has no known format: it is neither an export of Keepline, nor a dump of LangChain, NeuroLink or RocketRide, nor \
         node memory of Dify, nor a ChatGPT export, nor conversations in ShareGPT's or OpenAI's form; --format names one",
        path.display()
    );
    Usage(message).into()
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(DirectoryError::Missing { .. })))
}

/// The program of a format. `None`: Keepline's own, or to be detected.
fn program(format: ImportFormat) -> Option<Program> {
    match format {
        ImportFormat::Auto | ImportFormat::Keepline => None,
        ImportFormat::Langchain => Some(Program::LangChain),
        ImportFormat::Neurolink => Some(Program::NeuroLink),
        ImportFormat::Rocketride => Some(Program::RocketRide),
        ImportFormat::Dify => Some(Program::Dify),
        ImportFormat::Chatgpt => Some(Program::ChatGpt),
        ImportFormat::Sharegpt => Some(Program::ShareGpt),
        ImportFormat::Openai => Some(Program::OpenAi),
    }
}

/// Imports all that the arguments name.
async fn import_all(import: &mut Import, arguments: &ImportArguments, plugin: Plugin, config: &Config) -> Result<()> {
    let prefix = |program: Program| arguments.prefix.clone().unwrap_or_else(|| program.prefix().to_owned());
    if let (Some(url), Some(program)) = (&arguments.from_redis, program(arguments.format)) {
        return stage_conversations::read_redis(import, url, program, &prefix(program), plugin, config).await;
    }
    let path = arguments.file.as_deref().unwrap_or(Path::new("-"));
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let is_node = || path.components().any(|part| part.as_os_str() == "node_memory");
    let is_documents = path.is_dir() || (is_json && (arguments.format == ImportFormat::Dify || is_node()));
    if is_documents && matches!(arguments.format, ImportFormat::Dify | ImportFormat::Auto) {
        let can_t_read = || format!("can't read {}", path.display());
        let (found, skipped) = if path.is_dir() {
            dify::documents(path).with_context(can_t_read)?
        } else {
            dify::document(path).with_context(can_t_read)?;
            (vec![path.to_owned()], Vec::new())
        };
        for path in skipped {
            let what = "it is a link or no regular file, and is not read".to_owned();
            import.leave_out("", &path.display().to_string(), ImportError::Input(what))?;
        }
        if found.is_empty() {
            let message = format!(
                "{} contains no Dify node memory: files node_memory/APP/CONVERSATION/NODE.json are expected in it; for \
                 anything else, name a file",
                path.display()
            );
            return Err(Usage(message).into());
        }
        return stage_conversations::documents(import, found, plugin, config).await;
    }
    let mut lines = Lines::open(path)?;
    let file = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-").unwrap_or("import");
    if let Some(document) = lines.document()? {
        let mut items = Vec::new();
        if elements(&document, |element| items.push((items.len() as u64 + 1, element))).is_none() {
            items.push((1, document.as_str()));
        }
        let asked = program(arguments.format);
        let found = asked.or_else(|| items.first().and_then(|(_, text)| importers::written_by(text)));
        return match found {
            _ if items.is_empty() => Ok(()),
            Some(program @ (Program::ChatGpt | Program::ShareGpt | Program::OpenAi)) => {
                stage_conversations::conversations(
                    import,
                    importers::conversations(program, &items, file),
                    plugin,
                    config,
                )
                .await
            }
            Some(program @ (Program::NeuroLink | Program::LangChain)) => {
                let items = items.iter().map(|(_, text)| Item::of(text)).collect::<Result<_, String>>();
                stage_conversations::items(import, items.map_err(Usage)?, program, plugin, config).await
            }
            Some(Program::Dify) => Err(Usage(NO_NODE.to_owned()).into()),
            _ => Err(unknown(path)),
        };
    }
    let program = match arguments.format {
        ImportFormat::Auto => match lines.next()? {
            Some(Ok(line)) => {
                let program = importers::written_by(line);
                lines.hold();
                program
            }
            Some(Err(_)) => {
                lines.hold();
                None
            }
            None => None,
        },
        format => program(format),
    };
    if arguments.format == ImportFormat::Auto && is_json && program.is_none() && !lines.is_own()? {
        return Err(unknown(path));
    }
    match program {
        Some(program @ (Program::ChatGpt | Program::ShareGpt | Program::OpenAi)) => {
            let mut all = Vec::new();
            while let Some(line) = lines.next()? {
                let line = line.map(str::to_owned);
                match line {
                    Ok(line) => all.push((lines.number, line)),
                    Err(what) => import.leave_out("", &format!("line {}", lines.number), ImportError::Input(what))?,
                }
            }
            let items: Vec<(u64, &str)> = all.iter().map(|(number, line)| (*number, &**line)).collect();
            stage_conversations::conversations(import, importers::conversations(program, &items, file), plugin, config)
                .await
        }
        Some(program) => stage_conversations::dump(import, lines, program, &prefix(program), plugin, config).await,
        None if arguments.changes_sessions() => {
            let message =
                "--rename, --hash-ids and --user are for sessions of other programs: an export comes back as it was";
            Err(Usage(message.to_owned()).into())
        }
        None => stage_export::lines(import, lines).await,
    }
}
