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
    let client = ModelClient::new(ModelSettings {
        field: "model",
        path: "chat/completions",
        who: "the model",
        name: host.model_name.clone(),
        url: host.model_url.clone(),
        key: host.model_key.clone(),
        timeout_ms: host.model_timeout_ms,
        retries: host.model_retries,
        max_reply: MAX_REPLY,
    })?;
    Ok(Arc::new(CompletionModel { client: Arc::new(client), is_newer: Arc::default(), thinks: Arc::default() }))
}

#[derive(Clone)]
struct CompletionModel {
    client: Arc<ModelClient>,
    /// Whether the server has asked for the limit by its newer name.
    is_newer: Arc<AtomicBool>,
    /// Whether the limit has cut the model off before it had answered: then it gets [`THINKING_TOKENS`] more.
    thinks: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Model for CompletionModel {
    async fn complete(&self, need: &CompletionNeed) -> Result<Option<String>, ModelError> {
        let (model, need) = (self.clone(), need.clone());
        let ask = move |left: AttemptDeadline| model.request_completion(&need, left);
        self.client.request_with_retries(ask).await.map(Some).map_err(|failed| ModelError(failed.message))
    }
}

impl CompletionModel {
    /// Makes one try: again by the limit's newer name if the server wants that, and with more tokens if the limit cuts the
    /// model off while it thinks.
    fn request_completion(&self, need: &CompletionNeed, left: AttemptDeadline) -> Result<String, RequestFailure> {
        let thought = self.thinks.load(Ordering::Relaxed);
        let (mut thinks, mut is_newer) = (thought, self.is_newer.load(Ordering::Relaxed));
        loop {
            let replied = self.send_request(need, thinks, is_newer, left);
            match &replied {
                Err(failed) if !is_newer && failed.message.contains(NEWER_TOKEN_LIMIT_FIELD) => {
                    is_newer = true;
                    self.is_newer.store(true, Ordering::Relaxed);
                }
                Err(failed) if !thinks && failed.message == CUT_OFF_MESSAGE => thinks = true,
                _ => {
                    if thinks != thought {
                        // A server whose context has no room for that is asked for less again.
                        self.thinks.store(replied.is_ok(), Ordering::Relaxed);
                    }
                    return replied;
                }
            }
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
            "model": self.client.settings.name,
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
