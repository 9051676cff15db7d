//! Reads sessions of other programs as conversations.
//!
//! Nothing is left out silently: what has no place here is named, with the reason. Nothing is guessed: a document that
//! is not as its program writes it is not a conversation.

mod chatgpt;
pub mod dify;
mod langchain;
mod neurolink;
mod openai;
pub mod redis_keys;
pub mod rocketride;
mod sharegpt;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

pub use redis_keys::{SourceItem, SourceValue};

use crate::{args::ImportFormat, operations::records::array_member, terminal::json_text};

impl ImportFormat {
    /// The default prefix of the program's keys.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Langchain => "message_store:",
            Self::Neurolink => "neurolink:conversation:",
            Self::Rocketride => "rr:memory",
            Self::Dify => "node_memory/",
            Self::Auto | Self::Keepline | Self::Chatgpt | Self::Sharegpt | Self::Openai => "",
        }
    }

    /// Whether the program keeps sessions in Redis.
    pub fn has_keys(self) -> bool {
        matches!(self, Self::Langchain | Self::Neurolink | Self::Rocketride)
    }

    /// Whether the program exports files of conversations.
    pub fn has_files(self) -> bool {
        matches!(self, Self::Chatgpt | Self::Sharegpt | Self::Openai)
    }

    /// Reads the conversation under a key; a key that only accompanies conversations has none.
    pub fn read_item(self, item: SourceItem, prefix: &str) -> FoundConversations {
        let read = match self {
            Self::Langchain => langchain::read_conversation(&item, prefix),
            Self::Neurolink => neurolink::read_conversation(&item),
            Self::Dify => dify::read_conversation(&item).map(Some),
            _ => Ok(None),
        };
        let valid = |read: Option<ForeignConversation>| {
            read.map(ForeignConversation::drop_invalid_references).into_iter().collect()
        };
        (item.key, read.map(valid))
    }
}

/// Conversations, with the place where they were found. `Err`: why they are left out.
pub type FoundConversations = (String, Result<Vec<ForeignConversation>, String>);

/// Detects the program that wrote a line.
pub fn detect_program(line: &str) -> Option<ImportFormat> {
    let line: Map<String, Value> = json_text::parse_lenient(line).ok()?;
    let key = line.get("key").and_then(Value::as_str).unwrap_or_default();
    let value = line.get("value").unwrap_or(&Value::Null);
    let document = value.as_str().and_then(|text| json_text::parse_lenient::<Value>(text).ok());
    let has = |name: &str| line.contains_key(name) || document.as_ref().is_some_and(|value| value.get(name).is_some());
    if key.contains("node_memory/") || (has("version") && (has("turns") || has("messages"))) {
        return Some(ImportFormat::Dify);
    }
    if key.starts_with("rr:memory") {
        return Some(ImportFormat::Rocketride);
    }
    if has("sessionId") && has("messages") {
        return Some(ImportFormat::Neurolink);
    }
    if key.starts_with(ImportFormat::Langchain.prefix()) || (has("session_id") && has("data")) {
        return Some(ImportFormat::Langchain);
    }
    let is = |name: &str, is_such: fn(&Value) -> bool| line.get(name).is_some_and(is_such);
    if is("mapping", Value::is_object) {
        Some(ImportFormat::Chatgpt)
    } else if is("conversations", Value::is_array) || (is("from", Value::is_string) && line.contains_key("value")) {
        Some(ImportFormat::Sharegpt)
    } else if is("messages", Value::is_array) || is("role", Value::is_string) || is("message", has_role) {
        Some(ImportFormat::Openai)
    } else {
        None
    }
}

fn has_role(message: &Value) -> bool {
    message.get("role").is_some_and(Value::is_string)
}

/// Conversations of a file that is no dump: of ChatGPT, in ShareGPT's form, or as chat APIs take them. `items` are the
/// elements of its array or its lines, with their numbers; where those are messages, they are one conversation.
pub fn parse_conversations(format: ImportFormat, items: &[(u64, &str)], file: &str) -> Vec<FoundConversations> {
    let parsed = |text: &str| {
        json_text::parse_lenient::<Map<String, Value>>(text)
            .map_err(|error| format!("it is not a JSON object: {error}"))
    };
    let is_message = |document: &Map<String, Value>| {
        !["messages", "conversations", "mapping"].iter().any(|name| document.contains_key(*name))
    };
    let first = items.first().and_then(|(_, text)| parsed(text).ok());
    if first.as_ref().is_some_and(is_message) && format != ImportFormat::Chatgpt {
        let rows: Vec<(u64, Value)> =
            items.iter().map(|(number, text)| (*number, parsed(text).map_or(Value::Null, Value::Object))).collect();
        let rows = rows.iter().map(|(number, row)| (usize::try_from(number - 1).unwrap_or(usize::MAX), row));
        let mut conversation = match format {
            ImportFormat::Sharegpt => sharegpt::conversation_from_rows(rows),
            _ => openai::conversation_from_rows(rows),
        };
        file.clone_into(&mut conversation.session);
        return vec![(file.to_owned(), Ok(vec![conversation.drop_invalid_references()]))];
    }
    let read = |number: u64, text: &str| {
        let document = parsed(text)?;
        let named = ["conversation_id", "session_id", "session", "id"].into_iter().find_map(|name| {
            document.get(name).and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned)
        });
        let name = named.unwrap_or_else(|| if items.len() == 1 { file.to_owned() } else { format!("{file}-{number}") });
        let mut found = match format {
            ImportFormat::Chatgpt => chatgpt::read_conversations(&document, &name)?,
            ImportFormat::Sharegpt => vec![sharegpt::read_conversation(&document)?],
            _ => vec![openai::read_conversation(&document)?],
        };
        for conversation in found.iter_mut().filter(|conversation| conversation.session.is_empty()) {
            name.clone_into(&mut conversation.session);
        }
        Ok(found.into_iter().map(ForeignConversation::drop_invalid_references).collect())
    };
    items.iter().map(|(number, text)| (format!("conversation {number}"), read(*number, text))).collect()
}

