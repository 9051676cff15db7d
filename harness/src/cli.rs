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
  0  success
  1  the command failed, some input lines were invalid, or some entries failed
  2  the command line or the configuration is wrong
  3  the plugin could not be loaded";

const CONFIGURATION: &str = "\
Configuration, strongest first:
  --set field=value, KEEPLINE_<FIELD> in the environment, the fields of --config FILE,
  the profile, the defaults. `keepline config` shows each value in force and its source.
  The profile comes from --profile, KEEPLINE_PROFILE or \"profile\" in FILE, else it is memory.
  A FILE with \"profile\": \"redis\" holds its fields in an object of that name:
    {\"profile\": \"redis\", \"redis\": {\"redis_host\": \"db\", \"key_prefix\": \"shop\"}}
  Fields beside \"profile\" are an error. A FILE without \"profile\" holds its fields directly;
  those in the object of the selected profile override them.";

/// What `--json` does, in all commands that have it.
const JSON_HELP: &str = "Print JSON, and report messages on stderr as JSON objects, one per line";

const JSON_MESSAGES: &str = r#"With --json, stdout carries results only, and every line on stderr is a JSON object. If the command fails, the last line says why: {"error":{"code":"not-found","message":"Session 'a' not found"}}. Codes: usage, configuration, plugin, interrupted, failed, and from sessions: invalid-session, invalid-key, invalid-value, not-found, key-not-found, expired, already-exists, not-a-counter, limit, too-many-sessions, store. More may be added. Other lines carry "warning", "note" or "debug" instead of "error"."#;

/// Persistent memory for LLM pipelines.
///
/// A filter between a pipeline and its model: questions pass through it and gain what their session
/// remembers; answers pass through it on the way back and are remembered.
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
    /// Log what is being done to stderr
    #[arg(long, short, global = true)]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pass JSON lines through the filter: questions get their session's memory, answers are remembered
    Run(RunArguments),
    /// Inspect and edit sessions
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Session(SessionArguments),
    /// Copy sessions from one Redis to another: a single server, a cluster, another prefix
    #[command(after_help = MIGRATE_HELP, after_long_help = format!("{MIGRATE_HELP}\n\n{JSON_MESSAGES}"))]
    Migrate(MigrateArguments),
    /// Show the effective configuration and the source of each value
    #[command(after_long_help = fields_help())]
    Config(ConfigArguments),
    /// Inspect a component: what it imports, and whether this host would load it
    #[command(after_long_help = format!("{JSON_MESSAGES}\n\n{EXIT_CODES}"))]
    Inspect(InspectArguments),
    /// Write the bundled component to a file
    Component(ComponentArguments),
    /// Play a sample conversation and show what is remembered
    Demo(DemoArguments),
    /// Run benchmarks: what an entry costs, next to the lowest possible cost, and how that scales
    Bench(BenchArguments),
    /// Print a shell completion script
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
const RUN_HELP: &str = r#"Entries, one JSON object per line:
  {"lane":"questions","text":"Where is my parcel?","metadata":{"session_id":"anna"}}
  {"lane":"answers","text":"In Hamburg.","metadata":{}}
  {"lane":"open"}      starts a new object: what follows is unrelated to the previous question

Each input line produces one output line, in order. Only the metadata of a question can change; everything else passes through byte for byte. The text may be any JSON value; anything but a string is remembered as JSON text. NaN, Infinity and -Infinity, as written by Python, are accepted, and a line may start with a byte order mark. If a member is repeated, the last one counts; all but the last "metadata" of a question are removed.

An answer whose metadata has no session_id belongs to the session of the last question. Invalid lines pass through unchanged and are reported on stderr (the first few, then a count), and the exit code is 1. Since an invalid line may have been a question, it ends the turn: later answers without a session_id are not stored until the next question.

Output is flushed before waiting for input, so keepline run works as a coprocess. On SIGTERM or SIGINT it finishes the entries it has read, within --grace; a second signal stops it at once. With --plugin, SIGHUP reloads that file without losing an entry; if the new component can't be used, that is reported on stderr and the old one stays. With --pipes, entries of different sessions run concurrently; the output is the same as with one pipe, as long as the store has room for all sessions.

Exit codes: 0 success, 1 some lines were invalid or some entries failed, 2 the command line or the configuration is wrong, 3 the plugin could not be loaded."#;

/// `keepline run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunArguments {
    /// File of entries; standard input if omitted or -
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub input: PathBuf,
    /// Number of concurrent pipes, up to 1024
    #[arg(long, value_name = "N", default_value = "1", value_parser = pipes)]
    pub pipes: NonZeroUsize,
    /// After SIGTERM or SIGINT: how long to wait for the entries already read
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(GRACE), value_parser = seconds)]
    pub grace: Seconds,
    /// At the end, print a summary to stderr: outcomes and latencies
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
    /// List session ids, page by page
    List {
        /// Approximate page size
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Continue from here: the cursor printed with the previous page
        // A session's id may begin with a hyphen, and a cursor with one.
        #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "all", allow_hyphen_values = true)]
        cursor: String,
        /// List all pages
        #[arg(long)]
        all: bool,
    },
    /// Show a session and what it remembers
    Show {
        /// The session's id
        session: String,
    },
    /// Create a session; fails if it exists
    Create {
        /// The session's id
        session: String,
    },
    /// Delete a session and everything it remembers
    Delete {
        /// The session's id
        session: String,
    },
    /// Store a value under a key
    Put {
        /// The session's id
        session: String,
        /// The key
        key: String,
        /// A JSON value, or - to read it from standard input
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Treat the value as plain text instead of JSON
        #[arg(long)]
        text: bool,
    },
    /// Print the value of a key
    Get {
        /// The session's id
        session: String,
        /// The key
        key: String,
        /// Print a JSON string as plain text
        #[arg(long, conflicts_with = "json")]
        text: bool,
    },
    /// List the keys of a session
    Keys {
        /// The session's id
        session: String,
    },
    /// Clear one key of a session, or all of them; the session itself is kept
    #[command(group = clap::ArgGroup::new("what").required(true).args(["key", "all"]))]
    Clear {
        /// The session's id
        session: String,
        /// The key
        key: Option<String>,
        /// Clear all keys
        #[arg(long)]
        all: bool,
    },
    /// Add to a counter
    Increment {
        /// The session's id
        session: String,
        /// The key
        key: String,
        /// The amount; may be negative
        #[arg(default_value_t = 1, allow_hyphen_values = true)]
        amount: i64,
    },
    /// Show the operations on a session, oldest first
    History {
        /// The session's id
        session: String,
        /// Show at most this many, the newest; 0 means all
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

const MIGRATE_HELP: &str = r#"The source is the effective configuration. The target is the same configuration with the changes given by --to, or the file given by --to-config. For example, from a single server to a cluster:
  keepline migrate --set backend=redis --set redis_host=old --to redis_cluster=true --to redis_nodes=n1:6379,n2:6379

Each session is copied along with its expiry, then both sides are compared byte for byte; at the end the target's session list is checked, too. Sessions that are already in the target are left untouched, so after an interruption the same command resumes. Stop the pipes first: writes made during the copy are caught by the comparison and copied again, later ones are not. --delete removes a session from the source only if both sides are the same at that moment.

Before anything else, each side writes a mark that the other must not see: this proves that source and target are not the same place under two names.

Sessions are found through the source's session list. A session whose list entry was evicted or removed by hand is missing there: --scan also walks all keys of the source, in steps. It needs the SCAN permission (`keepline config --acl --scan`), and in a cluster no slots may move in the meantime.

Exit codes: 0 all sessions are in the target, 1 some are not (each is reported with the reason), 2 the command line or the configuration is wrong."#;

/// `keepline migrate`.
#[derive(Debug, Args)]
pub struct MigrateArguments {
    /// Set one field of the target, for example --to redis_cluster=true (may be repeated)
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment, required_unless_present = "to_config")]
    pub to: Vec<(String, String)>,
    /// Read the target's configuration from this JSON file instead of deriving it from the source's
    #[arg(long, value_name = "FILE")]
    pub to_config: Option<PathBuf>,
    /// Replace sessions in the target whose contents differ
    #[arg(long)]
    pub overwrite: bool,
    /// Delete each session from the source if both sides are the same at that moment
    #[arg(long)]
    pub delete: bool,
    /// Also find sessions missing from the source's list by scanning all its keys; needs SCAN (config --acl --scan)
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
    /// Print the ACL command for a least-privilege Redis user instead, for redis-cli (with --json: as a list of words)
    ///
    /// It fits the configured key_prefix, user and database. Replace PASSWORD with a password; before Redis 7, omit +pexpiretime.
    #[arg(long)]
    pub acl: bool,
    /// With --acl: include what `keepline migrate --scan` needs
    ///
    /// Grant it only for as long as needed: SCAN reveals the names of all keys in the database, including other tenants'.
    #[arg(long, requires = "acl")]
    pub scan: bool,
}

