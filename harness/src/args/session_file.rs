//! Arguments of `keepline session export` and `keepline session import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::help::{EXPORT_HELP, IMPORT_HELP};

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
    /// Write to this file, which appears once it is complete; with --format dify, to files below this directory
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A form of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// JSON lines that `session import` restores exactly
    Keepline,
    /// Node transcripts as Dify documents: node_memory/APP/SESSION/NODE.json
    Dify,
}

#[derive(Debug, Args)]
#[command(after_long_help = IMPORT_HELP, group = clap::ArgGroup::new("source").required(true).args(["file", "from_redis"]))]
pub struct ImportArguments {
    /// The file to read, or - for standard input; for Dify, a document or a directory of documents
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The format of the sessions
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: ImportFormat,
    /// Read another program's sessions from this Redis server, without changing it
    #[arg(long, value_name = "URL")]
    pub from_redis: Option<String>,
    /// Key prefix of that program, instead of its default
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
    /// Show what would be imported without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Replace sessions that already exist
    #[arg(long)]
    pub replace: bool,
    /// Import another program's session under another id; can be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_rename)]
    pub rename: Vec<(String, String)>,
    /// Import sessions of any id, as with session_ids "hash": what is no id of ours is hashed and kept with the session
    #[arg(long)]
    pub hash_ids: bool,
    /// The user to whom another program's sessions belong if they name none
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
}

/// An id can hold any character, a new one no equals sign.
fn parse_rename(text: &str) -> Result<(String, String), String> {
    let (old, new) = text.rsplit_once('=').ok_or("it must be OLD=NEW")?;
    Ok((old.to_owned(), new.to_owned()))
}

/// Whose sessions are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Detect it from the first line, or the beginning of a JSON document
    Auto,
    /// Output of `session export`
    Keepline,
    /// LangChain chat histories
    Langchain,
    /// NeuroLink conversation memory
    Neurolink,
    /// Sessions of RocketRide's memory_persistent node
    Rocketride,
    /// Dify node memory
    Dify,
    /// ChatGPT's data export: conversations.json
    Chatgpt,
    /// Conversations in ShareGPT's form
    Sharegpt,
    /// Messages of chat APIs, or objects with `messages`, as JSON lines or as an array
    Openai,
}
