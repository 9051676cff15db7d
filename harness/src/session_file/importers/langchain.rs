//! Reads chat histories of LangChain's `RedisChatMessageHistory`.
//!
//! `langchain-community` keeps a list for each session, `message_store:{session_id}`, newest message first.
//! `langchain-redis` keeps a RedisJSON document for each message, `chat:{session_id}:{id}`: these are read from lines,
//! one document each, and not from a server, which would need that module.

use serde_json::{Value, json};

use super::{ForeignConversation, SourceItem, SourceValue, build_message, set_member};
use crate::{
    operations::records::{array_member, text_member},
    terminal::json_text,
};

pub fn read_conversation(item: &SourceItem, prefix: &str) -> Result<Option<ForeignConversation>, String> {
    let mut conversation = ForeignConversation::default();
    match &item.value {
        SourceValue::List(newest_first) => {
            let Some(session) = item.key.strip_prefix(prefix) else { return Ok(None) };
            session.clone_into(&mut conversation.session);
            for (place, text) in newest_first.iter().enumerate().rev() {
                let document = json_text::parse_lenient::<Value>(text).map_err(|_| "it is not JSON".to_owned());
                let message = document.and_then(|document| read_message(&mut conversation, place, &document));
                conversation.add_message(place, message);
            }
        }
        SourceValue::Documents(documents) => {
            item.key.clone_into(&mut conversation.session);
            let mut documents: Vec<(usize, &Value)> = documents.iter().enumerate().collect();
            let time = |document: &Value| document.get("timestamp").and_then(Value::as_f64).unwrap_or(0.0);
            documents.sort_by(|(_, one), (_, other)| time(one).total_cmp(&time(other)));
            for (place, document) in documents {
                let mut message = read_message(&mut conversation, place, document);
                if let Ok(message) = &mut message {
                    set_member(message, "at", document.get("timestamp").cloned().unwrap_or_default());
                }
                conversation.add_message(place, message);
            }
        }
        SourceValue::Other(kind) if kind == "ReJSON-RL" => {
            return Err(
                "it is a RedisJSON document of langchain-redis: give the documents as lines of a file".to_owned()
            );
        }
        _ => return Err("it is not a list of messages".to_owned()),
    }
    Ok(Some(conversation))
}

/// Reads a message; what has no place among its members is named.
fn read_message(conversation: &mut ForeignConversation, number: usize, document: &Value) -> Result<Value, String> {
    let data = document.get("data").unwrap_or(&Value::Null);
    let content = data.get("content").unwrap_or(&Value::Null);
    let kind = document.get("type").and_then(Value::as_str).unwrap_or_default();
    let role = match kind.trim_end_matches("MessageChunk") {
        "human" | "Human" => "user",
        "ai" | "AI" => "assistant",
        "tool" | "Tool" => "tool",
        "function" | "Function" => "function",
        "system" | "System" => "system",
        "chat" | "Chat" => match data.get("role").and_then(Value::as_str) {
            Some("user" | "human") => "user",
            Some("assistant" | "ai") => "assistant",
            Some(role @ ("system" | "developer")) => role,
            _ => return Err("its role is neither a user's nor an assistant's".to_owned()),
        },
        "" => return Err("it has no type".to_owned()),
        other => return Err(format!("messages of type {other} are not supported")),
    };
    let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    if role == "function" {
        return Ok(json!({"role": "function", "name": text_member(data, "name"), "content": text}));
    }
    if role == "tool" {
        let shown = if content.is_array() { content.clone() } else { text.as_str().into() };
        let error = (text_member(data, "status") == "error").then_some(text);
        let tool = json!({"call_id": data.get("tool_call_id"), "name": text_member(data, "name"), "error": error});
        return Ok(json!({"role": "tool", "content": shown, "tool": tool}));
    }
    let filled = |value: Option<&Value>| value.filter(|value| !is_empty_value(value)).cloned();
    let mut said = json!({"role": role, "content": content, "id": data.get("id").and_then(Value::as_str)});
    set_member(&mut said, "name", filled(data.get("name")));
    let about = data.get("response_metadata");
    let mut model = json!({});
    set_member(
        &mut model,
        "name",
        filled(about.and_then(|about| about.get("model_name").or_else(|| about.get("model")))),
    );
    set_member(&mut model, "usage", filled(data.get("usage_metadata")));
    set_member(&mut said, "model", filled(Some(&model)));
    let calls = array_member(data, "tool_calls");
    for (name, value) in data.get("additional_kwargs").and_then(Value::as_object).into_iter().flatten() {
        match &**name {
            _ if is_empty_value(value) => {}
            // The calls are among the message's own members as well.
            "tool_calls" => {}
            "function_call" if !calls.is_empty() => {}
            "reasoning_content" | "refusal" | "function_call" => set_member(&mut said, name, value.clone()),
            other => conversation.leave_out(number, &format!("its {other}, among additional_kwargs")),
        }
    }
    if filled(data.get("invalid_tool_calls")).is_some() {
        conversation.leave_out(number, "its invalid_tool_calls");
    }
    if !calls.is_empty() {
        let call = |(index, call): (usize, &Value)| {
            let id =
                call.get("id").and_then(Value::as_str).map_or_else(|| format!("call-{number}-{index}"), str::to_owned);
            let arguments = call.get("args").unwrap_or(&Value::Null).to_string();
            json!({"id": id, "type": "function", "function": {"name": call.get("name"), "arguments": arguments}})
        };
        set_member(&mut said, "tool_calls", calls.iter().enumerate().map(call).collect::<Value>());
    }
    let has_more = ["tool_calls", "function_call", "refusal"].iter().any(|name| said.get(*name).is_some());
    if !has_more {
        build_message(role, content, None)?;
    }
    Ok(said)
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}
