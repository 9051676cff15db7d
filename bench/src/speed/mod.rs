//! What an entry costs, next to the lowest possible cost; and what a process costs.

mod memory;
mod native;
mod process;
mod redis;
mod redis_cpu;

use anyhow::Result;
use indicatif::ProgressBar;
use keepline::Plugin;
use keepline_local_redis::RedisServer;
use tokio::runtime::Runtime;

use crate::report::Section;

/// How much work goes into a figure.
pub struct Effort {
    pub rounds: u32,
    warm_up: u64,
    /// Pairs of a round.
    memory_pairs: u64,
    redis_pairs: u64,
}

impl Effort {
    pub fn of(quick: bool) -> Self {
        match quick {
            true => Self { rounds: 3, warm_up: 2_000, memory_pairs: 5_000, redis_pairs: 1_000 },
            false => Self { rounds: 9, warm_up: 10_000, memory_pairs: 50_000, redis_pairs: 10_000 },
        }
    }
}

/// `single` runs one pipe, `pool` many.
pub fn measure(
    plugin: &Plugin,
    effort: &Effort,
    single: &Runtime,
    pool: &Runtime,
    progress: &ProgressBar,
) -> Result<Vec<Section>> {
    progress.set_message("memory store");
    let mut sections = vec![single.block_on(memory::measure(plugin, effort))?];
    if RedisServer::is_installed() {
        progress.set_message("Redis");
        sections.extend(redis::measure(plugin, effort, single, pool)?);
        progress.set_message("CPU of Redis");
        sections.push(single.block_on(redis_cpu::measure(plugin, effort))?);
    }
    progress.set_message("start of the process");
    sections.push(process::start(effort)?);
    progress.set_message("memory of the process");
    sections.push(process::memory()?);
    Ok(sections)
}
