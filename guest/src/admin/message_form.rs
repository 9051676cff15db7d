//! Converts stored records to the contract's messages, and messages to the JSON that imports read.

use keepline_json::{self as json, ObjectWriter};

use crate::contract::Member;
use crate::contract::transcripts::{Message, ToolPart};
use crate::text::timestamp::{format_timestamp, parse_milliseconds};
use crate::transcript::record::{RecordKind, StoredRecord};

/// Members of a record that a message has fields for.
const FIELDS: [&str; 9] = ["id", "parent", "turn", "role", "kind", "at", "tokens", "tool", "content"];

/// The extra that holds content which is an array.
const PARTS: &str = "parts";

/// A stored record as a message. `text`: what it was parsed from.
pub(crate) fn to_message(position: u64, text: &str, record: &StoredRecord<'_>) -> Option<Message> {
    let mut extras = Vec::new();
    json::for_each_member(text, |key, raw| {
        let Some(name) = json::decode_string(key) else { return };
        let name = if name == "content" && record.parts.is_some() { PARTS.into() } else { name };
        if !FIELDS.contains(&&*name) && name != "vector" {
            extras.push(Member { name: name.into_owned(), value: raw.to_owned() });
        }
    })?;
    let owned = |text: &str| text.to_owned();
    let tool = record.tool.as_ref().map(|tool| ToolPart {
        call_id: owned(&tool.call_id),
        name: owned(&tool.name),
        arguments: tool.arguments.as_deref().map(owned),
        error: tool.error.as_deref().map(owned),
    });
    Some(Message {
        position,
        id: record.id.as_deref().map(owned).unwrap_or_default(),
        parent: record.parent.as_deref().map(owned).unwrap_or_default(),
        turn: owned(&record.turn),
        role: owned(record.role.name()),
        kind: owned(if record.is_removed() { "removed" } else { kind_name(record.kind) }),
        at: parse_milliseconds(&record.at).unwrap_or(0),
        tokens: record.tokens.and_then(|tokens| u32::try_from(tokens).ok()),
        content: record.content.to_string(),
        tool,
        extras: Some(extras),
    })
}

fn kind_name(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::Message => "message",
        RecordKind::ToolCall => "tool-call",
        RecordKind::ToolResult => "tool-result",
        RecordKind::Instruction => "instruction",
        RecordKind::Other => "other",
    }
}

/// A message as a JSON object with the members of a record. `Err`: an extra that is no JSON.
pub(crate) fn to_json(message: &Message) -> Result<String, String> {
    let mut out = ObjectWriter::with_capacity(256 + message.content.len());
    for (name, text) in [("id", &message.id), ("parent", &message.parent), ("turn", &message.turn)] {
        out.text(name, Some(&**text).filter(|text| !text.is_empty()));
    }
    out.text("role", Some(&message.role));
    // What a call, a result or an instruction is, its role and its tool say.
    let is_said = matches!(&*message.kind, "" | "message" | "tool-call" | "tool-result" | "instruction");
    out.text("kind", Some(if is_said { "message" } else { "other" }));
    let extras = message.extras.as_deref().unwrap_or_default();
    if !extras.iter().any(|extra| extra.name == PARTS) {
        out.text("content", Some(&message.content));
    }
    let at = (message.at > 0).then(|| format_timestamp(message.at.saturating_mul(1000)));
    out.json("at", at.as_deref());
    out.count("tokens", message.tokens.map(u64::from));
    if let Some(tool) = &message.tool {
        out.object("tool", |out| {
            out.text("call_id", Some(&tool.call_id));
            out.text("name", Some(&tool.name));
            out.text("arguments", tool.arguments.as_deref());
            out.text("error", tool.error.as_deref());
        });
    }
    for Member { name, value } in extras.iter().filter(|extra| !FIELDS.contains(&&*extra.name)) {
        if !json::is_value(value) {
            return Err(["its ", name, " is no JSON"].concat());
        }
        out.json(if name == PARTS { "content" } else { name }, Some(value));
    }
    Ok(out.finish())
}
