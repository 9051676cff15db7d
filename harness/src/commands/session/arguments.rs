//! Arguments of `keepline session`.

use clap::{Args, Subcommand};

use crate::args::{
    ExportArguments, ImportArguments, PageArguments, StoreAccess, TranscriptArguments, WindowArguments, help::JSON_HELP,
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

#[derive(Debug, Args)]
pub struct NamedSession {
    /// The session's id
    pub session: String,
}

/// A whole turn, or messages.
#[derive(Debug, Args)]
pub struct AppendArguments {
    #[command(flatten)]
    pub transcript: TranscriptArguments,
    /// File with messages to add at the end, in the forms that set-messages reads, or - for standard input
    #[arg(value_name = "FILE", conflicts_with_all = ["question", "answer", "id", "parent"])]
    pub file: Option<std::path::PathBuf>,
    /// What was asked
    #[arg(long, default_value = "", hide_default_value = true)]
    pub question: String,
    /// What was answered
    #[arg(long, required_unless_present = "file")]
    pub answer: Option<String>,
    /// The answer's id: a turn with the same id is stored only once
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The id of the message that the turn follows, instead of the newest
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// The id of the user who asked
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
}

/// What is looked for in a message.
#[derive(Debug, Args)]
pub struct GrepArguments {
    #[command(flatten)]
    pub transcript: TranscriptArguments,
    /// The message's position
    pub position: u64,
    /// The text to look for, on one line, at most 256 bytes
    #[arg(allow_hyphen_values = true)]
    pub text: String,
    /// Ignore case (ASCII letters only)
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Lines to show before and after each
    #[arg(short = 'C', long, value_name = "LINES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=20))]
    pub context: u32,
    /// Show at most this many matching lines; 0 means all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
    /// Start at this line, as printed with the previous page
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    pub from: u64,
}

/// What can be set for one conversation.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct SettingsArguments {
    /// The model's context window in tokens: 256 to 8000000
    #[arg(long, value_name = "TOKENS")]
    pub window: Option<u64>,
    /// Tokens of the window to reserve for the question and its answer: 1 to 8000000. Default: 35 % of the window, at
    /// most 64000
    #[arg(long, value_name = "TOKENS")]
    pub reserve: Option<u64>,
    /// Token budget of a question's memory, including the summary: 64 to 2000000. Takes precedence over a window
    #[arg(long, value_name = "TOKENS")]
    pub budget: Option<u64>,
    /// Name of the model that answers; used to count tokens, and passed on to whatever calls the model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

impl SettingsArguments {
    /// Whether nothing is to be set.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self { window: None, reserve: None, budget: None, model: None })
    }
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
    Show(TranscriptArguments),
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
    Create(NamedSession),
    /// Delete a session and everything it remembers, including its nodes
    Delete(NamedSession),
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
    Keys(NamedSession),
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
    Upkeep(NamedSession),
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
    /// Show the facts about a conversation: owner, title, summary, size. See `show`
    #[command(hide = true)]
    Describe(TranscriptArguments),
    /// Show the messages of a conversation, oldest first
    Messages {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// Only the thread that leads to the message with this id
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Only the message with this id
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Only messages of this role: user, assistant or tool
        #[arg(long, value_parser = ["user", "assistant", "tool"])]
        role: Option<String>,
        /// Only messages that contain this text; case is ignored for ASCII letters
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Show at most this many, the newest; 0 means all
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Show the page before this position, as printed with the following page
        #[arg(long, value_name = "POSITION")]
        before: Option<u64>,
    },
    /// Print the text of one message, or a part of it; for a tool result that was cut when stored, the full result
    Text {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// The message's position, as `messages` shows it
        position: u64,
        /// Skip this many characters
        #[arg(long, value_name = "CHARACTERS", default_value_t = 0)]
        offset: u64,
        /// Print at most this many characters
        #[arg(long, value_name = "CHARACTERS", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
        limit: u32,
    },
    /// Show the lines of one message that contain a text, with line numbers; for a tool result that was cut when stored,
    /// searches the full result
    Grep(GrepArguments),
    /// Store a whole turn, a question and its answer, or add messages at the end; needs conversation: true
    Append(AppendArguments),
    /// Replace the text of a message
    Edit {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// The message's position, as `messages` shows it
        position: u64,
        /// The new text
        #[arg(allow_hyphen_values = true)]
        text: String,
    },
    /// Remove a message, and the summary if it covers the message; last_answer is kept
    Remove {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// The message's position, as `messages` shows it
        position: u64,
    },
    /// Remove all messages, or a branch; the session and its values are kept
    #[command(
        group = clap::ArgGroup::new("which").required(true).args(["branch", "all"]),
        override_usage = "keepline session clear-messages [OPTIONS] <SESSION> <--branch N|--all>"
    )]
    ClearMessages {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// Remove the message at this position and everything that follows from it
        #[arg(long, value_name = "POSITION")]
        branch: Option<u64>,
        /// Remove all messages, the title and the summary
        #[arg(long)]
        all: bool,
    },
    /// Replace all messages; the summary is dropped, and so is a title made from the first message
    SetMessages {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// File with messages, or - for standard input: chat messages with `role` and `content`, as JSON lines, as an
        /// array, or as `session messages --json` prints them
        #[arg(value_name = "FILE")]
        file: std::path::PathBuf,
    },
    /// Show or set the title of a conversation
    Title {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// The new title, one line of at most 200 characters
        title: Option<String>,
        /// Remove the title
        #[arg(long, conflicts_with = "title")]
        clear: bool,
    },
    /// Show or set the window, budget and model of one conversation, overriding the configuration
    Settings {
        #[command(flatten)]
        transcript: TranscriptArguments,
        #[command(flatten)]
        settings: SettingsArguments,
        /// Remove all settings before applying the given ones
        #[arg(long)]
        clear: bool,
    },
    /// Print the metadata that a question would get, as JSON, without writing anything. See `keepline explain`
    #[command(hide = true)]
    Window(WindowArguments),
}

