//! Delivers imported sessions to the target, registers them with their owners, and keeps their outcome.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use anyhow::Result;
use async_trait::async_trait;
use keepline::{Deadline, Keepline, Sessions, sessions::Transcript, store::TransferStore};

use crate::{
    deliver::{DeliveryOutcome, SessionDelivery, StagedSession},
    problem::{Problem, Reason},
};

/// Removes what recall has copied of a session for its owner's other sessions, because its messages are about to be
/// replaced. The new ones are copied after the session's next answer.
#[async_trait]
pub trait CopyWithdrawal: Send + Sync {
    /// Does it, for the session in that bucket. One without copies, or that is not there, is no error.
    ///
    /// # Errors
    /// What went wrong: the session is left as it is.
    async fn withdraw(&self, session: &str) -> Result<(), String>;
}

/// Is told what became of a session.
pub type DeliveryObserver = Box<dyn Fn(&SessionOutcome) + Send + Sync>;

/// An import of sessions into one target.
pub struct SessionImport {
    /// How they get there.
    pub delivery: SessionDelivery,
    /// On the target; `None` if that does not exist yet.
    pub keepline: Option<Keepline>,
    /// None: recall copies nothing.
    pub withdrawal: Option<Box<dyn CopyWithdrawal>>,
    /// Called with each session as soon as the target has it.
    pub on_delivery: Option<DeliveryObserver>,
    /// What has become of them so far.
    pub report: ImportReport,
    /// Sessions, and nodes that come by themselves, of this import.
    came: HashMap<String, SessionSource>,
}

/// The place that a session came from, and its digests unless they differ from place to place.
struct SessionSource {
    place: String,
    contents: Option<Vec<String>>,
}

/// Facts about an imported session that are not staged.
#[derive(Clone, Debug, Default)]
pub struct ImportedSession {
    /// Its id, if that is not its name.
    pub id: Option<String>,
    /// Messages in its transcript and in those of its nodes.
    pub messages: u64,
    /// The name of the owner's bucket, as its own data has it.
    pub owner: Option<String>,
    /// Its user, unless its own data names one.
    pub user: Option<String>,
    /// Its nodes: app, if any, and node.
    pub nodes: Vec<(Option<String>, String)>,
}

/// What became of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    /// Sessions that were imported, in a dry run those that would be.
    pub imported: u64,
    /// Messages in them.
    pub messages: u64,
    /// Sessions of which the same was there already.
    pub already_there: u64,
    /// Each session that was read to its end.
    pub sessions: Vec<SessionOutcome>,
    /// Parts of sessions that have no place here: session and part.
    pub skipped: Vec<(String, String)>,
    /// Sessions that were left out.
    pub left: Vec<LeftOut>,
}

/// What became of a session that was read to its end.
#[derive(Clone, Debug)]
pub struct SessionOutcome {
    /// The session's name.
    pub session: String,
    /// Its id, if that is not its name.
    pub id: Option<String>,
    /// The name of the owner's bucket, as its own data has it.
    pub owner: Option<String>,
    /// Messages, those of its nodes included.
    pub messages: u64,
    /// Nodes.
    pub nodes: usize,
    /// What became of it.
    pub outcome: DeliveryOutcome,
}

/// A session that was left out.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The session's name; empty: it is not known.
    pub session: String,
    /// The number of the line with the fault, or on which the session begins.
    pub line: Option<u64>,
    /// Of which kind the fault is.
    pub reason: Reason,
    /// The fault, with its place if it is one of a place.
    pub why: String,
}

impl SessionImport {
    /// An import that has begun.
    pub fn new(delivery: SessionDelivery, keepline: Option<Keepline>) -> Self {
        let (report, came) = (ImportReport::default(), HashMap::new());
        Self { delivery, keepline, withdrawal: None, on_delivery: None, report, came }
    }

    /// Records where a session or a node comes from. True if an identical one came before.
    ///
    /// # Errors
    /// When a different one did.
    pub fn record_source(&mut self, id: String, place: String, contents: Option<Vec<String>>) -> Result<bool, Problem> {
        match self.came.entry(id) {
            Entry::Vacant(first) => {
                first.insert(SessionSource { place, contents });
                Ok(false)
            }
            Entry::Occupied(first) if contents.is_some() && first.get().contents == contents => Ok(true),
            Entry::Occupied(first) => Err(Problem::invalid(format!(
                "it comes twice, from {} and from {place}; the second is left out, since it would replace the first",
                first.get().place
            ))),
        }
    }

