//! Stores the newest exchange of a conversation, as an answer without a question before it.
//!
//! Promises an outcome for every call, and a reason for what was not stored. What is stored of a text, and which answers are
//! not worth it, the filter decides.

use keepline_json::{self as json, push_base32};
use keepline_options::words::{Recall, Word as _};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::pair::Pair;
use crate::{
    entry::{Answer, Effect, Problem, ProblemCode, Task},
    keepline::Keepline,
    keepline::inner::counters::MemoryCounters,
    logging::LogLevel,
    store::Deadline,
};

/// A longer id names no user.
const USER_MAX: usize = 1024;
/// If the caller names no source.
const SOURCE: &str = r#""source":"chat","#;
/// With every memory. Another way of storing them gets another version.
const ADDED: &str = r#""auto_generated":true,"storage_version":"v1"}"#;

/// What is to be remembered: `Remember { user, messages, ..Remember::default() }`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "made field by field, with the default for the rest")]
pub struct Remember<'a> {
    /// The user's id, 1 to 1,024 bytes. Empty: no user is known, and nothing is stored.
    pub user: &'a str,
    /// The conversation's session. None, or an empty text: the memory goes to a session of the user's own, if recall's
    /// scope is the user.
    pub session: Option<&'a str>,
    /// Chat messages, oldest first: objects with `role` (`user` or `human`, `assistant` or `ai`, `tool`; or LangChain's
    /// `type`), `content` (a text, or parts with texts) and, where tools are called, `tool_calls`; or Anthropic's form, in
    /// which calls and results are parts of the content.
    pub messages: &'a [Value],
    /// None: one that is derived from the pair, so that the same messages are stored once.
    pub message_id: Option<&'a str>,
    /// To be stored with the answer: a JSON object of up to 64 KiB, or empty. `source` is `chat` if it isn't there, and
    /// `auto_generated` and `storage_version` are added.
    pub metadata: &'a str,
}

/// The reason why nothing was stored. Displayed as one sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemorySkip {
    /// No user is known, or the id has more than 1,024 bytes.
    #[error("no user id was given, or it is longer than 1,024 bytes")]
    NoUser,
    /// Less than two messages.
    #[error("there are fewer than two messages")]
    TooFewMessages,
    /// No message of a user that was answered, or the newest one is still being answered.
    #[error("the newest question has not been answered yet, or there is no question")]
    NoPair,
    /// The user's or the assistant's text is blank.
    #[error("the question or the answer is empty")]
    Empty,
    /// Conversations are off.
    #[error("conversations are off: set conversation=true")]
    NoConversations,
    /// No session, and recall's scope is not the user.
    #[error("there is no session, and recall is not \"user\"")]
    NoSession,
    /// This can't be a session's id.
    #[error("the session's id is not valid")]
    InvalidSession,
    /// The session belongs to another user.
    #[error("the session belongs to another user")]
    Foreign,
    /// The session ended meanwhile, or the user was forgotten less than a day ago.
    #[error("the session ended meanwhile, or its user was forgotten less than a day ago")]
    Ended,
    /// The filter's rules: `too-short`, `marker`, …
    #[error("{}", .0.message)]
    Filter(Problem),
}

impl MemorySkip {
    /// For scripts, in one word.
    pub fn code(&self) -> String {
        match self {
            Self::NoUser => "no-user".into(),
            Self::TooFewMessages => "too-few-messages".into(),
            Self::NoPair => "no-pair".into(),
            Self::Empty => "empty".into(),
            Self::NoConversations => "no-conversations".into(),
            Self::NoSession => "no-session".into(),
            Self::InvalidSession => "invalid-session".into(),
            Self::Foreign => "foreign".into(),
            Self::Ended => "ended".into(),
            Self::Filter(problem) => problem.code.to_string(),
        }
    }
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remembered {
    /// What was done, or why not.
    pub outcome: RememberOutcome,
    /// What should be done soon: for [`Maintenance::submit`](crate::maintenance::Maintenance::submit). A memory is recalled
    /// when that is done.
    pub due: Vec<Task>,
}

/// What was done, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RememberOutcome {
    /// It is stored.
    Stored {
        /// Where.
        session: String,
        /// The answer's.
        message_id: String,
        /// What was left out, if anything was.
        problem: Option<Problem>,
    },
    /// It was stored before, and nothing was written.
    Repeated {
        /// Where.
        session: String,
        /// The answer's.
        message_id: String,
    },
    /// It is not to be stored.
    Skipped(MemorySkip),
    /// The store, the plugin or a limit kept it from being stored. It was logged; the caller goes on.
    Failed(Problem),
}