impl SessionCommand {
    /// The transcript that it is about, if that may be a node's.
    pub fn transcript(&self) -> Option<&TranscriptArguments> {
        match self {
            Self::Append(AppendArguments { transcript, .. })
            | Self::Grep(GrepArguments { transcript, .. })
            | Self::Window(WindowArguments { transcript, .. })
            | Self::Show(transcript)
            | Self::Describe(transcript)
            | Self::Messages { transcript, .. }
            | Self::Text { transcript, .. }
            | Self::Edit { transcript, .. }
            | Self::Remove { transcript, .. }
            | Self::ClearMessages { transcript, .. }
            | Self::SetMessages { transcript, .. }
            | Self::Title { transcript, .. }
            | Self::Settings { transcript, .. } => Some(transcript),
            Self::List(_)
            | Self::Nodes { .. }
            | Self::Create { .. }
            | Self::Delete { .. }
            | Self::ClearAll { .. }
            | Self::Put { .. }
            | Self::Get { .. }
            | Self::Keys { .. }
            | Self::Clear { .. }
            | Self::Increment { .. }
            | Self::Upkeep { .. }
            | Self::History { .. }
            | Self::Export(_)
            | Self::Import(_) => None,
        }
    }

    /// What it does to the store.
    pub fn store_access(&self) -> StoreAccess {
        match self {
            Self::List(_)
            | Self::Show(_)
            | Self::Nodes { .. }
            | Self::Get { .. }
            | Self::Keys(_)
            | Self::History { .. }
            | Self::Export(_)
            | Self::Describe(_)
            | Self::Messages { .. }
            | Self::Text { .. }
            | Self::Grep(_)
            | Self::Window(_)
            | Self::Title { title: None, clear: false, .. } => StoreAccess::Read,
            Self::Settings { settings, clear: false, .. } if settings.is_empty() => StoreAccess::Read,
            Self::Upkeep(_) | Self::Title { .. } | Self::Settings { .. } => StoreAccess::Change,
            Self::Delete(_)
            | Self::ClearAll { .. }
            | Self::Clear { .. }
            | Self::Edit { .. }
            | Self::Remove { .. }
            | Self::ClearMessages { .. } => StoreAccess::Delete,
            Self::SetMessages { .. } => StoreAccess::Replace,
            Self::Import(arguments) if arguments.replace && !arguments.dry_run => StoreAccess::Replace,
            Self::Create(_) | Self::Put { .. } | Self::Increment { .. } | Self::Append(_) | Self::Import(_) => {
                StoreAccess::Add
            }
        }
    }
}
