//! Reads conversations in ShareGPT's form: `{"conversations": [{"from": "human", "value": …}, …]}`.

use serde_json::{Map, Value, json};

use super::{ForeignConversation, build_message, set_member};
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
        let value = row.get("value").unwrap_or(&Value::Null);
        let role = match row.get("from").and_then(Value::as_str).unwrap_or_default() {
            "human" | "user" => "user",
            "gpt" | "assistant" | "chatgpt" | "bing" | "bard" | "model" => "assistant",
            "system" => "system",
            "function_call" => {
                let call = value.as_str().and_then(|text| json_text::parse_lenient::<Map<String, Value>>(text).ok());
                let Some(call) = call.filter(|call| call.contains_key("name")) else {
                    conversation.leave_out(number, "a function_call whose value is not a call in JSON");
                    continue;
                };
                called = call.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                conversation.push_message(number, json!({"role": "assistant", "content": null, "function_call": call}));
                continue;
            }
            "observation" | "tool" | "function_response" if !called.is_empty() => {
                conversation.push_message(number, json!({"role": "function", "name": called, "content": value}));
                called.clear();
                continue;
            }
            "observation" | "tool" | "function_response" => {
                conversation.leave_out(number, "a tool result without a call");
                continue;
            }
            other => {
                conversation.leave_out(number, &format!("its sender is {other:?}"));
                continue;
            }
        };
        match build_message(role, value, row.get("id")) {
            Some(mut said) => {
                if let Some(at) = row.get("timestamp").filter(|at| at.is_number()) {
                    set_member(&mut said, "at", at.clone());
                }
                conversation.push_message(number, said);
            }
            None => conversation.leave_out(number, "it is empty"),
        }
    }
    conversation
}
