//! Reads lines on a thread of its own, because a blocking read must not keep the process from ending.
//!
//! Whole lines are passed on as soon as they are read and the budget has room for them. At most one line is read beyond
//! that, and no byte is lost.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use tokio::{runtime::Handle, sync::mpsc};

use super::budget::{BudgetShare, MemoryBudget};

/// A line, or a piece of one.
#[derive(Debug)]
pub enum InputPiece {
    /// A line with its ending, if it has one.
    Line(Vec<u8>),
    /// The first piece of a line that is too long to be parsed.
    TooLong(Vec<u8>),
    /// A further piece of it.
    Continuation(Vec<u8>),
}

impl InputPiece {
    pub fn len(&self) -> usize {
        match self {
            Self::Line(bytes) | Self::TooLong(bytes) | Self::Continuation(bytes) => bytes.len(),
        }
    }
}

/// Bytes of one read; the size of a pipe of the system.
const READ_BYTES: usize = 64 * 1024;
/// Batches that may wait: one is processed, one is ready, one is being read.
const QUEUED_BATCHES: usize = 2;

#[derive(Debug, Default)]
pub struct ReadingState {
    pub stop: AtomicBool,
    /// Pieces that were read, those not passed on yet included.
    pub pieces: AtomicU64,
    pub bytes: AtomicU64,
    /// Bytes read from the input, those of an unfinished line included.
    pub taken: AtomicU64,
    pub is_done: AtomicBool,
}

/// Pieces that were read without waiting, each with its share of the budget.
pub type PieceBatch = Vec<(InputPiece, BudgetShare)>;

/// Starts reading. An error is the last batch.
pub fn start_reading(
    input: File,
    max_line: usize,
    reading: Arc<ReadingState>,
    budget: MemoryBudget,
) -> mpsc::Receiver<io::Result<PieceBatch>> {
    let (batches, receiver) = mpsc::channel(QUEUED_BATCHES);
    let runtime = Handle::current();
    thread::spawn(move || {
        let mut reader = LineReader::new(CountingReader { input, reading: reading.clone() }, max_line);
        // Ends as well when the receiver is gone.
        while !reading.stop.load(Ordering::Relaxed) {
            let batch = reader.read_batch();
            let pieces = batch.as_ref().map_or(0, Vec::len);
            let bytes = batch.as_ref().map_or(0, |pieces| pieces.iter().map(InputPiece::len).sum());
            reading.bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
            reading.pieces.fetch_add(u64::try_from(pieces).unwrap_or(u64::MAX), Ordering::Relaxed);
            let is_last = batch.as_ref().map_or(true, Vec::is_empty);
            reading.is_done.store(is_last, Ordering::Relaxed);
            let is_empty = matches!(&batch, Ok(pieces) if pieces.is_empty());
            let batch = batch.map(|pieces| take_batch_shares(pieces, &budget, &runtime));
            if !is_empty && batches.blocking_send(batch).is_err() || is_last {
                break;
            }
        }
    });
    receiver
}

struct CountingReader {
    input: File,
    reading: Arc<ReadingState>,
}

impl io::Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.reading.taken.fetch_add(u64::try_from(length).unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(length)
    }
}

impl ReadingState {
    /// Bytes that were not passed on, as far as is known: those of an unfinished line, and those that wait in `input`. The
    /// writer of a pipe may have more.
    pub fn unread_bytes(&self, input: &File) -> u64 {
        let begun = self.taken.load(Ordering::Relaxed).saturating_sub(self.bytes.load(Ordering::Relaxed));
        begun + rustix::io::ioctl_fionread(input).unwrap_or(0)
    }
}

/// Waits for the share of all pieces at once, so that no piece that has its share waits for another's.
fn take_batch_shares(pieces: Vec<InputPiece>, budget: &MemoryBudget, runtime: &Handle) -> PieceBatch {
    let mut whole = runtime.block_on(budget.take_share(pieces.iter().map(InputPiece::len).sum()));
    let mut shared = |piece: InputPiece| {
        let share = whole.split(piece.len());
        (piece, share)
    };
    pieces.into_iter().map(&mut shared).collect()
}

pub struct LineReader<R> {
    input: BufReader<R>,
    max_line: usize,
    /// The current line, as far as it was read.
    line: Vec<u8>,
    too_long: bool,
}

impl<R: io::Read> LineReader<R> {
    pub fn new(input: R, max_line: usize) -> Self {
        Self { input: BufReader::with_capacity(READ_BYTES, input), max_line, line: Vec::new(), too_long: false }
    }

    /// At least one piece, and all others that are available. Empty at the end.
    pub fn read_batch(&mut self) -> io::Result<Vec<InputPiece>> {
        let mut pieces = Vec::new();
        loop {
            let chunk = match self.input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                chunk => chunk?,
            };
            if chunk.is_empty() {
                if !self.line.is_empty() {
                    pieces.push(self.take_piece());
                }
                return Ok(pieces);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let length = end.unwrap_or(chunk.len());
            self.line.extend_from_slice(chunk.get(..length).unwrap_or_default());
            self.input.consume(length);
            if end.is_some() {
                pieces.push(self.take_piece());
                self.too_long = false;
            } else if self.line.len() > self.max_line {
                pieces.push(self.take_piece());
                self.too_long = true;
            }
            if !pieces.is_empty() && !self.input.buffer().contains(&b'\n') {
                return Ok(pieces);
            }
        }
    }

    fn take_piece(&mut self) -> InputPiece {
        let bytes = std::mem::take(&mut self.line);
        if self.too_long {
            InputPiece::Continuation(bytes)
        } else if bytes.len() > self.max_line {
            InputPiece::TooLong(bytes)
        } else {
            InputPiece::Line(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns its parts one by one, as a pipe does.
    struct Parts(Vec<Vec<u8>>);

    impl io::Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            buffer[..part.len()].copy_from_slice(&part);
            Ok(part.len())
        }
    }

    fn batches(parts: &[&[u8]], max_line: usize) -> Vec<Vec<InputPiece>> {
        let parts = Parts(parts.iter().map(|part| part.to_vec()).collect());
        let mut reader = LineReader::new(parts, max_line);
        let mut all = Vec::new();
        loop {
            let batch = reader.read_batch().unwrap();
            if batch.is_empty() {
                return all;
            }
            all.push(batch);
        }
    }

    fn bytes(piece: &InputPiece) -> &[u8] {
        match piece {
            InputPiece::Line(bytes) | InputPiece::TooLong(bytes) | InputPiece::Continuation(bytes) => bytes,
        }
    }

    #[test]
    fn complete_lines_are_not_held_back_for_an_incomplete_one() {
        let found = batches(&[b"a\nb\nhal", b"f\nc"], 100);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0].len(), 2);
        assert_eq!(bytes(&found[1][0]), b"half\n");
        assert_eq!(bytes(&found[2][0]), b"c");
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_pieces() {
        let found: Vec<InputPiece> =
            batches(&[b"ab\n123456", b"789012", b"34\nc\n"], 4).into_iter().flatten().collect();
        assert!(
            matches!(
                &found[..],
                [
                    InputPiece::Line(_),
                    InputPiece::TooLong(_),
                    InputPiece::Continuation(_),
                    InputPiece::Continuation(_),
                    InputPiece::Line(_)
                ]
            ),
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(parts in prop::collection::vec(prop::collection::vec(prop::sample::select(b"ab\n\r".to_vec()), 1..9), 0..9)) {
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let found: Vec<u8> = batches(&slices, 5).iter().flatten().flat_map(|piece| bytes(piece).to_vec()).collect();
            prop_assert_eq!(found, parts.concat());
        }
    }
}