/// `keepline inspect`.
#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The component; defaults to that of --plugin, else the bundled one
    #[arg(value_name = "PLUGIN")]
    pub file: Option<PathBuf>,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

/// `keepline component`.
#[derive(Debug, Args)]
pub struct ComponentArguments {
    /// Output file, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// `keepline demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// A conversation as JSON lines; defaults to a bundled support-desk conversation
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `keepline bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[arg(long, help = "Print JSON instead of tables, and report messages on stderr as JSON objects")]
    pub json: bool,
    /// Also write the JSON report to this file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do a tenth of the work: quick, but imprecise
    #[arg(long)]
    pub quick: bool,
    /// Run only this part
    #[arg(long, value_name = "PART")]
    pub only: Option<BenchPart>,
    /// Measure at most N points of each growth curve, smallest first
    #[arg(long, value_name = "N")]
    pub points: Option<NonZeroU8>,
    /// Draw the growth curves as SVG files in this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub plots: Option<PathBuf>,
    /// Do not measure: use a report that was written with --output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "points"])]
    pub from: Option<PathBuf>,
}

/// A part of `keepline bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchPart {
    /// What an entry costs, next to the lowest possible cost
    Speed,
    /// All growth curves below
    Growth,
    /// Growth with the keys of a session
    Keys,
    /// Growth with the length of a session's history
    History,
    /// Growth with the size of an answer
    Sizes,
    /// Growth with the number of sessions
    Sessions,
    /// Growth with the number of pipes
    Pipes,
    /// Growth with the number of masters of a Redis Cluster
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
        "\nAll other fields belong to the filter; `keepline config` lists the ones it knows. An empty\n\
         environment variable counts as unset.\n\n",
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
