//! `keepline component`: writes a bundled component to a file, for other hosts.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use keepline::plugin::{BUNDLED, BUNDLED_PIPELINES};

use crate::{app::error::usage_error, terminal};

#[derive(Debug, Args)]
pub struct ComponentArguments {
    /// Output file, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Which component
    #[arg(long, value_enum, default_value_t = World::Filter)]
    pub world: World,
}

/// What a bundled component is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum World {
    /// Questions and answers: the world memory-filter
    Filter,
    /// Declared retrieval: the world pipelines
    Pipelines,
}

pub fn main(arguments: &ComponentArguments) -> Result<ExitCode> {
    let path = &arguments.output;
    let component = match arguments.world {
        World::Filter => BUNDLED,
        World::Pipelines => BUNDLED_PIPELINES,
    };
    if path == "-" {
        if terminal::is_terminal_output() {
            return Err(usage_error("not writing a binary component to a terminal; give a file or a pipe"));
        }
        terminal::print_bytes(component)?;
        return Ok(ExitCode::SUCCESS);
    }
    std::fs::write(path, component).with_context(|| format!("can't write {}", path.display()))?;
    terminal::print_to_stderr(&format!("{}: {} bytes", path.display(), component.len()));
    Ok(ExitCode::SUCCESS)
}
