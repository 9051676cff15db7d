//! `keepline session grep`: shows the lines of one message that contain a text, with their numbers.

use anyhow::Result;
use keepline::{
    Sessions,
    sessions::{ContentLine, LineQuery},
};
use serde_json::{Value, json};

use super::arguments::GrepArguments;
use crate::{
    operations::{
        pages::{PageLimits, no_progress_error},
        transcripts::as_transcript,
    },
    terminal::{self, print_json},
};

/// Shows the lines that contain a text, each once: `NUMBER:` for a match, `NUMBER-` for context.
pub async fn grep_message(sessions: &mut Sessions, as_json: bool, arguments: &GrepArguments) -> Result<()> {
    let GrepArguments { transcript, position, text, ignore_case, context, limit, from } = arguments;
    let mut query = LineQuery { text, ignore_case: *ignore_case, context: *context, from_line: *from, limit: 0 };
    let (mut found, mut left, mut pages) = (Vec::new(), *limit, PageLimits::default());
    // A page has a bounded number of lines.
    let next = loop {
        query.limit = if *limit == 0 { 1000 } else { left.min(1000) };
        let page = sessions.find_lines(as_transcript(transcript), *position, query).await?;
        left = left.saturating_sub(u32::try_from(page.lines.iter().filter(|line| line.is_match).count())?);
        pages.count_kept_page(page.lines.iter().map(|line| &*line.text), "use --limit, and --from for the rest")?;
        found.extend(page.lines);
        match page.next {
            Some(next) if next <= query.from_line => return Err(no_progress_error()),
            Some(next) if *limit == 0 || left > 0 => query.from_line = next,
            next => break next,
        }
    };
    if as_json {
        let line_json = |line: &ContentLine| {
            let ContentLine { number, is_match, text, offset, is_cut } = line;
            json!({"number": number, "is_match": is_match, "text": text, "offset": offset, "is_cut": is_cut})
        };
        let lines: Vec<Value> = found.iter().map(line_json).collect();
        let told = json!({"session": transcript.session, "position": position, "lines": lines, "next": next});
        return print_json(&told);
    }
    for line in &found {
        let ContentLine { number, is_match, text, offset, is_cut } = line;
        let text = if terminal::is_terminal_output() {
            terminal::escape_to_one_line(text)
        } else {
            terminal::escape_line_breaks(text)
        };
        terminal::print_line(&format!("{number}{}{text}", if *is_match { ':' } else { '-' }))?;
        if *is_match && *is_cut {
            terminal::print_note(&format!(
                "line {number} is longer: `session text` shows it from --offset {offset} on"
            ));
        }
    }
    if let Some(next) = next {
        terminal::print_note(&format!("there may be more: use --from {next} to continue, or --limit 0 for all"));
    }
    Ok(())
}
