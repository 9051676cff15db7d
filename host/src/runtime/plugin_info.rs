//! The parts of the plugin's `configure` reply that the host relies on.

use std::sync::Arc;

use keepline_json as json;

use crate::{
    contract::{
        lanes::{Configured, OptionValue},
        logging::LogLevel,
        pipelines::configuration,
        shared::Problem,
    },
    logging::RateLimitedLog,
};

#[derive(Clone)]
pub(crate) struct PluginInfo {
    /// The options in force: a JSON object, on one line.
    pub(crate) effective: Arc<str>,
    pub(crate) wants_vectors: bool,
    pub(crate) wants_tokens: bool,
    pub(crate) wants_turns: bool,
    /// Whether it keeps conversations: then sessions have owners.
    pub(crate) has_owners: bool,
    /// Whether entries that don't say so are about the transcripts of nodes.
    pub(crate) is_by_node: bool,
    /// The most that it attaches to a question, bytes.
    pub(super) most_attached: usize,
    /// Promises that the store lacks.
    pub(crate) warnings: Arc<[Problem]>,
}

impl PluginInfo {
    /// What it replies when it is configured with these options, a JSON object.
    pub(crate) fn from_configured(configured: Configured, options: &str) -> Self {
        let effective = options_object(&configured.options);
        let most_attached = max_attached_bytes(&effective, options);
        let has = |name: &str, value: &str| configured.options.iter().any(|one| one.name == name && one.value == value);
        let wants = |name: &str| configured.wants.iter().any(|wanted| wanted == name);
        Self {
            wants_vectors: wants("vectors"),
            wants_tokens: wants("tokens"),
            wants_turns: wants("turns"),
            has_owners: has("conversation", "true"),
            is_by_node: has("memory_mode", "\"node\""),
            effective: effective.into(),
            most_attached,
            warnings: configured.warnings.into(),
        }
    }

    /// What the store can't promise, and the configuration relies on.
    pub(super) fn log_warnings(&self, log: &RateLimitedLog) {
        for warning in self.warnings.iter() {
            log.log_from_plugin(LogLevel::Warn, "keepline.store", &warning.message);
        }
    }
}

impl From<configuration::Configured> for Configured {
    /// Pipelines want nothing from entries.
    fn from(configured: configuration::Configured) -> Self {
        let configuration::Configured { options, warnings } = configured;
        let option = |configuration::OptionValue { name, value, is_default }| OptionValue { name, value, is_default };
        Self { options: options.into_iter().map(option).collect(), wants: Vec::new(), warnings }
    }
}

/// As a JSON object, on one line; `{}` if that would be more than can be kept, or is no JSON.
fn options_object(options: &[OptionValue]) -> String {
    const MOST: usize = 1 << 20;
    let mut object = String::from("{");
    for OptionValue { name, value, .. } in options {
        object.push_str(if object.len() > 1 { "," } else { "" });
        json::push_string(&mut object, name);
        object.push(':');
        object.push_str(value);
    }
    object.push('}');
    let is_object = |object: &String| {
        object.len() <= MOST
            && json::scan_object(object, |_, _| {}).is_some_and(|form| form.is_within(json::JsonForm::default()))
    };
    Some(object).filter(is_object).unwrap_or_else(|| "{}".into())
}

/// Of the limits of values, of windows and of recall, the one that an option sets.
fn limit_of<'l, T>(limits: &'l mut [T; 3], key: &str) -> Option<&'l mut T> {
    let names = ["max_context_bytes", "max_window_bytes", "recall_tokens"];
    names.iter().zip(limits).find(|(name, _)| json::key_matches(key, name)).map(|(_, limit)| limit)
}

