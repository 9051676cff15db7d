//! Arguments about conversations that several commands have.

use clap::Args;

/// Which transcript.
#[derive(Debug, Args)]
pub struct TranscriptArguments {
    /// The session's id
    pub session: String,
    /// The transcript of this node instead of the session's own: its node_id
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// The node's app_id, if it has one
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
    #[command(flatten)]
    pub asked: AskedArguments,
}

/// How a question would be asked.
#[derive(Debug, Args)]
pub struct AskedArguments {
    /// Token budget of the window, instead of the configured one: 64 to 2000000
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(64..=2_000_000))]
    pub budget: Option<u64>,
    /// The id of the message that the question follows, instead of the newest
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// The id of the user who asks; with recall=user, all of their sessions are searched
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
}
