//! Routing: each entry to the pipe of its session, and a ticket for it to the collector.
//!
//! Promises that an answer without a session reaches the pipe, and the turn, of the question before it in the
//! input, or none: whatever could not be read between the two may have been another question.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    io,
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Stop,
    budget::Share,
    collect::{Done, Line, Ticket},
    entry::{Entry, Lane, NoEntry},
    feed::{Batch, Piece, Reading},
    trouble::Trouble,
};

/// What a pipe has to do.
pub enum Job {
    /// An entry passes.
    Pass {
        /// The entry.
        entry: Entry,
        /// Of its line.
        number: u64,
        /// Where its line goes then.
        done: oneshot::Sender<Done>,
    },
    /// What follows has nothing to do with the question before.
    EndTurn,
}

/// Reads lines and routes them.
pub struct Dispatcher {
    pipes: Vec<mpsc::Sender<Job>>,
    order: mpsc::Sender<Ticket>,
    /// The pipe of the last question: an answer without a session belongs there, and so does a new object.
    last_question: usize,
    /// Whether that pipe may have a turn that such an answer could rely on.
    has_turn: bool,
    number: u64,
    max_line: usize,
    refused: Arc<Trouble>,
}

impl Dispatcher {
    /// For these pipes. Lines longer than `max_line` have come in pieces.
    pub fn new(
        pipes: Vec<mpsc::Sender<Job>>,
        order: mpsc::Sender<Ticket>,
        max_line: usize,
        refused: Arc<Trouble>,
    ) -> Self {
        Self { pipes, order, last_question: 0, has_turn: false, number: 0, max_line, refused }
    }

    /// All lines, up to the end of the input, a signal, or the end of those who read the output.
    pub async fn dispatch(
        mut self,
        mut batches: mpsc::Receiver<io::Result<Batch>>,
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
            for (piece, share) in batch? {
                taken += 1;
                if self.forward(piece, share).await.is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// None: nobody takes the output.
    async fn forward(&mut self, piece: Piece, share: Share) -> Option<()> {
        let length = piece.len();
        let line = match piece {
            Piece::More(bytes) => Line::Ready(bytes),
            Piece::TooLong(bytes) => {
                self.number += 1;
                let problem = format!("longer than {} bytes (raise max_entry_bytes to accept it)", self.max_line);
                self.refuse(&problem).await?;
                Line::Ready(bytes)
            }
            Piece::Line(bytes) => {
                self.number += 1;
                match Entry::parse(bytes) {
                    Ok(entry) => self.hand_over(entry).await?,
                    Err(NoEntry { problem, line }) => {
                        self.refuse(&problem).await?;
                        Line::Ready(line)
                    }
                }
            }
        };
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.order.send(Ticket { line, length, share }).await.ok()
    }

    /// It may have been a question, or a new object: then the next answer is not for the question before.
    async fn refuse(&mut self, problem: &str) -> Option<()> {
        self.refused.met(self.number, &format!("{problem}; it passes unchanged"));
        if std::mem::take(&mut self.has_turn) {
            // No other pipe needs it: an answer without a session goes there only, until the next question.
            self.pipes.get(self.last_question)?.send(Job::EndTurn).await.ok()?;
        }
        Some(())
    }

    async fn hand_over(&mut self, entry: Entry) -> Option<Line> {
        let at = self.route(&entry);
        if entry.lane == Lane::Questions {
            self.last_question = at;
            self.has_turn = true;
        }
        let (done, waiting) = oneshot::channel();
        self.pipes.get(at)?.send(Job::Pass { entry, number: self.number, done }).await.ok()?;
        Some(Line::Waiting { number: self.number, waiting })
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
