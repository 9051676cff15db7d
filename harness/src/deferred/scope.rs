//! The scope of recall, and the buckets of the tasks that maintain its index.

use anyhow::Result;
use keepline::{
    Keepline,
    maintenance::{TaskBucket, session_buckets},
    store::names::is_bucket,
};
use serde_json::{Value, json};

use crate::{
    app::error::{coded_error, usage_error},
    terminal,
};

/// The messages that recall searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallMode {
    /// The transcript of the question.
    Session,
    /// All sessions of its owner.
    User,
}

impl RecallMode {
    /// The scope in the effective options. `None`: recall is off.
    pub fn from_keepline(keepline: &Keepline) -> Result<Option<Self>> {
        let options: Value = serde_json::from_str(&keepline.filter_options())?;
        let recall =
            options.get("recall").and_then(Value::as_str).filter(|_| options.get("conversation") == Some(&json!(true)));
        Ok(match recall {
            Some("session") => Some(Self::Session),
            Some("user") => Some(Self::User),
            _ => None,
        })
    }

    /// The buckets of deferred work for a session. The plugin names the owner; the library lends the owner's bucket only if
    /// that lists the session.
    ///
    /// # Errors
    /// When the owner is not the name of a user's bucket.
    pub fn task_buckets(self, session: &str, owner: Option<&str>) -> Result<Vec<TaskBucket>> {
        let owner = owner.filter(|_| self == Self::User);
        if let Some(owner) = owner.filter(|owner| !is_bucket(owner)) {
            let owner = terminal::quote_for_shell(owner);
            let message =
                format!("the plugin says that session '{session}' belongs to {owner}, which is no user's name");
            return Err(coded_error("plugin", message));
        }
        Ok(session_buckets(session, owner))
    }
}

/// # Errors
/// When recall is off.
pub fn require_recall(keepline: &Keepline) -> Result<RecallMode> {
    let off = || {
        let set = "set conversation=true (as --profile chat does) and recall=session or recall=user, for example";
        usage_error(format!("recall is off: {set} --set recall=user"))
    };
    RecallMode::from_keepline(keepline)?.ok_or_else(off)
}
