//! Routes each entry to the turn that it belongs to, and with it to the pipe of its session; a ticket for it goes to the
//! collector.
//!
//! All routing happens here, in the order of the input, so the output is the same for any number of pipes. After a line that
//! can't be read, which may have been a question, entries that name no session belong to no turn until the next question.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use keepline::pipe::{OpenTurns, Turn};
use keepline_service::jsonl::entry::{Entry, InvalidLine, Lane};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    StopReason,
    budget::BudgetShare,
    collect::{LineTicket, PendingLine, ProcessedLine},
    error_report::ErrorReport,
    feed::{InputPiece, PieceBatch, ReadingState},
    summary::EntryTally,
};

pub struct EntryJob {
    pub entry: Entry,
    pub turn: Turn,
    pub number: u64,
    pub done: oneshot::Sender<ProcessedLine>,
}

pub struct Dispatcher {
    pub pipes: Vec<mpsc::Sender<EntryJob>>,
    pub order: mpsc::Sender<LineTicket>,
    pub turns: OpenTurns,
    /// Counts entries that reach no model.
    pub tally: EntryTally,
    /// The number of the last line.
    pub number: u64,
    /// Longer lines come in pieces.
    pub max_line: usize,
    pub refused: Arc<ErrorReport>,
}

impl Dispatcher {
    /// Dispatches all lines until the input ends, a signal arrives, or the reader of the output is gone.
    pub async fn dispatch(
        mut self,
        mut batches: mpsc::Receiver<io::Result<PieceBatch>>,
        reading: Arc<ReadingState>,
        mut stopped: watch::Receiver<StopReason>,
    ) -> io::Result<EntryTally> {
        let mut taken = 0;
        loop {
            let next = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop != StopReason::NotStopped) => None,
                batch = batches.recv() => Some(batch),
            };
            let next = match next {
                Some(next) => next,
                // Lines read before a signal are finished.
                None if taken < reading.pieces.load(Ordering::Relaxed) => batches.recv().await,
                None => return Ok(self.tally),
            };
            let Some(batch) = next else { return Ok(self.tally) };
            for (piece, share) in batch? {
                taken += 1;
                if self.forward_piece(piece, share).await.is_none() {
                    return Ok(self.tally);
                }
            }
        }
    }

    /// `None`: the reader of the output is gone.
    async fn forward_piece(&mut self, piece: InputPiece, share: BudgetShare) -> Option<()> {
        let length = piece.len();
        let line = match piece {
            InputPiece::Continuation(bytes) => PendingLine::Ready(bytes),
            InputPiece::TooLong(bytes) => {
                self.number += 1;
                let problem = format!("longer than {} bytes (raise max_entry_bytes to accept it)", self.max_line);
                self.report_invalid_line(&problem);
                PendingLine::Ready(bytes)
            }
            InputPiece::Line(bytes) => {
                self.number += 1;
                match Entry::parse(bytes) {
                    Ok(entry) => self.route_entry(entry).await?,
                    Err(InvalidLine { problem, line }) => {
                        self.report_invalid_line(&problem);
                        PendingLine::Ready(line)
                    }
                }
            }
        };
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.order.send(LineTicket { line, length, share }).await.ok()
    }

    /// Reports an invalid line and ends the turn, since it may have been a question.
    fn report_invalid_line(&mut self, problem: &str) {
        self.refused.record_problem(self.number, &format!("{problem}; it passes unchanged"));
        self.turns.end_last();
    }

    async fn route_entry(&mut self, entry: Entry) -> Option<PendingLine> {
        let metadata = entry.metadata();
        let turn = match entry.lane {
            Lane::Questions => self.turns.question(metadata, entry.text_bytes()),
            Lane::Answers => self.turns.answer(metadata),
            Lane::Tools => {
                self.tally.tools += 1;
                let Some(turn) = entry.tool_activity().and_then(|activity| self.turns.tool(activity, metadata)) else {
                    return Some(PendingLine::Ready(entry.into_unchanged_line()));
                };
                turn
            }
            Lane::Open => {
                self.tally.opened += 1;
                self.turns.open(metadata);
                return Some(PendingLine::Ready(entry.into_unchanged_line()));
            }
        };
        let (done, waiting) = oneshot::channel();
        let pipe = self.pipes.get(self.pipe_index(&turn))?;
        pipe.send(EntryJob { entry, turn, number: self.number, done }).await.ok()?;
        Some(PendingLine::Waiting { number: self.number, waiting })
    }

    /// All entries of a session take the same pipe, so they stay in order.
    fn pipe_index(&self, turn: &Turn) -> usize {
        match self.pipes.len() {
            1 => 0,
            pipes => usize::try_from(turn.affinity() % u64::try_from(pipes).unwrap_or(1)).unwrap_or(0),
        }
    }
}
