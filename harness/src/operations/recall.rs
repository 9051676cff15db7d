//! Shows the passages that a question recalled.

use anyhow::Result;
use serde_json::Value;

use super::records::{array_member, text_member};
use crate::terminal;

/// The member of the metadata with the recalled passages.
pub const RECALL_MEMBER: &str = "memory_recall";

pub fn print_passages(recalled: &Value) -> Result<()> {
    let passages = array_member(recalled, "passages");
    let rows = passages.iter().map(passage_row).collect();
    terminal::print_table(["Session", "Position", "Date", "Role", "Score", "Why", "Text"], rows)
}

fn passage_row(passage: &Value) -> [String; 7] {
    let number = |name: &str| passage.get(name).map(Value::to_string).unwrap_or_default();
    let (role, source) = (text_member(passage, "role"), text_member(passage, "source"));
    let role = if source.is_empty() || source == role { role } else { format!("{role} ({source})") };
    let why = array_member(passage, "why");
    let words = |code| if terminal::is_terminal_output() { describe_match_reason(code) } else { code };
    let why: Vec<&str> = why.iter().filter_map(Value::as_str).map(words).collect();
    let session = text_member(passage, "session");
    [
        session,
        number("position"),
        format_passage_date(passage),
        role,
        number("score"),
        why.join(", "),
        text_member(passage, "text"),
    ]
}

fn describe_match_reason(code: &str) -> &str {
    match code {
        "terms" => "its words",
        "vector" => "its meaning",
        "speaker" => "the speaker",
        "date" => "the date",
        "time" => "the time",
        other => other,
    }
}

/// `2023-05-08 13:56`, in UTC.
fn format_passage_date(passage: &Value) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "seconds since 1970; what is none has no date")]
    let seconds = passage.get("at").and_then(Value::as_f64).map(|at| at as i64);
    let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map(|time| time.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}
