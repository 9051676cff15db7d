//! Options and arguments that several commands have, with their help texts. Those of one command are in its module.

mod conversation;
pub mod help;
pub mod parse;
mod session_file;

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand};

pub use self::{
    conversation::{AskedArguments, TranscriptArguments, WindowArguments},
    help::EXIT_CODES,
    parse::{GRACE, parse_grace_seconds},
    session_file::{ExportArguments, ExportFormat, ImportArguments, ImportFormat},
};
use self::{help::JSON_HELP, parse::parse_assignment};

/// The hidden command that compiles a plugin for another process of this program.
pub const COMPILE_COMMAND: &str = "compile-plugin";

/// The command line up to the command.
#[derive(Debug, Parser)]
struct LeadingArguments {
    #[command(flatten)]
    global: GlobalArguments,
    #[command(subcommand)]
    _command: Option<AnyCommand>,
}

#[derive(Debug, Subcommand)]
enum AnyCommand {
    #[command(external_subcommand)]
    Any(#[expect(dead_code, reason = "only what comes before it is of interest")] Vec<OsString>),
}

/// Options of all commands.
#[derive(Debug, Clone, Default, Args)]
pub struct GlobalArguments {
    // The environment is not left to clap: it takes an empty variable for an empty value, and the
    // configuration has to know who chose the profile.
    /// Read the configuration from this JSON file [env: KEEPLINE_CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration")]
    pub config: Option<PathBuf>,
    /// Start from this profile: memory, redis, custom or chat [env: KEEPLINE_PROFILE]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Configuration")]
    pub profile: Option<String>,
    /// Keep sessions in this directory; short for --set backend=directory --set directory=PATH
    #[arg(long, value_name = "PATH", global = true, help_heading = "Configuration")]
    pub dir: Option<PathBuf>,
    /// Set one field, for example --set backend=redis (may be repeated)
    #[arg(long, value_name = "FIELD=VALUE", global = true, value_parser = parse_assignment, help_heading = "Configuration")]
    pub set: Vec<(String, String)>,
    /// Run this component instead of the bundled filter: a file, oci:DIR[@sha256:…], or the @NAME of a pinned plugin [env: KEEPLINE_PLUGIN]
    #[arg(long, value_name = "PLUGIN", global = true, help_heading = "Configuration")]
    pub plugin: Option<OsString>,
    /// Run this component instead of the bundled pipelines, likewise [env: KEEPLINE_PIPELINES]
    #[arg(long, value_name = "PLUGIN", global = true, help_heading = "Configuration")]
    pub pipelines: Option<OsString>,
    /// Read pinned plugins from this file [env: KEEPLINE_TRUST] [default: plugins.json in ~/.config/keepline]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration")]
    pub trust: Option<PathBuf>,
    /// Log what is being done to stderr
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

impl GlobalArguments {
    /// Adds the fields that are set before the command. Of an option that is given before and after it, clap keeps the ones
    /// after it only: fine for one file or profile, but a field that was set must not be lost without a word.
    pub fn add_leading_fields(&mut self, arguments: &[OsString]) {
        if let Ok(leading) = LeadingArguments::try_parse_from(arguments) {
            self.set.splice(0..0, leading.global.set);
        }
    }
}

/// What a command does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAccess {
    /// It needs none.
    Untouched,
    Read,
    Change,
    Delete,
    /// May be the first to store something.
    Add,
    /// The same, and deletes what was there.
    Replace,
}

impl StoreAccess {
    /// Whether it may be the first to store something.
    pub fn adds(self) -> bool {
        matches!(self, Self::Add | Self::Replace)
    }

    /// Whether stored data are gone afterwards.
    pub fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::Replace)
    }
}

/// Of a command without options of its own.
#[derive(Debug, Args)]
pub struct JsonArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

/// Which page of a list.
#[derive(Clone, Debug, Args)]
pub struct PageArguments {
    /// Show about this many [default: 20 on a terminal, else 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: Option<u32>,
    /// Continue from here: the cursor printed with the previous page
    // A session's id may begin with a hyphen, and a cursor with one.
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "all", allow_hyphen_values = true)]
    pub cursor: String,
    /// Show all pages
    #[arg(long)]
    pub all: bool,
    /// Do not cut what is wider than the terminal
    #[arg(long)]
    pub full: bool,
}
