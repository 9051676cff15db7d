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

/// Starts writing chunks, and counts the pieces that are written. The thread ends once the sender is dropped and everything
/// is written, or when the reader of the output is gone; the receiver gets the result.
pub fn start_writing(
    mut output: File,
    written: Arc<AtomicU64>,
) -> (mpsc::Sender<OutputChunk>, oneshot::Receiver<io::Result<()>>) {
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
    (chunks, ended)
}
