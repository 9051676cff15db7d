//! The options of recall.

use crate::options::conversation::texts;
use crate::options::reader::{ConfigProblem, Reader};

/// Where it is looked for what bears on a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Nowhere.
    Off,
    /// In the session, or the node.
    Session,
    /// In all sessions of the user whom an entry names.
    User,
}

impl Recall {
    const ALL: [(&'static str, Self); 3] = [("off", Self::Off), ("session", Self::Session), ("user", Self::User)];

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, scope)| *scope == self).map_or("", |(name, _)| name)
    }
}

/// Those in force. Their names begin with `recall_`, but for the scope's.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallOptions {
    /// `recall`.
    pub scope: Recall,
    /// The tokens that a question gets of what is recalled, at most; beside its window.
    pub tokens: u64,
    /// Whether names, dates and times in a question count for more than words.
    pub hints: bool,
    /// Whether passages get embeddings, and questions come with one.
    pub vectors: bool,
    /// Sources of passages that are not recalled: `tool`, `import`.
    pub exclude: Vec<String>,
    /// What was said longer ago is not recalled. 0: whatever is kept is.
    pub ttl_hours: f64,
    /// `recall_life`: whether the copies of a session's messages end with it.
    pub ends_with_session: bool,
}

impl Default for RecallOptions {
    fn default() -> Self {
        Self {
            scope: Recall::Off,
            tokens: 2000,
            hints: true,
            vectors: false,
            exclude: Vec::new(),
            ttl_hours: 0.0,
            ends_with_session: false,
        }
    }
}

/// What passages may come from, beside who speaks.
const SOURCES: [&str; 2] = ["tool", "import"];

impl RecallOptions {
    /// Set one. Whether there is one of this name.
    pub(crate) fn set(&mut self, reader: &Reader<'_>) -> Result<bool, ConfigProblem> {
        let default = Self::default();
        let read = match reader.field {
            "recall" => reader.choice(&mut self.scope, default.scope, &Recall::ALL),
            "recall_tokens" => reader.integer(&mut self.tokens, default.tokens, 64, 32_768),
            "recall_hints" => reader.boolean(&mut self.hints, default.hints),
            "recall_vectors" => reader.boolean(&mut self.vectors, default.vectors),
            "recall_exclude" => {
                texts(reader, &mut self.exclude, &default.exclude)?;
                match self.exclude.iter().all(|source| SOURCES.contains(&&**source)) {
                    true => Ok(()),
                    false => Err(reader.problem("a list of \"tool\" and \"import\"")),
                }
            }
            "recall_ttl_hours" => reader.hours(&mut self.ttl_hours, default.ttl_hours),
            "recall_life" => {
                let lives = [("user", false), ("session", true)];
                reader.choice(&mut self.ends_with_session, default.ends_with_session, &lives)
            }
            _ => return Ok(false),
        };
        read.map(|()| true)
    }

    /// Whether embeddings are of any use.
    pub fn wants_vectors(&self) -> bool {
        self.vectors && self.scope != Recall::Off
    }
}
