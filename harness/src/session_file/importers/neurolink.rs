//! Reads NeuroLink's conversation memory: a JSON document for each session, `{prefix}{userId}:{sessionId}`.
//!
//! Its tool rows have no ids that pair them: a result belongs to the first call of the same tool that has none.
//! Everything that it keeps of a message beside the text becomes the message's metadata.

use serde_json::{Map, Value, json};

use super::{
    EMPTY, ForeignConversation, NO_CALL, SourceItem, SourceValue, build_message, parse_time_seconds, set_member,
};
use crate::terminal::json_text;

/// Its values for no user and for no title.
const ANONYMOUS_USER: &str = "randomUser";
const UNTITLED: &str = "New Conversation";
/// The longest metadata of a message.
const METADATA_MAX: usize = 64 << 10;
/// Its text for an answer that was cut off.
const INTERRUPTED: &str = "[generation was interrupted]";

pub fn read_conversation(item: &SourceItem) -> Result<Option<ForeignConversation>, String> {
    let SourceValue::Text(text) = &item.value else {
        // The sets of users' sessions.
        return if matches!(item.value, SourceValue::Other(_)) {
            Ok(None)
        } else {
            Err(invalid_session_message("is not a string"))
        };
    };
    let document: Map<String, Value> =
        json_text::parse_lenient(text).map_err(|_| invalid_session_message("is not a JSON object"))?;
    let string = |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let session = string("sessionId").ok_or_else(|| invalid_session_message("has no sessionId"))?.to_owned();
    let rows =
        document.get("messages").and_then(Value::as_array).ok_or_else(|| invalid_session_message("has no messages"))?;
    let mut conversation = ForeignConversation {
        session,
        user: string("userId").filter(|user| *user != ANONYMOUS_USER).map(str::to_owned),
        title: string("title").filter(|title| *title != UNTITLED).map(str::to_owned),
        ..ForeignConversation::default()
    };
    for name in ["tokenThreshold", "lastApiTokenCount", "additionalMetadata"] {
        if document.get(name).is_some_and(|value| !value.is_null()) {
            conversation.left_out.push(format!("its {name}, which has no place here"));
        }
    }
    // Rows without a time are as old as the one before them, the first as the conversation.
    let mut time = string("createdAt").and_then(parse_time_seconds);
    // Calls of the turn that have no result yet: names and ids.
    let mut open: Vec<(String, String)> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let text = |name: &str| row.get(name).and_then(Value::as_str);
        let content = row.get("content").unwrap_or(&Value::Null);
        let tool = text("tool").unwrap_or_default();
        let message = match text("role") {
            _ if row.pointer("/metadata/isSummary") == Some(&Value::Bool(true)) => {
                Err("it is a summary, which will be made anew".to_owned())
            }
            Some("user" | "assistant") if content.as_str() == Some(INTERRUPTED) => Err(EMPTY.to_owned()),
            Some(role @ ("user" | "assistant" | "system")) => build_message(role, content, row.get("id")),
            Some("tool_call") => {
                let id = text("id").map_or_else(|| format!("call-{number}"), str::to_owned);
                let arguments = row.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
                open.push((tool.to_owned(), id.clone()));
                let call = json!({"call_id": id, "name": tool, "arguments": arguments});
                Ok(json!({"role": "assistant", "content": "", "tool": call}))
            }
            Some("tool_result") => {
                let at = open.iter().position(|(name, _)| name == tool).or((!open.is_empty()).then_some(0));
                at.map(|at| read_result(row, content, open.remove(at))).ok_or_else(|| NO_CALL.to_owned())
            }
            _ => {
                return Err(invalid_session_message(&format!(
                    "has a message {} of a role that NeuroLink does not have",
                    number + 1
                )));
            }
        };
        let mut message = match message {
            Ok(message) => message,
            left_out => {
                conversation.add_message(number, left_out);
                continue;
            }
        };
        time = text("timestamp").and_then(parse_time_seconds).or(time);
        set_member(&mut message, "at", time.clone());
        let mut metadata = row.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(events) = row.get("events").filter(|events| events.as_array().is_some_and(|all| !all.is_empty())) {
            metadata.insert("events".to_owned(), events.clone());
        }
        if !metadata.is_empty() {
            let metadata = Value::Object(metadata);
            if metadata.to_string().len() <= METADATA_MAX {
                set_member(&mut message, "metadata", metadata);
            } else {
                conversation.leave_out(number, "its metadata and events, which are longer than 64 KiB");
            }
        }
        conversation.add_message(number, Ok(message));
    }
    if document.get("summarizedMessage").is_some_and(Value::is_string) {
        conversation.left_out.push("its summary, which will be made anew".to_owned());
    }
    Ok(Some(conversation))
}

/// The result of a call, which is given by its name and id.
fn read_result(row: &Value, content: &Value, (name, id): (String, String)) -> Value {
    let error = row.pointer("/result/error").filter(|error| !error.is_null());
    let error = error.map(|error| error.as_str().map_or_else(|| error.to_string(), str::to_owned));
    // A result that is nothing but an error says it, as one that comes as an entry does.
    let is_blank = content.is_null() || content.as_str().is_some_and(|text| text.trim().is_empty());
    let said = error.clone().filter(|_| is_blank).map_or_else(|| content.clone(), Value::from);
    json!({"role": "tool", "content": said, "tool": {"call_id": id, "name": name, "error": error}})
}

fn invalid_session_message(what: &str) -> String {
    format!("it {what}, as a session of NeuroLink would")
}
