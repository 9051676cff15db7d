//! The messages of a session, or of one of its nodes.

use axum::response::Response;
use keepline::{
    SessionError, Sessions,
    sessions::{
        ContentLine, LineQuery, Message, MessageQuery, SessionErrorCode, Transcript, TranscriptState, WriteConditions,
        chat_messages,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use super::super::ownership::{OwnedTranscript, reached_user, session_not_found};
use super::{window::require_conversations, with_version};
use crate::{
    append::append_messages,
    http::{self, ApiError, Call, Page, PageQuery, expected_version, raw_json, with_expectation},
    jsonl::chat_messages::{ChatMessage, InvalidChatMessages, parse_chat_messages, parse_replacement_messages},
};

/// Messages that are read at a time.
const PAGE_MAX: u32 = 100;

/// A message, as lists have it.
#[derive(Serialize)]
pub struct MessageFields {
    object: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    position: u64,
    message: Box<RawValue>,
}

impl MessageFields {
    fn new(message: &Message) -> Self {
        let (position, message) = (message.position, raw_json(&message.to_json()));
        Self { object: "message", session: None, title: None, position, message }
    }

    /// One that was found among several sessions'.
    pub fn found(session: String, title: Option<String>, message: &Message) -> Self {
        Self { session: Some(session), title, ..Self::new(message) }
    }

    /// What `after` names it by, in one session.
    pub fn position(&self) -> String {
        self.position.to_string()
    }
}

/// The messages of a transcript: the newest first, or with `order=asc` the oldest.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let owned = OwnedTranscript::of_path(&call).await?;
    let page = PageQuery::of(&call)?;
    let transcript = owned.transcript();
    // Before them: a version that is older than what is shown refuses a change, and one that is newer would let it overwrite
    // what was not shown.
    let state = call.sessions().describe(transcript).await?;
    let reply = match call.query.get("order") {
        None | Some("desc") => newest_first(&call, transcript, &page).await?,
        Some("asc") => oldest_first(&call, (transcript, &state), &page).await?,
        Some(_) => return Err(ApiError::invalid("order", "order must be asc or desc")),
    };
    owned.confirm(&call).await?;
    Ok(with_version(http::json(&reply)?, state.version().as_deref()))
}

fn filters(call: &Call) -> MessageQuery<'_> {
    let text = |name| call.query.get(name).filter(|text| !text.is_empty());
    let (id, thread, role, contains) = (text("message_id"), text("branch"), text("role"), text("contains"));
    MessageQuery { id, thread, role, contains, ..MessageQuery::default() }
}

async fn newest_first(
    call: &Call,
    transcript: Transcript<'_>,
    page: &PageQuery,
) -> Result<Page<MessageFields>, ApiError> {
    let query = MessageQuery { before: page.after_number()?, limit: page.limit, ..filters(call) };
    let role = query.role;
    let found = call.sessions().messages(transcript, query).await.map_err(|error| of_filter(role, error))?;
    let messages = found.messages.iter().rev().map(MessageFields::new).collect();
    Ok(Page::new(messages, MessageFields::position, found.older.map(|older| older.to_string())))
}

/// An error of a query at the parameter that it is about: what messages hold has a length, and there are three roles.
fn of_filter(role: Option<&str>, error: SessionError) -> ApiError {
    let is_unknown = role.is_some_and(|role| !matches!(role, "user" | "assistant" | "tool"));
    match error.code {
        SessionErrorCode::InvalidValue => {
            ApiError::invalid(if is_unknown { "role" } else { "contains" }, error.message)
        }
        _ => error.into(),
    }
}

