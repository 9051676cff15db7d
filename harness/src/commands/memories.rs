//! `keepline memories`: finds memories of a user.

use std::process::ExitCode;

use anyhow::Result;
use keepline::{
    Keepline,
    memories::{FoundMemory, Memories, MemorySearch, Method, display_title, format_for_prompt, preview},
    sessions::{SessionError, SessionErrorCode},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    app::{
        error::{Coded, Usage},
        with_keepline,
    },
    args::{Access, Global, MemoriesArguments},
    terminal::{self, json_text::Stored, print_result},
};

/// `keepline memories`.
pub fn main(global: &Global, arguments: &MemoriesArguments) -> Result<ExitCode> {
    with_keepline(global, Access::Read, async |keepline, _, _| {
        let MemoriesArguments { user, query, session, limit, threshold, keyword, prompt, max_chars, json } = arguments;
        let method = if *keyword { Method::Keyword } else { Method::Recall };
        let (query, session) = (query.as_deref(), session.as_deref());
        let search = MemorySearch { user, query, session, limit: *limit, threshold: *threshold, method };
        let memories = keepline.memories(search).await.map_err(refused)?;
        if let (Method::Keyword, Some(session)) = (method, session.filter(|session| !session.is_empty())) {
            is_not_anothers(&keepline, user, session).await?;
        }
        if *json {
            return print_result(true, &Shown::of(user, &memories), "");
        }
        if *prompt {
            let text = format_for_prompt(&memories.found, *max_chars);
            return print_result(false, &json!(null), &text);
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
