//! The values of a session, and the history of what was done to them.

use axum::{http::StatusCode, response::Response};
use keepline::{
    SessionError,
    sessions::{ExpectedValue, HistoryRecord, ValueList, WriteConditions},
};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use sha2::{Digest as _, Sha256};

use super::super::ownership::OwnedSession;
use crate::http::{self, ApiError, Call, Condition, Page, PageQuery, raw_json, with_expectation, with_tag};

/// A value of a session or a user.
#[derive(Serialize)]
pub struct ValueFields<'a> {
    object: &'static str,
    key: &'a str,
    value: Box<RawValue>,
}

impl<'a> ValueFields<'a> {
    pub fn new(key: &'a str, value: &str) -> Self {
        Self { object: "value", key, value: raw_json(value) }
    }

    pub fn key(&self) -> &str {
        self.key
    }
}

/// The JSON text of a body, as it was sent: numbers keep their digits.
pub async fn value_of_body(call: &mut Call) -> Result<String, ApiError> {
    let body = call.bytes().await?;
    let text = std::str::from_utf8(&body).map_err(|_| ApiError::invalid("value", "the value must be UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(ApiError::invalid("value", format!("the body must be the value, as JSON: {error}"))),
    }
}

/// The reply for a key that is not there.
pub fn key_not_found(key: &str) -> ApiError {
    let key: String = key.chars().take(256).collect();
    ApiError { code: "key_not_found".into(), ..ApiError::not_found(format!("there is no value under {key:?}")) }
}

/// The keys of a session, sorted.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let keys = call.sessions().keys(session.id()).await?.keys;
    session.confirm(&call).await?;
    http::json(&Page::new(keys, String::clone, None))
}

/// The tag of a value: equal texts have equal tags.
pub fn tag_of(value: &str) -> String {
    let mut tag = String::new();
    keepline_json::push_base32(&mut tag, &Sha256::digest(value));
    tag
}

/// What the request expects under the key that it writes. The component compares texts and knows no tags, so the value with the
/// tag is `read` first; the transaction that writes then expects that very value.
pub async fn expected_value(
    call: &Call,
    read: impl Future<Output = Result<ValueList, SessionError>>,
) -> Result<Option<ExpectedValue>, ApiError> {
    Ok(Some(match Condition::of(call.headers())? {
        None => return Ok(None),
        Some(Condition::Absent) => ExpectedValue::Absent,
        Some(Condition::Present) => ExpectedValue::Present,
        Some(Condition::Tag(tag)) => {
            let found = read.await?;
            let text = found.value().filter(|value| tag_of(value) == tag);
            // An empty text is no value. The call is made with it all the same: the request may have been met before.
            ExpectedValue::Text(text.unwrap_or_default().to_owned())
        }
    }))
}

/// Under which conditions the request writes to the key of its path.
async fn conditions_of(call: &Call, session: &OwnedSession) -> Result<WriteConditions, ApiError> {
    let mut sessions = call.sessions();
    let expected_value = expected_value(call, sessions.get(session.id(), call.path("key"))).await?;
    Ok(WriteConditions { request_id: call.counted_id()?, expected_value, ..WriteConditions::default() })
}

/// One value.
pub async fn get(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let key = call.path("key");
    let found = call.sessions().get(session.id(), key).await?;
    session.confirm(&call).await?;
    let value = found.value().ok_or_else(|| key_not_found(key))?;
    Ok(with_tag(http::json(&ValueFields::new(key, value))?, &tag_of(value)))
}

/// Stores a value: the body, JSON.
pub async fn put(mut call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let value = value_of_body(&mut call).await?;
    let conditions = conditions_of(&call, &session).await?;
    let expects = conditions.expected_value.is_some();
    let changed = call.sessions_under(conditions).put(session.id(), call.path("key"), &value).await;
    let existed = changed.map_err(|error| with_expectation(error, expects))?.existed;
    let reply = http::json(&json!({"object": "value.changed", "key": call.path("key"), "existed": existed}))?;
    Ok(with_tag(reply, &tag_of(&value)))
}

/// Removes a value. One that is not there is no error.
pub async fn remove(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let conditions = conditions_of(&call, &session).await?;
    let expects = conditions.expected_value.is_some();
    let cleared = call.sessions_under(conditions).clear(session.id(), Some(call.path("key"))).await;
    let keys = cleared.map_err(|error| with_expectation(error, expects))?.keys;
    http::json(&json!({"object": "value.deleted", "key": call.path("key"), "deleted": !keys.is_empty()}))
}

/// Removes all values.
pub async fn clear(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let cleared = call.sessions_once()?.clear(session.id(), None).await?;
    http::json(&json!({"object": "values.deleted", "keys": cleared.keys}))
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Increment {
    amount: i64,
}

impl Default for Increment {
    fn default() -> Self {
        Self { amount: 1 }
    }
}

/// Adds to a counter.
pub async fn increment(mut call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let body = call.bytes().await?;
    let Increment { amount } = if body.is_empty() {
        Increment::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!("the body must be {{\"amount\": whole number}}: {error}");
            ApiError { path: Some("amount".into()), ..ApiError::new(StatusCode::BAD_REQUEST, "malformed", message) }
        })?
    };
    let counted = call.sessions_once()?.increment(session.id(), call.path("key"), amount).await?;
    http::json(&json!({"object": "value", "key": call.path("key"), "value": counted.value}))
}

/// A record of a session's history.
#[derive(Serialize)]
struct HistoryFields {
    object: &'static str,
    position: u64,
    record: Box<RawValue>,
}

/// What was done to the values, the newest first.
pub async fn history(call: Call) -> Result<Response, ApiError> {
    let session = OwnedSession::of_path(&call).await?;
    let page = PageQuery::of(&call)?;
    let found = call.sessions().history(session.id(), page.after_number()?, page.limit).await?;
    session.confirm(&call).await?;
    let is_last = found.first <= found.oldest || found.records.is_empty();
    let records = found.records.iter().map(HistoryRecord::to_json).zip(found.first..);
    let mut records: Vec<_> = records
        .map(|(record, position)| HistoryFields { object: "history.record", position, record: raw_json(&record) })
        .collect();
    records.reverse();
    let next = (!is_last).then(|| found.first.to_string());
    http::json(&Page::new(records, |record| record.position.to_string(), next))
}
