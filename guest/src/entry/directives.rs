//! Reads the members of an entry's metadata that concern its conversation.
//!
//! A member of the wrong type counts as absent, with a warning where it was meant to switch something; but an entry whose `user_id`
//! names no possible user gets no memory. The all-zero id as a parent means "the message before".
//!
//! Read: `memory` is for this entry, `{"read": bool, "write": bool, "summarize": bool, "look": bool, "recall": bool,
//! "neighbors": bool, "asked", "max_context_tokens", "context_window", "reserve_tokens": integer, "model": text}`; `asked` is the position of
//! the message that the question is, if it is asked once more, and recall leaves that out; with `look` a question writes
//! nothing: no session is created (it is `failed` if there is none), no use of one counted, and `memory_trace` comes along;
//! `files` are references to files of the message, an array. For the others see `wit/schemas/entry.schema.json`.
//!
//! Attached to questions: `memory_messages`, the window, as chat messages (`role` `user`, `assistant` or `tool`, and
//! `system` or `developer` of instructions that an operator has set; `content`; `tool_calls`, `tool_call_id`), or as one text. `memory_summary`, a message of the user's role, to
//! come before them. `memory_recall`, an object: `text`, to stand directly before the question as a user's message, and
//! `passages`, in order of time, each with `session`, `position`, `at`, `role`, `source`, `trust`, `text`, `score` (a share
//! of the best one's) and `why` (`terms`, `speaker`, `date`, `time`). `memory_model`, the model that is set for the session
//! or the entry. `memory_trace`: which turns were kept, cut and left out and why, tokens against the budget; how many answers
//! were `skipped` by reason (`blank`, `marker`, `too-short`), and how many texts `truncated`, if any.

use keepline_json as json;
use keepline_options::bucket_names::node_bucket_name;
use keepline_options::words::MemoryMode;
use std::borrow::Cow;

use crate::context::Context;
use crate::contract::transcripts::TranscriptSettings;
use crate::contract::{BucketId, Host, Precondition, Problem, TimeToLive, kind};
use crate::entry::turn_token::TurnToken;
use crate::log;
use crate::options::conversation::Options;
use crate::text::json_values::{as_container, on_one_line, parse_count};

/// As other systems write "the message before".
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// What the metadata of an entry say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directives<'a> {
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
    /// One of these two is there and no text: which node is meant is not known.
    is_node_bad: bool,
    mode: Option<MemoryMode>,
    /// The switches.
    pub is_read: Option<bool>,
    pub is_written: Option<bool>,
    pub is_summarized: Option<bool>,
    pub only_looks: Option<bool>,
    pub recalls: Option<bool>,
    /// Whether what is recalled is of the session that asks, also with its user's memory.
    pub recalls_session: bool,
    /// Whether what stands beside a message counts when it is recalled.
    pub neighbors: Option<bool>,
    /// The position of the message that the question is, if it is asked once more: recall leaves that out.
    pub asked: Option<u64>,
    /// Whether it gets a window.
    pub has_window: Option<bool>,
    /// For this entry.
    pub settings: TranscriptSettings,
    /// Of an answer: who gave it, what it took, and what else is stored with it.
    model: Option<&'a str>,
    usage: Option<&'a str>,
    metadata: Option<&'a str>,
    /// Members that have no effect, and what they must be.
    wrong: Vec<(String, &'static str)>,
}

impl<'a> Directives<'a> {
    /// Of metadata; of those that are no object, nothing.
    pub(crate) fn parse(metadata: &'a str) -> Self {
        let mut said = Self::default();
        let read = json::for_each_member(metadata, |key, raw| said.read_member(key, raw));
        if read.is_some() { said } else { Self::default() }
    }

