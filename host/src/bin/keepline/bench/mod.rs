//! `keepline bench`: numbers, side by side in one run, each beside its floor.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod contenders;
mod measure;
mod memory;
mod process;
mod redis;
mod report;

use std::{fs, process::ExitCode};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use keepline::{Plugin, Sandbox, local_redis::RedisServer, plugin::BUNDLED};

use self::report::Report;
use crate::{cli::BenchArguments, ending, terminal};

/// How much work goes into a figure.
struct Effort {
    rounds: u32,
    warm_up: u64,
    memory_pairs: u64,
    redis_pairs: u64,
}

pub fn main(arguments: &BenchArguments) -> Result<ExitCode> {
    let effort = if arguments.quick {
        Effort { rounds: 3, warm_up: 2_000, memory_pairs: 5_000, redis_pairs: 1_000 }
    } else {
        Effort { rounds: 9, warm_up: 10_000, memory_pairs: 50_000, redis_pairs: 10_000 }
    };
    ending::stop_servers_at_a_signal()?;
    let report = run(&effort)?;
    let json = serde_json::to_string_pretty(&report)?;
    if let Some(file) = &arguments.output {
        fs::write(file, &json).with_context(|| format!("can't write {}", file.display()))?;
    }
    terminal::print((if arguments.json { json + "\n" } else { report.print() }).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn run(effort: &Effort) -> Result<Report> {
    // Draws on a terminal only.
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(std::time::Duration::from_millis(200));
    let plugin = Plugin::bundled(&Sandbox::default())?;
    let mut report = Report { conditions: conditions(effort), sections: Vec::new() };

    progress.set_message("memory store");
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    report.sections.push(single.block_on(memory::measure(&plugin, effort))?);
    if RedisServer::is_installed() {
        progress.set_message("Redis");
        // A core is left for Redis, which is on this machine too.
        let workers = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
        let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
        report.sections.extend(redis::measure(&plugin, effort, &single, &pool)?);
    } else {
        terminal::note("no redis-server is installed, so only the memory store is measured");
    }
    progress.set_message("start of the process");
    report.sections.push(process::start(effort)?);
    progress.set_message("memory of the process");
    report.sections.push(process::memory()?);
    progress.finish_and_clear();
    Ok(report)
}

fn conditions(effort: &Effort) -> Vec<(&'static str, String)> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("machine", format!("{cores} cores, {}", cpu.trim_start_matches([':', '\t', ' ']))),
        ("keepline", format!("{}, component of {} bytes", env!("CARGO_PKG_VERSION"), BUNDLED.len())),
        (
            "entries",
            format!(
                "answers of {} characters, two keys a session, {} sessions in turn, max_history 100",
                contenders::ANSWER,
                contenders::SESSIONS
            ),
        ),
        ("rounds", format!("{}, contenders in turn; medians", effort.rounds)),
    ]
}
