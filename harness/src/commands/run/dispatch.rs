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
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Stop,
    budget::Share,
    collect::{Done, Line, Ticket},
    error_report::ErrorReport,
    feed::{Batch, Piece, Reading},
};
use crate::jsonl::entry::{Entry, Lane, NoEntry};

pub struct Job {
    pub entry: Entry,
    pub turn: Turn,
    pub number: u64,
    pub done: oneshot::Sender<Done>,
}

pub struct Dispatcher {
    pipes: Vec<mpsc::Sender<Job>>,
    order: mpsc::Sender<Ticket>,
    turns: OpenTurns,
    counts: Counts,
    number: u64,
    max_line: usize,
    refused: Arc<ErrorReport>,
}

/// Entries that reach no model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub tools: u64,
    /// Lines of the lane `open`.
    pub opened: u64,
}

impl Dispatcher {
    /// A dispatcher for these pipes. Lines longer than `max_line` come in pieces.
    pub fn new(
        pipes: Vec<mpsc::Sender<Job>>,
        order: mpsc::Sender<Ticket>,
        turns: OpenTurns,
        max_line: usize,
        refused: Arc<ErrorReport>,
    ) -> Self {
        Self { pipes, order, turns, counts: Counts::default(), number: 0, max_line, refused }
    }

    /// Dispatches all lines until the input ends, a signal arrives, or the reader of the output is gone.
    pub async fn dispatch(
        mut self,
        mut batches: mpsc::Receiver<io::Result<Batch>>,
        reading: Arc<Reading>,
        mut stopped: watch::Receiver<Stop>,
    ) -> io::Result<Counts> {
        let mut taken = 0;
        loop {
            let next = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop != Stop::No) => None,
                batch = batches.recv() => Some(batch),
            };
            let next = match next {
                Some(next) => next,
                // Lines read before a signal are finished.
                None if taken < reading.pieces.load(Ordering::Relaxed) => batches.recv().await,
                None => return Ok(self.counts),
            };
            let Some(batch) = next else { return Ok(self.counts) };
            for (piece, share) in batch? {
                taken += 1;
                if self.forward(piece, share).await.is_none() {
                    return Ok(self.counts);
                }
            }
        }
    }

    /// `None`: the reader of the output is gone.
    async fn forward(&mut self, piece: Piece, share: Share) -> Option<()> {
        let length = piece.len();
        let line = match piece {
            Piece::More(bytes) => Line::Ready(bytes),
            Piece::TooLong(bytes) => {
                self.number += 1;
                let problem = format!("longer than {} bytes (raise max_entry_bytes to accept it)", self.max_line);
                self.refuse(&problem);
                Line::Ready(bytes)
            }
            Piece::Line(bytes) => {
                self.number += 1;
                match Entry::parse(bytes) {
                    Ok(entry) => self.hand_over(entry).await?,
                    Err(NoEntry { problem, line }) => {
                        self.refuse(&problem);
                        Line::Ready(line)
                    }
                }
            }
        };
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.order.send(Ticket { line, length, share }).await.ok()
    }

    /// Reports an invalid line and ends the turn, since it may have been a question.
    fn refuse(&mut self, problem: &str) {
        self.refused.met(self.number, &format!("{problem}; it passes unchanged"));
        self.turns.end_last();
    }

    async fn hand_over(&mut self, entry: Entry) -> Option<Line> {
        let metadata = entry.metadata();
        let turn = match entry.lane {
            Lane::Questions => self.turns.question(metadata, entry.text_bytes()),
            Lane::Answers => self.turns.answer(metadata),
            Lane::Tools => {
                self.counts.tools += 1;
                let Some(turn) = entry.tool().and_then(|activity| self.turns.tool(activity, metadata)) else {
                    return Some(Line::Ready(entry.unchanged()));
                };
                turn
            }
            Lane::Open => {
                self.counts.opened += 1;
                self.turns.open(metadata);
                return Some(Line::Ready(entry.unchanged()));
            }
        };
        let (done, waiting) = oneshot::channel();
        let pipe = self.pipes.get(self.pipe_of(&turn))?;
        pipe.send(Job { entry, turn, number: self.number, done }).await.ok()?;
        Some(Line::Waiting { number: self.number, waiting })
    }

    /// All entries of a session take the same pipe, so they stay in order.
    fn pipe_of(&self, turn: &Turn) -> usize {
        match self.pipes.len() {
            1 => 0,
            pipes => usize::try_from(turn.affinity() % u64::try_from(pipes).unwrap_or(1)).unwrap_or(0),
        }
    }
}
