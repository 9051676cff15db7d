//! `make bench`: what an entry costs beside the lowest possible cost, in one run, and how that grows.

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

mod arguments;
mod contenders;
mod conversation;
mod directory;
mod growth;
mod measure;
mod plots;
mod recall;
mod redis_usage;
mod report;
mod signals;
mod speed;
mod stores;

use std::{fs, process::ExitCode, thread, time::Duration};

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::ProgressBar;
use keepline::{CodeCache, Plugin, Sandbox, plugin::BUNDLED};
use keepline_local_redis::RedisServer;
use tokio::runtime::{Builder, Runtime};

use self::{
    arguments::{Arguments, Part},
    directory::Place,
    growth::Growth,
    report::Report,
};

/// The allocator of the `keepline` binary: figures are those of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match bench(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> Result<()> {
    let report = match &arguments.from {
        Some(file) => {
            let json = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
            serde_json::from_str(&json).with_context(|| format!("{} is not a benchmark report", file.display()))?
        }
        None => {
            let place = match arguments.only {
                None | Some(Part::Directory) => Some(Place::make(arguments.disk.as_deref())?),
                Some(_) => None,
            };
            let made = place.as_ref().map(|place| place.path().to_owned());
            signals::clean_up_and_exit(move || made.as_deref().into_iter().for_each(directory::remove))?;
            measure(arguments, place.as_ref())?
        }
    };
    let json = serde_json::to_string_pretty(&report)?;
    if let Some(file) = &arguments.output {
        fs::write(file, &json).with_context(|| format!("can't write {}", file.display()))?;
    }
    if let Some(directory) = &arguments.plots {
        plots::draw(&report, directory)?;
    }
    println!("{}", if arguments.json { json } else { report.print() });
    Ok(())
}

/// `place` is where directories are measured, if they are.
fn measure(arguments: &Arguments, place: Option<&Place>) -> Result<Report> {
    let (only, quick) = (arguments.only, arguments.quick);
    // Draws on a terminal only.
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    let mut sandbox = Sandbox::default();
    sandbox.cache = CodeCache::Default;
    let plugin = Plugin::bundled(&sandbox)?;
    let mut report = Report { conditions: conditions(quick), sections: Vec::new(), plots: Vec::new() };
    if !RedisServer::is_installed() {
        eprintln!("note: redis-server is not installed, so Redis is not measured");
    }
    let single = Builder::new_current_thread().enable_all().build()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // A core is left for Redis, which is on this machine too.
    let pool = pool_of(cores.saturating_sub(1).max(1))?;
    let all = pool_of(cores)?;

    if matches!(only, None | Some(Part::Speed)) {
        report.sections.extend(speed::measure(&plugin, &speed::Effort::of(quick), &single, &pool, &progress)?);
    }
    if matches!(only, None | Some(Part::Conversation)) {
        progress.set_message("conversations");
        // As in `keepline run`: one thread beside those of the entries.
        let background = pool_of(1)?;
        let measured = conversation::measure(&plugin, conversation::Effort::of(quick), background.handle());
        report.sections.extend(single.block_on(measured)?);
    }
    if matches!(only, None | Some(Part::Recall)) {
        progress.set_message("recall");
        report.sections.extend(single.block_on(recall::measure(&plugin, recall::Effort::of(quick)))?);
    }
    let max_points = arguments.points.map_or(usize::MAX, |points| usize::from(points.get()));
    let growth = Growth {
        plugin: &plugin,
        effort: growth::Effort::of(quick, max_points),
        single: &single,
        pool: &pool,
        all: &all,
        progress: &progress,
    };
    if let Some(place) = place {
        report.conditions.push(("directories".to_owned(), place.describe()));
        let effort = directory::Effort::of(quick);
        report.sections.extend(directory::measure(&plugin, &effort, place.path(), &all, &progress)?);
        report.sections.push(growth.directory(place.path())?);
    }
    if !matches!(only, Some(Part::Speed | Part::Directory | Part::Conversation | Part::Recall)) {
        let (sections, plots) = growth.measure(only)?;
        report.sections.extend(sections);
        report.plots.extend(plots);
    }
    progress.finish_and_clear();
    Ok(report)
}

fn pool_of(workers: usize) -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(workers).enable_all().build()?)
}

fn conditions(quick: bool) -> Vec<(String, String)> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
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
        ("rounds", format!("{}, contenders in turn; medians", speed::Effort::of(quick).rounds)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
