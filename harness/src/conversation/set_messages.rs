//! `keepline session set-messages`: other messages in the place of all that there are, to repair a conversation.

use std::path::Path;

use anyhow::{Context, Result};
use keepline::Keepline;
use serde_json::json;

use super::named;
use crate::{
    cli::TranscriptArguments,
    error::Usage,
    session::{answer, patient},
};

/// What a call of the library takes.
const MOST: usize = 10_000;

/// Put a file's messages, a JSON object a line, in the place of all that there are.
pub async fn set_messages(
    keepline: &Keepline,
    json: bool,
    transcript: &TranscriptArguments,
    file: &Path,
) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    let messages: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if messages.len() > MOST {
        let message = format!(
            "{} has {} messages, over {MOST}: `keepline session import` takes in conversations of any length",
            file.display(),
            messages.len()
        );
        return Err(Usage(message).into());
    }
    let mut sessions = patient(keepline, &transcript.session).await?;
    let changed = sessions.set_messages(named(transcript), &messages, None).await?;
    answer(json, &json!({"session": changed.session, "count": changed.count}), &changed.count.to_string())
}
