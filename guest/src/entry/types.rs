//! Questions, answers, and the filter's replies to them.

use keepline_options::registered_names;

use crate::contract::Problem;
pub use crate::contract::lanes::{Task, TaskBucket};

registered_names! {
    /// What became of an entry.
    #[allow(missing_docs, clippy::exhaustive_enums, reason = "the names are those of the contract, documented there")]
    Effect {
        Passed = "passed",
        Ignored = "ignored",
        Foreign = "foreign",
        Resumed = "resumed",
        Enriched = "enriched",
        Stored = "stored",
        Repeated = "repeated",
        Skipped = "skipped",
        Limited = "limited",
        Ended = "ended",
        Failed = "failed",
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
    /// The question's text; empty: there is none, or it is not known.
    pub question_text: &'a str,
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

/// The reply to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub struct QuestionReply {
    pub metadata: Option<String>,
    pub turn: String,
    pub effect: Effect,
    pub attached: u32,
    pub due: Vec<Task>,
    pub problem: Option<Box<Problem>>,
}

impl QuestionReply {
    pub(crate) fn untouched(effect: Effect) -> Self {
        Self { metadata: None, turn: String::new(), effect, attached: 0, due: Vec::new(), problem: None }
    }
}

/// The reply to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of the contract, documented there")]
pub struct AnswerReply {
    pub effect: Effect,
    pub due: Vec<Task>,
    pub problem: Option<Box<Problem>>,
}

impl AnswerReply {
    pub(crate) fn of(effect: Effect) -> Self {
        Self { effect, due: Vec::new(), problem: None }
    }

    pub(crate) fn with(effect: Effect, problem: Box<Problem>) -> Self {
        Self { problem: Some(problem), ..Self::of(effect) }
    }
}
