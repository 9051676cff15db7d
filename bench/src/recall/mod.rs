//! Recall: what a question pays for it, by how much there is to look through and by how many users; what an answer pays
//! off its path; and what the index takes.

mod answers;
mod questions;
mod users;
mod words;

use anyhow::{Result, bail};
use keepline::{
    Deadline, Keepline, Plugin,
    maintenance::{Job, Step, Task},
};
use redis::aio::MultiplexedConnection;

use crate::{
    report::Section,
    stores::{Stores, Tested, keepline},
};

/// How much work goes into it.
#[derive(Clone, Copy)]
pub struct Effort {
    rounds: u32,
    /// In each round, of each kind.
    questions: u32,
    answers: u32,
    /// The longest session that is measured, in passages.
    max_passages: usize,
    max_users: usize,
}

impl Effort {
    pub fn of(quick: bool) -> Self {
        match quick {
            true => Self { rounds: 3, questions: 20, answers: 12, max_passages: 100, max_users: 100 },
            false => Self { rounds: 9, questions: 150, answers: 32, max_passages: usize::MAX, max_users: usize::MAX },
        }
    }
}

/// Tokens of a window: the same with recall and without.
const WINDOW: u64 = 4_000;

pub async fn measure(plugin: &Plugin, effort: Effort) -> Result<Vec<Section>> {
    let stores = Stores::open()?;
    let mut redis = match &stores.server {
        Some(server) => Some(redis::Client::open(server.url())?.get_multiplexed_async_connection().await?),
        None => None,
    };
    let mut sections = vec![questions::section(), questions::index_section()];
    let (mut answers, mut users) = (answers::section(), users::section());
    for tested in &stores.all {
        let [asked, made] = &mut sections[..] else { bail!("two sections") };
        let connection = redis.as_mut().filter(|_| tested.name == "Redis");
        questions::measure(plugin, tested, effort, connection, asked, made).await?;
        answers::measure(plugin, tested, effort, &mut answers).await?;
        users::measure(plugin, tested, effort, &mut users).await?;
    }
    if redis.is_none() {
        sections.truncate(1);
    }
    sections.extend([answers, users]);
    if let (Some(connection), Some(tested)) = (&mut redis, stores.all.last()) {
        sections.push(answers::of_redis(plugin, tested, effort, connection).await?);
    }
    Ok(sections)
}

/// The filter's configuration.
fn filter(recall: &str) -> String {
    format!(
        r#"{{"conversation": true, "max_context_tokens": {WINDOW}, "summaries": false, "auto_generate_titles": false,
            "recall": "{recall}"}}"#
    )
}

/// The same store without recall, and with it.
async fn pair(plugin: &Plugin, tested: &Tested) -> Result<[Keepline; 2]> {
    Ok([
        keepline(plugin, &tested.store, filter("off")).await?,
        keepline(plugin, &tested.store, filter("session")).await?,
    ])
}

/// A session of so many passages, of a message each. Nothing is recalled yet.
async fn fill(keepline: &Keepline, session: &str, passages: usize) -> Result<()> {
    /// Messages of a call.
    const PIECE: usize = 2_000;
    let mut sessions = keepline.sessions().by(Deadline::NEVER);
    sessions.create(session).await?;
    let mut words = words::Words::new(1);
    let mut next = 0;
    while next < passages {
        let piece: Vec<String> = (next..passages.min(next + PIECE)).map(|number| words.message(number)).collect();
        let after = Some(next as u64).filter(|next| *next > 0);
        sessions.set_messages(session.into(), &piece, after).await?;
        next += piece.len();
    }
    Ok(())
}

/// The task that indexes the passages of its subject.
const INDEX: &str = "recall";

/// Indexes all passages of a subject (`session/ID`) that are not indexed yet, as its deferred work does.
async fn index(keepline: &Keepline, subject: &str) -> Result<()> {
    let task = Task { subject: subject.to_owned(), name: INDEX.to_owned(), state: String::new() };
    let mut job = Job { task, holder: "bench".to_owned(), lease_milliseconds: 15_000, results: Vec::new() };
    loop {
        let progress = keepline.advance(&job, None).await;
        job.task = progress.task;
        match progress.step {
            Step::Done => return Ok(()),
            Step::Again => {}
            step => bail!("indexing {subject}: {step:?} {:?}", progress.problem),
        }
    }
}

/// Bytes that the keys of a session take in Redis.
async fn bytes_of(connection: &mut MultiplexedConnection, session: &str) -> Result<f64> {
    // A server of our own: nobody waits for it.
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("*:{session}:*")).query_async(connection).await?;
    let mut bytes = 0.0;
    for key in keys {
        // Of all elements, not of a sample.
        let usage = redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).to_owned();
        bytes += usage.query_async::<Option<f64>>(connection).await?.unwrap_or(0.0);
    }
    Ok(bytes)
}
