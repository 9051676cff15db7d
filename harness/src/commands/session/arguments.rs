//! Arguments of `keepline session`.

use clap::{Args, Subcommand};

use crate::args::{
    ConversationCommand, ExportArguments, ImportArguments, PageArguments, StoreAccess, TranscriptArguments,
    help::JSON_HELP,
};

#[derive(Debug, Args)]
pub struct SessionArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: SessionCommand,
}

#[derive(Debug, Args)]
pub struct ListArguments {
    #[command(flatten)]
    pub page: PageArguments,
    /// Print more than ids, also in a pipe and with --json
    #[arg(long, short)]
    pub long: bool,
}

/// What can be done to sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List sessions: title, owner, messages, last use and size
    ///
    /// On a terminal, and with --long, each session of a page is read once, 16 at a time, which counts as no use. In a
    /// pipe, only ids are printed unless --long is given.
    List(ListArguments),
    /// Show a session: owner, title, times, size, summary, nodes, and the values that it remembers
    Show {
        #[command(flatten)]
        transcript: TranscriptArguments,
    },
    /// List the nodes of a session: app, messages, last use and size
    ///
    /// Each node is read once, 16 at a time.
    Nodes {
        /// The session's id
        session: String,
        /// Do not cut what is wider than the terminal
        #[arg(long)]
        full: bool,
    },
    /// Create a session; fails if it exists
    Create {
        /// The session's id
        session: String,
    },
    /// Delete a session and everything it remembers, including its nodes
    Delete {
        /// The session's id
        session: String,
    },
    /// Delete all sessions, with their nodes and users; other prefixes and databases are not touched
    ClearAll {
        /// Do not ask
        #[arg(long)]
        yes: bool,
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
    #[command(
        group = clap::ArgGroup::new("what").required(true).args(["key", "all"]),
        override_usage = "keepline session clear [OPTIONS] <SESSION> <KEY|--all>"
    )]
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
    /// Run a session's deferred work now: title, summary, retention, recall index; needs conversation: true
    Upkeep {
        /// The session's id
        session: String,
    },
    /// Show the operations on a session, oldest first
    History {
        /// The session's id
        session: String,
        /// Show at most this many, the newest; 0 means all
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Show the page before this position, as printed with the following page
        #[arg(long, value_name = "POSITION")]
        before: Option<u64>,
    },
    /// Export whole sessions as JSON lines: values, history, conversations, nodes
    Export(ExportArguments),
    /// Import exported sessions, or those of LangChain, NeuroLink, RocketRide or Dify; existing sessions are left alone
    Import(ImportArguments),
    #[command(flatten)]
    Conversation(ConversationCommand),
}

impl SessionCommand {
    /// What it does to the store.
    pub fn store_access(&self) -> StoreAccess {
        match self {
            Self::List(_)
            | Self::Show { .. }
            | Self::Nodes { .. }
            | Self::Get { .. }
            | Self::Keys { .. }
            | Self::History { .. }
            | Self::Export(_) => StoreAccess::Read,
            Self::Upkeep { .. } => StoreAccess::Change,
            Self::Delete { .. } | Self::ClearAll { .. } | Self::Clear { .. } => StoreAccess::Delete,
            Self::Import(arguments) if arguments.replace && !arguments.dry_run => StoreAccess::Replace,
            Self::Create { .. } | Self::Put { .. } | Self::Increment { .. } | Self::Import(_) => StoreAccess::Add,
            Self::Conversation(command) => command.store_access(),
        }
    }
}
