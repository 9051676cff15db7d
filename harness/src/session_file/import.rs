//! `keepline session import`: imports sessions from an export, or from other programs.
//!
//! A session is imported whole or not at all, existing ones are left alone, and an interrupted import can be repeated.
//! Invalid input is reported with its line or key; its session is left out and the others continue. Files that end in
//! the middle of a session are refused.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result};
use keepline::{
    Deadline, Keepline, Plugin, Sessions,
    config::Config,
    sessions::{SessionError, Transcript},
    store::{DirectoryError, Failure, TransferStore},
};
use keepline_json::elements;

use super::{
    copies_for_users,
    deliver::{Delivered, Delivery, Staged},
    import_report::ImportReport,
    importers::{self, Item, Program, dify},
    lines::Lines,
    staging::Staging,
    store, store_error, withdraw_copies,
};
use crate::{
    app::{self, error::Usage, runtime},
    args::{Global, ImportArguments, ImportFormat},
    terminal,
};

/// Run it.
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
        let ids = Ids::of(arguments);
        let mut import = Import { delivery, keepline, ids, came: HashMap::new(), tally: ImportReport::default() };
        import.all(arguments, plugin, &config).await?;
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

/// The names and owners that the command line gives to other programs' sessions.
#[derive(Debug, Default)]
pub struct Ids {
    renamed: HashMap<String, (String, bool)>,
    /// Of sessions that name no user.
    pub user: Option<String>,
}

impl Ids {
    fn of(arguments: &ImportArguments) -> Self {
        let renamed = arguments.rename.iter().map(|(old, new)| (old.clone(), (new.clone(), false))).collect();
        Self { renamed, user: arguments.user.clone() }
    }

    /// The session's id here.
    pub fn renamed(&mut self, id: String) -> String {
        match self.renamed.get_mut(&id) {
            Some((new, is_used)) => {
                *is_used = true;
                new.clone()
            }
            None => id,
        }
    }

