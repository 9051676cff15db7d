//! `keepline session`: operations on sessions, over the component's exports.
//!
//! The component validates and words everything; commands only format it. Plain output is for pipes: one item a line,
//! fields separated by tabs. A stored value is printed as the same JSON value: no digit and no member is lost. Control
//! characters and invisible characters in it are escaped, also in a pipe, since that may end in a pager; only `get
//! --text` prints the raw text.

mod append;
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
use serde::Serialize;
use serde_json::json;

use crate::{
    app::{error::Coded, with_keepline},
    args::{AppendArguments, ConversationCommand, Global, SessionArguments, SessionCommand},
    deferred::{
        run_task::{EMBED_TASK, INDEX_TASK},
        scope::Scope,
    },
    jsonl::{
        chat_messages::{self, ChatMessage},
        members::decoded,
        value::json_value,
    },
    maintenance,
    operations::transcripts::{hint_at_app, patient_sessions, require_conversations},
    session_file,
    terminal::{
        self,
        json_text::{self, Stored},
        print_result, print_result_lines,
    },
};

/// Runs the command.
pub fn main(global: &Global, arguments: &SessionArguments) -> Result<ExitCode> {
    let put = match &arguments.command {
        SessionCommand::ClearAll { yes: false } => {
            clear_all::confirm_clear_all(global)?;
            String::new()
        }
        SessionCommand::Export(export) => return session_file::export::main(global, export, arguments.json),
        SessionCommand::Import(import) => return session_file::import::main(global, import, arguments.json),
        SessionCommand::Conversation(ConversationCommand::SetMessages { transcript, file }) => {
            return set_messages::main(global, transcript, file, arguments.json);
        }
        // Read before signal handlers are installed: a signal ends a process that waits for standard input.
        SessionCommand::Put { value, text, .. } => json_value(value, *text)?,
        _ => String::new(),
    };
    let appended = match &arguments.command {
        SessionCommand::Conversation(ConversationCommand::Append(AppendArguments { file: Some(file), .. })) => {
            Some(chat_messages::read(file)?)
        }
        _ => None,
    };
    with_keepline(global, arguments.command.access(), async |keepline, config, runtime| {
        let maintain = || maintenance::open(&keepline, config, runtime);
        let sessions = keepline.sessions();
        let mut runner = Runner { keepline: keepline.clone(), sessions, maintain, json: arguments.json, put, appended };
        runner.serve(&arguments.command).await
    })
}

struct Runner<M> {
    keepline: Keepline,
    sessions: Sessions,
    /// Opens the maintenance that does deferred work.
    maintain: M,
    json: bool,
    /// The value to put.
    put: String,
    /// The messages to append.
    appended: Option<Vec<ChatMessage>>,
}

