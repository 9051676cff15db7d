//! Previews the metadata that a question would get, without storing anything.

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    pipe::{Passed, Vector},
};
use keepline_service::preview::{self, Preview, PreviewError, has_nothing_to_search, require_valid_user};

use super::transcripts::{as_transcript, hint_at_app, require_conversations};
use crate::{
    app::error::coded_error,
    args::{AskedArguments, WindowArguments},
    terminal,
};

pub async fn preview_question(
    keepline: &Keepline,
    sessions: &mut Sessions,
    arguments: &WindowArguments,
) -> Result<Passed> {
    require_conversations(keepline)?;
    let vector = embed_query(keepline, &arguments.query).await;
    let previewed = preview::preview_question(keepline, sessions, preview_of(arguments, vector.as_ref()), None).await;
    previewed.map_err(|error| hint_at_app(&arguments.transcript, preview_failed(error)))
}

/// The same for a new session of that user. `None`: the question has nothing to search for.
pub async fn preview_in_new_session(keepline: &Keepline, arguments: &WindowArguments) -> Result<Option<Passed>> {
    require_valid_user(&mut keepline.sessions(), arguments.asked.user.as_deref()).await?;
    let vector = embed_query(keepline, &arguments.query).await;
    if has_nothing_to_search(&arguments.query, vector.as_ref()) {
        return Ok(None);
    }
    let asked = preview::ask_without_storing(keepline, preview_of(arguments, vector.as_ref()), None).await;
    asked.map(Some).map_err(preview_failed)
}

fn preview_of<'a>(arguments: &'a WindowArguments, vector: Option<&'a Vector>) -> Preview<'a> {
    let WindowArguments { transcript, query, asked: AskedArguments { budget, parent, user } } = arguments;
    let transcript = as_transcript(transcript);
    Preview { transcript, query, budget: *budget, parent: parent.as_deref(), user: user.as_deref(), vector }
}

fn preview_failed(error: PreviewError) -> anyhow::Error {
    match error {
        PreviewError::Session(error) => error.into(),
        PreviewError::Entry(error) => error.into(),
        PreviewError::Foreign(_) => coded_error("not-found", error.to_string()),
        PreviewError::Failed(problem) => coded_error("failed", problem.message),
    }
}

async fn embed_query(keepline: &Keepline, query: &str) -> Option<Vector> {
    if !keepline.wants_vectors() || query.trim().is_empty() {
        return None;
    }
    match keepline.embed(&[query.to_owned()]).await {
        Ok(made) => made.and_then(|mut made| made.pop()),
        Err(error) => {
            terminal::print_warning(&format!("the question has no embedding: {error}"));
            // Without any vector, the pipe would ask the model, and warn, once more.
            Some(Vector { model: String::new(), data: String::new() })
        }
    }
}
