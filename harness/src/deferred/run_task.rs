//! Runs one deferred task to its end.
//!
//! A lease is given back at the end, also when the embedding model fails or the work is stopped; if the process is
//! killed, it expires within seconds.

use std::time::Duration;

use anyhow::{Result, bail};
use keepline::{
    Deadline, Keepline,
    maintenance::{Job, Need, NeedOutcome, NeedResult, Step, Task, TaskBucket, VectorsNeed},
};
use tokio::{sync::watch, time::Instant};

/// The tasks that index passages, embed them, and delete the index.
pub const INDEX_TASK: &str = "recall";
pub const EMBED_TASK: &str = "vectors";
pub const RESET_TASK: &str = "recall-reset";
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// The lease, renewed at each step. If a model takes longer, another process may do the same work, but its result is stored
/// once.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long to wait for other processes: longer than the lease of one that was killed.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between attempts then.
const BUSY_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Limits of one task: steps, and calls of the embedding model (of some 64 passages each). A plugin is not trusted to end, nor
/// with the cost of a model.
const MAX_STEPS: u32 = 1_000_000;
const MAX_EMBEDDINGS: u32 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskResult {
    Done,
    /// Its subject does not exist.
    Gone,
    /// Another process is working on it.
    Busy,
    Stopped,
}

/// Runs a task to its end and calls `on_step` after each step. False if its subject does not exist.
pub async fn run_task(keepline: &Keepline, buckets: &[TaskBucket], task: &str, on_step: impl FnMut()) -> Result<bool> {
    // Never stopped: the sender lives until the end.
    let (_sender, stop) = watch::channel(false);
    match run_task_until(keepline, buckets, task, &stop, on_step).await? {
        TaskResult::Done => Ok(true),
        TaskResult::Gone => Ok(false),
        TaskResult::Busy => {
            bail!("another process is working on {}: run the same command again", subject_text(buckets))
        }
        TaskResult::Stopped => bail!("{task} of {} was stopped", subject_text(buckets)),
    }
}

/// The first of the buckets, for people.
fn subject_text(buckets: &[TaskBucket]) -> String {
    buckets.first().map_or_else(String::new, |TaskBucket { kind, name }| format!("{kind}/{name}"))
}

/// The same, until `stop` is true.
pub async fn run_task_until(
    keepline: &Keepline,
    buckets: &[TaskBucket],
    task: &str,
    stop: &watch::Receiver<bool>,
    mut on_step: impl FnMut(),
) -> Result<TaskResult> {
    let subject = subject_text(buckets);
    let task = Task { buckets: buckets.to_vec(), name: task.to_owned(), state: String::new() };
    let holder = format!("{:032x}", fastrand::u128(..));
    let lease_milliseconds = u64::try_from(LEASE_DURATION.as_millis()).unwrap_or(u64::MAX);
    let mut job = Job { task, holder, lease_milliseconds, results: Vec::new() };
    let mut stop = stop.clone();
    let mut busy_since: Option<Instant> = None;
    let mut embeddings = 0;
    for _ in 0..MAX_STEPS {
        let progress = keepline.advance(&job, Some(Deadline::after(STEP_TIMEOUT))).await;
        job.task = progress.task;
        job.results = Vec::new();
        on_step();
        let is_to_stop = *stop.borrow();
        match progress.step {
            Step::Done => return Ok(TaskResult::Done),
            Step::Ended => return Ok(TaskResult::Gone),
            // No lease is held between steps that need nothing.
            Step::Again | Step::Taken if is_to_stop => return Ok(TaskResult::Stopped),
            Step::Again => busy_since = None,
            Step::Taken if busy_since.get_or_insert_with(Instant::now).elapsed() < BUSY_TIMEOUT => {
                tokio::time::sleep(BUSY_RETRY_PAUSE).await;
            }
            Step::Taken => return Ok(TaskResult::Busy),
            Step::Needs => {
                busy_since = None;
                for need in progress.needs {
                    embeddings += 1;
                    if embeddings > MAX_EMBEDDINGS {
                        bail!("{} of {subject} asked for embeddings more than {MAX_EMBEDDINGS} times", job.task.name);
                    }
                    let id = match &need {
                        Need::Completion(need) => need.id,
                        Need::Vectors(need) => need.id,
                        Need::Call(need) => need.id,
                    };
                    let fulfilled = tokio::select! {
                        biased;
                        // The sender outlives this call.
                        _ = stop.wait_for(|is_to_stop| *is_to_stop) => Ok(None),
                        result = fulfil_need(keepline, need) => result.map(Some),
                    };
                    let (ended, message) = match fulfilled {
                        Ok(Some(result)) => {
                            job.results.push(result);
                            continue;
                        }
                        Ok(None) => (Ok(TaskResult::Stopped), "the work was stopped".to_owned()),
                        Err(error) => {
                            let message = error.to_string();
                            (Err(error), message)
                        }
                    };
                    // So that the next attempt need not wait for the lease to expire.
                    job.results = vec![NeedResult { id, outcome: NeedOutcome::Failed(message) }];
                    keepline.advance(&job, Some(Deadline::after(STEP_TIMEOUT))).await;
                    return ended;
                }
            }
            Step::Failed => {
                let message = progress.problem.map_or_else(|| "it failed".to_owned(), |problem| problem.message);
                bail!("{} of {subject}: {message}", job.task.name)
            }
            // A step that is not known ends the task.
            _ => return Ok(TaskResult::Done),
        }
    }
    bail!("{} of {subject} was not finished after {MAX_STEPS} steps", job.task.name)
}

/// Fulfils a need of a step.
async fn fulfil_need(keepline: &Keepline, need: Need) -> Result<NeedResult> {
    let Need::Vectors(VectorsNeed { id, texts }) = need else { bail!("the task needs a model") };
    match keepline.embed(&texts).await {
        Ok(Some(vectors)) => Ok(NeedResult { id, outcome: NeedOutcome::Vectors(vectors) }),
        Ok(None) => bail!("there is no embedding model: set embedding"),
        Err(error) => bail!("passages can't be embedded: {error}"),
    }
}
