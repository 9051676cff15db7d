//! The window, budget and model that are set for one conversation.

use keepline::sessions::TranscriptSettings;
use serde::Deserialize;
use serde_json::{Value, json};

/// Settings that a request sends: what is left out stays, null is unset.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SettingsFields {
    #[serde(deserialize_with = "super::given")]
    max_context_tokens: Option<Option<u64>>,
    #[serde(deserialize_with = "super::given")]
    context_window: Option<Option<u64>>,
    #[serde(deserialize_with = "super::given")]
    reserve_tokens: Option<Option<u64>>,
    #[serde(deserialize_with = "super::given")]
    model: Option<Option<String>>,
}

impl SettingsFields {
    /// These, and of the others what was set before.
    pub fn over(self, before: TranscriptSettings) -> TranscriptSettings {
        TranscriptSettings {
            max_context_tokens: self.max_context_tokens.unwrap_or(before.max_context_tokens),
            context_window: self.context_window.unwrap_or(before.context_window),
            reserve_tokens: self.reserve_tokens.unwrap_or(before.reserve_tokens),
            model: self.model.unwrap_or(before.model),
        }
    }
}

/// By the names of the options that they override; null if unset.
pub fn settings_json(settings: &TranscriptSettings) -> Value {
    json!({
        "max_context_tokens": settings.max_context_tokens, "context_window": settings.context_window,
        "reserve_tokens": settings.reserve_tokens, "model": settings.model,
    })
}
