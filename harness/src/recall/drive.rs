//! Deferred work, step by step.

use std::time::Duration;

use anyhow::{Result, bail};
use keepline::{
    Deadline, Keepline,
    maintenance::{Job, Need, NeedResult, Step, Task, VectorsNeed, VectorsResult},
};

/// The task that makes the index, the one that has passages embedded, and the one that forgets it all.
pub const MAKE: &str = "recall";
pub const EMBED: &str = "vectors";
pub const FORGET: &str = "recall-reset";
/// What a step may take.
const STEP: Duration = Duration::from_secs(30);
/// What others keep from their work, should this process be killed.
const LEASE: Duration = Duration::from_mins(2);
/// How often to try again when others are at work, and after what time.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// Do a task to its end, and tell each step. Whether its subject was there.
pub async fn drive(keepline: &Keepline, subject: &str, task: &str, mut told: impl FnMut()) -> Result<bool> {
    let task = Task { subject: subject.to_owned(), name: task.to_owned(), state: String::new() };
    let holder = format!("{:032x}", fastrand::u128(..));
    let lease_milliseconds = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
    let mut job = Job { task, holder, lease_milliseconds, results: Vec::new() };
    let mut tries = 0;
    loop {
        let progress = keepline.advance(&job, Some(Deadline::after(STEP))).await;
        job.task = progress.task;
        job.results = Vec::new();
        told();
        match progress.step {
            Step::Again => tries = 0,
            Step::Done => return Ok(true),
            Step::Ended => return Ok(false),
            Step::Taken if tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Step::Taken => bail!("others are at work on {subject}: run the same command again"),
            Step::Needs => {
                for need in progress.needs {
                    job.results.push(got(keepline, need).await?);
                }
            }
            Step::Failed => {
                let message = progress.problem.map_or_else(|| "it failed".to_owned(), |problem| problem.message);
                bail!("{} of {subject}: {message}", job.task.name)
            }
        }
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