    /// Delivers a staged session to the target, and removes it from the staging store.
    ///
    /// # Errors
    /// When it is left out, or one of the stores fails.
    pub async fn deliver_session(&mut self, staged: &StagedSession, about: &ImportedSession) -> Result<(), Problem> {
        let from: Arc<dyn TransferStore> = self.delivery.staging.store().clone();
        let delivered = self.deliver_from(&from, staged, about).await;
        self.delivery.discard_staged(staged).await?;
        delivered
    }

    /// Delivers a session from a store, which is only read, to the target, and registers it with its owner.
    ///
    /// # Errors
    /// When it is left out, or one of the stores fails.
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
        let Some(withdrawal) = self.withdrawal.as_ref().filter(|_| replaces) else { return Ok(()) };
        if self.delivery.predict_outcome(from, staged).await? != DeliveryOutcome::Replaced {
            return Ok(());
        }
        withdrawal.withdraw(&staged.session.name).await.map_err(|why| Problem::Left(Reason::Conflict, why))
    }

    /// Records what became of a session, and registers one that is there with its owner.
    ///
    /// # Errors
    /// When it was left out, or can't be registered.
    pub async fn record_outcome(
        &mut self,
        staged: &StagedSession,
        about: &ImportedSession,
        delivered: DeliveryOutcome,
    ) -> Result<(), Problem> {
        let name = &staged.session.name;
        match delivered {
            DeliveryOutcome::Imported | DeliveryOutcome::Replaced => {
                self.report.imported += 1;
                self.report.messages += about.messages;
            }
            DeliveryOutcome::AlreadyThere => self.report.already_there += 1,
            _ => {}
        }
        let outcome = SessionOutcome {
            session: name.clone(),
            id: about.id.clone(),
            owner: about.owner.clone(),
            messages: about.messages,
            nodes: staged.nodes.len(),
            outcome: delivered,
        };
        if let Some(tell) = &self.on_delivery {
            tell(&outcome);
        }
        self.report.sessions.push(outcome);
        let left = |reason, why: &str| Err(Problem::Left(reason, why.to_owned()));
        match delivered {
            DeliveryOutcome::Exists => left(Reason::Exists, "there is one with other contents"),
            DeliveryOutcome::Foreign => left(Reason::NotFound, "there is no such session"),
            DeliveryOutcome::Changed => left(Reason::Conflict, "it changed while it was to be replaced"),
            DeliveryOutcome::Expired => left(Reason::Expired, "it has expired"),
            _ => self.register_owner(name, about, staged.is_shell).await,
        }
    }

    /// Registers a session with its owner, also if it was there already: an interrupted import may have stopped before
    /// this.
    async fn register_owner(&self, session: &str, about: &ImportedSession, is_shell: bool) -> Result<(), Problem> {
        let Some(keepline) = self.keepline.as_ref().filter(|_| !self.delivery.is_dry_run) else { return Ok(()) };
        let mut sessions = sessions_without_deadline(keepline);
        let id = sessions.id_of(session).await?;
        let session = &*id;
        let has_owner = about.owner.is_some() || about.user.is_some();
        if has_owner {
            sessions.register(session.into(), about.user.as_deref()).await?;
        }
        for (app, node) in about.nodes.iter().filter(|_| has_owner || is_shell) {
            let transcript = Transcript { session, app_id: app.as_deref(), node_id: Some(node) };
            sessions.register(transcript, None).await?;
        }
        Ok(())
    }

    /// Records a session that is left out.
    ///
    /// # Errors
    /// When the import ends.
    pub fn leave_out(&mut self, session: &str, line: Option<u64>, place: &str, problem: Problem) -> Result<()> {
        let (reason, why) = match problem {
            Problem::Left(reason, what) => (reason, what),
            Problem::Input(what) => (Reason::Invalid, format!("{place}: {what}")),
            Problem::Failed(error) => return Err(error),
        };
        self.report.left.push(LeftOut { session: session.to_owned(), line, reason, why });
        Ok(())
    }
}

/// Calls without a deadline: no entry waits for them.
fn sessions_without_deadline(keepline: &Keepline) -> Sessions {
    keepline.sessions().by(Deadline::NEVER)
}
