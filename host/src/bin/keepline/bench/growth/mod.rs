//! Growth: what an entry costs while its session, its size, or what the store holds grows.
//!
//! Each curve is a table and a plot. What should be flat is measured beside a control: the same data touched
//! by bare commands, which shows what a larger store costs by itself.

mod curve;
mod fill;
mod load;
mod visitors;

use std::sync::Arc;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use keepline::{
    Keepline, Options, Plugin,
    local_redis::RedisServer,
    store::{MemoryLimits, MemoryStore},
};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use self::{
    curve::{Column, Figure, Point, table, take_turns},
    visitors::{Afterwards, BareMap, BareRedis, PipeVisitor, RECORDS_OF_AN_ANSWER, Sessions},
};
use super::{
    contenders::{ANSWER, answer_of},
    redis::connect,
    report::{Axis, Ink, Line, Panel, Plot, Section, figure, thousands},
};

/// How much work goes into the curves.
pub struct Effort {
    pub rounds: u32,
    /// A round of a point has so many pairs, over so fast a store; fewer where a pair is large.
    pub memory_pairs: u64,
    pub redis_pairs: u64,
    /// A round of pipes side by side.
    pub loaded_pairs: u64,
    /// Sessions on Redis end here.
    pub max_sessions: u64,
    /// A curve has at most so many points.
    pub max_points: usize,
}

impl Effort {
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

// Series.
const MEMORY: &str = "memory";
const REDIS: &str = "Redis";
const NEW_IN_MEMORY: &str = "new in memory";
const NEW_IN_REDIS: &str = "new in Redis";
const BARE_MAP: &str = "bare map";
const BARE_REDIS: &str = "bare Redis";

// Tables, and their columns.
const KEYS_A_SESSION: &str = "Keys a session";
const FOLDED: &str = "History, folded at 100 records";
const WHOLE: &str = "History, kept whole";
const ENTRY_SIZE: &str = "Size of an answer";
const SESSIONS: &str = "Sessions";
const MEMORY_QUESTION: &str = "memory: question µs";
const MEMORY_ANSWER: &str = "memory: answer µs";
const REDIS_QUESTION: &str = "Redis: question µs";
const REDIS_ANSWER: &str = "Redis: answer µs";
const MEMORY_A_KEY: &str = "memory: question, µs a key";
const REDIS_A_KEY: &str = "Redis: question, µs a key";
const MEMORY_CREATION: &str = "memory: creation µs";
const REDIS_CREATION: &str = "Redis: creation µs";
const MAP_READ: &str = "bare map µs";
const BARE_READS: &str = "Redis: bare reads µs";
const BARE_WRITES: &str = "Redis: bare writes µs";
const MEMORY_MIB: &str = "memory: MiB";
const REDIS_MIB: &str = "Redis: MiB";

/// With limits out of the way: none of them is what the curves are about.
const ROOMY: &str = r#"{"session_ttl_hours": 24, "max_keys": 10000, "max_value_bytes": 8388608,
    "max_context_bytes": 8388608}"#;
const EXPIRING: &str = r#"{"session_ttl_hours": 24}"#;
const WHOLE_HISTORY: &str = r#"{"session_ttl_hours": 24, "max_history": 1000000}"#;
const MAX_HISTORY: u64 = 100;

/// All curves. `single` runs one pipe; `pool` many, with a core left for Redis; `all` is for the memory store.
pub struct Growth<'a> {
    pub plugin: &'a Plugin,
    pub effort: &'a Effort,
    pub single: &'a Runtime,
    pub pool: &'a Runtime,
    pub all: &'a Runtime,
    pub progress: &'a ProgressBar,
}

