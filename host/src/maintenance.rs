//! Deferred work: tasks that replies name, done step by step with [`Keepline::advance`](crate::Keepline::advance).
//!
//! The component never waits for a model. It says what it needs; whoever runs the task gets it in their own time, and
//! calls again with the results. To abandon a task at any point leaves everything as it was.

pub use crate::contract::{
    filter::{Task, Vector},
    maintenance::{
        CompletionNeed, CompletionResult, Job, MissingResult, Need, NeedResult, Purpose, Step, VectorsNeed,
        VectorsResult,
    },
};
use crate::{
    contract::maintenance::ToldProgress,
    entry::{Problem, ProblemCode},
    runtime::Refusal,
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
    pub(crate) fn no_task(job: &Job) -> Self {
        let message = "a task's subject, name and state are printable ASCII, as a reply named them".into();
        let problem = Problem { code: ProblemCode::Store(FailureCode::Invalid), message };
        Self { step: Step::Failed, task: job.task.clone(), needs: Vec::new(), problem: Some(problem) }
    }

    /// There was no instance to do it, or none that survived it.
    pub(crate) fn refused(job: &Job, refusal: &Refusal) -> Self {
        Self { step: Step::Failed, task: job.task.clone(), needs: Vec::new(), problem: Some(refusal.into()) }
    }
}

impl From<ToldProgress> for Progress {
    fn from(ToldProgress { step, task, needs, problem }: ToldProgress) -> Self {
        Self { step, task, needs, problem: problem.map(Problem::from) }
    }
}
