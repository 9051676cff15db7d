//! Converts stored records to the contract's messages, and messages to the JSON that imports read.

use std::borrow::Cow;

use keepline_json::{self as json, ObjectWriter};

use crate::contract::Member;
use crate::contract::transcripts::{Message, ToolPart};
use crate::text::timestamp::{format_timestamp, parse_milliseconds};
use crate::transcript::record::{MemberName, RecordKind, RecordMember, StoredRecord};

/// Members of a record that a message has fields for.
const FIELDS: [RecordMember; 9] = [
    RecordMember::Id,
    RecordMember::Parent,
    RecordMember::Turn,
    RecordMember::Role,
    RecordMember::Kind,
    RecordMember::At,
    RecordMember::Tokens,
    RecordMember::Tool,
    RecordMember::Content,
];

/// The extra that holds content which is an array.
const PARTS: &str = "parts";

/// A stored record as a message. `members`: those that it was parsed from.
pub(crate) fn to_message(position: u64, record: &StoredRecord<'_>, members: &[(MemberName<'_>, &str)]) -> Message {
    let owned = |text: &str| text.to_owned();
    let mut extras = Vec::new();
    for (name, raw) in members {
        let name = match name {
            Ok(RecordMember::Content) if record.parts.is_some() => Cow::Borrowed(PARTS),
            Ok(RecordMember::Vector) => continue,
            Ok(member) if FIELDS.contains(member) => continue,
            Ok(member) => Cow::Borrowed(member.name()),
            Err(spelt) => match json::decode_string(spelt) {
                Some(name) => name,
                None => continue,
            },
        };
        extras.push(Member { name: name.into_owned(), value: owned(raw) });
    }
    let tool = record.tool.as_ref().map(|tool| ToolPart {
        call_id: owned(&tool.call_id),
        name: owned(&tool.name),
        arguments: tool.arguments.as_deref().map(owned),
        error: tool.error.as_deref().map(owned),
    });
    Message {
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
    }
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

fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|field| field.name() == name)
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
    for Member { name, value } in extras.iter().filter(|extra| !is_field(&extra.name)) {
        if !json::is_value(value) {
            return Err(["its ", name, " is no JSON"].concat());
        }
        out.json(if name == PARTS { "content" } else { name }, Some(value));
    }
    Ok(out.finish())
}
