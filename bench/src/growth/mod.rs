//! Growth: the cost of an entry while its session, its size, or the store grows.
//!
//! Each curve is a table and a plot. What should be flat is measured beside a control: bare commands on the same data,
//! which show what a larger store costs by itself.

mod apart;
mod curve;
mod directory;
mod fill;
mod load;
mod names;
mod plots;
mod visitors;

use std::sync::Arc;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use keepline::{
    Keepline, Plugin,
    store::{MemoryLimits, MemoryStore, Store},
};
use keepline_local_redis::RedisServer;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use self::{
    apart::Apart,
    curve::{Column, Figure, Point, table, take_turns},
    names::*,
    plots::plots,
    visitors::{Afterwards, BareMap, BareRedis, PipeVisitor, RECORDS_OF_AN_ANSWER, Sessions},
};
use crate::{
    arguments::Part,
    contenders::{ANSWER, answer_of},
    report::{Line, Plot, Section, figure, thousands},
    stores::{A_DAY, connect, keepline},
};

/// How much work goes into the curves.
pub struct Effort {
    rounds: u32,
    /// Pairs of a point's round; fewer where a pair is large.
    memory_pairs: u64,
    redis_pairs: u64,
    /// Pairs of a round of pipes side by side.
    loaded_pairs: u64,
    /// The most sessions on Redis and in a directory.
    max_sessions: u64,
    /// The most points of a curve.
    max_points: usize,
}

impl Effort {
    pub fn of(quick: bool, max_points: usize) -> Self {
        match quick {
            true => Self {
                rounds: 3,
                memory_pairs: 500,
                redis_pairs: 200,
                loaded_pairs: 1_000,
                max_sessions: 100_000,
                max_points,
            },
            false => Self {
                rounds: 9,
                memory_pairs: 2_000,
                redis_pairs: 500,
                loaded_pairs: 5_000,
                max_sessions: u64::MAX,
                max_points,
            },
        }
    }

    fn points<'a>(&self, all: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        all.iter().copied().take(self.max_points)
    }
}

const KEYS: [u64; 4] = [1, 10, 100, 1_000];
const VALUE: usize = 100;
const OPERATIONS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
/// As many as fit into `memory_max_bytes`.
const SESSIONS_IN_MEMORY: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
const SESSIONS_IN_REDIS: [u64; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const SIZES: [u64; 6] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Sessions of a point that is not about their number.
const A_FEW: u64 = 8;

/// With limits out of the way: none of them is what the curves are about.
const ROOMY: &str = r#"{"session_ttl_hours": 24, "max_keys": 10000, "max_value_bytes": 8388608,
    "max_context_bytes": 8388608}"#;
const WHOLE_HISTORY: &str = r#"{"session_ttl_hours": 24, "max_history": 1000000}"#;
const MAX_HISTORY: u64 = 100;

/// All curves. `single` runs one pipe; `pool` many, with a core left for Redis; `all` is for the memory store.
pub struct Growth<'a> {
    pub plugin: &'a Plugin,
    pub effort: Effort,
    pub single: &'a Runtime,
    pub pool: &'a Runtime,
    pub all: &'a Runtime,
    pub progress: &'a ProgressBar,
}

