//! The subcommands of `keepline session` about conversations, over the component's export `transcripts`.

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    sessions::{Message, MessageQuery},
};
use serde_json::{Value, json};

use super::{append, grep, settings, show};
use crate::{
    args::{ConversationCommand, TranscriptArguments},
    jsonl::chat_messages::ChatMessage,
    operations::{
        pages::{PageLimits, require_older_position},
        records::{record_preview, text_member},
        transcripts::{as_transcript, sessions_with_long_timeout},
        window::preview_question,
    },
    terminal::{
        self,
        json_text::{self, EmbeddedJson, json_cell},
        object, print_json, print_result, print_result_lines, truncate_text,
    },
};

/// Runs a subcommand. `appended` holds the messages for `append`.
pub async fn run_conversation_command(
    keepline: &Keepline,
    json: bool,
    command: &ConversationCommand,
    appended: Option<&[ChatMessage]>,
) -> Result<()> {
    let mut sessions = keepline.sessions();
    match command {
        ConversationCommand::Describe { transcript } => show::show_transcript(&mut sessions, json, transcript).await,
        ConversationCommand::Messages { transcript, thread, id, role, search, limit, before } => {
            let query = MessageQuery {
                id: id.as_deref(),
                thread: thread.as_deref(),
                role: role.as_deref(),
                contains: search.as_deref(),
                before: *before,
                limit: *limit,
            };
            show_messages(&mut sessions, json, transcript, query).await
        }
        ConversationCommand::Text { transcript, position, offset, limit } => {
            let found = sessions.content(as_transcript(transcript), *position, *offset, *limit).await?;
            if !json {
                let shown = if terminal::is_terminal_output() {
                    terminal::escape_unprintable(&found.text)
                } else {
                    found.text.clone()
                };
                terminal::print_line(&shown)?;
                let end = offset.saturating_add(found.text.chars().count() as u64);
                if end < found.length {
                    let left = terminal::format_count(found.length - end, "more character", "more characters");
                    terminal::print_note(&format!("{left}: use --offset {end}"));
                }
                return Ok(());
            }
            print_json(&json!({
                "session": found.session, "position": found.position, "text": found.text, "length": found.length,
            }))
        }
        ConversationCommand::Append(arguments) => match appended {
            Some(messages) => append::append_messages(keepline, json, arguments, messages).await,
            None => append::append_turn(keepline, json, arguments).await,
        },
        ConversationCommand::Edit { transcript, position, text } => {
            let mut patient = sessions_with_long_timeout(keepline, &transcript.session).await?;
            let changed = patient.rewrite(as_transcript(transcript), *position, Some(text)).await?;
            print_result(json, &json!({"session": changed.session, "count": changed.count}), "")
        }
        ConversationCommand::Remove { transcript, position } => {
            let mut patient = sessions_with_long_timeout(keepline, &transcript.session).await?;
            let changed = patient.rewrite(as_transcript(transcript), *position, None).await?;
            print_result(json, &json!({"session": changed.session, "count": changed.count}), "")
        }
        ConversationCommand::ClearMessages { transcript, branch, all: _ } => {
            let mut patient = sessions_with_long_timeout(keepline, &transcript.session).await?;
            let changed = patient.clear_messages(as_transcript(transcript), *branch).await?;
            print_result(json, &json!({"session": changed.session, "count": changed.count}), &changed.count.to_string())
        }
        // `set_messages::main` serves it.
        ConversationCommand::SetMessages { .. } => Ok(()),
        ConversationCommand::Title { transcript, title, clear } => {
            let title = if title.is_some() || *clear {
                sessions.set_title(as_transcript(transcript), title.as_deref()).await?.title
            } else {
                sessions.describe(as_transcript(transcript)).await?.title
            };
            print_result_lines(json, &json!({"session": transcript.session, "title": title}), title)
        }
        ConversationCommand::Settings { transcript, settings, clear } => {
            settings::show_or_set_settings(&mut sessions, json, transcript, settings, *clear).await
        }
        ConversationCommand::Grep(arguments) => grep::grep_message(&mut sessions, json, arguments).await,
        ConversationCommand::Window(arguments) => {
            let passed = preview_question(keepline, &mut sessions, arguments).await?;
            terminal::print_line(&json_text::escape_unprintable_json(passed.metadata.as_deref().unwrap_or("{}")))?;
            Ok(())
        }
    }
}

async fn show_messages(
    sessions: &mut Sessions,
    json: bool,
    transcript: &TranscriptArguments,
    mut query: MessageQuery<'_>,
) -> Result<()> {
    // A page covers a bounded part of the transcript.
    let wanted = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut pages: Vec<Vec<Message>> = Vec::new();
    let (mut count, mut kept) = (0, PageLimits::default());
    let older = loop {
        query.limit = if wanted == 0 { 1000 } else { u32::try_from((wanted - count).min(1000)).unwrap_or(1000) };
        let page = sessions.messages(as_transcript(transcript), query).await?;
        require_older_position(page.older, query.before)?;
        kept.count_page(!page.messages.is_empty())?;
        kept.count_kept_texts(
            page.messages.iter().map(|message| &*message.text),
            "use --limit, and --before for the rest",
        )?;
        count += page.messages.len();
        pages.push(page.messages);
        query.before = page.older;
        if page.older.is_none() || (wanted > 0 && count >= wanted) {
            break page.older;
        }
    };
    let found: Vec<&Message> = pages.iter().rev().flatten().collect();
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

fn message_row(message: &Message) -> [String; 4] {
    let record: Value = json_text::parse_lenient(&message.text).unwrap_or_default();
    let text = |name: &str| text_member(&record, name);
    [
        message.position.to_string(),
        truncate_text(text("id"), SHOWN_ID_CHARACTERS),
        text("role"),
        record_preview(&record),
    ]
}
