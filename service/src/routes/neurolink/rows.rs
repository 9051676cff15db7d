//! Messages as rows: what was said, and calls and results of tools as rows of their own.

use std::collections::HashMap;

use keepline::sessions::{Message, ToolPart};
use serde_json::{Value, json, value::RawValue};

use crate::time::instant;

/// The rows of some messages.
pub fn rows(messages: &[Message]) -> Vec<Value> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let messages = messages.iter().filter(|message| message.kind != "removed");
    messages.map(|message| row(message, &mut names)).collect()
}

/// `names`: of tools, by call.
fn row<'a>(message: &'a Message, names: &mut HashMap<&'a str, &'a str>) -> Value {
    let id = if message.id.is_empty() { format!("msg-{}", message.position) } else { message.id.clone() };
    let mut row = json!({"id": id, "role": message.role, "content": message.content});
    if message.at > 0 {
        put(&mut row, "timestamp", instant(message.at).into());
    }
    match &message.tool {
        Some(ToolPart { call_id, name, arguments, .. }) if message.kind == "tool-call" => {
            names.insert(call_id, name);
            put(&mut row, "role", "tool_call".into());
            put(&mut row, "content", "".into());
            put(&mut row, "tool", (&**name).into());
            put(&mut row, "args", arguments_of(arguments.as_deref()));
        }
        Some(ToolPart { call_id, name, error, .. }) if message.kind == "tool-result" => {
            let name = if name.is_empty() { names.get(&**call_id).copied().unwrap_or_default() } else { name };
            put(&mut row, "role", "tool_result".into());
            put(&mut row, "tool", name.into());
            let mut result = json!({"success": error.is_none(), "result": message.content});
            if let Some(error) = error {
                put(&mut result, "error", (&**error).into());
            }
            put(&mut row, "result", result);
        }
        _ => {}
    }
    row
}

/// Arguments that are no JSON are a text.
fn arguments_of(arguments: Option<&str>) -> Value {
    let Some(arguments) = arguments else { return json!({}) };
    let parsed = serde_json::from_str::<&RawValue>(arguments).ok();
    parsed.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_else(|| arguments.into())
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, tool: Option<ToolPart>) -> Message {
        Message {
            position: 3,
            id: String::new(),
            parent: String::new(),
            turn: String::new(),
            role: "assistant".to_owned(),
            kind: kind.to_owned(),
            at: 1_500,
            tokens: None,
            content: "c".to_owned(),
            tool,
            extras: None,
        }
    }

    fn tool(name: &str, error: Option<&str>) -> Option<ToolPart> {
        let arguments = Some(r#"{"a":1}"#.to_owned());
        Some(ToolPart { call_id: "x".into(), name: name.into(), arguments, error: error.map(Into::into) })
    }

    #[test]
    fn a_result_without_a_name_has_that_of_its_call() {
        let messages = [
            message("tool-call", tool("look", None)),
            message("removed", None),
            message("tool-result", tool("", Some("no"))),
        ];
        let rows = rows(&messages);
        assert_eq!(
            (&rows[0]["role"], &rows[0]["args"]["a"], &rows[0]["content"]),
            (&json!("tool_call"), &json!(1), &json!(""))
        );
        assert_eq!((&rows[1]["tool"], &rows[1]["result"]["success"]), (&json!("look"), &json!(false)));
        assert_eq!(rows[0]["timestamp"], "1970-01-01T00:00:01.500Z");
    }
}
