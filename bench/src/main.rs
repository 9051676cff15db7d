//! `make bench`: what an entry costs beside the lowest possible cost, in one run, and how that grows.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

mod contenders;
mod conversation;
mod directory;
mod growth;
mod measure;
mod pipelines;
mod recall;
mod report;
mod resident;
mod service;
mod speed;
mod stores;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    thread,
};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use keepline::{CodeCache, Plugin, Sandbox, plugin::BUNDLED};
use keepline_local_redis::{RedisServer, stop_all};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
};

use self::{measure::Effort, report::Report};

/// The allocator of the `keepline` binary: figures are those of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures what an entry costs beside the lowest possible cost, and how it scales.
///
/// Contenders take turns within one run: compare the rows of one table, not tables of different runs. × is the cost of a
/// pair compared with the nearest row above that has 1.00.
#[derive(Debug, Parser)]
#[command(name = "keepline-bench", version, max_term_width = 100)]
struct Arguments {
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Do a tenth of the work: quick, but imprecise
    #[arg(long)]
    quick: bool,
    /// Run only this part
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Create directories to measure in this one, which is to be on a disk; they are removed at the end
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    disk: PathBuf,
    /// Also measure LangChain's history class with this Python, which needs langchain-community and redis (part `service`)
    #[arg(long, value_name = "PYTHON")]
    langchain: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What an entry costs, next to the lowest possible cost; start and memory of the process
    Speed,
    /// A directory: pairs for each directory_sync, questions beside writers
    Directory,
    /// What a conversation costs, and how much of its prompts stays the same
    Conversation,
    /// What recall costs a question, an answer and Redis
    Recall,
    /// What a run of pipelines costs, by stored items and by memories
    Pipelines,
    /// What a pair costs over HTTP, beside a bare server and LangChain's; readers of events
    Service,
    /// Growth with history, keys, sizes, sessions, users and pipes
    Growth,
}

/// What every part needs.
struct Bench {
    plugin: Plugin,
    effort: Effort,
    /// A directory on a disk.
    disk: PathBuf,
    /// A Python that has LangChain.
    langchain: Option<PathBuf>,
    /// Runs one pipe.
    single: Runtime,
    /// Has all of the machine's cores.
    all: Runtime,
}

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
    let disk = fs::canonicalize(&arguments.disk).with_context(|| format!("can't use {}", arguments.disk.display()))?;
    let made = tempfile::Builder::new().prefix("keepline-bench-").tempdir_in(&disk)?;
    clean_up_at_a_signal(made.path().to_owned())?;
    let mut sandbox = Sandbox::default();
    sandbox.cache = CodeCache::Default;
    let bench = Bench {
        plugin: Plugin::bundled(&sandbox)?,
        effort: Effort::of(arguments.quick),
        disk: made.path().to_owned(),
        langchain: arguments.langchain.clone(),
        single: Builder::new_current_thread().enable_all().build()?,
        all: Builder::new_multi_thread().enable_all().build()?,
    };
    if !RedisServer::is_installed() {
        eprintln!("note: redis-server is not installed, so Redis is not measured");
    }
    let mut report = Report { conditions: conditions(&disk, bench.effort), sections: Vec::new() };
    for part in Part::value_variants().iter().filter(|part| arguments.only.is_none_or(|only| only == **part)) {
        report.sections.extend(match part {
            Part::Speed => speed::measure(&bench)?,
            Part::Directory => bench.all.block_on(directory::measure(&bench))?,
            Part::Conversation => bench.single.block_on(conversation::measure(&bench))?,
            Part::Recall => bench.single.block_on(recall::measure(&bench))?,
            Part::Pipelines => bench.single.block_on(pipelines::measure(&bench))?,
            Part::Service => bench.all.block_on(service::measure(&bench))?,
            Part::Growth => growth::measure(&bench)?,
        });
    }
    println!("{}", if arguments.json { serde_json::to_string_pretty(&report)? } else { report.print() });
    Ok(())
}

/// From now on SIGTERM and SIGINT stop the servers, remove the directory, and end the process with code 1.
fn clean_up_at_a_signal(directory: PathBuf) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let wait_and_exit = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
        });
        stop_all();
        // Stores are still at work: now and then one of them creates a file meanwhile.
        _ = (0..10).any(|_| fs::remove_dir_all(&directory).is_ok() || !directory.exists());
        eprintln!("error: terminated by a signal");
        process::exit(1);
    };
    thread::Builder::new().spawn(wait_and_exit).context("can't start the signal thread")?;
    Ok(())
}

fn conditions(disk: &Path, effort: Effort) -> Vec<(&'static str, String)> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    vec![
        ("machine", format!("{cores} cores, {}", cpu.trim_start_matches([':', '\t', ' ']))),
        ("directories", disk.display().to_string()),
        ("keepline", format!("{}, component of {} bytes", env!("CARGO_PKG_VERSION"), BUNDLED.len())),
        ("rounds", format!("{} of {:?}, contenders in turn; rates and × are medians", effort.rounds, effort.round)),
    ]
}
