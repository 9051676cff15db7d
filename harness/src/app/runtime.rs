//! Builds tokio runtimes.

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// For work beside entries, on a thread of its own, so that entries never wait for it.
pub fn build_background() -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("maintenance").enable_all().build().context("can't start the runtime")
}

/// For commands that do one thing after another.
pub fn build_single_threaded() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("can't start the runtime")
}
