//! The command line, parsed by clap. Its help texts are its documentation.

mod commands;
mod conversation;
mod help;
mod memories;
mod parse;
mod recall;
mod session;
mod session_file;
mod store;
mod user;

use std::{env, ffi::OsString, path::PathBuf, process};

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::{
    commands::{
        ComponentArguments, ConfigArguments, DemoArguments, InspectArguments, JsonArguments, MigrateArguments,
        RunArguments,
    },
    conversation::{
        AppendArguments, AskedArguments, ConversationCommand, ExplainArguments, GrepArguments, SettingsArguments,
        TranscriptArguments, WindowArguments,
    },
    help::EXIT_CODES,
    memories::{MemoriesArguments, RememberArguments},
    parse::GRACE,
    recall::{EvaluateArguments, LookArguments, RebuildArguments, RecallArguments, RecallCommand},
    session::{ListArguments, PageArguments, SessionArguments, SessionCommand},
    session_file::{ExportArguments, ExportFormat, ImportArguments, ImportFormat},
    store::{StoreArguments, StoreCommand},
    user::{UserArguments, UserCommand},
};
use self::{
    help::{CONFIGURATION, HEALTH_HELP, JSON_MESSAGES, KEEPING, MIGRATE_HELP, fields_help},
    memories::{MEMORIES_HELP, REMEMBER_HELP},
    parse::assignment,
};
use crate::terminal;

/// The hidden command that compiles a plugin for another process of this program.
pub const COMPILE_COMMAND: &str = "compile-plugin";

/// Persistent memory for LLM pipelines.
///
/// A filter between a pipeline and its model: questions pass through it and gain what their session
/// remembers; answers pass through it on the way back and are remembered.
#[derive(Debug, Parser)]
#[command(name = "keepline", version, max_term_width = 100, after_help = format!("{KEEPING}\n\n{CONFIGURATION}\n\n{EXIT_CODES}"))]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
    /// Whether scripts read what the command says.
    #[arg(skip)]
    pub answers_in_json: bool,
}

impl Cli {
    /// Reads the command line; ends the process when it is wrong or asks for help.
    pub fn read() -> Self {
        let arguments: Vec<OsString> = env::args_os().collect();
        Self::parsed(&arguments).unwrap_or_else(|error| {
            // Nothing says for sure that JSON was meant: the command line can't be read.
            let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
            if !error.use_stderr() || !arguments.any(|argument| argument == "--json") {
                error.exit();
            }
            terminal::use_json();
            terminal::error_with_code("usage", &first_paragraph(&error.to_string()));
            process::exit(error.exit_code());
        })
    }

    fn parsed(arguments: &[OsString]) -> clap::error::Result<Self> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(arguments)?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        cli.answers_in_json = has_json(&matches);
        cli.global.add_leading_fields(arguments);
        Ok(cli)
    }
}

/// Whether a command, or its subcommand, was given `--json`.
fn has_json(matches: &ArgMatches) -> bool {
    let given = matches.try_get_one("json").ok().flatten().copied().unwrap_or_default();
    given || matches.subcommand().is_some_and(|(_, inner)| has_json(inner))
}

