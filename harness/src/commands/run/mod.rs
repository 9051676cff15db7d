//! `keepline run`: passes JSON lines through the filter, one line out for each line in, in order.
//!
//! ```text
//! feed ─▶ dispatch ─┬─▶ pipe 0 ─┐
//!  (thread)  │      └─▶ pipe N ─┴─▶ (each entry's own channel)
//!            └── order ──────────────▶ collect ─▶ sink (thread)
//! ```
//!
//! The dispatcher gives each entry, with its turn, to the pipe of its session, and a ticket for it to the collector, which
//! redeems the tickets in order. All queues are bounded in entries, and together in bytes: a line counts from when it is
//! read until it is written, and so does what a pipe adds to it.

pub mod arguments;
mod budget;
mod collect;
mod dispatch;
mod error_report;
mod feed;
mod metrics;
mod sink;
mod summary;

use std::{
    fs::File,
    io::{self, IsTerminal},
    os::fd::AsFd,
    path::Path,
    pin::pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use keepline::{
    Keepline, Pipe, Sandbox,
    maintenance::{Maintenance, Task},
    pipe::{Answer, Question, Turn},
};
use keepline_service::jsonl::entry::{ENTRY_FORMAT_HINT, Entry, Lane};
use serde_json::json;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
};

use self::arguments::RunArguments;
use self::{
    budget::MemoryBudget,
    collect::{ProcessedLine, write_in_order},
    dispatch::{Dispatcher, EntryJob},
    error_report::ErrorReport,
    feed::ReadingState,
    summary::{EntryTally, RunSummary, WithoutMemory},
};
use crate::{
    app::{
        self, PluginSource,
        error::{self, UsageError},
        runtime,
        shutdown::{ShutdownSignals, TerminationSignal},
        store_settings::StoreSettings,
    },
    args::{GRACE, GlobalArguments},
    maintenance, terminal,
};

/// Entries that may wait for one pipe.
const QUEUED_ENTRIES_PER_PIPE: usize = 256;
const ENTRIES_IN_FLIGHT: usize = 4096;
const BYTES_IN_FLIGHT: usize = 64 << 20;
/// How long a run that has to end at once waits for tasks that may have done all their work.
const LAST_MOMENT: Duration = Duration::from_millis(500);
/// Time limit for reading the store's settings before the first entry.
const SETTINGS_TIMEOUT: Duration = Duration::from_millis(100);

