//! The contenders: pipes of the host, and the bare Redis client with hand-written scripts.

use std::time::Instant;

use anyhow::{Result, bail};
use keepline::{Keepline, Pipe, pipe::Effect};
use redis::aio::MultiplexedConnection;

use crate::measure::{Contender, Samples, nanos};

/// Sessions that a contender goes through in turn.
pub const SESSIONS: usize = 64;
/// Characters of an answer.
pub const ANSWER: usize = 400;

pub const QUESTION_TEXT: &str = "Where is my parcel, and when will it be here?";

pub fn answer_text() -> String {
    answer_of(ANSWER)
}

/// An answer of so many characters, each of one byte.
pub fn answer_of(characters: usize) -> String {
    "It is on its way. ".chars().cycle().take(characters).collect()
}

/// Metadata of each session in turn.
pub struct Turns {
    metadata: Vec<String>,
    next: usize,
}

impl Turns {
    pub fn new(name: &str, sessions: usize) -> Self {
        let metadata = |n| format!(r#"{{"session_id": "{name}-{n}", "user": "anna", "locale": "de-DE"}}"#);
        Self { metadata: (0..sessions).map(metadata).collect(), next: 0 }
    }

    pub fn next(&mut self) -> &str {
        self.next = (self.next + 1) % self.metadata.len();
        self.metadata.get(self.next).map_or("{}", String::as_str)
    }
}

/// A pipe of the host, sandbox and all.
pub struct Piped {
    pipe: Pipe,
    turns: Turns,
    answer: String,
}

impl Piped {
    pub fn new(pipe: Pipe, name: &str, sessions: usize) -> Self {
        Self { pipe, turns: Turns::new(name, sessions), answer: answer_text() }
    }
}

impl Contender for Piped {
    async fn question(&mut self) -> Result<()> {
        ask(&mut self.pipe, self.turns.next()).await
    }

    async fn answer(&mut self) -> Result<()> {
        answer(&mut self.pipe, &self.answer, "{}").await
    }
}

/// A question that must meet with its session.
pub async fn ask(pipe: &mut Pipe, metadata: &str) -> Result<()> {
    let passed = pipe.question(QUESTION_TEXT, metadata).await?;
    match passed.effect {
        Effect::Enriched | Effect::Resumed => Ok(()),
        effect => bail!("unexpected effect of a question, {effect:?}: {:?}", passed.problem),
    }
}

/// An answer that must be stored.
pub async fn answer(pipe: &mut Pipe, text: &str, metadata: &str) -> Result<()> {
    let passed = pipe.answer(text, metadata).await?;
    match passed.effect {
        Effect::Stored => Ok(()),
        effect => bail!("unexpected effect of an answer, {effect:?}: {:?}", passed.problem),
    }
}

/// The bare client with hand-written scripts.
pub struct Bare {
    connection: MultiplexedConnection,
    question: redis::Script,
    answer: redis::Script,
    sessions: Vec<BareSession>,
    next: usize,
    sequence: u64,
    text: String,
}

/// The addresses of a session.
pub struct BareSession {
    pub name: String,
    pub base: String,
}

impl BareSession {
    pub fn new(name: String) -> Self {
        Self { base: format!("{PREFIX}:{name}:"), name }
    }

    pub fn key(&self, key: &str) -> String {
        format!("{}{key}", self.base)
    }
}

pub const PREFIX: &str = "bare:memory";
/// A day, as the profile `redis` has it.
pub const TTL_MS: u64 = 86_400_000;
/// Far in the future: nothing here is late.
pub const DEADLINE: u64 = 4_000_000_000_000;
pub const QUESTION_SCRIPT: &str = include_str!("question.lua");
pub const ANSWER_SCRIPT: &str = include_str!("answer.lua");
pub const RECORD: &str = r#"{"op": "put", "key": "last_answer", "timestamp": 1795186917.032595}"#;

impl Bare {
    pub fn new(connection: MultiplexedConnection, name: &str, sessions: usize) -> Self {
        Self {
            connection,
            question: redis::Script::new(QUESTION_SCRIPT),
            answer: redis::Script::new(ANSWER_SCRIPT),
            sessions: (0..sessions).map(|n| BareSession::new(format!("{name}-{n}"))).collect(),
            next: 0,
            sequence: 0,
            text: format!("\"{}\"", answer_text()),
        }
    }

    pub async fn ping(&mut self) -> Result<()> {
        redis::cmd("PING").exec_async(&mut self.connection).await?;
        Ok(())
    }
}

impl Contender for Bare {
    async fn question(&mut self) -> Result<()> {
        self.next = (self.next + 1) % self.sessions.len();
        self.sequence += 1;
        let Some(session) = self.sessions.get(self.next) else { bail!("no session") };
        let mut call = self.question.prepare_invoke();
        call.key(session.key("__meta__")).key(session.key("__keys__")).key(session.key("__writers__"));
        call.key(format!("{PREFIX}:__sessions__"));
        call.arg(&session.base).arg(&session.name).arg("0123456789abcdef").arg(self.sequence);
        call.arg(DEADLINE).arg(TTL_MS).arg(format!("{PREFIX}:"));
        let _: redis::Value = call.invoke_async(&mut self.connection).await?;
        Ok(())
    }

    async fn answer(&mut self) -> Result<()> {
        self.sequence += 1;
        let Some(session) = self.sessions.get(self.next) else { bail!("no session") };
        let mut call = self.answer.prepare_invoke();
        for key in ["__meta__", "__keys__", "__writers__", "__history__", "last_answer", "answer_count"] {
            call.key(session.key(key));
        }
        call.arg("").arg("0123456789abcdef").arg(self.sequence).arg(DEADLINE).arg(&self.text);
        call.arg(RECORD).arg(RECORD).arg(100).arg(50);
        let _: redis::Value = call.invoke_async(&mut self.connection).await?;
        Ok(())
    }
}

/// Pipes at once, each with a session of its own, as conversations have. The pairs are shared out among them.
pub async fn side_by_side(keepline: &Keepline, pipes: u64, pairs: u64, samples: &mut Samples) -> Result<()> {
    let each = (pairs / pipes).max(1);
    let begin = Instant::now();
    let tasks: Vec<_> = (0..pipes)
        .map(|n| {
            let mut piped = Piped::new(keepline.pipe(), &format!("pipe-{n}"), 1);
            tokio::spawn(async move {
                let mut times = Vec::new();
                for _ in 0..each {
                    let started = Instant::now();
                    piped.question().await?;
                    piped.answer().await?;
                    times.push(nanos(started.elapsed()));
                }
                anyhow::Ok(times)
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.append(&mut task.await??);
    }
    samples.add_rate(each * pipes, begin);
    all.into_iter().for_each(|time| samples.pair.saturating_record(time));
    Ok(())
}
