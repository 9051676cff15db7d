//! Writes the output on a thread of its own, because a slow or stopped reader blocks writes and must not keep the
//! process from handling signals.
//!
//! Nothing is buffered here.

use std::{
    fs::File,
    io,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use tokio::sync::{mpsc, oneshot};

use super::budget::Share;

/// Chunks that may wait.
const WAITING: usize = 2;

/// Pieces of output, one after the other.
#[derive(Default)]
pub struct Chunk {
    /// All of them.
    pub bytes: Vec<u8>,
    /// How many.
    pub pieces: u64,
    /// Of the budget, given back when they are written.
    pub share: Share,
}

/// Where output goes. Dropped, it ends once all is written.
pub struct Sink {
    chunks: mpsc::Sender<Chunk>,
}

/// Nobody reads the output any more, or it failed.
#[derive(Debug)]
pub struct Closed;

impl Sink {
    /// Start to write, and count the pieces that are out. The receiver tells how it ended.
    pub fn start(mut output: File, written: Arc<AtomicU64>) -> (Self, oneshot::Receiver<io::Result<()>>) {
        let (chunks, mut waiting) = mpsc::channel::<Chunk>(WAITING);
        let (end, ended) = oneshot::channel();
        thread::spawn(move || {
            let mut result = Ok(());
            while result.is_ok()
                && let Some(chunk) = waiting.blocking_recv()
            {
                result = output.write_all(&chunk.bytes);
                if result.is_ok() {
                    written.fetch_add(chunk.pieces, Ordering::Relaxed);
                }
            }
            // Before the news of the end, so that whoever hears it finds the channel closed.
            drop(waiting);
            let _ = end.send(result);
        });
        (Self { chunks }, ended)
    }

    /// Hand a chunk over; waits while the reader is slow.
    pub async fn write(&self, chunk: Chunk) -> Result<(), Closed> {
        self.chunks.send(chunk).await.map_err(|_| Closed)
    }
}
