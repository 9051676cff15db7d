//! Calls models over OpenAI's API, which most model servers speak.
//!
//! An answer comes within its time limit, retries included: no connection, 408, 409, 429 and 5xx are retried with
//! growing pauses. No error contains the key. Redirects are refused, because they would send the conversation
//! elsewhere, and so are answers that are empty or too long.

pub mod completions;
pub mod embeddings;

use std::{net::IpAddr, time::Duration};

use anyhow::{Result, anyhow};
use backon::{ExponentialBuilder, Retryable};
use keepline::store::Secret;
use serde_json::Value;
use tokio::time::Instant;
use ureq::{Agent, http::StatusCode};
use url::{Host, Url};

use crate::{
    app::error::{UsageError, usage_error},
    terminal,
};

/// Characters of the server's explanation of an error.
const MAX_ERROR_CHARACTERS: usize = 200;
/// The first pause between tries, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The configuration of a model on a server.
struct ModelSettings {
    /// Prefix of the configuration's fields: `{field}_url`.
    field: &'static str,
    /// The path of requests below the base URL.
    path: &'static str,
    /// Subject of error messages.
    who: &'static str,
    name: String,
    url: String,
    key: Secret,
    timeout_ms: u64,
    retries: u64,
    /// Bytes of the longest reply that is read.
    max_reply: u64,
}

struct ModelClient {
    agent: Agent,
    url: Url,
    /// Name and key without blanks around them.
    settings: ModelSettings,
}

/// The end of the time for a try.
type AttemptDeadline = std::time::Instant;

#[derive(Default)]
struct RequestFailure {
    message: String,
    /// Whether another try may succeed, and the shortest pause before it.
    may_pass: bool,
    after: Option<Duration>,
    /// Whether other input may succeed.
    is_refusal: bool,
}

impl RequestFailure {
    fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

impl ModelClient {
    fn new(mut settings: ModelSettings) -> Result<Self> {
        let field = settings.field;
        settings.name = settings.name.trim().to_owned();
        if settings.name.is_empty() {
            let message = format!("{field}_name is needed with {field} \"openai\": the model's name on that server");
            return Err(usage_error(message));
        }
        let url = build_endpoint_url(field, &settings.url, settings.path)?;
        settings.key = Secret::new(settings.key.expose().trim());
        let key = settings.key.expose();
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(usage_error(format!("{field}_key must be printable ASCII without spaces")));
        }
        if url.scheme() == "http" && !key.is_empty() && !is_loopback_url(&url) {
            terminal::print_warning(&format!("{field}_key is sent unencrypted: {field}_url is not https"));
        }
        let agent = Agent::config_builder().max_redirects(0).http_status_as_error(false).build().new_agent();
        Ok(Self { agent, url, settings })
    }

