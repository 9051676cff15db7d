//! Completes the command line in shells: commands, options, profiles, fields, pinned plugins, sessions and users.
//!
//! `keepline completions SHELL` prints a script that has the shell ask this program at each completion, through
//! [`COMPLETION_VARIABLE`]. Sessions and users are those of the store that the command line so far and the environment name. A
//! completion changes nothing, takes little more than a second, and prints no message.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::Path,
    process::ExitCode,
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::{Command, FromArgMatches};
use clap_complete::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, Shell,
    engine::{ValueCompleter as _, complete},
    env::{self as shells, CompleteEnv, EnvCompleter, Shells},
};
use keepline::{
    Deadline,
    config::{FIELDS, Kind, Profile},
    store::kind,
};

use crate::{
    app::{self, runtime},
    args::GlobalArguments,
    terminal,
};

/// Set by a shell that asks for completions, to the shell's name.
const COMPLETION_VARIABLE: &str = "_KEEPLINE_COMPLETE";

const SHELLS: Shells<'static> = Shells(&[&Bash, &shells::Elvish, &shells::Fish, &shells::Powershell, &shells::Zsh]);

/// The options on the command line that is completed, which choose the configuration.
static GLOBAL: OnceLock<GlobalArguments> = OnceLock::new();
/// Time limit of reading the store.
const TIMEOUT: Duration = Duration::from_secs(1);
const MAX_CANDIDATES: u32 = 1000;
/// Length of a name that is the hash of an id.
const HASHED_NAME_BYTES: usize = 54;

pub fn main(shell: Shell) -> Result<ExitCode> {
    let completer = SHELLS.completer(&shell.to_string()).context("there are no completions for this shell")?;
    let mut script = Vec::new();
    completer.write_registration(COMPLETION_VARIABLE, "keepline", "keepline", &called_program(), &mut script)?;
    terminal::print_bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The program as it was called: its name, or its absolute path.
fn called_program() -> String {
    let called = env::args().next().unwrap_or_default();
    match env::current_exe() {
        Ok(path) if called.contains('/') => path.display().to_string(),
        _ => "keepline".to_owned(),
    }
}

/// Answers a shell that asks for completions. `None`: this is not such a call. `command_line` makes the program's command
/// line, which names all commands, this one among them.
pub fn answer_completion_request(command_line: fn() -> Command) -> Option<ExitCode> {
    env::var_os(COMPLETION_VARIABLE)?;
    let arguments: Vec<_> = env::args_os().collect();
    if arguments.is_empty() {
        return None;
    }
    // The words of the command line that is completed, the program's name included.
    let (words, _) = join_at_signs(arguments.iter().skip_while(|word| *word != "--").skip(1).cloned().collect(), 0);
    let words = join_at_equals_signs(words.iter());
    GLOBAL.get_or_init(|| options_of_unfinished(command_line(), &words));
    let completer =
        CompleteEnv::with_factory(|| with_candidates(command_line())).var(COMPLETION_VARIABLE).shells(SHELLS);
    match completer.try_complete(arguments, env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

fn with_candidates(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_id().as_str() {
        "session" | "sessions" => argument.add(ArgValueCandidates::new(|| bucket_candidates(kind::SESSION))),
        "user" if argument.get_action().takes_values() => {
            argument.add(ArgValueCandidates::new(|| bucket_candidates(kind::USER)))
        }
        "pinned" => argument.add(ArgValueCandidates::new(|| pinned_candidates(""))),
        "plugin" | "pipelines" | "component" => argument.add(ArgValueCompleter::new(plugin_candidates)),
        "profile" => argument.add(ArgValueCandidates::new(profile_candidates)),
        "set" | "to" => argument.add(ArgValueCompleter::new(assignment_candidates)),
        _ => argument,
    });
    command.mut_subcommands(with_candidates)
}

fn profile_candidates() -> Vec<CompletionCandidate> {
    Profile::ALL.into_iter().map(|profile| CompletionCandidate::new(profile.name())).collect()
}

/// The names of pinned plugins, after `prefix`; empty if the trust file can't be read.
fn pinned_candidates(prefix: &str) -> Vec<CompletionCandidate> {
    let plugins = || app::trust_file(GLOBAL.get().context("no command line is completed")?)?.read();
    let plugins = plugins().unwrap_or_default();
    plugins.iter().map(|plugin| CompletionCandidate::new(format!("{prefix}{}", plugin.name))).collect()
}

/// Completes what stands for a component: `@NAME`, or a file.
fn plugin_candidates(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let mut candidates = pinned_candidates("@");
    candidates.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(&*text));
    candidates.extend(PathCompleter::any().complete(current));
    candidates
}

/// Completes `FIELD=`, and `FIELD=VALUE` for a field with a few values.
fn assignment_candidates(current: &OsStr) -> Vec<CompletionCandidate> {
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
            of_host.chain(configured_filter_fields()).map(|name| format!("{name}=")).collect()
        }
    };
    let fits = found.into_iter().filter(|text| text.starts_with(&*current));
    fits.map(CompletionCandidate::new).collect()
}

