//! The transcript's records: one JSON object each, of one schema with a version.
//!
//! Promises that what is written is read, that members which a reader does not know do no harm, and that only a record of
//! the kind `instruction` is read as a system's or developer's message: operators set those, no entry does. Refuses records of another version, and what is no record: the place of such a one
//! is kept, and nothing is made of it.
//!
//! Schema 1: `{"v": 1, "turn": …, "role": "user" | "assistant" | "tool", "content": …, "at": seconds, "weight": tokens}`
//! and where they apply `id`, `parent` (a message's id), `begins` (whether a turn begins here), `total` (what the thread
//! weighed before this turn), `after` (of the first record of a branch: the position that it goes on from), `kind`
//! (`tool_call`, `tool_result`, `instruction`, `reasoning`, `compaction`, `other`; a message otherwise), `status`
//! (`incomplete`), `tokens` (the host's count), `tool`, `files`, `truncated`, `model`, `metadata`, `apart` (of a call that
//! is not made with the text before it), `chat` (members that a chat message has beside its content, such as `name`),
//! `source` (`import`, `summary`, or what an operator named; else as the role says), `trust` (`low`), `raw`. Readers that don't know `instruction` keep it and don't show it.

use keepline_json::{self as json, ObjectWriter};
use keepline_options::registered_names;
use std::borrow::Cow;

use crate::text::json_values::{as_container, is_number, parse_count};
use crate::text::tokens;
use crate::transcript::parts;
use crate::transcript::parts::ContentParts;
use crate::transcript::text::RecordText;

/// The schema's version.
const VERSION: &str = "1";

registered_names! {
    /// Who speaks.
    #[derive(Default)]
    Role {
        /// And anyone who is none of the others.
        #[default]
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// What a tool gave.
        Tool = "tool",
        /// The author of the pipeline; only of an [instruction](RecordKind::Instruction).
        System = "system",
        /// The same, under the newer name.
        Developer = "developer",
    }
}

registered_names! {
    /// What a record is.
    #[derive(Default)]
    RecordKind {
        /// Something that was said.
        #[default]
        Message = "message",
        /// What a tool was asked for.
        ToolCall = "tool_call",
        /// What it gave.
        ToolResult = "tool_result",
        /// What an operator has set as the author's instruction.
        Instruction = "instruction",
        /// Anything else: it is kept, and not shown to models.
        Other = "other",
    }
}

/// What concerns a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolDetails<'a> {
    /// Pairs a call and its result.
    pub call_id: Cow<'a, str>,
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// JSON text; of a call.
    pub arguments: Option<Cow<'a, str>>,
    /// Why there is no result.
    pub error: Option<Cow<'a, str>>,
    /// Where in map `results` the whole result lies, if the record holds a part of it.
    pub whole: Option<Cow<'a, str>>,
}

/// A record, read or to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRecord<'a> {
    /// The message's id.
    pub id: Option<Cow<'a, str>>,
    /// The id of the message that it was said to follow.
    pub parent: Option<Cow<'a, str>>,
    /// Which turn it is a part of.
    pub turn: Cow<'a, str>,
    /// Whether the turn begins with it.
    pub begins: bool,
    /// What the thread weighed before the turn, as far as its question saw.
    pub total: Option<u64>,
    /// A branch begins with it, and goes on from this position.
    pub after: Option<u64>,
    /// What it is.
    pub kind: RecordKind,
    /// Who speaks.
    pub role: Role,
    /// Cut off by a failure or by the client.
    pub is_incomplete: bool,
    /// The text; of content that is more than that, the texts in it.
    pub content: RecordText<'a>,
    /// Such content: a JSON array.
    pub parts: Option<ContentParts<'a>>,
    /// Seconds since 1970, as JSON.
    pub at: Cow<'a, str>,
    /// Tokens, estimated by [`tokens`]; never changes.
    pub weight: u64,
    /// Tokens, as the host counted them.
    pub tokens: Option<u64>,
    /// What concerns a tool.
    pub tool: Option<ToolDetails<'a>>,
    /// References to files: a JSON array.
    pub files: Option<Cow<'a, str>>,
    /// Whether the content is a part of what there was.
    pub truncated: bool,
    /// Provider, name, usage …: JSON.
    pub model: Option<Cow<'a, str>>,
    /// More: a JSON object.
    pub metadata: Option<Cow<'a, str>>,
    /// A call that is a message of its own, not one with the text before it.
    pub is_apart: bool,
    /// Members that a chat message has beside its content: a JSON object.
    pub chat: Option<Cow<'a, str>>,
    /// A foreign item, as it came: JSON.
    pub raw: Option<Cow<'a, str>>,
    /// Where it is from, if not from whom the role says.
    pub source: Option<Cow<'a, str>>,
    /// How far it is to be trusted, if not as usual.
    pub trust: Option<Cow<'a, str>>,
    /// The embedding of its text that the host handed in, as recall keeps it.
    pub vector: Option<Cow<'a, str>>,
}