    /// Takes in a member, as it stands in the text.
    pub(crate) fn read_member(&mut self, key: &'a str, raw: &'a str) {
        let string = || json::decode_string(raw).filter(|text| !text.is_empty());
        let Some(name) = json::decode_string(key) else { return };
        match &*name {
            "user_id" => {
                self.user_id = string().filter(|id| id.len() <= 1024);
                self.is_user_bad = self.user_id.is_none() && !matches!(raw, "null" | "\"\"");
            }
            "parent_message_id" => {
                self.parent = string().filter(|id| id != NOBODY);
                self.expect(raw.starts_with('"'), raw, &["parent_message_id"], "a text");
            }
            // Read where the session is determined.
            "message_id" => self.expect(raw.starts_with('"'), raw, &["message_id"], "a text"),
            "memory_question" => self.question = string(),
            "files" => self.files = as_container(raw, '['),
            "app_id" | "node_id" => {
                *(if &*name == "app_id" { &mut self.app_id } else { &mut self.node_id }) = string();
                self.is_node_bad |= raw != "null" && !raw.starts_with('"');
            }
            "memory_mode" => {
                self.mode = match string().as_deref() {
                    Some("node") => Some(MemoryMode::Node),
                    Some("conversation") => Some(MemoryMode::Conversation),
                    _ => None,
                };
                if raw != "\"\"" {
                    self.expect(self.mode.is_some(), raw, &["memory_mode"], "\"conversation\" or \"node\"");
                }
            }
            "memory" => self.switch(raw),
            "model" => self.model = Some(raw).filter(|raw| raw.len() > 2 && raw.starts_with(['"', '{'])),
            "usage" => self.usage = as_container(raw, '{').map(|_| raw),
            "metadata" => self.metadata = as_container(raw, '{').map(|_| raw),
            _ => {}
        }
    }

    /// Of an answer: what is stored with it, as its details would have it. None: nothing.
    pub(crate) fn answer_details(&self) -> Option<String> {
        if self.model.is_none() && self.usage.is_none() && self.metadata.is_none() {
            return None;
        }
        let mut out = String::from("{");
        match (self.model, self.usage) {
            (Some(model), None) if model.starts_with('{') => out.push_str(&["\"model\":", model].concat()),
            (None, None) => {}
            (model, usage) => {
                let object = model.filter(|model| model.starts_with('{'));
                let own = object.and_then(|model| model.trim_end().strip_suffix('}')).unwrap_or("{");
                out.push_str(&["\"model\":", own].concat());
                let members = [("name", model.filter(|model| model.starts_with('"'))), ("usage", usage)];
                for (name, raw) in members {
                    let Some(raw) = raw else { continue };
                    out.push_str(if out.trim_end().ends_with('{') { "\"" } else { ",\"" });
                    out.push_str(&[name, "\":", raw].concat());
                }
                out.push('}');
            }
        }
        if let Some(metadata) = self.metadata {
            out.push_str(if out.len() > 1 { "," } else { "" });
            out.push_str(&["\"metadata\":", metadata].concat());
        }
        out.push('}');
        json::mend_json(&out).map(Cow::into_owned)
    }

    fn switch(&mut self, raw: &str) {
        const NUMBER: &str = "a positive integer";
        self.settings = TranscriptSettings::parse(raw);
        let read = json::for_each_member(raw, |key, raw| {
            let Some(key) = json::decode_string(key) else { return };
            let is_on = match raw {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            };
            let settings = &self.settings;
            let (is_good, allowed) = match &*key {
                "recall" => {
                    self.recalls = is_on;
                    self.recalls_session = json::decode_string(raw).as_deref() == Some("session");
                    (is_on.is_some() || self.recalls_session, "true, false or \"session\"")
                }
                "asked" => {
                    self.asked = parse_count(raw);
                    (self.asked.is_some(), "a message's position")
                }
                "max_context_tokens" => (settings.max_context_tokens.is_some(), NUMBER),
                "context_window" => (settings.context_window.is_some(), NUMBER),
                "reserve_tokens" => (settings.reserve_tokens.is_some(), NUMBER),
                "model" => (settings.model.is_some(), "a text of 1 to 128 bytes without control characters"),
                name => {
                    let switch = match name {
                        "read" => &mut self.is_read,
                        "write" => &mut self.is_written,
                        "look" => &mut self.only_looks,
                        "window" => &mut self.has_window,
                        "summarize" => &mut self.is_summarized,
                        "neighbors" => &mut self.neighbors,
                        _ => return,
                    };
                    *switch = is_on;
                    (is_on.is_some(), "true or false")
                }
            };
            self.expect(is_good, raw, &["memory.", &key], allowed);
        });
        self.expect(read.is_some(), raw, &["memory"], "an object");
    }

    /// Note a member that is neither absent nor what it must be: once, however often it comes.
    fn expect(&mut self, is_good: bool, raw: &str, name: &[&str], allowed: &'static str) {
        if is_good || raw == "null" {
            return;
        }
        let name = name.concat();
        if !self.wrong.iter().any(|(other, _)| *other == name) {
            self.wrong.push((name, allowed));
        }
    }

