//! What is done to conversations.

use axum::{http::StatusCode, response::Response};
use futures::{StreamExt, TryStreamExt, stream};
use keepline::{
    SessionError,
    sessions::{SessionErrorCode, TranscriptState, user_bucket},
};
use serde_json::{Value, json};

use super::{
    super::keepline::{
        ownership::{OwnedSession, reached_user},
        sessions::{CONCURRENT_DESCRIPTIONS, delete_each, messages::messages_between, window::require_conversations},
    },
    envelope::{of_memory, of_session, reply, session_not_found, unavailable},
    rows::rows,
};
use crate::{
    events::{SessionChange, announce_of_owner},
    http::{ApiError, Call},
    time::{instant, timestamp},
};

/// What there is no other name of.
const TYPE: &str = "keepline";
const LIMIT: u64 = 50;
const LIMIT_MAX: u64 = 100;
/// Sessions that are listed at a time.
const PAGE: u32 = 100;

/// A conversation, as far as lists show it.
struct Listed {
    id: String,
    title: Option<String>,
    created_at: u64,
    last_at: u64,
    messages: u64,
    turns: u64,
}

impl Listed {
    fn of_state(id: String, state: TranscriptState) -> Self {
        Self {
            id,
            title: state.title,
            created_at: state.created_at,
            last_at: state.last_at,
            messages: state.next.saturating_sub(state.oldest),
            turns: state.answers,
        }
    }

    fn to_json(&self) -> Value {
        let Self { id, title, created_at, last_at, messages, .. } = self;
        json!({
            "id": id,
            "sessionId": id,
            "title": title.clone().unwrap_or_else(|| "New Conversation".to_owned()),
            "createdAt": instant(*created_at),
            "updatedAt": instant(*last_at.max(created_at)),
            "messageCount": messages,
        })
    }
}

fn require_memory(call: &Call) -> Result<(), ApiError> {
    require_conversations(call.tenant.keepline()).map_err(|_| unavailable())
}

/// `limit` and `offset`: what is no number, or out of range, counts as not said.
fn page_of(call: &Call) -> (u64, u64) {
    let number = |name| call.query.get(name).and_then(|text| text.parse::<u64>().ok());
    let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(LIMIT).min(LIMIT_MAX);
    (limit, number("offset").unwrap_or(0))
}

/// Whose conversations a request is about; `Err`: of a user whom the caller does not reach.
fn user_of(call: &Call) -> Result<Option<String>, ApiError> {
    reached_user(call, call.query.get("userId"))
}

/// Lists conversations, the one used last first.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    require_memory(&call)?;
    let (limit, offset) = page_of(&call);
    let mut all = match user_of(&call) {
        Ok(user) => listed(&call, user.as_deref()).await.map_err(of_memory)?,
        // As if that user had none.
        Err(_) => Vec::new(),
    };
    // The sort is stable: those that are not told apart stay in the order of the list.
    all.sort_by_key(|session| std::cmp::Reverse(session.last_at));
    let (first, count) = (usize::try_from(offset).unwrap_or(usize::MAX), usize::try_from(limit).unwrap_or(usize::MAX));
    let shown: Vec<Value> = all.iter().skip(first).take(count).map(Listed::to_json).collect();
    reply(&call, &json!({"sessions": shown, "total": all.len(), "limit": limit, "offset": offset}))
}

async fn listed(call: &Call, user: Option<&str>) -> Result<Vec<Listed>, ApiError> {
    let mut all = Vec::new();
    let ids = match user {
        Some(user) => ids_of_user(call, user).await?,
        None => all_ids(call).await?,
    };
    let states = stream::iter(ids).map(|id| described(call, id)).buffered(CONCURRENT_DESCRIPTIONS);
    let states: Vec<Option<Listed>> = states.try_collect().await?;
    all.extend(states.into_iter().flatten());
    Ok(all)
}

async fn ids_of_user(call: &Call, user: &str) -> Result<Vec<String>, ApiError> {
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let page = match call.sessions().user_sessions(user, before, PAGE).await {
            Ok(page) => page,
            // A name that no user can have.
            Err(SessionError { code: SessionErrorCode::InvalidValue, .. }) => return Ok(ids),
            Err(error) => return Err(error.into()),
        };
        ids.extend(page.sessions.into_iter().map(|summary| summary.session));
        match page.older {
            Some(older) if before.is_none_or(|before| older < before) => before = Some(older),
            _ => return Ok(ids),
        }
    }
}

async fn all_ids(call: &Call) -> Result<Vec<String>, ApiError> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = call.sessions().list(&cursor, PAGE).await?;
        ids.extend(page.sessions);
        if page.cursor.is_empty() || page.cursor == cursor {
            return Ok(ids);
        }
        cursor = page.cursor;
    }
}

