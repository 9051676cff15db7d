//! Sessions: listed, begun, described, changed and deleted.

pub mod messages;
pub mod settings;
pub mod values;
pub mod window;

use axum::{http::StatusCode, response::Response};
use futures::{StreamExt, TryStreamExt, stream};
use keepline::{
    SessionError,
    sessions::{SessionErrorCode, SessionSummary, Transcript, TranscriptState, WriteConditions, user_bucket},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use self::settings::{SettingsFields, settings_json};
use super::ownership::{OwnedSession, OwnedTranscript, begin, owner_bucket, reached_user};
use crate::{
    events::{SessionChange, announce_of_owner, announce_session},
    http::{self, ApiError, Call, OnlyObject, Page, PageQuery, expected_version, with_expectation, with_tag},
};

/// Sessions that are read at a time.
pub const CONCURRENT_DESCRIPTIONS: usize = 16;
/// Sessions of a page of those that are to be deleted.
const DELETED_PAGE: u32 = 100;

/// A session, as lists and single replies have it.
#[derive(Serialize)]
struct SessionFields {
    object: &'static str,
    id: String,
    title: Option<String>,
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<String>,
    messages: Option<u64>,
    tokens: Option<u64>,
    bytes: Option<u64>,
    created_at_ms: Option<u64>,
    last_at_ms: Option<u64>,
    expires_in_ms: Option<u64>,
}

impl SessionFields {
    fn of_state(id: &str, state: TranscriptState) -> Self {
        Self {
            object: "session",
            id: id.to_owned(),
            messages: Some(state.next.saturating_sub(state.oldest)),
            tokens: Some(state.weight),
            bytes: Some(state.bytes),
            created_at_ms: known_time(state.created_at),
            last_at_ms: known_time(state.last_at),
            expires_in_ms: state.expires_in,
            title: state.title,
            owner: state.owner,
            preview: None,
        }
    }

    fn of_summary(owner: &str, summary: SessionSummary) -> Self {
        Self {
            object: "session",
            id: summary.session,
            title: summary.title,
            owner: Some(user_bucket(owner)),
            preview: Some(summary.preview),
            messages: Some(summary.records),
            tokens: None,
            bytes: None,
            created_at_ms: known_time(summary.created_at),
            last_at_ms: known_time(summary.last_at),
            expires_in_ms: None,
        }
    }

    /// One that went, or can't be read, since it was listed.
    fn of_id(id: &str) -> Self {
        Self {
            object: "session",
            id: id.to_owned(),
            title: None,
            owner: None,
            preview: None,
            messages: None,
            tokens: None,
            bytes: None,
            created_at_ms: None,
            last_at_ms: None,
            expires_in_ms: None,
        }
    }
}

/// A time in milliseconds, unless it is not known.
fn known_time(at: u64) -> Option<u64> {
    Some(at).filter(|at| *at > 0)
}

/// Lists sessions: a user's, the one used last first, or all, in no order that means anything.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let page = PageQuery::of(&call)?;
    match reached_user(&call, call.query.get("user"))? {
        Some(user) => list_of_user(&call, &user, &page).await,
        None => list_all(&call, &page).await,
    }
}

/// The sessions of a user.
pub async fn list_of_user(call: &Call, user: &str, page: &PageQuery) -> Result<Response, ApiError> {
    let found = call.sessions().user_sessions(user, page.after_number()?, page.limit).await.map_err(of_user)?;
    let prefix = call.query.get("prefix").unwrap_or_default();
    let sessions = found.sessions.into_iter().filter(|summary| summary.session.starts_with(prefix));
    let sessions = sessions.map(|summary| SessionFields::of_summary(user, summary)).collect();
    let next = found.older.map(|older| older.to_string());
    http::json(&Page::new(sessions, |session| session.id.clone(), next))
}

async fn list_all(call: &Call, page: &PageQuery) -> Result<Response, ApiError> {
    let found = call.sessions().list(page.after.as_deref().unwrap_or_default(), page.limit).await?;
    let prefix = call.query.get("prefix").unwrap_or_default();
    let ids = found.sessions.into_iter().filter(|id| id.starts_with(prefix));
    let sessions = stream::iter(ids).map(|id| describe_listed(call, id)).buffered(CONCURRENT_DESCRIPTIONS);
    let sessions: Vec<Option<SessionFields>> = sessions.try_collect().await?;
    let sessions = sessions.into_iter().flatten().collect();
    let next = Some(found.cursor).filter(|cursor| !cursor.is_empty());
    http::json(&Page::new(sessions, |session| session.id.clone(), next))
}