/// By its options in force: `max_context_bytes` and `max_window_bytes`, which are never more than the contract allows, what
/// `recall_tokens` come to, and what is around keys and values. Never more than the options that it was given say, or mean
/// where they say nothing: a plugin that reports more than it was given gains nothing, and windows and recall only where they
/// were asked for.
fn max_attached_bytes(effective: &str, options: &str) -> usize {
    const MOST: f64 = 8_389_632.0;
    const AROUND: usize = 64 << 10;
    // A token is four bytes, in JSON at most six each, and what is recalled stands there twice: as a text, and by passages.
    const TOKEN: usize = 48;
    const RECALL: f64 = 32_768.0;
    const AROUND_PASSAGES: usize = 256 << 10;
    // What holds where no option says how much, as in docs/configuration.md: there is room for the longest value.
    const CONTEXT: f64 = 2_097_152.0;
    const BESIDE_A_VALUE: f64 = 1024.0;
    const RECALLED: f64 = 2000.0;
    // One that says nothing of values has the most that there may be; of a window, none.
    let mut limits = [MOST, 0.0, 0.0];
    let _ = json::for_each_member(effective, |key, value| {
        if let Some(limit) = limit_of(&mut limits, key) {
            *limit = json::parse_number(value).unwrap_or(*limit);
        }
    });
    let (mut has_window, mut has_recall) = (false, false);
    let (mut given, mut longest_value) = ([None; 3], None);
    let _ = json::for_each_member(options, |key, value| {
        if json::key_matches(key, "conversation") {
            has_window = value == "true";
        } else if json::key_matches(key, "recall") {
            has_recall = value.starts_with('"') && value != "\"off\"";
        } else if json::key_matches(key, "max_value_bytes") {
            longest_value = json::parse_number(value);
        } else if let Some(limit) = limit_of(&mut given, key) {
            *limit = json::parse_number(value);
        }
    });
    let [context, window, recall] = limits;
    let [given_context, given_window, given_recall] = given;
    let room = CONTEXT.max(longest_value.unwrap_or_default() + BESIDE_A_VALUE);
    let context = context.min(given_context.unwrap_or(room));
    let window = if has_window { window.min(given_window.unwrap_or(MOST)) } else { 0.0 };
    let recall = if has_window && has_recall { recall.min(given_recall.unwrap_or(RECALLED)) } else { 0.0 };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let bytes = |told: f64, most: f64| told.clamp(0.0, most) as usize;
    let recalled = match bytes(recall, RECALL) {
        0 => 0,
        tokens => tokens * TOKEN + AROUND_PASSAGES,
    };
    bytes(context, MOST) + bytes(window, MOST) + recalled + AROUND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_bytes_are_bounded_by_the_options_whatever_the_plugin_claims() {
        const AROUND: usize = 64 << 10;
        const WINDOW: usize = 8 << 20;
        const BOASTS: &str = r#"{"max_context_bytes":8389632,"max_window_bytes":8388608,"recall_tokens":32768}"#;
        for (effective, options, most) in [
            (BOASTS, "{}", 2 << 20),
            ("{}", "{}", 2 << 20),
            ("{}", r#"{"max_context_bytes":null}"#, 2 << 20),
            (r#"{"max_context_bytes":5}"#, "{}", 5),
            (BOASTS, r#"{"max_context_bytes":7}"#, 7),
            (BOASTS, r#"{"max_context_bytes":8389632}"#, (8 << 20) + 1024),
            (BOASTS, r#"{"max_value_bytes":4194304}"#, (4 << 20) + 1024),
            (BOASTS, r#"{"max_value_bytes":1e3}"#, 2 << 20),
            (BOASTS, r#"{"max_value_bytes":4194304,"max_context_bytes":9}"#, 9),
            (BOASTS, r#"{"conversation":true}"#, (2 << 20) + WINDOW),
            (BOASTS, r#"{"conversation":true,"max_window_bytes":1024}"#, (2 << 20) + 1024),
            (BOASTS, r#"{"conversation":true,"recall":"user"}"#, (2 << 20) + WINDOW + 2000 * 48 + (256 << 10)),
            (BOASTS, r#"{"conversation":true,"recall":"off"}"#, (2 << 20) + WINDOW),
            (BOASTS, r#"{"recall":"user","recall_tokens":64}"#, 2 << 20),
        ] {
            assert_eq!(max_attached_bytes(effective, options), most + AROUND, "{effective} {options}");
        }
    }
}
