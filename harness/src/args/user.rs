//! Arguments of `keepline user`.

use clap::{Args, Subcommand};

use super::{Access, help::JSON_HELP, session::PageArguments};

#[derive(Debug, Args)]
pub struct UserArguments {
    #[arg(long, global = true, help = JSON_HELP)]
    pub json: bool,
    #[command(subcommand)]
    pub command: UserCommand,
}

/// What can be done to users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Store a value that is attached to every question of the user
    Put {
        /// The user's id
        user: String,
        /// The key
        key: String,
        /// A JSON value, or - to read it from standard input
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Treat the value as plain text instead of JSON
        #[arg(long)]
        text: bool,
    },
    /// Print a value of a user
    Get {
        /// The user's id
        user: String,
        /// The key
        key: String,
    },
    /// List users: how many sessions, nodes and values each has
    ///
    /// A user whose id is not a plain name is listed by its hash (h-…). A session that was
    /// deleted is counted until the user's list is tidied. Each user is read once, 64 at a time.
    List {
        #[command(flatten)]
        page: PageArguments,
        /// List the values of this user, as `values` does
        #[arg(hide = true, conflicts_with_all = ["limit", "cursor", "all", "full"])]
        user: Option<String>,
    },
    /// List the values of a user
    Values {
        /// The user's id
        user: String,
    },
    /// Remove a value of a user
    Remove {
        /// The user's id
        user: String,
        /// The key
        key: String,
    },
    /// List the sessions of a user, most recently used first
    Sessions {
        /// The user's id
        user: String,
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Continue from here: the position printed with the previous page
        #[arg(long, value_name = "POSITION")]
        before: Option<u64>,
        /// Do not cut what is wider than the terminal
        #[arg(long)]
        full: bool,
    },
    /// Find messages in the sessions of a user, newest first
    Search {
        /// The user's id
        user: String,
        /// Words that a message must contain, all of them; case is ignored
        #[arg(required = true)]
        words: Vec<String>,
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Continue from here: the place printed with the previous page
        #[arg(long, value_name = "PLACE")]
        after: Option<String>,
    },
    /// Delete everything about a user: values, sessions, nodes; only a mark that this was done remains
    Forget {
        /// The user's id
        user: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl UserCommand {
    /// What it does to the store.
    pub fn access(&self) -> Access {
        match self {
            Self::Get { .. }
            | Self::List { .. }
            | Self::Values { .. }
            | Self::Sessions { .. }
            | Self::Search { .. } => Access::Read,
            Self::Put { .. } => Access::Add,
            Self::Remove { .. } | Self::Forget { .. } => Access::Delete,
        }
    }
}
