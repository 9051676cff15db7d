//! The command line, as clap reads it. Its help texts are its documentation.

use std::{
    env,
    ffi::OsString,
    fmt,
    num::{NonZeroU8, NonZeroUsize},
    path::PathBuf,
    process,
    time::Duration,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use keepline::config::{FIELDS, Kind, Preset};

use crate::{ending::GRACE, terminal};

/// What the exit code of a command says.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  all went well
  1  the command failed, or some lines were no entries, or some entries failed
  2  the command line or the configuration is wrong
  3  the plugin can't be loaded";

const CONFIGURATION: &str = "\
Configuration, strongest first:
  --set field=value, KEEPLINE_<FIELD> in the environment, the fields of --config FILE,
  the profile, the defaults. `keepline config` shows what is in force and where it came from.
  The profile is that of --profile, else KEEPLINE_PROFILE, else \"profile\" in FILE, else memory.
  A FILE with \"profile\": \"redis\" has its fields in an object of that name:
    {\"profile\": \"redis\", \"redis\": {\"redis_host\": \"db\", \"key_prefix\": \"shop\"}}
  Fields beside \"profile\" are an error. A FILE without \"profile\" holds its fields directly;
  those in the object of the chosen profile win over them.";

/// What `--json` does, in all commands that have it.
const JSON_HELP: &str = "Answer in JSON, and make each message on standard error a JSON object";

const JSON_MESSAGES: &str = r#"With --json, standard output holds results only, and each line of standard error is a JSON object. A command that fails tells why in the last one, {"error":{"code":"not-found","message":"Session 'a' not found"}}. Codes: usage, configuration, plugin, interrupted, failed, and those of the sessions: invalid-session, invalid-key, invalid-value, not-found, key-not-found, expired, already-exists, not-a-counter, limit, too-many-sessions, store. Others may come. Other lines have "warning", "note" or "debug" in place of "error"."#;

/// Persistent memory for LLM pipelines.
///
/// A filter through which questions pass on their way to a model, and leave with what their session
/// remembers; answers pass on their way back, and are remembered.
#[derive(Debug, Parser)]
#[command(name = "keepline", version, max_term_width = 100, after_help = format!("{CONFIGURATION}\n\n{EXIT_CODES}"))]
pub struct Cli {
    /// For all commands.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Read the command line; ends the process when it is wrong or asks for help.
    pub fn read() -> Self {
        let mut cli = Self::try_parse().unwrap_or_else(|error| {
            // Nothing says for sure that JSON was meant: the command line can't be read.
            let mut arguments = env::args_os().take_while(|argument| argument != "--");
            if !error.use_stderr() || !arguments.any(|argument| argument == "--json") {
                error.exit();
            }
            terminal::speak_json();
            terminal::error_with_code("usage", &first_paragraph(&error.to_string()));
            process::exit(error.exit_code());
        });
        // Of an option that is given before and after the command, clap keeps the ones after it only: fine
        // for one file or profile, but a field that was set must not be lost without a word.
        if let Ok(leading) = Leading::try_parse() {
            cli.global.set.splice(0..0, leading.global.set);
        }
        cli
    }
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
#[derive(Debug, Args)]
pub struct Global {
    // The environment is not left to clap: it takes an empty variable for an empty value, and the
    // configuration has to know who chose the profile.
    /// Read the configuration from this JSON file [env: KEEPLINE_CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration")]
    pub config: Option<PathBuf>,
    /// Start from this profile: memory, redis or custom [env: KEEPLINE_PROFILE]
    #[arg(long, value_name = "NAME", global = true, help_heading = "Configuration")]
    pub profile: Option<String>,
    /// Set one field, for example --set backend=redis (may be repeated)
    #[arg(long, value_name = "FIELD=VALUE", global = true, value_parser = assignment, help_heading = "Configuration")]
    pub set: Vec<(String, String)>,
    /// Run this component instead of the bundled filter [env: KEEPLINE_PLUGIN]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration")]
    pub plugin: Option<PathBuf>,
    /// Tell what is being done, on standard error
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pass JSON lines through the filter: questions get their session's memory, answers are remembered
    Run(RunArguments),
    /// Look at sessions, and change them
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Session(SessionArguments),
    /// Copy sessions from one Redis to another: a single server, a cluster, another prefix
    #[command(after_help = MIGRATE_HELP, after_long_help = format!("{MIGRATE_HELP}\n\n{JSON_MESSAGES}"))]
    Migrate(MigrateArguments),
    /// Show the configuration in force, and where each value came from
    #[command(after_long_help = fields_help())]
    Config(ConfigArguments),
    /// Look at a component: what it asks for, and whether this host would load it
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Inspect(InspectArguments),
    /// Write the bundled component to a file
    Component(ComponentArguments),
    /// Play a conversation and show what is remembered
    Demo(DemoArguments),
    /// Measure: what an entry costs, each figure beside its floor, and how that grows
    Bench(BenchArguments),
    /// Write a completion script for a shell
    #[command(after_help = "For example: source <(keepline completions bash)")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Whether scripts read what it says.
    pub fn answers_in_json(&self) -> bool {
        match self {
            Self::Session(arguments) => arguments.json,
            Self::Migrate(arguments) => arguments.json,
            Self::Config(arguments) => arguments.json,
            Self::Inspect(arguments) => arguments.json,
            Self::Bench(arguments) => arguments.json,
            Self::Run(_) | Self::Component(_) | Self::Demo(_) | Self::Completions { .. } => false,
        }
    }
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
const RUN_HELP: &str = r#"Entries, one JSON object a line:
  {"lane":"questions","text":"Where is my parcel?","metadata":{"session_id":"anna"}}
  {"lane":"answers","text":"In Hamburg.","metadata":{}}
  {"lane":"open"}      a new object: what follows has nothing to do with the question before

Each line comes out as one line, in order. Only the metadata of a question can change; everything else passes byte for byte. A text may be any JSON value; one that is no string is remembered as JSON text. NaN, Infinity and -Infinity, which Python writes, are taken as values, and a line may begin with a byte order mark. Of members of one name the last counts; of a question's metadata the others are cut.

An answer whose metadata name no session belongs to the last question's. A line that is no entry passes unchanged, whatever it holds, and the exit code is 1 at the end; it may have been a question, so answers after it that name no session are not stored until the next question. The first of such lines are reported on standard error, then how many there were.

The output is flushed before input is waited for, so that keepline run can serve as a coprocess. SIGTERM and SIGINT end it after the entries that it has read, or when --grace is over; a second signal ends it at once. With --plugin, SIGHUP has it read that file again and go on with the component in it; one that can't be used is told on standard error, and the one before goes on. With --pipes, entries of different sessions run side by side; the output is the same as with one pipe, as long as the store takes all sessions.

Exit codes: 0 all went well, 1 some lines were no entries or some entries failed, 2 the command line or the configuration is wrong, 3 the plugin can't be loaded."#;

/// `keepline run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunArguments {
    /// The entries; without it, or with -, standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub input: PathBuf,
    /// Pipes that run side by side, up to 1024
    #[arg(long, value_name = "N", default_value = "1", value_parser = pipes)]
    pub pipes: NonZeroUsize,
    /// After SIGTERM or SIGINT: how long the entries that were read may take to come out
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(GRACE), value_parser = seconds)]
    pub grace: Seconds,
    /// At the end, tell on standard error what became of the entries, and how long they took
    #[arg(long)]
    pub summary: bool,
}

/// `keepline session`.
#[derive(Debug, Args)]
pub struct SessionArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: SessionCommand,
}