impl Growth<'_> {
    /// All curves, or one.
    pub fn measure(&self, only: Option<Part>) -> Result<(Vec<Section>, Vec<Plot>)> {
        let server = if RedisServer::is_installed() { Some(RedisServer::start()?) } else { None };
        let server = server.as_ref();
        let wanted = |part| only.is_none_or(|only| only == Part::Growth || only == part);
        let mut sections = Vec::new();
        if wanted(Part::Keys) {
            sections.push(self.single.block_on(self.keys(server))?);
        }
        if wanted(Part::History) {
            sections.push(self.single.block_on(self.history(server, FOLDED, A_DAY, Some(MAX_HISTORY / 2)))?);
            sections.push(self.single.block_on(self.history(server, WHOLE, WHOLE_HISTORY, None))?);
        }
        if wanted(Part::Sizes) {
            sections.push(self.single.block_on(self.sizes(server))?);
        }
        if wanted(Part::Sessions) {
            sections.push(self.sessions_in_memory()?);
            if server.is_some() {
                sections.push(self.sessions_in_redis()?);
            }
        }
        if wanted(Part::Pipes) {
            sections.push(load::pipes(self, server)?);
        }
        let is_there = |line: &Line| sections.iter().any(|section| section.title == line.section);
        let measured = |plot: &Plot| plot.panels.iter().flat_map(|panel| &panel.lines).any(is_there);
        let plots = plots().into_iter().filter(measured).collect();
        Ok((sections, plots))
    }

    async fn in_memory(&self, filter: &str, limits: MemoryLimits) -> Result<(Keepline, Arc<MemoryStore>)> {
        let store = Arc::new(MemoryStore::new(limits));
        let lent: Arc<dyn Store> = store.clone();
        Ok((keepline(self.plugin, &lent, filter).await?, store))
    }

    /// Memory, and Redis if there is one: each with the pairs of a round.
    async fn stores(&self, server: Option<&RedisServer>, filter: &str) -> Result<Vec<(&'static str, Keepline, u64)>> {
        let (memory, _) = self.in_memory(filter, MemoryLimits::default()).await?;
        let mut stores = vec![(MEMORY, memory, self.effort.memory_pairs)];
        if let Some(server) = server {
            stores.push((REDIS, connect(self.plugin, server, filter).await?.0, self.effort.redis_pairs));
        }
        Ok(stores)
    }

    async fn keys(&self, server: Option<&RedisServer>) -> Result<Section> {
        self.progress.set_message("keys a session");
        let text: Arc<str> = answer_of(ANSWER).into();
        let mut points = Vec::new();
        for (series, keepline, pairs) in self.stores(server, ROOMY).await? {
            for keys in self.effort.points(&KEYS) {
                let sessions = Sessions::new(format!("keys-{keys}"), A_FEW);
                fill::keys(&**keepline.store(), &sessions, keys, VALUE).await?;
                let visitor = PipeVisitor::new(&keepline, sessions, text.clone(), Afterwards::Keep);
                points.push(Point::new(series, keys, visitor, pairs / (1 + keys / 100)));
            }
        }
        take_turns(&mut points, self.effort.rounds, self.progress).await?;

        let mut section = table(KEYS_A_SESSION, "keys", label, &points, &both_stores());
        for (question, a_key) in [(MEMORY_QUESTION, MEMORY_A_KEY), (REDIS_QUESTION, REDIS_A_KEY)] {
            let measured = section.points(question);
            section.column(a_key, |at| Some(measured.iter().find(|point| point.0 == at)?.1 / at));
        }
        slopes(&mut section, "key");
        section.note(format!(
            "values of {VALUE} characters; beside them each session has the two keys of its answers, and a question \
             brings all of them"
        ));
        Ok(section)
    }

    /// `folded_to` is how many records stay beside the summary.
    async fn history(
        &self,
        server: Option<&RedisServer>,
        title: &str,
        filter: &str,
        folded_to: Option<u64>,
    ) -> Result<Section> {
        self.progress.set_message("history");
        let text: Arc<str> = answer_of(ANSWER).into();
        let mut points = Vec::new();
        for (series, keepline, pairs) in self.stores(server, filter).await? {
            for operations in self.effort.points(&OPERATIONS) {
                let sessions = Sessions::new(format!("history-{operations}-{}", folded_to.is_some()), A_FEW);
                fill::history(&**keepline.store(), &sessions, operations, folded_to).await?;
                // What folds stays where it is by itself.
                let folds = folded_to.is_some() && operations >= MAX_HISTORY;
                let taken_off = if folds { 0 } else { RECORDS_OF_AN_ANSWER };
                let visitor =
                    PipeVisitor::new(&keepline, sessions, text.clone(), Afterwards::TakeRecordsOff(taken_off));
                points.push(Point::new(series, operations, visitor, pairs));
            }
        }
        take_turns(&mut points, self.effort.rounds, self.progress).await?;

        let mut columns = both_stores();
        if folded_to.is_some() {
            columns.extend([
                Column { name: "memory: answer p98 µs", series: MEMORY, figure: Figure::SlowestAnswers },
                Column { name: "Redis: answer p98 µs", series: REDIS, figure: Figure::SlowestAnswers },
            ]);
        }
        let mut section = table(title, "operations", label, &points, &columns);
        section.note("before each pair, untimed, the records of the last one are taken off again");
        if folded_to.is_some() {
            section.note("past 100 records one answer in 25 folds: p98 is what those take");
        }
        Ok(section)
    }

    async fn sizes(&self, server: Option<&RedisServer>) -> Result<Section> {
        self.progress.set_message("entry size");
        let mut points = Vec::new();
        for (series, keepline, pairs) in self.stores(server, ROOMY).await? {
            for size in self.effort.points(&SIZES) {
                let sessions = Sessions::new(format!("size-{size}"), A_FEW);
                let text: Arc<str> = answer_of(size as usize).into();
                fill::answers(&keepline, &sessions, &text).await?;
                let visitor = PipeVisitor::new(&keepline, sessions, text, Afterwards::Keep);
                points.push(Point::new(series, size / 1024, visitor, (pairs / (1 + size / (16 << 10))).max(3)));
            }
        }
        take_turns(&mut points, self.effort.rounds, self.progress).await?;

        let mut section = table(ENTRY_SIZE, "KiB", label, &points, &both_stores());
        slopes(&mut section, "KiB");
        section.note("the question brings back the answer before it, which is of the same size");
        Ok(section)
    }

    fn sessions_in_memory(&self) -> Result<Section> {
        let text: Arc<str> = answer_of(ANSWER).into();
        let (mut points, mut sizes) = (Vec::new(), Vec::new());
        // Each point has a store of its own.
        for count in self.effort.points(&SESSIONS_IN_MEMORY) {
            self.progress.set_message(format!("{} sessions in memory", thousands(count as f64)));
            let sessions = Sessions::new("s", count);
            let limits = MemoryLimits { max_sessions: u64::MAX, ..MemoryLimits::default() };
            let (keepline, store) = self.single.block_on(self.in_memory(A_DAY, limits))?;
            self.all.block_on(fill::sessions(&keepline, &sessions, &text, self.progress))?;
            sizes.push((count, store.used_bytes()));
            points.extend(visits(&keepline, &sessions, &text, self.effort.memory_pairs));
            points.push(Point::new(BARE, count, BareMap::new(sessions, text.clone()), self.effort.memory_pairs));
        }
        let bare = [
            Column { name: MAP_READ, series: BARE, figure: Figure::Question },
            Column { name: MAP_WRITE, series: BARE, figure: Figure::Answer },
        ];
        let mut section = self.sessions(SESSIONS_MEMORY, points, bare, &sizes)?;
        section.note("bare hash table: an answer copied out of one of the standard library, and replaced in it");
        Ok(section)
    }

    fn sessions_in_redis(&self) -> Result<Section> {
        let text: Arc<str> = answer_of(ANSWER).into();
        let (mut points, mut sizes, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        // Each point has a server of its own.
        let counts = self.effort.points(&SESSIONS_IN_REDIS).filter(|count| *count <= self.effort.max_sessions);
        for count in counts {
            self.progress.set_message(format!("{} sessions in Redis", thousands(count as f64)));
            let sessions = Sessions::new("s", count);
            let server = RedisServer::start()?;
            // A connection lives on the runtime that made it.
            self.pool.block_on(async {
                let (keepline, _) = connect(self.plugin, &server, A_DAY).await?;
                fill::sessions(&keepline, &sessions, &text, self.progress).await
            })?;
            let (keepline, mut connection) = self.single.block_on(connect(self.plugin, &server, A_DAY))?;
            sizes.push((count, self.single.block_on(used_memory(&mut connection))?));
            points.extend(visits(&keepline, &sessions, &text, self.effort.redis_pairs));
            let bare = BareRedis::new(connection, sessions, &text);
            points.push(Point::new(BARE, count, bare, self.effort.redis_pairs));
            servers.push(server);
        }
        let bare = [
            Column { name: BARE_READS, series: BARE, figure: Figure::Question },
            Column { name: BARE_WRITES, series: BARE, figure: Figure::Answer },
        ];
        let apart = Apart::begin();
        servers.iter().for_each(|server| apart.put(server));
        let mut section = self.sessions(SESSIONS_REDIS, points, bare, &sizes)?;
        section.note(
            "bare reads and writes: a round trip of plain commands on the keys that a question reads and an answer \
             writes",
        );
        Ok(section)
    }

    /// `sizes` are the bytes that the store holds at each point.
    fn sessions(
        &self,
        title: &str,
        mut points: Vec<Point>,
        bare: [Column; 2],
        sizes: &[(u64, u64)],
    ) -> Result<Section> {
        self.progress.set_message("sessions");
        self.single.block_on(take_turns(&mut points, self.effort.rounds, self.progress))?;
        let mut columns = vec![
            Column { name: QUESTION, series: ANY, figure: Figure::Question },
            Column { name: ANSWER_TO_IT, series: ANY, figure: Figure::Answer },
            Column { name: CREATION, series: NEW, figure: Figure::Question },
            Column { name: HOT_QUESTION, series: HOT, figure: Figure::Question },
            Column { name: HOT_ANSWER, series: HOT, figure: Figure::Answer },
        ];
        columns.extend(bare);
        let mut section = table(title, "sessions", label, &points, &columns);
        let size = |at: f64| sizes.iter().find(|(count, _)| *count as f64 == at);
        section.column(MIB, |at| Some(size(at)?.1 as f64 / f64::from(1 << 20)));
        section.note("any of the existing sessions, at random; a creation is the first question of a new one");
        section.note("same ten: always the same ten of all the sessions, which the CPU's caches hold");
        section.note("all sessions were created through pipes, by an answer each");
        Ok(section)
    }
}

