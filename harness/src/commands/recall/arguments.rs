//! Arguments of `keepline recall`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::{AskedArguments, help::JSON_HELP};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RecallArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Option<RecallCommand>,
    #[command(flatten)]
    pub look: RecallQueryArguments,
}

/// What would be recalled for a question.
#[derive(Debug, Args)]
pub struct RecallQueryArguments {
    /// The session's id; with --user, omit it to ask as a new session of that user
    pub session: Option<String>,
    /// The question's text
    #[arg(allow_hyphen_values = true)]
    pub query: Option<String>,
    /// The transcript of this node instead of the session's own: its node_id
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// The node's app_id, if it has one
    #[arg(long, value_name = "ID", requires = "node")]
    pub app: Option<String>,
    #[command(flatten)]
    pub asked: AskedArguments,
}

/// What can be done to what is recalled.
#[derive(Debug, Subcommand)]
pub enum RecallCommand {
    /// Rebuild the index of sessions and their nodes from the transcripts
    Rebuild(RebuildArguments),
    /// Measure how much of the evidence for a set of questions is recalled
    #[command(after_help = EVALUATE_HELP)]
    Evaluate(EvaluateArguments),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["sessions", "all"]))]
pub struct RebuildArguments {
    /// The sessions' ids
    #[arg(value_name = "SESSION")]
    pub sessions: Vec<String>,
    /// All sessions and nodes of the store
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct EvaluateArguments {
    /// File of conversations, one per line
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Token budgets to measure
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', default_values_t = [500, 1000, 2000, 4000],
        value_parser = clap::value_parser!(u64).range(64..=32_768))]
    pub tokens: Vec<u64>,
    /// Ignore the speakers, dates and times that a question names (recall_hints=false)
    #[arg(long)]
    pub no_hints: bool,
    /// Put all conversations into one session; with --user, into the memory of one user
    #[arg(long)]
    pub merge: bool,
    /// Store each conversation as one user with several sessions, and ask in a new session (recall=user)
    #[arg(long)]
    pub user: bool,
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
const EVALUATE_HELP: &str = r#"Each line of the file is a conversation: its sessions with their turns, and questions with the ids of the turns that hold the evidence. The date may also be like "2023-05-08T13:56:00Z":
  {"conversation":"1","sessions":[{"date":"1:56 pm on 8 May, 2023","turns":[{"id":"D1:1","speaker":"Ann","text":"I have a dog."},{"id":"D1:2","speaker":"Ben","text":"Lovely! We have only plants at home, and even those are hard to keep alive while we travel so much for work."},{"id":"D1:3","speaker":"Ann","text":"Plants are easy. Water them once a week, keep them out of the sun, and ask a neighbour when you are away."}]}],"questions":[{"question":"What pet does Ann have?","evidence":["D1:1"]}]}

Each conversation becomes a session of its own in the configured store, which is deleted at the end. It is cut and indexed as deferred work does it; then each question is asked with a window of 64 tokens. What the window shows is not recalled, and counts as missing: the last turns of a conversation are no good evidence. "whole" is the share of the evidence of which all passages are recalled, "in part" that of which any is, each as the mean over the questions; "R@10" is the share among the ten turns with the highest scores that are recalled; "used" is what the text that a question gets comes to in tokens of four bytes. Times are those of whole questions."#;
