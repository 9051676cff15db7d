//! `keepline`: the harness. Lanes, files, flags and people; what a pipeline does with entries is the
//! library's and the component's.
//!
//! Promises the exit codes of [`cli::EXIT_CODES`], results on standard output and everything else on
//! standard error.

mod bench;
mod cli;
mod component;
mod config;
mod demo;
mod ending;
mod error;
mod inspect;
mod json_text;
mod migrate;
mod run;
mod runtime;
mod session;
mod setup;
mod terminal;

use std::process::ExitCode;

use clap::CommandFactory;

use cli::{Cli, Command};

/// Entries come and go as many small strings, on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::read();
    if cli.command.answers_in_json() {
        terminal::speak_json();
    }
    terminal::start_logging(cli.global.verbose);
    let done = match cli.command {
        Command::Run(arguments) => run::main(&cli.global, &arguments),
        Command::Session(arguments) => session::main(&cli.global, &arguments),
        Command::Migrate(arguments) => migrate::main(&cli.global, &arguments),
        Command::Config(arguments) => config::main(&cli.global, &arguments),
        Command::Inspect(arguments) => inspect::main(&cli.global, &arguments),
        Command::Component(arguments) => component::main(&arguments),
        Command::Demo(arguments) => demo::main(&cli.global, &arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::Completions { shell } => completions(shell),
    };
    done.unwrap_or_else(|error| {
        // The reader has what it wanted: `keepline session list | head -1` is no failure.
        if error::is_closed_output(&error) {
            return ExitCode::SUCCESS;
        }
        terminal::error_with_code(&error::error_code(&error), &format!("{error:#}"));
        error::exit_code(&error)
    })
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "keepline", &mut script);
    terminal::print(&script)?;
    Ok(ExitCode::SUCCESS)
}
