//! Deferred work, step by step.
//!
//! Promises that what keeps others from their work is given back, also when a need can't be had or the work is to stop; and
//! that it runs out soon if this process is killed.

use std::time::Duration;

use anyhow::{Result, bail};
use keepline::{
    Deadline, Keepline,
    maintenance::{FailedResult, Job, Need, NeedResult, Step, Task, VectorsNeed, VectorsResult},
};
use tokio::{sync::watch, time::Instant};

/// The task that makes the index, the one that has passages embedded, and the one that forgets it all.
pub const MAKE: &str = "recall";
pub const EMBED: &str = "vectors";
pub const FORGET: &str = "recall-reset";
/// What a step may take.
const STEP: Duration = Duration::from_secs(30);
/// What others keep from their work, should this process be killed. Each step begins anew; a model that takes longer may
/// have its work done twice, but nothing of it is kept twice.
const LEASE: Duration = Duration::from_secs(15);
/// How long to wait for others at work: for longer than one that was killed keeps its lease.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often to try again then.
const PAUSE: Duration = Duration::from_millis(50);
/// Steps of one task, and calls for embeddings, of some 64 passages each: a
/// plugin is not trusted to come to an end, nor with what an embedding model costs.
const MAX_STEPS: u32 = 1_000_000;
const MAX_EMBEDDINGS: u32 = 100_000;

/// How a task came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    Done,
    /// Its subject is not there.
    Gone,
    /// Others are at work on it.
    Busy,
    /// It was to stop.
    Stopped,
}

/// Do a task to its end, and tell each step. Whether its subject was there.
pub async fn drive(keepline: &Keepline, subject: &str, task: &str, told: impl FnMut()) -> Result<bool> {
    // It is there until the end, and says nothing.
    let (_nobody, stop) = watch::channel(false);
    match drive_until(keepline, subject, task, &stop, told).await? {
        Driven::Done => Ok(true),
        Driven::Gone => Ok(false),
        Driven::Busy => bail!("another process is working on {subject}: run the same command again"),
        Driven::Stopped => bail!("{task} of {subject} was stopped"),
    }
}

/// The same, until it is told to stop.
pub async fn drive_until(
    keepline: &Keepline,
    subject: &str,
    task: &str,
    stop: &watch::Receiver<bool>,
    mut told: impl FnMut(),
) -> Result<Driven> {
    let task = Task { subject: subject.to_owned(), name: task.to_owned(), state: String::new() };
    let holder = format!("{:032x}", fastrand::u128(..));
    let lease_milliseconds = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
    let mut job = Job { task, holder, lease_milliseconds, results: Vec::new() };
    let mut stop = stop.clone();
    let mut busy_since: Option<Instant> = None;
    let mut embeddings = 0;
    for _ in 0..MAX_STEPS {
        let progress = keepline.advance(&job, Some(Deadline::after(STEP))).await;
        job.task = progress.task;
        job.results = Vec::new();
        told();
        let is_to_stop = *stop.borrow();
        match progress.step {
            Step::Done => return Ok(Driven::Done),
            Step::Ended => return Ok(Driven::Gone),
            // No lease is held between steps that need nothing.
            Step::Again | Step::Taken if is_to_stop => return Ok(Driven::Stopped),
            Step::Again => busy_since = None,
            Step::Taken if busy_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            Step::Taken => return Ok(Driven::Busy),
            Step::Needs => {
                busy_since = None;
                for need in progress.needs {
                    embeddings += 1;
                    if embeddings > MAX_EMBEDDINGS {
                        bail!("{} of {subject} asked for embeddings more than {MAX_EMBEDDINGS} times", job.task.name);
                    }
                    let id = id_of(&need);
                    let got = tokio::select! {
                        biased;
                        () = told_to(&mut stop) => Ok(None),
                        got = got(keepline, need) => got.map(Some),
                    };
                    match got {
                        Ok(Some(result)) => job.results.push(result),
                        Ok(None) => {
                            leave(keepline, &mut job, id, "the work was stopped").await;
                            return Ok(Driven::Stopped);
                        }
                        Err(error) => {
                            leave(keepline, &mut job, id, &error.to_string()).await;
                            return Err(error);
                        }
                    }
                }
            }
            Step::Failed => {
                let message = progress.problem.map_or_else(|| "it failed".to_owned(), |problem| problem.message);
                bail!("{} of {subject}: {message}", job.task.name)
            }
        }
    }
    bail!("{} of {subject} was not finished after {MAX_STEPS} steps", job.task.name)
}

/// When it is told to stop.
async fn told_to(stop: &mut watch::Receiver<bool>) {
    // Whoever could tell is there for longer than this.
    let _ = stop.wait_for(|is_to_stop| *is_to_stop).await;
}

/// Tell the filter that what the step needs is not to be had, so that whoever tries it next need not wait for the lease to
/// run out. That this fails, too, changes nothing.
async fn leave(keepline: &Keepline, job: &mut Job, id: u32, message: &str) {
    job.results = vec![NeedResult::Failed(FailedResult { id, message: message.to_owned() })];
    keepline.advance(job, Some(Deadline::after(STEP))).await;
}

fn id_of(need: &Need) -> u32 {
    match need {
        Need::Completion(need) => need.id,
        Need::Vectors(need) => need.id,
    }
}

/// What a step needs.
async fn got(keepline: &Keepline, need: Need) -> Result<NeedResult> {
    let Need::Vectors(VectorsNeed { id, texts }) = need else { bail!("the task needs a model") };
    match keepline.embed(&texts).await {
        Ok(Some(vectors)) => Ok(NeedResult::Vectors(VectorsResult { id, vectors })),
        Ok(None) => bail!("there is no embedding model: set embedding"),
        Err(error) => bail!("passages can't be embedded: {error}"),
    }
}
