//! `keepline`: the command line of the library.
//!
//! The exit codes are those of [`args::EXIT_CODES`]. Results go to standard output and everything else to standard
//! error.

#![deny(clippy::multiple_inherent_impl, clippy::too_many_lines)]

mod app;
mod args;
mod commands;
mod deferred;
mod jsonl;
mod maintenance;
mod operations;
mod session_file;
mod terminal;

use std::process::ExitCode;

use app::error;
use args::{Cli, Command};
use commands::{
    completions, config, demo, explain,
    memories::{find, remember},
    plugin::{component, inspect},
    recall, run, session,
    store::{self, health, migrate, stats},
    user,
};

/// Suits entries, which are many small strings on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BENCH_MOVED: &str = "the benchmarks are a program of their own: run `make bench` in the source repository";

fn main() -> ExitCode {
    if let Some(answered) = completions::answer() {
        return answered;
    }
    let cli = Cli::read();
    if cli.answers_in_json {
        terminal::use_json();
    }
    terminal::logging::start(cli.global.verbose);
    let done = perform(cli);
    done.unwrap_or_else(|error| {
        // The reader has what it wanted: `keepline session list | head -1` is no failure.
        if error::is_closed_output(&error) {
            return ExitCode::SUCCESS;
        }
        terminal::error_with_code(&error::error_code(&error), &error::reported(&error));
        error::exit_code(&error)
    })
}

fn perform(cli: Cli) -> anyhow::Result<ExitCode> {
    if cli.command.deletes() {
        app::refuse_replaced_store(&cli.global)?;
    }
    match cli.command {
        Command::Run(arguments) => run::main(&cli.global, &arguments),
        Command::Session(arguments) => session::main(&cli.global, &arguments),
        Command::Explain(arguments) => explain::main(&cli.global, &arguments),
        Command::Recall(arguments) => recall::main(&cli.global, arguments),
        Command::Remember(arguments) => remember::main(&cli.global, &arguments),
        Command::Memories(arguments) => find::main(&cli.global, &arguments),
        Command::User(arguments) => user::main(&cli.global, &arguments),
        Command::Stats(arguments) => stats::main(&cli.global, &arguments),
        Command::Store(arguments) => store::main(&cli.global, &arguments),
        Command::Migrate(arguments) => migrate::main(&cli.global, &arguments),
        Command::Health(arguments) => health::main(&cli.global, &arguments),
        Command::Config(arguments) => config::main(&cli.global, &arguments),
        Command::Inspect(arguments) => inspect::main(&cli.global, &arguments),
        Command::Component(arguments) => component::main(&arguments),
        Command::Demo(arguments) => demo::main(&cli.global, &arguments),
        Command::Bench { .. } => Err(error::Usage(BENCH_MOVED.to_owned()).into()),
        Command::CompilePlugin { arguments } => Ok(keepline::plugin::serve_compiler(&arguments)),
        Command::Completions { shell } => completions::main(shell),
    }
}
