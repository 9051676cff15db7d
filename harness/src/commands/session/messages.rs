//! `keepline session messages` and `keepline session text`: shows the messages of a conversation.

use anyhow::Result;
use keepline::{
    Sessions,
    sessions::{Message, MessageQuery},
};
use serde_json::{Value, json};

use crate::{
    args::TranscriptArguments,
    operations::{
        pages::{PageLimits, require_older_position},
        records::{record_preview, text_member},
        transcripts::as_transcript,
    },
    terminal::{
        self,
        json_text::{self, EmbeddedJson, json_cell},
        object, print_json, truncate_text,
    },
};

/// Prints the text of a message, or a part of it.
pub async fn show_text(
    sessions: &mut Sessions,
    json: bool,
    transcript: &TranscriptArguments,
    (position, offset, limit): (u64, u64, u32),
) -> Result<()> {
    let found = sessions.content(as_transcript(transcript), position, offset, limit).await?;
    if json {
        return print_json(&json!({
            "session": transcript.session, "position": position, "text": found.text, "length": found.length,
        }));
    }
    terminal::print_raw_text(&found.text)?;
    let end = offset.saturating_add(found.text.chars().count() as u64);
    if end < found.length {
        let left = terminal::format_count(found.length - end, "more character", "more characters");
        terminal::print_note(&format!("{left}: use --offset {end}"));
    }
    Ok(())
}

/// A message as JSON.
struct ShownMessage {
    position: u64,
    text: String,
}

impl From<&Message> for ShownMessage {
    fn from(message: &Message) -> Self {
        Self { position: message.position, text: message.to_json() }
    }
}

pub async fn show_messages(
    sessions: &mut Sessions,
    json: bool,
    transcript: &TranscriptArguments,
    mut query: MessageQuery<'_>,
) -> Result<()> {
    // A page covers a bounded part of the transcript.
    let wanted = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut pages: Vec<Vec<ShownMessage>> = Vec::new();
    let (mut count, mut kept) = (0, PageLimits::default());
    let older = loop {
        query.limit = if wanted == 0 { 1000 } else { u32::try_from((wanted - count).min(1000)).unwrap_or(1000) };
        let page = sessions.messages(as_transcript(transcript), query).await?;
        require_older_position(page.older, query.before)?;
        let messages: Vec<ShownMessage> = page.messages.iter().map(ShownMessage::from).collect();
        kept.count_kept_page(messages.iter().map(|message| &*message.text), "use --limit, and --before for the rest")?;
        count += messages.len();
        pages.push(messages);
        query.before = page.older;
        if page.older.is_none() || (wanted > 0 && count >= wanted) {
            break page.older;
        }
    };
    let found: Vec<&ShownMessage> = pages.iter().rev().flatten().collect();
    if json {
        let messages =
            found.iter().map(|found| object! { position: found.position, message: EmbeddedJson(&found.text) });
        let messages: Vec<_> = messages.collect();
        return print_json(&object! { session: &transcript.session, messages: messages, older: older });
    }
    if terminal::is_terminal_output() {
        let rows = found.iter().map(|message| message_row(message)).collect();
        terminal::print_table(["Position", "Id", "Role", "Text"], rows)?;
    } else {
        for message in found {
            terminal::print_line(&format!("{}\t{}", message.position, json_cell(&message.text)))?;
        }
    }
    if let Some(older) = older {
        terminal::print_note(&format!("there are older messages: use --before {older}, or --limit 0 for all"));
    }
    Ok(())
}

/// Characters of a message's id that people see: --json has all of them.
const SHOWN_ID_CHARACTERS: usize = 11;

fn message_row(message: &ShownMessage) -> [String; 4] {
    let record: Value = json_text::parse_lenient(&message.text).unwrap_or_default();
    let text = |name: &str| text_member(&record, name);
    [
        message.position.to_string(),
        truncate_text(text("id"), SHOWN_ID_CHARACTERS),
        text("role"),
        record_preview(&record),
    ]
}
