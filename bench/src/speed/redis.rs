//! Redis: an entry beside the bare client with hand-written scripts, and the time that it takes of Redis itself.

use std::sync::Arc;

use anyhow::{Context, Result};
use keepline::store::{RedisStore, Store};
use keepline_local_redis::RedisServer;
use redis::aio::MultiplexedConnection;

use crate::{
    Bench,
    contenders::{Bare, Ping, Piped, SESSIONS, pipes},
    measure::{Comparison, Contender, SideBySide},
    report::Section,
    stores::{A_DAY, connect, keepline, open_redis, redis_options},
};

/// Pipes that saturate a server.
const PIPES: u64 = 64;

pub(super) async fn one_pipe(bench: &Bench) -> Result<Section> {
    let server = RedisServer::start()?;
    let (store, connection): (Arc<dyn Store>, _) = (open_redis(&server)?, connect(&server).await?);
    let keepline = keepline(&bench.plugin, &store, A_DAY).await?;
    let mut table = Comparison::new("Redis on loopback, one pipe", "");
    table.counted = Some("round trips a pair");
    table.baseline("bare client, hand-written scripts", Bare::new(&connection, "bare", SESSIONS))?;
    table.add("pipe", Piped::new(&keepline, "bench", SESSIONS))?;
    table.count(|| store.round_trips());
    table.add("two PINGs", Ping(connection))?;
    table.note("round trips beyond 2 a pair are for history summaries, one answer in 25");
    table.run(bench.effort).await
}

pub(super) async fn saturated(bench: &Bench) -> Result<Section> {
    let server = RedisServer::start()?;
    let (store, connection): (Arc<dyn Store>, _) = (open_redis(&server)?, connect(&server).await?);
    let keepline = keepline(&bench.plugin, &store, A_DAY).await?;
    let bare = (0..PIPES).map(|n| Bare::new(&connection, format!("bare-{n}"), 1)).collect();
    let mut table = Comparison::new(format!("Redis on loopback, {PIPES} at once"), "");
    table.baseline("bare client, hand-written scripts", SideBySide(bare))?;
    table.add("pipes", SideBySide(pipes(&keepline, PIPES)))?;
    table.note("the contenders and Redis share the machine's cores");
    table.run(bench.effort).await
}

/// With scripts for shapes of transactions and without, beside hand-written ones.
pub(super) async fn cpu(bench: &Bench) -> Result<Section> {
    /// Pairs of a session before anything is counted: its history is as long as it gets.
    const WARM_UP: u32 = 200;
    const PAIRS: u32 = 16;
    let server = RedisServer::start()?;
    let mut connection = connect(&server).await?;
    let mut bare: Vec<_> = (0..SESSIONS).map(|n| Bare::new(&connection, format!("bare-{n}"), 1)).collect();
    let shaped: Arc<dyn Store> = open_redis(&server)?;
    let general: Arc<dyn Store> = Arc::new(RedisStore::new(redis_options(&server))?.with_shapes(0));
    let pipes = async |store, name: &str| {
        let keepline = keepline(&bench.plugin, store, A_DAY).await?;
        let piped = |n| Piped::new(&keepline, format!("{name}-{n}"), 1);
        anyhow::Ok((0..SESSIONS).map(piped).collect::<Vec<_>>())
    };
    let (mut shaped, mut general) = (pipes(&shaped, "shaped").await?, pipes(&general, "general").await?);
    let mut table = CpuOfRedis::new(&["hand-written scripts", "pipe", "pipe, without scripts for shapes"]);
    for round in 0..=bench.effort.rounds {
        let pairs = if round == 0 { WARM_UP } else { PAIRS };
        table.round(0, &mut bare, &mut connection, pairs, round > 0).await?;
        table.round(1, &mut shaped, &mut connection, pairs, round > 0).await?;
        table.round(2, &mut general, &mut connection, pairs, round > 0).await?;
    }
    Ok(table.section("CPU of Redis", ["question", "answer"]))
}

/// The time that contenders take of Redis itself, without its clients: it bounds what a saturated server can do.
///
/// Of each figure the least of the rounds counts: whatever else the machine does only adds to it.
pub struct CpuOfRedis {
    /// Names, and microseconds of question, answer, pair, and process.
    least: Vec<(&'static str, [f64; 4])>,
}

impl CpuOfRedis {
    pub fn new(names: &[&'static str]) -> Self {
        Self { least: names.iter().map(|name| (*name, [f64::INFINITY; 4])).collect() }
    }

    /// All ask, then all answer, so that Redis can be asked what either cost.
    pub async fn round(
        &mut self,
        contender: usize,
        of_a_kind: &mut [impl Contender],
        connection: &mut MultiplexedConnection,
        pairs: u32,
        counts: bool,
    ) -> Result<()> {
        let mut sums = [0.0; 4];
        for _ in 0..pairs {
            for contender in &mut *of_a_kind {
                contender.prepare().await?;
            }
            let begun = used(connection).await?;
            for contender in &mut *of_a_kind {
                contender.question().await?;
            }
            let asked = used(connection).await?;
            for contender in &mut *of_a_kind {
                contender.answer().await?;
            }
            let answered = used(connection).await?;
            let [question, answer] = [asked[0] - begun[0], answered[0] - asked[0]];
            let spent = [question, answer, question + answer, answered[1] - begun[1]];
            sums.iter_mut().zip(spent).for_each(|(sum, spent)| *sum += spent);
        }
        let count = f64::from(pairs) * of_a_kind.len() as f64;
        if let Some((_, least)) = self.least.get_mut(contender).filter(|_| counts) {
            least.iter_mut().zip(sums).for_each(|(least, sum)| *least = least.min(sum / count));
        }
        Ok(())
    }

    pub fn section(self, title: &str, [question, answer]: [&str; 2]) -> Section {
        let lanes = [question, answer, "pair"].map(|lane| format!("{lane}: script µs"));
        let mut columns = lanes.to_vec();
        columns.extend(["pair: process µs".into(), "×".into()]);
        let mut section = Section::new(title, "", columns);
        let baseline = self.least.first().map_or(f64::NAN, |(_, [.., process])| *process);
        for (name, [question, answer, pair, process]) in self.least {
            section.row(name, [question, answer, pair, process, process / baseline].map(Some).to_vec());
        }
        section.note(
            "least of the rounds; script: by INFO commandstats; process: Redis's main thread, one request at a time",
        );
        section
    }
}

/// Microseconds that scripts and the main thread have taken since the server started.
async fn used(connection: &mut MultiplexedConnection) -> Result<[f64; 2]> {
    let info: String = redis::cmd("INFO").arg("commandstats").arg("cpu").query_async(connection).await?;
    let mut used = [0.0, 0.0];
    for (name, value) in info.lines().filter_map(|line| line.split_once(':')) {
        match name {
            "cmdstat_eval" | "cmdstat_evalsha" => {
                let spent = value.split(',').find_map(|field| field.strip_prefix("usec="));
                used[0] += spent.context("no usec in INFO commandstats")?.parse::<f64>()?;
            }
            "used_cpu_sys_main_thread" | "used_cpu_user_main_thread" => used[1] += value.parse::<f64>()? * 1e6,
            _ => {}
        }
    }
    Ok(used)
}
