//! A step of a task, what it may need from the host, and its outcome.

use crate::entry::types::Problem;

/// What a host that has a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A summary of what was said.
    Summary,
    /// A title for it.
    Title,
}

/// What is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A text of a model's.
    Completion(CompletionNeed),
    /// Embeddings of texts.
    Vectors(VectorsNeed),
}

/// A completion that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionNeed {
    /// Comes back with the result.
    pub id: u32,
    /// What for.
    pub purpose: Purpose,
    /// What the model is to do.
    pub instructions: String,
    /// What it is to do it with, quoted and fenced.
    pub input: String,
    /// Tokens of the result, at most.
    pub max_tokens: u32,
}

/// Embeddings that are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorsNeed {
    /// Comes back with the result.
    pub id: u32,
    /// Of what, in order.
    pub texts: Vec<String>,
}

/// An embedding as a model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The model.
    pub model: String,
    /// Base64 of 32-bit little-endian floats.
    pub data: String,
}

/// What came of a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeedResult {
    /// The completion.
    Text(String),
    /// A vector for each text, in order, or for the first of them. Without data: the model refuses that text.
    Vectors(Vec<Vector>),
    /// The host has nobody to ask.
    Missing,
    /// The host could not get it this time.
    Failed,
}

/// A step of a task.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// `{kind}/{name}` of the bucket; of two with a blank between them, the lease is on the first.
    pub subject: &'a str,
    /// What is to be done.
    pub name: &'a str,
    /// As the last step left it.
    pub state: &'a str,
    /// Who works on it.
    pub holder: &'a str,
    /// How long a step's lease has to last.
    pub lease_milliseconds: u64,
    /// What the last step needed; none at the first.
    pub result: Option<&'a NeedResult>,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Get what is needed, then go on.
    Needs,
    /// Go on whenever it suits.
    Again,
    /// There is no more to do.
    Done,
    /// Somebody else is at work on it, or has done it.
    Taken,
    /// The bucket is gone.
    Ended,
    /// It will be due again.
    Failed,
}

/// What became of a step, and what is needed for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What became of it.
    pub step: Step,
    /// The task's new state; none: as it was.
    pub state: Option<String>,
    /// What is needed.
    pub need: Option<Need>,
    /// Why it failed.
    pub problem: Option<Problem>,
}

impl Progress {
    pub(crate) fn of(step: Step) -> Self {
        Self { step, state: None, need: None, problem: None }
    }

    pub(crate) fn needs(state: String, need: Need) -> Self {
        Self { state: Some(state), need: Some(need), ..Self::of(Step::Needs) }
    }

    pub(crate) fn failed(code: &'static str, message: String) -> Self {
        Self { problem: Some(Problem { code, message }), ..Self::of(Step::Failed) }
    }
}