/// A conversation of another program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignConversation {
    pub session: String,
    /// The app, if there is one, and the node whose conversation it is.
    pub node: Option<(Option<String>, String)>,
    pub user: Option<String>,
    pub title: Option<String>,
    /// As `set-messages` takes them.
    pub messages: Vec<Value>,
    /// Left-out parts, with the reasons.
    pub left_out: Vec<String>,
}

impl ForeignConversation {
    /// Adds a message, or the reason why it is left out, with its place in the other program's data, from 0.
    pub fn add_message(&mut self, number: usize, message: Result<Value, String>) {
        match message {
            Ok(mut message) => {
                set_member(&mut message, "line", json!(number + 1));
                self.messages.push(message);
            }
            Err(why) => self.leave_out(number, &why),
        }
    }

    pub fn leave_out(&mut self, number: usize, why: &str) {
        self.left_out.push(format!("message {}: {why}", number.saturating_add(1)));
    }

    /// Without what is refused: results of no call, ids that come twice, parents that are not there. Calls without a result
    /// stay, and are named.
    fn drop_invalid_references(mut self) -> Self {
        let (mut ids, mut open) = (HashSet::new(), Vec::<(String, usize)>::new());
        let mut kept = Vec::with_capacity(self.messages.len());
        for mut message in std::mem::take(&mut self.messages) {
            let number = message.get("line").and_then(Value::as_u64).unwrap_or(1).saturating_sub(1) as usize;
            let is_result = message.get("role").and_then(Value::as_str) == Some("tool");
            let mut has_call = false;
            for result in result_ids(&message) {
                if let Some(at) = open.iter().position(|(call, _)| *call == result) {
                    open.remove(at);
                    has_call = true;
                }
            }
            if is_result && !has_call {
                self.leave_out(number, NO_CALL);
                continue;
            }
            open.extend(call_ids(&message).into_iter().map(|call| (call, number)));
            if let Some(parent) = id(&message, "parent")
                && !ids.contains(&parent)
            {
                set_member(&mut message, "parent", Value::Null);
                self.leave_out(number, "its parent is missing; it now follows the message before it");
            }
            if let Some(own) = id(&message, "id")
                && !ids.insert(own)
            {
                set_member(&mut message, "id", Value::Null);
                self.leave_out(number, "its id is a duplicate and was dropped");
            }
            kept.push(message);
        }
        for (call, number) in open {
            self.leave_out(number, &format!("the result of its call {call:?}, which is missing"));
        }
        self.messages = kept;
        self
    }
}

fn id(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// Ids of the calls that a message makes, in each form.
fn call_ids(message: &Value) -> Vec<String> {
    let mut calls: Vec<String> = array_member(message, "tool_calls").iter().filter_map(|call| id(call, "id")).collect();
    let parts = array_member(message, "content").iter();
    let used = parts.filter(|part| part.get("type").is_some_and(|kind| kind == "tool_use"));
    for call in used.filter_map(|part| id(part, "id")) {
        if !calls.contains(&call) {
            calls.push(call);
        }
    }
    if let Some(tool) = message.get("tool").filter(|tool| tool.get("arguments").is_some()) {
        calls.extend(id(tool, "call_id"));
    }
    calls
}

/// Ids of the calls whose results a message brings, in each form.
fn result_ids(message: &Value) -> Vec<String> {
    let parts = array_member(message, "content").iter();
    let given = parts.filter(|part| part.get("type").is_some_and(|kind| kind == "tool_result"));
    let mut results: Vec<String> = given.filter_map(|part| id(part, "tool_use_id")).collect();
    results.extend(id(message, "tool_call_id"));
    if let Some(tool) = message.get("tool").filter(|tool| tool.get("arguments").is_none()) {
        results.extend(id(tool, "call_id"));
    }
    results
}

/// Why a message is left out.
const NO_CALL: &str = "a tool result without a call";
const EMPTY: &str = "it is empty";

/// A message with a text or an array of parts.
///
/// # Errors
/// When it is blank.
fn build_message(role: &str, content: &Value, id: Option<&Value>) -> Result<Value, String> {
    match content {
        Value::String(text) if !text.trim().is_empty() => {}
        Value::Array(parts) if !parts.is_empty() => {}
        _ => return Err(EMPTY.to_owned()),
    }
    Ok(json!({"role": role, "content": content, "id": id.and_then(Value::as_str)}))
}

/// Sets a member of a message, if there is a value.
fn set_member(message: &mut Value, name: &str, value: impl Into<Option<Value>>) {
    if let (Some(members), Some(value)) = (message.as_object_mut(), value.into()) {
        members.insert(name.to_owned(), value);
    }
}

/// Seconds since 1970 of a time as JavaScript and Python write it; without a zone it is UTC.
fn parse_time_seconds(text: &str) -> Option<Value> {
    let instant = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    serde_json::Number::from_f64(instant.as_microsecond() as f64 / 1e6).map(Value::Number)
}
