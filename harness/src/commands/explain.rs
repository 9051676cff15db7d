//! `keepline explain`: shows what a question would get, what was left out of it, and why.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use crate::{
    app::with_keepline,
    args::{Access, ExplainArguments, Global},
    operations::{
        recall::{MEMBER, table},
        window::window,
    },
    terminal::{self, json_text::cell, print_result},
};

/// `keepline explain`.
pub fn main(global: &Global, arguments: &ExplainArguments) -> Result<ExitCode> {
    with_keepline(global, Access::Read, async |keepline, _, _| {
        let mut sessions = keepline.sessions();
        let passed = window(&keepline, &mut sessions, &arguments.window).await?;
        let metadata: Value = serde_json::from_str(passed.metadata.as_deref().unwrap_or("{}"))?;
        let trace = metadata.get("memory_trace").unwrap_or(&Value::Null);
        let recalled = metadata.get(MEMBER);
        if arguments.json {
            let mut told = trace.clone();
            if let (Some(members), Some(recalled)) = (told.as_object_mut(), recalled) {
                members.insert("recalled".to_owned(), recalled.clone());
            }
            return print_result(true, &told, "");
        }
        let mut rows = Vec::new();
        let mut turns = Vec::new();
        for (name, value) in trace.as_object().into_iter().flatten() {
            match value {
                Value::Array(all) if all.iter().all(Value::is_object) && !all.is_empty() => turns.extend(all),
                value => rows.push(in_words(name, value)),
            }
        }
        terminal::print_table(["", "Window"], rows)?;
        let rows = turns.into_iter().map(|turn| [cell(&turn.to_string())]).collect();
        terminal::print_table(["Turns"], rows)?;
        recalled.map_or(Ok(()), table)
    })
}

/// What the trace tells under a name, for people.
fn in_words(name: &str, value: &Value) -> [String; 2] {
    match (name, value) {
        ("skipped", Value::Object(counts)) => {
            let counts: Vec<String> = counts.iter().map(|(why, count)| format!("{count} {}", reason(why))).collect();
            ["answers not stored".to_owned(), counts.join(", ")]
        }
        ("truncated", count) => ["texts cut when stored".to_owned(), count.to_string()],
        ("stable_since", tokens) => ["stable since".to_owned(), format!("{tokens} tokens of the thread")],
        (_, Value::String(text)) => [name.replace('_', " "), text.clone()],
        _ => [name.replace('_', " "), value.to_string()],
    }
}

/// Why answers were skipped.
fn reason(code: &str) -> &str {
    match code {
        "marker" => "one of skip_markers",
        "too-short" => "shorter than min_message_length",
        other => other,
    }
}
