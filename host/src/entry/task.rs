//! Deferred work: jobs, what they need, and the outcome of one step.

use crate::{
    contract::{
        names::Step,
        needs::{self, FailedResult, MissingResult, Need, Outcome, TextResult, VectorsResult},
        shared, tasks,
    },
    entry::{Problem, ProblemCode, Task, Vector},
    runtime::CallRefusal,
    store::FailureCode,
};

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// From a reply, or from the last step's [`Progress`]. With an empty state: one that no reply named, in whichever
    /// generation the bucket has now.
    pub task: Task,
    /// Who works on it: random, chosen for each task and kept for all its steps.
    pub holder: String,
    /// How long the lease of each step has to last: the time-out for what it gets.
    pub lease_milliseconds: u64,
    /// What the last step needed; empty at the first.
    pub results: Vec<NeedResult>,
}

/// What has come of a [`Need`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedResult {
    /// Of the need.
    pub id: u32,
    /// What there is.
    pub outcome: NeedOutcome,
}

/// What has come of a [`Need`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeedOutcome {
    /// A completion, or the output of a call, as JSON.
    Text(String),
    /// A vector for each text, in order, or for the first of them.
    Vectors(Vec<Vector>),
    /// There is nobody to ask, and why: the filter does without, or leaves it for later.
    Missing(String),
    /// It could not be had this time, and why: the filter leaves everything as it was.
    Failed(String),
}

impl Job {
    /// As the component takes it.
    pub(crate) fn to_contract<'a>(&'a self, results: &'a [needs::NeedResult<'a>]) -> tasks::Job<'a> {
        let Self { task, holder, lease_milliseconds, .. } = self;
        tasks::Job { task, holder, lease_milliseconds: *lease_milliseconds, results }
    }

    /// The step's reply where there is nobody to make it.
    pub(crate) fn refused(&self, problem: shared::Problem) -> tasks::Progress {
        tasks::Progress {
            step: Step::Failed.name().to_owned(),
            task: self.task.clone(),
            needs: Vec::new(),
            problem: Some(problem),
        }
    }
}

impl NeedResult {
    /// Its vectors, as the component takes them.
    pub(crate) fn vectors(&self) -> Vec<needs::Vector<'_>> {
        match &self.outcome {
            NeedOutcome::Vectors(vectors) => vectors.iter().map(Vector::to_contract).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn to_contract<'a>(&'a self, vectors: &'a [needs::Vector<'a>]) -> needs::NeedResult<'a> {
        let outcome = match &self.outcome {
            NeedOutcome::Text(text) => Outcome::Text(TextResult { text }),
            NeedOutcome::Vectors(_) => Outcome::Vectors(VectorsResult { vectors }),
            NeedOutcome::Missing(message) => Outcome::Missing(MissingResult { message }),
            NeedOutcome::Failed(message) => Outcome::Failed(FailedResult { message }),
        };
        needs::NeedResult { id: self.id, outcome }
    }
}

/// Where a task stands after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What to do next.
    pub step: Step,
    /// The task to call again with.
    pub task: Task,
    /// What to get before.
    pub needs: Vec<Need>,
    /// What went wrong.
    pub problem: Option<Problem>,
}

impl Progress {
    /// No reply has ever named such a task.
    pub(crate) fn invalid_task(job: &Job) -> Self {
        let message =
            "a task works on the bucket of a session, a node or a user, or on those of a session and its user; \
                       its name and state are printable ASCII, as a reply named them"
                .into();
        Self::failed(job, Problem { code: ProblemCode::Store(FailureCode::Invalid), message })
    }

    /// There was no instance to do it, or none that survived it.
    pub(crate) fn refused(job: &Job, refusal: &CallRefusal) -> Self {
        Self::failed(job, refusal.into())
    }

    pub(crate) fn failed(job: &Job, problem: Problem) -> Self {
        Self { step: Step::Failed, task: job.task.clone(), needs: Vec::new(), problem: Some(problem) }
    }
}

impl From<tasks::Progress> for Progress {
    fn from(tasks::Progress { step, task, needs, problem }: tasks::Progress) -> Self {
        Self { step: Step::of_progress(&step), task, needs, problem: problem.map(Problem::from) }
    }
}

/// Why there is no completion: for people, one sentence without a full stop. Secrets must not be in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ModelError(pub String);
