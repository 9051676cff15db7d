//! `keepline session`: operations on sessions, over the component's exports.
//!
//! The component validates and words everything; commands only format it. Plain output is for pipes: one item a line,
//! fields separated by tabs. A stored value is printed as the same JSON value: no digit and no member is lost. Control
//! characters and invisible characters in it are escaped, also in a pipe, since that may end in a pager; only `get
//! --text` prints the raw text.

mod append;
pub mod arguments;
mod clear_all;
mod grep;
mod history;
mod list;
mod messages;
mod set_messages;
mod settings;
mod show;

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    config::Config,
    maintenance::{Outcome, TASKS, Task, session_buckets},
    sessions::MessageQuery,
};
use keepline_service::jsonl::{chat_messages::ChatMessage, members::decode_json_string};
use serde_json::json;
use tokio::runtime::Runtime;

use self::arguments::{AppendArguments, NamedSession, SessionArguments, SessionCommand};
use crate::{
    app::{error::coded_error, with_keepline},
    args::GlobalArguments,
    deferred::{
        run_task::{EMBED_TASK, INDEX_TASK},
        scope::RecallMode,
    },
    jsonl::{chat_messages, value::read_json_value},
    maintenance::open_maintenance,
    operations::{
        transcripts::{as_transcript, hint_at_app, require_conversations, sessions_with_long_timeout},
        window::preview_question,
    },
    session_file,
    terminal::{
        self,
        json_text::{self, EmbeddedJson},
        object, print_json, print_result, print_result_lines,
    },
};

pub fn main(global: &GlobalArguments, arguments: &SessionArguments) -> Result<ExitCode> {
    let json = arguments.json;
    let (mut put, mut appended) = (String::new(), None);
    match &arguments.command {
        SessionCommand::ClearAll { yes: false } => clear_all::confirm_clear_all(global)?,
        SessionCommand::Export(export) => return session_file::export::main(global, export, json),
        SessionCommand::Import(import) => return session_file::import::main(global, import, json),
        SessionCommand::SetMessages { transcript, file } => {
            return set_messages::main(global, transcript, file, json);
        }
        // Read before signal handlers are installed: a signal ends a process that waits for standard input.
        SessionCommand::Put { value, text, .. } => put = read_json_value(value, *text)?,
        SessionCommand::Append(AppendArguments { file: Some(file), .. }) => {
            appended = Some(chat_messages::read_chat_messages(file)?);
        }
        _ => {}
    }
    with_keepline(global, arguments.command.store_access(), async |keepline, config, runtime| {
        match &arguments.command {
            SessionCommand::Upkeep(NamedSession { session }) => upkeep(&keepline, config, runtime, json, session).await,
            command => {
                let served = serve(&keepline, json, command, &put, appended.as_deref()).await;
                served.map_err(|error| match command.transcript() {
                    Some(transcript) => hint_at_app(transcript, error),
                    None => error,
                })
            }
        }
    })
}

