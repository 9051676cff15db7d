//! `keepline demo`: shows on one screen what the filter does, with real entries, real times and a real crash.
//!
//! Ignores the user's configuration, directories and Redis, and keeps nothing.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use keepline::{
    Keepline, Plugin, Sandbox,
    config::{Config, Sources},
    pipe::Effect,
    plugin::{BUNDLED, inspect},
    store::Store,
};
use keepline_local_redis::RedisServer;
use keepline_service::jsonl::entry::{Entry, Lane};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    app::{self, PluginSource, error::UsageError, runtime, shutdown},
    args::GlobalArguments,
    terminal::{escape_unprintable, print_line},
};

#[derive(Debug, Args)]
pub struct DemoArguments {
    /// A conversation as JSON lines; defaults to a bundled support-desk conversation
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

const BUNDLED_CHAT: &str = include_str!("../../../examples/support-chat.jsonl");
const BUNDLED_NAME: &str = "examples/support-chat.jsonl";
/// Turns that are shown; the output has to fit a screen of 80 columns.
const MAX_ROWS: usize = 10;

pub fn main(global: &GlobalArguments, arguments: &DemoArguments) -> Result<ExitCode> {
    let (name, chat) = match &arguments.file {
        None => (BUNDLED_NAME.to_owned(), BUNDLED_CHAT.to_owned()),
        Some(path) => {
            let read = fs::read_to_string(path);
            let name = path.display().to_string();
            (name.clone(), read.map_err(|error| UsageError(format!("can't read {name}: {error}")))?)
        }
    };
    let lines: Vec<&str> = chat.lines().collect();
    let source = app::plugin_source(global)?;
    let config = Config::resolve(Sources::default())?;
    let started = Instant::now();
    let plugin = app::load_plugin(global, &config)?;
    print_introduction(source.as_ref(), &app::configured_sandbox(&config)?, started.elapsed())?;
    let options = source.map(|source| source.options()).unwrap_or_default();

    // One for the times, one for the crash: the processes must find only what they stored.
    let directories = tempfile::tempdir().context("can't create a temporary directory")?;
    let removed = directories.path().to_owned();
    // If it is missing, it need not be removed.
    shutdown::stop_servers_on_signal(move || _ = fs::remove_dir_all(removed))?;
    let redis = RedisServer::is_installed().then(RedisServer::start).transpose();
    let runtime = runtime::build_single_threaded()?;
    let redis_fields = |server: &RedisServer| [("backend", "redis".to_owned()), ("redis_url", server.url())];
    let play = |store| runtime.block_on(play_conversation(&plugin, store, &lines));
    let memory = play(config.store()?)?;
    let directory = play(open_store(&directory_fields(&directories, "timed")?)?)?;
    let over_redis = match &redis {
        Ok(Some(server)) => play(open_store(&redis_fields(server))?).ok(),
        _ => None,
    };
    print_turns(&name, &[Some(&memory), Some(&directory), over_redis.as_ref()])?;
    print_line("")?;
    let fields = directory_fields(&directories, "crash")?;
    demonstrate_crash("In a directory", &fields, &options, &lines)?;
    match &redis {
        Ok(Some(server)) => demonstrate_crash("Over Redis", &redis_fields(server), &options, &lines)?,
        Ok(None) => print_line("\nWith a redis-server installed, this demo shows the same over Redis.")?,
        Err(error) => print_line(&format!("\nRedis is not available, so its part is skipped: {error:#}"))?,
    }
    print_line(&format!(
        "\nTry next:  keepline run {} --dir ./memory --summary\n           keepline session list --dir ./memory",
        escape_unprintable(&name)
    ))?;
    directories.close().context("can't remove the demo's temporary directory")?;
    Ok(ExitCode::SUCCESS)
}

/// The fields of the configuration that choose a store in which sessions outlive a process.
type StoreFields = [(&'static str, String); 2];

fn directory_fields(parent: &TempDir, name: &str) -> Result<StoreFields> {
    let path = parent.path().join(name);
    let path = path.to_str().context("the temporary directory's path is not UTF-8")?;
    Ok([("backend", "directory".to_owned()), ("directory", path.to_owned())])
}

/// The store for measuring times. In Redis it has a prefix of its own, so that the processes later find nothing.
fn open_store(fields: &StoreFields) -> Result<Arc<dyn Store>> {
    let mut set = fields.each_ref().map(|(name, text)| ((*name).to_owned(), text.clone())).to_vec();
    set.push(("key_prefix".to_owned(), "keepline:demo".to_owned()));
    Ok(Config::resolve(Sources { set, ..Sources::default() })?.store()?)
}

fn print_introduction(source: Option<&PluginSource>, sandbox: &Sandbox, took: Duration) -> Result<()> {
    let found = match source {
        Some(source) => inspect(&source.read(&sandbox.plugin)?.bytes, sandbox)?,
        None => inspect(BUNDLED, sandbox)?,
    };
    // Interfaces of one package stand together, and their names are enough here.
    let package = |import: &str| import.split(['/', '@']).next().unwrap_or_default().to_owned();
    let mut imports: Vec<String> = found.imports.iter().map(|import| package(import)).collect();
    imports.sort_unstable();
    imports.dedup();
    print_line(&format!(
        "The filter is a component of {} KiB (loaded in {} ms). It can access only:\n  {}",
        found.size.div_ceil(1024),
        took.as_millis(),
        imports.join(", ")
    ))
}

struct DemoTurn {
    session: String,
    question: String,
    told: String,
    question_took: Duration,
    answer_took: Option<Duration>,
}

struct PlayedConversation {
    turns: Vec<DemoTurn>,
    entries: u64,
    round_trips: u64,
    failed: u64,
}

async fn play_conversation(plugin: &Plugin, store: Arc<dyn Store>, lines: &[&str]) -> Result<PlayedConversation> {
    let keepline = Keepline::new(plugin.clone(), store, keepline::Options::default()).await?;
    let mut pipe = keepline.pipe();
    // The first entry pays for a connection, a script and cold caches, which no later one does.
    pipe.question("", r#"{"session_id":"warm-up"}"#).await.ok();
    pipe.open();
    let before = keepline.store().round_trips();
    let mut played = PlayedConversation { turns: Vec::new(), entries: 0, round_trips: 0, failed: 0 };
    for line in lines {
        let Ok(mut entry) = Entry::parse(line.as_bytes().to_vec()) else {
            // As in a run, where it may have been a question.
            pipe.end_last();
            continue;
        };
        if let Some(activity) = entry.take_tool_activity() {
            pipe.tool_of(activity, entry.metadata());
            continue;
        }
        let (text, started) = (entry.text(), Instant::now());
        let passed = match entry.lane {
            Lane::Questions => pipe.question(&text, entry.metadata()).await?,
            Lane::Answers => pipe.answer(&text, entry.metadata()).await?,
            Lane::Open => {
                pipe.open_of(entry.metadata());
                continue;
            }
            // Passed above.
            Lane::Tools => continue,
        };
        let took = started.elapsed();
        played.entries += 1;
        played.failed += u64::from(passed.effect == Effect::Failed);
        if entry.lane == Lane::Questions {
            let context = passed.metadata.as_deref().and_then(memory_context);
            played.turns.push(DemoTurn {
                session: session(entry.metadata()).unwrap_or_else(|| "-".to_owned()),
                question: text.into_owned(),
                told: context.map_or_else(|| "-".to_owned(), |context| summarize_memory(&context)),
                question_took: took,
                answer_took: None,
            });
        } else if let Some(turn) = played.turns.last_mut() {
            turn.answer_took.get_or_insert(took);
        }
    }
    played.round_trips = keepline.store().round_trips() - before;
    Ok(played)
}

fn session(metadata: &str) -> Option<String> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    Some(metadata.get("session_id")?.as_str()?.to_owned())
}

fn memory_context(metadata: &str) -> Option<Value> {
    let mut metadata: Value = serde_json::from_str(metadata).ok()?;
    metadata.get_mut("memory_context").map(Value::take).filter(|context| !context.is_null())
}

fn summarize_memory(context: &Value) -> String {
    let text = |name: &str| context.get(name).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
    match (text("answer_count"), text("last_answer")) {
        (Some(count), Some(last)) => format!("#{count}: {last}"),
        _ => context.to_string(),
    }
}

/// Prints a row for each turn, with its times in memory, in a directory and in Redis.
fn print_turns(name: &str, stores: &[Option<&PlayedConversation>; 3]) -> Result<()> {
    let cost = |turn: Option<&DemoTurn>| {
        let micros = |time: Duration| time.as_micros().to_string();
        let answer = |turn: &DemoTurn| turn.answer_took.map_or("-".to_owned(), micros);
        turn.map_or(String::new(), |turn| format!("{:>6}{:>6}", micros(turn.question_took), answer(turn)))
    };
    let [Some(memory), _, redis] = stores else { return Ok(()) };
    let over = if redis.is_some() { "over Redis" } else { "" };
    print_line(&format!(
        "{:<8}{:<19}{:<17}{:>12}{:>12}{over:>12}",
        "session", "the user asks", "model also gets", "in memory", "directory"
    ))?;
    for (at, turn) in memory.turns.iter().enumerate().take(MAX_ROWS) {
        let costs = stores.iter().flatten().map(|played| cost(played.turns.get(at)));
        print_line(&format!(
            "{} {} {} {}",
            fit_to_width(&turn.session, 7),
            fit_to_width(&turn.question, 18),
            fit_to_width(&turn.told, 16),
            costs.collect::<String>(),
        ))?;
    }
    let more = memory.turns.len().saturating_sub(MAX_ROWS);
    if more > 0 {
        print_line(&format!("({more} more turns not shown)"))?;
    }
    let trips = redis.map_or(String::new(), |redis| {
        format!("; {} entries over Redis took {} round trips", redis.entries, redis.round_trips)
    });
    print_line(&format!("Times in µs, question and answer{trips}."))?;
    let failed: u64 = stores.iter().flatten().map(|played| played.failed).sum();
    if failed > 0 {
        print_line(&format!("{failed} entries passed without memory because the store failed."))?;
    }
    if memory.turns.is_empty() {
        print_line(&format!("{} contains no questions.", escape_unprintable(name)))?;
    }
    Ok(())
}

fn fit_to_width(text: &str, width: usize) -> String {
    let text = escape_unprintable(&text.replace('\n', " "));
    if text.chars().count() <= width {
        return format!("{text:<width$}");
    }
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Kills a process in the middle of the conversation and continues with another.
fn demonstrate_crash(place: &str, fields: &StoreFields, options: &[OsString], lines: &[&str]) -> Result<()> {
    let (first, second) = split_between_turns(lines);
    let mut before = RunProcess::start(fields, options)?;
    before.pass_lines(first)?;
    let id = before.child.id();
    before.kill();
    print_line(&format!("{place}: process {id} passed {} lines and was killed (SIGKILL).", first.len()))?;
    let mut after = RunProcess::start(fields, options)?;
    let passed = after.pass_lines(second)?;
    let found = passed.iter().find_map(|line| {
        let entry = Entry::parse(line.as_bytes().to_vec()).ok()?;
        (entry.lane == Lane::Questions).then_some(())?;
        Some((session(entry.metadata())?, memory_context(entry.metadata())?))
    });
    let id = after.child.id();
    match found {
        Some((session, memory)) => print_line(&format!(
            "Process {id}, started afterwards, found {}'s memory in place:\n  {}",
            escape_unprintable(&session),
            fit_to_width(&memory.to_string(), 77).trim_end()
        )),
        None => print_line(&format!(
            "Process {id}, started afterwards, passed the other {}; none of them had any memory yet.",
            second.len()
        )),
    }
}

/// Splits lines between two turns, at or soon after the middle.
fn split_between_turns<'a>(lines: &'a [&'a str]) -> (&'a [&'a str], &'a [&'a str]) {
    let begins = |line: &&str| {
        Entry::parse(line.as_bytes().to_vec()).is_ok_and(|entry| matches!(entry.lane, Lane::Questions | Lane::Open))
    };
    let middle = lines.len() / 2;
    let cut = lines.iter().skip(middle).position(begins).map_or(middle, |at| middle + at);
    lines.split_at_checked(cut).unwrap_or((lines, &[]))
}

/// A `keepline run` as a coprocess.
struct RunProcess {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl RunProcess {
    fn start(fields: &StoreFields, options: &[OsString]) -> Result<Self> {
        let mut command = Command::new(env::current_exe().context("can't locate this executable")?);
        // Without the user's own configuration.
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with(keepline::config::ENVIRONMENT_PREFIX)) {
                command.env_remove(name);
            }
        }
        command.arg("run");
        for (field, text) in fields {
            command.arg("--set").arg(format!("{field}={text}"));
        }
        command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("can't start another keepline")?;
        let output = child.stdout.take().ok_or_else(|| anyhow!("no output"))?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// Writes each line and reads one in return.
    fn pass_lines(&mut self, lines: &[&str]) -> Result<Vec<String>> {
        let input = self.child.stdin.as_mut().ok_or_else(|| anyhow!("no input"))?;
        let mut passed = Vec::new();
        for line in lines {
            writeln!(input, "{line}")?;
            input.flush()?;
            let mut out = String::new();
            self.output.read_line(&mut out)?;
            passed.push(out);
        }
        Ok(passed)
    }

    /// Kills it, like a crash: nothing is flushed.
    fn kill(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for RunProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_conversation_is_made_of_entries() {
        let lanes: Vec<Lane> =
            BUNDLED_CHAT.lines().map(|line| Entry::parse(line.as_bytes().to_vec()).unwrap().lane).collect();
        let count = |lane| lanes.iter().filter(|found| **found == lane).count();
        assert_eq!((count(Lane::Questions), count(Lane::Answers)), (MAX_ROWS, MAX_ROWS));
    }

    #[test]
    fn a_conversation_is_cut_between_two_turns() {
        let lines: Vec<&str> = BUNDLED_CHAT.lines().collect();
        let (first, second) = split_between_turns(&lines);
        assert!(first.last().unwrap().contains("\"answers\""));
        assert!(second[0].contains("\"open\""));
    }

    #[test]
    fn a_text_is_fitted_into_its_column() {
        assert_eq!(fit_to_width("ab", 4), "ab  ");
        assert_eq!(fit_to_width("abcde\n", 4), "abc…");
    }
}
