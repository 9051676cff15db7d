//! The commands, one module each, grouped where several are about one thing. No group imports another.
//!
//! A command is its module, with its arguments and what it does, and its variant here.

pub mod completions;
pub mod config;
pub mod demo;
pub mod explain;
pub mod memories;
pub mod pipeline;
pub mod plugin;
pub mod recall;
pub mod remember;
pub mod run;
pub mod service;
pub mod session;
pub mod store;
pub mod user;

use std::{
    env,
    ffi::OsString,
    process::{self, ExitCode},
};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::{
    config::ConfigArguments,
    demo::DemoArguments,
    explain::ExplainArguments,
    memories::{MEMORIES_HELP, MemoriesArguments},
    pipeline::arguments::PipelineArguments,
    plugin::{
        PluginArguments,
        component::{self, ComponentArguments},
        inspect::{self, InspectArguments},
        new::{self, NewArguments},
    },
    recall::RecallArguments,
    remember::{REMEMBER_HELP, RememberArguments},
    run::arguments::RunArguments,
    service::{
        key::{self, KeyArguments},
        serve::{self, SERVE_HELP, ServeArguments},
    },
    session::arguments::SessionArguments,
    store::{
        StoreArguments, StoreCommand,
        health::{self, HEALTH_HELP},
        migrate::{self, MIGRATE_HELP, MigrateArguments},
        stats,
    },
    user::UserArguments,
};
use crate::{
    app::{self, error::usage_error},
    args::{
        COMPILE_COMMAND, EXIT_CODES, GlobalArguments, JsonArguments,
        help::{CONFIGURATION, JSON_MESSAGES, KEEPING, fields_help},
    },
    terminal,
};

const BENCH_MOVED: &str = "the benchmarks are a program of their own: run `make bench` in the source repository";

/// Persistent memory for LLM pipelines.
///
/// A filter between a pipeline and its model: questions pass through it and gain what their session
/// remembers; answers pass through it on the way back and are remembered.
#[derive(Debug, Parser)]
#[command(name = "keepline", version, max_term_width = 100, after_help = format!("{KEEPING}\n\n{CONFIGURATION}\n\n{EXIT_CODES}"))]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: Command,
    /// Whether scripts read what the command says.
    #[arg(skip)]
    pub answers_in_json: bool,
}

impl Cli {
    /// Reads the command line; ends the process when it is wrong or asks for help.
    pub fn parse_or_exit() -> Self {
        let arguments: Vec<OsString> = env::args_os().collect();
        Self::parsed(&arguments).unwrap_or_else(|error| {
            // Nothing says for sure that JSON was meant: the command line can't be read.
            let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
            if !error.use_stderr() || !arguments.any(|argument| argument == "--json") {
                error.exit();
            }
            terminal::print_messages_as_json();
            terminal::print_error_with_code("usage", &first_paragraph(&error.to_string()));
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

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pass JSON lines through the filter: questions get their session's memory, answers are remembered
    Run(RunArguments),
    /// Serve memory over HTTP: REST, events and a page
    #[command(after_help = SERVE_HELP, after_long_help = format!("{SERVE_HELP}\n\n{EXIT_CODES}"))]
    Serve(ServeArguments),
    /// Make, list and revoke the keys that a service asks for
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Key(KeyArguments),
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
    /// Work with pipelines: memories that are declared, what they contribute, and their data
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Pipeline(PipelineArguments),
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
    /// Pin components under names: --plugin @NAME then runs exactly the pinned bytes
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Plugin(PluginArguments),
    /// Make a project: a plugin of your own
    New(NewArguments),
    /// Write a bundled component, or the contract, to a file or an OCI image layout
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
    /// Print a script that completes commands, profiles, fields, plugins, sessions and users in a shell
    #[command(after_help = "For example, in ~/.bashrc: source <(keepline completions bash)")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether each request that is served is logged.
    pub fn logs_requests(&self) -> bool {
        matches!(self, Self::Serve(arguments) if arguments.access_log)
    }

    /// Whether stored data are gone afterwards: of such a command the store must be the one that its user means.
    pub fn deletes_stored_data(&self) -> bool {
        match self {
            Self::Session(arguments) => arguments.command.store_access().deletes(),
            Self::User(arguments) => arguments.command.store_access().deletes(),
            Self::Pipeline(arguments) => arguments.command.store_access().deletes(),
            Self::Store(arguments) => matches!(arguments.command, StoreCommand::Repair),
            Self::Migrate(arguments) => arguments.delete,
            Self::Run(_)
            | Self::Serve(_)
            | Self::Key(_)
            | Self::Explain(_)
            | Self::Recall(_)
            | Self::Remember(_)
            | Self::Memories(_)
            | Self::Stats(_)
            | Self::Health(_)
            | Self::Config(_)
            | Self::Inspect(_)
            | Self::Plugin(_)
            | Self::New(_)
            | Self::Bench { .. }
            | Self::Component(_)
            | Self::Demo(_)
            | Self::CompilePlugin { .. }
            | Self::Completions { .. } => false,
        }
    }
}

/// Runs the command of a command line.
pub fn run_command(cli: Cli) -> anyhow::Result<ExitCode> {
    if cli.command.deletes_stored_data() {
        app::refuse_replaced_store(&cli.global)?;
    }
    match cli.command {
        Command::Run(arguments) => run::main(&cli.global, &arguments),
        Command::Serve(arguments) => serve::main(&cli.global, &arguments),
        Command::Key(arguments) => key::main(&arguments),
        Command::Session(arguments) => session::main(&cli.global, &arguments),
        Command::Explain(arguments) => explain::main(&cli.global, &arguments),
        Command::Recall(arguments) => recall::main(&cli.global, arguments),
        Command::Remember(arguments) => remember::main(&cli.global, &arguments),
        Command::Memories(arguments) => memories::main(&cli.global, &arguments),
        Command::User(arguments) => user::main(&cli.global, &arguments),
        Command::Pipeline(arguments) => pipeline::main(&cli.global, &arguments),
        Command::Stats(arguments) => stats::main(&cli.global, &arguments),
        Command::Store(arguments) => store::main(&cli.global, &arguments),
        Command::Migrate(arguments) => migrate::main(&cli.global, &arguments),
        Command::Health(arguments) => health::main(&cli.global, &arguments),
        Command::Config(arguments) => config::main(&cli.global, &arguments),
        Command::Inspect(arguments) => inspect::main(&cli.global, &arguments),
        Command::Plugin(arguments) => plugin::main(&cli.global, &arguments),
        Command::New(arguments) => new::main(&arguments),
        Command::Component(arguments) => component::main(&arguments),
        Command::Demo(arguments) => demo::main(&cli.global, &arguments),
        Command::Bench { .. } => Err(usage_error(BENCH_MOVED)),
        Command::CompilePlugin { arguments } => Ok(keepline::plugin::serve_compiler(&arguments)),
        Command::Completions { shell } => completions::main(shell),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn indented_lines_of_run_and_migrate_fit_eighty_columns() {
        for name in ["run", "migrate"] {
            let command_line = Cli::command();
            let help = command_line.find_subcommand(name).unwrap().get_after_help().unwrap().to_string();
            for line in help.lines() {
                assert!(!line.starts_with(' ') || line.chars().count() <= 80, "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_usage_error_fits_on_one_line() {
        let error = Cli::try_parse_from(["keepline", "session", "show"]).unwrap_err();
        let told = first_paragraph(&error.to_string());
        assert!(told.starts_with("the following required arguments") && told.ends_with("<SESSION>"), "{told}");
        assert!(!told.contains('\n'));
    }
}