/// Positions are counted on without a gap, so a page of them is known before it is read.
async fn oldest_first(
    call: &Call,
    (transcript, state): (Transcript<'_>, &TranscriptState),
    page: &PageQuery,
) -> Result<Page<MessageFields>, ApiError> {
    for name in ["branch", "role", "contains", "message_id"] {
        if call.query.get(name).is_some() {
            return Err(ApiError::invalid("order", format!("order=asc can't be combined with {name}")));
        }
    }
    let mut sessions = call.sessions();
    let after = page.after_number()?;
    let first = after.map_or(state.oldest, |after| after.saturating_add(1)).max(state.oldest);
    let end = first.saturating_add(u64::from(page.limit)).min(state.next);
    if first >= state.next {
        return Ok(Page::new(Vec::new(), MessageFields::position, None));
    }
    let messages = messages_between(&mut sessions, transcript, first, end).await?;
    let messages = messages.iter().map(MessageFields::new).collect();
    let next = (end < state.next).then(|| end.saturating_sub(1).to_string());
    Ok(Page::new(messages, MessageFields::position, next))
}

/// The messages at these positions, the oldest first.
pub async fn messages_between(
    sessions: &mut Sessions,
    transcript: Transcript<'_>,
    first: u64,
    end: u64,
) -> Result<Vec<Message>, SessionError> {
    let limit = u32::try_from(end.saturating_sub(first)).unwrap_or(u32::MAX).min(PAGE_MAX);
    let mut query = MessageQuery { before: Some(end), limit, ..MessageQuery::default() };
    let mut messages = Vec::new();
    // A page of long records comes in parts.
    loop {
        let found = sessions.messages(transcript, query).await?;
        messages.extend(found.messages.into_iter().rev().filter(|message| message.position >= first));
        match found.older {
            Some(older) if older > first && query.before.is_none_or(|before| older < before) => {
                query.before = Some(older);
            }
            _ => break,
        }
    }
    messages.reverse();
    Ok(messages)
}

async fn messages_of_body(
    call: &mut Call,
    parse: fn(&str) -> Result<Vec<ChatMessage>, InvalidChatMessages>,
) -> Result<Vec<ChatMessage>, ApiError> {
    let body = call.bytes().await?;
    let text = std::str::from_utf8(&body).map_err(|_| ApiError::invalid("messages", "the body must be UTF-8"))?;
    parse(text).map_err(|error| ApiError::invalid("messages", error.0))
}

/// An error of messages that were sent, under the name of the body.
fn of_messages(error: SessionError) -> ApiError {
    match error.code {
        SessionErrorCode::InvalidValue => ApiError::invalid("messages", error.message),
        _ => error.into(),
    }
}

/// Appends messages as chat APIs write them, all or none. A session that is missing is begun.
pub async fn append(mut call: Call) -> Result<Response, ApiError> {
    require_conversations(call.tenant.keepline())?;
    let owned = OwnedTranscript::to_begin(&call).await?;
    let user = reached_user(&call, call.query.get("user"))?;
    let messages = messages_of_body(&mut call, parse_chat_messages).await?;
    let (session, transcript) = (owned.session(), owned.transcript());
    let appended = append_messages(&mut call.sessions_once()?, transcript, user.as_deref(), &messages).await;
    let changed = appended.map_err(|error| match error.code {
        SessionErrorCode::AlreadyExists => session_not_found(session.id()),
        _ => of_messages(error),
    })?;
    http::json(&json!({"object": "messages.changed", "count": changed.count, "next": changed.next}))
}

/// Under which condition the request changes messages, and whether there is one.
fn conditions_of(call: &Call) -> Result<(WriteConditions, bool), ApiError> {
    let expected_version = expected_version(call.headers())?;
    let expects = expected_version.is_some();
    Ok((WriteConditions { expected_version, ..WriteConditions::default() }, expects))
}

/// Puts messages in place of all that there are.
pub async fn replace(mut call: Call) -> Result<Response, ApiError> {
    require_conversations(call.tenant.keepline())?;
    let owned = OwnedTranscript::to_write(&call).await?;
    let messages = messages_of_body(&mut call, parse_replacement_messages).await?;
    let texts: Vec<String> = messages.iter().map(ChatMessage::numbered_text).collect();
    let (conditions, expects) = conditions_of(&call)?;
    let mut sessions = call.sessions_under(WriteConditions { request_id: call.counted_id()?, ..conditions });
    let transcript = owned.transcript();
    if transcript.node_id.is_some() {
        // A node without its session could not be found.
        sessions.describe(transcript.session.into()).await?;
    }
    let changed = sessions.set_messages(transcript, &chat_messages(&texts), None).await;
    let changed = changed.map_err(|error| with_expectation(of_messages(error), expects))?;
    if transcript.node_id.is_some() {
        sessions.register(transcript, None).await?;
    }
    http::json(&json!({"object": "messages.changed", "count": changed.count, "next": changed.next}))
}

/// Removes all messages, or those from `branch` on that go on from it.
pub async fn clear(call: Call) -> Result<Response, ApiError> {
    let owned = OwnedTranscript::of_path(&call).await?;
    let branch = call.query.parse("branch", "the position of a message")?;
    let (conditions, expects) = conditions_of(&call)?;
    if expects && branch.is_some() {
        let message = "a branch is removed piece by piece, so it is not removed under if-match";
        return Err(ApiError::invalid("if-match", message));
    }
    let changed = call.sessions_under(conditions).clear_messages(owned.transcript(), branch).await;
    let changed = changed.map_err(|error| with_expectation(error, expects))?;
    http::json(&json!({"object": "messages.changed", "count": changed.count, "next": changed.next}))
}

fn position_of(call: &Call) -> Result<u64, ApiError> {
    let position = call.path("position").parse();
    position.map_err(|_| ApiError::invalid("position", "position must be that of a message: a whole number"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewContent {
    content: String,
}

/// Puts other words in a message's place.
pub async fn rewrite(mut call: Call) -> Result<Response, ApiError> {
    let (owned, position) = (OwnedTranscript::of_path(&call).await?, position_of(&call)?);
    let NewContent { content } = call.json().await?;
    change(&call, &owned, position, Some(&content)).await
}

/// Removes one message.
pub async fn remove(call: Call) -> Result<Response, ApiError> {
    let (owned, position) = (OwnedTranscript::of_path(&call).await?, position_of(&call)?);
    change(&call, &owned, position, None).await
}

async fn change(
    call: &Call,
    owned: &OwnedTranscript,
    position: u64,
    content: Option<&str>,
) -> Result<Response, ApiError> {
    let (conditions, expects) = conditions_of(call)?;
    let changed = call.sessions_under(conditions).rewrite(owned.transcript(), position, content).await;
    let changed = changed.map_err(|error| with_expectation(error, expects))?;
    http::json(&json!({"object": "messages.changed", "count": changed.count, "next": changed.next}))
}

/// The text of a message, or a part of it.
pub async fn text(call: Call) -> Result<Response, ApiError> {
    let (owned, position) = (OwnedTranscript::of_path(&call).await?, position_of(&call)?);
    let offset = call.query.parse("offset", "a number of characters")?.unwrap_or(0);
    let limit = call.query.parse("limit", "a number of characters, at most 200000")?.unwrap_or(0);
    let found = call.sessions().content(owned.transcript(), position, offset, limit).await?;
    owned.confirm(&call).await?;
    http::json(&json!({
        "object": "message.text", "position": position, "offset": offset, "text": found.text, "length": found.length,
    }))
}

/// The lines of a message that hold a text.
pub async fn lines(call: Call) -> Result<Response, ApiError> {
    let (owned, position) = (OwnedTranscript::of_path(&call).await?, position_of(&call)?);
    let count = |name, allowed| -> Result<u32, ApiError> { Ok(call.query.parse(name, allowed)?.unwrap_or(0)) };
    let text = call.query.get("text").unwrap_or_default();
    if text.is_empty() {
        return Err(ApiError::invalid("text", "text is required: what the lines hold, 1 to 256 bytes on one line"));
    }
    let query = LineQuery {
        text,
        ignore_case: call.query.parse("ignore_case", "true or false")?.unwrap_or(false),
        context: count("context", "a number of lines, at most 20")?,
        from_line: call.query.parse("from", "the number of a line")?.unwrap_or(0),
        limit: count("limit", "a number of lines, at most 1000")?,
    };
    let found = call.sessions().find_lines(owned.transcript(), position, query).await?;
    owned.confirm(&call).await?;
    let line_json = |line: &ContentLine| {
        let ContentLine { number, is_match, text, offset, is_cut } = line;
        json!({"number": number, "is_match": is_match, "text": text, "offset": offset, "is_cut": is_cut})
    };
    let lines: Vec<_> = found.lines.iter().map(line_json).collect();
    http::json(&json!({"object": "message.lines", "position": position, "lines": lines, "next": found.next}))
}
