//! Records of a transcript, shortened for a table.

use serde_json::Value;

use crate::terminal::truncate_text;

/// Characters of a message that people see in a table.
const PREVIEW_CHARACTERS: usize = 200;

/// A member's text; empty if it is not a string.
pub fn text_member(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A member's elements; none if it is no array.
pub fn array_member<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A record's text, or a tool call's name and arguments, shortened.
pub fn record_preview(record: &Value) -> String {
    let tool = record.get("tool").unwrap_or(&Value::Null);
    let text = match record.get("kind").and_then(Value::as_str) {
        Some("tool_call") => format!("{} {}", text_member(tool, "name"), text_member(tool, "arguments")),
        _ => text_member(record, "content"),
    };
    truncate_text(text, PREVIEW_CHARACTERS)
}
