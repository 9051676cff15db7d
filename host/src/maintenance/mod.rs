//! Deferred work: tasks that replies name, such as the summary of a long conversation.
//!
//! The component never waits for a model. It says what it needs; the program that runs the task gets it in its own time, and
//! calls again with the results. To abandon a task at any point leaves everything as it was.
//!
//! [`Maintenance`] does all that, in the background or inline, with a [`Model`] of yours or [`NoModel`]. A host that
//! schedules by itself calls [`Keepline::advance`](crate::Keepline::advance), step by step.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use keepline::{Keepline, Options, Plugin, Sandbox, store::MemoryStore};
//! use keepline::maintenance::{Maintenance, MaintenanceOptions, NoModel};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut options = Options::default();
//! # options.filter = r#"{"conversation": true}"#.into();
//! # let plugin = Plugin::bundled(&Sandbox::default())?;
//! # let keepline = Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await?;
//! let runtime = tokio::runtime::Handle::current();
//! let maintenance = Maintenance::new(keepline.clone(), Arc::new(NoModel), MaintenanceOptions::default(), runtime);
//!
//! let mut pipe = keepline.pipe();
//! pipe.question("Where is my parcel?", r#"{"session_id": "anna"}"#).await?;
//! let passed = pipe.answer("In Leipzig.", "{}").await?;
//! // Send the answer on, then:
//! maintenance.submit(passed.due);
//!
//! // At the end:
//! assert_eq!(maintenance.shutdown(Duration::from_secs(5)).await, 0);
//! assert_eq!(maintenance.counters().titles.done, 1);
//! # Ok(())
//! # }
//! ```

mod backoff;
mod counters;
mod model;
mod options;
mod queue;
mod runner;

pub use self::{
    counters::{MaintenanceCounters, Outcome, TaskCounters},
    model::{Model, NoModel},
    options::{Archive, MaintenanceOptions},
    runner::Maintenance,
};
pub use crate::{
    contract::{
        names::{Purpose, Step},
        needs::{CallNeed, CompletionNeed, Need, VectorsNeed},
    },
    entry::{
        Task, TaskBucket, Vector,
        task::{Job, ModelError, NeedOutcome, NeedResult, Progress},
    },
};

/// The bundled filter's tasks for a session, in the order in which they are best done. Each may be done at any time, with an
/// empty state: it finds out whether there is anything to do. (Those for a user, called `activity`, only answers name.)
/// `recall` and `vectors` are for those who have these options on.
pub const TASKS: [&str; 5] = ["title", "summary", "retention", "recall", "vectors"];

/// What a task on a session works on. The bundled filter's task `recall` takes the bucket of the session's owner, too, with
/// `recall: "user"`: [`Sessions::describe`](crate::Sessions::describe) names the owner. It is lent only if the owner's list has
/// the session.
pub fn session_buckets(session: &str, owner: Option<&str>) -> Vec<TaskBucket> {
    let bucket = |kind: &str, name: &str| TaskBucket { kind: kind.to_owned(), name: name.to_owned() };
    [bucket("session", session)].into_iter().chain(owner.map(|owner| bucket("user", owner))).collect()
}
