//! CPU time of an entry in Redis itself, without its clients: it bounds what a saturated server can do.

use std::sync::Arc;

use anyhow::Result;
use keepline::{
    Plugin,
    store::{RedisStore, Store},
};
use keepline_local_redis::RedisServer;
use redis::aio::MultiplexedConnection;

use super::Effort;
use crate::{
    contenders::{Bare, Piped, SESSIONS},
    measure::Contender,
    redis_usage::Used,
    report::Section,
    stores::{A_DAY, keepline, redis_options},
};

/// Pairs of a session before anything is counted: its history is as long as it gets.
const WARM_UP: u32 = 200;
/// Pairs of each session in a round.
const PAIRS: u32 = 16;

/// Contenders take turns: pipes with a script for each shape of transaction, pipes with the general script alone, and
/// hand-written scripts.
pub async fn measure(plugin: &Plugin, effort: &Effort) -> Result<Section> {
    let server = RedisServer::start()?;
    let store = || RedisStore::new(redis_options(&server));
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let (shaped, general): (Arc<dyn Store>, Arc<dyn Store>) = (Arc::new(store()?), Arc::new(store()?.with_shapes(0)));
    let shaped = keepline(plugin, &shaped, A_DAY).await?;
    let general = keepline(plugin, &general, A_DAY).await?;
    let names = |name: &'static str| (0..SESSIONS).map(move |n| format!("{name}-{n}"));
    let mut shaped: Vec<_> = names("shaped").map(|name| Piped::new(shaped.pipe(), &name, 1)).collect();
    let mut general: Vec<_> = names("general").map(|name| Piped::new(general.pipe(), &name, 1)).collect();
    let mut bare: Vec<_> = names("bare").map(|name| Bare::new(connection.clone(), &name, 1)).collect();

    let mut costs = [Cost::default(); 3];
    for round in 0..=effort.rounds {
        let pairs = if round == 0 { WARM_UP } else { PAIRS };
        let each = [
            round_of(&mut shaped, &mut connection, pairs).await?,
            round_of(&mut general, &mut connection, pairs).await?,
            round_of(&mut bare, &mut connection, pairs).await?,
        ];
        if round > 0 {
            costs.iter_mut().zip(each).for_each(|(cost, this)| cost.lower_to(this));
        }
    }
    let columns = ["question: script µs", "answer: script µs", "pair: script µs", "pair: process µs"];
    let mut section = Section::new("CPU of Redis per entry", &columns);
    for (name, cost) in ["pipe", "pipe, without scripts for shapes", "hand-written scripts"].iter().zip(costs) {
        section.row(*name, &[cost.question, cost.answer, cost.pair, cost.process]);
    }
    section.note("least of the rounds: whatever else the machine does only adds to it");
    section.note(
        "script: as INFO commandstats counts it; process: all of Redis's main thread, with one request at a time",
    );
    Ok(section)
}

/// Microseconds an entry; none before the first round.
#[derive(Clone, Copy, Default)]
struct Cost {
    question: Option<f64>,
    answer: Option<f64>,
    pair: Option<f64>,
    process: Option<f64>,
}

impl Cost {
    fn lower_to(&mut self, other: Self) {
        let least = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).min_by(f64::total_cmp);
        self.question = least(self.question, other.question);
        self.answer = least(self.answer, other.answer);
        self.pair = least(self.pair, other.pair);
        self.process = least(self.process, other.process);
    }
}

/// All ask, then all answer, so that Redis can be asked what either cost.
async fn round_of(
    contenders: &mut [impl Contender],
    connection: &mut MultiplexedConnection,
    pairs: u32,
) -> Result<Cost> {
    let (mut questions, mut answers, mut process) = (0.0, 0.0, 0.0);
    for _ in 0..pairs {
        let begun = Used::by_now(connection).await?;
        for contender in &mut *contenders {
            contender.question().await?;
        }
        let asked = Used::by_now(connection).await?;
        for contender in &mut *contenders {
            contender.answer().await?;
        }
        let answered = Used::by_now(connection).await?;
        questions += asked.scripts - begun.scripts;
        answers += answered.scripts - asked.scripts;
        process += answered.process - begun.process;
    }
    let per_pair = |sum: f64| Some(sum / (f64::from(pairs) * contenders.len() as f64));
    Ok(Cost {
        question: per_pair(questions),
        answer: per_pair(answers),
        pair: per_pair(questions + answers),
        process: per_pair(process),
    })
}