pub fn main(global: &GlobalArguments, arguments: &RunArguments) -> Result<ExitCode> {
    let mut config = app::load_config(global)?;
    let input = open_input(&arguments.input)?;
    let listener = arguments.metrics.map(metrics::bind_address).transpose()?;
    let plugin = app::load_plugin(global, &config)?;
    let (pipes, grace) = (usize::from(arguments.pipes), arguments.grace.unwrap_or(GRACE));
    if !config.origin("max_instances").is_chosen() {
        // An instance for each pipe, so that none waits for another.
        config.host.max_instances = config.host.max_instances.max(u64::try_from(pipes).unwrap_or(u64::MAX));
    }
    let runtime = if pipes == 1 {
        // One pipe has no parallel work: one thread saves every entry a switch between cores.
        runtime::build_single_threaded()?
    } else {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = pipes.min(cores).max(2);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all().build().context("can't start the runtime")?
    };
    let background = runtime::build_background()?;
    let outcome = runtime.block_on(async {
        let keepline = app::open_keepline_with_pipelines(global, config.store()?, plugin, &config).await?;
        let work = maintenance::open_maintenance(&keepline, &config, background.handle())?;
        background.spawn(app::print_store_warnings(keepline.store().clone()));
        if config.is_durable() {
            // Before the first entry, which may create sessions itself.
            warn_of_settings_mismatch(&keepline).await;
        }
        if let Some(listener) = listener {
            metrics::serve(listener, keepline.clone(), work.clone(), config.host.backend.clone())?;
        }
        // Before the first entry, so that everything that is read is finished.
        let shutdown = ShutdownSignals::listen(grace)?;
        // Aborted with this block: a plugin that is still being compiled after the last entry is dropped silently.
        let mut reloading = JoinSet::new();
        if let Some(source) = app::plugin_source(global)? {
            let hangups = signal(SignalKind::hangup()).context("can't install signal handlers")?;
            reloading.spawn(reload_plugin_on_hangup(
                hangups,
                keepline.clone(),
                source,
                app::configured_sandbox(&config)?,
            ));
        }
        // Text and metadata in JSON's longest escapes, and as much again for the other fields.
        let max_line =
            usize::try_from(config.host.max_entry_bytes).unwrap_or(usize::MAX).saturating_mul(12).max(1 << 20);
        let outcome = run_pipes(keepline, work, input, max_line, arguments, shutdown).await;
        reloading.shutdown().await;
        outcome
    });
    // Don't wait for threads that are blocked in input, output or a model.
    runtime.shutdown_background();
    background.shutdown_background();
    let outcome = outcome?;
    if arguments.summary {
        match arguments.json {
            true => terminal::print_to_stderr(&json!({"summary": outcome.summary.summary_json()}).to_string()),
            false => terminal::print_to_stderr(&outcome.summary.summary_text()),
        }
    }
    let RunOutcome { summary, is_complete, interrupted } = outcome;
    let without = WithoutMemory::from_counters(&summary.counters);
    without.print_notice(summary.counters.effects().map(|(_, count)| count).sum());
    if let Some(signal) = interrupted {
        return Ok(signal.exit_code());
    }
    let is_clean = is_complete
        && summary.refused == 0
        && summary.tally.errors == 0
        && (!arguments.require_memory || without.is_none());
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Warns if the settings of the run differ from those that the store's sessions were made with. A store that is slow or down
/// does not delay the run: a failure is reported with the first entry.
async fn warn_of_settings_mismatch(keepline: &Keepline) {
    let look = StoreSettings::infer_from_store(keepline.store(), SETTINGS_TIMEOUT);
    if let Ok(Ok(Some(settings))) = tokio::time::timeout(SETTINGS_TIMEOUT, look).await
        && let Some(told) = settings.mismatch_warning(&keepline.filter_options())
    {
        terminal::print_warning(told);
    }
}

fn open_input(path: &Path) -> Result<File> {
    if path == "-" {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned().context("standard input is closed")?));
    }
    let usage = |problem: &dyn std::fmt::Display| UsageError(format!("can't read {}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| usage(&error))?;
    // A directory can be opened; reading it would fail later with a worse message.
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(usage(&"it is a directory").into());
    }
    Ok(file)
}

/// A progress bar for a file, unless the entries themselves are printed on the terminal.
fn input_progress_bar(input: &Path) -> Option<ProgressBar> {
    if input == "-" || !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return None;
    }
    let length = std::fs::metadata(input).ok().filter(std::fs::Metadata::is_file)?.len();
    Some(terminal::bytes_bar(length))
}

/// Reads and loads the plugin again at each SIGHUP; a pinned one only with the bytes that are pinned by then.
async fn reload_plugin_on_hangup(mut hangups: Signal, keepline: Keepline, source: PluginSource, sandbox: Sandbox) {
    while hangups.recv().await.is_some() {
        let replaced = async {
            let (source, sandbox) = (source.clone(), sandbox.clone());
            // Compiling takes a while; entries continue meanwhile.
            let plugin = tokio::task::spawn_blocking(move || source.load(&sandbox)).await??;
            anyhow::Ok(keepline.replace_plugin(plugin).await?)
        };
        match replaced.await {
            Ok(()) => terminal::print_note(&format!("the plugin was replaced with the current version of {source}")),
            Err(error) => {
                let why = error::format_with_causes(&error);
                terminal::print_warning(&format!("the plugin was not replaced and stays in use: {why}"));
            }
        }
    }
}

