//! What other programs have kept, as conversations of ours.
//!
//! | module | holds |
//! |---|---|
//! | `langchain` | chat histories of LangChain |
//! | `neurolink` | conversation memory of NeuroLink |
//! | `rocketride` | sessions of RocketRide's node `memory_persistent` |
//! | `dify` | node memory of Dify, read and written |
//! | `source` | a Redis of theirs, and dumps of one |
//!
//! Promises to leave out nothing without a word: what has no place here is named, with the reason. Refuses to guess: a
//! document that is not as its program writes it is no conversation.

pub mod dify;
mod langchain;
mod neurolink;
pub mod rocketride;
pub mod source;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

pub use source::{Item, Stored};

/// A program whose sessions can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    LangChain,
    NeuroLink,
    RocketRide,
    Dify,
}

impl Program {
    /// What its keys begin with, unless it was told otherwise.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::LangChain => "message_store:",
            Self::NeuroLink => "neurolink:conversation:",
            Self::RocketRide => "rr:memory",
            Self::Dify => "node_memory/",
        }
    }

    /// What a key of its holds. None: no conversation, but something that belongs to one. `Err`: why it is left out.
    pub fn read(self, item: &Item, prefix: &str) -> Result<Option<Conversation>, String> {
        let conversation = match self {
            Self::LangChain => langchain::read(item, prefix)?,
            Self::NeuroLink => neurolink::read(item, prefix)?,
            Self::Dify => dify::read(item)?,
            Self::RocketRide => None,
        };
        Ok(conversation.map(Conversation::tidied))
    }
}

/// Which program wrote a line, as far as it shows.
pub fn written_by(line: &str) -> Option<Program> {
    let line: Map<String, Value> = serde_json::from_str(line).ok()?;
    let key = line.get("key").and_then(Value::as_str).unwrap_or_default();
    let value = line.get("value").unwrap_or(&Value::Null);
    let document = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let has = |name: &str| line.contains_key(name) || document.as_ref().is_some_and(|value| value.get(name).is_some());
    if key.contains("node_memory/") || (has("version") && (has("turns") || has("messages"))) {
        return Some(Program::Dify);
    }
    if key.starts_with("rr:memory") {
        return Some(Program::RocketRide);
    }
    if has("sessionId") && has("messages") {
        return Some(Program::NeuroLink);
    }
    let is_history = key.starts_with(Program::LangChain.prefix()) || (has("session_id") && has("data"));
    is_history.then_some(Program::LangChain)
}

/// A conversation of another program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    pub session: String,
    /// The app, if there is one, and the node whose conversation it is.
    pub node: Option<(Option<String>, String)>,
    pub user: Option<String>,
    pub title: Option<String>,
    /// As `set-messages` takes them.
    pub messages: Vec<Value>,
    /// What is left out, and why.
    pub left_out: Vec<String>,
}

impl Conversation {
    /// A message that was left out.
    pub fn leave_out(&mut self, number: usize, why: &str) {
        self.left_out.push(format!("message {}: {why}", number + 1));
    }

    /// Without what is refused: results of no call, ids that come twice, parents that are not there.
    fn tidied(mut self) -> Self {
        let (mut ids, mut calls, mut results) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut kept = Vec::with_capacity(self.messages.len());
        for (number, mut message) in std::mem::take(&mut self.messages).into_iter().enumerate() {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
            if text(message.get("role")).as_deref() == Some("user") {
                calls.clear();
                results.clear();
            }
            if let Some(call) = text(message.pointer("/tool/call_id")) {
                if message.pointer("/tool/arguments").is_some() {
                    calls.insert(call);
                } else if !calls.contains(&call) || !results.insert(call) {
                    self.leave_out(number, "a tool result without a call");
                    continue;
                }
            }
            if let Some(parent) = text(message.get("parent"))
                && !ids.contains(&parent)
            {
                set(&mut message, "parent", Value::Null);
                self.left_out.push(format!(
                    "message {}: its parent is missing; it now follows the message before it",
                    number + 1
                ));
            }
            if let Some(id) = text(message.get("id"))
                && !ids.insert(id)
            {
                set(&mut message, "id", Value::Null);
                self.left_out.push(format!("message {}: its id is a duplicate and was dropped", number + 1));
            }
            kept.push(message);
        }
        self.messages = kept;
        self
    }
}

/// A message with a text, or with an array of parts. Nothing is said in it: none.
fn message(role: &str, content: &Value, id: Option<&Value>) -> Option<Value> {
    let is_blank = match content {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => true,
    };
    (!is_blank).then(|| json!({"role": role, "content": content, "id": id.and_then(Value::as_str)}))
}

/// A member of a message.
fn set(message: &mut Value, name: &str, value: Value) {
    if let Some(members) = message.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

/// Seconds since 1970 of a time as JavaScript and Python write it; without a zone it is UTC.
fn seconds(text: &str) -> Option<Value> {
    let instant = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })?;
    serde_json::Number::from_f64(instant.as_microsecond() as f64 / 1e6).map(Value::Number)
}
