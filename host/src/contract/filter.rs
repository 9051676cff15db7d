//! Types of the interface `filter`: entries and replies.

use wasmtime::component::{ComponentType, Lift, Lower};

#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct ConfigureReply {
    pub(crate) effective: String,
    #[component(name = "wants-vectors")]
    pub(crate) wants_vectors: bool,
    #[component(name = "wants-tokens")]
    pub(crate) wants_tokens: bool,
    #[component(name = "wants-turns")]
    pub(crate) wants_turns: bool,
}

#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct ConfigProblem {
    pub(crate) field: String,
    pub(crate) message: String,
}

/// What was done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
pub enum Effect {
    /// No session: nothing was done.
    #[component(name = "passed")]
    Passed,
    /// The session id is malformed: nothing was done.
    #[component(name = "ignored")]
    Ignored,
    /// The session belongs to another user: nothing was done.
    #[component(name = "foreign")]
    Foreign,
    /// Question: the session is there and has nothing to attach.
    #[component(name = "resumed")]
    Resumed,
    /// Question: something was attached. With a problem: the part that fits; the problem names what was left out.
    #[component(name = "enriched")]
    Enriched,
    /// Answer: it is stored. With a problem: as far as possible; the problem names what is broken.
    #[component(name = "stored")]
    Stored,
    /// Answer: its message id is stored already; nothing was written.
    #[component(name = "repeated")]
    Repeated,
    /// Answer: not worth storing, by option; the problem names it.
    #[component(name = "skipped")]
    Skipped,
    /// A limit prevented it; the problem names the limit.
    #[component(name = "limited")]
    Limited,
    /// Answer: the life of the session that its question saw has ended; not stored.
    #[component(name = "ended")]
    Ended,
    /// The store or the plugin failed; the problem tells how.
    #[component(name = "failed")]
    Failed,
}

/// As the component tells it; people get a [`Problem`](crate::pipe::Problem).
#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct PluginProblem {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// Work that has become due and should be done soon, off the entry's path: hand it to
/// [`Keepline::advance`](crate::Keepline::advance). Losing one is harmless, for the next entry of its session finds it
/// due again.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(record)]
pub struct Task {
    /// `session/NAME`, `node/NAME`, `user/NAME`, or `session/NAME user/NAME`: one task a subject at a time; of two, the
    /// session counts.
    pub subject: String,
    /// What it is, for logs and metrics: `fold`, `summary`, `title`, `index` …
    pub name: String,
    /// The plugin's own: printable ASCII.
    pub state: String,
}

/// An embedding.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(record)]
pub struct Vector {
    /// Vectors of different models are never compared.
    pub model: String,
    /// Base64 of 32-bit little-endian floats, as `/v1/embeddings` returns them; at most 4096.
    pub data: String,
}

/// A question with all that can be known of it. What is not known is left out:
/// `Question { text, metadata, ..Question::default() }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct Question<'a> {
    /// What was asked.
    pub text: &'a str,
    /// A JSON object. Default `{}`.
    pub metadata: &'a str,
    /// None: that of the metadata.
    #[component(name = "message-id")]
    pub message_id: Option<&'a str>,
    /// Tokens of the text; none: estimated.
    pub tokens: Option<u32>,
    /// The text's, if it is there in time.
    pub vector: Option<&'a Vector>,
}

impl Default for Question<'_> {
    fn default() -> Self {
        Self { text: "", metadata: "{}", message_id: None, tokens: None, vector: None }
    }
}

#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct QuestionReply {
    pub(crate) metadata: Option<String>,
    pub(crate) turn: String,
    pub(crate) effect: Effect,
    pub(crate) attached: u32,
    pub(crate) due: Vec<Task>,
    pub(crate) problem: Option<PluginProblem>,
}

/// A tool call, its result, or both; paired by `call_id`, also across steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
pub struct ToolActivity {
    /// Which call.
    #[component(name = "call-id")]
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text. None: the call was handed in before.
    pub arguments: Option<String>,
    /// None: still to come, or failed.
    pub output: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// More to store with it: a JSON object, or empty.
    pub details: String,
}

/// Whether an answer has come to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ComponentType, Lower)]
#[component(enum)]
#[repr(u8)]
pub enum AnswerStatus {
    /// It has.
    #[default]
    #[component(name = "complete")]
    Complete,
    /// Cut off by a failure or by the client.
    #[component(name = "incomplete")]
    Incomplete,
}

#[derive(Clone, Copy, Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct QuestionPart<'a> {
    pub(crate) text: &'a str,
    pub(crate) tokens: Option<u32>,
}

#[derive(Clone, Copy, Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct AnswerPart<'a> {
    pub(crate) status: AnswerStatus,
    pub(crate) tokens: Option<u32>,
    pub(crate) details: &'a str,
}

#[derive(Clone, Copy, Debug, ComponentType, Lower)]
#[component(variant)]
pub(crate) enum TurnPart<'a> {
    #[component(name = "question")]
    Question(QuestionPart<'a>),
    #[component(name = "tool")]
    Tool(&'a ToolActivity),
    #[component(name = "answer")]
    Answer(AnswerPart<'a>),
}

#[derive(Clone, Copy, Debug, ComponentType, Lower)]
#[component(record)]
pub(crate) struct AnswerEntry<'a> {
    pub(crate) text: &'a str,
    pub(crate) metadata: &'a str,
    pub(crate) turn: &'a str,
    #[component(name = "message-id")]
    pub(crate) message_id: Option<&'a str>,
    pub(crate) parts: &'a [TurnPart<'a>],
}

#[derive(Debug, ComponentType, Lift)]
#[component(record)]
pub(crate) struct AnswerReply {
    #[allow(dead_code, reason = "the contract has it, and says that it is always none")]
    pub(crate) metadata: Option<String>,
    pub(crate) effect: Effect,
    pub(crate) due: Vec<Task>,
    pub(crate) problem: Option<PluginProblem>,
}
