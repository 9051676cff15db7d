//! The command lines that concern conversations: what `keepline session` has for them, and `keepline explain`.

use clap::{Args, Subcommand};

use super::help::JSON_HELP;

/// Which transcript.
#[derive(Debug, Args)]
pub struct TranscriptArguments {
    /// The session's id
    pub session: String,
    /// The transcript of this node instead of the session's own: its node_id
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// The node's app_id
    #[arg(long, value_name = "ID", requires = "node")]
    pub app: Option<String>,
}

/// What a question would be.
#[derive(Debug, Args)]
pub struct WindowArguments {
    #[command(flatten)]
    pub transcript: TranscriptArguments,
    /// The question's text
    #[arg(long, default_value = "", hide_default_value = true)]
    pub query: String,
    /// Tokens that the window may have, instead of the configured budget
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(64..))]
    pub budget: Option<u64>,
    /// The id of the message that the question follows, instead of the newest
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// The id of the user who asks
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
    /// ASCII letters match in either case
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Lines to show before and after each
    #[arg(short = 'C', long, value_name = "LINES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=20))]
    pub context: u32,
    /// Show at most so many lines that hold the text; 0: all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u32,
    /// Begin with this line, as a page before says
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    pub from: u64,
}

/// What can be set for one conversation.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct SettingsArguments {
    /// The model's context window in tokens: 256 to 8000000
    #[arg(long, value_name = "TOKENS")]
    pub window: Option<u64>,
    /// What of the window question and answer need: 1 to 8000000. Of a window that is set: 35 %, at most 64000, without it
    #[arg(long, value_name = "TOKENS")]
    pub reserve: Option<u64>,
    /// The tokens that a question gets at most, its summary included: 64 to 2000000. It goes before a window
    #[arg(long, value_name = "TOKENS")]
    pub budget: Option<u64>,
    /// The name of the model that answers: for whoever counts tokens, and for what calls the model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

impl SettingsArguments {
    /// Whether nothing is to be set.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self { window: None, reserve: None, budget: None, model: None })
    }
}

/// What can be done to a conversation.
#[derive(Debug, Subcommand)]
pub enum ConversationCommand {
    /// Show what is known of a conversation: owner, title, summary, size
    Describe {
        #[command(flatten)]
        transcript: TranscriptArguments,
    },
    /// Show the messages of a conversation, oldest first
    Messages {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// Only those on the way to the message with this id
        #[arg(long, value_name = "ID")]
        thread: Option<String>,
        /// Only the message with this id
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Only those of a user, an assistant or a tool
        #[arg(long, value_parser = ["user", "assistant", "tool"])]
        role: Option<String>,
        /// Only those with this text in them; ASCII letters match in either case
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Show at most this many, the newest; 0 means all
        #[arg(long, default_value_t = 50)]
        limit: u32,
        /// Show what comes before this position: the one printed with the page after it
        #[arg(long, value_name = "POSITION")]
        before: Option<u64>,
    },
    /// Print the text of one message, or a part of it; of a tool's result that was cut when it was stored, the whole
    Text {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// The message's position, as `messages` shows it
        position: u64,
        /// Begin after this many characters
        #[arg(long, value_name = "CHARACTERS", default_value_t = 0)]
        offset: u64,
        /// Print at most this many
        #[arg(long, value_name = "CHARACTERS", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
        limit: u32,
    },
    /// Show the lines of one message that hold a text, with their numbers; of a tool's result that was cut, of the whole
    Grep(GrepArguments),
    /// Store a whole turn: a question and its answer; with conversation: true
    Append {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// What was asked
        #[arg(long, default_value = "", hide_default_value = true)]
        question: String,
        /// What was answered
        #[arg(long)]
        answer: String,
        /// The answer's id: a turn whose answer has one is stored once
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// The id of the message that the turn follows, instead of the newest
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// The id of the user who asked
        #[arg(long, value_name = "ID")]
        user: Option<String>,
    },
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
    /// Remove a message, and a summary that covers it; last_answer is kept
    Remove {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// The message's position, as `messages` shows it
        position: u64,
    },
    /// Remove all messages, or a branch; the session and its values are kept
    #[command(group = clap::ArgGroup::new("which").required(true).args(["branch", "all"]))]
    ClearMessages {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// The message at this position and all that go on from it
        #[arg(long, value_name = "POSITION")]
        branch: Option<u64>,
        /// All messages, with title and summary
        #[arg(long)]
        all: bool,
    },
    /// Put other messages in the place of all that there are; the summary and the title go
    SetMessages {
        #[command(flatten)]
        transcript: TranscriptArguments,
        /// A message a line, each a JSON object with `role` and `content`, as `session messages --json` shows them under
        /// `message`; at most 10,000 and 16 MiB
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
    /// Show or set the window, budget and model of one conversation, in place of the configured ones
    Settings {
        #[command(flatten)]
        transcript: TranscriptArguments,
        #[command(flatten)]
        settings: SettingsArguments,
        /// Remove what was set; what is given beside it is set anew
        #[arg(long)]
        clear: bool,
    },
    /// Print the metadata that a question would get, as JSON; nothing is written
    Window(WindowArguments),
}

impl ConversationCommand {
    /// Whether it leaves everything as it is.
    pub fn only_reads(&self) -> bool {
        match self {
            Self::Describe { .. } | Self::Messages { .. } | Self::Text { .. } | Self::Grep(_) | Self::Window(_) => true,
            Self::Title { title, clear, .. } => title.is_none() && !clear,
            Self::Settings { settings, clear, .. } => settings.is_empty() && !clear,
            Self::Append { .. }
            | Self::Edit { .. }
            | Self::Remove { .. }
            | Self::ClearMessages { .. }
            | Self::SetMessages { .. } => false,
        }
    }
}

/// `keepline explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    pub window: WindowArguments,
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
}