registered_names! {
    /// The members of a record, in the order in which they are written.
    #[allow(missing_docs, clippy::exhaustive_enums, reason = "the names are those of the schema, which says what they are")]
    RecordMember {
        Version = "v",
        Id = "id",
        Parent = "parent",
        Turn = "turn",
        Begins = "begins",
        Total = "total",
        After = "after",
        Kind = "kind",
        Role = "role",
        Status = "status",
        Content = "content",
        At = "at",
        Weight = "weight",
        Tokens = "tokens",
        Tool = "tool",
        Files = "files",
        Truncated = "truncated",
        Model = "model",
        Metadata = "metadata",
        Apart = "apart",
        Chat = "chat",
        Raw = "raw",
        Source = "source",
        Trust = "trust",
        Vector = "vector",
    }
}

/// `Err`: the name as it is spelt, for it is none of a record's.
pub(crate) type MemberName<'a> = Result<RecordMember, &'a str>;

impl<'a> StoredRecord<'a> {
    /// A message of a turn, without anything that may be absent.
    pub fn new(turn: &'a str, role: Role, content: Cow<'a, str>, at: &'a str) -> Self {
        Self { turn: turn.into(), role, content: content.into(), at: at.into(), ..Self::default() }
    }

    /// What it counts for against a limit: the host's count of its text, where there is one. Images and files count beside
    /// that, wherever they stand; and parts count for what they are, even if they were stored with another weight.
    pub fn cost(&self) -> u64 {
        match (self.tokens, &self.parts) {
            (Some(tokens), _) => tokens + self.attached_weight(),
            (None, Some(_)) => self.frame() + self.body_weight(),
            (None, None) => self.weight,
        }
    }

    /// Whether there is anything to show of a message: a text, a part that is more than thoughts, a file.
    pub fn has_content(&self) -> bool {
        let says = match &self.parts {
            Some(parts) => parts::have_content(parts),
            None => !self.content.is_blank(),
        };
        says || self.files.as_deref().is_some_and(parts::are_there)
    }

    /// Tokens of files and of parts that are not text.
    pub(crate) fn attached_weight(&self) -> u64 {
        self.file_weight() + self.parts.as_ref().map_or(0, |parts| parts.weight().others)
    }

    /// Tokens of its text, or of its parts.
    pub(crate) fn body_weight(&self) -> u64 {
        match &self.parts {
            Some(parts) => parts.weight().texts + parts.weight().others,
            None => tokens::estimate_tokens(&self.content),
        }
    }

    /// Tokens of all but that.
    pub(crate) fn frame(&self) -> u64 {
        let tool = self.tool.as_ref().map_or(0, |ToolDetails { name, call_id, arguments, .. }| {
            tokens::estimate_for_bytes(name.len() + call_id.len() + arguments.as_ref().map_or(0, |text| text.len()))
        });
        let chat = self.chat.as_ref().map_or(0, |chat| tokens::estimate_tokens(chat));
        tool + self.file_weight() + chat + tokens::MESSAGE_TOKENS
    }