impl Growth<'_> {
    pub fn measure(&self) -> Result<(Vec<Section>, Vec<Plot>)> {
        let server = if RedisServer::is_installed() { Some(RedisServer::start()?) } else { None };
        let server = server.as_ref();
        let mut sections = vec![
            self.single.block_on(self.keys(server))?,
            self.single.block_on(self.history(server, FOLDED, EXPIRING, Some(MAX_HISTORY / 2)))?,
            self.single.block_on(self.history(server, WHOLE, WHOLE_HISTORY, None))?,
            self.single.block_on(self.sizes(server))?,
            self.sessions(server.is_some())?,
        ];
        sections.push(load::pipes(self, server)?);
        Ok((sections, plots()))
    }

    async fn in_memory(&self, filter: &str, limits: MemoryLimits) -> Result<(Keepline, Arc<MemoryStore>)> {
        let store = Arc::new(MemoryStore::new(limits));
        let mut options = Options::default();
        options.filter = filter.into();
        Ok((Keepline::new(self.plugin.clone(), store.clone(), options).await?, store))
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

    /// Each point has a store of its own, or a server.
    fn sessions(&self, with_redis: bool) -> Result<Section> {
        let text: Arc<str> = answer_of(ANSWER).into();
        let (mut points, mut sizes) = (Vec::new(), Vec::new());
        for count in self.effort.points(&SESSIONS_IN_MEMORY) {
            self.progress.set_message(format!("{} sessions in memory", thousands(count as f64)));
            let sessions = Sessions::new("s", count);
            let limits = MemoryLimits { max_sessions: u64::MAX, ..MemoryLimits::default() };
            let (keepline, store) = self.single.block_on(self.in_memory(EXPIRING, limits))?;
            self.all.block_on(fill::sessions(&keepline, &sessions, &text, self.progress))?;
            sizes.push((MEMORY_MIB, count, store.used_bytes()));
            let visit = |afterwards| PipeVisitor::new(&keepline, sessions.clone(), text.clone(), afterwards);
            let pairs = self.effort.memory_pairs;
            points.push(Point::new(MEMORY, count, visit(Afterwards::TakeRecordsOff(RECORDS_OF_AN_ANSWER)), pairs));
            points.push(Point::new(NEW_IN_MEMORY, count, visit(Afterwards::Delete), pairs));
            points.push(Point::new(BARE_MAP, count, BareMap::new(sessions.clone(), text.clone()), pairs));
        }
        let mut servers = Vec::new();
        let counts =
            self.effort.points(&SESSIONS_IN_REDIS).filter(|count| with_redis && *count <= self.effort.max_sessions);
        for count in counts {
            self.progress.set_message(format!("{} sessions in Redis", thousands(count as f64)));
            let sessions = Sessions::new("s", count);
            let server = RedisServer::start()?;
            // A connection lives on the runtime that made it.
            self.pool.block_on(async {
                let (keepline, _) = connect(self.plugin, &server, EXPIRING).await?;
                fill::sessions(&keepline, &sessions, &text, self.progress).await
            })?;
            let (keepline, mut connection) = self.single.block_on(connect(self.plugin, &server, EXPIRING))?;
            sizes.push((REDIS_MIB, count, self.single.block_on(used_memory(&mut connection))?));
            let visit = |afterwards| PipeVisitor::new(&keepline, sessions.clone(), text.clone(), afterwards);
            let pairs = self.effort.redis_pairs;
            points.push(Point::new(REDIS, count, visit(Afterwards::TakeRecordsOff(RECORDS_OF_AN_ANSWER)), pairs));
            points.push(Point::new(NEW_IN_REDIS, count, visit(Afterwards::Delete), pairs));
            let bare = BareRedis::new(connection, sessions, &text);
            points.push(Point::new(BARE_REDIS, count, bare, pairs));
            servers.push(server);
        }
        self.progress.set_message("sessions");
        self.single.block_on(take_turns(&mut points, self.effort.rounds, self.progress))?;

        let mut columns = both_stores();
        columns.extend([
            Column { name: MEMORY_CREATION, series: NEW_IN_MEMORY, figure: Figure::Question },
            Column { name: REDIS_CREATION, series: NEW_IN_REDIS, figure: Figure::Question },
            Column { name: MAP_READ, series: BARE_MAP, figure: Figure::Question },
            Column { name: BARE_READS, series: BARE_REDIS, figure: Figure::Question },
            Column { name: BARE_WRITES, series: BARE_REDIS, figure: Figure::Answer },
        ]);
        let mut section = table(SESSIONS, "sessions", label, &points, &columns);
        for store in [MEMORY_MIB, REDIS_MIB] {
            let size = |at: f64| sizes.iter().find(|(of, count, _)| *of == store && *count as f64 == at);
            section.column(store, |at| Some(size(at)?.2 as f64 / f64::from(1 << 20)));
        }
        section.note("any of the existing sessions, at random; a creation is the first question of a new one");
        section.note(
            "bare reads and writes: a round trip of plain commands on the keys that a question reads and an answer \
             writes; bare map: an answer copied out of a hash table",
        );
        section.note("all sessions were created through pipes, by an answer each");
        Ok(section)
    }
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
    info.get("used_memory").context("Redis does not tell its memory")
}

