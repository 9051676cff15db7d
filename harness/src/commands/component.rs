//! `keepline component`: writes the bundled component to a file, for other hosts.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use keepline::plugin::BUNDLED;

use crate::{app::error::usage_error, terminal};

#[derive(Debug, Args)]
pub struct ComponentArguments {
    /// Output file, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

pub fn main(arguments: &ComponentArguments) -> Result<ExitCode> {
    let path = &arguments.output;
    if path == "-" {
        if terminal::is_terminal_output() {
            return Err(usage_error("not writing a binary component to a terminal; give a file or a pipe"));
        }
        terminal::print_bytes(BUNDLED)?;
        return Ok(ExitCode::SUCCESS);
    }
    std::fs::write(path, BUNDLED).with_context(|| format!("can't write {}", path.display()))?;
    terminal::print_to_stderr(&format!("{}: {} bytes", path.display(), BUNDLED.len()));
    Ok(ExitCode::SUCCESS)
}
