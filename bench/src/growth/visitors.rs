//! Who goes through the sessions of a point: a pipe, or what it is compared with: the same data touched
//! without anything of ours.

use std::{collections::HashMap, sync::Arc};

use anyhow::{Context, Result, anyhow};
use fastrand::Rng;
use keepline::{
    Keepline, Pipe,
    store::{
        BucketId, BucketKind, Deadline, ExistingLife, Failure, Opening, Operation, ReplaceOldestOperation, Status,
        Store, Transaction, Writer,
    },
};
use redis::aio::MultiplexedConnection;

use crate::{
    contenders::{RECORD, answer, ask},
    measure::Contender,
};

/// The log that the filter keeps.
pub const HISTORY: &str = "history";
/// Records that an answer adds to it.
pub const RECORDS_OF_AN_ANSWER: u64 = 2;

/// The sessions of a point.
#[derive(Clone)]
pub struct Sessions {
    prefix: String,
    count: u64,
}

impl Sessions {
    pub fn new(prefix: impl Into<String>, count: u64) -> Self {
        Self { prefix: prefix.into(), count }
    }

    pub fn all(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|n| self.name(n))
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn name(&self, n: u64) -> String {
        format!("{}-{n}", self.prefix)
    }

    fn any(&self, random: &mut Rng) -> String {
        self.name(random.u64(0..self.count))
    }
}

