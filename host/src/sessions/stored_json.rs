//! Writes messages and records of a history as the JSON objects that are stored of them.

use keepline_json::{self as json, ObjectWriter};

use serde_json::json;

use crate::contract::{
    sessions::{HistoryRecord, HistorySummary},
    transcripts::{Message, ToolPart},
};

impl Message {
    /// The message as JSON, as chat programs and exports have it: `id`, `parent`, `turn`, `kind`, `role`, `content`, `at`
    /// (seconds since 1970), `tokens`, `tool`, and what else is stored with it. What does not apply is left out.
    pub fn to_json(&self) -> String {
        let Self { position: _, id, parent, turn, role, kind, at, tokens, content, tool, extras } = self;
        let mut object = ObjectWriter::with_capacity(content.len() + 256);
        for (name, text) in [("id", id), ("parent", parent), ("turn", turn)] {
            object.text(name, Some(&**text).filter(|text| !text.is_empty()));
        }
        object.text("kind", (kind != "message").then(|| kind.replace('-', "_")).as_deref());
        object.text("role", Some(role));
        let extras = || extras.iter().flatten().filter(|member| json::as_strict_value(&member.value).is_some());
        match extras().find(|member| member.name == "parts") {
            Some(parts) => object.json("content", Some(&parts.value)),
            None => object.text("content", Some(content)),
        }
        if *at > 0 {
            object.json("at", Some(&to_seconds(*at)));
        }
        object.count("tokens", tokens.map(u64::from));
        if let Some(ToolPart { call_id, name, arguments, error }) = tool {
            object.object("tool", |object| {
                object.text("call_id", Some(call_id));
                object.text("name", Some(&**name).filter(|name| !name.is_empty()));
                object.text("arguments", arguments.as_deref());
                object.text("error", error.as_deref());
            });
        }
        for member in extras().filter(|member| !is_own_member(&member.name)) {
            object.json(&member.name, Some(&member.value));
        }
        object.finish()
    }
}

impl HistoryRecord {
    /// The record as JSON: `op`, `key`, `timestamp` (seconds since 1970), and what else its operation has. One that could
    /// not be read has no members.
    pub fn to_json(&self) -> String {
        let Self { operation, key, cleared, summary, at, extras: _ } = self;
        if operation.is_empty() {
            return "{}".to_owned();
        }
        let mut object = ObjectWriter::with_capacity(128);
        object.text("op", Some(operation));
        if let Some(HistorySummary { count, operations, keys }) = summary {
            object.count("summarized_count", Some(*count));
            let counts: Vec<String> =
                operations.iter().map(|one| format!("{}:{}", json!(one.name), one.count)).collect();
            object.json("op_counts", Some(&format!("{{{}}}", counts.join(","))));
            object.json("keys_touched", Some(&json!(keys).to_string()));
        } else {
            object.json("key", Some(&json!(key).to_string()));
            let is_whole = operation == "clear" && key.is_none();
            object.json("cleared", is_whole.then(|| json!(cleared).to_string()).as_deref());
        }
        object.json("timestamp", Some(&to_seconds(*at)));
        object.finish()
    }
}

/// Milliseconds as seconds, in JSON.
fn to_seconds(at: u64) -> String {
    format!("{}.{:03}", at / 1000, at % 1000)
}

/// Whether it is written from a field, or would break the object.
fn is_own_member(name: &str) -> bool {
    const FIELDS: [&str; 9] = ["id", "parent", "turn", "kind", "role", "content", "at", "tokens", "tool"];
    name == "parts" || FIELDS.contains(&name) || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Member;

    #[test]
    fn a_message_is_written_as_it_is_stored() {
        let member = |name: &str, value: &str| Member { name: name.into(), value: value.into() };
        let message = Message {
            position: 7,
            id: "m".into(),
            parent: String::new(),
            turn: "t".into(),
            role: "assistant".into(),
            kind: "tool-call".into(),
            at: 1_500,
            tokens: Some(3),
            content: "a \"b\"".into(),
            tool: Some(ToolPart {
                call_id: "c".into(),
                name: "look".into(),
                arguments: Some("{}".into()),
                error: None,
            }),
            extras: Some(vec![member("status", "\"incomplete\""), member("role", "1"), member("raw", "}")]),
        };
        assert_eq!(
            message.to_json(),
            r#"{"id":"m","turn":"t","kind":"tool_call","role":"assistant","content":"a \"b\"","at":1.500,"tokens":3,"tool":{"call_id":"c","name":"look","arguments":"{}"},"status":"incomplete"}"#
        );
        let parts = Message { extras: Some(vec![member("parts", "[1]")]), ..message };
        assert!(parts.to_json().contains(r#""content":[1],"#));
    }
}
