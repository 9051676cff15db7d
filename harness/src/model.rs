//! Models behind the chat completions of OpenAI's API, which most servers of models speak.
//!
//! Promises one completion within its time, retries of what may pass by itself (no connection, 408, 409, 429, 5xx) with
//! growing pauses included, and that no error holds the key. Refuses redirects, which would hand out what was said, and
//! answers that are too long or none.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, anyhow};
use backon::{ExponentialBuilder, Retryable};
use keepline::{
    config::Config,
    maintenance::{CompletionNeed, Model, ModelError, NoModel},
    store::Secret,
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use ureq::{Agent, http::StatusCode};
use url::{Host, Url};

use crate::{error::Usage, terminal};

/// The longest reply that is read.
const MAX_REPLY: u64 = 1 << 20;
/// What is told of an error that the server explains.
const MAX_TOLD: usize = 200;
/// The limit of tokens: as all servers know it, and as OpenAI's newer models insist on.
const LIMIT: &str = "max_tokens";
const NEWER_LIMIT: &str = "max_completion_tokens";
/// Between tries, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The configured model.
pub fn configured(config: &Config) -> Result<Arc<dyn Model>> {
    let host = &config.host;
    if host.model != "openai" {
        return Ok(Arc::new(NoModel));
    }
    if host.model_name.trim().is_empty() {
        return Err(
            Usage("model_name is needed with model \"openai\": the name that the server knows it by".into()).into()
        );
    }
    let url = completions_url(&host.model_url)?;
    let key = Secret::new(host.model_key.expose().trim());
    if !key.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Usage("model_key must be printable ASCII without blanks".into()).into());
    }
    if url.scheme() == "http" && !host.model_key.is_empty() && !is_this_machine(&url) {
        terminal::warning("model_key is sent unencrypted: model_url is not https");
    }
    Ok(Arc::new(Endpoint(Arc::new(Inner {
        agent: Agent::config_builder().max_redirects(0).http_status_as_error(false).build().new_agent(),
        url: url.into(),
        name: host.model_name.trim().to_owned(),
        key,
        timeout: Duration::from_millis(host.model_timeout_ms),
        retries: usize::try_from(host.model_retries).unwrap_or(0),
        is_newer: AtomicBool::new(false),
    }))))
}

/// Of the base URL, as clients of that API take it.
fn completions_url(base: &str) -> Result<Url> {
    let wrong = |what: &str| {
        let allowed =
            "the base of an OpenAI-compatible API, for example https://api.openai.com/v1 or http://localhost:11434/v1";
        anyhow!(Usage(format!("model_url {what}; it must be {allowed}")))
    };
    if base.trim().is_empty() {
        return Err(wrong("is needed with model \"openai\""));
    }
    let mut url = Url::parse(base.trim()).map_err(|error| wrong(&format!("can't be read ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("is no http:// or https:// URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("has a user or a password, which belong into model_key (KEEPLINE_MODEL_KEY)"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a query or a fragment"));
    }
    let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// A model on a server.
struct Endpoint(Arc<Inner>);

struct Inner {
    agent: Agent,
    url: String,
    name: String,
    key: Secret,
    timeout: Duration,
    retries: usize,
    /// Whether the server has asked for the limit by its newer name.
    is_newer: AtomicBool,
}

/// Why a try failed.
struct Failed {
    message: String,
    /// Whether another try may do better, and not before when.
    may_pass: bool,
    after: Option<Duration>,
}

impl Failed {
    fn passing(message: String) -> Self {
        Self { message, may_pass: true, after: None }
    }

    fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), may_pass: false, after: None }
    }
}

#[async_trait::async_trait]
impl Model for Endpoint {
    async fn complete(&self, need: &CompletionNeed) -> Result<Option<String>, ModelError> {
        let end = Instant::now() + self.0.timeout;
        let need = Arc::new(need.clone());
        let ask = || async {
            let (inner, need) = (self.0.clone(), need.clone());
            let left = end.saturating_duration_since(Instant::now());
            // It waits on a thread of its own; what is abandoned ends there, by its time-out at the latest.
            let asked = tokio::task::spawn_blocking(move || inner.ask(&need, left)).await;
            asked.unwrap_or_else(|_| Err(Failed::lasting("the request could not be made")))
        };
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(LONGEST_PAUSE)
            .with_max_times(self.0.retries)
            .with_jitter();
        let text = ask
            .retry(pauses)
            .when(|failed: &Failed| failed.may_pass)
            .adjust(|failed: &Failed, pause| {
                let pause = pause.map(|pause| failed.after.map_or(pause, |after| after.max(pause)));
                pause.filter(|pause| *pause < end.saturating_duration_since(Instant::now()))
            })
            .await
            .map_err(|failed| ModelError(failed.message))?;
        Ok(Some(text))
    }
}

