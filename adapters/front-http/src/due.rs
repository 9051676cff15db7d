//! Works on what entries have made due. There is no model here: what needs one is answered as missing.

use crate::bindings::keepline::{
    host::needs::{MissingResult, Need, NeedResult, Outcome},
    memory::{
        lanes::Task,
        tasks::{self, Job},
    },
};

/// More steps than any task has.
const STEPS: usize = 1000;

pub fn work_on(due: Vec<Task>) {
    due.into_iter().for_each(work_on_one);
}

fn work_on_one(task: Task) {
    let mut job = Job { task, holder: "front".to_owned(), lease_milliseconds: 10_000, results: Vec::new() };
    for _ in 0..STEPS {
        let progress = tasks::advance(&job);
        if !matches!(&*progress.step, "needs" | "again") {
            return;
        }
        job.results = progress.needs.iter().map(missing).collect();
        job.task = progress.task;
    }
}

fn missing(need: &Need) -> NeedResult {
    let id = match need {
        Need::Completion(need) => need.id,
        Need::Vectors(need) => need.id,
        Need::Call(need) => need.id,
    };
    NeedResult { id, outcome: Outcome::Missing(MissingResult { message: "there is no model here".to_owned() }) }
}
