//! What `keepline session` does to conversations, and `keepline explain`: over the component's export `transcripts`, and
//! its lanes.
//!
//! Promises what [`session`](crate::session) promises of its output. A window is had as a question has it; nothing is
//! worked out here.

mod grep;
mod set_messages;
pub mod settings;

use std::process::ExitCode;

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    pipe::{Answer, Effect, Passed, Question, Vector},
    sessions::{Message, MessageQuery, Transcript},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    cli::{ConversationCommand, ExplainArguments, Global, TranscriptArguments, WindowArguments},
    error::{Coded, Usage},
    json_text::{self, Stored},
    recall,
    session::{answer, cell, patient, watched},
    terminal,
};

/// Characters of a message that people see in a table.
const SHOWN: usize = 200;

/// Do what a command of `keepline session` asks for.
pub async fn serve(
    keepline: &Keepline,
    sessions: &mut Sessions,
    json: bool,
    command: &ConversationCommand,
) -> Result<()> {
    match command {
        ConversationCommand::Describe { transcript } => describe(sessions, json, transcript).await,
        ConversationCommand::Messages { transcript, thread, id, role, search, limit, before } => {
            let query = MessageQuery {
                id: id.as_deref(),
                thread: thread.as_deref(),
                role: role.as_deref(),
                contains: search.as_deref(),
                before: *before,
                limit: *limit,
            };
            messages(sessions, json, transcript, query).await
        }
        ConversationCommand::Text { transcript, position, offset, limit } => {
            let found = sessions.content(named(transcript), *position, *offset, *limit).await?;
            if !json {
                let shown =
                    if terminal::is_for_people() { terminal::printable(&found.text) } else { found.text.clone() };
                terminal::print_line(&shown)?;
                let end = offset + found.text.chars().count() as u64;
                if end < found.length {
                    terminal::note(&format!("{} characters follow: use --offset {end}", found.length - end));
                }
                return Ok(());
            }
            let (position, length) = (found.position, found.length);
            answer(
                true,
                &json!({"session": found.session, "position": position, "text": found.text, "length": length}),
                "",
            )
        }
        ConversationCommand::Append { transcript, question, answer, id, parent, user } => {
            let mut metadata = metadata(transcript, parent.as_deref(), user.as_deref());
            if let Some(id) = id {
                metadata.insert("message_id".to_owned(), id.as_str().into());
            }
            append(keepline, json, transcript, question, answer, metadata).await
        }
        ConversationCommand::Edit { transcript, position, text } => {
            let mut patient = patient(keepline, &transcript.session).await?;
            let changed = patient.rewrite(named(transcript), *position, Some(text)).await?;
            answer(json, &json!({"session": changed.session, "count": changed.count}), "")
        }
        ConversationCommand::Remove { transcript, position } => {
            let mut patient = patient(keepline, &transcript.session).await?;
            let changed = patient.rewrite(named(transcript), *position, None).await?;
            answer(json, &json!({"session": changed.session, "count": changed.count}), "")
        }
        ConversationCommand::ClearMessages { transcript, branch, all: _ } => {
            let mut patient = patient(keepline, &transcript.session).await?;
            let changed = patient.clear_messages(named(transcript), *branch).await?;
            answer(json, &json!({"session": changed.session, "count": changed.count}), &changed.count.to_string())
        }
        ConversationCommand::SetMessages { transcript, file } => {
            set_messages::set_messages(keepline, json, transcript, file).await
        }
        ConversationCommand::Title { transcript, title, clear } => {
            let title = if title.is_some() || *clear {
                sessions.set_title(named(transcript), title.as_deref()).await?.title
            } else {
                sessions.describe(named(transcript)).await?.title
            };
            answer(json, &json!({"session": transcript.session, "title": title}), title.as_deref().unwrap_or_default())
        }
        ConversationCommand::Settings { transcript, settings, clear } => {
            settings::settings(sessions, json, transcript, settings, *clear).await
        }
        ConversationCommand::Grep(arguments) => grep::grep(sessions, json, arguments).await,
        ConversationCommand::Window(arguments) => {
            let passed = window(keepline, sessions, arguments).await?;
            terminal::print_line(&json_text::printable(passed.metadata.as_deref().unwrap_or("{}")))?;
            Ok(())
        }
    }
}

fn named(transcript: &TranscriptArguments) -> Transcript<'_> {
    let TranscriptArguments { session, node, app } = transcript;
    Transcript { session, app_id: app.as_deref(), node_id: node.as_deref() }
}

