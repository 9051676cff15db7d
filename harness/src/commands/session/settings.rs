//! `keepline session settings`: shows and sets the window, budget and model of one conversation.

use anyhow::Result;
use keepline::{Sessions, sessions::TranscriptSettings};
use serde_json::{Value, json};

use super::arguments::SettingsArguments;
use crate::{
    args::TranscriptArguments,
    operations::transcripts::as_transcript,
    terminal::{self, fact_rows, print_json},
};

/// Changes settings, and shows the result.
pub async fn show_or_set_settings(
    sessions: &mut Sessions,
    as_json: bool,
    transcript: &TranscriptArguments,
    given: &SettingsArguments,
    clear: bool,
) -> Result<()> {
    let before = sessions.describe(as_transcript(transcript)).await?.settings;
    let set = if given.is_empty() && !clear {
        before
    } else {
        let kept = if clear { TranscriptSettings::default() } else { before };
        let wanted = TranscriptSettings {
            max_context_tokens: given.budget.or(kept.max_context_tokens),
            context_window: given.window.or(kept.context_window),
            reserve_tokens: given.reserve.or(kept.reserve_tokens),
            model: given.model.clone().or(kept.model),
        };
        sessions.set_settings(as_transcript(transcript), &wanted).await?;
        wanted
    };
    if as_json {
        return print_json(&json!({"session": transcript.session, "settings": settings_json(&set)}));
    }
    terminal::print_table(["", "Value"], settings_rows(set))
}

/// By the names of the options that they override; null if unset.
pub fn settings_json(settings: &TranscriptSettings) -> Value {
    json!({
        "max_context_tokens": settings.max_context_tokens, "context_window": settings.context_window,
        "reserve_tokens": settings.reserve_tokens, "model": settings.model,
    })
}

pub fn settings_rows(settings: TranscriptSettings) -> Vec<[String; 2]> {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    fact_rows([
        ("max_context_tokens", number(settings.max_context_tokens)),
        ("context_window", number(settings.context_window)),
        ("reserve_tokens", number(settings.reserve_tokens)),
        ("model", settings.model),
    ])
}
