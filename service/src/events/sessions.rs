//! Events of sessions: which one changed, and whose it is. They tell no text, no value and no title.

use keepline::sessions::user_bucket;
use serde::Serialize;

use crate::{access::Caller, tenants::Tenant, time::timestamp};

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// It was begun.
    Created,
    /// Its messages, values, title or settings changed.
    Updated,
    /// It was deleted.
    Deleted,
    /// An answer was stored, with its question.
    Answered,
}

impl SessionChange {
    /// The type of the event.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Created => "session.created",
            Self::Updated => "session.updated",
            Self::Deleted => "session.deleted",
            Self::Answered => "message.appended",
        }
    }
}

#[derive(Serialize)]
struct Frame<'a> {
    r#type: &'static str,
    data: Data<'a>,
    timestamp: String,
    /// The bucket of the session's owner, for followers who reach one user only.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

#[derive(Serialize)]
struct Data<'a> {
    session: &'a str,
}

/// Tells it to those who follow the tenant's events. `user`: whose session it is, where that is known.
pub fn announce_session(tenant: &Tenant, change: SessionChange, session: &str, user: Option<&str>) {
    announce_of_owner(tenant, change, session, user.map(user_bucket));
}

/// The same, by the owner's bucket.
pub fn announce_of_owner(tenant: &Tenant, change: SessionChange, session: &str, owner: Option<String>) {
    let frame = Frame { r#type: change.type_name(), data: Data { session }, timestamp: timestamp(), owner };
    // Nothing in it that can't be written.
    tenant.events().announce(serde_json::to_string(&frame).unwrap_or_default());
}

/// Whose session it is that a caller changes, as far as that has to be known: of a service without keys nobody's, as nobody
/// is kept from another's events there.
pub fn needs_owner(caller: &Caller) -> bool {
    caller.key_id.is_some() && caller.user.is_none()
}
