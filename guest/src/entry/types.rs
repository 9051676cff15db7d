//! Questions, answers, and the filter's replies to them.

use crate::contract::Failure;
pub use crate::contract::filter::{AnswerReply, Effect, Problem, QuestionReply, Task};

impl Problem {
    pub(crate) fn new(code: &str, message: String) -> Self {
        Self { code: code.to_owned(), message }
    }

    pub(crate) fn limit(message: String) -> Self {
        Self::new("limit", message)
    }

    pub(crate) fn store(failure: &Failure) -> Self {
        Self::new(failure.code.as_str(), failure.sentence())
    }
}

/// A question, as far as the filter looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuestionEntry<'a> {
    /// What is asked.
    pub text: &'a str,
    /// JSON text.
    pub metadata: &'a str,
    /// None: that of the metadata.
    pub message_id: Option<&'a str>,
    /// The text's embedding: the model's name, and base64 of 32-bit little-endian floats.
    pub vector: Option<(&'a str, &'a str)>,
}

/// What a tool was asked for, what it gave, or both. Paired by `call_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub struct ToolActivity<'a> {
    pub call_id: &'a str,
    pub name: &'a str,
    pub arguments: Option<&'a str>,
    pub output: Option<&'a str>,
    pub error: Option<&'a str>,
    pub details: &'a str,
}

/// An answer, as far as the filter looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerEntry<'a> {
    /// What is said.
    pub text: &'a str,
    /// JSON text.
    pub metadata: &'a str,
    /// As the question's reply gave it; empty: none.
    pub turn: &'a str,
    /// None: that of the metadata.
    pub message_id: Option<&'a str>,
    /// The question's text, if it is known.
    pub question_text: Option<&'a str>,
    /// In the order of events.
    pub activity: &'a [ToolActivity<'a>],
    /// Whether it was cut off.
    pub is_incomplete: bool,
    /// Tokens of the question's text, as the host counts them.
    pub question_tokens: Option<u32>,
    /// Tokens of the answer's text, as the host counts them.
    pub tokens: Option<u32>,
    /// More to store with it: a JSON object, or empty.
    pub details: &'a str,
}

impl QuestionReply {
    pub(crate) fn untouched(effect: Effect) -> Self {
        Self { metadata: None, turn: String::new(), effect, attached: 0, due: Vec::new(), problem: None }
    }
}

impl AnswerReply {
    pub(crate) fn of(effect: Effect) -> Self {
        Self { metadata: None, effect, due: Vec::new(), problem: None }
    }

    pub(crate) fn with(effect: Effect, problem: Problem) -> Self {
        Self { problem: Some(problem), ..Self::of(effect) }
    }
}