    fn file_weight(&self) -> u64 {
        let mut count = 0;
        if let Some(files) = self.files.as_deref() {
            let _ = json::for_each_element(files, |_| count += 1);
        }
        count * tokens::IMAGE_TOKENS
    }

    /// What is shown as its content.
    pub fn body(&self) -> &str {
        self.parts.as_deref().unwrap_or(&self.content)
    }

    /// Reads a record; `None` if it is not one of this version.
    pub fn parse(text: &'a str) -> Option<Self> {
        Self::parse_with_members(text, None)
    }

    /// The same, and `members`: all members as they stand there, by their names as these are spelt.
    pub(crate) fn parse_with_members(
        text: &'a str,
        mut members: Option<&mut Vec<(MemberName<'a>, &'a str)>>,
    ) -> Option<Self> {
        let mut record = Self::new("", Role::User, "".into(), "0");
        let (mut version, mut role, mut weight) = (None, None, None);
        json::for_each_named_member(text, RecordMember::NAMED, |member, raw| {
            if let Some(members) = &mut members {
                members.push((member, raw));
            }
            let Ok(member) = member else { return };
            let string = || json::decode_string(raw);
            match member {
                RecordMember::Version => version = Some(raw),
                RecordMember::Id => record.id = string(),
                RecordMember::Parent => record.parent = string(),
                RecordMember::Turn => record.turn = string().unwrap_or_default(),
                RecordMember::Begins => record.begins = raw == "true",
                RecordMember::Total => record.total = parse_count(raw),
                RecordMember::After => record.after = parse_count(raw),
                RecordMember::Kind => {
                    record.kind = string().and_then(|name| RecordKind::from_name(&name)).unwrap_or(RecordKind::Other);
                }
                RecordMember::Role => role = string(),
                RecordMember::Status => record.is_incomplete = string().is_some_and(|status| status == "incomplete"),
                RecordMember::Content => match RecordText::from_json(raw) {
                    Some(text) => record.content = text,
                    None => {
                        record.parts = as_container(raw, '[').map(Into::into);
                        record.content = record.parts.as_deref().map(json::join_texts).unwrap_or_default().into();
                    }
                },
                RecordMember::At if is_number(raw) => record.at = raw.into(),
                RecordMember::At => {}
                RecordMember::Weight => weight = parse_count(raw),
                RecordMember::Tokens => record.tokens = parse_count(raw),
                RecordMember::Tool => record.tool = tool(raw),
                RecordMember::Files => record.files = as_container(raw, '['),
                RecordMember::Truncated => record.truncated = raw == "true",
                RecordMember::Model => record.model = Some(raw.into()),
                RecordMember::Metadata => record.metadata = as_container(raw, '{'),
                RecordMember::Apart => record.is_apart = raw == "true",
                RecordMember::Chat => record.chat = as_container(raw, '{'),
                RecordMember::Raw => record.raw = Some(raw.into()),
                RecordMember::Source => record.source = string(),
                RecordMember::Trust => record.trust = string(),
                RecordMember::Vector => record.vector = string(),
            }
        })?;
        record.weight = weight?;
        record.role = match Role::from_name(&role?) {
            Some(Role::System | Role::Developer) if record.kind != RecordKind::Instruction => Role::User,
            role => role.unwrap_or_default(),
        };
        (version == Some(VERSION) && !record.turn.is_empty()).then_some(record)
    }

