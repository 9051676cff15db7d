//! `keepline session`: what an operator does to sessions, over the component's `sessions` export.
//!
//! The component checks and words everything; here is only how it looks. Plain output is for pipes: one
//! thing a line, fields separated by tabs. Promises that a stored value comes out as the value that is stored: no digit or
//! member is lost on the way, in JSON or not. What a terminal would obey, or people can't see for what it is, is spelt
//! by its number in that JSON, also for a pipe, at whose end there may be a pager: the value is the same. Only
//! `get --text` gives a pipe the text itself.

pub mod clear_all;
mod history;
pub mod pages;
pub mod show;

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use keepline::{
    Deadline, Keepline, Sessions,
    config::Config,
    maintenance::{Maintenance, Outcome, TASKS, Task},
    sessions::SessionErrorCode,
};
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;

use self::pages::{Pages, stuck};
use crate::{
    chat_messages::{self, ChatMessage},
    cli::{Access, AppendArguments, ConversationCommand, GRACE, Global, SessionArguments, SessionCommand},
    conversation,
    ending::Ending,
    error::Coded,
    json_text::{self, Stored, json_value},
    moving,
    recall::{EMBED, MAKE, Scope},
    run::members::decoded,
    runtime, setup, store_settings, terminal,
};

/// Run it.
pub fn main(global: &Global, arguments: &SessionArguments) -> Result<ExitCode> {
    let put = match &arguments.command {
        SessionCommand::ClearAll { yes: false } => {
            clear_all::confirm(global)?;
            String::new()
        }
        SessionCommand::Export(export) => return moving::export::main(global, export, arguments.json),
        SessionCommand::Import(import) => return moving::import::main(global, import, arguments.json),
        SessionCommand::Conversation(ConversationCommand::SetMessages { transcript, file }) => {
            return conversation::set_messages::main(global, transcript, file, arguments.json);
        }
        // Before signals are heard: whoever waits for standard input can be ended by one.
        SessionCommand::Put { value, text, .. } => json_value(value, *text)?,
        _ => String::new(),
    };
    let appended = match &arguments.command {
        SessionCommand::Conversation(ConversationCommand::Append(AppendArguments { file: Some(file), .. })) => {
            Some(chat_messages::read(file)?)
        }
        _ => None,
    };
    watched(global, arguments.command.access(), async |keepline, config, runtime| {
        let maintain = || setup::maintenance(&keepline, config, runtime);
        let sessions = keepline.sessions();
        let mut desk = Desk { keepline: keepline.clone(), sessions, maintain, json: arguments.json, put, appended };
        desk.serve(&arguments.command).await
    })
}

