//! `keepline bench`: numbers, side by side in one run, each beside its floor; and how they grow.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod contenders;
mod conversation;
mod directory;
mod growth;
mod measure;
mod memory;
mod native;
mod plots;
mod process;
mod recall;
mod redis;
mod redis_cpu;
mod report;
mod tested;

use std::{fs, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use keepline::{CodeCache, Plugin, Sandbox, plugin::BUNDLED};
use keepline_local_redis::RedisServer;
use tokio::runtime::Runtime;

use self::{directory::Place, growth::Growth, report::Report};
use crate::{
    cli::{BenchArguments, BenchPart},
    ending, runtime, terminal,
};

/// How much work goes into a figure.
struct Effort {
    rounds: u32,
    warm_up: u64,
    memory_pairs: u64,
    redis_pairs: u64,
    directory_pairs: u64,
    /// Where pairs wait for the disk, a round has fewer: what may take about as long.
    directory_round: Duration,
    directory_questions: u64,
    directory_syncs: u64,
    growth: growth::Effort,
    conversation: conversation::Effort,
    recall: recall::Effort,
}

impl Effort {
    fn of(arguments: &BenchArguments) -> Self {
        let max_points = arguments.points.map_or(usize::MAX, |points| usize::from(points.get()));
        if arguments.quick {
            let growth = growth::Effort {
                rounds: 3,
                memory_pairs: 500,
                redis_pairs: 200,
                loaded_pairs: 1_000,
                max_sessions: 100_000,
                max_points,
            };
            let conversation = conversation::Effort { rounds: 3, pairs: 20, max_messages: 1_000 };
            let recall = recall::Effort { rounds: 3, questions: 20, answers: 12, max_passages: 100, max_users: 100 };
            return Self {
                rounds: 3,
                warm_up: 2_000,
                memory_pairs: 5_000,
                redis_pairs: 1_000,
                directory_pairs: 1_000,
                directory_round: Duration::from_millis(100),
                directory_questions: 2_000,
                directory_syncs: 50,
                growth,
                conversation,
                recall,
            };
        }
        let growth = growth::Effort {
            rounds: 9,
            memory_pairs: 2_000,
            redis_pairs: 500,
            loaded_pairs: 5_000,
            max_sessions: u64::MAX,
            max_points,
        };
        let conversation = conversation::Effort { rounds: 9, pairs: 224, max_messages: u64::MAX };
        let recall =
            recall::Effort { rounds: 9, questions: 150, answers: 32, max_passages: usize::MAX, max_users: usize::MAX };
        Self {
            rounds: 9,
            warm_up: 10_000,
            memory_pairs: 50_000,
            redis_pairs: 10_000,
            directory_pairs: 10_000,
            directory_round: Duration::from_secs(1),
            directory_questions: 20_000,
            directory_syncs: 500,
            growth,
            conversation,
            recall,
        }
    }
}

pub fn main(arguments: &BenchArguments) -> Result<ExitCode> {
    let report = match &arguments.from {
        Some(file) => {
            let json = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
            serde_json::from_str(&json).with_context(|| format!("{} is not a benchmark report", file.display()))?
        }
        None => {
            let place = match arguments.only {
                None | Some(BenchPart::Directory) => Some(Place::make(arguments.disk.as_deref())?),
                Some(_) => None,
            };
            let made = place.as_ref().map(|place| place.path().to_owned());
            ending::stop_servers_at_a_signal(move || made.as_deref().into_iter().for_each(directory::remove))?;
            run(arguments, place.as_ref())?
        }
    };
    let json = serde_json::to_string_pretty(&report)?;
    if let Some(file) = &arguments.output {
        fs::write(file, &json).with_context(|| format!("can't write {}", file.display()))?;
    }
    if let Some(directory) = &arguments.plots {
        plots::draw(&report, directory)?;
    }
    terminal::print((if arguments.json { json + "\n" } else { report.print() }).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// `place` is where directories are measured, if they are.
fn run(arguments: &BenchArguments, place: Option<&Place>) -> Result<Report> {
    let effort = Effort::of(arguments);
    // Draws on a terminal only.
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    let mut sandbox = Sandbox::default();
    sandbox.cache = CodeCache::Default;
    let plugin = Plugin::bundled(&sandbox)?;
    let mut report = Report { conditions: conditions(&effort), sections: Vec::new(), plots: Vec::new() };
    if !RedisServer::is_installed() {
        terminal::note("redis-server is not installed, so Redis is not measured");
    }
    let single = runtime::single()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // A core is left for Redis, which is on this machine too.
    let pool = pool_of(cores.saturating_sub(1).max(1))?;

    if matches!(arguments.only, None | Some(BenchPart::Speed)) {
        speed(&mut report, &plugin, &effort, &progress, (&single, &pool))?;
    }
    if matches!(arguments.only, None | Some(BenchPart::Conversation)) {
        progress.set_message("conversations");
        // As `keepline run` has it.
        let background = runtime::background()?;
        let measured = conversation::measure(&plugin, effort.conversation, background.handle());
        report.sections.extend(single.block_on(measured)?);
    }
    if matches!(arguments.only, None | Some(BenchPart::Recall)) {
        progress.set_message("recall");
        report.sections.extend(single.block_on(recall::measure(&plugin, effort.recall))?);
    }
    let all = &pool_of(cores)?;
    let growth =
        Growth { plugin: &plugin, effort: &effort.growth, single: &single, pool: &pool, all, progress: &progress };
    if let Some(place) = place {
        report.conditions.push(("directories".to_owned(), place.describe()));
        report.sections.extend(directory::measure(&plugin, &effort, place.path(), all, &progress)?);
        report.sections.extend(growth.directory(place.path())?);
    }
    let is_growth =
        |part| !matches!(part, BenchPart::Speed | BenchPart::Directory | BenchPart::Conversation | BenchPart::Recall);
    if arguments.only.is_none_or(is_growth) {
        let (sections, plots) = growth.measure(arguments.only)?;
        report.sections.extend(sections);
        report.plots.extend(plots);
    }
    progress.finish_and_clear();
    Ok(report)
}

fn speed(
    report: &mut Report,
    plugin: &Plugin,
    effort: &Effort,
    progress: &ProgressBar,
    (single, pool): (&Runtime, &Runtime),
) -> Result<()> {
    progress.set_message("memory store");
    report.sections.push(single.block_on(memory::measure(plugin, effort))?);
    if RedisServer::is_installed() {
        progress.set_message("Redis");
        report.sections.extend(redis::measure(plugin, effort, single, pool)?);
        progress.set_message("CPU of Redis");
        report.sections.push(single.block_on(redis_cpu::measure(plugin, effort))?);
    }
    progress.set_message("start of the process");
    report.sections.push(process::start(effort)?);
    progress.set_message("memory of the process");
    report.sections.push(process::memory()?);
    Ok(())
}

fn pool_of(workers: usize) -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?)
}

fn conditions(effort: &Effort) -> Vec<(String, String)> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    [
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
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