/// What can be done to sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// The ids of the sessions, page by page
    List {
        /// About how many on a page
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Go on from here: what the page before told
        // A session's id may begin with a hyphen, and a cursor with one.
        #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "all", allow_hyphen_values = true)]
        cursor: String,
        /// All pages
        #[arg(long)]
        all: bool,
    },
    /// A session and what it remembers
    Show {
        /// Its id
        session: String,
    },
    /// Create a session that is not there yet
    Create {
        /// Its id
        session: String,
    },
    /// Delete a session and all that it remembers
    Delete {
        /// Its id
        session: String,
    },
    /// Store a value under a key
    Put {
        /// The session's id
        session: String,
        /// The key
        key: String,
        /// A JSON value; - reads it from standard input
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// The value is plain text, not JSON
        #[arg(long)]
        text: bool,
    },
    /// The value under a key
    Get {
        /// The session's id
        session: String,
        /// The key
        key: String,
        /// A JSON string comes out as the text that it spells
        #[arg(long, conflicts_with = "json")]
        text: bool,
    },
    /// The keys of a session
    Keys {
        /// Its id
        session: String,
    },
    /// Clear one key of a session, or all; the session stays
    #[command(group = clap::ArgGroup::new("what").required(true).args(["key", "all"]))]
    Clear {
        /// The session's id
        session: String,
        /// The key
        key: Option<String>,
        /// All keys
        #[arg(long)]
        all: bool,
    },
    /// Add to a counter
    Increment {
        /// The session's id
        session: String,
        /// The key
        key: String,
        /// How much; may be negative
        #[arg(default_value_t = 1, allow_hyphen_values = true)]
        amount: i64,
    },
    /// What was done to a session, oldest first
    History {
        /// Its id
        session: String,
        /// At most that many, the newest; 0: all
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

impl SessionCommand {
    /// Whether it leaves everything as it is.
    pub fn only_reads(&self) -> bool {
        match self {
            Self::List { .. } | Self::Show { .. } | Self::Get { .. } | Self::Keys { .. } | Self::History { .. } => true,
            Self::Create { .. }
            | Self::Delete { .. }
            | Self::Put { .. }
            | Self::Clear { .. }
            | Self::Increment { .. } => false,
        }
    }
}

const MIGRATE_HELP: &str = r#"The source is the configuration in force. The target is the same with what --to changes, or the file of --to-config. For example, from a single server to a cluster:
  keepline migrate --set backend=redis --set redis_host=old --to redis_cluster=true --to redis_nodes=n1:6379,n2:6379

Each session is copied with its expiry, and both sides are compared byte for byte; at the end the target's list is, too. What is there already is left alone, so the same command goes on after an interruption. Stop the pipes first: what they write meanwhile is found by the comparison and copied again, but what they write after it is not. --delete leaves a session that has changed since it was compared where it is, whoever changed it.

A mark that each side writes, and the other does not see, proves first that they are not the same under two names.

Sessions are found by the source's list of them. One that was evicted, or removed from the list by hand, is not in it: --scan looks through all keys of the source in their place, in steps, and needs a user who may call SCAN (`keepline config --acl --scan`). In a cluster no slots may move meanwhile.

Exit codes: 0 all sessions are in the target, 1 some are not (each is told with why), 2 the command line or the configuration is wrong."#;

/// `keepline migrate`.
#[derive(Debug, Args)]
pub struct MigrateArguments {
    /// Set one field of the target, for example --to redis_cluster=true (may be repeated)
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment, required_unless_present = "to_config")]
    pub to: Vec<(String, String)>,
    /// Read the target's configuration from this JSON file, in place of the source's
    #[arg(long, value_name = "FILE")]
    pub to_config: Option<PathBuf>,
    /// Replace sessions of the target that have other contents
    #[arg(long)]
    pub overwrite: bool,
    /// Delete each session in the source, if both sides are the same at that moment
    #[arg(long)]
    pub delete: bool,
    /// Look through all keys of the source, also for sessions that its list has lost; needs SCAN (config --acl --scan)
    #[arg(long)]
    pub scan: bool,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

