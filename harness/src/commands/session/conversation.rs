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
        pages::{Pages, falls},
        records::{said, text_of},
        transcripts::{named, patient_sessions},
        window::window,
    },
    terminal::{
        self,
        json_text::{self, Stored, cell},
        object, print_json, print_result, print_result_lines, short,
    },
};

/// Runs a subcommand. `appended` holds the messages for `append`.
pub async fn serve(
    keepline: &Keepline,
    json: bool,
    command: &ConversationCommand,
    appended: Option<&[ChatMessage]>,
) -> Result<()> {
    let mut sessions = keepline.sessions();
    match command {
        ConversationCommand::Describe { transcript } => show::describe(&mut sessions, json, transcript).await,
        ConversationCommand::Messages { transcript, thread, id, role, search, limit, before } => {
            let query = MessageQuery {
                id: id.as_deref(),
                thread: thread.as_deref(),
                role: role.as_deref(),
                contains: search.as_deref(),
                before: *before,
                limit: *limit,
            };
            messages(&mut sessions, json, transcript, query).await
        }
        ConversationCommand::Text { transcript, position, offset, limit } => {
            let found = sessions.content(named(transcript), *position, *offset, *limit).await?;
            if !json {
                let shown =
                    if terminal::is_for_people() { terminal::printable(&found.text) } else { found.text.clone() };
                terminal::print_line(&shown)?;
                let end = offset.saturating_add(found.text.chars().count() as u64);
                if end < found.length {
                    let left = terminal::counted(found.length - end, "more character", "more characters");
                    terminal::note(&format!("{left}: use --offset {end}"));
                }
                return Ok(());
            }
            print_json(&json!({
                "session": found.session, "position": found.position, "text": found.text, "length": found.length,
            }))
        }
        ConversationCommand::Append(arguments) => match appended {
            Some(messages) => append::append_messages(keepline, json, arguments, messages).await,
            None => append::append(keepline, json, arguments).await,
        },
        ConversationCommand::Edit { transcript, position, text } => {
            let mut patient = patient_sessions(keepline, &transcript.session).await?;
            let changed = patient.rewrite(named(transcript), *position, Some(text)).await?;
            print_result(json, &json!({"session": changed.session, "count": changed.count}), "")
        }
        ConversationCommand::Remove { transcript, position } => {
            let mut patient = patient_sessions(keepline, &transcript.session).await?;
            let changed = patient.rewrite(named(transcript), *position, None).await?;
            print_result(json, &json!({"session": changed.session, "count": changed.count}), "")
        }
        ConversationCommand::ClearMessages { transcript, branch, all: _ } => {
            let mut patient = patient_sessions(keepline, &transcript.session).await?;
            let changed = patient.clear_messages(named(transcript), *branch).await?;
            print_result(json, &json!({"session": changed.session, "count": changed.count}), &changed.count.to_string())
        }
        // `set_messages::main` serves it.
        ConversationCommand::SetMessages { .. } => Ok(()),
        ConversationCommand::Title { transcript, title, clear } => {
            let title = if title.is_some() || *clear {
                sessions.set_title(named(transcript), title.as_deref()).await?.title
            } else {
                sessions.describe(named(transcript)).await?.title
            };
            print_result_lines(json, &json!({"session": transcript.session, "title": title}), title)
        }
        ConversationCommand::Settings { transcript, settings, clear } => {
            settings::settings(&mut sessions, json, transcript, settings, *clear).await
        }
        ConversationCommand::Grep(arguments) => grep::grep(&mut sessions, json, arguments).await,
        ConversationCommand::Window(arguments) => {
            let passed = window(keepline, &mut sessions, arguments).await?;
            terminal::print_line(&json_text::printable(passed.metadata.as_deref().unwrap_or("{}")))?;
            Ok(())
        }
    }
}

async fn messages(
    sessions: &mut Sessions,
    json: bool,
    transcript: &TranscriptArguments,
    mut query: MessageQuery<'_>,
) -> Result<()> {
    // A page covers a bounded part of the transcript.
    let wanted = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut pages: Vec<Vec<Message>> = Vec::new();
    let (mut count, mut kept) = (0, Pages::default());
    let older = loop {
        query.limit = if wanted == 0 { 1000 } else { u32::try_from((wanted - count).min(1000)).unwrap_or(1000) };
        let page = sessions.messages(named(transcript), query).await?;
        falls(page.older, query.before)?;
        kept.turn(!page.messages.is_empty())?;
        kept.keep(page.messages.iter().map(|message| &*message.text), "use --limit, and --before for the rest")?;
        count += page.messages.len();
        pages.push(page.messages);
        query.before = page.older;
        if page.older.is_none() || (wanted > 0 && count >= wanted) {
            break page.older;
        }
    };
    let found: Vec<&Message> = pages.iter().rev().flatten().collect();
    if json {
        let messages = found.iter().map(|found| object! { position: found.position, message: Stored(&found.text) });
        let messages: Vec<_> = messages.collect();
        return print_json(&object! { session: &transcript.session, messages: messages, older: older });
    }
    if terminal::is_for_people() {
        let rows = found.iter().map(|message| row(message)).collect();
        terminal::print_table(["Position", "Id", "Role", "Text"], rows)?;
    } else {
        for message in found {
            terminal::print_line(&format!("{}\t{}", message.position, cell(&message.text)))?;
        }
    }
    if let Some(older) = older {
        terminal::note(&format!("there are older messages: use --before {older}, or --limit 0 for all"));
    }
    Ok(())
}

/// Characters of a message's id that people see: --json has all of them.
const ID: usize = 11;

fn row(message: &Message) -> [String; 4] {
    let record: Value = json_text::parsed(&message.text).unwrap_or_default();
    let text = |name: &str| text_of(&record, name);
    [message.position.to_string(), short(text("id"), ID), text("role"), said(&record)]
}
