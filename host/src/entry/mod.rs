//! Entries, their outcomes, and their errors.

pub(crate) mod files;
pub(crate) mod memory;
pub(crate) mod metadata;
pub(crate) mod sections;
pub(crate) mod task;
pub(crate) mod tokens;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::contract::{
    lanes::{Task, TaskBucket},
    names::{AnswerStatus, Effect},
};
use crate::{
    contract::{lanes, needs, shared},
    logging::{MAX_MESSAGE, MAX_NAME, make_printable},
    runtime::CallRefusal,
    store::FailureCode,
};

/// An answer, or a step of one, with all that can be known of it. What is not known is left out:
/// `Answer { text, metadata, ..Answer::default() }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// What was answered. May be empty in a step of tool calls.
    pub text: &'a str,
    /// A JSON object. Default `{}`.
    pub metadata: &'a str,
    /// None: that of the metadata. An answer with one is stored once.
    pub message_id: Option<&'a str>,
    /// The question's text. None: that of the pipe's question.
    pub question_text: Option<&'a str>,
    /// What tools did, in the order of events; after what was passed to [`Pipe::tool`](crate::Pipe::tool).
    pub activity: &'a [ToolActivity],
    /// Whether it has come to its end.
    pub status: AnswerStatus,
    /// Tokens of the question's text, if there is one.
    pub question_tokens: Option<u32>,
    /// Tokens of the answer's text.
    pub tokens: Option<u32>,
    /// More to store with it (model, usage, raw item): a JSON object, or empty.
    pub details: &'a str,
}

impl Default for Answer<'_> {
    fn default() -> Self {
        Self {
            text: "",
            metadata: "{}",
            message_id: None,
            question_text: None,
            activity: &[],
            status: AnswerStatus::Complete,
            question_tokens: None,
            tokens: None,
            details: "",
        }
    }
}

impl<'a> Answer<'a> {
    /// As the component takes it, for a turn whose question is known, and after what tools did before.
    pub(crate) fn to_contract(
        self,
        turn: &'a str,
        question: lanes::TurnQuestion<'a>,
        tools: &'a [lanes::ToolActivity<'a>],
    ) -> lanes::AnswerEntry<'a> {
        lanes::AnswerEntry {
            text: self.text,
            metadata: self.metadata,
            turn,
            message_id: self.message_id,
            question,
            tools,
            status: (self.status != AnswerStatus::Complete).then(|| self.status.name()),
            tokens: self.tokens,
            details: Some(self.details).filter(|details| !details.is_empty()),
            extras: None,
        }
    }

    /// In bytes, all texts together.
    pub(crate) fn size(&self) -> usize {
        let own = [self.text, self.metadata, self.details];
        let optional = [self.message_id, self.question_text];
        let activity = self.activity.iter().map(ToolActivity::size);
        own.into_iter().chain(optional.into_iter().flatten()).map(str::len).chain(activity).sum()
    }
}

/// An embedding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Vectors of different models are never compared.
    pub model: String,
    /// Base64 of 32-bit little-endian floats, as `/v1/embeddings` returns them; at most 4096.
    pub data: String,
}

impl Vector {
    pub(crate) fn to_contract(&self) -> needs::Vector<'_> {
        needs::Vector { model: &self.model, data: &self.data }
    }
}

/// A question with all that can be known of it. What is not known is left out:
/// `Question { text, metadata, ..Question::default() }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// What was asked.
    pub text: &'a str,
    /// A JSON object. Default `{}`.
    pub metadata: &'a str,
    /// None: that of the metadata.
    pub message_id: Option<&'a str>,
    /// Tokens of the text; none: estimated.
    pub tokens: Option<u32>,
    /// The text's, if it is there in time.
    pub vector: Option<&'a Vector>,
}

impl Default for Question<'_> {
    fn default() -> Self {
        Self { text: "", metadata: "{}", message_id: None, tokens: None, vector: None }
    }
}

impl<'a> Question<'a> {
    /// As the component takes it.
    pub(crate) fn to_contract(self) -> lanes::QuestionEntry<'a> {
        let Self { text, metadata, message_id, tokens, vector } = self;
        let vector = vector.map(Vector::to_contract);
        lanes::QuestionEntry { text, metadata, message_id, tokens, vector, extras: None }
    }

    /// In bytes, all texts together.
    pub(crate) fn size(&self) -> usize {
        let vector = self.vector.map_or(0, |vector| vector.model.len() + vector.data.len());
        self.text.len() + self.metadata.len() + self.message_id.map_or(0, str::len) + vector
    }
}

/// A tool call, its result, or both; paired by `call_id`, also across steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToolActivity {
    /// Which call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text. None: the call was handed in before.
    pub arguments: Option<String>,
    /// None: still to come, or failed.
    pub output: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// More to store with it: a JSON object, or empty.
    pub details: String,
}

