//! Chat histories of LangChain: `RedisChatMessageHistory`.
//!
//! That of `langchain-community` is a list for each session, `message_store:{session_id}`, the newest message first. That of
//! `langchain-redis` is a RedisJSON document for each message, `chat:{session_id}:{id}`: it is read from lines, one document
//! each, and not from a server, which would need that module.

use serde_json::{Map, Value, json};

use super::{Conversation, Item, Stored, message, set};

pub fn read(item: &Item, prefix: &str) -> Result<Option<Conversation>, String> {
    let mut conversation = Conversation::default();
    match &item.value {
        Stored::List(newest_first) => {
            let Some(session) = item.key.strip_prefix(prefix) else { return Ok(None) };
            session.clone_into(&mut conversation.session);
            for (number, text) in newest_first.iter().rev().enumerate() {
                match serde_json::from_str::<Value>(text) {
                    Ok(document) => add(&mut conversation, number, &document),
                    Err(_) => conversation.leave_out(number, "it is not JSON"),
                }
            }
        }
        Stored::Documents(documents) => {
            item.key.clone_into(&mut conversation.session);
            let mut documents: Vec<&Value> = documents.iter().collect();
            let time = |document: &Value| document.get("timestamp").and_then(Value::as_f64).unwrap_or(0.0);
            documents.sort_by(|one, other| time(one).total_cmp(&time(other)));
            for (number, document) in documents.into_iter().enumerate() {
                let count = conversation.messages.len();
                add(&mut conversation, number, document);
                for message in conversation.messages.get_mut(count..).unwrap_or_default() {
                    set(message, "at", document.get("timestamp").cloned().unwrap_or_default());
                }
            }
        }
        Stored::Other(kind) if kind == "ReJSON-RL" => {
            return Err(
                "it is a RedisJSON document of langchain-redis: give the documents as lines of a file".to_owned()
            );
        }
        _ => return Err("it is not a list of messages".to_owned()),
    }
    Ok(Some(conversation))
}

fn add(conversation: &mut Conversation, number: usize, document: &Value) {
    let nothing = Map::new();
    let data = document.get("data").and_then(Value::as_object).unwrap_or(&nothing);
    let content = data.get("content").unwrap_or(&Value::Null);
    let kind = document.get("type").and_then(Value::as_str).unwrap_or_default();
    let role = match kind.trim_end_matches("MessageChunk") {
        "human" | "Human" => "user",
        "ai" | "AI" => "assistant",
        "tool" | "Tool" => "tool",
        "chat" | "Chat" => match data.get("role").and_then(Value::as_str) {
            Some("user" | "human") => "user",
            Some("assistant" | "ai") => "assistant",
            _ => return conversation.leave_out(number, "its role is neither a user's nor an assistant's"),
        },
        "system" | "System" => return conversation.leave_out(number, "system messages are not part of memory"),
        "" => return conversation.leave_out(number, "it has no type"),
        other => return conversation.leave_out(number, &format!("messages of type {other} are not supported")),
    };
    if role == "tool" {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        let is_error = data.get("status").and_then(Value::as_str) == Some("error");
        let tool = json!({
            "call_id": data.get("tool_call_id"), "name": data.get("name").and_then(Value::as_str).unwrap_or_default(),
            "error": is_error.then(|| text.clone()),
        });
        conversation.messages.push(json!({"role": "tool", "content": text, "tool": tool}));
        return;
    }
    let mut said = message(role, content, data.get("id"));
    if let (Some(said), Some(name)) =
        (&mut said, data.get("response_metadata").and_then(|about| about.get("model_name")))
    {
        set(said, "model", json!({"name": name}));
    }
    let calls = data.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if said.is_none() && calls.is_empty() {
        return conversation.leave_out(number, "it is empty");
    }
    conversation.messages.extend(said);
    for call in calls {
        let arguments = call.get("args").unwrap_or(&Value::Null).to_string();
        let tool = json!({"call_id": call.get("id"), "name": call.get("name"), "arguments": arguments});
        conversation.messages.push(json!({"role": "assistant", "content": "", "tool": tool}));
    }
}
