//! A step of a task, what it may need from the host, and its outcome.

use keepline_options::registered_names;

use crate::contract::Problem;
pub use crate::contract::needs::{
    CompletionNeed, FailedResult, MissingResult, Need, NeedResult, Outcome as NeedOutcome, TextResult, Vector,
    VectorsNeed, VectorsResult,
};
use crate::entry::types::TaskBucket;

registered_names! {
    /// What became of a step.
    #[allow(missing_docs, clippy::exhaustive_enums, reason = "the names are those of the contract, documented there")]
    Step {
        Needs = "needs",
        Again = "again",
        Done = "done",
        Taken = "taken",
        Ended = "ended",
        Failed = "failed",
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
