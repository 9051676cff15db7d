//! Reads conversations in ShareGPT's form: `{"conversations": [{"from": "human", "value": …}, …]}`.

use std::mem;

use serde_json::{Map, Value, json};

use super::{ForeignConversation, NO_CALL, build_message, set_member};
use crate::terminal::json_text;

pub fn read_conversation(document: &Map<String, Value>) -> Result<ForeignConversation, String> {
    let rows = document.get("conversations").and_then(Value::as_array).ok_or("it has no conversations")?;
    Ok(conversation_from_rows((0..).zip(rows)))
}

/// Reads rows, with their places in the file.
pub fn conversation_from_rows<'a>(rows: impl Iterator<Item = (usize, &'a Value)>) -> ForeignConversation {
    let mut conversation = ForeignConversation::default();
    let mut called = String::new();
    for (number, row) in rows {
        conversation.add_message(number, read_row(row, &mut called));
    }
    conversation
}

/// Reads a row. `called` is the function whose result has not come yet.
fn read_row(row: &Value, called: &mut String) -> Result<Value, String> {
    let value = row.get("value").unwrap_or(&Value::Null);
    let role = match row.get("from").and_then(Value::as_str).unwrap_or_default() {
        "human" | "user" => "user",
        "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => "assistant",
        "system" => "system",
        "function_call" => {
            let call = value.as_str().and_then(|text| json_text::parse_lenient::<Map<String, Value>>(text).ok());
            let call = call.filter(|call| call.contains_key("name"));
            let call = call.ok_or("a function_call whose value is not a call in JSON")?;
            *called = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            return Ok(json!({"role": "assistant", "content": null, "function_call": call}));
        }
        "observation" | "tool" | "function_response" => {
            let name = Some(mem::take(called)).filter(|name| !name.is_empty()).ok_or(NO_CALL)?;
            return Ok(json!({"role": "function", "name": name, "content": value}));
        }
        other => return Err(format!("its sender is {other:?}")),
    };
    let mut message = build_message(role, value, row.get("id"))?;
    set_member(&mut message, "at", row.get("timestamp").filter(|at| at.is_number()).cloned());
    Ok(message)
}