/// `keepline config`.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
    /// In its place: the ACL command that makes the least user of Redis, for redis-cli (in JSON: its words)
    ///
    /// It is for the configured key_prefix, user and database. Put a password for PASSWORD; before Redis 7 leave out +pexpiretime.
    #[arg(long)]
    pub acl: bool,
    /// With --acl: also what `keepline migrate --scan` needs
    ///
    /// For as long as that takes: who may scan is told the names of all keys of the database, other tenants' too.
    #[arg(long, requires = "acl")]
    pub scan: bool,
}

/// `keepline inspect`.
#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The component; without it that of --plugin, else the bundled one
    #[arg(value_name = "PLUGIN")]
    pub file: Option<PathBuf>,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

/// `keepline component`.
#[derive(Debug, Args)]
pub struct ComponentArguments {
    /// Where to write it; - for standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// `keepline demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// A conversation as JSON lines; without it, a bundled one of a support desk
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `keepline bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[arg(long, help = "Print JSON in place of tables, and make each message on standard error a JSON object")]
    pub json: bool,
    /// Write the JSON to this file too
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// A tenth of the work: figures that tell little, soon
    #[arg(long)]
    pub quick: bool,
    /// One part alone
    #[arg(long, value_name = "PART")]
    pub only: Option<BenchPart>,
    /// Points of a growth curve at most, from its smallest
    #[arg(long, value_name = "N")]
    pub points: Option<NonZeroU8>,
    /// Draw the growth curves into this directory, as SVG
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,
    /// Measure nothing: take the figures from a report that was written with --output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "points"])]
    pub from: Option<PathBuf>,
}

/// A part of `keepline bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchPart {
    /// What an entry costs, each figure beside its floor
    Speed,
    /// How that grows: all of the curves below
    Growth,
    /// With the keys of a session
    Keys,
    /// With the length of a session's history
    History,
    /// With the size of an answer
    Sizes,
    /// With the number of sessions
    Sessions,
    /// With the number of pipes
    Pipes,
    /// With the number of masters of a Redis Cluster
    Masters,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, value)) if !field.trim().is_empty() => Ok((field.trim().to_owned(), value.to_owned())),
        _ => Err("must be FIELD=VALUE, for example backend=redis".to_owned()),
    }
}

