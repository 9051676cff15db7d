//! Throughput and latency of pipes side by side.

use anyhow::Result;
use keepline::{Keepline, store::MemoryLimits};
use keepline_local_redis::RedisServer;
use tokio::runtime::Runtime;

use super::{Growth, label};
use crate::{
    contenders::side_by_side,
    measure::{Samples, micros},
    report::{Row, Section},
    stores::{A_DAY, connect},
};

pub const PIPES: &str = "Pipes side by side";
const COUNTS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The columns of one store.
pub struct Columns {
    pub rate: &'static str,
    pub p50: &'static str,
    pub p99: &'static str,
}

pub const MEMORY: Columns =
    Columns { rate: "memory: pairs/s", p50: "memory: pair p50 µs", p99: "memory: pair p99 µs" };
pub const REDIS: Columns = Columns { rate: "Redis: pairs/s", p50: "Redis: pair p50 µs", p99: "Redis: pair p99 µs" };

/// A number of pipes over one store.
struct Load<'a> {
    columns: &'static Columns,
    /// The number, which is its place on the x axis.
    at: u64,
    keepline: Keepline,
    /// The one that the store's connection lives on.
    runtime: &'a Runtime,
    pairs: u64,
    samples: Samples,
}

pub fn pipes(growth: &Growth<'_>, server: Option<&RedisServer>) -> Result<Section> {
    growth.progress.set_message("pipes side by side");
    let (memory, _) = growth.all.block_on(growth.in_memory(A_DAY, MemoryLimits::default()))?;
    let redis = match server {
        Some(server) => Some(growth.pool.block_on(connect(growth.plugin, server, A_DAY))?.0),
        None => None,
    };
    let pairs = growth.effort.loaded_pairs;
    let mut loads = Vec::new();
    for at in growth.effort.points(&COUNTS) {
        let load = |columns, keepline: &Keepline, runtime, pairs| {
            let samples = Samples::new()?;
            anyhow::Ok(Load { columns, at, keepline: keepline.clone(), runtime, pairs, samples })
        };
        loads.push(load(&MEMORY, &memory, growth.all, pairs * 4)?);
        if let Some(redis) = &redis {
            loads.push(load(&REDIS, redis, growth.pool, pairs)?);
        }
    }
    take_turns(growth, &mut loads)?;
    let mut section = table(PIPES, "pipes", &loads);
    section.note("each pipe with a session of its own; a pair is a question and its answer");
    section.note("the memory store has all of this machine's cores; over Redis, it and the pipes share them");
    Ok(section)
}

/// Measures all loads, round by round in turn.
fn take_turns(growth: &Growth<'_>, loads: &mut [Load<'_>]) -> Result<()> {
    for round in 0..=growth.effort.rounds {
        for load in &mut *loads {
            // The first round is for nothing: what a first use makes is there.
            let mut nothing = Samples::new()?;
            let samples = if round == 0 { &mut nothing } else { &mut load.samples };
            load.runtime.block_on(side_by_side(&load.keepline, load.at, load.pairs, samples))?;
        }
    }
    Ok(())
}

fn table(title: &str, heading: &str, loads: &[Load<'_>]) -> Section {
    let mut stores: Vec<&Columns> = Vec::new();
    let mut places: Vec<u64> = loads.iter().map(|load| load.at).collect();
    places.sort_unstable();
    places.dedup();
    for load in loads {
        if !stores.iter().any(|columns| columns.rate == load.columns.rate) {
            stores.push(load.columns);
        }
    }
    let names: Vec<_> = stores.iter().flat_map(|columns| [columns.rate, columns.p50, columns.p99]).collect();
    let mut section = Section::new(title, &names);
    section.heading = heading.into();
    for at in places {
        let values = stores.iter().flat_map(|columns| {
            let load = loads.iter().find(|load| load.at == at && load.columns.rate == columns.rate);
            let of = |value: fn(&Samples) -> f64| load.map(|load| value(&load.samples));
            [of(Samples::rate), of(|samples| micros(&samples.pair, 0.5)), of(|samples| micros(&samples.pair, 0.99))]
        });
        section.rows.push(Row { name: label(at), at: Some(at as f64), values: values.collect() });
    }
    section
}
