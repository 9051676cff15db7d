//! What `keepline session` does to conversations, and `keepline explain`: over the component's export `transcripts`, and
//! its lanes.
//!
//! Promises what [`session`](crate::session) promises of its output. A window is had as a question has it; nothing is
//! worked out here.

mod append;
mod explain;
mod grep;
pub mod set_messages;
pub mod settings;

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    pipe::{Effect, Passed, Question, Vector},
    sessions::{Message, MessageQuery, SessionError, SessionErrorCode, Transcript},
};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use self::explain::explain;
use crate::{
    chat_messages::ChatMessage,
    cli::{ConversationCommand, TranscriptArguments, WindowArguments},
    error::{Coded, Usage},
    json_text::{self, Stored},
    recall::seeks_nothing,
    session::{
        answer, answer_lines, cell,
        pages::{Pages, falls},
        patient,
    },
    terminal,
};

/// Characters of a message that people see in a table.
const SHOWN: usize = 200;
/// The parent that stands for the newest message.
const NEWEST: &str = "00000000-0000-0000-0000-000000000000";

/// Do what a command of `keepline session` asks for. `appended`: the messages that it adds.
pub async fn serve(
    keepline: &Keepline,
    sessions: &mut Sessions,
    json: bool,
    command: &ConversationCommand,
    appended: Option<&[ChatMessage]>,
) -> Result<()> {
    let done = done(keepline, sessions, json, command, appended).await;
    done.map_err(|error| of_no_app(command.transcript(), error))
}

async fn done(
    keepline: &Keepline,
    sessions: &mut Sessions,
    json: bool,
    command: &ConversationCommand,
    appended: Option<&[ChatMessage]>,
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
                let end = offset.saturating_add(found.text.chars().count() as u64);
                if end < found.length {
                    let left = terminal::counted(found.length - end, "more character", "more characters");
                    terminal::note(&format!("{left}: use --offset {end}"));
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
        ConversationCommand::Append(arguments) => match appended {
            Some(messages) => append::append_messages(keepline, json, arguments, messages).await,
            None => append::append(keepline, sessions, json, arguments).await,
        },
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
        // Served by itself.
        ConversationCommand::SetMessages { .. } => Ok(()),
        ConversationCommand::Title { transcript, title, clear } => {
            let title = if title.is_some() || *clear {
                sessions.set_title(named(transcript), title.as_deref()).await?.title
            } else {
                sessions.describe(named(transcript)).await?.title
            };
            answer_lines(json, &json!({"session": transcript.session, "title": title}), title)
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

pub fn named(transcript: &TranscriptArguments) -> Transcript<'_> {
    let TranscriptArguments { session, node, app } = transcript;
    Transcript { session, app_id: app.as_deref(), node_id: node.as_deref() }
}

/// A node that is not there, and was named without an app, may well be one of an app.
fn of_no_app(transcript: &TranscriptArguments, error: anyhow::Error) -> anyhow::Error {
    let is_missing = |error: &SessionError| error.code == SessionErrorCode::NotFound;
    match &transcript.node {
        Some(node) if transcript.app.is_none() && error.downcast_ref().is_some_and(is_missing) => {
            let message =
                format!("Session '{}' has no node '{node}' (a node of an app also needs --app)", transcript.session);
            Coded { code: "not-found", message }.into()
        }
        _ => error,
    }
}

/// # Errors
/// When there is no such message to go on from: an entry that names one goes on from the newest.
async fn is_there(sessions: &mut Sessions, transcript: &TranscriptArguments, parent: Option<&str>) -> Result<()> {
    let Some(id) = parent.filter(|id| !id.is_empty() && *id != NEWEST) else { return Ok(()) };
    let query = MessageQuery { id: Some(id), limit: 1, ..MessageQuery::default() };
    sessions.messages(named(transcript), query).await?;
    Ok(())
}

/// # Errors
/// When nobody can have that id: an entry that names it passes as if the session were another user's.
async fn can_be_user(sessions: &mut Sessions, user: Option<&str>) -> Result<()> {
    if let Some(user) = user {
        // It tells best what is wrong with it.
        sessions.user_sessions(user, None, 1).await?;
    }
    Ok(())
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
        terminal::note(&format!("there are older messages: use --before {older}, or --limit 0 for all"));
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
    let record: Value = json_text::parsed(&message.text).unwrap_or_default();
    let text = |name: &str| text_of(&record, name);
    [message.position.to_string(), text("id"), text("role"), said(&record)]
}

/// # Errors
/// When no conversation is kept: then a turn is no more than an answer, and a question that only looks would leave a
/// session behind.
pub fn are_kept(keepline: &Keepline) -> Result<()> {
    let options: Value = serde_json::from_str(&keepline.filter_options())?;
    if options.get("conversation") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    Err(Usage("conversations are off: set conversation=true, or choose --profile chat".into()).into())
}

/// What a question would get.
pub async fn window(keepline: &Keepline, sessions: &mut Sessions, arguments: &WindowArguments) -> Result<Passed> {
    are_kept(keepline)?;
    let WindowArguments { transcript, parent, .. } = arguments;
    let looked = async {
        // It tells best what is wrong with a name.
        sessions.describe(named(transcript)).await?;
        is_there(sessions, transcript, parent.as_deref()).await
    };
    looked.await.map_err(|error| of_no_app(transcript, error))?;
    can_be_user(sessions, arguments.user.as_deref()).await?;
    ask(keepline, arguments, vector_of(keepline, &arguments.query).await).await
}

/// The same in a session of that user that is still to come. None: there is nothing to look for.
pub async fn ask_anew(keepline: &Keepline, arguments: &WindowArguments) -> Result<Option<Passed>> {
    can_be_user(&mut keepline.sessions(), arguments.user.as_deref()).await?;
    let vector = vector_of(keepline, &arguments.query).await;
    if seeks_nothing(&arguments.query, vector.as_ref()) {
        return Ok(None);
    }
    ask(keepline, arguments, vector).await.map(Some)
}

async fn ask(keepline: &Keepline, arguments: &WindowArguments, vector: Option<Vector>) -> Result<Passed> {
    let WindowArguments { transcript, query, budget, parent, user } = arguments;
    let mut metadata = metadata(transcript, parent.as_deref(), user.as_deref());
    let mut switches = Map::new();
    switches.insert("look".to_owned(), true.into());
    if let Some(budget) = budget {
        switches.insert("max_context_tokens".to_owned(), (*budget).into());
    }
    metadata.insert("memory".to_owned(), switches.into());
    let metadata = Value::from(metadata).to_string();
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
            // As for a text that the model refuses: with none at all, it would be asked for, and warned of, once more.
            Some(Vector { model: String::new(), data: String::new() })
        }
    }
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
