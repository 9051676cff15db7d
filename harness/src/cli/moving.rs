//! The command lines of `keepline session export` and `keepline session import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::help::{EXPORT_HELP, IMPORT_HELP};

/// `keepline session export`.
#[derive(Debug, Args)]
#[command(after_long_help = EXPORT_HELP, group = clap::ArgGroup::new("which").required(true).args(["sessions", "all", "user"]))]
pub struct ExportArguments {
    /// The sessions' ids
    #[arg(value_name = "SESSION")]
    pub sessions: Vec<String>,
    /// Export all sessions
    #[arg(long)]
    pub all: bool,
    /// Export all sessions of this user
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// What to write
    #[arg(long, value_name = "FORMAT", default_value = "keepline")]
    pub format: ExportFormat,
    /// Write to this file, which appears when it is complete; with --format dify, to files below this directory
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A form of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// JSON lines, from which `session import` makes the same sessions again
    Keepline,
    /// The transcripts of nodes as documents of Dify: node_memory/APP/SESSION/NODE.json
    Dify,
}

/// `keepline session import`.
#[derive(Debug, Args)]
#[command(after_long_help = IMPORT_HELP, group = clap::ArgGroup::new("source").required(true).args(["file", "from_redis"]))]
pub struct ImportArguments {
    /// The file to read, or - for standard input; of Dify a document, or a directory of them
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Whose sessions they are
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: ImportFormat,
    /// Read another program's sessions from this Redis, which is not changed
    #[arg(long, value_name = "URL")]
    pub from_redis: Option<String>,
    /// What that program's keys begin with, instead of its default
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
    /// Show what would be imported, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Replace sessions that are there already
    #[arg(long)]
    pub replace: bool,
}

/// Whose sessions are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// As the first line shows
    Auto,
    /// What `session export` wrote
    Keepline,
    /// Chat histories of LangChain
    Langchain,
    /// Conversation memory of NeuroLink
    Neurolink,
    /// Sessions of RocketRide's node memory_persistent
    Rocketride,
    /// Node memory of Dify
    Dify,
}
