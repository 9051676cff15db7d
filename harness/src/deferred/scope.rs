//! The scope of recall, and the subject of the tasks that maintain its index.

use anyhow::Result;
use keepline::{Keepline, maintenance::subject_with_user};
use serde_json::{Value, json};

use crate::{
    app::error::{Coded, Usage},
    terminal,
};

/// The messages that recall searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The transcript of the question.
    Session,
    /// All sessions of its owner.
    User,
}

impl Scope {
    /// The scope in the effective options. `None`: recall is off.
    pub fn of(keepline: &Keepline) -> Result<Option<Self>> {
        let options: Value = serde_json::from_str(&keepline.filter_options())?;
        let recall =
            options.get("recall").and_then(Value::as_str).filter(|_| options.get("conversation") == Some(&json!(true)));
        Ok(match recall {
            Some("session") => Some(Self::Session),
            Some("user") => Some(Self::User),
            _ => None,
        })
    }

    /// The subject of deferred work for a session. The plugin names the owner; the library lends the owner's bucket only if
    /// that lists the session.
    ///
    /// # Errors
    /// When the owner is not the name of a user's bucket.
    pub fn subject(self, session: &str, owner: Option<&str>) -> Result<String> {
        match (self, owner) {
            (Self::User, Some(owner)) => subject_with_user(session, owner).ok_or_else(|| {
                let owner = terminal::quoted(owner);
                let message =
                    format!("the plugin says that session '{session}' belongs to {owner}, which is no user's name");
                Coded { code: "plugin", message }.into()
            }),
            _ => Ok(format!("session/{session}")),
        }
    }
}

/// # Errors
/// When recall is off.
pub fn require_recall(keepline: &Keepline) -> Result<Scope> {
    let off = || {
        let set = "set conversation=true (as --profile chat does) and recall=session or recall=user, for example";
        Usage(format!("recall is off: {set} --set recall=user")).into()
    };
    Scope::of(keepline)?.ok_or_else(off)
}