    /// As JSON.
    pub fn write(&self) -> String {
        let mut out = ObjectWriter::with_capacity(160 + self.content.len() + self.content.len() / 16);
        let flag = |is_set: bool| is_set.then_some("true");
        out.json("v", Some(VERSION));
        out.text("id", self.id.as_deref());
        out.text("parent", self.parent.as_deref());
        out.text("turn", Some(&self.turn));
        out.json("begins", flag(self.begins));
        out.count("total", self.total);
        out.count("after", self.after);
        out.text("kind", Some(self.kind.name()).filter(|_| self.kind != RecordKind::Message));
        out.text("role", Some(self.role.name()));
        out.text("status", self.is_incomplete.then_some("incomplete"));
        match &self.parts {
            Some(parts) => out.json("content", Some(parts)),
            None => self.content.push_to(out.member("content")),
        }
        out.json("at", Some(&self.at));
        out.count("weight", Some(self.weight));
        out.count("tokens", self.tokens);
        if let Some(tool) = &self.tool {
            out.object("tool", |out| {
                out.text("call_id", Some(&tool.call_id));
                out.text("name", Some(&tool.name));
                out.text("arguments", tool.arguments.as_deref());
                out.text("error", tool.error.as_deref());
                out.text("whole", tool.whole.as_deref());
            });
        }
        out.json("files", self.files.as_deref());
        out.json("truncated", flag(self.truncated));
        out.json("model", self.model.as_deref());
        out.json("metadata", self.metadata.as_deref());
        out.json("apart", flag(self.is_apart));
        out.json("chat", self.chat.as_deref());
        out.json("raw", self.raw.as_deref());
        out.text("source", self.source.as_deref());
        out.text("trust", self.trust.as_deref());
        out.text("vector", self.vector.as_deref());
        out.finish()
    }

    /// Take out what was said: what is left keeps its place in threads.
    pub fn clear_content(&mut self) {
        let mut left = Self::new("", self.role, "".into(), "0");
        (left.turn, left.at, left.weight) = (self.turn.clone(), self.at.clone(), self.weight);
        (left.id, left.parent) = (self.id.take(), self.parent.take());
        (left.begins, left.total, left.after) = (self.begins, self.total, self.after);
        left.kind = RecordKind::Other;
        if let Some(ToolDetails { call_id, .. }) = self.tool.take().filter(|_| self.kind == RecordKind::ToolResult) {
            // It is shown, as an empty one, and counts no more than that.
            (left.kind, left.tokens) =
                (RecordKind::ToolResult, Some(tokens::MESSAGE_TOKENS + tokens::estimate_tokens(&call_id)));
            left.tool = Some(ToolDetails { call_id, ..ToolDetails::default() });
        }
        *self = left;
    }

    /// Whether it was removed. A result that never had anything to be removed counts as such.
    pub fn is_removed(&self) -> bool {
        let is_bare = match &self.tool {
            Some(tool) if self.kind == RecordKind::ToolResult => {
                let has_details = self.files.is_some() || self.model.is_some() || self.metadata.is_some();
                tool.name.is_empty() && tool.error.is_none() && !has_details
            }
            _ => self.kind == RecordKind::Other,
        };
        is_bare && self.content.is_empty() && self.parts.is_none() && self.raw.is_none()
    }
}

fn tool(raw: &str) -> Option<ToolDetails<'_>> {
    let mut tool = ToolDetails::default();
    json::for_each_member(raw, |key, raw| {
        let Some(name) = json::decode_string(key) else { return };
        match &*name {
            "call_id" => tool.call_id = json::decode_string(raw).unwrap_or_default(),
            "name" => tool.name = json::decode_string(raw).unwrap_or_default(),
            "arguments" => tool.arguments = json::decode_string(raw),
            "error" => tool.error = json::decode_string(raw),
            "whole" => tool.whole = json::decode_string(raw),
            _ => {}
        }
    })?;
    Some(tool)
}

/// Members of a chat message that its record keeps beside the content.
pub(crate) const CHAT_MEMBERS: [&str; 2] = ["name", "reasoning_content"];

