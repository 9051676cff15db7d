//! `keepline memories`: finds memories of a user.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use keepline::{
    Keepline,
    memories::{FoundMemory, Memories, MemorySearch, Method, display_title, format_for_prompt, preview},
    sessions::{SessionError, SessionErrorCode, user_bucket},
};
use serde_json::json;

use crate::{
    app::{
        error::{coded_error, usage_error},
        with_keepline,
    },
    args::{GlobalArguments, StoreAccess, help::JSON_HELP, parse::parse_share},
    terminal::{self, json_text::EmbeddedJson, object, print_json, print_result},
};

#[derive(Debug, Args)]
pub struct MemoriesArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
    /// The user's id
    #[arg(long, value_name = "ID")]
    pub user: String,
    /// What to search for; defaults to the user's latest question
    #[arg(allow_hyphen_values = true)]
    pub query: Option<String>,
    /// Search only this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Show at most this many
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub limit: u32,
    /// Minimum similarity, relative to the best match: from 0 to 1 (exclusive)
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = parse_share)]
    pub threshold: f64,
    /// Find messages that contain all words of the query, also within longer words, newest first, without recall
    #[arg(long, conflicts_with = "threshold")]
    pub keyword: bool,
    /// Print the memories as text for a prompt
    #[arg(long, conflicts_with = "json")]
    pub prompt: bool,
    /// Maximum length of that text in characters
    #[arg(long, value_name = "COUNT", default_value_t = 2000, requires = "prompt")]
    pub max_chars: usize,
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
pub const MEMORIES_HELP: &str = r#"A memory is a question with its answer. Similarity is recall's score as a share of the best one's, and not comparable between queries. "method" of --json says by what they were found: "lexical", by words; "hybrid", also by the query's embedding, if there is a model for that and it came in time; "keyword". With recall=user, all sessions of the user are searched; with recall=session, name one with --session. Without recall, --keyword finds messages that contain the words. The session of another user is an error.

Exit codes: 0 success, also if nothing is found, 1 the command failed, 2 the command line or the configuration is wrong, 3 the plugin could not be loaded."#;

pub fn main(global: &GlobalArguments, arguments: &MemoriesArguments) -> Result<ExitCode> {
    with_keepline(global, StoreAccess::Read, async |keepline, _, _| {
        let MemoriesArguments { user, query, session, limit, threshold, keyword, prompt, max_chars, json } = arguments;
        let method = if *keyword { Method::Keyword } else { Method::Recall };
        let (query, session) = (query.as_deref(), session.as_deref());
        let search = MemorySearch { user, query, session, limit: *limit, threshold: *threshold, method };
        let memories = keepline.memories(search).await.map_err(refused)?;
        if let (Method::Keyword, Some(session)) = (method, session.filter(|session| !session.is_empty())) {
            refuse_foreign_session(&keepline, user, session).await?;
        }
        if *json {
            return print_memories(user, &memories);
        }
        if *prompt {
            let text = format_for_prompt(&memories.found, *max_chars);
            return print_result(false, &json!(null), &text);
        }
        let rows = memories.found.iter().map(row).collect();
        terminal::print_table(["Similarity", "Session", "Title", "Position", "User", "Assistant"], rows)
    })
}

/// # Errors
/// When a session is another user's: recall refuses it, a search for words finds nothing there.
async fn refuse_foreign_session(keepline: &Keepline, user: &str, session: &str) -> Result<()> {
    let mut sessions = keepline.sessions();
    let owner = match sessions.describe(session.into()).await {
        Ok(state) => state.owner,
        Err(error) if matches!(error.code, SessionErrorCode::NotFound | SessionErrorCode::Expired) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(owner) = owner else { return Ok(()) };
    // The owner is given by the name of their bucket.
    if user_bucket(user) == owner {
        return Ok(());
    }
    Err(coded_error("not-found", format!("Session '{session}' belongs to another user")))
}

/// A search that the configuration does not support is a usage error.
fn refused(error: SessionError) -> anyhow::Error {
    match error.code {
        SessionErrorCode::InvalidValue => usage_error(error.message),
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

fn print_memories(user: &str, memories: &Memories) -> Result<()> {
    let found = memories.found.iter().map(|memory| {
        object! {
            id: &memory.id,
            session: &memory.session,
            title: &memory.title,
            position: memory.position,
            user_message: &memory.user_message,
            ai_response: &memory.ai_response,
            combined_text: &memory.combined_text,
            similarity: memory.similarity,
            created_at: memory.created_at,
            metadata: memory.metadata.as_deref().map(EmbeddedJson),
        }
    });
    let (method, found) = (memories.method.name(), found.collect::<Vec<_>>());
    print_json(&object! { user: user, query: &memories.query, method: method, memories: found })
}
