//! The outcome of one step of a task.

use crate::{
    contract::{
        filter::Task,
        maintenance::{Job, Need, PluginProgress, Step},
    },
    entry::{Problem, ProblemCode},
    runtime::CallRefusal,
    store::FailureCode,
};

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
            "a task's subject is session/NAME, node/NAME, user/NAME or session/NAME user/NAME, and its name and \
                       state are printable ASCII, as a reply named them"
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

impl From<PluginProgress> for Progress {
    fn from(PluginProgress { step, task, needs, problem }: PluginProgress) -> Self {
        Self { step, task, needs, problem: problem.map(Problem::from) }
    }
}

/// Why there is no completion: for people, one sentence without a full stop. Secrets must not be in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ModelError(pub String);