    /// Warn of members that have no effect.
    pub(crate) fn warn_ignored_members(&self, host: &impl Host, session: &str) {
        for (name, allowed) in &self.wrong {
            let what = ["Ignoring metadata.", name, " of an entry of session ", session, ": it must be ", allowed];
            log::warn(host, log::SESSION, &what);
        }
    }

    /// Whether it is about a node's transcript.
    pub(crate) fn is_node_mode(&self, options: &Options) -> bool {
        self.mode.unwrap_or(options.memory_mode) == MemoryMode::Node
    }

    /// The node whose transcript is meant; `Err`: there is to be one, and none is named. None: the session's.
    pub(crate) fn resolve_node(
        &self,
        options: &Options,
        session: &str,
    ) -> Result<Option<Cow<'static, str>>, NodeMissing> {
        if !self.is_node_mode(options) {
            return Ok(None);
        }
        let node = self.node_id.as_deref().filter(|_| !self.is_node_bad).ok_or(NodeMissing)?;
        Ok(Some(node_bucket_name(self.app_id.as_deref(), session, node).into()))
    }

    /// Whether an answer says that it is not about the transcript of its question: about a node and not the session, or the
    /// other way round.
    pub(crate) fn names_another_transcript(&self, state: &TurnToken<'_>) -> bool {
        let is_of_node = self.mode.map(|mode| mode == MemoryMode::Node);
        !state.turn.is_empty() && is_of_node.is_some_and(|is_of_node| is_of_node != state.node.is_some())
    }

    /// The node that an answer names, if it is another one than its question's: what it leaves out is as it was.
    pub(crate) fn another_node(&self, state: &TurnToken<'_>) -> Option<String> {
        if self.app_id.is_none() && self.node_id.is_none() {
            return None;
        }
        let asked = state.node.as_deref()?;
        let app = self.app_id.as_deref().or(state.app_id.as_deref());
        let named = node_bucket_name(app, &state.session, self.node_id.as_deref().or(state.node_id.as_deref())?);
        Some(named).filter(|named| named != asked)
    }
}

/// Why an entry in node mode has no memory.
pub(crate) fn node_missing_message(session: &str) -> String {
    format!("memory_mode is \"node\", but an entry of session {session} has no node_id, or ids that are not texts")
}

/// Node mode, and no node is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeMissing;

/// The bucket of a session, or of one of its nodes.
pub(crate) fn transcript_bucket<'a>(session: &'a str, node: Option<&'a str>) -> BucketId<'a> {
    match node {
        Some(name) => BucketId { kind: kind::NODE, name },
        None => BucketId::session(session),
    }
}

/// How a node's bucket is opened where it may be a new one.
pub(crate) fn node_precondition(options: &Options) -> Precondition<'static> {
    let milliseconds = crate::options::config::milliseconds(options.node_ttl_hours);
    Precondition::create(milliseconds.map(|milliseconds| TimeToLive { milliseconds, sliding: true }))
}

/// Why an entry passes whose `user_id` is not possible.
pub(crate) const INVALID_USER_ID: &str = ": its user_id is no text of at most 1,024 bytes";

/// Why such an entry is ignored.
pub(crate) fn invalid_user_problem() -> Box<Problem> {
    Problem::invalid("user_id", "user_id must be a text of at most 1,024 bytes")
}

/// Of an entry in node mode that names no node, with `require_node`: the host hands its error on, whatever it does with those
/// of the store.
pub(crate) const NO_NODE: &str = "no-node";

/// Why an entry without a session fails: it is about a node's transcript, and `require_node` is set.
pub(crate) fn missing_session_problem(context: &Context<impl Host>, said: &Directives<'_>) -> Option<Box<Problem>> {
    let options = context.config.conversation.as_ref().filter(|options| options.require_node)?;
    if !said.is_node_mode(options) {
        return None;
    }
    let message = "memory_mode is \"node\", but an entry has no session_id that is valid".to_owned();
    log::warn(&context.host, log::SESSION, &[&message]);
    Some(Problem::new(NO_NODE, "session_id", message))
}