/// What is drawn, and how.
fn plots() -> Vec<Plot> {
    let line = |label: &str, section: &str, column: &str, ink, dashed| Line {
        label: label.into(),
        section: section.into(),
        column: column.into(),
        ink,
        dashed,
    };
    let micros = |logarithmic| Axis { title: "µs (median)".into(), logarithmic };
    let panel = |title: &str, x: &str, y: Axis, lines| Panel {
        title: title.into(),
        x: Axis { title: x.into(), logarithmic: true },
        y,
        lines,
    };
    let plot = |name: &str, title: &str, panels| Plot { name: name.into(), title: title.into(), panels };
    let lanes = |section: &str, question: &str, answer: &str| {
        vec![line("question", section, question, Ink::Blue, false), line("answer", section, answer, Ink::Orange, false)]
    };
    // The same curve for both stores, with further lines.
    let both = |x: &str, section: &str, logarithmic, memory: Vec<Line>, redis: Vec<Line>| {
        let of_memory = lanes(section, MEMORY_QUESTION, MEMORY_ANSWER).into_iter().chain(memory);
        let of_redis = lanes(section, REDIS_QUESTION, REDIS_ANSWER).into_iter().chain(redis);
        vec![
            panel("memory store", x, micros(logarithmic), of_memory.collect()),
            panel("Redis on loopback", x, micros(logarithmic), of_redis.collect()),
        ]
    };
    let whole = |question, answer| {
        vec![
            line("question, kept whole", WHOLE, question, Ink::Blue, true),
            line("answer, kept whole", WHOLE, answer, Ink::Orange, true),
        ]
    };
    vec![
        plot(
            "growth-keys",
            "An entry's cost by the keys of its session",
            both(
                "keys in the session",
                KEYS_A_SESSION,
                true,
                vec![line("question, per key", KEYS_A_SESSION, MEMORY_A_KEY, Ink::Green, false)],
                vec![line("question, per key", KEYS_A_SESSION, REDIS_A_KEY, Ink::Green, false)],
            ),
        ),
        plot(
            "growth-history",
            "An entry's cost by the length of its session's history",
            both(
                "operations in the history",
                FOLDED,
                false,
                whole(MEMORY_QUESTION, MEMORY_ANSWER),
                whole(REDIS_QUESTION, REDIS_ANSWER),
            ),
        ),
        plot(
            "growth-sessions",
            "An entry's cost by the sessions that the store holds",
            both(
                "sessions in the store",
                SESSIONS,
                false,
                vec![
                    line("creation", SESSIONS, MEMORY_CREATION, Ink::Green, false),
                    line("bare hash table", SESSIONS, MAP_READ, Ink::Grey, true),
                ],
                vec![
                    line("creation", SESSIONS, REDIS_CREATION, Ink::Green, false),
                    line("bare reads", SESSIONS, BARE_READS, Ink::Grey, true),
                    line("bare writes", SESSIONS, BARE_WRITES, Ink::Grey, false),
                ],
            ),
        ),
        plot(
            "growth-entry-size",
            "An entry's cost by its size",
            both("KiB of the answer", ENTRY_SIZE, true, Vec::new(), Vec::new()),
        ),
        plot(
            "growth-pipes",
            "Pipes side by side",
            vec![
                panel(
                    "throughput",
                    "pipes",
                    Axis { title: "pairs a second".into(), logarithmic: true },
                    vec![
                        line("memory store", load::PIPES, load::MEMORY.rate, Ink::Blue, false),
                        line("Redis", load::PIPES, load::REDIS.rate, Ink::Orange, false),
                    ],
                ),
                panel(
                    "latency of a pair",
                    "pipes",
                    Axis { title: "µs".into(), logarithmic: true },
                    vec![
                        line("memory store, p50", load::PIPES, load::MEMORY.p50, Ink::Blue, false),
                        line("p99", load::PIPES, load::MEMORY.p99, Ink::Blue, true),
                        line("Redis, p50", load::PIPES, load::REDIS.p50, Ink::Orange, false),
                        line("p99", load::PIPES, load::REDIS.p99, Ink::Orange, true),
                    ],
                ),
            ],
        ),
    ]
}