/// None: it went since it was listed, or no entry reaches it.
async fn described(call: &Call, id: String) -> Result<Option<Listed>, ApiError> {
    use SessionErrorCode::{Expired, InvalidSession, InvalidValue, NotFound, Store};
    match call.sessions().describe((&*id).into()).await {
        Ok(state) => Ok(Some(Listed::of_state(id, state))),
        Err(SessionError { code: NotFound | Expired | InvalidSession | InvalidValue, .. }) => Ok(None),
        Err(SessionError { code: Store(code), .. }) if !code.is_store_failure() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The conversation of the path, if it is the user's whom the request names, and one that the caller reaches.
async fn session_of(call: &Call) -> Result<(OwnedSession, TranscriptState), ApiError> {
    require_memory(call)?;
    let id = call.path("id");
    let user = user_of(call).map_err(|_| session_not_found(id))?;
    let session = OwnedSession::of_path(call).await.map_err(of_session(id))?;
    let described = call.sessions().describe(session.id().into()).await;
    let state = described.map_err(|error| of_session(id)(error.into()))?;
    match user {
        Some(user) if state.owner != Some(user_bucket(&user)) => Err(session_not_found(id)),
        _ => Ok((session, state)),
    }
}

/// The rows at these places, the oldest first.
async fn rows_of(
    call: &Call,
    session: &OwnedSession,
    state: &TranscriptState,
    (limit, offset): (u64, u64),
) -> Result<Vec<Value>, ApiError> {
    let first = state.oldest.saturating_add(offset);
    let end = first.saturating_add(limit).min(state.next);
    if first >= end {
        return Ok(Vec::new());
    }
    let found = messages_between(&mut call.sessions(), session.id().into(), first, end).await;
    let found = found.map_err(|error| of_session(session.id())(error.into()))?;
    // Nothing is told of a session that became another's meanwhile.
    session.confirm(call).await.map_err(of_session(session.id()))?;
    Ok(rows(&found))
}

/// A conversation with all its messages.
pub async fn show(call: Call) -> Result<Response, ApiError> {
    let (session, state) = session_of(&call).await?;
    let rows = rows_of(&call, &session, &state, (u64::MAX, 0)).await?;
    let owner = call.query.get("userId").map(str::to_owned).or(state.owner.clone());
    let mut shown = Listed::of_state(session.id().to_owned(), state).to_json();
    if let Some(members) = shown.as_object_mut() {
        members.insert("userId".to_owned(), owner.into());
        members.insert("messages".to_owned(), rows.into());
    }
    reply(&call, &json!({"session": shown}))
}

/// Messages, page by page.
pub async fn messages(call: Call) -> Result<Response, ApiError> {
    let (session, state) = session_of(&call).await?;
    let (limit, offset) = page_of(&call);
    let rows = rows_of(&call, &session, &state, (limit, offset)).await?;
    let total = state.next.saturating_sub(state.oldest);
    let data = json!({"sessionId": session.id(), "messages": rows, "total": total, "limit": limit, "offset": offset});
    reply(&call, &data)
}

/// Deletes a conversation.
pub async fn clear(call: Call) -> Result<Response, ApiError> {
    let (session, state) = session_of(&call).await?;
    let id = session.id();
    call.sessions().delete(id).await.map_err(|error| of_session(id)(error.into()))?;
    announce_of_owner(&call.tenant, SessionChange::Deleted, id, state.owner);
    reply(&call, &json!({"success": true, "sessionId": id, "message": "the session was deleted"}))
}

/// Deletes all conversations of the tenant, or all that the caller reaches.
pub async fn clear_all(call: Call) -> Result<Response, ApiError> {
    require_memory(&call)?;
    let (count, has_more) = delete_each(&call, call.caller.user.as_deref()).await.map_err(of_memory)?;
    if has_more {
        let message = format!("{count} sessions were deleted until the time was over: ask again for the others");
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "MEMORY_ERROR", message));
    }
    reply(&call, &json!({"success": true, "message": format!("{count} sessions were deleted")}))
}

/// Counts conversations and turns.
pub async fn stats(call: Call) -> Result<Response, ApiError> {
    require_memory(&call)?;
    let all = listed(&call, call.caller.user.as_deref()).await.map_err(of_memory)?;
    let turns: u64 = all.iter().map(|session| session.turns).sum();
    let stats = json!({"totalSessions": all.len(), "totalTurns": turns});
    reply(&call, &json!({"available": true, "type": TYPE, "stats": stats, "timestamp": timestamp()}))
}

/// Whether conversations are kept, and of what kind the memory is.
pub async fn health(call: Call) -> Result<Response, ApiError> {
    let is_on = require_memory(&call).is_ok();
    let available = is_on && call.tenant.keepline().health(Some(call.deadline)).await.is_good();
    let kind = if is_on { TYPE } else { "none" };
    reply(&call, &json!({"available": available, "type": kind, "timestamp": timestamp()}))
}
