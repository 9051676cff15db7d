//! What a program tells of itself when it is configured, as far as the host goes by it.

use std::sync::Arc;

use keepline_json as json;

use crate::contract::filter::Configured;

#[derive(Clone)]
pub(crate) struct Told {
    /// The options in force: a JSON object, on one line.
    pub(crate) effective: Arc<str>,
    pub(crate) wants_vectors: bool,
    pub(crate) wants_tokens: bool,
    pub(crate) wants_turns: bool,
    /// Whether it keeps conversations: then sessions have owners.
    pub(crate) has_owners: bool,
    /// The most that it attaches to a question, bytes.
    pub(super) most_attached: usize,
}

impl Told {
    /// What it tells when it is configured with these options, a JSON object.
    pub(crate) fn of(configured: Configured, options: &str) -> Self {
        let Configured { effective, wants_vectors, wants_tokens, wants_turns } = configured;
        let effective = Some(effective).filter(|effective| is_object(effective)).unwrap_or_else(|| "{}".into());
        let most_attached = most_attached(&effective, options);
        let mut has_owners = false;
        let _ =
            json::members(&effective, |key, value| has_owners |= json::key_is(key, "conversation") && value == "true");
        Self { effective: effective.into(), wants_vectors, wants_tokens, wants_turns, has_owners, most_attached }
    }
}

/// Whether that can be kept, and shown to people and programs, as options in force.
fn is_object(effective: &str) -> bool {
    const MOST: usize = 1 << 20;
    effective.len() <= MOST && json::object(effective, |_, _| {}) == Some(json::Form::default())
}

/// Of the limits of values, of windows and of recall, the one that an option sets.
fn limit_of<'l>(limits: &'l mut [f64; 3], key: &str) -> Option<&'l mut f64> {
    let names = ["max_context_bytes", "max_window_bytes", "recall_tokens"];
    names.iter().zip(limits).find(|(name, _)| json::key_is(key, name)).map(|(_, limit)| limit)
}

/// By its options in force: `max_context_bytes` and `max_window_bytes`, which are never more than the contract allows, what
/// `recall_tokens` come to, and what is around keys and values. Never more than the options that it was given say: one
/// that tells more than it was told gets no more for it, and windows and recall only where they were asked for.
fn most_attached(effective: &str, options: &str) -> usize {
    const MOST: f64 = 8_389_632.0;
    const AROUND: usize = 64 << 10;
    // A token is four bytes, in JSON at most six each, and what is recalled stands there twice: as a text, and by passages.
    const TOKEN: usize = 48;
    const RECALL: f64 = 32_768.0;
    const AROUND_PASSAGES: usize = 256 << 10;
    // One that says nothing of values has the most that there may be; of a window, none.
    let mut limits = [MOST, 0.0, 0.0];
    let _ = json::members(effective, |key, value| {
        if let Some(limit) = limit_of(&mut limits, key) {
            *limit = json::number(value).unwrap_or(*limit);
        }
    });
    let (mut has_window, mut has_recall) = (false, false);
    let _ = json::members(options, |key, value| {
        if json::key_is(key, "conversation") {
            has_window = value == "true";
        } else if json::key_is(key, "recall") {
            has_recall = value.starts_with('"') && value != "\"off\"";
        } else if let Some(limit) = limit_of(&mut limits, key) {
            *limit = json::number(value).unwrap_or(*limit).min(*limit);
        }
    });
    let [context, mut window, mut recall] = limits;
    if !has_window {
        window = 0.0;
    }
    if !(has_window && has_recall) {
        recall = 0.0;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let bytes = |told: f64, most: f64| told.clamp(0.0, most) as usize;
    let recalled = match bytes(recall, RECALL) {
        0 => 0,
        tokens => tokens * TOKEN + AROUND_PASSAGES,
    };
    bytes(context, MOST) + bytes(window, MOST) + recalled + AROUND
}
