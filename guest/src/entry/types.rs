//! Questions, answers, and the filter's replies to them.

use crate::contract::Failure;

/// What the filter did with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: no session.
    Passed,
    /// Nothing: the session id is malformed.
    Ignored,
    /// Nothing: the session belongs to another user.
    Foreign,
    /// Question: the session has nothing to tell.
    Resumed,
    /// Question: it got its session's memory; with a problem: the part of it that the limits have room for.
    Enriched,
    /// Answer: it is stored; with a problem: as far as what is broken in the session lets it be.
    Stored,
    /// Answer: its message id is stored already.
    Repeated,
    /// Answer: it is not worth being stored.
    Skipped,
    /// A limit kept it from being enriched or stored.
    Limited,
    /// Answer: the session that its question saw has ended.
    Ended,
    /// The store failed.
    Failed,
}

/// What went wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A failure code as the contract spells it, or `limit`.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl Problem {
    pub(crate) fn limit(message: String) -> Self {
        Self { code: "limit", message }
    }

    pub(crate) fn store(failure: &Failure) -> Self {
        Self { code: failure.code.as_str(), message: failure.sentence() }
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

/// Work that has become due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// `{kind}/{name}` of the bucket.
    pub subject: String,
    /// What it is.
    pub name: &'static str,
    /// The filter's own.
    pub state: String,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionReply {
    /// The metadata to send on; none: as it came.
    pub metadata: Option<String>,
    /// To be handed to the answers. Empty: no session.
    pub turn: String,
    /// What the filter did.
    pub effect: Effect,
    /// How many keys were attached.
    pub attached: u32,
    /// What should be done soon.
    pub due: Vec<Task>,
    /// What went wrong.
    pub problem: Option<Problem>,
}

impl QuestionReply {
    pub(crate) fn untouched(effect: Effect) -> Self {
        Self { metadata: None, turn: String::new(), effect, attached: 0, due: Vec::new(), problem: None }
    }
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerReply {
    /// The metadata to send on; none: as it came. (Answers are not changed today.)
    pub metadata: Option<String>,
    /// What the filter did.
    pub effect: Effect,
    /// What should be done soon.
    pub due: Vec<Task>,
    /// What went wrong.
    pub problem: Option<Problem>,
}

impl AnswerReply {
    pub(crate) fn of(effect: Effect) -> Self {
        Self { metadata: None, effect, due: Vec::new(), problem: None }
    }

    pub(crate) fn with(effect: Effect, problem: Problem) -> Self {
        Self { problem: Some(problem), ..Self::of(effect) }
    }
}
