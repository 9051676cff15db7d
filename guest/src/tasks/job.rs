//! A step of a task, what it may need from the host, and its outcome.

use crate::contract::Problem;
pub use crate::contract::needs::{
    CompletionNeed, FailedResult, MissingResult, Need, NeedResult, Outcome as NeedOutcome, TextResult, Vector,
    VectorsNeed, VectorsResult,
};
use crate::entry::types::TaskBucket;

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, clippy::exhaustive_enums, reason = "the names are those of the contract, documented there")]
pub enum Step {
    Needs,
    Again,
    Done,
    Taken,
    Ended,
    Failed,
}

impl Step {
    /// Its registered name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Needs => "needs",
            Self::Again => "again",
            Self::Done => "done",
            Self::Taken => "taken",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// A step of a task.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What it works on; the lease is on the first.
    pub buckets: &'a [TaskBucket],
    /// What is to be done.
    pub name: &'a str,
    /// As the last step left it.
    pub state: &'a str,
    /// Who works on it.
    pub holder: &'a str,
    /// How long a step's lease has to last.
    pub lease_milliseconds: u64,
    /// What the last step needed; empty at the first.
    pub results: &'a [NeedResult],
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
    pub problem: Option<Box<Problem>>,
}

impl Progress {
    pub(crate) fn of(step: Step) -> Self {
        Self { step, state: None, need: None, problem: None }
    }

    pub(crate) fn failed(code: &str, message: String) -> Self {
        Self { problem: Some(Problem::new(code, "", message)), ..Self::of(Step::Failed) }
    }
}
