//! `keepline run`: JSON lines in, JSON lines out, one for one and in order.
//!
//! ```text
//! feed ─▶ dispatch ─┬─▶ pipe 0 ─┐
//!  (thread)  │      └─▶ pipe N ─┴─▶ (each entry's own channel)
//!            └── order ──────────────▶ collect ─▶ sink (thread)
//! ```
//!
//! The dispatcher reads lines, and gives each entry to the pipe of its session, and a ticket for it to the
//! collector, which redeems the tickets in order. All queues are bounded, in entries and in bytes.

pub mod entry;
mod feed;
mod python_json;
mod sink;
pub mod summary;

use std::{
    collections::hash_map::DefaultHasher,
    fs::File,
    hash::{Hash, Hasher},
    io::{self, IsTerminal},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use keepline::{Keepline, Pipe, Plugin, Sandbox};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch},
    task::JoinSet,
};

use self::{
    entry::{ALLOWED, Entry, Lane, NoEntry},
    feed::{Piece, Reading},
    sink::{Chunk, Sink},
    summary::{Summary, Tally},
};
use crate::{
    cli::{Global, RunArguments},
    ending::Ending,
    setup::{self, Usage},
    terminal,
};

/// Entries that may wait for one pipe.
const WAITING_FOR_A_PIPE: usize = 256;
/// Entries that may be under way in all.
const UNDER_WAY: usize = 4096;
/// Bytes of entries that may be under way in all. One entry may be larger; then it goes alone.
const BYTES_UNDER_WAY: usize = 64 << 20;
/// Output is written at the latest when it is that long, or waits for that long.
const MAX_CHUNK: usize = 64 * 1024;
const MAX_DELAY: Duration = Duration::from_millis(5);

/// Run it.
pub fn main(global: &Global, arguments: &RunArguments) -> Result<ExitCode> {
    let mut config = setup::config(global)?;
    let input = open_input(&arguments.input)?;
    let plugin = setup::plugin(global, &config)?;
    let pipes = arguments.pipes.get();
    if !config.origin("max_instances").is_chosen() {
        // Then no pipe waits for another.
        config.host.max_instances = config.host.max_instances.max(u64::try_from(pipes).unwrap_or(u64::MAX));
    }
    let runtime = if pipes == 1 {
        // Nothing to do side by side: one thread spares every entry a journey between cores.
        setup::single_runtime()?
    } else {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = pipes.min(cores).max(2);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all().build().context("can't start")?
    };
    let outcome = runtime.block_on(async {
        let keepline = setup::keepline(plugin, &config).await?;
        // Before the first entry: what is read is finished.
        let ending = Ending::listen(arguments.grace.0)?;
        if let Some(file) = setup::plugin_file(global) {
            let hangups = signal(SignalKind::hangup()).context("can't listen to signals")?;
            tokio::spawn(reload(hangups, keepline.clone(), file, config.sandbox()));
        }
        // Text and metadata in JSON's longest spelling, and as much again for the other fields.
        let max_line =
            usize::try_from(config.host.max_entry_bytes).unwrap_or(usize::MAX).saturating_mul(12).max(1 << 20);
        run(keepline, input, pipes, max_line, bar(&arguments.input), ending).await
    });
    // Threads that still wait for input or output must not be waited for.
    runtime.shutdown_background();
    let outcome = outcome?;
    if arguments.summary {
        terminal::say(&outcome.summary.lines());
    }
    let is_clean = outcome.is_complete && outcome.summary.refused == 0 && outcome.summary.tally.errors == 0;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open_input(path: &Path) -> Result<File> {
    if path == "-" {
        return Ok(File::from(io::stdin().as_fd().try_clone_to_owned().context("standard input is closed")?));
    }
    let usage = |problem: &dyn std::fmt::Display| Usage(format!("can't read {}: {problem}", path.display()));
    let file = File::open(path).map_err(|error| usage(&error))?;
    // Opening a directory works; reading it fails later, when less can be said.
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(usage(&"it is a directory").into());
    }
    Ok(file)
}