impl RememberOutcome {
    fn count(&self, counters: &mut MemoryCounters) {
        let counter = match self {
            Self::Stored { .. } => &mut counters.stored,
            Self::Repeated { .. } => &mut counters.repeated,
            Self::Skipped(_) => &mut counters.skipped,
            Self::Failed(_) => &mut counters.failed,
        };
        *counter += 1;
    }
}

#[allow(clippy::multiple_inherent_impl, reason = "memories are built on a Keepline, which knows nothing of them")]
impl Keepline {
    /// Stores the newest exchange of a conversation as a memory of a user, by the deadline or else within
    /// [`Options::entry_timeout`](crate::Options::entry_timeout). What is not stored is returned with its reason and counted;
    /// there is no error. Cost: that of an answer; with a session's first memory some more transactions.
    pub async fn remember(&self, mut wanted: Remember<'_>, by: Option<Deadline>) -> Remembered {
        // As in an entry's metadata, an empty id names no session.
        wanted.session = wanted.session.filter(|session| !session.is_empty());
        let mut due = Vec::new();
        let outcome = match self.select_pair(&wanted) {
            Ok((pair, session)) => self.store_pair(&wanted, &pair, session, by, &mut due).await,
            Err(skip) => RememberOutcome::Skipped(skip),
        };
        match &outcome {
            RememberOutcome::Skipped(skip) => {
                self.inner.log().log_from_host(
                    LogLevel::Debug,
                    "keepline.memory",
                    &format!("memory not stored: {skip}"),
                );
            }
            RememberOutcome::Failed(problem) => {
                self.inner.log().log_from_host(
                    LogLevel::Warn,
                    "keepline.memory",
                    &format!("memory not stored: {}", problem.message),
                );
            }
            RememberOutcome::Stored { .. } | RememberOutcome::Repeated { .. } => {}
        }
        outcome.count(&mut self.inner.tally.memories.lock());
        Remembered { outcome, due }
    }

    /// What is to be stored, and where.
    fn select_pair(&self, wanted: &Remember<'_>) -> Result<(Pair, String), MemorySkip> {
        if !(1..=USER_MAX).contains(&wanted.user.len()) {
            return Err(MemorySkip::NoUser);
        }
        let pair = Pair::newest(wanted.messages)?;
        let scope = configured_recall(self).ok_or(MemorySkip::NoConversations)?;
        match wanted.session {
            Some(session) => Ok((pair, session.to_owned())),
            None if scope == Recall::User => Ok((pair, user_memory_session(wanted.user))),
            None => Err(MemorySkip::NoSession),
        }
    }

    async fn store_pair(
        &self,
        wanted: &Remember<'_>,
        pair: &Pair,
        session: String,
        by: Option<Deadline>,
        due: &mut Vec<Task>,
    ) -> RememberOutcome {
        let message_id = wanted.message_id.filter(|id| !id.is_empty()).map_or_else(|| pair.id(), str::to_owned);
        let metadata =
            json!({"session_id": session, "user_id": wanted.user, "memory_mode": "conversation"}).to_string();
        let Some(stored_metadata) = stored_metadata(wanted.metadata) else {
            let message = "the metadata is not a JSON object".into();
            return RememberOutcome::Failed(Problem { code: ProblemCode::Other("invalid".into()), message });
        };
        let details = format!(r#"{{"metadata":{stored_metadata}}}"#);
        let answer = Answer {
            text: &pair.assistant,
            metadata: &metadata,
            message_id: Some(&message_id),
            question_text: Some(&pair.user),
            details: &details,
            ..Answer::default()
        };
        let passed = match self.pipe().reply(answer, by).await {
            Ok(passed) => passed,
            Err(error) => return RememberOutcome::Failed(Problem { code: error.code, message: error.message }),
        };
        *due = passed.due;
        let unknown = || Problem { code: ProblemCode::Other("failed".into()), message: "it was not stored".into() };
        match passed.effect {
            Effect::Stored => RememberOutcome::Stored { session, message_id, problem: passed.problem },
            Effect::Repeated => RememberOutcome::Repeated { session, message_id },
            Effect::Ignored => RememberOutcome::Skipped(MemorySkip::InvalidSession),
            Effect::Foreign => RememberOutcome::Skipped(MemorySkip::Foreign),
            Effect::Ended => RememberOutcome::Skipped(MemorySkip::Ended),
            Effect::Skipped => RememberOutcome::Skipped(MemorySkip::Filter(passed.problem.unwrap_or_else(unknown))),
            _ => RememberOutcome::Failed(passed.problem.unwrap_or_else(unknown)),
        }
    }
}

/// How far recall reaches, as it is configured. None: without conversations.
pub(super) fn configured_recall(keepline: &Keepline) -> Option<Recall> {
    let options: Value = serde_json::from_str(&keepline.filter_options()).ok()?;
    let is_on = options.get("conversation") == Some(&Value::Bool(true));
    let recall = options.get("recall").and_then(Value::as_str).and_then(Recall::of);
    is_on.then_some(recall.unwrap_or(Recall::Off))
}

/// The session of a user's memories that belong to no other. A hash, so that no two users share one, and no other
/// session has this name by chance; one that takes the name on purpose does not belong to the user.
fn user_memory_session(user: &str) -> String {
    let mut hash = Sha256::new();
    hash.update("keepline memories of user\0");
    hash.update(user);
    let mut name = String::from("memories-");
    push_base32(&mut name, &hash.finalize());
    name
}

/// What is given, with what is ours. None: it is no JSON object.
fn stored_metadata(given: &str) -> Option<String> {
    let (mut out, mut has_source) = (String::from("{"), false);
    if !given.trim().is_empty() {
        let given = json::as_strict_value(given)?;
        json::for_each_member(given, |key, raw| {
            if json::key_matches(key, "auto_generated") || json::key_matches(key, "storage_version") {
                return;
            }
            has_source |= json::key_matches(key, "source");
            for part in [key, ":", raw, ","] {
                out.push_str(part);
            }
        })?;
    }
    if !has_source {
        out.push_str(SOURCE);
    }
    out.push_str(ADDED);
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Options, plugin, sessions::MessageQuery, store::MemoryStore};

