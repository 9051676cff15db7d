//! Counts how tasks ended.

use crate::entry::Problem;

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, or was no longer due.
    Done,
    /// Another process is at work on it, or has done it.
    Taken,
    /// The session is gone.
    Ended,
    /// Everything is as it was, and it will be due again. The problem's code is `model` if it was the model that failed.
    Failed(Problem),
}

/// How the tasks of one kind ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounters {
    /// Done, or found to be no longer due.
    pub done: u64,
    /// Another process was at work on it, or had done it.
    pub taken: u64,
    /// The session was gone.
    pub ended: u64,
    /// Failed: everything is as it was.
    pub failed: u64,
}

/// How deferred tasks ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintenanceCounters {
    /// Summaries of conversations.
    pub summaries: TaskCounters,
    /// Titles of sessions.
    pub titles: TaskCounters,
    /// All other tasks: retention, and those of other plugins.
    pub others: TaskCounters,
    /// Tasks that were not taken because there were [too many](super::MaintenanceOptions::max_tasks), or after the end.
    pub dropped: u64,
    /// Tasks that were given up at the end.
    pub abandoned: u64,
}

impl MaintenanceCounters {
    pub(super) fn count_outcome(&mut self, name: &str, outcome: &Outcome) {
        let tasks = match name {
            "summary" => &mut self.summaries,
            "title" => &mut self.titles,
            _ => &mut self.others,
        };
        let counter = match outcome {
            Outcome::Done => &mut tasks.done,
            Outcome::Taken => &mut tasks.taken,
            Outcome::Ended => &mut tasks.ended,
            Outcome::Failed(_) => &mut tasks.failed,
        };
        *counter += 1;
    }

    /// All kinds together.
    pub fn tasks(&self) -> TaskCounters {
        let Self { summaries, titles, others, .. } = self;
        let sum = |count: fn(&TaskCounters) -> u64| [summaries, titles, others].map(count).into_iter().sum();
        TaskCounters {
            done: sum(|tasks| tasks.done),
            taken: sum(|tasks| tasks.taken),
            ended: sum(|tasks| tasks.ended),
            failed: sum(|tasks| tasks.failed),
        }
    }
}
