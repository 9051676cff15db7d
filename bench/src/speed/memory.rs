//! The memory store: what an entry costs, and how much of that is the sandbox.

use std::sync::Arc;

use anyhow::Result;
use keepline::{
    Keepline, Options, Plugin,
    store::{MemoryLimits, MemoryStore},
};

use super::{Effort, native::Native};
use crate::{
    contenders::{Piped, SESSIONS},
    measure::{Samples, median, micros},
    report::Section,
};

pub async fn measure(plugin: &Plugin, effort: &Effort) -> Result<Section> {
    let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
    let keepline = Keepline::new(plugin.clone(), store, Options::default()).await?;
    let mut piped = Piped::new(keepline.pipe(), "bench", SESSIONS);
    let mut native = Native::new(Arc::new(MemoryStore::new(MemoryLimits::default())), "bench")?;

    let (mut sandboxed, mut bare) = (Samples::new()?, Samples::new()?);
    // Warm: sessions exist, histories are as long as they get.
    Samples::new()?.round(&mut piped, effort.warm_up).await?;
    Samples::new()?.round(&mut native, effort.warm_up).await?;
    let mut ratios = Vec::new();
    for _ in 0..effort.rounds {
        sandboxed.round(&mut piped, effort.memory_pairs).await?;
        bare.round(&mut native, effort.memory_pairs).await?;
        ratios.push(bare.last_rate() / sandboxed.last_rate());
    }

    let mut section = Section::new("Memory store, one pipe, one core", &["p50 µs", "p99 µs", "pairs/s"]);
    for (name, samples) in [("component", &sandboxed), ("same logic, native", &bare)] {
        for (lane, histogram) in [("question", &samples.question), ("answer", &samples.answer)] {
            section
                .row(format!("{name}: {lane}"), &[Some(micros(histogram, 0.5)), Some(micros(histogram, 0.99)), None]);
        }
        section.row(
            format!("{name}: pair"),
            &[Some(micros(&samples.pair, 0.5)), Some(micros(&samples.pair, 0.99)), Some(samples.rate())],
        );
    }
    section.note(format!("the sandbox costs {:.2} × native logic (median of the rounds)", median(&ratios)));
    section.note("one answer in 25 folds its session's history; that is in these figures");
    Ok(section)
}
