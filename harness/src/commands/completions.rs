//! Completes the command line in shells: commands, options, profiles, fields, sessions and users.
//!
//! `keepline completions SHELL` prints a script that has the shell ask this program at each completion, through
//! [`VARIABLE`]. Sessions and users are those of the store that the command line so far and the environment name. A
//! completion changes nothing, takes little more than a second, and prints no message.

use std::{
    env,
    ffi::{OsStr, OsString},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::{Command, CommandFactory, FromArgMatches};
use clap_complete::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, Shell,
    env::{CompleteEnv, Shells},
};
use keepline::{
    Deadline,
    config::{FIELDS, Kind, Profile},
    store::{BucketKind, Store},
};

use super::Cli;
use crate::{
    app::{self, runtime},
    args::Global,
    terminal,
};

/// Set by a shell that asks for completions, to the shell's name.
const VARIABLE: &str = "_KEEPLINE_COMPLETE";
/// Time limit of reading the store.
const TIMEOUT: Duration = Duration::from_secs(1);
const MOST: u32 = 1000;
/// Length of a name that is the hash of an id.
const HASH: usize = 54;

pub fn main(shell: Shell) -> Result<ExitCode> {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string()).context("there are no completions for this shell")?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "keepline", "keepline", &program(), &mut script)?;
    terminal::print(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The program as it was called: its name, or its absolute path.
fn program() -> String {
    let called = env::args().next().unwrap_or_default();
    match env::current_exe() {
        Ok(path) if called.contains('/') => path.display().to_string(),
        _ => "keepline".to_owned(),
    }
}

/// Answers a shell that asks for completions. `None`: this is not such a call.
pub fn answer() -> Option<ExitCode> {
    let arguments: Vec<_> = env::args_os().collect();
    if arguments.is_empty() {
        return None;
    }
    let directory = env::current_dir().ok();
    match CompleteEnv::with_factory(command).var(VARIABLE).try_complete(arguments, directory.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

fn command() -> Command {
    with_candidates(Cli::command())
}

fn with_candidates(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_id().as_str() {
        "session" | "sessions" => argument.add(ArgValueCandidates::new(|| buckets(BucketKind::Session))),
        "user" if argument.get_action().takes_values() => {
            argument.add(ArgValueCandidates::new(|| buckets(BucketKind::User)))
        }
        "profile" => argument.add(ArgValueCandidates::new(profiles)),
        "set" | "to" => argument.add(ArgValueCompleter::new(assignments)),
        _ => argument,
    });
    command.mut_subcommands(with_candidates)
}

fn profiles() -> Vec<CompletionCandidate> {
    Profile::ALL.into_iter().map(|profile| CompletionCandidate::new(profile.name())).collect()
}

/// Completes `FIELD=`, and `FIELD=VALUE` for a field with a few values.
fn assignments(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let found: Vec<String> = match current.split_once('=') {
        Some((name, _)) => {
            let kind = FIELDS.iter().find(|field| field.name == name).map(|field| field.kind);
            let values = match kind {
                Some(Kind::Choice(values)) => values,
                Some(Kind::Flag) => &["true", "false"],
                _ => &[],
            };
            values.iter().map(|value| format!("{name}={value}")).collect()
        }
        None => {
            let of_host = FIELDS.iter().map(|field| field.name.to_owned());
            of_host.chain(filter_fields()).map(|name| format!("{name}=")).collect()
        }
    };
    let fits = found.into_iter().filter(|text| text.starts_with(&*current));
    fits.map(CompletionCandidate::new).collect()
}

/// The fields of the configured component; empty if it can't be loaded.
fn filter_fields() -> Vec<String> {
    let global = global();
    let fields = || {
        let plugin = app::plugin(&global, &app::quiet_config(&global)?)?;
        Ok::<_, anyhow::Error>(runtime::single()?.block_on(app::filter_fields(&plugin)))
    };
    fields().unwrap_or_default()
}

/// The names of sessions or users; empty if the store can't be read.
fn buckets(kind: BucketKind) -> Vec<CompletionCandidate> {
    let names = || {
        let config = app::quiet_config(&global())?;
        let runtime = runtime::single()?;
        let page = runtime.block_on(async {
            let store: Arc<dyn Store> = app::existing_store(&config)?;
            let page =
                tokio::time::timeout(TIMEOUT, store.list_buckets(kind, "", MOST, Deadline::after(TIMEOUT))).await;
            Ok::<_, anyhow::Error>(page??)
        });
        runtime.shutdown_background();
        page
    };
    let is_hash = |name: &String| name.starts_with("h-") && name.len() == HASH;
    let names = names().map(|page| page.names).unwrap_or_default();
    names.into_iter().filter(|name| !is_hash(name)).map(CompletionCandidate::new).collect()
}

/// The words of the command line that is completed, the program's name included. Bash takes `--dir=PATH` for three
/// words.
fn words() -> Vec<OsString> {
    joined(env::args_os().skip_while(|word| word != "--").skip(1))
}

fn joined(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut is_open = false;
    for word in all {
        is_open = match words.last_mut() {
            Some(last) if word == "=" || is_open => {
                last.push(&word);
                word == "="
            }
            _ => {
                words.push(word);
                false
            }
        };
    }
    words
}

/// The options on the command line so far, which choose the configuration.
fn global() -> Global {
    options_of_unfinished(&words())
}

/// The options on a command line that need not be complete.
fn options_of_unfinished(arguments: &[OsString]) -> Global {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(arguments);
    let mut global = matches.and_then(|matches| Global::from_arg_matches(&matches)).unwrap_or_default();
    global.add_leading_fields(arguments);
    global
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_an_unfinished_command_line() {
        let global_of =
            |words: &[&str]| options_of_unfinished(&joined(["keepline"].iter().chain(words).map(OsString::from)));
        let global = global_of(&[
            "session",
            "show",
            "--dir",
            "=",
            "./mem",
            "--set",
            "redis_host",
            "=",
            "db",
            "--profile",
            "chat",
            "",
        ]);
        assert_eq!(global.dir.unwrap().to_str(), Some("./mem"));
        assert_eq!(global.set, [("redis_host".to_owned(), "db".to_owned())]);
        assert_eq!(global.profile.as_deref(), Some("chat"));
        let global = global_of(&["--set=a=b=c", "--dir"]);
        assert_eq!((global.set, global.dir), (vec![("a".to_owned(), "b=c".to_owned())], None));
    }
}
