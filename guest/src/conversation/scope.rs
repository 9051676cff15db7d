//! What an entry's metadata say of its conversation.
//!
//! Promises to take every member for absent that is not of its type, but for a user: whoever names one that nobody can be
//! is not taken for nobody. Refuses to follow the all-zero id: it says no more
//! than "the message before".

use std::borrow::Cow;

use keepline_json as json;

use super::options::{Mode, Options};
use super::record::container;
use super::settings::Settings;
use super::state::State;
use crate::names::hashed;
use crate::store::{Bucket, BucketKind, Opening, TimeToLive};

/// As other systems write "the message before".
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// What the metadata of an entry say.
#[derive(Debug, Default)]
pub(crate) struct Said<'a> {
    pub user_id: Option<Cow<'a, str>>,
    /// It names a user, and not by a text of a length that is allowed.
    pub is_user_bad: bool,
    pub parent: Option<Cow<'a, str>>,
    /// The question's text.
    pub question: Option<Cow<'a, str>>,
    /// A JSON array.
    pub files: Option<Cow<'a, str>>,
    pub app_id: Option<Cow<'a, str>>,
    pub node_id: Option<Cow<'a, str>>,
    mode: Option<Mode>,
    /// The switches.
    pub is_read: Option<bool>,
    pub is_written: Option<bool>,
    pub is_summarized: Option<bool>,
    pub only_looks: Option<bool>,
    pub recalls: Option<bool>,
    /// Whether what is recalled is of the session that asks, also with its user's memory.
    pub recalls_session: bool,
    /// Whether it gets a window.
    pub has_window: Option<bool>,
    /// For this entry.
    pub settings: Settings,
}

impl<'a> Said<'a> {
    /// Of metadata that are known to be an object.
    pub(crate) fn of(metadata: &'a str) -> Self {
        let mut said = Self::default();
        let read = json::members(metadata, |key, raw| {
            let string = || json::string(raw).filter(|text| !text.is_empty());
            let Some(name) = json::string(key) else { return };
            match &*name {
                "user_id" => {
                    said.user_id = string().filter(|id| id.len() <= 1024);
                    said.is_user_bad = said.user_id.is_none() && !matches!(raw, "null" | "\"\"");
                }
                "parent_message_id" => said.parent = string().filter(|id| id != NOBODY),
                "memory_question" => said.question = string(),
                "files" => said.files = container(raw, '['),
                "app_id" => said.app_id = string(),
                "node_id" => said.node_id = string(),
                "memory_mode" => {
                    said.mode = match string().as_deref() {
                        Some("node") => Some(Mode::Node),
                        Some("conversation") => Some(Mode::Conversation),
                        _ => None,
                    }
                }
                "memory" => said.switch(raw),
                _ => {}
            }
        });
        if read.is_some() { said } else { Self::default() }
    }

    fn switch(&mut self, raw: &str) {
        self.settings = Settings::parse(raw);
        let _ = json::members(raw, |key, raw| {
            let is_on = match raw {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            };
            match json::string(key).as_deref() {
                Some("read") => self.is_read = is_on,
                Some("write") => self.is_written = is_on,
                Some("look") => self.only_looks = is_on,
                Some("recall") => {
                    self.recalls = is_on;
                    self.recalls_session = json::string(raw).as_deref() == Some("session");
                }
                Some("window") => self.has_window = is_on,
                Some("summarize") => self.is_summarized = is_on,
                _ => {}
            }
        });
    }

    /// The node whose transcript is meant; `Err`: there is to be one, and none is named. None: the session's.
    pub(crate) fn node(&self, options: &Options, session: &str) -> Result<Option<Cow<'static, str>>, NoNode> {
        if self.mode.unwrap_or(options.memory_mode) == Mode::Conversation {
            return Ok(None);
        }
        let node = self.node_id.as_deref().ok_or(NoNode)?;
        Ok(Some(name(self.app_id.as_deref(), session, node).into()))
    }

    /// The node that an answer names, if it is another one than its question's: what it leaves out is as it was.
    pub(crate) fn another_node(&self, state: &State<'_>) -> Option<String> {
        if self.app_id.is_none() && self.node_id.is_none() {
            return None;
        }
        let asked = state.node.as_deref()?;
        let app = self.app_id.as_deref().or(state.app_id.as_deref());
        let named = name(app, &state.session, self.node_id.as_deref().or(state.node_id.as_deref())?);
        Some(named).filter(|named| named != asked)
    }
}

