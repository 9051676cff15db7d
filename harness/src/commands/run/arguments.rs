//! Arguments of `keepline run`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use crate::args::parse::parse_grace_seconds;

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunArguments {
    /// File of entries; standard input if omitted or -
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub input: PathBuf,
    /// Number of concurrent pipes, up to 1024
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub pipes: u16,
    /// After SIGTERM or SIGINT: how long to wait for the entries already read [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = parse_grace_seconds)]
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

// Paragraphs are one line each: clap breaks them where the terminal ends.
const RUN_HELP: &str = r#"Entries, one JSON object per line:
  {"lane":"questions","text":"Where is it?","metadata":{"session_id":"anna"}}
  {"lane":"answers","text":"In Hamburg.","metadata":{}}
  {"lane":"tools","tool":{"call_id":"c1","name":"track","arguments":{"id":7}}}
  {"lane":"tools","tool":{"call_id":"c1","output":"left Hamburg"}}
  {"lane":"open"}      what follows is unrelated to the previous question

Each input line produces one output line, in order. Only the metadata of a question can change; everything else passes through byte for byte. The text may be any JSON value; anything but a string is remembered as JSON text. NaN, Infinity and -Infinity, as written by Python, are accepted, and a line may start with a byte order mark. If a member is repeated, the last one counts; all but the last "metadata" of a question are removed.

With conversation: true, what tools did is remembered with the next answer: a call, its output or error, or both, paired by call_id.

An answer belongs to the session that its metadata names; without a session_id, to that of the last question. Invalid lines pass through unchanged and are reported on stderr (the first few, then a count), and the exit code is 1. Since an invalid line may have been a question, later answers without a session_id are not stored until the next question.

Output is flushed before waiting for input, so keepline run works as a coprocess. On SIGTERM or SIGINT it finishes the entries it has read, within --grace, and reports what is left; a second signal stops it at once. With --plugin, SIGHUP reloads that file without losing an entry; if the new component can't be used, that is reported on stderr and the old one stays. With --pipes, entries of different sessions run concurrently; the output is the same as with one pipe, as long as the store has room for all sessions.

An entry whose memory fails passes without it: its line comes out as it came, with a warning on stderr. An entry fails, and gets an "error" member, only with on_store_error "fail" (its store or the plugin failed), or with require_node (it names no node). At the end, one line on stderr counts the entries that passed without memory, with the reasons.

Exit codes: 0 success; 1 some lines were invalid, some entries failed, or, with --require-memory, some passed without memory; 2 the command line or the configuration is wrong; 3 the plugin could not be loaded; 130 and 143 SIGINT or SIGTERM came before all input was processed (stderr says what is left)."#;