    async fn keepline(filter: &str) -> Keepline {
        let plugin = plugin::for_tests();
        let options = Options { filter: filter.into(), ..Options::default() };
        Keepline::new(plugin, Arc::new(MemoryStore::default()), options).await.unwrap()
    }

    fn messages(user: &str, assistant: &str) -> [Value; 2] {
        [json!({"role": "user", "content": user}), json!({"role": "assistant", "content": assistant})]
    }

    fn skip(remembered: &Remembered) -> &MemorySkip {
        let RememberOutcome::Skipped(skip) = &remembered.outcome else { panic!("{remembered:?}") };
        assert!(remembered.due.is_empty());
        skip
    }

    #[tokio::test]
    async fn a_memory_that_is_not_stored_is_returned_with_its_reason() {
        let keepline = keepline(r#"{"conversation": true, "min_message_length": 3}"#).await;
        keepline.pipe().answer("Fine.", r#"{"session_id": "bens", "user_id": "ben"}"#).await.unwrap();
        let said = messages("Where?", "In Bonn.");
        let told = Remember { user: "anna", session: Some("s"), messages: &said, ..Remember::default() };
        let (short, blank, long) = (messages("Where?", "Ox"), messages("Where?", " "), "x".repeat(1025));
        for (told, code) in [
            (Remember { user: "", ..told }, "no-user"),
            (Remember { user: &long, ..told }, "no-user"),
            (Remember { user: "", session: None, messages: &[], ..told }, "no-user"),
            (Remember { messages: &said[..1], ..told }, "too-few-messages"),
            (Remember { messages: &[said[1].clone(), said[0].clone()], ..told }, "no-pair"),
            (Remember { messages: &blank, ..told }, "empty"),
            (Remember { messages: &short, ..told }, "too-short"),
            (Remember { session: None, ..told }, "no-session"),
            (Remember { session: Some(""), ..told }, "no-session"),
            (Remember { session: Some("a b"), ..told }, "invalid-session"),
        ] {
            let remembered = keepline.remember(told, None).await;
            assert_eq!(skip(&remembered).code(), code);
            assert!(!skip(&remembered).to_string().is_empty());
        }
        assert_eq!(keepline.metrics().memories.skipped, 10);
        assert_eq!(keepline.sessions().list("", 0).await.unwrap().sessions, ["bens"]);
        let off = super::tests::keepline("{}").await;
        assert_eq!(skip(&off.remember(told, None).await), &MemorySkip::NoConversations);
    }

    #[tokio::test]
    async fn a_memory_for_another_users_session_is_skipped() {
        let keepline = keepline(r#"{"conversation": true}"#).await;
        let said = messages("Where?", "In Bonn.");
        let told = Remember { user: "ben", session: Some("s"), messages: &said, ..Remember::default() };
        assert!(matches!(keepline.remember(told, None).await.outcome, RememberOutcome::Stored { .. }));
        let remembered = keepline.remember(Remember { user: "anna", ..told }, None).await;
        assert_eq!(skip(&remembered), &MemorySkip::Foreign);
        assert_eq!(keepline.sessions().describe("s".into()).await.unwrap().answers, 1);
    }

    #[tokio::test]
    async fn a_pair_is_stored_once_with_its_metadata() {
        let keepline = keepline(r#"{"conversation": true}"#).await;
        let said = messages("Where?", "In Bonn.");
        let metadata = r#"{"mood": 1.50, "source": "desk", "auto_generated": false}"#;
        let told = Remember { user: "anna", session: Some("s"), messages: &said, metadata, ..Remember::default() };
        let remembered = keepline.remember(told, None).await;
        let RememberOutcome::Stored { session, message_id, problem: None } = remembered.outcome else { panic!() };
        assert!(session == "s" && message_id.starts_with("mem-") && !remembered.due.is_empty());
        assert_eq!(keepline.sessions().describe("s".into()).await.unwrap().title.as_deref(), Some("Where?"));
        let again = keepline.remember(told, None).await;
        assert!(again.due.is_empty());
        assert_eq!(again.outcome, RememberOutcome::Repeated { session, message_id });
        let named = keepline.remember(Remember { message_id: Some("m1"), metadata: "", ..told }, None).await;
        assert!(matches!(named.outcome, RememberOutcome::Stored { message_id, .. } if message_id == "m1"));
        let page = keepline.sessions().messages("s".into(), MessageQuery::default()).await.unwrap();
        let records: Vec<Value> =
            page.messages.iter().map(|message| serde_json::from_str(&message.to_json()).unwrap()).collect();
        assert_eq!(records.len(), 4);
        assert!(page.messages[1].to_json().contains(r#""mood":1.50"#), "as it was written");
        let first = json!({"mood": 1.5, "source": "desk", "auto_generated": true, "storage_version": "v1"});
        assert_eq!((&records[0]["content"], &records[1]["metadata"]), (&json!("Where?"), &first));
        assert_eq!(records[3]["metadata"], json!({"source": "chat", "auto_generated": true, "storage_version": "v1"}));
        let counted = keepline.metrics().memories;
        assert_eq!((counted.stored, counted.repeated, counted.skipped, counted.failed), (2, 1, 0, 0));
    }

    #[tokio::test]
    async fn a_session_of_the_users_own_gets_a_title_as_well() {
        let keepline = keepline(r#"{"conversation": true, "recall": "user"}"#).await;
        let said = messages("Where?", "In Bonn.");
        let told = Remember { user: "anna", messages: &said, ..Remember::default() };
        let remembered = keepline.remember(told, None).await;
        assert!(remembered.due.iter().any(|task| task.name == "title"));
        let own = user_memory_session("anna");
        assert_eq!(keepline.sessions().describe((&*own).into()).await.unwrap().title.as_deref(), Some("Where?"));
    }

    #[tokio::test]
    async fn a_title_is_redacted_like_the_record_and_deleted_with_it() {
        let keepline = keepline(r#"{"conversation": true, "redact": ["sk-{w4+}"]}"#).await;
        let said = messages("My key is sk-1234567, keep it.", "No.");
        let told = Remember { user: "anna", session: Some("s"), messages: &said, ..Remember::default() };
        keepline.remember(told, None).await;
        let title = async || keepline.sessions().describe("s".into()).await.unwrap().title;
        assert_eq!(title().await.as_deref(), Some("My key is [redacted], keep it."));
        keepline.sessions().rewrite("s".into(), 0, None).await.unwrap();
        assert_eq!(title().await, None);
    }

    #[tokio::test]
    async fn a_failed_store_is_an_outcome_and_not_an_error() {
        let keepline = keepline(r#"{"conversation": true}"#).await;
        keepline.shutdown(std::time::Duration::ZERO).await;
        let said = messages("Where?", "In Bonn.");
        let told = Remember { user: "anna", session: Some("s"), messages: &said, ..Remember::default() };
        let remembered = keepline.remember(told, None).await;
        assert!(matches!(remembered.outcome, RememberOutcome::Failed(Problem { code: ProblemCode::Closed, .. })));
        assert_eq!(keepline.metrics().memories.failed, 1);
    }

    #[test]
    fn metadata_that_is_not_an_object_is_not_stored() {
        assert_eq!(stored_metadata(" ").unwrap(), stored_metadata("{}").unwrap());
        for given in ["[]", "{", "{\"a\":NaN}", "{} x", "1"] {
            assert_eq!(stored_metadata(given), None, "{given}");
        }
    }

    #[test]
    fn each_user_has_a_separate_memories_session() {
        let name = user_memory_session("anna");
        assert!(name.starts_with("memories-") && name.len() <= 128);
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
        assert_eq!(name, user_memory_session("anna"));
        assert_ne!(name, user_memory_session("Anna"));
    }
}
