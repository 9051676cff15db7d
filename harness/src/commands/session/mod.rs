//! `keepline session`: operations on sessions, over the component's exports.
//!
//! The component validates and words everything; commands only format it. Plain output is for pipes: one item a line,
//! fields separated by tabs. A stored value is printed as the same JSON value: no digit and no member is lost. Control
//! characters and invisible characters in it are escaped, also in a pipe, since that may end in a pager; only `get
//! --text` prints the raw text.

mod append;
pub mod arguments;
mod clear_all;
mod conversation;
mod grep;
mod history;
mod list;
mod set_messages;
mod settings;
mod show;

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    maintenance::{Maintenance, Outcome, TASKS, Task},
};
use serde_json::json;

use self::arguments::{SessionArguments, SessionCommand};
use crate::{
    app::{error::CodedError, with_keepline},
    args::{AppendArguments, ConversationCommand, GlobalArguments},
    deferred::{
        run_task::{EMBED_TASK, INDEX_TASK},
        scope::RecallMode,
    },
    jsonl::{
        chat_messages::{self, ChatMessage},
        members::decode_json_string,
        value::read_json_value,
    },
    maintenance,
    operations::transcripts::{hint_at_app, require_conversations, sessions_with_long_timeout},
    session_file,
    terminal::{
        self,
        json_text::{self, EmbeddedJson},
        object, print_json, print_result, print_result_lines,
    },
};

pub fn main(global: &GlobalArguments, arguments: &SessionArguments) -> Result<ExitCode> {
    let json = arguments.json;
    let put = match &arguments.command {
        SessionCommand::ClearAll { yes: false } => {
            clear_all::confirm_clear_all(global)?;
            String::new()
        }
        SessionCommand::Export(export) => return session_file::export::main(global, export, json),
        SessionCommand::Import(import) => return session_file::import::main(global, import, json),
        SessionCommand::Conversation(ConversationCommand::SetMessages { transcript, file }) => {
            return set_messages::main(global, transcript, file, json);
        }
        // Read before signal handlers are installed: a signal ends a process that waits for standard input.
        SessionCommand::Put { value, text, .. } => read_json_value(value, *text)?,
        _ => String::new(),
    };
    let appended = match &arguments.command {
        SessionCommand::Conversation(ConversationCommand::Append(AppendArguments { file: Some(file), .. })) => {
            Some(chat_messages::read_chat_messages(file)?)
        }
        _ => None,
    };
    with_keepline(global, arguments.command.store_access(), async |keepline, config, runtime| {
        let maintain = || maintenance::open_maintenance(&keepline, config, runtime);
        serve(&keepline, maintain, json, &arguments.command, &put, appended.as_deref()).await
    })
}

/// Runs a subcommand: `put` with this value, and `append` with these messages.
async fn serve(
    keepline: &Keepline,
    maintain: impl Fn() -> Result<Maintenance>,
    json: bool,
    command: &SessionCommand,
    put: &str,
    appended: Option<&[ChatMessage]>,
) -> Result<()> {
    let mut sessions = keepline.sessions();
    match command {
        SessionCommand::List(arguments) => list::list_sessions(keepline, json, arguments).await,
        SessionCommand::Show { transcript } => {
            let shown = show::show_session(keepline, json, transcript).await;
            shown.map_err(|error| hint_at_app(transcript, error))
        }
        SessionCommand::Nodes { session, full } => list::list_nodes(keepline, json, session, *full).await,
        SessionCommand::Create { session } => {
            let created = sessions.create(session).await?;
            let all = json!({"session": created.session, "incarnation": created.incarnation});
            print_result_lines(json, &all, [&created.session])
        }
        SessionCommand::Delete { session } => {
            let deleted = sessions_with_long_timeout(keepline, session).await?.delete(session).await?;
            let (count, keys) = (deleted.key_count, deleted.keys_cleared);
            let all = json!({"session": deleted.session, "key_count": count, "keys_cleared": keys});
            print_result_lines(json, &all, &keys)?;
            let unnamed = count.saturating_sub(keys.len() as u64);
            if unnamed > 0 && !json {
                let told = terminal::format_count(unnamed, "more key is", "more keys are");
                terminal::print_note(&format!("{told} not named"));
            }
            Ok(())
        }
        SessionCommand::Put { session, key, .. } => {
            let stored = sessions.put(session, key, put).await?;
            print_result(json, &json!({"session": stored.session, "key": stored.key}), "")
        }
        SessionCommand::Get { session, key, text } => get(&mut sessions, json, session, key, *text).await,
        SessionCommand::Keys { session } => {
            let found = sessions.keys(session).await?;
            let all = json!({"session": found.session, "keys": found.keys});
            print_result_lines(json, &all, &found.keys)
        }
        SessionCommand::Clear { session, key, all: _ } => {
            let cleared = sessions.clear(session, key.as_deref()).await?;
            let all = json!({"session": cleared.session, "cleared": cleared.cleared});
            print_result_lines(json, &all, &cleared.cleared)
        }
        SessionCommand::Increment { session, key, amount } => {
            let counted = sessions.increment(session, key, *amount).await?;
            let all = json!({"session": counted.session, "key": counted.key, "value": counted.value});
            print_result(json, &all, &counted.value.to_string())
        }
        SessionCommand::Upkeep { session } => upkeep(keepline, maintain, json, session).await,
        SessionCommand::History { session, limit, before } => {
            history::show_history(&mut sessions, json, session, *before, *limit).await
        }
        SessionCommand::ClearAll { .. } => clear_all::clear_all(keepline.store(), json).await,
        // Served before the plugin is loaded.
        SessionCommand::Export(_) | SessionCommand::Import(_) => Ok(()),
        SessionCommand::Conversation(command) => {
            let done = conversation::run_conversation_command(keepline, json, command, appended).await;
            done.map_err(|error| hint_at_app(command.transcript(), error))
        }
    }
}

