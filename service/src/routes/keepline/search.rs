//! Finds messages by their words, and what a question would recall.

use axum::response::Response;
use keepline::sessions::{MessageQuery, Transcript};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ownership::{NodeName, OwnedSession, OwnedTranscript, reached_user},
    sessions::{
        messages::MessageFields,
        of_user,
        window::{embed_query, metadata_of, require_conversations},
    },
};
use crate::{
    http::{self, ApiError, Call, Page},
    preview::{self, Preview},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    query: String,
    user: Option<String>,
    session: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

/// Finds messages of a user's sessions that hold all words of the query, or of one session that hold it as it stands.
pub async fn search(mut call: Call) -> Result<Response, ApiError> {
    let SearchRequest { query, user, session, after, limit } = call.json().await?;
    let limit = limit.unwrap_or(20);
    if !(1..=100).contains(&limit) {
        return Err(ApiError::invalid("limit", "limit must be a whole number from 1 to 100"));
    }
    if query.trim().is_empty() {
        return Err(ApiError::invalid("query", "query must have a word"));
    }
    let user = reached_user(&call, user.as_deref())?;
    match (session, user) {
        (Some(session), _) => search_session(&call, &session, &query, after, limit).await,
        (None, Some(user)) => {
            let found = call.sessions().search_user(&user, &query, after.as_deref(), limit).await;
            let found = found.map_err(|error| match ApiError::from(error) {
                error if error.path.as_deref() == Some("value") => ApiError { path: Some("query".into()), ..error },
                error => error,
            })?;
            let messages = found.found.into_iter().map(|it| MessageFields::found(it.session, it.title, &it.message));
            http::json(&Page::new(messages.collect(), MessageFields::position, found.next))
        }
        (None, None) => Err(ApiError::invalid("user", "user or session is required")),
    }
}

async fn search_session(
    call: &Call,
    session: &str,
    query: &str,
    after: Option<String>,
    limit: u32,
) -> Result<Response, ApiError> {
    let session = OwnedSession::open(call, session).await?;
    let before = after.map(|after| after.parse()).transpose();
    let before = before.map_err(|_| ApiError::invalid("after", "after must be the last_id of the page before"))?;
    let query = MessageQuery { contains: Some(query), before, limit, ..MessageQuery::default() };
    let mut sessions = call.sessions();
    let title = sessions.describe(session.id().into()).await?.title;
    let found = sessions.messages(session.id().into(), query).await?;
    session.confirm(call).await?;
    let named = |message| MessageFields::found(session.id().to_owned(), title.clone(), message);
    let messages = found.messages.iter().rev().map(named).collect();
    http::json(&Page::new(messages, MessageFields::position, found.older.map(|older| older.to_string())))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecallRequest {
    query: String,
    user: Option<String>,
    session: Option<String>,
    node: Option<String>,
    app: Option<String>,
    parent: Option<String>,
}

/// What a question of a session, of one of its nodes, or of a new session of a user, would recall. Nothing is written.
pub async fn recall(mut call: Call) -> Result<Response, ApiError> {
    let RecallRequest { query, user, session, node, app, parent } = call.json().await?;
    let node = NodeName::new(node.as_deref(), app.as_deref());
    require_conversations(call.tenant.keepline())?;
    let keepline = call.tenant.keepline();
    let mode = recall_mode(&keepline.filter_options());
    let user = reached_user(&call, user.as_deref())?;
    if session.is_none() && (mode != "user" || user.is_none()) {
        let why = "session is required; without one, user is, and the option recall must be \"user\"";
        return Err(ApiError::invalid("session", why));
    }
    if let (None, Some(name)) = (&session, node.as_ref().map(|_| "node").or(parent.as_ref().map(|_| "parent"))) {
        return Err(ApiError::invalid(name, format!("{name} names something of a session: session is required")));
    }
    if mode == "off" {
        let message = "recall is off: set recall=session or recall=user";
        return Err(ApiError::new(axum::http::StatusCode::CONFLICT, "recall_off", message));
    }
    let owned = match &session {
        Some(session) => Some(OwnedTranscript::open(&call, session, node).await?),
        None => None,
    };
    // A name that no session has.
    let id = session.unwrap_or_else(|| format!("look-{:032x}", fastrand::u128(..)));
    let vector = embed_query(keepline, &query).await;
    let transcript = owned.as_ref().map_or_else(|| Transcript::from(&*id), OwnedTranscript::transcript);
    let (parent, user) = (parent.as_deref(), user.as_deref());
    let preview = Preview { transcript, query: &query, budget: None, parent, user, vector: vector.as_ref() };
    let passed = match &owned {
        Some(_) => preview::preview_question(keepline, &mut call.sessions(), preview, Some(call.deadline)).await?,
        None => {
            preview::require_valid_user(&mut call.sessions(), user).await.map_err(of_user)?;
            // There is nothing to look at in a session that is not there.
            if preview::has_nothing_to_search(&query, vector.as_ref()) {
                return http::json(&json!({"object": "recall", "text": "", "passages": []}));
            }
            preview::ask_without_storing(keepline, preview, Some(call.deadline)).await?
        }
    };
    if let Some(owned) = &owned {
        owned.confirm(&call).await?;
    }
    let metadata = metadata_of(passed.metadata.as_deref());
    let recalled = metadata.get("memory_recall");
    let member = |name: &str| recalled.and_then(|recalled| recalled.get(name)).cloned();
    http::json(&json!({
        "object": "recall", "text": member("text").unwrap_or_else(|| "".into()),
        "passages": member("passages").unwrap_or_else(|| Value::Array(Vec::new())),
    }))
}

fn recall_mode(options: &str) -> String {
    let options: Value = serde_json::from_str(options).unwrap_or_default();
    options.get("recall").and_then(Value::as_str).unwrap_or("off").to_owned()
}
