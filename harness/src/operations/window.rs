//! Previews the metadata that a question would get, without storing anything.

use anyhow::Result;
use keepline::{
    Keepline, Sessions,
    pipe::{Effect, Passed, Question, Vector},
};
use serde_json::{Map, Value};

use super::{
    recall::has_nothing_to_search,
    transcripts::{
        as_transcript, entry_metadata, hint_at_app, require_conversations, require_parent, require_valid_user,
    },
};
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
    let WindowArguments { transcript, asked, .. } = arguments;
    let looked = async {
        // The component reports best what is wrong with a name.
        sessions.describe(as_transcript(transcript)).await?;
        require_parent(sessions, transcript, asked.parent.as_deref()).await
    };
    looked.await.map_err(|error| hint_at_app(transcript, error))?;
    require_valid_user(sessions, arguments.asked.user.as_deref()).await?;
    ask_without_storing(keepline, arguments, embed_query(keepline, &arguments.query).await).await
}

/// The same for a new session of that user. `None`: the question has nothing to search for.
pub async fn preview_in_new_session(keepline: &Keepline, arguments: &WindowArguments) -> Result<Option<Passed>> {
    require_valid_user(&mut keepline.sessions(), arguments.asked.user.as_deref()).await?;
    let vector = embed_query(keepline, &arguments.query).await;
    if has_nothing_to_search(&arguments.query, vector.as_ref()) {
        return Ok(None);
    }
    ask_without_storing(keepline, arguments, vector).await.map(Some)
}

async fn ask_without_storing(
    keepline: &Keepline,
    arguments: &WindowArguments,
    vector: Option<Vector>,
) -> Result<Passed> {
    let WindowArguments { transcript, query, asked: AskedArguments { budget, parent, user } } = arguments;
    let mut metadata = entry_metadata(transcript, parent.as_deref(), user.as_deref());
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
            Err(coded_error("not-found", format!("session '{}' belongs to another user", transcript.session)))
        }
        (Effect::Failed, problem) => {
            Err(coded_error("failed", problem.as_ref().map_or("the question failed", |problem| &problem.message)))
        }
        _ => Ok(passed),
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