/// What the bucket of a node is called.
pub(super) fn name(app: Option<&str>, session: &str, node: &str) -> String {
    hashed(&[app.unwrap_or_default(), "\0", session, "\0", node].concat())
}

/// Node mode, and no node is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoNode;

/// The bucket of a session, or of one of its nodes.
pub(crate) fn bucket<'a>(session: &'a str, node: Option<&'a str>) -> Bucket<'a> {
    match node {
        Some(name) => Bucket { kind: BucketKind::Node, name },
        None => Bucket::session(session),
    }
}

/// How a node's bucket is opened where it may be a new one.
pub(crate) fn create_node(options: &Options) -> Opening<'static> {
    let milliseconds = crate::config::milliseconds(options.node_ttl_hours);
    Opening::Create { time_to_live: milliseconds.map(|milliseconds| TimeToLive { milliseconds, sliding: true }) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_of_another_type_is_absent() {
        let said = Said::of(
            r#"{"user_id": null, "parent_message_id": "", "memory_question": null, "files": {}, "memory_mode": "x",
                "memory": {"read": 0, "write": "false", "max_context_tokens": -1}}"#,
        );
        assert!(said.user_id.is_none() && said.parent.is_none() && said.question.is_none() && said.files.is_none());
        assert!(said.is_read.is_none() && said.is_written.is_none() && said.settings == Settings::default());
        assert_eq!(said.node(&Options::default(), "s"), Ok(None));
        assert!(Said::of("[1]").user_id.is_none());
    }

    #[test]
    fn a_user_is_nobody_or_a_text() {
        let long = format!("\"{}\"", "x".repeat(1025));
        for (user, is_bad) in [
            ("null", false),
            ("\"\"", false),
            ("\"anna\"", false),
            (&*long, true),
            ("7", true),
            ("[\"bob\"]", true),
            ("{}", true),
            ("false", true),
        ] {
            let metadata = format!("{{\"user_id\": {user}}}");
            let said = Said::of(&metadata);
            assert_eq!((said.is_user_bad, said.user_id.is_some()), (is_bad, user == "\"anna\""), "{user}");
        }
    }

    #[test]
    fn the_zero_id_names_nobody() {
        let said = Said::of(r#"{"parent_message_id": "00000000-0000-0000-0000-000000000000"}"#);
        assert_eq!(said.parent, None);
    }

    #[test]
    fn no_two_nodes_share_a_transcript() {
        let named = |metadata: &str, session: &str| {
            Said::of(metadata).node(&Options::default(), session).unwrap().unwrap().into_owned()
        };
        let node = r#"{"memory_mode": "node", "app_id": "a", "node_id": "b"}"#;
        let names = [
            named(node, "s"),
            named(node, "t"),
            named(r#"{"memory_mode": "node", "node_id": "b"}"#, "s"),
            named(r#"{"memory_mode": "node", "app_id": "as", "node_id": "b"}"#, "s"),
            named(r#"{"memory_mode": "node", "app_id": "b", "node_id": "a"}"#, "s"),
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(crate::names::is_session(name), "{name}");
            assert!(!names[..index].contains(name));
        }
        assert_eq!(Said::of(r#"{"memory_mode": "node"}"#).node(&Options::default(), "s"), Err(NoNode));
        let options = Options { memory_mode: Mode::Node, ..Options::default() };
        assert_eq!(Said::of("{}").node(&options, "s"), Err(NoNode));
        assert_eq!(Said::of(r#"{"memory_mode": "conversation"}"#).node(&options, "s"), Ok(None));
    }
}