impl ToolActivity {
    /// As the component takes it.
    pub(crate) fn to_contract(&self) -> lanes::ToolActivity<'_> {
        let Self { call_id, name, arguments, output, error, details } = self;
        lanes::ToolActivity {
            call_id,
            name,
            arguments: arguments.as_deref(),
            output: output.as_deref(),
            error: error.as_deref(),
            details: Some(&**details).filter(|details| !details.is_empty()),
        }
    }

    /// In bytes, all texts together.
    pub(crate) fn size(&self) -> usize {
        let optional = [&self.arguments, &self.output, &self.error];
        let optional: usize = optional.into_iter().flatten().map(String::len).sum();
        self.call_id.len() + self.name.len() + self.details.len() + optional
    }

    pub(crate) fn has_result(&self) -> bool {
        self.output.is_some() || self.error.is_some()
    }

    /// Whether it is a result that names its tool, without arguments: that of a tool that takes none, if its call is
    /// unknown.
    pub(crate) fn is_result_without_call(&self) -> bool {
        self.arguments.is_none() && !self.name.is_empty() && self.has_result()
    }

    /// Whether it was handed in before as this.
    pub(crate) fn is_repeat_of(&self, before: &Self) -> bool {
        let Self { call_id, name, arguments, output, error, details } = before;
        let is_same =
            *arguments == self.arguments || (self.is_result_without_call() && arguments.as_deref() == Some("{}"));
        let rest = (call_id, name, output, error, details);
        is_same && rest == (&self.call_id, &self.name, &self.output, &self.error, &self.details)
    }
}

/// What the filter made of an entry. The text is the caller's and stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passed {
    /// The metadata to send on: one JSON object, of the same owner as the entry's own. None: as they came, as it always
    /// is with answers.
    pub metadata: Option<String>,
    /// What was done.
    pub effect: Effect,
    /// Values attached to a question.
    pub attached: u32,
    /// Whether it is a question that went with its embedding: the caller's, or one that was there in time.
    pub has_vector: bool,
    /// What should be done soon, off the entry's path.
    pub due: Vec<Task>,
    /// What kept the entry from its memory, or from a part of it: a question may be enriched, and an answer stored,
    /// with a problem that names what was left out.
    pub problem: Option<Problem>,
}

/// What kept an entry, or a task, from a part of what it was for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What kind of problem.
    pub code: ProblemCode,
    /// For people: one sentence without a full stop.
    pub message: String,
}

impl From<shared::Problem> for Problem {
    fn from(shared::Problem { mut code, mut message, .. }: shared::Problem) -> Self {
        make_printable(&mut message, MAX_MESSAGE);
        let code = match (code.as_str(), FailureCode::named(&code)) {
            (_, Some(code)) => ProblemCode::Store(code),
            ("limit", _) => ProblemCode::Limit,
            _ => {
                make_printable(&mut code, MAX_NAME);
                ProblemCode::Other(code)
            }
        };
        Self { code, message }
    }
}

impl From<&CallRefusal> for Problem {
    fn from(refusal: &CallRefusal) -> Self {
        let code = match refusal {
            CallRefusal::Full(_) | CallRefusal::Late(_) | CallRefusal::NoMemory(_) => ProblemCode::Busy,
            CallRefusal::Closed => ProblemCode::Closed,
            CallRefusal::Fault(_) | CallRefusal::LeftAlone(_) => ProblemCode::Plugin,
        };
        Self { code, message: refusal.to_string() }
    }
}

/// What kind of problem. Displayed in one word, as logs and scripts have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemCode {
    /// The store failed. `timed-out`: perhaps only the entry's time was over before the store had answered.
    Store(FailureCode),
    /// A limit, which the message names.
    Limit,
    /// No instance came free in time, or there was no memory for one.
    Busy,
    /// After [`Keepline::shutdown`](crate::Keepline::shutdown).
    Closed,
    /// The plugin was stopped, or is left alone because it was stopped time after time.
    Plugin,
    /// The plugin's own word, such as its reason for skipping an answer.
    Other(String),
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store(code) => code.name(),
            Self::Limit => "limit",
            Self::Busy => "busy",
            Self::Closed => "closed",
            Self::Plugin => "plugin",
            Self::Other(code) => code,
        })
    }
}

/// An entry whose memory failed, under [`OnStoreError::Fail`](crate::OnStoreError::Fail). The entry itself is unharmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct EntryError {
    /// What kind of problem.
    pub code: ProblemCode,
    /// One sentence without a full stop.
    pub message: String,
}

impl From<Problem> for EntryError {
    fn from(Problem { code, message }: Problem) -> Self {
        Self { code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_codes_keep_their_spelling() {
        for (spelled, code) in [
            ("timed-out", ProblemCode::Store(FailureCode::TimedOut)),
            ("limit", ProblemCode::Limit),
            ("too-short", ProblemCode::Other("too-short".into())),
        ] {
            let problem = Problem::from(shared::Problem {
                code: spelled.into(),
                subject: String::new(),
                limit: 0,
                message: "m".into(),
            });
            assert_eq!((&problem.code, problem.code.to_string().as_str()), (&code, spelled));
        }
    }
}
