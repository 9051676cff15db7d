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

use super::budget::BudgetShare;

const QUEUED_CHUNKS: usize = 2;

#[derive(Default)]
pub struct OutputChunk {
    pub bytes: Vec<u8>,
    pub pieces: u64,
    pub share: BudgetShare,
}

/// The output. Dropping it ends the thread once everything is written.
pub struct OutputSink {
    chunks: mpsc::Sender<OutputChunk>,
}

/// The reader of the output is gone, or writing failed.
#[derive(Debug)]
pub struct SinkClosed;

impl OutputSink {
    /// Starts writing, and counts the pieces that are written. The receiver gets the result.
    pub fn start(mut output: File, written: Arc<AtomicU64>) -> (Self, oneshot::Receiver<io::Result<()>>) {
        let (chunks, mut waiting) = mpsc::channel::<OutputChunk>(QUEUED_CHUNKS);
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
            // The channel closes before the result is sent.
            drop(waiting);
            let _ = end.send(result);
        });
        (Self { chunks }, ended)
    }

    /// Writes a chunk; waits while the reader is slow.
    pub async fn write(&self, chunk: OutputChunk) -> Result<(), SinkClosed> {
        self.chunks.send(chunk).await.map_err(|_| SinkClosed)
    }
}
