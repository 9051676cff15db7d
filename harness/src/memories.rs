//! `keepline remember` and `keepline memories`: over the library's memories.
//!
//! Promises what [`session`](crate::session) promises of its output, and that what was remembered is found by the next
//! command: what is due after an answer is done before this one ends.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use anyhow::Result;
use keepline::{
    Keepline,
    maintenance::Outcome,
    memories::{
        FoundMemory, Memories, MemorySearch, MemorySkip, Method, Remember, RememberOutcome, display_title,
        format_for_prompt, preview,
    },
    sessions::{SessionError, SessionErrorCode},
};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{
    chat_messages::{self, ChatMessage},
    cli::{Access, Global, MemoriesArguments, RememberArguments},
    error::{Coded, Usage},
    json_text::Stored,
    session::{answer, watched},
    setup, terminal,
};

/// `keepline remember`.
pub fn remember(global: &Global, arguments: &RememberArguments) -> Result<ExitCode> {
    let metadata = metadata(arguments)?;
    // Before signals are heard: whoever waits for standard input can be ended by one.
    let messages = messages()?;
    watched(global, Access::Add, async |keepline, config, runtime| {
        let RememberArguments { user, session, id, .. } = arguments;
        let (session, message_id) = (session.as_deref(), id.as_deref());
        let told = Remember { user, session, messages: &messages, message_id, metadata: &metadata };
        let remembered = keepline.remember(told, None).await;
        let maintenance = setup::maintenance(&keepline, config, runtime)?;
        for task in remembered.due {
            let name = task.name.clone();
            if let Outcome::Failed(problem) = maintenance.run(task).await {
                terminal::warning(&format!("{name}: {problem}; it is due again after the next answer"));
            }
        }
        match remembered.outcome {
            RememberOutcome::Stored { session, message_id, problem } => {
                if let Some(problem) = problem {
                    terminal::warning(&problem.message);
                }
                done(arguments.json, "stored", &session, &message_id)
            }
            RememberOutcome::Repeated { session, message_id } => {
                done(arguments.json, "repeated", &session, &message_id)
            }
            RememberOutcome::Skipped(skip @ MemorySkip::NoConversations) => Err(Usage(skip.to_string()).into()),
            RememberOutcome::Skipped(skip) => {
                let (code, reason) = (skip.code(), skip.to_string());
                if arguments.json {
                    return answer(true, &json!({"outcome": "skipped", "code": code, "reason": reason}), "");
                }
                Ok(terminal::print_table(["Outcome", "Code", "Reason"], vec![["skipped".to_owned(), code, reason]])?)
            }
            RememberOutcome::Failed(problem) => Err(Coded { code: "not-stored", message: problem.message }.into()),
            other => Err(anyhow::anyhow!("unexpected outcome: {other:?}")),
        }
    })
}

fn done(json: bool, outcome: &str, session: &str, message_id: &str) -> Result<()> {
    if json {
        return answer(true, &json!({"outcome": outcome, "session": session, "message_id": message_id}), "");
    }
    let row = [outcome, session, message_id].map(str::to_owned);
    Ok(terminal::print_table(["Outcome", "Session", "Message"], vec![row])?)
}

/// As it is written, with the source.
fn metadata(arguments: &RememberArguments) -> Result<String> {
    let given = arguments.metadata.as_deref().unwrap_or("{}");
    let mut metadata: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(given).map_err(|error| Usage(format!("--metadata must be a JSON object: {error}")))?;
    if let Some(source) = &arguments.source {
        metadata.insert("source".to_owned(), to_raw_value(source)?);
    }
    Ok(serde_json::to_string(&metadata)?)
}

fn messages() -> Result<Vec<Value>> {
    let wrong = |error: anyhow::Error| match error.downcast::<Coded>() {
        Ok(Coded { message, .. }) => {
            let forms = "JSON lines, a JSON array, or an object with \"messages\"";
            Usage(format!("standard input must hold messages as {forms}: {message}")).into()
        }
        Err(other) => other,
    };
    let messages = chat_messages::read(Path::new("-")).map_err(wrong)?;
    messages.iter().map(ChatMessage::value).collect()
}