    fn unused(&self) -> Vec<String> {
        let unused = self.renamed.iter().filter(|(_, (_, is_used))| !is_used);
        let mut unused: Vec<String> = unused.map(|(old, _)| old.clone()).collect();
        unused.sort();
        unused
    }
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

pub struct Import {
    pub delivery: Delivery,
    /// On the target; `None` if that does not exist yet.
    keepline: Option<Keepline>,
    pub ids: Ids,
    /// Sessions, and nodes that come by themselves, of this run.
    came: HashMap<String, Source>,
    pub tally: ImportReport,
}

/// The place that a session came from, and its digests unless they differ from place to place.
struct Source {
    place: String,
    contents: Option<Vec<String>>,
}

/// Facts about an imported session that are not staged.
#[derive(Default)]
pub struct ImportedSession {
    pub messages: u64,
    /// Whether its own data names an owner.
    pub has_owner: bool,
    /// Its user, unless its own data names one.
    pub user: Option<String>,
    /// Its nodes: app, if any, and node.
    pub nodes: Vec<(Option<String>, String)>,
}

/// The reason why a session is left out.
pub enum ImportError {
    /// The input is invalid.
    Input(String),
    /// It can't be imported, independent of its place in the input.
    Left(String),
    Store(Failure),
    Session(SessionError),
    /// The import ends.
    Failed(anyhow::Error),
}

impl From<String> for ImportError {
    fn from(what: String) -> Self {
        Self::Input(what)
    }
}

impl From<Failure> for ImportError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl From<SessionError> for ImportError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl From<anyhow::Error> for ImportError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl Import {
    async fn all(&mut self, arguments: &ImportArguments, plugin: Plugin, config: &Config) -> Result<()> {
        let prefix = |program: Program| arguments.prefix.clone().unwrap_or_else(|| program.prefix().to_owned());
        if let (Some(url), Some(program)) = (&arguments.from_redis, program(arguments.format)) {
            return self.read_redis(url, program, &prefix(program), plugin, config).await;
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
                self.leave_out("", &path.display().to_string(), ImportError::Input(what))?;
            }
            if found.is_empty() {
                let message = format!(
                    "{} contains no Dify node memory: files node_memory/APP/CONVERSATION/NODE.json are expected in it; for \
                     anything else, name a file",
                    path.display()
                );
                return Err(Usage(message).into());
            }
            return self.documents(found, plugin, config).await;
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
                    self.conversations(importers::conversations(program, &items, file), plugin, config).await
                }
                Some(program @ (Program::NeuroLink | Program::LangChain)) => {
                    let items = items.iter().map(|(_, text)| Item::of(text)).collect::<Result<_, String>>();
                    self.items(items.map_err(Usage)?, program, plugin, config).await
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
                        Err(what) => self.leave_out("", &format!("line {}", lines.number), ImportError::Input(what))?,
                    }
                }
                let items: Vec<(u64, &str)> = all.iter().map(|(number, line)| (*number, &**line)).collect();
                self.conversations(importers::conversations(program, &items, file), plugin, config).await
            }
            Some(program) => self.dump(lines, program, &prefix(program), plugin, config).await,
            None if arguments.changes_sessions() => {
                let message = "--rename, --hash-ids and --user are for sessions of other programs: an export comes back as it was";
                Err(Usage(message.to_owned()).into())
            }
            None => self.lines(lines).await,
        }
    }

    /// Records where a session or a node comes from. True if an identical one came before; an error if a different one did.
    pub fn comes_again(
        &mut self,
        id: String,
        place: String,
        contents: Option<Vec<String>>,
    ) -> Result<bool, ImportError> {
        match self.came.entry(id) {
            Entry::Vacant(first) => {
                first.insert(Source { place, contents });
                Ok(false)
            }
            Entry::Occupied(first) if contents.is_some() && first.get().contents == contents => Ok(true),
            Entry::Occupied(first) => Err(ImportError::Left(format!(
                "it comes twice, from {} and from {place}; the second is left out, since it would replace the first",
                first.get().place
            ))),
        }
    }

    /// Delivers a staged session to the target, and registers it with its owner.
    pub async fn deliver(&mut self, staged: &Staged, about: &ImportedSession) -> Result<(), ImportError> {
        let from: Arc<dyn TransferStore> = self.delivery.staging.store.clone();
        self.withdraw(&from, staged).await?;
        let delivered = self.delivery.deliver(staged).await?;
        self.delivered(staged, about, delivered).await
    }

    /// Removes what recall has copied of a session that is about to be replaced.
    pub async fn withdraw(&self, from: &Arc<dyn TransferStore>, staged: &Staged) -> Result<(), ImportError> {
        let replaces = self.delivery.replaces && !self.delivery.is_dry_run && !staged.is_shell;
        let Some(keepline) = self.keepline.as_ref().filter(|_| replaces) else { return Ok(()) };
        if !copies_for_users(keepline)? || self.delivery.foresee(from, staged).await? != Delivered::Imported {
            return Ok(());
        }
        let done = withdraw_copies(keepline, &staged.session.name).await;
        done.map_err(|error| ImportError::Left(format!("{error:#}")))
    }

    /// Records the outcome of a session.
    pub async fn delivered(
        &mut self,
        staged: &Staged,
        about: &ImportedSession,
        delivered: Delivered,
    ) -> Result<(), ImportError> {
        let name = &staged.session.name;
        let outcome = match delivered {
            Delivered::Imported => {
                self.tally.imported += 1;
                self.tally.messages += about.messages;
                "import"
            }
            Delivered::AlreadyThere => {
                self.tally.already_there += 1;
                "already there"
            }
            Delivered::Exists => "exists",
            Delivered::Expired => "expired",
        };
        if self.delivery.is_dry_run {
            let (messages, nodes) = (about.messages.to_string(), staged.nodes.len().to_string());
            self.tally.rows.push([name.clone(), messages, nodes, outcome.to_owned()]);
        }
        match delivered {
            Delivered::Exists => {
                Err(ImportError::Left("there is one with other contents; use --replace to replace it".to_owned()))
            }
            Delivered::Expired => Err(ImportError::Left("it has expired".to_owned())),
            Delivered::Imported | Delivered::AlreadyThere => self.register(name, about, staged.is_shell).await,
        }
    }

    /// Also for identical sessions: an interrupted import may have stopped before this.
    async fn register(&self, session: &str, about: &ImportedSession, is_shell: bool) -> Result<(), ImportError> {
        let Some(keepline) = self.keepline.as_ref().filter(|_| !self.delivery.is_dry_run) else { return Ok(()) };
        let mut sessions = sessions_without_deadline(keepline);
        let id = sessions.id_of(session).await?;
        let session = &*id;
        let has_owner = about.has_owner || about.user.is_some();
        if has_owner {
            sessions.register(session.into(), about.user.as_deref()).await?;
        }
        for (app, node) in about.nodes.iter().filter(|_| has_owner || is_shell) {
            let transcript = Transcript { session, app_id: app.as_deref(), node_id: Some(node) };
            sessions.register(transcript, None).await?;
        }
        Ok(())
    }

    /// Records a session that is left out. `Err` ends the import.
    pub fn leave_out(&mut self, session: &str, place: &str, wrong: ImportError) -> Result<()> {
        let why = match wrong {
            ImportError::Left(what) => what,
            ImportError::Input(what) => format!("{place}: {what}"),
            ImportError::Store(failure) => failure.message,
            ImportError::Session(error) => error.message,
            ImportError::Failed(error) => return Err(error),
        };
        self.tally.left.push((session.to_owned(), why));
        Ok(())
    }
}

/// Calls without a deadline: no entry waits for them.
pub fn sessions_without_deadline(keepline: &Keepline) -> Sessions {
    keepline.sessions().by(Deadline::NEVER)
}