async fn upkeep(
    keepline: &Keepline,
    maintain: impl Fn() -> Result<Maintenance>,
    json: bool,
    session: &str,
) -> Result<()> {
    // All deferred work is about conversations.
    require_conversations(keepline)?;
    terminal::logging::suppress_context("keepline.maintenance");
    let maintenance = maintain()?;
    let mut sessions = keepline.sessions();
    // The component reports best what is wrong with a name.
    sessions.keys(session).await?;
    let bucket = keepline.session_ids().bucket_name(session).unwrap_or(session.into());
    let recall = RecallMode::from_keepline(keepline)?;
    let owner = match recall {
        Some(_) => sessions.describe(session.into()).await?.owner,
        None => None,
    };
    let mut rows = Vec::new();
    for name in TASKS {
        let subject = match recall {
            _ if name != INDEX_TASK && name != EMBED_TASK => format!("session/{bucket}"),
            Some(scope) if name == INDEX_TASK || keepline.wants_vectors() => {
                scope.task_subject(&bucket, owner.as_deref())?
            }
            _ => continue,
        };
        let task = Task { subject, name: name.to_owned(), state: String::new() };
        let outcome = match maintenance.run(task).await {
            // Done now, or nothing was due.
            Outcome::Done => ("done", "up to date"),
            Outcome::Taken => ("taken", "left to another process, which is working on it or has done it"),
            Outcome::Ended => ("ended", "the session is gone"),
            Outcome::Failed(problem) => {
                return Err(CodedError { code: "failed", message: format!("{name}: {problem}") }.into());
            }
        };
        rows.push((name, outcome));
    }
    if json {
        let tasks: BTreeMap<_, _> = rows.into_iter().map(|(name, (code, _))| (name, code)).collect();
        return print_json(&json!({"session": session, "tasks": tasks}));
    }
    let rows = rows.into_iter().map(|(name, (_, words))| [name.to_owned(), words.to_owned()]).collect();
    terminal::print_table(["Task", "Outcome"], rows)
}

async fn get(sessions: &mut Sessions, json: bool, session: &str, key: &str, as_text: bool) -> Result<()> {
    let found = sessions.get(session, key).await?;
    let value = found.value.as_deref();
    if json {
        print_json(&object! { session: &found.session, key: &found.key, value: value.map(EmbeddedJson) })?;
    }
    let Some(value) = value else {
        let message = format!("Session '{session}' has no key '{key}'");
        return Err(CodedError { code: "key-not-found", message }.into());
    };
    if json {
        return Ok(());
    }
    if as_text && value.starts_with('"') {
        let text = decode_json_string(value);
        let shown = if terminal::is_terminal_output() { terminal::escape_unprintable(&text).into() } else { text };
        return terminal::print_line(&shown);
    }
    terminal::print_line(&json_text::escape_unprintable_json(value))
}
