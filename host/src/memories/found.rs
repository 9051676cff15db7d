//! What a search finds.

/// By what memories were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodUsed {
    /// By recall without an embedding of the query: words, names and dates.
    #[default]
    Lexical,
    /// By recall, with words and the query's embedding.
    Hybrid,
    /// All words of the query.
    Keyword,
}

impl MethodUsed {
    /// In one word, for scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Hybrid => "hybrid",
            Self::Keyword => "keyword",
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Memories {
    /// What was looked for. Empty: nothing was asked yet.
    pub query: String,
    /// By what.
    pub method: MethodUsed,
    /// The best first, or with words the newest.
    pub found: Vec<FoundMemory>,
}

/// An exchange that was found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundMemory {
    /// The answer's message id, if it has one.
    pub id: Option<String>,
    /// The place of its first message in the session's transcript.
    pub position: u64,
    /// The session's id.
    pub session: String,
    /// The session's title.
    pub title: Option<String>,
    /// Empty: there is none.
    pub user_message: String,
    /// Empty: there is none.
    pub ai_response: String,
    /// `User: {user_message}`, an empty line, `Assistant: {ai_response}`.
    pub combined_text: String,
    /// Its best passage's score, as a share of the best one of all: 0 to 1, not comparable between queries. None: it was
    /// found by words.
    pub similarity: Option<f64>,
    /// Seconds since 1970.
    pub created_at: Option<f64>,
    /// As it was stored with the answer: a JSON object.
    pub metadata: Option<String>,
}

impl FoundMemory {
    pub(super) fn of(session: &str, user_message: &str, ai_response: &str) -> Self {
        Self {
            id: None,
            position: 0,
            session: session.to_owned(),
            title: None,
            user_message: user_message.to_owned(),
            ai_response: ai_response.to_owned(),
            combined_text: format!("User: {user_message}\n\nAssistant: {ai_response}"),
            similarity: None,
            created_at: None,
            metadata: None,
        }
    }
}