/// As an entry of that transcript has them.
fn metadata(transcript: &TranscriptArguments, parent: Option<&str>, user: Option<&str>) -> Map<String, Value> {
    let TranscriptArguments { session, node, app } = transcript;
    let mode = if node.is_some() { "node" } else { "conversation" };
    let mut metadata = Map::new();
    let members = [
        ("session_id", Some(session.as_str())),
        ("memory_mode", Some(mode)),
        ("node_id", node.as_deref()),
        ("app_id", app.as_deref()),
        ("parent_message_id", parent),
        ("user_id", user),
    ];
    for (name, value) in members {
        if let Some(value) = value {
            metadata.insert(name.to_owned(), value.into());
        }
    }
    metadata
}

async fn describe(sessions: &mut Sessions, json: bool, transcript: &TranscriptArguments) -> Result<()> {
    let state = sessions.describe(named(transcript)).await?;
    if json {
        let summary_to = state.summary.is_some().then_some(state.summary_to);
        let shown = json!({
            "session": state.session, "incarnation": state.incarnation, "owner": state.owner, "title": state.title,
            "summary": state.summary, "summary_to": summary_to, "oldest": state.oldest, "next": state.next,
            "weight": state.weight, "bytes": state.bytes, "expires_in_ms": state.expires_in,
            "settings": settings::shown(&state.settings),
        });
        return answer(true, &shown, "");
    }
    let optional = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut rows = vec![
        ["session".to_owned(), state.session],
        ["owner".to_owned(), optional(state.owner)],
        ["title".to_owned(), optional(state.title)],
        ["records".to_owned(), (state.next - state.oldest.min(state.next)).to_string()],
        ["tokens".to_owned(), state.weight.to_string()],
        ["bytes".to_owned(), state.bytes.to_string()],
        ["summary".to_owned(), optional(state.summary)],
    ];
    rows.extend(settings::rows(state.settings));
    Ok(terminal::print_table(["", "Value"], rows)?)
}

async fn messages(
    sessions: &mut Sessions,
    json: bool,
    transcript: &TranscriptArguments,
    mut query: MessageQuery<'_>,
) -> Result<()> {
    // A page of the component looks at a bounded part of the transcript.
    let wanted = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut pages: Vec<Vec<Message>> = Vec::new();
    let mut count = 0;
    let older = loop {
        query.limit = if wanted == 0 { 1000 } else { u32::try_from((wanted - count).min(1000)).unwrap_or(1000) };
        let page = sessions.messages(named(transcript), query).await?;
        count += page.messages.len();
        pages.push(page.messages);
        query.before = page.older;
        if page.older.is_none() || (wanted > 0 && count >= wanted) {
            break page.older;
        }
    };
    let found: Vec<&Message> = pages.iter().rev().flatten().collect();
    if json {
        let shown: Vec<_> =
            found.iter().map(|message| Shown { position: message.position, message: Stored(&message.text) }).collect();
        return answer(true, &ShownPage { session: &transcript.session, messages: shown, older }, "");
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
        terminal::note(&format!("older messages precede: use --before {older} for them, or --limit 0 for all"));
    }
    Ok(())
}

#[derive(Serialize)]
struct Shown<'a> {
    position: u64,
    message: Stored<'a>,
}

#[derive(Serialize)]
struct ShownPage<'a> {
    session: &'a str,
    messages: Vec<Shown<'a>>,
    /// Where to go on.
    older: Option<u64>,
}

/// A message for people.
fn row(message: &Message) -> [String; 4] {
    let record: Value = serde_json::from_str(&message.text).unwrap_or_default();
    let text = |name: &str| text_of(&record, name);
    [message.position.to_string(), text("id"), text("role"), said(&record)]
}

async fn append(
    keepline: &Keepline,
    json: bool,
    transcript: &TranscriptArguments,
    question: &str,
    text: &str,
    metadata: Map<String, Value>,
) -> Result<()> {
    let metadata = Value::from(metadata).to_string();
    let question_text = Some(question).filter(|question| !question.is_empty());
    let told = Answer { text, metadata: &metadata, question_text, ..Answer::default() };
    let passed = keepline.pipe().reply(told, None).await?;
    let told = passed.problem.map(|problem| problem.message);
    match passed.effect {
        Effect::Stored | Effect::Repeated => {
            if let Some(told) = told {
                terminal::warning(&told);
            }
            let is_new = passed.effect == Effect::Stored;
            answer(json, &json!({"session": transcript.session, "stored": is_new}), "")
        }
        Effect::Foreign => Err(refused(format!("session '{}' belongs to another user", transcript.session))),
        Effect::Ended => {
            Err(refused("the session ended meanwhile, or its user was forgotten less than a day ago".into()))
        }
        _ => Err(refused(told.unwrap_or_else(|| "the turn was not stored: is the session's id valid?".into()))),
    }
}