/// Runs a subcommand: `put` with this value, and `append` with these messages.
async fn serve(
    keepline: &Keepline,
    json: bool,
    command: &SessionCommand,
    put: &str,
    appended: Option<&[ChatMessage]>,
) -> Result<()> {
    let mut sessions = keepline.sessions();
    match command {
        SessionCommand::List(arguments) => list::list_sessions(keepline, json, arguments).await,
        SessionCommand::Show(transcript) => show::show_session(keepline, json, transcript).await,
        SessionCommand::Nodes { session, full } => list::list_nodes(keepline, json, session, *full).await,
        SessionCommand::Create(NamedSession { session }) => {
            let created = sessions.create(session).await?;
            let all = json!({"session": session, "generation": created.generation});
            print_result_lines(json, &all, [session])
        }
        SessionCommand::Delete(NamedSession { session }) => delete(keepline, json, session).await,
        SessionCommand::Put { session, key, .. } => {
            sessions.put(session, key, put).await?;
            print_result(json, &json!({"session": session, "key": key}), "")
        }
        SessionCommand::Get { session, key, text } => get(&mut sessions, json, session, key, *text).await,
        SessionCommand::Keys(NamedSession { session }) => {
            let found = sessions.keys(session).await?;
            let all = json!({"session": session, "keys": found.keys});
            print_result_lines(json, &all, &found.keys)
        }
        SessionCommand::Clear { session, key, all: _ } => {
            let cleared = sessions.clear(session, key.as_deref()).await?;
            let all = json!({"session": session, "cleared": cleared.keys});
            print_result_lines(json, &all, &cleared.keys)
        }
        SessionCommand::Increment { session, key, amount } => {
            let counted = sessions.increment(session, key, *amount).await?;
            let all = json!({"session": session, "key": key, "value": counted.value});
            print_result(json, &all, &counted.value.to_string())
        }
        SessionCommand::History { session, limit, before } => {
            history::show_history(&mut sessions, json, session, *before, *limit).await
        }
        SessionCommand::ClearAll { .. } => clear_all::clear_all(keepline.store(), json).await,
        SessionCommand::Describe(transcript) => show::show_transcript(&mut sessions, json, transcript).await,
        SessionCommand::Messages { transcript, thread, id, role, search, limit, before } => {
            let query = MessageQuery {
                id: id.as_deref(),
                thread: thread.as_deref(),
                role: role.as_deref(),
                contains: search.as_deref(),
                before: *before,
                limit: *limit,
            };
            messages::show_messages(&mut sessions, json, transcript, query).await
        }
        SessionCommand::Text { transcript, position, offset, limit } => {
            messages::show_text(&mut sessions, json, transcript, (*position, *offset, *limit)).await
        }
        SessionCommand::Grep(arguments) => grep::grep_message(&mut sessions, json, arguments).await,
        SessionCommand::Append(arguments) => match appended {
            Some(messages) => append::append_messages(keepline, json, arguments, messages).await,
            None => append::append_turn(keepline, json, arguments).await,
        },
        SessionCommand::Edit { transcript, position, text } => {
            let mut patient = sessions_with_long_timeout(keepline, &transcript.session).await?;
            let changed = patient.rewrite(as_transcript(transcript), *position, Some(text)).await?;
            print_result(json, &json!({"session": transcript.session, "count": changed.count}), "")
        }
        SessionCommand::Remove { transcript, position } => {
            let mut patient = sessions_with_long_timeout(keepline, &transcript.session).await?;
            let changed = patient.rewrite(as_transcript(transcript), *position, None).await?;
            print_result(json, &json!({"session": transcript.session, "count": changed.count}), "")
        }
        SessionCommand::ClearMessages { transcript, branch, all: _ } => {
            let mut patient = sessions_with_long_timeout(keepline, &transcript.session).await?;
            let changed = patient.clear_messages(as_transcript(transcript), *branch).await?;
            print_result(
                json,
                &json!({"session": transcript.session, "count": changed.count}),
                &changed.count.to_string(),
            )
        }
        SessionCommand::Title { transcript, title, clear } => {
            let title = if title.is_some() || *clear {
                sessions.set_title(as_transcript(transcript), title.as_deref()).await?.title
            } else {
                sessions.describe(as_transcript(transcript)).await?.title
            };
            print_result_lines(json, &json!({"session": transcript.session, "title": title}), title)
        }
        SessionCommand::Settings { transcript, settings, clear } => {
            settings::show_or_set_settings(&mut sessions, json, transcript, settings, *clear).await
        }
        SessionCommand::Window(arguments) => {
            let passed = preview_question(keepline, &mut sessions, arguments).await?;
            terminal::print_line(&json_text::escape_unprintable_json(passed.metadata.as_deref().unwrap_or("{}")))
        }
        // Served before.
        SessionCommand::Export(_)
        | SessionCommand::Import(_)
        | SessionCommand::SetMessages { .. }
        | SessionCommand::Upkeep(_) => Ok(()),
    }
}

async fn delete(keepline: &Keepline, json: bool, session: &str) -> Result<()> {
    let deleted = sessions_with_long_timeout(keepline, session).await?.delete(session).await?;
    let (count, keys) = (deleted.key_count, deleted.keys);
    let all = json!({"session": session, "key_count": count, "keys_cleared": keys});
    print_result_lines(json, &all, &keys)?;
    let unnamed = count.saturating_sub(keys.len() as u64);
    if unnamed > 0 && !json {
        let told = terminal::format_count(unnamed, "more key is", "more keys are");
        terminal::print_note(&format!("{told} not named"));
    }
    Ok(())
}

async fn upkeep(keepline: &Keepline, config: &Config, runtime: &Runtime, json: bool, session: &str) -> Result<()> {
    // All deferred work is about conversations.
    require_conversations(keepline)?;
    terminal::logging::suppress_context("keepline.maintenance");
    let maintenance = open_maintenance(keepline, config, runtime.handle())?;
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
        let buckets = match recall {
            _ if name != INDEX_TASK && name != EMBED_TASK => session_buckets(&bucket, None),
            Some(scope) if name == INDEX_TASK || keepline.wants_vectors() => {
                scope.task_buckets(&bucket, owner.as_deref())?
            }
            _ => continue,
        };
        let task = Task { buckets, name: name.to_owned(), state: String::new() };
        let outcome = match maintenance.run(task).await {
            // Done now, or nothing was due.
            Outcome::Done => ("done", "up to date"),
            Outcome::Taken => ("taken", "left to another process, which is working on it or has done it"),
            Outcome::Ended => ("ended", "the session is gone"),
            Outcome::Failed(problem) => {
                return Err(coded_error("failed", format!("{name}: {problem}")));
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
    let value = found.value();
    if json {
        print_json(&object! { session: session, key: key, value: value.map(EmbeddedJson) })?;
    }
    let Some(value) = value else {
        return Err(coded_error("key-not-found", format!("Session '{session}' has no key '{key}'")));
    };
    if json {
        return Ok(());
    }
    if as_text && value.starts_with('"') {
        return terminal::print_raw_text(&decode_json_string(value));
    }
    terminal::print_line(&json_text::escape_unprintable_json(value))
}