/// What clap says is wrong, on one line, without the usage that it adds for people.
fn first_paragraph(rendered: &str) -> String {
    let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// The command line up to the command.
#[derive(Debug, Parser)]
struct Leading {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    _command: Option<AnyCommand>,
}

#[derive(Debug, Subcommand)]
enum AnyCommand {
    #[command(external_subcommand)]
    Any(#[expect(dead_code, reason = "only what comes before it is of interest")] Vec<OsString>),
}

/// Options of all commands.
#[derive(Debug, Default, Args)]
pub struct Global {
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
    #[arg(long, value_name = "FIELD=VALUE", global = true, value_parser = assignment, help_heading = "Configuration")]
    pub set: Vec<(String, String)>,
    /// Run this component instead of the bundled filter [env: KEEPLINE_PLUGIN]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration")]
    pub plugin: Option<PathBuf>,
    /// Log what is being done to stderr
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

impl Global {
    /// The options on a command line that need not be complete.
    pub fn of_unfinished(arguments: &[OsString]) -> Self {
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(arguments);
        let mut global = matches.and_then(|matches| Self::from_arg_matches(&matches)).unwrap_or_default();
        global.add_leading_fields(arguments);
        global
    }

    /// Adds the fields that are set before the command. Of an option that is given before and after it, clap keeps the ones
    /// after it only: fine for one file or profile, but a field that was set must not be lost without a word.
    fn add_leading_fields(&mut self, arguments: &[OsString]) {
        if let Ok(leading) = Leading::try_parse_from(arguments) {
            self.set.splice(0..0, leading.global.set);
        }
    }
}

/// What a command does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Change,
    Delete,
    /// May be the first to store something.
    Add,
    /// The same, and deletes what was there.
    Replace,
}

impl Access {
    /// Whether it may be the first to store something.
    pub fn adds(self) -> bool {
        matches!(self, Self::Add | Self::Replace)
    }

    /// Whether stored data are gone afterwards.
    pub fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::Replace)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pass JSON lines through the filter: questions get their session's memory, answers are remembered
    Run(RunArguments),
    /// Inspect and edit sessions
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Session(SessionArguments),
    /// Show what the next question of a session would get, and why
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Explain(ExplainArguments),
    /// Show what a question would recall, rebuild the index, or measure how much is found
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Recall(RecallArguments),
    /// Store the newest exchange of a conversation as a memory of a user
    #[command(after_help = REMEMBER_HELP, after_long_help = format!("{REMEMBER_HELP}\n\n{JSON_MESSAGES}"))]
    Remember(RememberArguments),
    /// Find memories of a user: past questions with their answers
    #[command(after_help = MEMORIES_HELP, after_long_help = format!("{MEMORIES_HELP}\n\n{JSON_MESSAGES}"))]
    Memories(MemoriesArguments),
    /// Inspect, edit and forget users
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    User(UserArguments),
    /// Count sessions, nodes and users, and their contents
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Stats(JsonArguments),
    /// Maintain a store: check and repair it; compact, back up and restore a directory
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Store(StoreArguments),
    /// Copy sessions from one store to another: a directory, a Redis server, a Redis Cluster, another prefix
    #[command(after_help = MIGRATE_HELP, after_long_help = format!("{MIGRATE_HELP}\n\n{JSON_MESSAGES}"))]
    Migrate(MigrateArguments),
    /// Check whether the store can be reached, and how fast it answers
    #[command(after_help = HEALTH_HELP, after_long_help = format!("{HEALTH_HELP}\n\n{JSON_MESSAGES}"))]
    Health(JsonArguments),
    /// Show the effective configuration and the source of each value
    #[command(after_long_help = fields_help())]
    Config(ConfigArguments),
    /// Inspect a component: its imports, its measures, and whether this host would load it
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Inspect(InspectArguments),
    /// Write the bundled component to a file
    Component(ComponentArguments),
    /// Play a sample conversation and show what is remembered
    Demo(DemoArguments),
    /// Say where the benchmarks are now
    #[command(hide = true)]
    Bench {
        /// Ignored
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Compile the plugin on standard input, within limits, for another process of this program
    #[command(name = COMPILE_COMMAND, hide = true)]
    CompilePlugin {
        /// As that process gives them
        arguments: Vec<OsString>,
    },
    /// Print a script that completes commands, profiles, fields, sessions and users in a shell
    #[command(after_help = "For example, in ~/.bashrc: source <(keepline completions bash)")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether stored data are gone afterwards: of such a command the store must be the one that its user means.
    pub fn deletes(&self) -> bool {
        match self {
            Self::Session(arguments) => arguments.command.access().deletes(),
            Self::User(arguments) => arguments.command.access().deletes(),
            Self::Store(arguments) => matches!(arguments.command, StoreCommand::Repair),
            Self::Migrate(arguments) => arguments.delete,
            Self::Run(_)
            | Self::Explain(_)
            | Self::Recall(_)
            | Self::Remember(_)
            | Self::Memories(_)
            | Self::Stats(_)
            | Self::Health(_)
            | Self::Config(_)
            | Self::Inspect(_)
            | Self::Bench { .. }
            | Self::Component(_)
            | Self::Demo(_)
            | Self::CompilePlugin { .. }
            | Self::Completions { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_usage_error_fits_on_one_line() {
        let error = Cli::try_parse_from(["keepline", "session", "show"]).unwrap_err();
        let told = first_paragraph(&error.to_string());
        assert!(told.starts_with("the following required arguments") && told.ends_with("<SESSION>"), "{told}");
        assert!(!told.contains('\n'));
    }
}