struct RunOutcome {
    summary: RunSummary,
    /// Whether everything that was read was written, as long as the reader of the output was there.
    is_complete: bool,
    /// The signal that left something unread or unwritten.
    interrupted: Option<TerminationSignal>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StopReason {
    NotStopped,
    /// A signal: lines that were read are finished.
    Signal,
    OutputClosed,
}

async fn run_pipes(
    keepline: Keepline,
    deferred: Maintenance,
    input: File,
    max_line: usize,
    arguments: &RunArguments,
    shutdown: ShutdownSignals,
) -> Result<RunOutcome> {
    let started = Instant::now();
    let bar = input_progress_bar(&arguments.input);
    let (stop, stopped) = watch::channel(StopReason::NotStopped);
    let reading = Arc::new(ReadingState::default());
    let budget = MemoryBudget::new(BYTES_IN_FLIGHT);
    let rest = input.try_clone().context("can't read the input")?;
    let batches = feed::start_reading(input, max_line, reading.clone(), budget.clone());
    let output = File::from(io::stdout().as_fd().try_clone_to_owned().context("standard output is closed")?);
    let pieces_out = Arc::new(AtomicU64::new(0));
    let (sink, written) = sink::start_writing(output, pieces_out.clone());

    let refused =
        Arc::new(ErrorReport::new("lines were invalid and passed through unchanged", Some(ENTRY_FORMAT_HINT)));
    let failed = Arc::new(ErrorReport::new("entries failed and were passed on with an error member", None));
    let telling = tokio::spawn(report_held_errors([refused.clone(), failed.clone()]));

    let mut work = JoinSet::new();
    let senders: Vec<_> = (0..arguments.pipes)
        .map(|_| {
            let (sender, jobs) = mpsc::channel(QUEUED_ENTRIES_PER_PIPE);
            work.spawn(serve_pipe(keepline.pipe(), jobs, budget.clone(), failed.clone(), deferred.clone()));
            sender
        })
        .collect();
    let (order, tickets) = mpsc::channel(ENTRIES_IN_FLIGHT);
    let dispatcher = Dispatcher {
        pipes: senders,
        order,
        turns: keepline.open_turns(),
        tally: EntryTally::default(),
        number: 0,
        max_line,
        refused: refused.clone(),
    };
    let dispatching = tokio::spawn(dispatcher.dispatch(batches, reading.clone(), stopped));
    let collecting = tokio::spawn(write_in_order(tickets, sink, budget, bar.clone()));

    let mut signalled = None;
    let served = {
        let mut entries = pin!(await_entries(collecting, dispatching, work, written, &stop));
        let mut grace_end = pin!(shutdown.wait_until_grace_ends(|signal| {
            signalled = Some(signal);
            reading.stop.store(true, Ordering::Relaxed);
            stop.send_replace(StopReason::Signal);
        }));
        tokio::select! {
            served = &mut entries => {
                if served.is_ok() {
                    tokio::select! {
                        _ = deferred.shutdown(arguments.grace.unwrap_or(GRACE)) => {}
                        () = &mut grace_end => {}
                    }
                }
                Some(served)
            }
            // Two signals at once leave tasks that only have to end no time for it.
            () = &mut grace_end => tokio::time::timeout(LAST_MOMENT, &mut entries).await.ok(),
        }
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    telling.abort();
    let refused = refused.report_total();
    failed.report_total();
    let is_complete = served.is_some();
    let unread = if reading.is_done.load(Ordering::Relaxed) { 0 } else { reading.unread_bytes(&rest) };
    // A signal to an idle coprocess interrupts nothing.
    let interrupted = signalled.filter(|_| !is_complete || unread > 0);
    if let Some(signal) = interrupted {
        let out = pieces_out.load(Ordering::Relaxed);
        let held = reading.pieces.load(Ordering::Relaxed).saturating_sub(out);
        terminal::print_warning(&interruption_message(signal, out, held, unread));
    }
    let tally = served.transpose()?.unwrap_or_default();
    // Ends work that was not waited for.
    deferred.shutdown(Duration::ZERO).await;
    let maintenance = deferred.counters();
    if maintenance.abandoned > 0 {
        let tasks = terminal::format_count(maintenance.abandoned, "deferred task", "deferred tasks");
        let told = "not finished (titles, summaries); each is due again at its session's next answer";
        terminal::print_note(&format!("{tasks} {told}"));
    }
    let metrics = keepline.metrics();
    let summary = RunSummary {
        tally,
        counters: metrics.entries,
        maintenance,
        is_left_alone: metrics.is_plugin_left_alone,
        refused,
        round_trips: keepline.store().round_trips(),
        elapsed: started.elapsed(),
    };
    Ok(RunOutcome { summary, is_complete, interrupted })
}

/// Waits until all entries that were read are written, and all tasks have ended.
async fn await_entries(
    collecting: JoinHandle<Option<()>>,
    dispatching: JoinHandle<io::Result<EntryTally>>,
    mut work: JoinSet<EntryTally>,
    written: oneshot::Receiver<io::Result<()>>,
    stop: &watch::Sender<StopReason>,
) -> Result<EntryTally> {
    // The collector ends after the dispatcher and all pipes, or when the reader of the output is gone.
    let collected = collecting.await;
    stop.send_replace(StopReason::OutputClosed);
    let read = dispatching.await;
    let mut tally = EntryTally::default();
    while let Some(served) = work.join_next().await {
        tally.add_tally(&served.context("a pipe task failed")?);
    }
    collected.context("the output task failed")?;
    match written.await.context("the output task failed")? {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(error).context("can't write the output");
        }
        _ => {}
    }
    tally.add_tally(&read.context("the input task failed")?.context("can't read the input")?);
    Ok(tally)
}

/// Says how much an interrupted run has written and left.
fn interruption_message(signal: TerminationSignal, written: u64, held: u64, unread: u64) -> String {
    let written = terminal::format_count(written, "line was", "lines were");
    let mut told = format!("interrupted by {} before all input was processed: {written} written", signal.name());
    if held > 0 {
        told.push_str(&format!(", {} not written", terminal::format_count(held, "line was", "lines were")));
    }
    if unread > 0 {
        let unread = terminal::format_count(unread, "byte of the input was", "bytes of the input were");
        told.push_str(&format!("; {unread} not read"));
    }
    told
}

/// Reports the number of further errors, period by period.
async fn report_held_errors(kinds: [Arc<ErrorReport>; 2]) {
    let mut period = tokio::time::interval(error_report::HELD_REPORT_PERIOD);
    loop {
        period.tick().await;
        kinds.iter().for_each(|kind| kind.report_held_problems());
    }
}

async fn serve_pipe(
    mut pipe: Pipe,
    mut jobs: mpsc::Receiver<EntryJob>,
    budget: MemoryBudget,
    failed: Arc<ErrorReport>,
    deferred: Maintenance,
) -> EntryTally {
    let mut tally = EntryTally::default();
    while let Some(job) = jobs.recv().await {
        let EntryJob { entry, turn, number, done } = job;
        let length = entry.len();
        let (line, due) = pass_entry(&mut pipe, &turn, entry, number, &mut tally, &failed).await;
        let more = budget.take_growth_share(number, line.len().saturating_sub(length)).await;
        // The collector is gone when the reader of the output is; entries that were read are stored all the same.
        let _ = done.send(ProcessedLine { line, more });
        deferred.submit(due);
    }
    tally
}

/// Passes one entry. Returns its line and the deferred tasks that are due.
async fn pass_entry(
    pipe: &mut Pipe,
    turn: &Turn,
    mut entry: Entry,
    number: u64,
    tally: &mut EntryTally,
    failed: &ErrorReport,
) -> (Vec<u8>, Vec<Task>) {
    if let Some(activity) = entry.take_tool_activity() {
        pipe.tool_in(turn, activity);
        return (entry.into_unchanged_line(), Vec::new());
    }
    let text = entry.text();
    let started = Instant::now();
    let is_question = entry.lane == Lane::Questions;
    let metadata = entry.metadata();
    let passed = if is_question {
        pipe.ask_in(turn, Question { text: &text, metadata, ..Question::default() }, None).await
    } else {
        pipe.reply_in(turn, Answer { text: &text, metadata, ..Answer::default() }, None).await
    };
    let times = if is_question { &mut tally.questions } else { &mut tally.answers };
    times.record(started.elapsed());
    drop(text);
    match passed {
        Ok(passed) => {
            let line = match passed.metadata {
                Some(metadata) => entry.with_metadata(&metadata),
                None => entry.into_unchanged_line(),
            };
            (line, passed.due)
        }
        Err(error) => {
            tally.errors += 1;
            failed.record_problem(number, &error.to_string());
            (entry.with_error(&error.code.to_string(), &error.message), Vec::new())
        }
    }
}
