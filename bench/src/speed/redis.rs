//! Redis: an entry beside the bare client with hand-written scripts, and the throughput of a saturated server.

use std::{process::Command, time::Instant};

use anyhow::{Context, Result, bail};
use keepline::{Keepline, Plugin};
use keepline_local_redis::RedisServer;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

use super::Effort;
use crate::{
    contenders::{
        ANSWER_SCRIPT, Bare, BareSession, DEADLINE, PREFIX, Piped, QUESTION_SCRIPT, RECORD, SESSIONS, TTL_MS,
        answer_text, side_by_side,
    },
    measure::{Samples, median, micros, nanos},
    report::Section,
    stores::{A_DAY, connect},
};

/// Pipes that saturate a server.
const PIPES: u64 = 64;

/// `single` runs one pipe, `pool` many: a connection lives on the runtime that made it.
pub fn measure(plugin: &Plugin, effort: &Effort, single: &Runtime, pool: &Runtime) -> Result<Vec<Section>> {
    let server = RedisServer::start()?;
    let one = single.block_on(async {
        let (keepline, connection) = connect(plugin, &server, A_DAY).await?;
        one_pipe(&keepline, connection, effort).await
    })?;
    let many = pool.block_on(async {
        let (keepline, connection) = connect(plugin, &server, A_DAY).await?;
        saturated(&keepline, connection, &server, effort).await
    })?;
    Ok(vec![one, many])
}

async fn one_pipe(keepline: &Keepline, connection: MultiplexedConnection, effort: &Effort) -> Result<Section> {
    let store = keepline.store();
    let mut piped = Piped::new(keepline.pipe(), "bench", SESSIONS);
    let mut bare = Bare::new(connection, "bare", SESSIONS);
    Samples::new()?.round(&mut piped, effort.warm_up).await?;
    Samples::new()?.round(&mut bare, effort.warm_up).await?;

    let (mut ours, mut floor, mut pings) = (Samples::new()?, Samples::new()?, Samples::new()?);
    let (mut ratios, mut trips) = (Vec::new(), 0);
    for _ in 0..effort.rounds {
        let before = store.round_trips();
        ours.round(&mut piped, effort.redis_pairs).await?;
        trips += store.round_trips() - before;
        floor.round(&mut bare, effort.redis_pairs).await?;
        ratios.push(floor.last_rate() / ours.last_rate());
        for _ in 0..effort.redis_pairs {
            let started = Instant::now();
            bare.ping().await?;
            pings.pair.saturating_record(nanos(started.elapsed()));
        }
    }

    let mut section = Section::new("Redis on loopback, one pipe", &["p50 µs", "p99 µs", "pairs/s", "round trips"]);
    let entries = f64::from(effort.rounds) * effort.redis_pairs as f64 * 2.0;
    let trips = trips as f64 / entries;
    for (name, samples, trips) in
        [("pipe", &ours, Some(trips)), ("bare client, hand-written scripts", &floor, Some(1.0))]
    {
        for (lane, histogram) in [("question", &samples.question), ("answer", &samples.answer)] {
            section.row(
                format!("{name}: {lane}"),
                &[Some(micros(histogram, 0.5)), Some(micros(histogram, 0.99)), None, None],
            );
        }
        section.row(
            format!("{name}: pair"),
            &[
                Some(micros(&samples.pair, 0.5)),
                Some(micros(&samples.pair, 0.99)),
                Some(samples.rate()),
                trips.map(|trips| trips * 2.0),
            ],
        );
    }
    section.row("PING", &[Some(micros(&pings.pair, 0.5)), Some(micros(&pings.pair, 0.99)), None, Some(1.0)]);
    section.note(format!("a pair costs {:.2} × two bare script calls (median of the rounds)", median(&ratios)));
    section.note("round trips beyond 2 a pair are those of history summaries, one answer in 25");
    Ok(section)
}