/// The fields of the configured component; empty if it can't be loaded.
fn configured_filter_fields() -> Vec<String> {
    let fields = || {
        let global = GLOBAL.get().context("no command line is completed")?;
        let plugin = app::load_plugin(global, &app::quiet_config(global)?)?;
        anyhow::Ok(runtime::build_single_threaded()?.block_on(app::list_filter_fields(&plugin)))
    };
    fields().unwrap_or_default()
}

/// The names of sessions or users; empty if the store can't be read.
fn bucket_candidates(kind: &str) -> Vec<CompletionCandidate> {
    let names = || {
        let config = app::quiet_config(GLOBAL.get().context("no command line is completed")?)?;
        let runtime = runtime::build_single_threaded()?;
        let page = runtime.block_on(async {
            let store = app::open_existing_store(&config)?;
            let listing = store.list_buckets(kind, "", MAX_CANDIDATES, Deadline::after(TIMEOUT));
            anyhow::Ok(tokio::time::timeout(TIMEOUT, listing).await??)
        });
        runtime.shutdown_background();
        page
    };
    let is_hash = |name: &String| name.starts_with("h-") && name.len() == HASHED_NAME_BYTES;
    let names = names().map(|page| page.names).unwrap_or_default();
    names.into_iter().filter(|name| !is_hash(name)).map(CompletionCandidate::new).collect()
}

/// Bash, which takes `@` for the end of a word.
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        shells::Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        shells::Bash.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        shells::Bash.write_registration(variable, name, program, completer, out)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        // As the script of `write_registration` sets them.
        let index = env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok()).unwrap_or_default();
        let separator = env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
        let (words, index) = join_at_signs(words, index);
        let found = complete(command, words, index, folder)?;
        let found: Vec<_> = found.iter().map(|candidate| candidate.get_value().to_string_lossy()).collect();
        out.write_all(found.join(&separator).as_bytes())
    }
}

/// Joins what Bash takes for two words, `@` and `NAME`; the one at `index`, which is completed, has its `@` already. Returns
/// the index of that word, too.
fn join_at_signs(all: Vec<OsString>, index: usize) -> (Vec<OsString>, usize) {
    let (mut words, mut moved): (Vec<OsString>, _) = (Vec::new(), 0);
    for (at, word) in all.into_iter().enumerate() {
        match words.last_mut().filter(|last| *last == "@") {
            Some(last) => {
                *last = if word.to_string_lossy().starts_with('@') {
                    word
                } else {
                    [&**last, &*word].into_iter().collect()
                };
                moved += usize::from(at <= index);
            }
            None => words.push(word),
        }
    }
    (words, index.saturating_sub(moved))
}

/// Joins what Bash takes for three words: `--dir=PATH`.
fn join_at_equals_signs<'a>(all: impl Iterator<Item = &'a OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut is_open = false;
    for word in all {
        is_open = match words.last_mut() {
            Some(last) if word == "=" || is_open => {
                last.push(word);
                word == "="
            }
            _ => {
                words.push(word.clone());
                false
            }
        };
    }
    words
}

/// The options on a command line that need not be complete.
fn options_of_unfinished(command_line: Command, arguments: &[OsString]) -> GlobalArguments {
    let matches = command_line.ignore_errors(true).try_get_matches_from(arguments);
    let mut global = matches.and_then(|matches| GlobalArguments::from_arg_matches(&matches)).unwrap_or_default();
    global.add_leading_fields(arguments);
    global
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::Cli;

    #[test]
    fn a_name_after_an_at_sign_is_one_word() {
        let words = |words: &[&str]| -> Vec<OsString> { words.iter().map(OsString::from).collect() };
        for (given, index, expected, moved) in [
            (&["k", "run", "--plugin", "@", "@m"][..], 4, &["k", "run", "--plugin", "@m"][..], 3),
            (&["k", "run", "--plugin", "@"], 3, &["k", "run", "--plugin", "@"], 3),
            (&["k", "--plugin", "@", "mine", "session", ""], 5, &["k", "--plugin", "@mine", "session", ""], 4),
            (&["k", "--plugin", "@mine", ""], 3, &["k", "--plugin", "@mine", ""], 3),
        ] {
            assert_eq!(join_at_signs(words(given), index), (words(expected), moved), "{given:?}");
        }
    }

    #[test]
    fn options_are_read_from_an_unfinished_command_line() {
        let global_of = |words: &[&str]| {
            let words: Vec<OsString> = ["keepline"].iter().chain(words).map(OsString::from).collect();
            options_of_unfinished(Cli::command(), &join_at_equals_signs(words.iter()))
        };
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
