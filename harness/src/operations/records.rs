//! Records of a transcript, shortened for a table.

use serde_json::Value;

use crate::terminal::short;

/// Characters of a message that people see in a table.
const SHOWN: usize = 200;

/// A member's text; empty if it is none.
pub fn text_of(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A record's text, or a tool call's name and arguments, shortened.
pub fn said(record: &Value) -> String {
    let tool = record.get("tool").unwrap_or(&Value::Null);
    let text = match record.get("kind").and_then(Value::as_str) {
        Some("tool_call") => format!("{} {}", text_of(tool, "name"), text_of(tool, "arguments")),
        _ => text_of(record, "content"),
    };
    short(text, SHOWN)
}
