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
    foreign::{self, Program, dify},
    runtime, setup,
};

/// Run it.
pub fn main(global: &Global, arguments: &ImportArguments, as_json: bool) -> Result<ExitCode> {
    if arguments.from_redis.is_some() && program(arguments.format).is_none_or(|program| program == Program::Dify) {
        let message = "--from-redis needs --format langchain, neurolink or rocketride, to say whose keys to read";
        return Err(Usage(message.to_owned()).into());
    }
    let config = setup::config(global)?;
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
        let mut import = Import { delivery, keepline, came: HashMap::new(), tally: Tally::default() };
        import.all(arguments, plugin, &config).await?;
        import.tally.tell(arguments.dry_run, as_json)
    })
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
    }
}

pub struct Import {
    pub delivery: Delivery,
    /// The target's; none: there is none yet.
    keepline: Option<Keepline>,
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
        let is_document = path.is_dir() || path.extension().is_some_and(|extension| extension == "json");
        if is_document && matches!(arguments.format, ImportFormat::Dify | ImportFormat::Auto) {
            let found = if path.is_dir() { dify::documents(path) } else { dify::document(path).map(|one| vec![one]) };
            let found = found.with_context(|| format!("can't read {}", path.display()))?;
            if found.is_empty() {
                let message = format!(
                    "{} contains no Dify node memory: files node_memory/APP/CONVERSATION/NODE.json are expected in it; for \
                     anything else, name a file",
                    path.display()
                );
                return Err(Usage(message).into());
            }
            return self.items(found, Program::Dify, plugin, config).await;
        }
        let mut lines = Lines::open(path)?;
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
        match program {
            Some(program) => self.dump(lines, program, &prefix(program), plugin, config).await,
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
