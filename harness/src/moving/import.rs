//! `keepline session import`: sessions from an export, or from what another program has kept.
//!
//! Promises that a session is there whole or not at all, that what is there already is left alone, and that the same
//! command can be run again after it was interrupted. What is wrong is told by its line or key, and its session left out;
//! others go on. Refuses files that end before a session does.

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
    lines::Lines,
    staging::Staging,
    store,
    tally::Tally,
    told, withdraw_copies,
};
use crate::{
    cli::{Global, ImportArguments, ImportFormat},
    error::Usage,
    foreign::{self, Item, Program, dify},
    runtime, setup, terminal,
};

/// Run it.
pub fn main(global: &Global, arguments: &ImportArguments, as_json: bool) -> Result<ExitCode> {
    let has_keys = |program| matches!(program, Program::LangChain | Program::NeuroLink | Program::RocketRide);
    if arguments.from_redis.is_some() && !program(arguments.format).is_some_and(has_keys) {
        let message = "--from-redis needs --format langchain, neurolink or rocketride, to say whose keys to read";
        return Err(Usage(message.to_owned()).into());
    }
    let ids: &[(&str, &str)] = if arguments.hash_ids { &[("session_ids", "hash")] } else { &[] };
    let config = setup::config_with(global, ids)?;
    let target = match store(&config, "import", !arguments.dry_run) {
        Ok(target) => Some(target),
        // Where nothing is to be written, there may be no directory yet.
        Err(error) if arguments.dry_run && is_missing(&error) => None,
        Err(error) => return Err(error),
    };
    let plugin = setup::plugin(global, &config)?;
    runtime::single()?.block_on(async {
        let mut keepline = None;
        if let Some(target) = &target {
            target.check().await.map_err(|failure| told(&failure)).context("the store can't be used")?;
            keepline = Some(setup::keepline_on(target.clone(), plugin.clone(), &config).await?);
        }
        let (replaces, is_dry_run) = (arguments.replace, arguments.dry_run);
        let delivery = Delivery { target, staging: Staging::new(&config)?, replaces, is_dry_run };
        let ids = Ids::of(arguments);
        let mut import = Import { delivery, keepline, ids, came: HashMap::new(), tally: Tally::default() };
        import.all(arguments, plugin, &config).await?;
        for id in import.ids.unused() {
            terminal::warning(&format!("--rename: no session {id:?} was imported"));
        }
        import.tally.tell(arguments.dry_run, as_json)
    })
}

/// Said of a document of Dify's that is not where its path would name it.
const NO_NODE: &str = "the path of a node's document is node_memory/APP/CONVERSATION/NODE.json: it names the session";

fn unknown(path: &Path) -> anyhow::Error {
    let message = format!(
        "{} has no known format: it is neither an export of Keepline, nor a dump of LangChain, NeuroLink or RocketRide, nor \
         node memory of Dify, nor a ChatGPT export, nor conversations in ShareGPT's or OpenAI's form; --format names one",
        path.display()
    );
    Usage(message).into()
}

/// What other programs' sessions are called here, and whose they are.
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

/// None: our own, or to be found out.
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
    /// The target's; none: there is none yet.
    keepline: Option<Keepline>,
    /// What other programs' sessions are called here, and whose they are.
    pub ids: Ids,
    /// What has come in this run: sessions, and nodes that come by themselves.
    came: HashMap<String, Came>,
    pub tally: Tally,
}

/// Where something came from, and its digests, if it is the same wherever it comes from.
struct Came {
    place: String,
    contents: Option<Vec<String>>,
}

/// A session that comes in, beside what is staged of it.
#[derive(Default)]
pub struct About {
    pub messages: u64,
    /// Whether its own data name one.
    pub has_owner: bool,
    /// Its user, where somebody else than its own data names one.
    pub user: Option<String>,
    /// Apps, if there are any, and nodes.
    pub nodes: Vec<(Option<String>, String)>,
}

