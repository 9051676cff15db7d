//! Reads how much memory a process holds.

use std::fs;

use anyhow::{Context, Result};

/// Resident MiB of the process with this id.
///
/// # Errors
/// When there is no such process, or the system has no `/proc`.
pub fn resident_mib(process: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("no VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}
