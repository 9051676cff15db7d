//! Measures the cost of an entry, next to the lowest possible cost, and that of a process.

mod native;
mod process;
mod redis;

pub use redis::CpuOfRedis;

use std::sync::Arc;

use anyhow::Result;
use keepline::store::{MemoryLimits, MemoryStore, Store};
use keepline_local_redis::RedisServer;

use self::native::Native;
use crate::{
    Bench,
    contenders::{Piped, SESSIONS},
    measure::Comparison,
    report::Section,
    stores::keepline,
};

pub fn measure(bench: &Bench) -> Result<Vec<Section>> {
    let mut sections = vec![bench.single.block_on(memory(bench))?];
    if RedisServer::is_installed() {
        sections.push(bench.single.block_on(redis::one_pipe(bench))?);
        sections.push(bench.all.block_on(redis::saturated(bench))?);
        sections.push(bench.single.block_on(redis::cpu(bench))?);
    }
    sections.push(process::start(bench.effort)?);
    sections.push(process::memory(bench.effort)?);
    Ok(sections)
}

/// The memory store: how much of an entry's cost is the sandbox.
async fn memory(bench: &Bench) -> Result<Section> {
    let store = || Arc::new(MemoryStore::new(MemoryLimits::default()));
    let lent: Arc<dyn Store> = store();
    let keepline = keepline(&bench.plugin, &lent, "{}").await?;
    let mut table = Comparison::new("Memory store, one pipe, one core", "");
    table.baseline("same logic, native", Native::new(store())?)?;
    table.add("component", Piped::new(&keepline, "bench", SESSIONS))?;
    table.note("one answer in 25 summarises its session's history; these figures include that");
    table.run(bench.effort).await
}