/// A bar for whoever watches a file pass: not when the entries themselves are on the terminal.
fn bar(input: &Path) -> Option<ProgressBar> {
    if input == "-" || !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return None;
    }
    let length = std::fs::metadata(input).ok().filter(std::fs::Metadata::is_file)?.len();
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left").ok()?;
    let bar = ProgressBar::new(length).with_style(style);
    terminal::write_above(&bar);
    Some(bar)
}

/// Goes on with what is in the plugin's file by then, at each SIGHUP.
async fn reload(mut hangups: Signal, keepline: Keepline, file: PathBuf, sandbox: Sandbox) {
    while hangups.recv().await.is_some() {
        let replaced = async {
            let (file, sandbox) = (file.clone(), sandbox.clone());
            // To compile takes a while; the entries go on meanwhile.
            let plugin = tokio::task::spawn_blocking(move || Plugin::from_file(file, &sandbox)).await??;
            anyhow::Ok(keepline.replace_plugin(plugin).await?)
        };
        match replaced.await {
            Ok(()) => terminal::note(&format!("the plugin was replaced by what is in {} now", file.display())),
            Err(error) => terminal::warning(&format!("the plugin was not replaced, and goes on: {error:#}")),
        }
    }
}

struct Outcome {
    summary: Summary,
    /// Whether all that was read has come out, as far as somebody was there to take it.
    is_complete: bool,
}

/// Why no more input is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// A signal: what was read is finished.
    Signal,
    /// Nobody reads the output.
    Closed,
}

async fn run(
    keepline: Keepline,
    input: File,
    pipes: usize,
    max_line: usize,
    bar: Option<ProgressBar>,
    ending: Ending,
) -> Result<Outcome> {
    let started = Instant::now();
    let (stop, stopped) = watch::channel(Stop::No);
    let reading = Arc::new(Reading::default());
    let batches = feed::start(input, max_line, reading.clone());
    let output = File::from(io::stdout().as_fd().try_clone_to_owned().context("standard output is closed")?);
    let pieces_out = Arc::new(AtomicU64::new(0));
    let (sink, written) = Sink::start(output, pieces_out.clone());

    let mut work = JoinSet::new();
    let senders: Vec<_> = (0..pipes)
        .map(|_| {
            let (sender, jobs) = mpsc::channel(WAITING_FOR_A_PIPE);
            work.spawn(serve(keepline.pipe(), jobs));
            sender
        })
        .collect();
    let (order, tickets) = mpsc::channel(UNDER_WAY);
    let refused = Arc::new(AtomicU64::new(0));
    let dispatcher = Dispatcher {
        pipes: senders,
        order,
        bytes: Arc::new(Semaphore::new(BYTES_UNDER_WAY)),
        last_question: 0,
        number: 0,
        max_line,
        refused: refused.clone(),
    };
    let dispatching = tokio::spawn(dispatcher.dispatch(batches, reading.clone(), stopped));
    let collecting = tokio::spawn(collect(tickets, sink, bar.clone()));

    let finish = async {
        // The collector ends when the dispatcher and all pipes have, or when nobody takes the output.
        let collected = collecting.await;
        stop.send_replace(Stop::Closed);
        let read = dispatching.await;
        let mut tally = Tally::default();
        while let Some(served) = work.join_next().await {
            tally.add(&served.context("a pipe broke")?);
        }
        collected.context("the output broke")?;
        match written.await.context("the output broke")? {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                return Err(error).context("can't write the output");
            }
            _ => {}
        }
        read.context("the input broke")?.context("can't read the input")?;
        anyhow::Ok(tally)
    };
    let finished = tokio::select! {
        finished = finish => Some(finished),
        () = ending.told(|| {
            reading.stop.store(true, Ordering::Relaxed);
            stop.send_replace(Stop::Signal);
        }) => None,
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if finished.is_none() {
        let left = reading.pieces.load(Ordering::Relaxed).saturating_sub(pieces_out.load(Ordering::Relaxed));
        terminal::warning(&format!("ended before everything that was read had come out: {left} lines had not"));
    }
    let is_complete = finished.is_some();
    let tally = finished.transpose()?.unwrap_or_default();
    let summary = Summary {
        tally,
        counters: keepline.counters(),
        refused: refused.load(Ordering::Relaxed),
        round_trips: keepline.store().round_trips(),
        elapsed: started.elapsed(),
    };
    Ok(Outcome { summary, is_complete })
}

