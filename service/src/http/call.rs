//! A request that has been matched and allowed.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, request::Parts},
};
use bytes::Bytes;
use keepline::{Sessions, sessions::WriteConditions, store::Deadline};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::{ApiError, OnlyObject, StreamEnd, content_coding};
use crate::{
    access::Caller,
    metrics::RequestCounters,
    tenants::{Tenant, Tenants},
};

/// Parameters by name: those of the path, decoded, or those of the query.
#[derive(Debug, Default)]
pub struct Parameters(pub HashMap<String, String>);

impl Parameters {
    /// One that may be missing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// One that may be missing, read as something else.
    ///
    /// # Errors
    /// When it is there and can't be read; `allowed` says what can.
    pub fn parse<T: std::str::FromStr>(&self, name: &str, allowed: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| ApiError::invalid(name, format!("{name} must be {allowed}")))
    }
}

/// A request on its way through a handler.
pub struct Call {
    pub tenant: Arc<Tenant>,
    /// All of the service.
    pub tenants: Arc<Tenants>,
    pub caller: Arc<Caller>,
    /// Of the path.
    pub path: Parameters,
    pub query: Parameters,
    /// The request's head.
    pub parts: Parts,
    /// Locked only so that a call can be borrowed on several threads: a body itself can't.
    pub body: Mutex<Body>,
    /// The most bytes of the body, decompressed.
    pub body_limit: usize,
    /// By which all that the request needs has to be done.
    pub deadline: Deadline,
    pub started: Instant,
    pub request_id: Arc<str>,
    /// Slots of open sockets.
    pub sockets: Arc<Semaphore>,
    /// How long a reader may take nothing.
    pub write_timeout: Duration,
    /// When a reply that goes on has to end.
    pub end: StreamEnd,
    /// What the service has counted.
    pub counters: Arc<RequestCounters>,
}

impl Call {
    /// Operations on the tenant's sessions, which end by the request's deadline. Of a caller with a user, they write to that
    /// user's sessions only: that is checked in the transaction that writes.
    pub fn sessions(&self) -> Sessions {
        self.sessions_under(WriteConditions::default())
    }

    /// The same, whoever owns the session: for one that is being begun.
    pub fn sessions_of_anyone(&self) -> Sessions {
        self.tenant.keepline().sessions().by(self.deadline)
    }

    /// The same for the one writing call of a request that counts once under its `Idempotency-Key`. The key means nothing on
    /// other routes, and for other parameters of the path.
    ///
    /// # Errors
    /// For a malformed key.
    pub fn sessions_once(&self) -> Result<Sessions, ApiError> {
        Ok(self.sessions_under(WriteConditions { request_id: self.counted_id()?, ..WriteConditions::default() }))
    }

    /// The same under these conditions; the owner is the caller's user.
    pub fn sessions_under(&self, conditions: WriteConditions) -> Sessions {
        let owner = self.caller.user.as_deref().map(str::to_owned);
        self.sessions_of_anyone().under(&WriteConditions { owner, ..conditions })
    }

    /// What a request that counts once is known by to its session.
    ///
    /// # Errors
    /// For a malformed key.
    pub fn counted_id(&self) -> Result<Option<String>, ApiError> {
        let Some(key) = self.idempotency_key()? else { return Ok(None) };
        let path = self.parts.uri.path();
        // The session is where it is kept.
        let place =
            path.split_once("/sessions/").and_then(|(_, rest)| rest.split_once('/')).map_or(path, |(_, rest)| rest);
        Ok(Some(format!("{} {place} {key}", self.parts.method)))
    }

    /// The id under which a request counts once, however often it is sent.
    ///
    /// # Errors
    /// For one that is empty, too long, or has other characters.
    pub fn idempotency_key(&self) -> Result<Option<&str>, ApiError> {
        let Some(key) = self.headers().get("idempotency-key") else { return Ok(None) };
        let allowed = "idempotency-key must be 1 to 128 visible ASCII characters";
        let key =
            key.to_str().ok().filter(|key| (1..=128).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic()));
        key.map(Some).ok_or_else(|| ApiError::invalid("idempotency-key", allowed))
    }

    /// A parameter of the path, which the route has.
    pub fn path(&self, name: &str) -> &str {
        self.path.get(name).unwrap_or_default()
    }

    /// The request's headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The whole body, decompressed.
    ///
    /// # Errors
    /// When it is over the limit, ends early, or is compressed in a way that is not known.
    pub async fn bytes(&mut self) -> Result<Bytes, ApiError> {
        let (body, limit) = (std::mem::take(self.body.get_mut()), self.body_limit);
        let received = axum::body::to_bytes(body, limit).await;
        let received = received.map_err(|error| match is_over_limit(&error) {
            true => content_coding::too_large(limit),
            false => ApiError::new(StatusCode::BAD_REQUEST, "malformed", "the body ended early"),
        })?;
        content_coding::decode(self.headers(), received, limit)
    }

    /// The whole body, as a JSON object.
    ///
    /// # Errors
    /// When it is over the limit, or not the object that is asked for.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, ApiError> {
        let bytes = self.bytes().await?;
        let parsed = serde_json::from_slice(&bytes).map(|OnlyObject(body)| body);
        parsed.map_err(|error| {
            ApiError::new(StatusCode::BAD_REQUEST, "malformed", format!("the body is no such JSON: {error}"))
        })
    }
}

/// Whether a body could not be read for its length.
fn is_over_limit(error: &axum::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}
