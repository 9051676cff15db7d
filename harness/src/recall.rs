//! `keepline recall`: what a question would get back of what its window has lost, and what is done about the index.
//!
//! Promises that to look writes nothing; nothing is found or ranked here.

pub mod drive;
mod evaluate;
mod haystack;
mod rebuild;

use std::process::ExitCode;

use anyhow::Result;
use keepline::Keepline;
use serde_json::{Value, json};

use crate::{
    cli::{Global, LookArguments, RecallArguments, RecallCommand, TranscriptArguments, WindowArguments},
    conversation::{text_of, window},
    error::Usage,
    session::{answer, watched},
    terminal,
};

/// The metadata that it comes in.
pub const MEMBER: &str = "memory_recall";

/// Run it.
pub fn main(global: &Global, arguments: RecallArguments) -> Result<ExitCode> {
    let json = arguments.json;
    match (arguments.command, arguments.look) {
        (Some(RecallCommand::Rebuild(rebuild)), _) => rebuild::main(global, &rebuild, json),
        (Some(RecallCommand::Evaluate(evaluate)), _) => evaluate::main(global, &evaluate, json),
        (None, Some(asked)) => look(global, asked, json),
        (None, None) => Err(Usage("a session and a question are needed: keepline recall SESSION QUERY".into()).into()),
    }
}

fn look(global: &Global, asked: LookArguments, json: bool) -> Result<ExitCode> {
    let LookArguments { session, query, node, app, budget, parent, user } = asked;
    let transcript = TranscriptArguments { session, node, app };
    let asked = WindowArguments { transcript, query, budget, parent, user };
    watched(global, true, async |keepline, _, _| {
        is_on(&keepline)?;
        let passed = window(&keepline, &mut keepline.sessions(), &asked).await?;
        let metadata: Value = serde_json::from_str(passed.metadata.as_deref().unwrap_or("{}"))?;
        let recalled = metadata.get(MEMBER).unwrap_or(&Value::Null);
        if json {
            return answer(true, recalled, "");
        }
        table(recalled)
    })
}

/// Passages, in order of time.
pub fn table(recalled: &Value) -> Result<()> {
    let passages = recalled.get("passages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rows = passages.iter().map(row).collect();
    Ok(terminal::print_table(["Position", "Date", "Role", "Score", "Why", "Text"], rows)?)
}

fn row(passage: &Value) -> [String; 6] {
    let number = |name: &str| passage.get(name).map(Value::to_string).unwrap_or_default();
    let (role, source) = (text_of(passage, "role"), text_of(passage, "source"));
    let role = if source.is_empty() || source == role { role } else { format!("{role} ({source})") };
    let why = passage.get("why").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let why: Vec<&str> = why.iter().filter_map(Value::as_str).collect();
    [number("position"), date(passage), role, number("score"), why.join(", "), text_of(passage, "text")]
}

/// `2023-05-08 13:56`, in UTC.
fn date(passage: &Value) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "seconds since 1970; what is none has no date")]
    let seconds = passage.get("at").and_then(Value::as_f64).map(|at| at as i64);
    let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map(|time| time.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}

/// # Errors
/// When nothing would ever be recalled.
fn is_on(keepline: &Keepline) -> Result<()> {
    let options: Value = serde_json::from_str(&keepline.filter_options())?;
    let is_on = options.get("conversation") == Some(&json!(true)) && options.get("recall") != Some(&json!("off"));
    if is_on { Ok(()) } else { Err(Usage("recall is off: set conversation=true and recall=session".into()).into()) }
}
