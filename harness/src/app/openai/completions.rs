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

use super::{Client, Failed, Left, Settings};

/// The longest reply that is read.
const MAX_REPLY: u64 = 1 << 20;
/// Tokens beside the answer's, for a model that thinks before it answers.
const THOUGHTS: u32 = 8192;
/// The limit of tokens: as all servers know it, and as OpenAI's newer models insist on.
const LIMIT: &str = "max_tokens";
const NEWER_LIMIT: &str = "max_completion_tokens";

pub fn configured(config: &Config) -> Result<Arc<dyn Model>> {
    let host = &config.host;
    if host.model != "openai" {
        return Ok(Arc::new(NoModel));
    }
    let client = Client::new(&Settings {
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
    Ok(Arc::new(Completions(Arc::new(Inner {
        client,
        is_newer: AtomicBool::new(false),
        thinks: AtomicBool::new(false),
    }))))
}

struct Completions(Arc<Inner>);

struct Inner {
    client: Client,
    /// Whether the server has asked for the limit by its newer name.
    is_newer: AtomicBool,
    /// Whether the limit has cut the model off before it had answered: then it gets [`THOUGHTS`] more.
    thinks: AtomicBool,
}

#[async_trait::async_trait]
impl Model for Completions {
    async fn complete(&self, need: &CompletionNeed) -> Result<Option<String>, ModelError> {
        let (inner, need) = (self.0.clone(), Arc::new(need.clone()));
        let ask = move |left: Left| inner.ask_with_room(&need, left);
        self.0.client.patiently(ask).await.map(Some).map_err(|failed| ModelError(failed.message))
    }
}

impl Inner {
    /// Makes one try, and another with more tokens if the limit cuts the model off while it thinks.
    fn ask_with_room(&self, need: &CompletionNeed, left: Left) -> Result<String, Failed> {
        let thought = self.thinks.load(Ordering::Relaxed);
        let replied = self.ask(need, thought, left);
        match replied {
            Err(failed) if !thought && failed.message == CUT_OFF => {
                let replied = self.ask(need, true, left);
                // A server whose context has no room for that is asked for less again.
                self.thinks.store(replied.is_ok(), Ordering::Relaxed);
                replied
            }
            replied => replied,
        }
    }

    /// Sends one request, and another if the server wants the limit by its newer name.
    fn ask(&self, need: &CompletionNeed, thinks: bool, left: Left) -> Result<String, Failed> {
        let was_newer = self.is_newer.load(Ordering::Relaxed);
        let replied = self.request(need, thinks, was_newer, left);
        match replied {
            Err(failed) if !was_newer && failed.message.contains(NEWER_LIMIT) => {
                self.is_newer.store(true, Ordering::Relaxed);
                self.request(need, thinks, true, left)
            }
            replied => replied,
        }
    }

    fn request(&self, need: &CompletionNeed, thinks: bool, is_newer: bool, left: Left) -> Result<String, Failed> {
        let room = if thinks { THOUGHTS } else { 0 };
        let body = json!({
            "model": self.client.name,
            "messages": [
                {"role": "system", "content": need.instructions},
                {"role": "user", "content": need.input},
            ],
            (if is_newer { NEWER_LIMIT } else { LIMIT }): need.max_tokens.saturating_add(room),
        });
        completion(&self.client.post(&body, left)?).map_err(Failed::lasting)
    }
}

#[derive(Deserialize)]
struct Reply {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

const CUT_OFF: &str = "the model's answer is blank: its thoughts took up max_tokens";

/// The text of the first choice, without what the model thought before.
fn completion(body: &[u8]) -> Result<String, &'static str> {
    let reply: Reply = serde_json::from_slice(body).map_err(|_| "the model's response is not a chat completion")?;
    let choice = reply.choices.into_iter().next().ok_or("the model's response has no choices")?;
    let text = choice.message.content.unwrap_or_default();
    let said = match text.trim_start().strip_prefix("<think>") {
        Some(thought) => thought.split_once("</think>").map_or("", |(_, said)| said),
        None => &text,
    };
    match said.trim() {
        "" if choice.finish_reason.as_deref() == Some("length") => Err(CUT_OFF),
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
        assert_eq!(completion(body("\" a\\nb \"").as_bytes()), Ok("a\nb".into()));
        assert_eq!(completion(body("\"<think>what?</think>\\n\\nb\"").as_bytes()), Ok("b".into()));
        for blank in ["null", "\"\"", "\" \\n\"", "\"<think>and then\""] {
            assert_eq!(completion(body(blank).as_bytes()), Err("the model's answer is blank"));
        }
        assert_eq!(completion(br#"{"choices":[]}"#), Err("the model's response has no choices"));
        let cut = br#"{"choices":[{"message":{"content":"<think>hm"},"finish_reason":"length"}]}"#;
        assert_eq!(completion(cut), Err(CUT_OFF));
        for none in
            [&b""[..], b"\xff", b"{}", b"[]", br#"{"choices":[{}]}"#, br#"{"choices":[{"message":{"content":7}}]}"#]
        {
            assert_eq!(completion(none), Err("the model's response is not a chat completion"));
        }
    }
}
