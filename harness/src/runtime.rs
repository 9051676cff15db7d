//! Runtimes of tokio.

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

/// For commands that do one thing after another.
pub fn single() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("can't start the runtime")
}
