//! `keepline explain`: shows what the next question of a session would get, what was left out of it, and why.
//!
//! People see each turn with its first words and its fate. `--json` has the figures of the component's trace, and all that
//! the question would get.

use std::{collections::HashMap, iter, process::ExitCode};

use anyhow::Result;
use clap::Args;
use keepline::{
    Keepline, Sessions,
    sessions::{MessageQuery, TranscriptState},
};
use keepline_service::preview::explanation;
use serde_json::Value;

use crate::{
    app::{store_settings::StoreSettings, with_keepline},
    args::{GlobalArguments, StoreAccess, WindowArguments},
    operations::{
        pages::require_older_position,
        recall::{RECALL_MEMBER, print_passages},
        records::{array_member, record_preview, text_member},
        transcripts::as_transcript,
        window::preview_question,
    },
    terminal::{self, fact_rows, format_count, json_text, print_json},
};

#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    pub window: WindowArguments,
    /// Print all that the question would get, and the figures behind it, as JSON
    #[arg(long)]
    pub json: bool,
    /// Show texts whole, also those wider than the terminal
    #[arg(long)]
    pub full: bool,
}

/// What declared memories contribute to a question.
const SECTIONS_MEMBER: &str = "memory_sections";
/// Pages of messages that are read to show the turns' words; the trace names at most 64 turns.
const MOST_PAGES: usize = 4;
const PAGE_MESSAGES: u32 = 1000;
/// Messages of one turn that are shown.
const MAX_TURN_MESSAGES: usize = 12;

pub fn main(global: &GlobalArguments, arguments: &ExplainArguments) -> Result<ExitCode> {
    with_keepline(global, StoreAccess::Read, async |keepline, _, _| {
        let mut sessions = keepline.sessions();
        let passed = preview_question(&keepline, &mut sessions, &arguments.window).await?;
        let metadata: Value = serde_json::from_str(passed.metadata.as_deref().unwrap_or("{}"))?;
        let trace = metadata.get("memory_trace").unwrap_or(&Value::Null);
        if arguments.json {
            return print_json(&explanation(&metadata));
        }
        let state = sessions.describe(as_transcript(&arguments.window.transcript)).await?;
        let turns = array_member(trace, "turns");
        let said = load_turn_messages(&mut sessions, &arguments.window, turns).await?;
        let recall = empty_recall_reason(&keepline, &arguments.window.query);
        terminal::print_table(
            ["", "Value"],
            window_facts((&arguments.window.transcript.session, &state), trace, &metadata, recall),
        )?;
        let rows = turns.iter().flat_map(|turn| turn_rows(turn, &said, arguments.full)).collect();
        print_separator()?;
        terminal::print_list(["At", "Tokens", "In the window", "Who", "What"], rows, arguments.full)?;
        print_fate_meanings(turns)?;
        if let Some(recalled) = metadata.get(RECALL_MEMBER) {
            print_separator()?;
            print_passages(recalled)?;
        }
        if let Some(sections) = metadata.get(SECTIONS_MEMBER) {
            print_separator()?;
            print_sections(sections)?;
        }
        Ok(())
    })
}

/// What declared memories contribute, by section.
fn print_sections(sections: &Value) -> Result<()> {
    let mut rows = Vec::new();
    for (section, items) in sections.get("sections").and_then(Value::as_object).into_iter().flatten() {
        for item in items.as_array().into_iter().flatten() {
            let [memory, priority, text] = ["memory_id", "priority", "text"].map(|name| text_member(item, name));
            rows.push([section.clone(), memory, priority, text]);
        }
    }
    terminal::print_table(["Section", "Memory", "Priority", "Text"], rows)
}

/// Separates a table from the one above, for people.
fn print_separator() -> Result<()> {
    if terminal::is_terminal_output() {
        terminal::print_line("")?;
    }
    Ok(())
}

