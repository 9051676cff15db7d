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
use clap::CommandFactory;
use commands::{Cli, completions};

/// Suits entries, which are many small strings on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(answered) = completions::answer_completion_request(Cli::command) {
        return answered;
    }
    let cli = Cli::parse_or_exit();
    if cli.answers_in_json {
        terminal::print_messages_as_json();
    }
    terminal::logging::start_logging(cli.global.verbose, cli.command.logs_requests());
    let done = commands::run_command(cli);
    done.unwrap_or_else(|error| {
        // The reader has what it wanted: `keepline session list | head -1` is no failure.
        if error::is_closed_output(&error) {
            return ExitCode::SUCCESS;
        }
        let (code, message) = (error::error_code(&error), error::format_with_store_address(&error));
        terminal::print_error_with_details(&code, &message, error::error_details(&error));
        error::exit_code(&error)
    })
}
