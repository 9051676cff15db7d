//! The options of conversations, and the budget of tokens that follows from them.

use keepline_options::kinds::{
    Boolean, Hours, Integer, IntegerOrZero, Kind, OneOf, OptionValue, SomeOf, Template, Text, Texts,
};
use keepline_options::words::{MemoryMode, Recall, RecallLife, RecallSource, WindowForm};
use keepline_options::{conversation_options, kind_of};

use crate::contract::transcripts::TranscriptSettings;
use crate::contract::{Problem, StoreLimits, lanes};
use crate::options::reader::{Patterns, Read, Reader};
use crate::options::table::{OptionTable, list_option, option_struct};

conversation_options!(option_struct!(
    /// The options of conversations in force.
    Options {
        /// Those of the store.
        limits: StoreLimits,
    }
));

/// Without a window to derive it from.
const BUDGET: u64 = 50_000;

pub(crate) const BUDGET_MIN: u64 = kind_of::max_context_tokens::MIN;

const RESERVE_MAX: u64 = 64_000;

impl Options {
    /// Whether embeddings are of any use.
    pub fn wants_vectors(&self) -> bool {
        self.recall_vectors && self.recall != Recall::Off
    }

    /// Bytes of a message in JSON: a record holds one, and a step of two is a part of a call.
    pub(crate) fn message_bytes(&self) -> usize {
        bounded(1 << 20, (self.limits.record_bytes / 2).min(self.limits.call_bytes / 16))
    }

    /// The longest of the texts of a tool's call and its result, in JSON: a record holds five of them.
    pub(crate) fn tool_bytes(&self) -> usize {
        bounded(256 << 10, self.limits.record_bytes / 8)
    }

    /// Longer details, and references to files, are not kept: a record holds four of them beside a message.
    pub(crate) fn details_bytes(&self) -> usize {
        bounded(64 << 10, self.limits.record_bytes / 16)
    }

    /// The tokens that a question gets at most.
    pub fn budget(&self) -> u64 {
        budget(self.max_context_tokens, self.context_window, self.reserve_tokens)
    }

    /// The tokens that a question gets at most, with what is set for its session and then for itself. Who names a window
    /// has its budget derived from that, and its reserve, too, unless that is set beside it.
    pub(crate) fn budget_of(&self, closer: &[&TranscriptSettings]) -> u64 {
        let (mut tokens, mut window, mut reserve) = (self.max_context_tokens, self.context_window, self.reserve_tokens);
        for settings in closer {
            if let Some(named) = settings.context_window {
                (tokens, window, reserve) = (0, named, 0);
            }
            tokens = settings.max_context_tokens.unwrap_or(tokens);
            reserve = settings.reserve_tokens.unwrap_or(reserve);
        }
        budget(tokens, window, reserve)
    }
}

/// The lesser of the filter's own bound and of what the store allows.
pub(crate) fn bounded(own: usize, allowed: u64) -> usize {
    usize::try_from(allowed).unwrap_or(usize::MAX).min(own)
}