impl<M: Fn() -> Result<Maintenance>> Runner<M> {
    async fn serve(&mut self, command: &SessionCommand) -> Result<()> {
        match command {
            SessionCommand::List(arguments) => list::list(&self.keepline, self.json, arguments).await,
            SessionCommand::Show { transcript } => {
                let shown = show::show(&self.keepline, &mut self.sessions, self.json, transcript).await;
                shown.map_err(|error| hint_at_app(transcript, error))
            }
            SessionCommand::Nodes { session, full } => list::nodes(&self.keepline, self.json, session, *full).await,
            SessionCommand::Create { session } => {
                let created = self.sessions.create(session).await?;
                let json = json!({"session": created.session, "incarnation": created.incarnation});
                print_result_lines(self.json, &json, [&created.session])
            }
            SessionCommand::Delete { session } => {
                let deleted = patient_sessions(&self.keepline, session).await?.delete(session).await?;
                let (count, keys) = (deleted.key_count, deleted.keys_cleared);
                let json = json!({"session": deleted.session, "key_count": count, "keys_cleared": keys});
                print_result_lines(self.json, &json, &keys)?;
                let unnamed = count.saturating_sub(keys.len() as u64);
                if unnamed > 0 && !self.json {
                    let told = terminal::counted(unnamed, "more key is", "more keys are");
                    terminal::note(&format!("{told} not named"));
                }
                Ok(())
            }
            SessionCommand::Put { session, key, .. } => {
                let stored = self.sessions.put(session, key, &self.put).await?;
                print_result(self.json, &json!({"session": stored.session, "key": stored.key}), "")
            }
            SessionCommand::Get { session, key, text } => self.get(session, key, *text).await,
            SessionCommand::Keys { session } => {
                let found = self.sessions.keys(session).await?;
                let json = json!({"session": found.session, "keys": found.keys});
                print_result_lines(self.json, &json, &found.keys)
            }
            SessionCommand::Clear { session, key, all: _ } => {
                let cleared = self.sessions.clear(session, key.as_deref()).await?;
                let json = json!({"session": cleared.session, "cleared": cleared.cleared});
                print_result_lines(self.json, &json, &cleared.cleared)
            }
            SessionCommand::Increment { session, key, amount } => {
                let counted = self.sessions.increment(session, key, *amount).await?;
                let json = json!({"session": counted.session, "key": counted.key, "value": counted.value});
                print_result(self.json, &json, &counted.value.to_string())
            }
            SessionCommand::Upkeep { session } => self.upkeep(session).await,
            SessionCommand::History { session, limit, before } => {
                history::history(&mut self.sessions, self.json, session, *before, *limit).await
            }
            SessionCommand::ClearAll { .. } => clear_all::clear_all(self.keepline.store(), self.json).await,
            // Served before the plugin is loaded.
            SessionCommand::Export(_) | SessionCommand::Import(_) => Ok(()),
            SessionCommand::Conversation(command) => {
                let appended = self.appended.as_deref();
                conversation::serve(&self.keepline, &mut self.sessions, self.json, command, appended).await
            }
        }
    }

    async fn upkeep(&mut self, session: &str) -> Result<()> {
        // All deferred work is about conversations.
        require_conversations(&self.keepline)?;
        terminal::logging::suppress("keepline.maintenance");
        let maintenance = (self.maintain)()?;
        // The component reports best what is wrong with a name.
        self.sessions.keys(session).await?;
        let bucket = self.keepline.session_ids().bucket_name(session).unwrap_or(session.into());
        let recall = Scope::of(&self.keepline)?;
        let owner = match recall {
            Some(_) => self.sessions.describe(session.into()).await?.owner,
            None => None,
        };
        let mut rows = Vec::new();
        for name in TASKS {
            let subject = match recall {
                _ if name != INDEX_TASK && name != EMBED_TASK => format!("session/{bucket}"),
                Some(scope) if name == INDEX_TASK || self.keepline.wants_vectors() => {
                    scope.subject(&bucket, owner.as_deref())?
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
                    return Err(Coded { code: "failed", message: format!("{name}: {problem}") }.into());
                }
            };
            rows.push((name, outcome));
        }
        if self.json {
            let tasks: BTreeMap<_, _> = rows.into_iter().map(|(name, (code, _))| (name, code)).collect();
            return print_result(self.json, &json!({"session": session, "tasks": tasks}), "");
        }
        let rows = rows.into_iter().map(|(name, (_, words))| [name.to_owned(), words.to_owned()]).collect();
        Ok(terminal::print_table(["Task", "Outcome"], rows)?)
    }

    async fn get(&mut self, session: &str, key: &str, as_text: bool) -> Result<()> {
        let found = self.sessions.get(session, key).await?;
        let value = found.value.as_deref();
        if self.json {
            let shown = ShownValue { session: &found.session, key: &found.key, value: value.map(Stored) };
            print_result(self.json, &shown, "")?;
        }
        let Some(value) = value else {
            let message = format!("Session '{session}' has no key '{key}'");
            return Err(Coded { code: "key-not-found", message }.into());
        };
        if self.json {
            return Ok(());
        }
        if as_text && value.starts_with('"') {
            let text = decoded(value);
            let shown = if terminal::is_for_people() { terminal::printable(&text).into() } else { text };
            return Ok(terminal::print_line(&shown)?);
        }
        Ok(terminal::print_line(&json_text::printable(value))?)
    }
}

#[derive(Serialize)]
struct ShownValue<'a> {
    session: &'a str,
    key: &'a str,
    value: Option<Stored<'a>>,
}
