//! Checks whether APIs for chat completions would accept a window.
//!
//! Promises to look at the messages alone, and to know nothing of how windows are made.

use std::collections::BTreeSet;

use serde_json::Value;

/// What is wrong with a window; none: nothing. `waits`: its last calls may lack results, which the question comes with.
#[must_use]
pub fn fault(messages: &[Value], waits: bool) -> Option<String> {
    let mut rest = messages.iter().enumerate().peekable();
    while let Some((index, message)) = rest.next() {
        let role = message["role"].as_str().unwrap_or_default();
        if index == 0 && role != "user" {
            return Some(format!("it begins with {message}"));
        }
        let has_content = has_content(&message["content"]);
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        let is_good = match role {
            "user" => has_content && calls.is_empty(),
            "assistant" => has_content || !calls.is_empty() || message["refusal"].is_string(),
            // Those that belong to calls were passed.
            _ => false,
        };
        if !is_good {
            return Some(format!("message {index} can't stand there: {message}"));
        }
        let mut ids = BTreeSet::new();
        for call in calls {
            let is_good = call["function"]["name"].is_string() && call["function"]["arguments"].is_string();
            if !is_good || !ids.insert(call["id"].as_str()?) {
                return Some(format!("call {call} of message {index} is none, or has the id of another"));
            }
        }
        while let Some((index, result)) = rest.next_if(|(_, next)| next["role"] == "tool") {
            if !ids.remove(result["tool_call_id"].as_str().unwrap_or_default()) || result["content"].is_null() {
                return Some(format!("message {index} is no result of the calls before it: {result}"));
            }
        }
        let is_last = rest.peek().is_none();
        if !(ids.is_empty() || waits && is_last) {
            return Some(format!("calls {ids:?} of message {index} have no result"));
        }
    }
    None
}

fn has_content(content: &Value) -> bool {
    match content {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => {
            let says = |part: &Value| part["text"].as_str().is_none_or(|text| !text.trim().is_empty());
            !parts.is_empty() && parts.iter().all(says)
        }
        _ => false,
    }
}