async fn saturated(
    keepline: &Keepline,
    mut connection: MultiplexedConnection,
    server: &RedisServer,
    effort: &Effort,
) -> Result<Section> {
    let mut section = Section::new("Redis on loopback, saturated", &["p50 µs", "p99 µs", "pairs/s"]);
    let benchmark = RedisBenchmark::new(&mut connection, server.port(), effort).await?;
    let (mut rates, mut floors) = (Vec::new(), Vec::new());
    // Sessions exist, instances and histories are as large as they get.
    side_by_side(keepline, PIPES, effort.warm_up, &mut Samples::new()?).await?;
    let mut samples = Samples::new()?;
    for _ in 0..effort.rounds {
        side_by_side(keepline, PIPES, effort.redis_pairs * 2, &mut samples).await?;
        rates.push(samples.last_rate());
        if let Some(benchmark) = &benchmark {
            floors.push(benchmark.run()?);
        }
    }
    section.row(
        format!("{PIPES} pipes"),
        &[Some(micros(&samples.pair, 0.5)), Some(micros(&samples.pair, 0.99)), Some(samples.rate())],
    );
    if benchmark.is_some() {
        section.row("redis-benchmark, hand-written scripts", &[None, None, Some(median(&floors))]);
        let ratios: Vec<_> = rates.iter().zip(&floors).map(|(ours, floor)| ours / floor).collect();
        section.note(format!(
            "{PIPES} pipes reach {:.0} % of redis-benchmark (median of the rounds)",
            median(&ratios) * 100.0
        ));
        section.note(
            "redis-benchmark: 16 connections with 16 requests under way each; a pair is a question and an answer",
        );
    } else {
        section.note("redis-benchmark is not installed, so there is no floor to compare with");
    }
    section.note("the pipes, redis-benchmark and Redis share this machine's cores");
    Ok(section)
}

/// Redis's own load generator, with the hand-written scripts.
struct RedisBenchmark {
    port: u16,
    requests: u64,
    question: Vec<String>,
    answer: Vec<String>,
}

impl RedisBenchmark {
    async fn new(connection: &mut MultiplexedConnection, port: u16, effort: &Effort) -> Result<Option<Self>> {
        if Command::new("redis-benchmark").arg("--version").output().is_err() {
            return Ok(None);
        }
        // Both use a warm session: the same work that the pipes ask for.
        let mut bare = Bare::new(connection.clone(), "bare", SESSIONS);
        Samples::new()?.round(&mut bare, 256).await?;
        let load = async |script: &str, connection: &mut MultiplexedConnection| -> Result<String> {
            Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await?)
        };
        let session = BareSession::new("bare-0".into());
        let mut question = vec!["EVALSHA".into(), load(QUESTION_SCRIPT, connection).await?, "4".into()];
        question.extend(["__meta__", "__keys__", "__writers__"].map(|key| session.key(key)));
        question.push(format!("{PREFIX}:__sessions__"));
        question.extend([session.base.clone(), session.name.clone(), "w".into(), "1".into()]);
        question.extend([DEADLINE.to_string(), TTL_MS.to_string(), format!("{PREFIX}:")]);
        let mut answer = vec!["EVALSHA".into(), load(ANSWER_SCRIPT, connection).await?, "6".into()];
        let keys = ["__meta__", "__keys__", "__writers__", "__history__", "last_answer", "answer_count"];
        answer.extend(keys.map(|key| session.key(key)));
        answer.extend([String::new(), "w".into(), "0".into(), DEADLINE.to_string()]);
        answer.extend([format!("\"{}\"", answer_text()), RECORD.into(), RECORD.into(), "100".into(), "50".into()]);
        Ok(Some(Self { port, requests: effort.redis_pairs * 4, question, answer }))
    }

    /// Pairs a second.
    fn run(&self) -> Result<f64> {
        let (questions, answers) = (self.requests_per_second(&self.question)?, self.requests_per_second(&self.answer)?);
        Ok(1.0 / (1.0 / questions + 1.0 / answers))
    }

    fn requests_per_second(&self, command: &[String]) -> Result<f64> {
        let output = Command::new("redis-benchmark")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-n", &self.requests.to_string()])
            .args(["-c", "16", "-P", "16", "--csv"])
            .args(command)
            .output()
            .context("can't run redis-benchmark")?;
        let text = String::from_utf8_lossy(&output.stdout);
        // The last line, and in it the first number after the command, which may hold commas itself.
        let fields = text.lines().last().unwrap_or_default().rsplit("\",\"").map(|field| field.trim_matches('"'));
        let numbers: Vec<f64> = fields.map_while(|field| field.parse().ok()).collect();
        match numbers.last() {
            Some(rate) if *rate > 0.0 => Ok(*rate),
            _ => bail!("can't parse the output of redis-benchmark: {text}"),
        }
    }
}