/// The messages of each turn of the trace, oldest first, by the turn's id.
async fn load_turn_messages(
    sessions: &mut Sessions,
    asked: &WindowArguments,
    turns: &[Value],
) -> Result<HashMap<String, Vec<Value>>> {
    let mut found: HashMap<String, Vec<Value>> = HashMap::new();
    let oldest = turns.iter().filter_map(|turn| turn.get("position")?.as_u64()).min();
    let mut query = MessageQuery { limit: PAGE_MESSAGES, ..MessageQuery::default() };
    let Some(oldest) = oldest else { return Ok(found) };
    for _ in 0..MOST_PAGES {
        let page = sessions.messages(as_transcript(&asked.transcript), query).await?;
        require_older_position(page.older, query.before)?;
        let is_last = page.messages.first().is_none_or(|message| message.position <= oldest);
        for message in page.messages.into_iter().rev() {
            let record: Value = json_text::parse_lenient(&message.to_json()).unwrap_or_default();
            found.entry(text_member(&record, "turn")).or_default().push(record);
        }
        query.before = page.older;
        if is_last || page.older.is_none() {
            break;
        }
    }
    found.values_mut().for_each(|records| records.reverse());
    Ok(found)
}

/// Why a question would recall nothing.
fn empty_recall_reason(keepline: &Keepline, query: &str) -> &'static str {
    match StoreSettings::from_filter_options(&keepline.filter_options()).recall {
        false => "nothing: recall is off",
        true if query.trim().is_empty() => "nothing: name a question with --query",
        true => "nothing: no earlier passage fits the question",
    }
}