/// A session of a list. None: it went since it was listed.
async fn describe_listed(call: &Call, id: String) -> Result<Option<SessionFields>, ApiError> {
    use SessionErrorCode::{Expired, InvalidSession, InvalidValue, NotFound, Store};
    match call.sessions().describe((&*id).into()).await {
        Ok(state) => Ok(Some(SessionFields::of_state(&id, state))),
        Err(SessionError { code: NotFound | Expired, .. }) => Ok(None),
        // Damaged, or with a name by which no entry reaches it: it is there, and can be deleted.
        Err(SessionError { code: InvalidSession | InvalidValue, .. }) => Ok(Some(SessionFields::of_id(&id))),
        Err(SessionError { code: Store(code), .. }) if !code.is_store_failure() => Ok(Some(SessionFields::of_id(&id))),
        Err(error) => Err(error.into()),
    }
}

/// What a session begins with.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NewSession {
    id: Option<String>,
    user: Option<String>,
    title: Option<String>,
}

/// Begins a session, which must not be there.
pub async fn create(mut call: Call) -> Result<Response, ApiError> {
    let NewSession { id, user, title } = call.json().await?;
    let user = reached_user(&call, user.as_deref())?;
    // Under an idempotency key, the same request again makes the same id.
    let key = call.idempotency_key()?.filter(|_| id.is_none());
    let id = match (id, key) {
        (Some(id), _) => id,
        (None, Some(key)) => id_of_key(user.as_deref(), key),
        (None, None) => random_id()?,
    };
    match begin(&call, &id, user.as_deref()).await {
        Err(error) if error.code == SessionErrorCode::AlreadyExists => {
            // The caller's own: as for everyone. Another's: as if it were absent, as far as a refusal can be.
            OwnedSession::open(&call, &id).await?;
            if key.is_none() {
                return Err(error.into());
            }
        }
        begun => begun.map_err(of_user)?,
    }
    let mut sessions = call.sessions();
    if title.is_some() {
        sessions.set_title((&*id).into(), title.as_deref()).await?;
    }
    let state = sessions.describe((&*id).into()).await?;
    announce_session(&call.tenant, SessionChange::Created, &id, user.as_deref());
    http::created(&format!("/keepline/v1/sessions/{id}"), &SessionFields::of_state(&id, state))
}

fn random_id() -> Result<String, ApiError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ApiError::internal(&error))?;
    Ok(id_of_bytes(&bytes))
}

/// As hard to guess as the key.
fn id_of_key(user: Option<&str>, key: &str) -> String {
    let hash = Sha256::new().chain_update(user.unwrap_or_default()).chain_update([0]).chain_update(key).finalize();
    id_of_bytes(&hash)
}

fn id_of_bytes(bytes: &[u8]) -> String {
    let mut id = "ses_".to_owned();
    keepline_json::push_base32(&mut id, bytes);
    id
}

/// All that there is to tell of a session, or of one of its nodes. No use of it is counted.
pub async fn show(call: Call) -> Result<Response, ApiError> {
    let owned = OwnedTranscript::of_path(&call).await?;
    let reply = describe(&call, owned.transcript()).await?;
    owned.confirm(&call).await?;
    Ok(reply)
}

/// Tells the version of a transcript, if the component knows it.
pub fn with_version(reply: Response, version: Option<&str>) -> Response {
    match version {
        Some(version) => with_tag(reply, version),
        None => reply,
    }
}

async fn describe(call: &Call, transcript: Transcript<'_>) -> Result<Response, ApiError> {
    let state = call.sessions().describe(transcript).await?;
    let version = state.version();
    let more = json!({
        "generation": state.generation, "summary": state.summary,
        "summary_to": state.summary.is_some().then_some(state.summary_to), "answers": state.answers,
        "settings": settings_json(&state.settings), "oldest": state.oldest, "next": state.next,
    });
    let fields = serde_json::to_value(SessionFields::of_state(transcript.session, state));
    let mut reply = fields.map_err(|error| ApiError::internal(&error))?;
    if let (Some(reply), Value::Object(more)) = (reply.as_object_mut(), more) {
        reply.extend(more);
        let names = [("node", transcript.node_id), ("app", transcript.app_id)];
        reply.extend(names.into_iter().filter_map(|(name, id)| Some((name.to_owned(), id?.into()))));
    }
    Ok(with_version(http::json(&reply)?, version.as_deref()))
}

/// Counts a use of a session, so that it lives on where its time runs from the last use.
pub async fn resume(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let state = call.sessions().resume(session.id()).await?;
    http::json(&json!({
        "object": "session.state", "id": session.id(), "generation": state.generation, "key_count": state.key_count,
        "history_length": state.history_length, "created_at_ms": known_time(state.created_at),
        "expires_in_ms": state.expires_in,
    }))
}