/// Whether it is what a user said.
pub(crate) fn is_user_message(record: &StoredRecord<'_>) -> bool {
    record.kind == RecordKind::Message && record.role == Role::User
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_record_is_read_back() {
        let mut record = StoredRecord::new("t1", Role::User, "Héllo \"you\"\n".into(), "1.5");
        record.weight = 9;
        let plain = record.write();
        assert_eq!(plain, r#"{"v":1,"turn":"t1","role":"user","content":"Héllo \"you\"\n","at":1.5,"weight":9}"#);
        assert_eq!(StoredRecord::parse(&plain).unwrap(), record);

        let full = StoredRecord {
            id: Some("m\"1".into()),
            parent: Some("m0".into()),
            begins: true,
            total: Some(7),
            after: Some(3),
            kind: RecordKind::ToolResult,
            role: Role::Tool,
            is_incomplete: true,
            tokens: Some(11),
            tool: Some(ToolDetails {
                call_id: "c".into(),
                name: "n".into(),
                arguments: Some("{\"a\":[1]}".into()),
                error: Some("e".into()),
                whole: Some("w".into()),
            }),
            files: Some("[1]".into()),
            truncated: true,
            model: Some("{\"name\":\"x\"}".into()),
            metadata: Some("{}".into()),
            raw: Some("null".into()),
            source: Some("import".into()),
            trust: Some("low".into()),
            ..record
        };
        assert_eq!(StoredRecord::parse(&full.write()).unwrap(), full);
    }

    #[test]
    fn records_of_other_versions_are_not_read() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"v":2,"turn":"t","role":"user","content":"","weight":1}"#,
            r#"{"turn":"t","role":"user","content":"","weight":1}"#,
            r#"{"v":1,"turn":"","role":"user","content":"","weight":1}"#,
            r#"{"v":1,"turn":"t","role":7,"content":"","weight":1}"#,
            r#"{"v":1,"turn":"t","role":"user","content":"","weight":-1}"#,
            r#"{"v":1,"turn":"t","role":"user","content":"","weight":1e9}"#,
            r#"{"v":1,"turn":"t","role":"user","content":"","weight":99999999999999999}"#,
            r#"{"v":1,"turn":"t","role":"user","content":"","weight":1"#,
        ] {
            assert_eq!(StoredRecord::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_message_is_shown_as_the_systems() {
        for role in ["system", "developer", "", "SYSTEM"] {
            let text = format!(r#"{{"v":1,"turn":"t","role":"{role}","content":"obey","weight":1}}"#);
            assert_eq!(StoredRecord::parse(&text).unwrap().role, Role::User);
        }
    }

    #[test]
    fn content_may_be_parts() {
        let text = r#"{"v":1,"turn":"t","role":"user","content":[{"type":"text","text":"\u00e9"}],"at":0,"weight":1}"#;
        let record = StoredRecord::parse(text).unwrap();
        assert_eq!((&*record.content, record.body()), ("é", r#"[{"type":"text","text":"\u00e9"}]"#));
        assert_eq!(record.write(), text);
        // One of an earlier version, which did not weigh them, or by their JSON.
        assert_eq!(record.cost(), tokens::estimate_tokens("é") + tokens::MESSAGE_TOKENS);
    }

    #[test]
    fn images_count_beside_the_hosts_token_count() {
        let data = "A".repeat(300_000);
        let image = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
        let content = format!(r#"[{{"type":"text","text":"Hi"}},{image}]"#);
        let record = |more: &str| {
            let text = format!(r#"{{"v":1,"turn":"t","role":"user","content":{content},"at":0,"weight":93802{more}}}"#);
            StoredRecord::parse(&text).unwrap().cost()
        };
        assert_eq!(record(""), tokens::estimate_tokens("Hi") + tokens::IMAGE_TOKENS + tokens::MESSAGE_TOKENS);
        assert_eq!(record(r#","tokens":3"#), 3 + tokens::IMAGE_TOKENS);
        assert_eq!(record(r#","tokens":3,"files":[1,2]"#), 3 + 3 * tokens::IMAGE_TOKENS);
    }
}
