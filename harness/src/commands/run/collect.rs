//! Writes lines in the order in which they were read, whichever pipe they went through.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tokio::sync::{mpsc, oneshot};

use super::{
    budget::{BudgetShare, MemoryBudget},
    sink::OutputChunk,
};

/// Output is flushed at this length, or after this time.
const MAX_CHUNK: usize = 64 * 1024;
const MAX_DELAY: Duration = Duration::from_millis(5);

pub struct LineTicket {
    pub line: PendingLine,
    /// Its length as read.
    pub length: u64,
    pub share: BudgetShare,
}

/// A line, or where it will come from.
pub enum PendingLine {
    /// It goes through no pipe.
    Ready(Vec<u8>),
    /// A pipe is processing it.
    Waiting { number: u64, waiting: oneshot::Receiver<ProcessedLine> },
}

/// A line that a pipe has processed.
pub struct ProcessedLine {
    pub line: Vec<u8>,
    /// Share of the budget for its growth.
    pub more: BudgetShare,
}

/// Restores the order of lines and passes them to the sink, in chunks while more are ready, and always before waiting.
/// `None`: all is passed on, or the reader of the output is gone.
pub async fn write_in_order(
    mut tickets: mpsc::Receiver<LineTicket>,
    sink: mpsc::Sender<OutputChunk>,
    budget: MemoryBudget,
    bar: Option<ProgressBar>,
) -> Option<()> {
    const BAR_STEP: u64 = 64 * 1024;
    let mut chunk = ChunkBuilder { chunk: OutputChunk::default(), since: Instant::now(), sink };
    let mut passed = 0;
    loop {
        let ticket = match tickets.try_recv() {
            Ok(ticket) => ticket,
            Err(_) => {
                chunk.flush().await?;
                tickets.recv().await?
            }
        };
        let mut share = ticket.share;
        let done = match ticket.line {
            PendingLine::Ready(line) => ProcessedLine { line, more: BudgetShare::default() },
            PendingLine::Waiting { number, mut waiting } => match waiting.try_recv() {
                Ok(done) => done,
                Err(_) => {
                    chunk.flush().await?;
                    budget.declare_next_line(number);
                    // A pipe answers everything that it takes, unless it is being torn down.
                    waiting.await.ok()?
                }
            },
        };
        share.merge(done.more);
        chunk.add_line(done.line, share).await?;
        // Not at each line: moving the bar costs as much as a line.
        passed += ticket.length;
        if passed >= BAR_STEP
            && let Some(bar) = &bar
        {
            bar.inc(std::mem::take(&mut passed));
        }
    }
}

struct ChunkBuilder {
    chunk: OutputChunk,
    since: Instant,
    sink: mpsc::Sender<OutputChunk>,
}

impl ChunkBuilder {
    async fn add_line(&mut self, line: Vec<u8>, share: BudgetShare) -> Option<()> {
        let OutputChunk { bytes, pieces, share: shares } = &mut self.chunk;
        shares.merge(share);
        if bytes.is_empty() {
            self.since = Instant::now();
            *bytes = line;
        } else {
            bytes.extend_from_slice(&line);
        }
        *pieces += 1;
        if bytes.len() >= MAX_CHUNK || self.since.elapsed() >= MAX_DELAY { self.flush().await } else { Some(()) }
    }

    /// Waits while the reader is slow. `None`: it is gone, or writing failed.
    async fn flush(&mut self) -> Option<()> {
        if self.chunk.pieces == 0 {
            return Some(());
        }
        self.sink.send(std::mem::take(&mut self.chunk)).await.ok()
    }
}
