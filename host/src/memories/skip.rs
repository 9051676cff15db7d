//! Why an exchange is not stored.
//!
//! Promises a word for scripts and a sentence for people, for every reason.

use std::fmt;

use crate::entry::Problem;

/// Why nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemorySkip {
    /// No user is known, or the id has more than 1,024 bytes.
    NoUser,
    /// Less than two messages.
    TooFewMessages,
    /// No message of a user that was answered, or the newest one is still being answered.
    NoPair,
    /// The user's or the assistant's text is blank.
    Empty,
    /// Conversations are off.
    NoConversations,
    /// No session, and recall's scope is not the user.
    NoSession,
    /// This can't be a session's id.
    InvalidSession,
    /// The session belongs to another user.
    Foreign,
    /// The session ended meanwhile, or the user was forgotten less than a day ago.
    Ended,
    /// The filter's rules: `too-short`, `marker`, …
    Filter(Problem),
}

impl MemorySkip {
    /// For scripts, in one word.
    pub fn code(&self) -> String {
        match self {
            Self::NoUser => "no-user".into(),
            Self::TooFewMessages => "too-few-messages".into(),
            Self::NoPair => "no-pair".into(),
            Self::Empty => "empty".into(),
            Self::NoConversations => "no-conversations".into(),
            Self::NoSession => "no-session".into(),
            Self::InvalidSession => "invalid-session".into(),
            Self::Foreign => "foreign".into(),
            Self::Ended => "ended".into(),
            Self::Filter(problem) => problem.code.to_string(),
        }
    }
}

/// One sentence without a full stop.
impl fmt::Display for MemorySkip {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoUser => "no user id was given, or it is longer than 1,024 bytes",
            Self::TooFewMessages => "there are fewer than two messages",
            Self::NoPair => "the newest question has not been answered yet, or there is no question",
            Self::Empty => "the question or the answer is empty",
            Self::NoConversations => "conversations are off: set conversation=true",
            Self::NoSession => "there is no session, and recall is not \"user\"",
            Self::InvalidSession => "the session's id is not valid",
            Self::Foreign => "the session belongs to another user",
            Self::Ended => "the session ended meanwhile, or its user was forgotten less than a day ago",
            Self::Filter(problem) => &problem.message,
        })
    }
}
