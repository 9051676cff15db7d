//! A step of a task, what it may need from the host, and its outcome.

pub use crate::contract::filter::Vector;
pub use crate::contract::maintenance::{
    CompletionNeed, CompletionResult, FailedResult, MissingResult, Need, NeedResult, Purpose, Step, VectorsNeed,
    VectorsResult,
};
use crate::entry::types::Problem;

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

    pub(crate) fn failed(code: &str, message: String) -> Self {
        Self { problem: Some(Problem::new(code, message)), ..Self::of(Step::Failed) }
    }
}
