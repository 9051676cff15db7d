#![allow(clippy::unwrap_used)]
use super::*;
use crate::Config;

fn options(text: &str) -> Options {
    let config = Config::parse(&format!("{{\"conversation\": true, {text}}}")).unwrap();
    Options::clone(config.conversation.as_ref().unwrap())
}

#[test]
fn what_is_in_force_is_read_as_the_same() {
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
    json::members(&told, |key, _| names.push(json::string(key).unwrap().into_owned())).unwrap();
    for name in NAMES.split(", ") {
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