/// Any session, new ones, and the same few.
fn visits(keepline: &Keepline, sessions: &Sessions, text: &Arc<str>, pairs: u64) -> [Point; 3] {
    let few = Sessions::new("s", sessions.count().min(10));
    let off = Afterwards::TakeRecordsOff(RECORDS_OF_AN_ANSWER);
    [(ANY, sessions, off), (NEW, sessions, Afterwards::Delete), (HOT, &few, off)].map(
        |(series, visited, afterwards)| {
            let visitor = PipeVisitor::new(keepline, visited.clone(), text.clone(), afterwards);
            Point::new(series, sessions.count(), visitor, pairs)
        },
    )
}

fn both_stores() -> Vec<Column> {
    vec![
        Column { name: MEMORY_QUESTION, series: MEMORY, figure: Figure::Question },
        Column { name: MEMORY_ANSWER, series: MEMORY, figure: Figure::Answer },
        Column { name: REDIS_QUESTION, series: REDIS, figure: Figure::Question },
        Column { name: REDIS_ANSWER, series: REDIS, figure: Figure::Answer },
    ]
}

/// Where more costs more by nature: how much.
fn slopes(section: &mut Section, unit: &str) {
    let slope = |column: &&str| {
        let points = section.points(column);
        let (first, last) = (points.first()?, points.last()?);
        let slope = (last.1 - first.1) / (last.0 - first.0).max(1.0);
        Some(format!("{column} + {}", figure(slope)))
    };
    let all = [MEMORY_QUESTION, MEMORY_ANSWER, REDIS_QUESTION, REDIS_ANSWER];
    let slopes: Vec<_> = all.iter().filter_map(slope).collect();
    section.note(format!("for each further {unit}: {}", slopes.join(", ")));
}

fn label(at: u64) -> String {
    thousands(at as f64)
}

async fn used_memory(connection: &mut MultiplexedConnection) -> Result<u64> {
    let info: redis::InfoDict = redis::cmd("INFO").arg("memory").query_async(connection).await?;
    info.get("used_memory").context("Redis does not report its memory use")
}
