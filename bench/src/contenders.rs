//! The contenders: pipes of the host, and the bare Redis client with hand-written scripts.

use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use keepline::{Keepline, Pipe, maintenance::Maintenance, pipe::Effect};
use redis::aio::MultiplexedConnection;

use crate::measure::Contender;

/// Sessions that a contender goes through in turn.
pub const SESSIONS: u64 = 64;
/// Characters of an answer.
pub const ANSWER: usize = 400;
pub const QUESTION_TEXT: &str = "Where is my parcel, and when will it be here?";

/// An answer of so many characters, each of one byte.
pub fn answer_of(characters: usize) -> String {
    "It is on its way. ".chars().cycle().take(characters).collect()
}

/// The metadata of one session after the other.
pub struct Turns {
    prefix: String,
    sessions: u64,
    at: u64,
    random: Option<Rng>,
    pub metadata: String,
}

impl Turns {
    /// Sessions in turn.
    pub fn new(prefix: impl Into<String>, sessions: u64) -> Self {
        Self { prefix: prefix.into(), sessions: sessions.max(1), at: 0, random: None, metadata: String::new() }
    }

    pub fn advance(&mut self) {
        self.at = match &mut self.random {
            Some(random) => random.u64(0..self.sessions),
            None => (self.at + 1) % self.sessions,
        };
        self.metadata =
            format!(r#"{{"session_id": "{}-{}", "user": "anna", "locale": "de-DE"}}"#, self.prefix, self.at);
    }
}

/// A pipe of the host, sandbox and all.
pub struct Piped {
    pipe: Pipe,
    turns: Turns,
    pub question: String,
    pub answer: String,
    /// Does the deferred work of its answers.
    pub work: Option<Maintenance>,
}

impl Piped {
    pub fn new(keepline: &Keepline, prefix: impl Into<String>, sessions: u64) -> Self {
        Self {
            pipe: keepline.pipe(),
            turns: Turns::new(prefix, sessions),
            question: QUESTION_TEXT.into(),
            answer: answer_of(ANSWER),
            work: None,
        }
    }

    /// Visits random sessions instead of one after the other.
    pub fn at_random(mut self) -> Self {
        self.turns.random = Some(Rng::with_seed(1));
        self
    }

    /// The metadata that the next question goes on with.
    pub async fn ask(&mut self) -> Result<Option<String>> {
        let passed = self.pipe.question(&self.question, &self.turns.metadata).await?;
        match passed.effect {
            Effect::Enriched | Effect::Resumed => Ok(passed.metadata),
            effect => bail!("unexpected effect of a question, {effect:?}: {:?}", passed.problem),
        }
    }

    /// So many pairs in each session.
    pub async fn fill(&mut self, pairs: u64) -> Result<()> {
        for _ in 0..pairs * self.turns.sessions {
            self.prepare().await?;
            self.question().await?;
            self.answer().await?;
        }
        Ok(())
    }
}

impl Contender for Piped {
    async fn prepare(&mut self) -> Result<()> {
        self.turns.advance();
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        self.ask().await.map(drop)
    }

    async fn answer(&mut self) -> Result<()> {
        let passed = self.pipe.answer(&self.answer, "{}").await?;
        ensure!(passed.effect == Effect::Stored, "an answer was {:?}: {:?}", passed.effect, passed.problem);
        if let Some(work) = &self.work {
            work.submit(passed.due);
        }
        Ok(())
    }
}

/// So many pipes, each with a session of its own, as conversations have.
pub fn pipes(keepline: &Keepline, count: u64) -> Vec<Piped> {
    (0..count).map(|n| Piped::new(keepline, format!("pipe-{n}"), 1)).collect()
}

/// The bare client with hand-written scripts.
pub struct Bare {
    connection: MultiplexedConnection,
    question: redis::Script,
    answer: redis::Script,
    name: String,
    sessions: u64,
    at: u64,
    sequence: u64,
    text: String,
}

/// A record of a history.
pub const RECORD: &str = r#"{"op": "put", "key": "last_answer", "timestamp": 1795186917.032595}"#;
const PREFIX: &str = "bare:memory";
/// A day, as the profile `redis` has it.
const TTL_MS: u64 = 86_400_000;
/// Far in the future: nothing here is late.
const DEADLINE: u64 = 4_000_000_000_000;

impl Bare {
    pub fn new(connection: &MultiplexedConnection, name: impl Into<String>, sessions: u64) -> Self {
        Self {
            connection: connection.clone(),
            question: redis::Script::new(include_str!("question.lua")),
            answer: redis::Script::new(include_str!("answer.lua")),
            name: name.into(),
            sessions,
            at: 0,
            sequence: 0,
            text: format!("\"{}\"", answer_of(ANSWER)),
        }
    }
}

impl Contender for Bare {
    async fn question(&mut self) -> Result<()> {
        self.at = (self.at + 1) % self.sessions;
        self.sequence += 1;
        let session = format!("{}-{}", self.name, self.at);
        let base = format!("{PREFIX}:{session}:");
        let mut call = self.question.prepare_invoke();
        for key in ["__meta__", "__keys__", "__writers__"] {
            call.key(format!("{base}{key}"));
        }
        call.key(format!("{PREFIX}:__sessions__"));
        call.arg(base).arg(session).arg("0123456789abcdef").arg(self.sequence);
        call.arg(DEADLINE).arg(TTL_MS).arg(format!("{PREFIX}:"));
        let _: redis::Value = call.invoke_async(&mut self.connection).await?;
        Ok(())
    }

    async fn answer(&mut self) -> Result<()> {
        self.sequence += 1;
        let mut call = self.answer.prepare_invoke();
        for key in ["__meta__", "__keys__", "__writers__", "__history__", "last_answer", "answer_count"] {
            call.key(format!("{PREFIX}:{}-{}:{key}", self.name, self.at));
        }
        call.arg("").arg("0123456789abcdef").arg(self.sequence).arg(DEADLINE).arg(&self.text);
        call.arg(RECORD).arg(RECORD).arg(100).arg(50);
        let _: redis::Value = call.invoke_async(&mut self.connection).await?;
        Ok(())
    }
}

/// Two round trips of a server that has nothing to do.
pub struct Ping(pub MultiplexedConnection);

impl Contender for Ping {
    async fn question(&mut self) -> Result<()> {
        Ok(redis::cmd("PING").exec_async(&mut self.0).await?)
    }

    async fn answer(&mut self) -> Result<()> {
        self.question().await
    }
}