    /// Tries until it succeeds, fails for good, or runs out of time.
    async fn request_with_retries<T: Send + 'static>(
        &self,
        ask: impl Fn(AttemptDeadline) -> Result<T, RequestFailure> + Clone + Send + 'static,
    ) -> Result<T, RequestFailure> {
        let end = Instant::now() + Duration::from_millis(self.settings.timeout_ms);
        let ask = || async {
            let ask = ask.clone();
            // It waits on a thread of its own; what is abandoned ends there, by its time-out at the latest.
            let asked = tokio::task::spawn_blocking(move || ask(end.into_std())).await;
            asked.unwrap_or_else(|_| Err(RequestFailure::permanent("the request could not be made")))
        };
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(LONGEST_PAUSE)
            .with_max_times(usize::try_from(self.settings.retries).unwrap_or(0))
            .with_jitter();
        ask.retry(pauses)
            .when(|failed: &RequestFailure| failed.may_pass)
            .adjust(|failed: &RequestFailure, pause| {
                let pause = pause.map(|pause| failed.after.map_or(pause, |after| after.max(pause)));
                pause.filter(|pause| *pause < end.saturating_duration_since(Instant::now()))
            })
            .await
    }

    /// Sends a request, and returns the body of the response.
    fn post(&self, body: &Value, end: AttemptDeadline) -> Result<Vec<u8>, RequestFailure> {
        let left = end.saturating_duration_since(AttemptDeadline::now());
        if left.is_zero() {
            return Err(RequestFailure::permanent("the time is over"));
        }
        let ModelSettings { who, max_reply, .. } = self.settings;
        let key = self.settings.key.expose();
        let mut request = self.agent.post(self.url.as_str()).header("content-type", "application/json");
        if !key.is_empty() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let sent = request.config().timeout_global(Some(left)).build().send(body.to_string());
        let mut response = sent.map_err(|error| self.transport_failure("can't be asked", &error))?;
        let status = response.status();
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let read = response.body_mut().with_config().limit(max_reply).read_to_vec();
        if !status.is_success() {
            let mut message = format!("{who}'s server answered with status {}", status.as_u16());
            if let Some(told) = read.ok().and_then(|body| parse_error_message(&body)) {
                // Some servers quote the key that they refuse.
                let told = if key.is_empty() { told } else { told.replace(key, "***") };
                message.push_str(": ");
                message.extend(told.chars().take(MAX_ERROR_CHARACTERS));
            }
            let (may_pass, is_refusal) = (is_retryable_status(status), is_input_refusal(status));
            return Err(RequestFailure { message, may_pass, after: after.map(Duration::from_secs), is_refusal });
        }
        read.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                RequestFailure::permanent(format!("{who}'s response is longer than {max_reply} bytes"))
            }
            error => self.transport_failure("broke off its response", &error),
        })
    }

    fn transport_failure(&self, what: &str, error: &ureq::Error) -> RequestFailure {
        let ModelSettings { who, timeout_ms, .. } = self.settings;
        let message = match error {
            // There is one for all of it.
            ureq::Error::Timeout(_) => format!("{who} did not answer within {timeout_ms} ms"),
            error => format!("{who} {what}: {error}"),
        };
        RequestFailure { message, may_pass: true, ..RequestFailure::default() }
    }
}

fn is_retryable_status(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 429)
}

/// Whether the status may be due to the request's body. A wrong key or URL is refused whatever is sent.
fn is_input_refusal(status: StatusCode) -> bool {
    status.is_client_error() && !is_retryable_status(status) && !matches!(status.as_u16(), 401 | 403 | 404)
}

/// The URL of a path below a base URL, which is given as clients of that API take it.
fn build_endpoint_url(field: &str, base: &str, path: &str) -> Result<Url> {
    let wrong = |what: &str| {
        let allowed =
            "the base of an OpenAI-compatible API, for example https://api.openai.com/v1 or http://localhost:11434/v1";
        anyhow!(UsageError(format!("{field}_url {what}; it must be {allowed}")))
    };
    if base.trim().is_empty() {
        return Err(wrong(&format!("is needed with {field} \"openai\"")));
    }
    let mut url = Url::parse(base.trim()).map_err(|error| wrong(&format!("can't be read ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("is not an http:// or https:// URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let variable = field.to_ascii_uppercase();
        return Err(wrong(&format!("has a user or a password, which belong in {field}_key (KEEPLINE_{variable}_KEY)")));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a query or a fragment"));
    }
    let path = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn is_loopback_url(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

fn parse_error_message(body: &[u8]) -> Option<String> {
    let reply: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = reply.get("error")?;
    let told = error.as_str().or_else(|| error.get("message")?.as_str())?;
    Some(told.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_completed_or_refused() {
        for (base, url) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            (" http://[::1]:11434/v1/ ", "http://[::1]:11434/v1/chat/completions"),
            ("http://localhost", "http://localhost/chat/completions"),
        ] {
            assert_eq!(build_endpoint_url("model", base, "chat/completions").unwrap().as_str(), url);
        }
        for base in [
            "",
            "api.openai.com",
            "ftp://a/v1",
            "https://sk-secret@a/v1",
            "https://u:sk-secret@a",
            "http://a/v1?key=sk-secret",
            "http://",
        ] {
            let error = build_endpoint_url("model", base, "chat/completions").unwrap_err();
            assert!(error.is::<UsageError>() && !error.to_string().contains("secret"), "{base}: {error}");
        }
    }

    #[test]
    fn the_servers_error_message_is_extracted() {
        assert_eq!(parse_error_message(br#"{"error":{"message":"no quota"}}"#).unwrap(), "no quota");
        assert_eq!(parse_error_message(br#"{"error":"no model"}"#).unwrap(), "no model");
        assert_eq!(parse_error_message(b"<html>"), None);
    }
}