/// References to files that are an array with something in it, without blanks that would break a line.
pub(crate) fn file_references(raw: Option<&str>) -> Option<Cow<'_, str>> {
    let raw = as_container(raw?, '[')?;
    let mut is_empty = true;
    json::for_each_element(&raw, |_| is_empty = false)?;
    if is_empty || json::as_portable_value(&raw).is_none() {
        return None;
    }
    Some(on_one_line(raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_another_type_count_as_absent() {
        let said = Directives::parse(
            r#"{"user_id": null, "parent_message_id": "", "memory_question": null, "files": {}, "memory_mode": "x",
                "memory": {"read": 0, "write": "false", "max_context_tokens": -1}}"#,
        );
        assert!(said.user_id.is_none() && said.parent.is_none() && said.question.is_none() && said.files.is_none());
        assert!(said.is_read.is_none() && said.is_written.is_none() && said.settings == TranscriptSettings::default());
        assert_eq!(said.resolve_node(&Options::default(), "s"), Ok(None));
        assert!(Directives::parse("[1]").user_id.is_none());
    }

    #[test]
    fn an_answer_s_model_usage_and_metadata_become_its_details() {
        for (metadata, details) in [
            (r#"{"model": "m1"}"#, Some(r#"{"model":{"name":"m1"}}"#)),
            (r#"{"usage": {"input": 1}, "model": "m1"}"#, Some(r#"{"model":{"name":"m1","usage":{"input": 1}}}"#)),
            (r#"{"usage": {"input": NaN}}"#, Some(r#"{"model":{"usage":{"input": null}}}"#)),
            (r#"{"model": {"name": "m1"}}"#, Some(r#"{"model":{"name": "m1"}}"#)),
            (r#"{"model": {"name": "m1"}, "usage": {}}"#, Some(r#"{"model":{"name": "m1","usage":{}}}"#)),
            (r#"{"metadata": {"a": 1}, "model": ""}"#, Some(r#"{"metadata":{"a": 1}}"#)),
            (r#"{"metadata": 7, "usage": [], "model": null}"#, None),
        ] {
            assert_eq!(Directives::parse(metadata).answer_details().as_deref(), details, "{metadata}");
        }
    }

    #[test]
    fn a_user_is_absent_or_a_text() {
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
            let said = Directives::parse(&metadata);
            assert_eq!((said.is_user_bad, said.user_id.is_some()), (is_bad, user == "\"anna\""), "{user}");
        }
    }

    #[test]
    fn the_zero_id_names_nobody() {
        let said = Directives::parse(r#"{"parent_message_id": "00000000-0000-0000-0000-000000000000"}"#);
        assert_eq!(said.parent, None);
    }

    #[test]
    fn no_two_nodes_share_a_transcript() {
        let named = |metadata: &str, session: &str| {
            Directives::parse(metadata).resolve_node(&Options::default(), session).unwrap().unwrap().into_owned()
        };
        let node = r#"{"memory_mode": "node", "app_id": "a", "node_id": "b"}"#;
        let names = [
            named(node, "s"),
            named(node, "t"),
            named(r#"{"memory_mode": "node", "node_id": "b"}"#, "s"),
            named(r#"{"memory_mode": "node", "app_id": "as", "node_id": "b"}"#, "s"),
            named(r#"{"memory_mode": "node", "app_id": "b", "node_id": "a"}"#, "s"),
        ];
        // Nor where ids hold what parts them.
        let odd = [
            node_bucket_name(Some("a\0s"), "t", "b"),
            node_bucket_name(Some("a"), "s", "t\0b"),
            node_bucket_name(Some("1\0\0a"), "s", "b"),
            node_bucket_name(None, "a", "s\0b"),
            node_bucket_name(Some("\0"), "s", "\0"),
            node_bucket_name(Some(""), "s", "\0\0"),
        ];
        let names = [&names[..], &odd[..]].concat();
        for (index, name) in names.iter().enumerate() {
            assert!(crate::text::ids::is_session(name), "{name}");
            assert!(!names[..index].contains(name));
        }
        assert_eq!(
            Directives::parse(r#"{"memory_mode": "node"}"#).resolve_node(&Options::default(), "s"),
            Err(NodeMissing)
        );
        let options = Options { memory_mode: MemoryMode::Node, ..Options::default() };
        assert_eq!(Directives::parse("{}").resolve_node(&options, "s"), Err(NodeMissing));
        assert_eq!(Directives::parse(r#"{"memory_mode": "conversation"}"#).resolve_node(&options, "s"), Ok(None));
    }
}