/// `keepline memories`.
pub fn memories(global: &Global, arguments: &MemoriesArguments) -> Result<ExitCode> {
    watched(global, Access::Read, async |keepline, _, _| {
        let MemoriesArguments { user, query, session, limit, threshold, keyword, prompt, max_chars, json } = arguments;
        let method = if *keyword { Method::Keyword } else { Method::Recall };
        let (query, session) = (query.as_deref(), session.as_deref());
        let search = MemorySearch { user, query, session, limit: *limit, threshold: *threshold, method };
        let memories = keepline.memories(search).await.map_err(refused)?;
        if let (Method::Keyword, Some(session)) = (method, session.filter(|session| !session.is_empty())) {
            is_not_anothers(&keepline, user, session).await?;
        }
        if *json {
            return answer(true, &Shown::of(user, &memories), "");
        }
        if *prompt {
            let text = format_for_prompt(&memories.found, *max_chars);
            return answer(false, &json!(null), &text);
        }
        let rows = memories.found.iter().map(row).collect();
        Ok(terminal::print_table(["Similarity", "Session", "Title", "Position", "User", "Assistant"], rows)?)
    })
}

/// # Errors
/// When a session is another user's: recall refuses it, a search for words finds nothing there.
async fn is_not_anothers(keepline: &Keepline, user: &str, session: &str) -> Result<()> {
    let mut sessions = keepline.sessions();
    let owner = match sessions.describe(session.into()).await {
        Ok(state) => state.owner,
        Err(error) if matches!(error.code, SessionErrorCode::NotFound | SessionErrorCode::Expired) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(owner) = owner else { return Ok(()) };
    // The owner is told by the name of their bucket.
    if sessions.user_sessions(user, None, 1).await?.user == owner {
        return Ok(());
    }
    let message = format!("Session '{session}' belongs to another user");
    Err(Coded { code: "not-found", message }.into())
}

/// What this configuration can't do is a mistake of its user's.
fn refused(error: SessionError) -> anyhow::Error {
    match error.code {
        SessionErrorCode::InvalidValue => Usage(error.message).into(),
        _ => error.into(),
    }
}

fn row(memory: &FoundMemory) -> [String; 6] {
    let similarity = memory.similarity.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"));
    // Its messages are not the session's last ones: several memories of a session have one title.
    let title = display_title(memory.title.as_deref(), None);
    let (question, answer) = (preview("", &memory.user_message), preview("", &memory.ai_response));
    [similarity, memory.session.clone(), title, memory.position.to_string(), question, answer]
}

#[derive(Serialize)]
struct Shown<'a> {
    user: &'a str,
    query: &'a str,
    method: &'static str,
    memories: Vec<ShownMemory<'a>>,
}

#[derive(Serialize)]
struct ShownMemory<'a> {
    id: Option<&'a str>,
    session: &'a str,
    title: Option<&'a str>,
    position: u64,
    user_message: &'a str,
    ai_response: &'a str,
    combined_text: &'a str,
    similarity: Option<f64>,
    created_at: Option<f64>,
    metadata: Option<Stored<'a>>,
}

impl<'a> Shown<'a> {
    fn of(user: &'a str, memories: &'a Memories) -> Self {
        let shown = |memory: &'a FoundMemory| ShownMemory {
            id: memory.id.as_deref(),
            session: &memory.session,
            title: memory.title.as_deref(),
            position: memory.position,
            user_message: &memory.user_message,
            ai_response: &memory.ai_response,
            combined_text: &memory.combined_text,
            similarity: memory.similarity,
            created_at: memory.created_at,
            metadata: memory.metadata.as_deref().map(Stored),
        };
        let method = memories.method.name();
        Self { user, query: &memories.query, method, memories: memories.found.iter().map(shown).collect() }
    }
}
