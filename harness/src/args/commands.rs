//! Arguments of the commands without subcommands.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::Args;

use super::{
    help::{JSON_HELP, RUN_HELP},
    parse::{assignment, pipes, seconds},
};

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunArguments {
    /// File of entries; standard input if omitted or -
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub input: PathBuf,
    /// Number of concurrent pipes, up to 1024
    #[arg(long, value_name = "N", default_value = "1", value_parser = pipes)]
    pub pipes: NonZeroUsize,
    /// After SIGTERM or SIGINT: how long to wait for the entries already read [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub grace: Option<Duration>,
    /// At the end, print a summary to stderr: outcomes and latencies
    #[arg(long)]
    pub summary: bool,
    /// Print messages and the summary on stderr as JSON objects, one per line
    #[arg(long)]
    pub json: bool,
    /// Exit with code 1 if any entry passed without memory, also one without a session_id
    #[arg(long)]
    pub require_memory: bool,
    /// Serve metrics for Prometheus at this address, under /metrics, and the store's health under /health
    ///
    /// For example 127.0.0.1:9464. Port 0 picks a free port and prints it on stderr. Anyone who can reach the address can
    /// read the metrics.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub struct MigrateArguments {
    /// Set one field of the target, for example --to redis_cluster=true (may be repeated)
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment, required_unless_present_any = ["to_config", "to_dir"])]
    pub to: Vec<(String, String)>,
    /// Copy to this directory: short for --to backend=directory --to directory=PATH
    #[arg(long, value_name = "PATH")]
    pub to_dir: Option<PathBuf>,
    /// Read the target's configuration from this JSON file instead of deriving it from the source's
    #[arg(long, value_name = "FILE")]
    pub to_config: Option<PathBuf>,
    /// Replace sessions in the target whose contents differ
    #[arg(long)]
    pub overwrite: bool,
    /// Delete each session from the source if both sides are the same at that moment
    #[arg(long)]
    pub delete: bool,
    /// Also find sessions missing from the list of a Redis by scanning all its keys; needs SCAN (config --acl --scan)
    #[arg(long)]
    pub scan: bool,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

/// Of a command without options of its own.
#[derive(Debug, Args)]
pub struct JsonArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ConfigArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
    /// Print the ACL command for a least-privilege Redis user instead, for redis-cli (with --json: as a list of words)
    ///
    /// It fits the configured key_prefix, user and database. Replace PASSWORD with a password; before Redis 7, omit
    /// +pexpiretime.
    #[arg(long)]
    pub acl: bool,
    /// With --acl: include what `keepline migrate --scan` needs
    ///
    /// Grant it only for as long as needed: SCAN reveals the names of all keys in the database, including other tenants'.
    #[arg(long, requires = "acl")]
    pub scan: bool,
}

#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The component; defaults to that of --plugin, else the bundled one
    #[arg(value_name = "PLUGIN")]
    pub file: Option<PathBuf>,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ComponentArguments {
    /// Output file, or - for standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Debug, Args)]
pub struct DemoArguments {
    /// A conversation as JSON lines; defaults to a bundled support-desk conversation
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}
