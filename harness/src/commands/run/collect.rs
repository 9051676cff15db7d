//! Writes lines in the order in which they were read, whichever pipe they went through.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use tokio::sync::{mpsc, oneshot};

use super::{
    budget::{BudgetShare, MemoryBudget},
    sink::{self, OutputChunk, OutputSink},
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
pub async fn write_in_order(
    mut tickets: mpsc::Receiver<LineTicket>,
    sink: OutputSink,
    budget: MemoryBudget,
    bar: Option<ProgressBar>,
) {
    const BAR_STEP: u64 = 64 * 1024;
    let mut chunk = ChunkBuilder { chunk: OutputChunk::default(), since: Instant::now(), sink };
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
        let mut share = ticket.share;
        let done = match ticket.line {
            PendingLine::Ready(line) => ProcessedLine { line, more: BudgetShare::default() },
            PendingLine::Waiting { number, mut waiting } => match waiting.try_recv() {
                Ok(done) => done,
                Err(_) => {
                    if chunk.flush().await.is_err() {
                        return;
                    }
                    budget.declare_next_line(number);
                    // A pipe answers everything that it takes, unless it is being torn down.
                    let Ok(done) = waiting.await else { return };
                    done
                }
            },
        };
        share.merge(done.more);
        if chunk.add_line(done.line, share).await.is_err() {
            return;
        }
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
    sink: OutputSink,
}

impl ChunkBuilder {
    async fn add_line(&mut self, line: Vec<u8>, share: BudgetShare) -> Result<(), sink::SinkClosed> {
        let OutputChunk { bytes, pieces, share: shares } = &mut self.chunk;
        shares.merge(share);
        if bytes.is_empty() {
            self.since = Instant::now();
            *bytes = line;
        } else {
            bytes.extend_from_slice(&line);
        }
        *pieces += 1;
        if bytes.len() >= MAX_CHUNK || self.since.elapsed() >= MAX_DELAY { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), sink::SinkClosed> {
        if self.chunk.pieces == 0 {
            return Ok(());
        }
        self.sink.write(std::mem::take(&mut self.chunk)).await
    }
}