/// An entry on its way to a pipe.
struct Job {
    entry: Entry,
    number: u64,
    done: oneshot::Sender<Vec<u8>>,
}

/// A line on its way out.
struct Ticket {
    line: Line,
    /// How long it was when it came in.
    length: u64,
    /// Its share of the memory, given back when it is out.
    _share: Option<OwnedSemaphorePermit>,
}

enum Line {
    Ready(Vec<u8>),
    Waiting(oneshot::Receiver<Vec<u8>>),
}

/// Reads lines and routes them.
struct Dispatcher {
    pipes: Vec<mpsc::Sender<Job>>,
    order: mpsc::Sender<Ticket>,
    bytes: Arc<Semaphore>,
    /// The pipe of the last question: an answer without a session belongs there, and so does a new object.
    last_question: usize,
    number: u64,
    max_line: usize,
    refused: Arc<AtomicU64>,
}

impl Dispatcher {
    async fn dispatch(
        mut self,
        mut batches: mpsc::Receiver<io::Result<Vec<Piece>>>,
        reading: Arc<Reading>,
        mut stopped: watch::Receiver<Stop>,
    ) -> io::Result<()> {
        let mut taken = 0;
        loop {
            let next = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop != Stop::No) => None,
                batch = batches.recv() => Some(batch),
            };
            let next = match next {
                Some(next) => next,
                // What was read before a signal is finished; then no more is waited for.
                None if taken < reading.pieces.load(Ordering::Relaxed) => batches.recv().await,
                None => return Ok(()),
            };
            let Some(batch) = next else { return Ok(()) };
            for piece in batch? {
                taken += 1;
                if self.forward(piece).await.is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// None: nobody takes the output.
    async fn forward(&mut self, piece: Piece) -> Option<()> {
        let length = piece.len();
        let share = u32::try_from(length.min(BYTES_UNDER_WAY)).unwrap_or(u32::MAX);
        let share = self.bytes.clone().acquire_many_owned(share).await.ok();
        let line = match piece {
            Piece::More(bytes) => Line::Ready(bytes),
            Piece::TooLong(bytes) => {
                self.number += 1;
                self.refuse(
                    &format!("longer than {} bytes", self.max_line),
                    "raise max_entry_bytes to let longer ones in",
                );
                Line::Ready(bytes)
            }
            Piece::Line(bytes) => {
                self.number += 1;
                match Entry::parse(bytes) {
                    Ok(entry) => self.hand_over(entry).await?,
                    Err(NoEntry { problem, line }) => {
                        self.refuse(&problem, ALLOWED);
                        Line::Ready(line)
                    }
                }
            }
        };
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.order.send(Ticket { line, length, _share: share }).await.ok()
    }

    fn refuse(&self, problem: &str, allowed: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        terminal::error(&format!("line {}: {problem}; it passes unchanged ({allowed})", self.number));
    }

    async fn hand_over(&mut self, entry: Entry) -> Option<Line> {
        let at = self.route(&entry);
        if entry.lane == Lane::Questions {
            self.last_question = at;
        }
        let (done, waiting) = oneshot::channel();
        self.pipes.get(at)?.send(Job { entry, number: self.number, done }).await.ok()?;
        Some(Line::Waiting(waiting))
    }

    /// The pipe of an entry. All entries of a session take the same one, and so stay in order; what names no
    /// session takes that of the last question, whose turn it may rely on.
    fn route(&self, entry: &Entry) -> usize {
        if self.pipes.len() == 1 || entry.lane == Lane::Open {
            return self.last_question;
        }
        let Some(session) = entry.session() else { return self.last_question };
        let mut hasher = DefaultHasher::new();
        session.hash(&mut hasher);
        let count = u64::try_from(self.pipes.len()).unwrap_or(1);
        usize::try_from(hasher.finish() % count).unwrap_or(0)
    }
}

/// One pipe: entry after entry, as long as there are any.
async fn serve(mut pipe: Pipe, mut jobs: mpsc::Receiver<Job>) -> Tally {
    let mut tally = Tally::default();
    while let Some(Job { entry, number, done }) = jobs.recv().await {
        let line = pass(&mut pipe, entry, number, &mut tally).await;
        // The collector is gone when nobody takes the output; what was taken in is remembered all the same.
        let _ = done.send(line);
    }
    tally
}

async fn pass(pipe: &mut Pipe, entry: Entry, number: u64, tally: &mut Tally) -> Vec<u8> {
    let text = entry.text();
    let started = Instant::now();
    let passed = match entry.lane {
        Lane::Open => {
            pipe.open();
            tally.opened += 1;
            drop(text);
            return entry.unchanged();
        }
        Lane::Questions => pipe.question(&text, entry.metadata()).await,
        Lane::Answers => pipe.answer(&text, entry.metadata()).await,
    };
    let times = if entry.lane == Lane::Questions { &mut tally.questions } else { &mut tally.answers };
    times.record(started.elapsed());
    drop(text);
    match passed {
        Ok(passed) => match passed.metadata {
            Some(metadata) => entry.with_metadata(&metadata),
            None => entry.unchanged(),
        },
        Err(error) => {
            tally.errors += 1;
            terminal::error(&format!("line {number}: {error}"));
            entry.with_error(&error.code, &error.message)
        }
    }
}

/// Puts the lines back into order and hands them to the sink: in chunks while there are more at once, and
/// always before waiting for anything.
async fn collect(mut tickets: mpsc::Receiver<Ticket>, sink: Sink, bar: Option<ProgressBar>) {
    const BAR_STEP: u64 = 64 * 1024;
    let mut chunk = Gathering { chunk: Chunk::default(), since: Instant::now(), sink };
    let mut passed = 0;
    loop {
        let ticket = match tickets.try_recv() {
            Ok(ticket) => ticket,
            Err(_) => {
                if chunk.flush().await.is_err() {
                    return;
                }
                let Some(ticket) = tickets.recv().await else { return };
                ticket
            }
        };
        let line = match ticket.line {
            Line::Ready(line) => line,
            Line::Waiting(mut waiting) => match waiting.try_recv() {
                Ok(line) => line,
                Err(_) => {
                    if chunk.flush().await.is_err() {
                        return;
                    }
                    // A pipe gives an answer to everything that it takes, unless it is being torn down.
                    let Ok(line) = waiting.await else { return };
                    line
                }
            },
        };
        if chunk.add(line).await.is_err() {
            return;
        }
        // Not at each line: to move the bar costs as much as the line.
        passed += ticket.length;
        if passed >= BAR_STEP
            && let Some(bar) = &bar
        {
            bar.inc(std::mem::take(&mut passed));
        }
    }
}

/// A chunk that grows.
struct Gathering {
    chunk: Chunk,
    since: Instant,
    sink: Sink,
}

impl Gathering {
    async fn add(&mut self, line: Vec<u8>) -> Result<(), sink::Closed> {
        let Chunk { bytes, pieces } = &mut self.chunk;
        if bytes.is_empty() {
            self.since = Instant::now();
            *bytes = line;
        } else {
            bytes.extend_from_slice(&line);
        }
        *pieces += 1;
        if bytes.len() >= MAX_CHUNK || self.since.elapsed() >= MAX_DELAY { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), sink::Closed> {
        if self.chunk.pieces == 0 {
            return Ok(());
        }
        self.sink.write(std::mem::take(&mut self.chunk)).await
    }
}
