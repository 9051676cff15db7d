//! Writes titles and summaries with a model behind `/chat/completions`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use keepline::{
    config::Config,
    maintenance::{CompletionNeed, Model, ModelError, NoModel},
};
use serde::Deserialize;
use serde_json::json;

use super::{AttemptDeadline, ModelClient, ModelSettings, RequestFailure};

/// The longest reply that is read.
const MAX_REPLY: u64 = 1 << 20;
/// Tokens beside the answer's, for a model that thinks before it answers.
const THINKING_TOKENS: u32 = 8192;
/// The limit of tokens: as all servers know it, and as OpenAI's newer models insist on.
const TOKEN_LIMIT_FIELD: &str = "max_tokens";
const NEWER_TOKEN_LIMIT_FIELD: &str = "max_completion_tokens";

pub fn configured_completion_model(config: &Config) -> Result<Arc<dyn Model>> {
    let host = &config.host;
    if host.model != "openai" {
        return Ok(Arc::new(NoModel));
    }
    let client = ModelClient::new(&ModelSettings {
        field: "model",
        path: "chat/completions",
        who: "the model",
        name: &host.model_name,
        url: &host.model_url,
        key: &host.model_key,
        timeout_ms: host.model_timeout_ms,
        retries: host.model_retries,
        max_reply: MAX_REPLY,
    })?;
    Ok(Arc::new(CompletionModel(Arc::new(CompletionClient {
        client,
        is_newer: AtomicBool::new(false),
        thinks: AtomicBool::new(false),
    }))))
}

struct CompletionModel(Arc<CompletionClient>);

struct CompletionClient {
    client: ModelClient,
    /// Whether the server has asked for the limit by its newer name.
    is_newer: AtomicBool,
    /// Whether the limit has cut the model off before it had answered: then it gets [`THINKING_TOKENS`] more.
    thinks: AtomicBool,
}

#[async_trait::async_trait]
impl Model for CompletionModel {
    async fn complete(&self, need: &CompletionNeed) -> Result<Option<String>, ModelError> {
        let (inner, need) = (self.0.clone(), Arc::new(need.clone()));
        let ask = move |left: AttemptDeadline| inner.request_with_thinking_room(&need, left);
        self.0.client.request_with_retries(ask).await.map(Some).map_err(|failed| ModelError(failed.message))
    }
}

impl CompletionClient {
    /// Makes one try, and another with more tokens if the limit cuts the model off while it thinks.
    fn request_with_thinking_room(
        &self,
        need: &CompletionNeed,
        left: AttemptDeadline,
    ) -> Result<String, RequestFailure> {
        let thought = self.thinks.load(Ordering::Relaxed);
        let replied = self.request_with_either_limit(need, thought, left);
        match replied {
            Err(failed) if !thought && failed.message == CUT_OFF_MESSAGE => {
                let replied = self.request_with_either_limit(need, true, left);
                // A server whose context has no room for that is asked for less again.
                self.thinks.store(replied.is_ok(), Ordering::Relaxed);
                replied
            }
            replied => replied,
        }
    }

    /// Sends one request, and another if the server wants the limit by its newer name.
    fn request_with_either_limit(
        &self,
        need: &CompletionNeed,
        thinks: bool,
        left: AttemptDeadline,
    ) -> Result<String, RequestFailure> {
        let was_newer = self.is_newer.load(Ordering::Relaxed);
        let replied = self.send_request(need, thinks, was_newer, left);
        match replied {
            Err(failed) if !was_newer && failed.message.contains(NEWER_TOKEN_LIMIT_FIELD) => {
                self.is_newer.store(true, Ordering::Relaxed);
                self.send_request(need, thinks, true, left)
            }
            replied => replied,
        }
    }

    fn send_request(
        &self,
        need: &CompletionNeed,
        thinks: bool,
        is_newer: bool,
        left: AttemptDeadline,
    ) -> Result<String, RequestFailure> {
        let room = if thinks { THINKING_TOKENS } else { 0 };
        let body = json!({
            "model": self.client.name,
            "messages": [
                {"role": "system", "content": need.instructions},
                {"role": "user", "content": need.input},
            ],
            (if is_newer { NEWER_TOKEN_LIMIT_FIELD } else { TOKEN_LIMIT_FIELD }): need.max_tokens.saturating_add(room),
        });
        parse_completion(&self.client.post(&body, left)?).map_err(RequestFailure::permanent)
    }
}

#[derive(Deserialize)]
struct CompletionReply {
    choices: Vec<CompletionChoice>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    message: CompletionMessage,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct CompletionMessage {
    content: Option<String>,
}

const CUT_OFF_MESSAGE: &str = "the model's answer is blank: its thoughts took up max_tokens";

/// The text of the first choice, without what the model thought before.
fn parse_completion(body: &[u8]) -> Result<String, &'static str> {
    let reply: CompletionReply =
        serde_json::from_slice(body).map_err(|_| "the model's response is not a chat completion")?;
    let choice = reply.choices.into_iter().next().ok_or("the model's response has no choices")?;
    let text = choice.message.content.unwrap_or_default();
    let said = match text.trim_start().strip_prefix("<think>") {
        Some(thought) => thought.split_once("</think>").map_or("", |(_, said)| said),
        None => &text,
    };
    match said.trim() {
        "" if choice.finish_reason.as_deref() == Some("length") => Err(CUT_OFF_MESSAGE),
        "" => Err("the model's answer is blank"),
        said => Ok(said.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_removed_from_a_completion() {
        let body = |content: &str| format!(r#"{{"choices":[{{"message":{{"content":{content}}}}}],"id":1}}"#);
        assert_eq!(parse_completion(body("\" a\\nb \"").as_bytes()), Ok("a\nb".into()));
        assert_eq!(parse_completion(body("\"<think>what?</think>\\n\\nb\"").as_bytes()), Ok("b".into()));
        for blank in ["null", "\"\"", "\" \\n\"", "\"<think>and then\""] {
            assert_eq!(parse_completion(body(blank).as_bytes()), Err("the model's answer is blank"));
        }
        assert_eq!(parse_completion(br#"{"choices":[]}"#), Err("the model's response has no choices"));
        let cut = br#"{"choices":[{"message":{"content":"<think>hm"},"finish_reason":"length"}]}"#;
        assert_eq!(parse_completion(cut), Err(CUT_OFF_MESSAGE));
        for none in
            [&b""[..], b"\xff", b"{}", b"[]", br#"{"choices":[{}]}"#, br#"{"choices":[{"message":{"content":7}}]}"#]
        {
            assert_eq!(parse_completion(none), Err("the model's response is not a chat completion"));
        }
    }
}
