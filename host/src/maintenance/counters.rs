//! Counts how tasks ended.

use std::sync::atomic::{AtomicU64, Ordering};

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

#[derive(Default)]
pub(super) struct MaintenanceTally {
    summaries: TaskTally,
    titles: TaskTally,
    others: TaskTally,
    dropped: AtomicU64,
    abandoned: AtomicU64,
}

#[derive(Default)]
struct TaskTally {
    done: AtomicU64,
    taken: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
}

impl MaintenanceTally {
    pub(super) fn count_outcome(&self, name: &str, outcome: &Outcome) {
        let tasks = match name {
            "summary" => &self.summaries,
            "title" => &self.titles,
            _ => &self.others,
        };
        let counter = match outcome {
            Outcome::Done => &tasks.done,
            Outcome::Taken => &tasks.taken,
            Outcome::Ended => &tasks.ended,
            Outcome::Failed(_) => &tasks.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_abandoned(&self, count: usize) {
        self.abandoned.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> MaintenanceCounters {
        MaintenanceCounters {
            summaries: self.summaries.read(),
            titles: self.titles.read(),
            others: self.others.read(),
            dropped: self.dropped.load(Ordering::Relaxed),
            abandoned: self.abandoned.load(Ordering::Relaxed),
        }
    }
}

impl TaskTally {
    fn read(&self) -> TaskCounters {
        TaskCounters {
            done: self.done.load(Ordering::Relaxed),
            taken: self.taken.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}
