//! Arguments of `keepline remember` and `keepline memories`.

use clap::Args;

use super::{help::JSON_HELP, parse::share};

#[derive(Debug, Args)]
pub struct RememberArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
    /// The user's id; without one, nothing is stored
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub user: String,
    /// The conversation's session; if omitted with recall=user, a session that belongs to the user alone
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// The message id of the answer, instead of one derived from the exchange
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// The memory's `source` in its metadata [default: chat]
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Additional metadata to store: a JSON object
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
}

#[derive(Debug, Args)]
pub struct MemoriesArguments {
    #[arg(long, help = JSON_HELP)]
    pub json: bool,
    /// The user's id
    #[arg(long, value_name = "ID")]
    pub user: String,
    /// What to search for; defaults to the user's latest question
    #[arg(allow_hyphen_values = true)]
    pub query: Option<String>,
    /// Search only this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Show at most this many
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub limit: u32,
    /// Minimum similarity, relative to the best match: from 0 to 1 (exclusive)
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    pub threshold: f64,
    /// Find messages that contain all words of the query, also within longer words, newest first, without recall
    #[arg(long, conflicts_with = "threshold")]
    pub keyword: bool,
    /// Print the memories as text for a prompt
    #[arg(long, conflicts_with = "json")]
    pub prompt: bool,
    /// Maximum length of that text in characters
    #[arg(long, value_name = "COUNT", default_value_t = 2000, requires = "prompt")]
    pub max_chars: usize,
}

// Paragraphs are one line each: clap breaks them where the terminal ends.
pub const REMEMBER_HELP: &str = r#"Standard input holds the messages of a conversation, oldest first, as a JSON array, as JSON lines, as an object with "messages", or as `session messages --json` prints them; tools may be in OpenAI's or Anthropic's form:
  [{"role":"user","content":"My dog is called Bruno."},{"role":"assistant","content":"A fine name."}]

The newest message of a user with its answer is stored, whatever tools did between them. Sent again, it is stored once. It prints what was done: "stored" or "repeated" and the session, or "skipped" and the reason: no-user, too-few-messages, no-pair, empty, no-session, invalid-session, foreign, ended, and the filter's own, such as too-short. What is due after an answer (its title, recall's index) is done as well.

Needs conversation=true, as the profile chat has it.

Exit codes: 0 stored, repeated or skipped, 1 the store failed (with --json, the error's code is "not-stored"), 2 the command line, the messages or the configuration are wrong, 3 the plugin could not be loaded."#;

pub const MEMORIES_HELP: &str = r#"A memory is a question with its answer. Similarity is recall's score as a share of the best one's, and not comparable between queries. "method" of --json says by what they were found: "lexical", by words; "hybrid", also by the query's embedding, if there is a model for that and it came in time; "keyword". With recall=user, all sessions of the user are searched; with recall=session, name one with --session. Without recall, --keyword finds messages that contain the words. The session of another user is an error.

Exit codes: 0 success, also if nothing is found, 1 the command failed, 2 the command line or the configuration is wrong, 3 the plugin could not be loaded."#;