pub fn metadata(session: &str) -> String {
    format!(r#"{{"session_id": "{session}", "user": "anna", "locale": "de-DE"}}"#)
}

/// What becomes of a session that was visited, untimed, so that a point stays where it is.
#[derive(Clone, Copy)]
pub enum Afterwards {
    /// It may stay as it is.
    Keep,
    /// So many of its oldest records are taken off. None, where they are folded by themselves: then this is
    /// only the pause that other points have, too.
    TakeRecordsOff(u64),
    /// It was new, and is deleted.
    Delete,
}

/// Somebody who passes a question and its answer in one session after the other.
#[allow(clippy::large_enum_variant, reason = "a run has visitors of one kind")]
pub enum Visitor {
    Pipe(PipeVisitor),
    BareRedis(BareRedis),
    BareMap(BareMap),
}

/// A pipe, sandbox and all.
pub struct PipeVisitor {
    pipe: Pipe,
    store: Arc<dyn Store>,
    writer: Writer,
    sessions: Sessions,
    afterwards: Afterwards,
    random: Rng,
    /// The one that is visited, and the metadata that say so.
    session: String,
    metadata: String,
    answer: Arc<str>,
}

impl PipeVisitor {
    pub fn new(keepline: &Keepline, sessions: Sessions, answer: Arc<str>, afterwards: Afterwards) -> Self {
        Self {
            pipe: keepline.pipe(),
            store: keepline.store().clone(),
            writer: Writer::new(),
            sessions,
            afterwards,
            random: Rng::with_seed(1),
            session: String::new(),
            metadata: String::new(),
            answer,
        }
    }

    async fn leave(&mut self) -> Result<()> {
        if self.session.is_empty() {
            return Ok(());
        }
        let done = match self.afterwards {
            Afterwards::Keep => return Ok(()),
            Afterwards::TakeRecordsOff(count) => {
                let operation = ReplaceOldestOperation { log: HISTORY.into(), count, records: Vec::new() };
                let operations = vec![Operation::ReplaceOldest(operation)];
                let opening = Opening::Existing(ExistingLife { incarnation: None, renew: true });
                apply(&*self.store, &mut self.writer, &self.session, opening, operations).await
            }
            Afterwards::Delete => self
                .store
                .delete_bucket(self.writer.advance(), &bucket(&self.session), None, 0, Deadline::NEVER)
                .await
                .map_err(told)
                .map(drop),
        };
        done.with_context(|| format!("can't leave the session {} as it was", self.session))
    }
}

impl Contender for PipeVisitor {
    async fn prepare(&mut self) -> Result<()> {
        self.leave().await?;
        self.session = match self.afterwards {
            Afterwards::Delete => format!("new-{:016x}", self.random.u64(..)),
            _ => self.sessions.any(&mut self.random),
        };
        self.metadata = metadata(&self.session);
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        ask(&mut self.pipe, &self.metadata).await
    }

    async fn answer(&mut self) -> Result<()> {
        answer(&mut self.pipe, &self.answer, "{}").await
    }
}

/// Applies operations to a session, all of them.
pub async fn apply(
    store: &dyn Store,
    writer: &mut Writer,
    session: &str,
    opening: Opening,
    operations: Vec<Operation>,
) -> Result<()> {
    let transaction = Transaction { bucket: bucket(session), opening, expectations: Vec::new(), operations };
    match store.transact(writer.advance(), &transaction, Deadline::NEVER).await.map_err(told)?.status {
        Status::Applied => Ok(()),
        status => Err(anyhow!("{session} is {status:?}")),
    }
}

fn bucket(session: &str) -> BucketId {
    BucketId { kind: BucketKind::Session, name: session.to_owned() }
}

fn told(failure: Failure) -> anyhow::Error {
    anyhow!(failure.message)
}

/// Bare commands on the keys that a question reads and an answer writes, one round trip each.
pub struct BareRedis {
    connection: MultiplexedConnection,
    sessions: Sessions,
    random: Rng,
    /// What the session's keys begin with.
    base: String,
    answer: String,
}

impl BareRedis {
    pub fn new(connection: MultiplexedConnection, sessions: Sessions, answer: &str) -> Self {
        Self { connection, sessions, random: Rng::with_seed(1), base: String::new(), answer: format!("\"{answer}\"") }
    }

    fn key(&self, name: &str) -> String {
        [&self.base, name].concat()
    }
}

impl Contender for BareRedis {
    async fn prepare(&mut self) -> Result<()> {
        self.base = format!("rr:memory:{}:", self.sessions.any(&mut self.random));
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        let mut commands = redis::pipe();
        commands.cmd("HMGET").arg(self.key("__meta__")).arg("created_at").arg("sliding_ms");
        commands.cmd("SMEMBERS").arg(self.key("__keys__"));
        commands.cmd("MGET").arg(self.key("last_answer")).arg(self.key("answer_count"));
        let _: redis::Value = commands.query_async(&mut self.connection).await?;
        Ok(())
    }

    async fn answer(&mut self) -> Result<()> {
        let mut commands = redis::pipe();
        commands.cmd("HMGET").arg(self.key("__meta__")).arg("created_at").arg("sliding_ms");
        commands.cmd("HSET").arg(self.key("__writers__")).arg("bare").arg(1);
        commands.cmd("SET").arg(self.key("last_answer")).arg(&self.answer).arg("KEEPTTL");
        commands.cmd("INCRBY").arg(self.key("answer_count")).arg(1);
        commands.cmd("RPUSH").arg(self.key("__history__")).arg(RECORD).arg(RECORD);
        // As it was, for the next visitor.
        commands.cmd("LTRIM").arg(self.key("__history__")).arg(RECORDS_OF_AN_ANSWER).arg(-1);
        let _: redis::Value = commands.query_async(&mut self.connection).await?;
        Ok(())
    }
}

/// Sessions in a hash table of the standard library: its answer is copied, and replaced.
pub struct BareMap {
    map: HashMap<String, String>,
    sessions: Sessions,
    random: Rng,
    session: String,
    answer: Arc<str>,
}

impl BareMap {
    pub fn new(sessions: Sessions, answer: Arc<str>) -> Self {
        let map = sessions.all().map(|session| (session, answer.to_string())).collect();
        Self { map, sessions, random: Rng::with_seed(1), session: String::new(), answer }
    }
}

impl Contender for BareMap {
    async fn prepare(&mut self) -> Result<()> {
        self.session = self.sessions.any(&mut self.random);
        Ok(())
    }

    async fn question(&mut self) -> Result<()> {
        std::hint::black_box(self.map.get(&self.session).cloned());
        Ok(())
    }

    async fn answer(&mut self) -> Result<()> {
        if let Some(answer) = self.map.get_mut(&self.session) {
            *answer = self.answer.to_string();
        }
        Ok(())
    }
}

impl Contender for Visitor {
    async fn prepare(&mut self) -> Result<()> {
        match self {
            Self::Pipe(visitor) => visitor.prepare().await,
            Self::BareRedis(visitor) => visitor.prepare().await,
            Self::BareMap(visitor) => visitor.prepare().await,
        }
    }

    async fn question(&mut self) -> Result<()> {
        match self {
            Self::Pipe(visitor) => visitor.question().await,
            Self::BareRedis(visitor) => visitor.question().await,
            Self::BareMap(visitor) => visitor.question().await,
        }
    }

    async fn answer(&mut self) -> Result<()> {
        match self {
            Self::Pipe(visitor) => visitor.answer().await,
            Self::BareRedis(visitor) => visitor.answer().await,
            Self::BareMap(visitor) => visitor.answer().await,
        }
    }
}

macro_rules! into_visitor {
    ($($variant:ident: $visitor:ident;)*) => {
        $(impl From<$visitor> for Visitor {
            fn from(visitor: $visitor) -> Self {
                Self::$variant(visitor)
            }
        })*
    };
}

into_visitor! {
    Pipe: PipeVisitor;
    BareRedis: BareRedis;
    BareMap: BareMap;
}
