//! Which events a caller is told.

use keepline::sessions::user_bucket;
use serde::Deserialize;

use crate::access::Caller;

/// What a follower looks at of an event.
#[derive(Debug, Deserialize)]
pub struct EventFrame {
    /// What kind it is.
    pub r#type: String,
    #[serde(default)]
    data: EventData,
    #[serde(default)]
    owner: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct EventData {
    #[serde(default)]
    session: Option<String>,
}

impl EventFrame {
    /// Of an event's text. None: it is none that this version knows how to read.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Which session it is about.
    pub fn session(&self) -> Option<&str> {
        self.data.session.as_deref()
    }
}

/// Whether a caller may be told: one whose key names a user is told of definitions, which are the project's, and of what is
/// that user's.
pub fn is_visible(event: &EventFrame, caller: &Caller) -> bool {
    let Some(user) = &caller.user else { return true };
    let is_definition =
        matches!(&*event.r#type, "persistentMemory:created" | "persistentMemory:updated" | "persistentMemory:deleted");
    is_definition || event.owner.as_deref() == Some(&*user_bucket(user))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_caller_with_a_user_is_told_of_definitions_and_of_what_is_theirs() {
        let anna = Caller { user: Some("anna".into()), ..Caller::local() };
        for (text, expected) in [
            (r#"{"type":"session.updated","data":{"session":"s"},"owner":"anna"}"#, true),
            (r#"{"type":"session.updated","data":{"session":"s"},"owner":"bob"}"#, false),
            (r#"{"type":"session.updated","data":{"session":"s"}}"#, false),
            (r#"{"type":"persistentMemory:deleted","data":{"id":"m"}}"#, true),
            (r#"{"type":"persistentMemory:pipeline-executed","data":{}}"#, false),
            (r#"{"type":"contextAssembly:started","data":{},"owner":"anna"}"#, true),
            (r#"{"type":"contextAssembly:started","data":{}}"#, false),
        ] {
            let event = EventFrame::parse(text).unwrap();
            assert_eq!(is_visible(&event, &anna), expected, "{text}");
            assert!(is_visible(&event, &Caller::local()), "{text}");
        }
    }
}