/// Facts about the window as a whole; absent ones are left out.
fn window_facts(
    (session, state): (&str, &TranscriptState),
    trace: &Value,
    metadata: &Value,
    no_recall: &str,
) -> Vec<[String; 2]> {
    let number = |name: &str| trace.get(name).and_then(Value::as_u64);
    let positive = |name: &str| number(name).filter(|count| *count > 0);
    let count = |name: &str, one: &str, many: &str| positive(name).map(|count| format_count(count, one, many));
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
    let shown = |name: &str| number(name).unwrap_or_default();
    let names = metadata.get("memory_context").and_then(Value::as_object);
    let names = names.map(|names| names.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
    let skipped = trace.get("skipped").and_then(Value::as_object);
    let skipped = skipped.map(|counts| {
        let counts: Vec<String> =
            counts.iter().map(|(why, count)| format!("{count} {}", describe_skip_reason(why))).collect();
        counts.join(", ")
    });
    let passages = metadata.get(RECALL_MEMBER).and_then(|recalled| recalled.get("passages")?.as_array().map(Vec::len));
    let recalled = passages.map(|count| format_count(count as u64, "passage", "passages"));
    let gap = trace.get("gap").and_then(Value::as_bool) == Some(true);
    fact_rows([
        ("session", Some(session.to_owned())),
        ("title", state.title.clone()),
        ("owner", state.owner.clone()),
        ("window", Some(format!("{} of at most {} tokens", shown("tokens"), shown("budget")))),
        ("whole thread", Some(format!("{} tokens", shown("thread_tokens")))),
        ("summary", text("memory_summary")),
        ("summary covers", number("summary_to").map(|to| format!("all up to message {to}"))),
        ("values", names.filter(|names| !names.is_empty())),
        ("recalled", Some(recalled.unwrap_or_else(|| no_recall.to_owned()))),
        ("gap", gap.then(|| "some turns are neither in the window nor in a summary".to_owned())),
        ("first turn", trace.get("first_turn").and_then(Value::as_str).map(|why| format!("not pinned: {why}"))),
        ("cleared", count("cleared_results", "old tool result", "old tool results")),
        ("unreadable", count("unreadable", "record", "records")),
        ("answers not stored", skipped),
        ("texts cut when stored", positive("truncated").map(|count| count.to_string())),
    ])
}

fn describe_skip_reason(code: &str) -> &str {
    match code {
        "marker" => "one of skip_markers",
        "too-short" => "shorter than min_message_length",
        other => other,
    }
}

/// The rows of a turn: all messages of one in the window, the first message of any other.
fn turn_rows(turn: &Value, said_in: &HashMap<String, Vec<Value>>, is_full: bool) -> Vec<[String; 5]> {
    let number = |name: &str| turn.get(name).map(Value::to_string).unwrap_or_default();
    let fate = text_member(turn, "fate");
    let messages = said_in.get(&text_member(turn, "turn")).map_or(&[][..], Vec::as_slice);
    let is_shown = matches!(&*fate, "kept" | "cut");
    let count = if is_shown { MAX_TURN_MESSAGES } else { 1 };
    let mut said: Vec<[String; 2]> = Vec::new();
    for record in messages.iter().take(count) {
        let is_whole = is_full && record.get("kind").is_none();
        let text = if is_whole { text_member(record, "content") } else { record_preview(record) };
        said.push([text_member(record, "role"), text]);
    }
    let more = messages.len().saturating_sub(count);
    if is_shown && more > 0 {
        said.push([String::new(), format_count(more as u64, "more message", "more messages")]);
    }
    if said.is_empty() {
        said.push(Default::default());
    }
    // The facts about the turn stand in its first row.
    let facts = [number("position"), number("tokens"), describe_fate(&fate).to_owned()];
    let facts = iter::once(facts).chain(iter::repeat_with(Default::default));
    let rows = facts.zip(said).map(|([position, tokens, fate], [who, what])| [position, tokens, fate, who, what]);
    rows.collect()
}

fn describe_fate(fate: &str) -> &str {
    match fate {
        "kept" => "yes",
        "cut" => "in part",
        "summarized" => "in the summary",
        other => other,
    }
}

/// Explains the fates of these turns to people.
fn print_fate_meanings(turns: &[Value]) -> Result<()> {
    let is_found = |fate: &str| turns.iter().any(|turn| text_member(turn, "fate") == fate);
    let found: Vec<_> = FATE_MEANINGS.into_iter().filter(|(fate, _)| is_found(fate)).collect();
    if found.is_empty() || !terminal::is_terminal_output() {
        return Ok(());
    }
    print_separator()?;
    found.iter().try_for_each(|(fate, meaning)| terminal::print_line(&format!("{}: {meaning}", describe_fate(fate))))
}

/// Fates that need an explanation, in lines of at most 80 columns.
const FATE_MEANINGS: [(&str, &str); 6] = [
    ("cut", "the newest turn alone is over the budget, so its beginning is left out"),
    ("over budget", "with it and all newer turns, the window would exceed its budget"),
    ("over message_limit", "with this turn, there would be too many messages"),
    ("cut back", "left out with older turns down to window_keep, and stays out"),
    ("beginning not read", "the turn begins before what is read for a window"),
    ("empty", "none of its messages has content"),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_turn_in_the_window_is_shown_whole_and_another_by_its_first_message() {
        let message = |role: &str, content: &str| json!({"turn": "t", "role": role, "content": content});
        let messages = vec![message("user", "Where is it?"), message("assistant", "In Bonn.")];
        let said_in = HashMap::from([("t".to_owned(), messages)]);
        let rows =
            |fate: &str| turn_rows(&json!({"turn": "t", "position": 4, "tokens": 21, "fate": fate}), &said_in, false);
        assert_eq!(rows("over budget"), [["4", "21", "over budget", "user", "Where is it?"]]);
        let kept = rows("kept");
        assert_eq!(kept, [["4", "21", "yes", "user", "Where is it?"], ["", "", "", "assistant", "In Bonn."]]);
        let unknown = turn_rows(&json!({"turn": "u", "position": 6, "tokens": 1, "fate": "removed"}), &said_in, false);
        assert_eq!(unknown, [["6", "1", "removed", "", ""]]);
    }

    #[test]
    fn meanings_fit_eighty_columns() {
        for (fate, meaning) in FATE_MEANINGS {
            assert!(describe_fate(fate).len() + 2 + meaning.len() <= 80, "{fate}");
        }
    }
}
