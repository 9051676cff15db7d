//! The command line of `keepline recall`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::help::JSON_HELP;

/// `keepline recall`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RecallArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    /// What to do, if it is not to look.
    #[command(subcommand)]
    pub command: Option<RecallCommand>,
    #[command(flatten)]
    pub look: Option<LookArguments>,
}

/// What would be recalled for a question.
#[derive(Debug, Args)]
pub struct LookArguments {
    // Not `TranscriptArguments`: clap can't tell whether a group is there that holds another one.
    /// The session's id. With --user it may be left out: then a new session of the user asks
    pub session: Option<String>,
    /// The question's text
    #[arg(allow_hyphen_values = true)]
    pub query: Option<String>,
    /// The transcript of this node instead of the session's own: its node_id
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// The node's app_id
    #[arg(long, value_name = "ID", requires = "node")]
    pub app: Option<String>,
    /// Tokens that the window may have, instead of the configured budget: what it shows is not recalled
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(64..))]
    pub budget: Option<u64>,
    /// The id of the message that the question follows, instead of the newest
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// The id of the user who asks: with recall=user, all of their sessions are searched
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
}

/// What can be done to what is recalled.
#[derive(Debug, Subcommand)]
pub enum RecallCommand {
    /// Make the index of sessions, and of their nodes, anew from what was said
    Rebuild(RebuildArguments),
    /// Measure how much of the evidence for questions is recalled
    #[command(after_help = EVALUATE_HELP)]
    Evaluate(EvaluateArguments),
}

/// `keepline recall rebuild`.
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

/// `keepline recall evaluate`.
#[derive(Debug, Args)]
pub struct EvaluateArguments {
    /// File of conversations, one a line
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Budgets to measure
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', default_values_t = [500, 1000, 2000, 4000],
        value_parser = clap::value_parser!(u64).range(64..=32_768))]
    pub tokens: Vec<u64>,
    /// Without what speakers, dates and times that a question names count for: recall_hints=false
    #[arg(long)]
    pub no_hints: bool,
    /// Make one session of all conversations; with --user, one user
    #[arg(long)]
    pub merge: bool,
    /// Make a user of each conversation, with a session for each of its sessions, and ask in a new one: recall=user
    #[arg(long)]
    pub user: bool,
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
const EVALUATE_HELP: &str = r#"Each line of the file is a conversation: its sessions with their turns, and questions with the ids of the turns that hold the evidence. The date may also be like "2023-05-08T13:56:00Z":
  {"conversation":"1","sessions":[{"date":"1:56 pm on 8 May, 2023","turns":[{"id":"D1:1","speaker":"Ann","text":"I have a dog."}]}],"questions":[{"question":"What pet does Ann have?","evidence":["D1:1"]}]}

Each conversation becomes a session of its own in the configured store, which is deleted at the end. It is cut and indexed as deferred work does it; then each question is asked with a window of 64 tokens. "whole" is the share of the evidence of which all passages are recalled, "in part" that of which any is, each as the mean over the questions; "R@10" is the share among the ten turns with the highest scores that are recalled; "used" is what the text that a question gets comes to in tokens of four bytes. Times are those of whole questions."#;