/// A question that only looks is one of a conversation: without them it would leave a session behind.
fn no_conversations() -> anyhow::Error {
    Usage("there are no conversations: set conversation=true".into()).into()
}

fn refused(message: String) -> anyhow::Error {
    Coded { code: "not-stored", message }.into()
}

/// What a question would get.
pub async fn window(keepline: &Keepline, sessions: &mut Sessions, arguments: &WindowArguments) -> Result<Passed> {
    let options: Value = serde_json::from_str(&keepline.filter_options())?;
    if options.get("conversation") != Some(&Value::Bool(true)) {
        return Err(no_conversations());
    }
    // It tells best what is wrong with a name.
    sessions.describe(named(&arguments.transcript)).await?;
    ask(keepline, arguments).await
}

/// The same, where there may be no such session yet.
pub async fn ask(keepline: &Keepline, arguments: &WindowArguments) -> Result<Passed> {
    let WindowArguments { transcript, query, budget, parent, user } = arguments;
    let mut metadata = metadata(transcript, parent.as_deref(), user.as_deref());
    let mut switches = Map::new();
    switches.insert("look".to_owned(), true.into());
    if let Some(budget) = budget {
        switches.insert("max_context_tokens".to_owned(), (*budget).into());
    }
    metadata.insert("memory".to_owned(), switches.into());
    let metadata = Value::from(metadata).to_string();
    let vector = vector_of(keepline, query).await;
    let question = Question { text: query, metadata: &metadata, vector: vector.as_ref(), ..Question::default() };
    let passed = keepline.pipe().ask(question, None).await?;
    match (passed.effect, &passed.problem) {
        (Effect::Foreign, _) => {
            let message = format!("session '{}' belongs to another user", transcript.session);
            Err(Coded { code: "not-found", message }.into())
        }
        (Effect::Failed, problem) => {
            let message = problem.as_ref().map_or("the question failed", |problem| &problem.message).to_owned();
            Err(Coded { code: "failed", message }.into())
        }
        _ => Ok(passed),
    }
}

/// Of a question that may wait for its embedding.
async fn vector_of(keepline: &Keepline, query: &str) -> Option<Vector> {
    if !keepline.wants_vectors() || query.trim().is_empty() {
        return None;
    }
    match keepline.embed(&[query.to_owned()]).await {
        Ok(made) => made.and_then(|mut made| made.pop()),
        Err(error) => {
            terminal::warning(&format!("the question has no embedding: {error}"));
            None
        }
    }
}

/// `keepline explain`.
pub fn explain(global: &Global, arguments: &ExplainArguments) -> Result<ExitCode> {
    watched(global, true, async |keepline, _, _| {
        let mut sessions = keepline.sessions();
        let passed = window(&keepline, &mut sessions, &arguments.window).await?;
        let metadata: Value = serde_json::from_str(passed.metadata.as_deref().unwrap_or("{}"))?;
        let trace = metadata.get("memory_trace").unwrap_or(&Value::Null);
        let recalled = metadata.get(recall::MEMBER);
        if arguments.json {
            let mut told = trace.clone();
            if let (Some(members), Some(recalled)) = (told.as_object_mut(), recalled) {
                members.insert("recalled".to_owned(), recalled.clone());
            }
            return answer(true, &told, "");
        }
        let mut rows = Vec::new();
        let mut turns = Vec::new();
        for (name, value) in trace.as_object().into_iter().flatten() {
            match value {
                Value::Array(all) if all.iter().all(Value::is_object) && !all.is_empty() => turns.extend(all),
                Value::String(text) => rows.push([name.replace('_', " "), text.clone()]),
                value => rows.push([name.replace('_', " "), value.to_string()]),
            }
        }
        terminal::print_table(["", "Window"], rows)?;
        let rows = turns.into_iter().map(|turn| [cell(&turn.to_string())]).collect();
        terminal::print_table(["Turns"], rows)?;
        recalled.map_or(Ok(()), recall::table)
    })
}

/// A member that is a text; else nothing.
pub fn text_of(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The beginning of a text, as a table has room for it.
pub fn short(mut text: String, most: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// What a record says, in short: of a call, what was called.
pub fn said(record: &Value) -> String {
    let tool = record.get("tool").unwrap_or(&Value::Null);
    let text = match record.get("kind").and_then(Value::as_str) {
        Some("tool_call") => format!("{} {}", text_of(tool, "name"), text_of(tool, "arguments")),
        _ => text_of(record, "content"),
    };
    short(text, SHOWN)
}