/// What can be changed of a session. A member that is left out stays.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SessionChanges {
    /// Null or blank: no title.
    #[serde(deserialize_with = "given")]
    title: Option<Option<String>>,
    settings: Option<OnlyObject<SettingsFields>>,
}

/// Tells null from a member that is left out.
fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(raw: D) -> Result<Option<T>, D::Error> {
    T::deserialize(raw).map(Some)
}

/// Changes the title and the settings of a session, or of one of its nodes.
pub async fn change(mut call: Call) -> Result<Response, ApiError> {
    let owned = OwnedTranscript::of_path(&call).await?;
    let transcript = owned.transcript();
    let SessionChanges { title, settings } = call.json().await?;
    let expected_version = expected_version(call.headers())?;
    let expects = expected_version.is_some();
    if expects && title.is_some() == settings.is_some() {
        let message = "with if-match the body has either title or settings: each is a change of its own";
        return Err(ApiError::invalid("if-match", message));
    }
    let failed = |member| move |error| with_expectation(in_member(member, error), expects);
    let conditions = WriteConditions { expected_version: expected_version.clone(), ..WriteConditions::default() };
    let mut sessions = call.sessions_under(conditions);
    if let Some(OnlyObject(settings)) = settings {
        // What is left out stays as it is in the version that is expected.
        let before = sessions.describe(transcript).await?;
        if expects && before.version() != expected_version {
            let message = "the session has another version; nothing was changed";
            return Err(with_expectation(ApiError::new(StatusCode::CONFLICT, "conflict", message), expects));
        }
        let wanted = settings.over(before.settings);
        sessions.set_settings(transcript, &wanted).await.map_err(failed("settings"))?;
    }
    if let Some(title) = title {
        sessions.set_title(transcript, title.as_deref()).await.map_err(failed("title"))?;
    }
    describe(&call, transcript).await
}

/// Forgets a session: its values, messages and nodes, and what its owner's memory has of it.
pub async fn delete(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let deleted = call.sessions().delete(session.id()).await?;
    http::json(&json!({
        "object": "session.deleted", "id": session.id(), "deleted": true, "key_count": deleted.key_count,
        "keys": deleted.keys,
    }))
}

/// Deletes the sessions of a user, or all, as far as the request's time goes. To be repeated while `has_more` says so.
pub async fn delete_all(call: Call) -> Result<Response, ApiError> {
    let user = reached_user(&call, call.query.get("user"))?;
    let (count, has_more) = delete_each(&call, user.as_deref()).await?;
    http::json(&json!({"object": "sessions.deleted", "deleted": count, "has_more": has_more}))
}

/// Deletes the sessions of a user, or all. How many went, and whether there may be more, because time ran out.
pub async fn delete_each(call: &Call, user: Option<&str>) -> Result<(u64, bool), ApiError> {
    let (mut count, mut has_more) = (0_u64, true);
    // Some are left behind whenever others are begun meanwhile, so each round begins at the first page.
    while has_more && !call.deadline.is_over() {
        let mut sessions = call.sessions();
        let (ids, is_last) = match user {
            Some(user) => {
                let page = sessions.user_sessions(user, None, DELETED_PAGE).await.map_err(of_user)?;
                (page.sessions.into_iter().map(|summary| summary.session).collect(), page.older.is_none())
            }
            None => {
                let page = sessions.list("", DELETED_PAGE).await?;
                (page.sessions, page.cursor.is_empty())
            }
        };
        let before = count;
        for id in &ids {
            let owner = owner_bucket(call, id).await;
            match sessions.delete(id).await {
                Ok(_) => {
                    announce_of_owner(&call.tenant, SessionChange::Deleted, id, owner);
                    count += 1;
                }
                Err(SessionError { code: SessionErrorCode::NotFound | SessionErrorCode::Expired, .. }) => {}
                Err(_) if call.deadline.is_over() => break,
                Err(error) => return Err(error.into()),
            }
        }
        has_more = !(is_last && count - before >= ids.len() as u64);
        if count == before && is_last {
            has_more = false;
        }
    }
    Ok((count, has_more))
}

/// An error about a member of the body.
fn in_member(member: &'static str, error: SessionError) -> ApiError {
    let error = ApiError::from(error);
    let is_of_value = error.status == StatusCode::BAD_REQUEST && error.path.as_deref() == Some("value");
    if is_of_value { ApiError { path: Some(member.to_owned()), ..error } } else { error }
}

/// An error of a call that names a user.
pub fn of_user(error: SessionError) -> ApiError {
    match error.code {
        SessionErrorCode::InvalidValue => ApiError::invalid("user", error.message),
        _ => error.into(),
    }
}