fn pipes(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= 1024);
    number.ok_or_else(|| "must be a whole number from 1 to 1024".to_owned())
}

/// A time on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.as_secs_f64())
    }
}

fn seconds(text: &str) -> Result<Seconds, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.filter(|time| *time <= Duration::from_secs(3600));
    time.map(Seconds).ok_or_else(|| "must be a number from 0 to 3600".to_owned())
}

/// The host's fields, for `keepline help config`: from the table, so that none is ever missing.
fn fields_help() -> String {
    let mut help = String::from("Fields of the host:\n");
    for field in FIELDS {
        let default = match field.default {
            Preset::Text(text) => format!("\"{text}\""),
            Preset::Number(number) => number.to_string(),
            Preset::Flag(flag) => flag.to_string(),
        };
        let allowed = match field.kind {
            Kind::Text | Kind::Secret | Kind::Url | Kind::List => String::new(),
            _ => format!(", {}", field.allowed()),
        };
        help.push_str(&format!("  {}\n      {} [{default}{allowed}]\n", field.name, field.about));
    }
    help.push_str(
        "\nAll other fields are the filter's; `keepline config` lists those that it knows. An empty variable\n\
         of the environment counts as not set.\n\n",
    );
    help.push_str(JSON_MESSAGES);
    help.push_str("\n\n");
    help.push_str(EXIT_CODES);
    help
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_clap_says_is_told_on_one_line() {
        let error = Cli::try_parse_from(["keepline", "session", "show"]).unwrap_err();
        let told = first_paragraph(&error.to_string());
        assert!(told.starts_with("the following required arguments") && told.ends_with("<SESSION>"), "{told}");
        assert!(!told.contains('\n'));
    }

    #[test]
    fn the_help_names_every_field() {
        let help = fields_help();
        assert!(FIELDS.iter().all(|field| help.contains(field.name)));
    }
}
