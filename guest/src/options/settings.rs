//! Settings of one session or one entry that replace options: the size of windows, and the model.
//!
//! Numbers out of range are refused when they are set, and ignored when they are read.

use keepline_json::{self as json, ObjectWriter};
use keepline_options::kind_of::{context_window, max_context_tokens, reserve_tokens};

use crate::contract::transcripts::TranscriptSettings;
use crate::text::json_values::parse_count;

/// Bytes of a model's name.
const MODEL_MAX: usize = 128;

/// Absent: as the configuration has it.
#[allow(clippy::derivable_impls, reason = "the type is generated")]
impl Default for TranscriptSettings {
    fn default() -> Self {
        Self { max_context_tokens: None, context_window: None, reserve_tokens: None, model: None }
    }
}

impl TranscriptSettings {
    /// Of an object, and of anything else none.
    pub(crate) fn parse(text: &str) -> Self {
        let mut settings = Self::default();
        let read = json::for_each_member(text, |key, raw| {
            let number = || parse_count(raw).filter(|number| *number > 0);
            match json::decode_string(key).as_deref() {
                Some("max_context_tokens") => settings.max_context_tokens = number(),
                Some("context_window") => settings.context_window = number(),
                Some("reserve_tokens") => settings.reserve_tokens = number(),
                Some("model") => {
                    settings.model = json::decode_string(raw).filter(|name| is_model(name)).map(Into::into);
                }
                _ => {}
            }
        });
        if read.is_some() { settings } else { Self::default() }
    }

    fn numbers(&self) -> [(&'static str, Option<u64>, u64, u64); 3] {
        [
            ("max_context_tokens", self.max_context_tokens, max_context_tokens::MIN, max_context_tokens::MAX),
            ("context_window", self.context_window, context_window::MIN, context_window::MAX),
            ("reserve_tokens", self.reserve_tokens, reserve_tokens::MIN, reserve_tokens::MAX),
        ]
    }

    /// What is out of range, as a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, number, min, max) in self.numbers() {
            if number.is_some_and(|number| !(min..=max).contains(&number)) {
                return Err(format!("{name} must be an integer from {min} to {max}"));
            }
        }
        if self.model.as_deref().is_some_and(|name| !is_model(name)) {
            return Err(format!("model must be a text of 1 to {MODEL_MAX} bytes without control characters"));
        }
        Ok(())
    }

    pub(crate) fn write(&self) -> String {
        let mut out = ObjectWriter::with_capacity(64);
        for (name, number, ..) in self.numbers() {
            out.count(name, number);
        }
        out.text("model", self.model.as_deref());
        out.finish()
    }
}

fn is_model(name: &str) -> bool {
    (1..=MODEL_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}