/// Serve one command with what is configured. One that changes something is not interrupted without being told so, and only
/// one that adds something makes a directory: for any other, one without a store is a slip of the finger.
pub fn watched(
    global: &Global,
    access: Access,
    serve: impl AsyncFnOnce(Keepline, &Config, &Runtime) -> Result<()>,
) -> Result<ExitCode> {
    let config = setup::config(global)?;
    let plugin = setup::plugin(global, &config)?;
    if !config.is_durable() {
        terminal::note(
            "the \"memory\" backend lives only as long as this process: there are no earlier sessions, and none will \
             be kept; to keep them in a directory, add --dir PATH; for Redis, add --profile redis, or set \
             KEEPLINE_PROFILE=redis and KEEPLINE_REDIS_URL",
        );
    }
    let runtime = runtime::single()?;
    let done: Result<()> = runtime.block_on(async {
        let served = async {
            let store = if access == Access::Add { config.store()? } else { setup::existing_store(&config)? };
            let config = match access {
                Access::Add => config,
                Access::Read | Access::Change => store_settings::adopted(&config, &store).await,
            };
            let keepline = setup::keepline_on(store.clone(), plugin, &config).await?;
            let began = Instant::now();
            let served = serve(keepline, &config, &runtime).await;
            let (trips, took) = (terminal::counted(store.round_trips(), "round trip", "round trips"), began.elapsed());
            tracing::debug!(target: "keepline", "{trips} to the store in {} ms", took.as_millis());
            served
        };
        if access == Access::Read {
            return served.await;
        }
        // What was sent to the store may be done already: its answer is waited for, and told.
        let ending = Ending::listen(GRACE)?;
        tokio::select! {
            served = served => served,
            () = ending.told(|_| ()) => {
                let message = "interrupted before the store answered: the change may or may not have been applied";
                Err(Coded { code: "interrupted", message: message.to_owned() }.into())
            }
        }
    });
    // A model that was asked is not waited for.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}

/// What corrections may take: out of a large memory, a lot goes.
const CORRECTION: Duration = Duration::from_secs(60);

/// Sessions whose calls may take long, once the store has answered in time: one that is down is told at once.
pub async fn patient(keepline: &Keepline, session: &str) -> Result<Sessions> {
    match keepline.sessions().describe(session.into()).await {
        Err(error) if error.code == SessionErrorCode::Busy => Err(error.into()),
        Err(error) if matches!(error.code, SessionErrorCode::Store(code) if code.is_the_store_s()) => Err(error.into()),
        // The call itself says best what is wrong: what is damaged can be deleted.
        _ => Ok(keepline.sessions().by(Deadline::after(CORRECTION))),
    }
}

struct Desk<M> {
    keepline: Keepline,
    sessions: Sessions,
    /// Makes what does deferred work.
    maintain: M,
    json: bool,
    /// The value to put.
    put: String,
    /// The messages to append.
    appended: Option<Vec<ChatMessage>>,
}

impl<M: Fn() -> Result<Maintenance>> Desk<M> {
    async fn serve(&mut self, command: &SessionCommand) -> Result<()> {
        match command {
            SessionCommand::List { limit, cursor, all } => self.list(*limit, cursor.clone(), *all).await,
            SessionCommand::Show { session } => show::show(&mut self.sessions, self.json, session).await,
            SessionCommand::Create { session } => {
                let created = self.sessions.create(session).await?;
                let json = json!({"session": created.session, "incarnation": created.incarnation});
                answer_lines(self.json, &json, [&created.session])
            }
            SessionCommand::Delete { session } => {
                let deleted = patient(&self.keepline, session).await?.delete(session).await?;
                let (count, keys) = (deleted.key_count, deleted.keys_cleared);
                let json = json!({"session": deleted.session, "key_count": count, "keys_cleared": keys});
                answer_lines(self.json, &json, &keys)?;
                let unnamed = count.saturating_sub(keys.len() as u64);
                if unnamed > 0 && !self.json {
                    let told = terminal::counted(unnamed, "more key is", "more keys are");
                    terminal::note(&format!("{told} not named"));
                }
                Ok(())
            }
            SessionCommand::Put { session, key, .. } => {
                let stored = self.sessions.put(session, key, &self.put).await?;
                self.answer(&json!({"session": stored.session, "key": stored.key}), "")
            }
            SessionCommand::Get { session, key, text } => self.get(session, key, *text).await,
            SessionCommand::Keys { session } => {
                let found = self.sessions.keys(session).await?;
                let json = json!({"session": found.session, "keys": found.keys});
                answer_lines(self.json, &json, &found.keys)
            }
            SessionCommand::Clear { session, key, all: _ } => {
                let cleared = self.sessions.clear(session, key.as_deref()).await?;
                let json = json!({"session": cleared.session, "cleared": cleared.cleared});
                answer_lines(self.json, &json, &cleared.cleared)
            }
            SessionCommand::Increment { session, key, amount } => {
                let counted = self.sessions.increment(session, key, *amount).await?;
                let json = json!({"session": counted.session, "key": counted.key, "value": counted.value});
                self.answer(&json, &counted.value.to_string())
            }
            SessionCommand::Upkeep { session } => self.upkeep(session).await,
            SessionCommand::History { session, limit, before } => {
                history::history(&mut self.sessions, self.json, session, *before, *limit).await
            }
            SessionCommand::ClearAll { .. } => clear_all::clear_all(self.keepline.store(), self.json).await,
            // Served without the plugin.
            SessionCommand::Export(_) | SessionCommand::Import(_) => Ok(()),
            SessionCommand::Conversation(command) => {
                let appended = self.appended.as_deref();
                conversation::serve(&self.keepline, &mut self.sessions, self.json, command, appended).await
            }
        }
    }

    async fn upkeep(&mut self, session: &str) -> Result<()> {
        // All that is deferred is about conversations.
        conversation::are_kept(&self.keepline)?;
        terminal::leave_out("keepline.maintenance");
        let maintenance = (self.maintain)()?;
        // It says best what is wrong with a name.
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
                _ if name != MAKE && name != EMBED => format!("session/{bucket}"),
                Some(scope) if name == MAKE || self.keepline.wants_vectors() => {
                    scope.subject(&bucket, owner.as_deref())?
                }
                _ => continue,
            };
            let task = Task { subject, name: name.to_owned(), state: String::new() };
            let outcome = match maintenance.run(task).await {
                // It was done now, or nothing was due.
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
            return self.answer(&json!({"session": session, "tasks": tasks}), "");
        }
        let rows = rows.into_iter().map(|(name, (_, words))| [name.to_owned(), words.to_owned()]).collect();
        Ok(terminal::print_table(["Task", "Outcome"], rows)?)
    }

    /// JSON or plain lines; nothing when there are none.
    fn answer(&self, json: &impl Serialize, plain: &str) -> Result<()> {
        answer(self.json, json, plain)
    }

    async fn list(&mut self, limit: u32, mut cursor: String, all: bool) -> Result<()> {
        // A page at a time, also with --all: nobody knows how many sessions there are. A session that comes
        // or goes meanwhile may be listed twice; each page is sorted.
        let (mut sessions, mut pages) = (Vec::new(), Pages::default());
        let mut last: Vec<String> = Vec::new();
        loop {
            let page = self.sessions.list(&cursor, limit).await?;
            let repeats = page.cursor == cursor;
            cursor = page.cursor;
            if self.json {
                let instead = "without --json, sessions are shown page by page; or use --cursor in place of --all";
                pages.keep(page.sessions.iter().map(String::as_str), instead)?;
                sessions.extend(page.sessions.iter().cloned());
            } else if !page.sessions.is_empty() {
                let rows = page.sessions.iter().map(|session| [session.clone()]).collect();
                terminal::print_table(["Session"], rows)?;
            }
            if !all || cursor.is_empty() {
                break;
            }
            if repeats {
                return Err(stuck());
            }
            pages.turn(!page.sessions.is_empty() && page.sessions != last)?;
            last = page.sessions;
        }
        if self.json {
            return self.answer(&json!({"sessions": sessions, "cursor": cursor}), "");
        }
        if !cursor.is_empty() {
            let cursor = terminal::quoted(&cursor);
            terminal::note(&format!("more sessions follow: use --cursor {cursor} for the next page, or --all"));
        }
        Ok(())
    }

    async fn get(&mut self, session: &str, key: &str, as_text: bool) -> Result<()> {
        let found = self.sessions.get(session, key).await?;
        let value = found.value.as_deref();
        if self.json {
            let shown = ShownValue { session: &found.session, key: &found.key, value: value.map(Stored) };
            self.answer(&shown, "")?;
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

/// JSON or plain lines; nothing when there are none.
pub fn answer(as_json: bool, json: &impl Serialize, plain: &str) -> Result<()> {
    if as_json {
        return Ok(terminal::print_json(json)?);
    }
    if !plain.is_empty() {
        terminal::print_line(&terminal::printable(plain))?;
    }
    Ok(())
}

/// JSON, or one thing a line: what could be taken for another line is escaped.
pub fn answer_lines(
    as_json: bool,
    json: &impl Serialize,
    lines: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<()> {
    if as_json {
        return Ok(terminal::print_json(json)?);
    }
    Ok(terminal::print_lines(lines)?)
}

#[derive(Serialize)]
struct ShownValue<'a> {
    session: &'a str,
    key: &'a str,
    value: Option<Stored<'a>>,
}

/// A stored value on one line, still the same value.
pub fn cell(json: &str) -> String {
    json_text::printable(&json_text::on_one_line(json)).into_owned()
}
