//! Delivers imported sessions to the target, and records their outcome.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    sync::Arc,
};

use anyhow::Result;
use keepline::{Keepline, Plugin, config::Config, sessions::Transcript, store::TransferStore};

use super::report::ImportReport;
use crate::{
    args::ImportArguments,
    session_file::{
        Problem, copies_for_users, sessions_without_deadline,
        staging::deliver::{DeliveryOutcome, SessionDelivery, StagedSession},
        withdraw_copies,
    },
};

/// The names and owners that the command line gives to other programs' sessions.
pub struct IdentityOverrides {
    renamed: HashMap<String, String>,
    /// Sessions to rename that were not imported.
    pub unused: BTreeSet<String>,
    /// The owner of sessions that name none.
    pub user: Option<String>,
}

impl IdentityOverrides {
    pub fn from_arguments(arguments: &ImportArguments) -> Self {
        let unused = arguments.rename.iter().map(|(old, _)| old.clone()).collect();
        Self { renamed: arguments.rename.iter().cloned().collect(), unused, user: arguments.user.clone() }
    }

    pub fn apply_rename(&mut self, id: String) -> String {
        self.unused.remove(&id);
        self.renamed.get(&id).cloned().unwrap_or(id)
    }
}

pub struct ImportRun {
    pub delivery: SessionDelivery,
    /// On the target; `None` if that does not exist yet.
    pub keepline: Option<Keepline>,
    /// For the staging store, which conversations of other programs are written to by the component.
    pub plugin: Plugin,
    pub config: Config,
    pub ids: IdentityOverrides,
    /// Sessions, and nodes that come by themselves, of this run.
    pub came: HashMap<String, SessionSource>,
    pub tally: ImportReport,
}

/// The place that a session came from, and its digests unless they differ from place to place.
pub struct SessionSource {
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

impl ImportRun {
    /// Records where a session or a node comes from. True if an identical one came before; an error if a different one did.
    pub fn record_source(&mut self, id: String, place: String, contents: Option<Vec<String>>) -> Result<bool, Problem> {
        match self.came.entry(id) {
            Entry::Vacant(first) => {
                first.insert(SessionSource { place, contents });
                Ok(false)
            }
            Entry::Occupied(first) if contents.is_some() && first.get().contents == contents => Ok(true),
            Entry::Occupied(first) => Err(Problem::Left(format!(
                "it comes twice, from {} and from {place}; the second is left out, since it would replace the first",
                first.get().place
            ))),
        }
    }

    /// Delivers a staged session to the target, and removes it from the staging store.
    pub async fn deliver_session(&mut self, staged: &StagedSession, about: &ImportedSession) -> Result<(), Problem> {
        let from: Arc<dyn TransferStore> = self.delivery.staging.store.clone();
        let delivered = self.deliver_from(&from, staged, about).await;
        self.delivery.discard_staged(staged).await?;
        delivered
    }

    /// Delivers a session from a store, which is only read, to the target, and registers it with its owner.
    pub async fn deliver_from(
        &mut self,
        from: &Arc<dyn TransferStore>,
        staged: &StagedSession,
        about: &ImportedSession,
    ) -> Result<(), Problem> {
        self.withdraw_recall_copies(from, staged).await?;
        let delivered = self.delivery.deliver_from(from, staged).await?;
        self.record_outcome(staged, about, delivered).await
    }

    /// Removes what recall has copied of a session that is about to be replaced.
    async fn withdraw_recall_copies(
        &self,
        from: &Arc<dyn TransferStore>,
        staged: &StagedSession,
    ) -> Result<(), Problem> {
        let replaces = self.delivery.replaces && !self.delivery.is_dry_run && !staged.is_shell;
        let Some(keepline) = self.keepline.as_ref().filter(|_| replaces) else { return Ok(()) };
        if !copies_for_users(keepline)?
            || self.delivery.predict_outcome(from, staged).await? != DeliveryOutcome::Imported
        {
            return Ok(());
        }
        let done = withdraw_copies(keepline, &staged.session.name).await;
        done.map_err(|error| Problem::Left(format!("{error:#}")))
    }

    pub async fn record_outcome(
        &mut self,
        staged: &StagedSession,
        about: &ImportedSession,
        delivered: DeliveryOutcome,
    ) -> Result<(), Problem> {
        let name = &staged.session.name;
        let (outcome, left_out) = match delivered {
            DeliveryOutcome::Imported => {
                self.tally.imported += 1;
                self.tally.messages += about.messages;
                ("import", None)
            }
            DeliveryOutcome::AlreadyThere => {
                self.tally.already_there += 1;
                ("already there", None)
            }
            DeliveryOutcome::Exists => {
                ("exists", Some("there is one with other contents; use --replace to replace it"))
            }
            DeliveryOutcome::Expired => ("expired", Some("it has expired")),
        };
        if self.delivery.is_dry_run {
            self.tally.rows.push((name.clone(), about.messages, staged.nodes.len(), outcome));
        }
        match left_out {
            Some(why) => Err(Problem::Left(why.to_owned())),
            None => self.register_owner(name, about, staged.is_shell).await,
        }
    }

    /// Registers a session with its owner, also if it was there already: an interrupted import may have stopped before
    /// this.
    async fn register_owner(&self, session: &str, about: &ImportedSession, is_shell: bool) -> Result<(), Problem> {
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
    pub fn leave_out(&mut self, session: &str, place: &str, problem: Problem) -> Result<()> {
        let why = match problem {
            Problem::Left(what) => what,
            Problem::Input(what) => format!("{place}: {what}"),
            Problem::Failed(error) => return Err(error),
        };
        self.tally.left.push((session.to_owned(), why));
        Ok(())
    }
}
