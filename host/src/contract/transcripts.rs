//! Types of the interfaces `transcripts` and `users`.

use wasmtime::component::{ComponentType, Lift, Lower};

/// The transcript of a session, or of one of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct Transcript<'a> {
    /// Whose it is.
    pub session: &'a str,
    /// The node's `app_id`. Without a `node_id` it is ignored.
    #[component(name = "app-id")]
    pub app_id: Option<&'a str>,
    /// None: the session's own transcript.
    #[component(name = "node-id")]
    pub node_id: Option<&'a str>,
}

impl<'a> From<&'a str> for Transcript<'a> {
    /// A session's own.
    fn from(session: &'a str) -> Self {
        Self { session, ..Self::default() }
    }
}

/// What is set for one transcript in place of the options of the same names. Absent: as the configuration has it, but for
/// the reserve of a window that is set here, which is derived from that.
#[derive(Clone, Debug, Default, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(record)]
pub struct TranscriptSettings {
    /// Tokens that a question gets, its summary included: 64 to 2,000,000.
    #[component(name = "max-context-tokens")]
    pub max_context_tokens: Option<u64>,
    /// The model's window in tokens: 256 to 8,000,000.
    #[component(name = "context-window")]
    pub context_window: Option<u64>,
    /// What of it question and answer need: 1 to 8,000,000.
    #[component(name = "reserve-tokens")]
    pub reserve_tokens: Option<u64>,
    /// The model that answers: a name of 1 to 128 bytes without control characters. See
    /// [`TokenCounter`](crate::TokenCounter).
    pub model: Option<String>,
}

/// What there is to tell of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct TranscriptState {
    /// The session's id.
    pub session: String,
    /// Its creation stamp, unique among its lives.
    pub generation: String,
    /// The name of the owner's bucket: a plain user id as it is, any other hashed.
    pub owner: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What is set for it.
    pub settings: TranscriptSettings,
    /// What was said up to a position, in short.
    pub summary: Option<String>,
    /// That position.
    #[component(name = "summary-to")]
    pub summary_to: u64,
    /// The position of the oldest record.
    pub oldest: u64,
    /// The position of the next one.
    pub next: u64,
    /// Tokens of the thread that ends with the newest message, estimated.
    pub weight: u64,
    /// Bytes of all records.
    pub bytes: u64,
    /// How many answers it has had.
    pub answers: u64,
    /// When it began, in milliseconds since 1970, if the store tells.
    #[component(name = "created-at")]
    pub created_at: Option<u64>,
    /// When its newest record was written, in milliseconds since 1970.
    #[component(name = "last-at")]
    pub last_at: Option<u64>,
    /// Milliseconds of life left; none: it does not expire.
    #[component(name = "expires-in")]
    pub expires_in: Option<u64>,
}

/// Which messages are wanted; all that is said must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct MessageQuery<'a> {
    /// With this id.
    pub id: Option<&'a str>,
    /// On the way to the message with this id, and on no other branch.
    pub thread: Option<&'a str>,
    /// `user`, `assistant` or `tool`.
    pub role: Option<&'a str>,
    /// With this text in them. ASCII letters match in either case.
    pub contains: Option<&'a str>,
    /// Below this position: the `older` of the page before.
    pub before: Option<u64>,
    /// At most so many, the newest; 0: 100. No more than 1,000.
    pub limit: u32,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct Message {
    /// Its place in the transcript, which never changes.
    pub position: u64,
    /// As it is stored: a JSON object.
    pub text: String,
}

/// Some of the messages.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct MessagePage {
    /// The session's id.
    pub session: String,
    /// Oldest first.
    pub messages: Vec<Message>,
    /// Go on with this as `before`. None: all there is has been looked at.
    pub older: Option<u64>,
}

/// A message's text, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct MessageContent {
    /// The session's id.
    pub session: String,
    /// Which message.
    pub position: u64,
    /// The part that was asked for.
    pub text: String,
    /// Characters of the whole.
    pub length: u64,
}

/// Which lines of a message are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct LineQuery<'a> {
    /// With this in them: a text of 1 to 256 bytes on one line.
    pub text: &'a str,
    /// Whether ASCII letters match in either case.
    #[component(name = "ignore-case")]
    pub ignore_case: bool,
    /// So many lines before and after each; no more than 20.
    pub context: u32,
    /// From this line on: the `next` of the lines before. 0 and 1: the first.
    #[component(name = "from-line")]
    pub from_line: u64,
    /// At most so many that hold the text; 0: 100. No more than 1,000.
    pub limit: u32,
}

/// A line of a message.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct ContentLine {
    /// From 1.
    pub number: u64,
    /// Whether it holds the text; else it is one of those around.
    #[component(name = "is-match")]
    pub is_match: bool,
    /// Without its end. Of one of more than 2,000 bytes the part with the text.
    pub text: String,
    /// Where in the message that part begins, in characters.
    pub offset: u64,
    /// Whether the line is longer.
    #[component(name = "is-cut")]
    pub is_cut: bool,
}

/// Lines of a message.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct FoundLines {
    /// The session's id.
    pub session: String,
    /// Which message.
    pub position: u64,
    /// In the message's order, each once.
    pub lines: Vec<ContentLine>,
    /// Go on with this as `from_line`. None: the message has been searched to its end.
    pub next: Option<u64>,
}

/// Messages were changed.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct TranscriptChanged {
    /// The session's id.
    pub session: String,
    /// How many.
    pub count: u64,
}

/// A session, or a node of it, was noted.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct TranscriptRegistered {
    /// The session's id.
    pub session: String,
    /// The name of the owner's bucket.
    pub owner: Option<String>,
}

/// A title was given, or taken.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct TitleSet {
    /// The session's id.
    pub session: String,
    /// As it is now.
    pub title: Option<String>,
}

/// Settings were set, or taken.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct SettingsSet {
    /// The session's id.
    pub session: String,
}

/// A value of a user.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct UserValue {
    /// Where.
    pub key: String,
    /// JSON text.
    pub value: String,
}

/// Values of a user.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct UserValues {
    /// The name of the user's bucket: a plain id as it is, any other hashed.
    pub user: String,
    /// Sorted by key.
    pub values: Vec<UserValue>,
}

/// A value of a user was stored, or removed.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct UserValueStored {
    /// The name of the user's bucket.
    pub user: String,
    /// Where.
    pub key: String,
}

/// Some of a user's sessions.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct UserSessions {
    /// The name of the user's bucket.
    pub user: String,
    /// JSON objects, the session that was used last first: `session`, `began_at`, `records`, and where there is one
    /// `title`, `last_at`, `preview`.
    pub sessions: Vec<String>,
    /// Go on with this as `before`. None: that was the last page.
    pub older: Option<u64>,
}

/// How far a user is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct UserForgotten {
    /// The user's id.
    pub user: String,
    /// Sessions that this call deleted.
    pub sessions: u64,
    /// Nodes that this call deleted.
    pub nodes: u64,
    /// Entries that are left in the user's lists: call again until there are none.
    pub remaining: u64,
}