impl Inner {
    /// One try; of two requests, if the server turns out to want the limit by its other name.
    fn ask(&self, need: &CompletionNeed, left: Duration) -> Result<String, Failed> {
        let end = Instant::now() + left;
        let was_newer = self.is_newer.load(Ordering::Relaxed);
        let replied = self.request(need, was_newer, left);
        match replied {
            Err(failed) if !was_newer && failed.message.contains(NEWER_LIMIT) => {
                self.is_newer.store(true, Ordering::Relaxed);
                self.request(need, true, end.saturating_duration_since(Instant::now()))
            }
            replied => replied,
        }
    }

    fn request(&self, need: &CompletionNeed, is_newer: bool, left: Duration) -> Result<String, Failed> {
        if left.is_zero() {
            return Err(Failed::lasting("the time is over"));
        }
        let body = json!({
            "model": self.name,
            "messages": [
                {"role": "system", "content": need.instructions},
                {"role": "user", "content": need.input},
            ],
            (if is_newer { NEWER_LIMIT } else { LIMIT }): need.max_tokens,
        });
        let mut request = self.agent.post(&self.url).header("content-type", "application/json");
        if !self.key.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.key.expose()));
        }
        let sent = request.config().timeout_global(Some(left)).build().send(body.to_string());
        let mut response = sent.map_err(|error| Failed::passing(format!("the model can't be asked: {error}")))?;
        let status = response.status();
        let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let read = response.body_mut().with_config().limit(MAX_REPLY).read_to_vec();
        if !status.is_success() {
            let mut message = format!("the model's server answered with status {}", status.as_u16());
            if let Some(told) = read.ok().and_then(|body| explanation(&body)) {
                message.push_str(": ");
                // Some servers quote the key that they refuse.
                message.extend(self.without_key(&told).chars().take(MAX_TOLD));
            }
            return Err(Failed { message, may_pass: may_pass(status), after: after.map(Duration::from_secs) });
        }
        let body = read.map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => {
                Failed::lasting(format!("the model's answer is longer than {MAX_REPLY} bytes"))
            }
            error => Failed::passing(format!("the model's answer broke off: {error}")),
        })?;
        completion(&body).map_err(Failed::lasting)
    }

    fn without_key(&self, message: &str) -> String {
        match self.key.expose() {
            "" => message.to_owned(),
            key => message.replace(key, "***"),
        }
    }
}

fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 409 | 429)
}

#[derive(Deserialize)]
struct Reply {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

/// The text of the first choice, without what the model thought before.
fn completion(body: &[u8]) -> Result<String, &'static str> {
    let reply: Reply = serde_json::from_slice(body).map_err(|_| "the model's answer is no chat completion")?;
    let text = reply.choices.into_iter().next().and_then(|choice| choice.message.content).unwrap_or_default();
    let said = match text.trim_start().strip_prefix("<think>") {
        Some(thought) => thought.split_once("</think>").map_or("", |(_, said)| said),
        None => &text,
    };
    match said.trim() {
        "" => Err("the model's answer is blank"),
        said => Ok(said.to_owned()),
    }
}

/// What the server says of an error.
fn explanation(body: &[u8]) -> Option<String> {
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
            assert_eq!(completions_url(base).unwrap().as_str(), url);
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
            let error = completions_url(base).unwrap_err();
            assert!(error.is::<Usage>() && !error.to_string().contains("secret"), "{base}: {error}");
        }
    }

    #[test]
    fn a_completion_is_what_was_said_in_the_end() {
        let body = |content: &str| format!(r#"{{"choices":[{{"message":{{"content":{content}}}}}],"id":1}}"#);
        assert_eq!(completion(body("\" a\\nb \"").as_bytes()), Ok("a\nb".into()));
        assert_eq!(completion(body("\"<think>what?</think>\\n\\nb\"").as_bytes()), Ok("b".into()));
        for blank in ["null", "\"\"", "\" \\n\"", "\"<think>and then\""] {
            assert_eq!(completion(body(blank).as_bytes()), Err("the model's answer is blank"));
        }
        assert_eq!(completion(br#"{"choices":[]}"#), Err("the model's answer is blank"));
        for none in
            [&b""[..], b"\xff", b"{}", b"[]", br#"{"choices":[{}]}"#, br#"{"choices":[{"message":{"content":7}}]}"#]
        {
            assert_eq!(completion(none), Err("the model's answer is no chat completion"));
        }
    }

    #[test]
    fn an_error_is_explained_as_the_server_does() {
        assert_eq!(explanation(br#"{"error":{"message":"no quota"}}"#).unwrap(), "no quota");
        assert_eq!(explanation(br#"{"error":"no model"}"#).unwrap(), "no model");
        assert_eq!(explanation(b"<html>"), None);
    }
}