/// Of what is given, or derived where it is 0.
pub(crate) fn budget(max_context_tokens: u64, context_window: u64, reserve_tokens: u64) -> u64 {
    let derived = || {
        let window = context_window.min(kind_of::context_window::MAX);
        let reserve = match reserve_tokens {
            0 => (window * 35).div_ceil(100).min(RESERVE_MAX),
            given => given,
        };
        window.saturating_sub(reserve) * 4 / 5
    };
    let tokens = match (max_context_tokens, context_window) {
        (0, 0) => BUDGET,
        (0, _) => derived(),
        (given, _) => given,
    };
    tokens.clamp(BUDGET_MIN, kind_of::max_context_tokens::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use keepline_json as json;

    use crate::options::config::Config;

    fn options(text: &str) -> Options {
        let config = Config::parse(&format!("{{\"conversation\": true, {text}}}")).unwrap();
        Options::clone(config.conversation.as_ref().unwrap())
    }

    #[test]
    fn effective_options_are_read_back_as_the_same() {
        let given = r#"{"conversation": true, "max_context_tokens": 4000, "context_window": 8000, "reserve_tokens": 9,
        "message_limit": 20, "max_window_bytes": 1024, "window_keep": 30, "pin_first_turn": true, "tool_result_tokens": 7,
        "window_form": "text", "human_prefix": "Mensch \"x\"", "assistant_prefix": "", "memory_trace": true,
        "query_prompt_template": "{{history}}\n{{query}}", "min_message_length": 2, "max_message_length": 0,
        "strip_thinking": true, "skip_markers": [], "redact": ["sk-{w+}", "a\\{"], "memory_mode": "node",
        "require_node": true, "node_ttl_hours": 0.5, "max_session_messages": 10, "max_session_bytes": 1024,
        "summaries": false, "summary_max_tokens": 32, "summary_prompt": "a", "auto_generate_titles": false,
        "title_max_length": 10, "title_from_first_message": false, "update_existing_titles": true,
        "title_prompt": "b", "recall": "session", "recall_tokens": 64, "recall_hints": false, "recall_vectors": true,
        "recall_exclude": ["import", "tool"], "recall_ttl_hours": 2160, "recall_life": "session"}"#;
        let config = Config::parse(given).unwrap();
        let told = config.effective();
        assert_eq!(Config::parse(&told).unwrap(), config, "{told}");
        let mut names = Vec::new();
        json::for_each_member(&told, |key, _| names.push(json::decode_string(key).unwrap().into_owned())).unwrap();
        for name in Options::NAMES.split(", ").skip(1) {
            assert!(names.iter().any(|told| told == name), "{name}");
        }
        let default = Config::parse(r#"{"conversation": true}"#).unwrap();
        assert_eq!(Config::parse(&default.effective()).unwrap(), default);
    }

    #[test]
    fn mistakes_name_what_is_allowed() {
        for (text, allowed) in [
            (r#""max_context_tokens": 63"#, "0 or an integer from 64 to 2000000"),
            (r#""window_keep": 0.5"#, "an integer from 10 to 90"),
            (r#""human_prefix": [1]"#, "a text of at most 64 bytes"),
            (r#""skip_markers": "x""#, "a JSON list of at most 64 texts"),
            (r#""redact": ["{"]"#, "redact must be"),
            (r#""query_prompt_template": "{{query}}{{history}}{{query}}""#, "once each"),
            (r#""max_window_bytes": 1023"#, "an integer from 1024 to 8388608"),
            (r#""memory_mode": "graph""#, "\"conversation\" or \"node\""),
            (r#""recall": "all""#, "\"off\", \"session\" or \"user\""),
            (r#""recall_life": "ever""#, "\"user\" or \"session\""),
            (r#""recall_exclude": ["user"]"#, "a list of \"tool\" and \"import\""),
            (r#""conversation": 1"#, "true or false"),
        ] {
            let problem = Config::parse(&format!("{{{text}}}")).unwrap_err();
            assert!(problem.message.contains(allowed), "{}", problem.message);
        }
    }

    #[test]
    fn a_list_may_be_spelt_in_a_text() {
        let parsed = |redact: &str| Config::parse(&format!(r#"{{"conversation": true, "redact": {redact}}}"#)).unwrap();
        assert_eq!(parsed(r#""[\"{d4}\", \"sk-{t+}\"]""#), parsed(r#"["{d4}", "sk-{t+}"]"#));
    }

    #[test]
    fn a_budget_is_given_or_derived() {
        for (text, budget) in [
            (r#""max_context_tokens": 4000, "context_window": 9999"#, 4000),
            (r#""max_context_tokens": null"#, 50_000),
            (r#""context_window": 200000"#, 108_800),
            (r#""context_window": 128000"#, 66_560),
            (r#""context_window": 8000, "reserve_tokens": 1000"#, 5600),
            (r#""context_window": 8000, "reserve_tokens": 8000"#, 64),
        ] {
            assert_eq!(options(text).budget(), budget, "{text}");
        }
    }
}