/// Why a session is left out.
pub enum Wrong {
    /// What came is wrong.
    Input(String),
    /// It can't be imported, whatever line or key it came from.
    Left(String),
    Store(Failure),
    Session(SessionError),
    /// Nothing goes on.
    Failed(anyhow::Error),
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self::Input(what)
    }
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl From<SessionError> for Wrong {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl From<anyhow::Error> for Wrong {
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
                self.leave_out("", &path.display().to_string(), Wrong::Input(what))?;
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
            let found = asked.or_else(|| items.first().and_then(|(_, text)| foreign::written_by(text)));
            return match found {
                _ if items.is_empty() => Ok(()),
                Some(program @ (Program::ChatGpt | Program::ShareGpt | Program::OpenAi)) => {
                    self.conversations(foreign::conversations(program, &items, file), plugin, config).await
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
                    let program = foreign::written_by(line);
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
                        Err(what) => self.leave_out("", &format!("line {}", lines.number), Wrong::Input(what))?,
                    }
                }
                let items: Vec<(u64, &str)> = all.iter().map(|(number, line)| (*number, &**line)).collect();
                self.conversations(foreign::conversations(program, &items, file), plugin, config).await
            }
            Some(program) => self.dump(lines, program, &prefix(program), plugin, config).await,
            None if arguments.changes_sessions() => {
                let message = "--rename, --hash-ids and --user are for sessions of other programs: an export comes back as it was";
                Err(Usage(message.to_owned()).into())
            }
            None => self.lines(lines).await,
        }
    }

    /// Note that a session or a node comes, and where from. Whether the same has come before. `Err`: another one has, and
    /// no option lets one of a run take the place of another.
    pub fn comes_again(&mut self, id: String, place: String, contents: Option<Vec<String>>) -> Result<bool, Wrong> {
        match self.came.entry(id) {
            Entry::Vacant(first) => {
                first.insert(Came { place, contents });
                Ok(false)
            }
            Entry::Occupied(first) if contents.is_some() && first.get().contents == contents => Ok(true),
            Entry::Occupied(first) => Err(Wrong::Left(format!(
                "it comes twice, from {} and from {place}; the second is left out, since it would replace the first",
                first.get().place
            ))),
        }
    }

    /// Bring a session that is staged to the target, and note it with its owner.
    pub async fn deliver(&mut self, staged: &Staged, about: &About) -> Result<(), Wrong> {
        let from: Arc<dyn TransferStore> = self.delivery.staging.store.clone();
        self.withdraw(&from, staged).await?;
        let delivered = self.delivery.deliver(staged).await?;
        self.delivered(staged, about, delivered).await
    }

    /// What recall has copied of a session that is about to be replaced.
    pub async fn withdraw(&self, from: &Arc<dyn TransferStore>, staged: &Staged) -> Result<(), Wrong> {
        let replaces = self.delivery.replaces && !self.delivery.is_dry_run && !staged.is_shell;
        let Some(keepline) = self.keepline.as_ref().filter(|_| replaces) else { return Ok(()) };
        if !copies_for_users(keepline)? || self.delivery.foresee(from, staged).await? != Delivered::Imported {
            return Ok(());
        }
        let done = withdraw_copies(keepline, &staged.session.name).await;
        done.map_err(|error| Wrong::Left(format!("{error:#}")))
    }

    /// What became of a session.
    pub async fn delivered(&mut self, staged: &Staged, about: &About, delivered: Delivered) -> Result<(), Wrong> {
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
                Err(Wrong::Left("there is one with other contents; use --replace to replace it".to_owned()))
            }
            Delivered::Expired => Err(Wrong::Left("it has expired".to_owned())),
            Delivered::Imported | Delivered::AlreadyThere => self.register(name, about, staged.is_shell).await,
        }
    }

    /// An import that was interrupted may have come so far and no further.
    async fn register(&self, session: &str, about: &About, is_shell: bool) -> Result<(), Wrong> {
        let Some(keepline) = self.keepline.as_ref().filter(|_| !self.delivery.is_dry_run) else { return Ok(()) };
        let mut sessions = patient(keepline);
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

    /// A session that is left out. `Err`: so is the rest.
    pub fn leave_out(&mut self, session: &str, place: &str, wrong: Wrong) -> Result<()> {
        let why = match wrong {
            Wrong::Left(what) => what,
            Wrong::Input(what) => format!("{place}: {what}"),
            Wrong::Store(failure) => failure.message,
            Wrong::Session(error) => error.message,
            Wrong::Failed(error) => return Err(error),
        };
        self.tally.left.push((session.to_owned(), why));
        Ok(())
    }
}

/// Nobody waits for one call here: better late than not.
pub fn patient(keepline: &Keepline) -> Sessions {
    keepline.sessions().by(Deadline::NEVER)
}
