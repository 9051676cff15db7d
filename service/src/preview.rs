//! Shows what a question would get, without storing anything: for the command line and the service.

use keepline::{
    Deadline, EntryError, Keepline, Sessions,
    pipe::{Effect, Passed, Problem, Question, Vector},
    sessions::{MessageQuery, SessionError, Transcript},
};
use keepline_recall::{Embedding, extract_terms};
use serde_json::{Map, Value};

/// The parent id that means the newest message.
const NEWEST_MESSAGE_ID: &str = "00000000-0000-0000-0000-000000000000";
/// The members that questions get, each by the name that an explanation gives it.
const SHOWN_MEMBERS: [(&str, &str); 5] = [
    ("sections", "memory_sections"),
    ("recalled", "memory_recall"),
    ("summary", "memory_summary"),
    ("messages", "memory_messages"),
    ("values", "memory_context"),
];

/// A question that is only looked at.
#[derive(Clone, Copy, Debug)]
pub struct Preview<'a> {
    /// Where it would be asked.
    pub transcript: Transcript<'a>,
    /// Its text.
    pub query: &'a str,
    /// Tokens of the window, in place of the configured ones.
    pub budget: Option<u64>,
    /// The message that it would follow, in place of the newest.
    pub parent: Option<&'a str>,
    /// Who asks.
    pub user: Option<&'a str>,
    /// Of its text. None: there is none.
    pub vector: Option<&'a Vector>,
}

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The session, the message or the user is not there, or can't be.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The question failed.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The session is another user's.
    #[error("session '{0}' belongs to another user")]
    Foreign(String),
    /// The same, without an entry's own error.
    #[error("{}", .0.message)]
    Failed(Problem),
}

/// What a question in a session that is there would get.
///
/// # Errors
/// See [`PreviewError`].
pub async fn preview_question(
    keepline: &Keepline,
    sessions: &mut Sessions,
    preview: Preview<'_>,
    by: Option<Deadline>,
) -> Result<Passed, PreviewError> {
    // The component reports best what is wrong with a name.
    sessions.describe(preview.transcript).await?;
    require_parent(sessions, preview.transcript, preview.parent).await?;
    require_valid_user(sessions, preview.user).await?;
    ask_without_storing(keepline, preview, by).await
}

/// The same, without a look at whether the session, the message and the user are there.
///
/// # Errors
/// See [`PreviewError`].
pub async fn ask_without_storing(
    keepline: &Keepline,
    preview: Preview<'_>,
    by: Option<Deadline>,
) -> Result<Passed, PreviewError> {
    let Preview { transcript, query, budget, parent, user, vector } = preview;
    let mut metadata = entry_metadata(transcript, parent, user);
    let mut switches = Map::new();
    switches.insert("look".to_owned(), true.into());
    if let Some(budget) = budget {
        switches.insert("max_context_tokens".to_owned(), budget.into());
    }
    metadata.insert("memory".to_owned(), switches.into());
    let metadata = Value::from(metadata).to_string();
    let question = Question { text: query, metadata: &metadata, vector, ..Question::default() };
    let passed = keepline.pipe().ask(question, by).await?;
    match (passed.effect, &passed.problem) {
        (Effect::Foreign, _) => Err(PreviewError::Foreign(transcript.session.to_owned())),
        (Effect::Failed, Some(problem)) => Err(PreviewError::Failed(problem.clone())),
        _ => Ok(passed),
    }
}

/// # Errors
/// When the parent message does not exist: an entry that names such a one would continue from the newest.
pub async fn require_parent(
    sessions: &mut Sessions,
    transcript: Transcript<'_>,
    parent: Option<&str>,
) -> Result<(), SessionError> {
    let Some(id) = parent.filter(|id| !id.is_empty() && *id != NEWEST_MESSAGE_ID) else { return Ok(()) };
    let query = MessageQuery { id: Some(id), limit: 1, ..MessageQuery::default() };
    sessions.messages(transcript, query).await.map(drop)
}

/// # Errors
/// When the id is invalid: an entry that names it passes as if the session were another user's.
pub async fn require_valid_user(sessions: &mut Sessions, user: Option<&str>) -> Result<(), SessionError> {
    let Some(user) = user else { return Ok(()) };
    // The component reports best what is wrong with it.
    sessions.user_sessions(user, None, 1).await.map(drop)
}

/// Whether a question has neither a word nor an embedding to search for. Asked in a session that does not exist, such a
/// question would fail.
pub fn has_nothing_to_search(question: &str, vector: Option<&Vector>) -> bool {
    let embedding = vector.and_then(|vector| Embedding::new(&vector.model, &vector.data));
    extract_terms(question).is_empty() && embedding.is_none()
}

/// The metadata of an entry of a conversation.
pub fn entry_metadata(transcript: Transcript<'_>, parent: Option<&str>, user: Option<&str>) -> Map<String, Value> {
    let Transcript { session, app_id, node_id } = transcript;
    let mode = if node_id.is_some() { "node" } else { "conversation" };
    let members = [
        ("session_id", Some(session)),
        ("memory_mode", Some(mode)),
        ("node_id", node_id),
        ("app_id", app_id),
        ("parent_message_id", parent),
        ("user_id", user),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}

/// The trace of a question's metadata, with what the question would get.
pub fn explanation(metadata: &Value) -> Value {
    let trace = metadata.get("memory_trace").and_then(Value::as_object);
    let mut shown = trace.cloned().unwrap_or_else(Map::new);
    for (name, member) in SHOWN_MEMBERS {
        if let Some(value) = metadata.get(member) {
            shown.insert(name.to_owned(), value.clone());
        }
    }
    shown.into()
}
