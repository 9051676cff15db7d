#![allow(clippy::unwrap_used)]
use super::*;

#[test]
fn absent_and_null_options_have_their_defaults() {
    assert_eq!(Config::parse("{}").unwrap(), Config::default());
    let nulls = OPTIONS.split(", ").map(|name| format!("\"{name}\":null")).collect::<Vec<_>>().join(",");
    assert_eq!(Config::parse(&format!("{{{nulls}}}")).unwrap(), Config::default());
}

#[test]
fn all_options_are_read_and_told() {
    let text = r#"{"session_ttl_hours": 0.5, "session_ttl_mode": "sliding", "max_history": 100.0,
        "auto_summarize": false, "memory_enabled": false, "unbound_context": "strip", "session_ids": "hash",
        "max_value_bytes": 1e3,
        "max_context_bytes": 7, "max_keys": 3}"#;
    let config = Config::parse(text).unwrap();
    assert_eq!(
        config,
        Config {
            session_ttl_hours: 0.5,
            session_ttl_mode: TtlMode::Sliding,
            max_history: 100,
            auto_summarize: false,
            memory_enabled: false,
            unbound_context: UnboundContext::Strip,
            session_ids: SessionIds::Hash,
            max_value_bytes: 1000,
            max_context_bytes: 7,
            max_keys: 3,
            conversation: None,
        }
    );
    assert_eq!(Config::parse(&config.effective()).unwrap(), config);
    assert_eq!(
        Config::default().effective(),
        r#"{"session_ttl_hours": 0, "session_ttl_mode": "fixed", "max_history": 100, "auto_summarize": true, "unbound_context": "keep", "session_ids": "strict", "max_value_bytes": 1048576, "max_context_bytes": 2097152, "max_keys": 1000}"#
    );
}

#[test]
fn mistakes_name_the_field_what_was_given_and_what_is_allowed() {
    let cases = [
        (r#"{"auto_summarize": "false"}"#, "auto_summarize", "\"false\"", "true or false"),
        (r#"{"auto_summarize": 0}"#, "auto_summarize", "0", "true or false"),
        (r#"{"max_history": 1.5}"#, "max_history", "1.5", "0 to 1000000"),
        (r#"{"max_history": -1}"#, "max_history", "-1", "0 to 1000000"),
        (r#"{"max_history": "100"}"#, "max_history", "\"100\"", "an integer"),
        (r#"{"max_history": 1e999}"#, "max_history", "1e999", "an integer"),
        (r#"{"max_history": NaN}"#, "max_history", "NaN", "an integer"),
        (r#"{"session_ttl_hours": Infinity}"#, "session_ttl_hours", "Infinity", "876000"),
        (r#"{"max_keys": 0}"#, "max_keys", "0", "2 to 10000"),
        (r#"{"session_ttl_hours": -0.1}"#, "session_ttl_hours", "-0.1", "876000"),
        (r#"{"session_ttl_hours": true}"#, "session_ttl_hours", "true", "a number"),
        (r#"{"session_ttl_mode": "Fixed"}"#, "session_ttl_mode", "\"Fixed\"", "\"sliding\""),
        (r#"{"unbound_context": []}"#, "unbound_context", "[]", "\"keep\""),
        (r#"{"session_ids": "any"}"#, "session_ids", "\"any\"", "\"strict\" or \"hash\""),
        (r#"{"redis_host": "x"}"#, "redis_host", "redis_host", "max_keys"),
    ];
    for (text, field, given, allowed) in cases {
        let problem = Config::parse(text).unwrap_err();
        assert_eq!(problem.field, field);
        assert!(problem.message.contains(given), "{}", problem.message);
        assert!(problem.message.contains(allowed), "{}", problem.message);
    }
    for text in ["", "[]", "null", "{", "{\"max_keys\":nan}"] {
        assert_eq!(Config::parse(text).unwrap_err().field, "");
    }
}

#[test]
fn by_default_the_longest_answer_fits_into_what_is_attached() {
    for value in ["1", "1000000", "2097152", "8388608"] {
        for null in ["", r#", "max_context_bytes": null"#] {
            let config = Config::parse(&format!("{{\"max_value_bytes\": {value}{null}}}")).unwrap();
            let whole = "last_answer".len() + "answer_count".len() + "-9223372036854775808".len();
            assert!(config.max_context_bytes >= config.max_value_bytes + whole as u64, "{value}");
            assert_eq!(Config::parse(&config.effective()).unwrap(), config);
        }
    }
    let config = Config::parse(r#"{"max_context_bytes": 7, "max_value_bytes": 9}"#).unwrap();
    assert_eq!(config.max_context_bytes, 7);
}

#[test]
fn hours_are_told_as_they_are_read() {
    for (given, told) in [
        ("24", "24"),
        ("0.1", "0.1"),
        ("1.01", "1.01"),
        ("-0", "0"),
        ("1e-7", "0.0000001"),
        ("1e-300", "0.000000001"),
        ("0.30000000000000004", "0.3"),
        ("876000", "876000"),
        ("875999.123456789", "875999.123456789"),
        ("0.000277777777777", "0.000277778"),
    ] {
        let config = Config::parse(&format!("{{\"session_ttl_hours\":{given}}}")).unwrap();
        assert!(
            config.effective().starts_with(&format!("{{\"session_ttl_hours\": {told}, ")),
            "{}",
            config.effective()
        );
        assert_eq!(Config::parse(&config.effective()).unwrap(), config);
    }
}

#[test]
fn a_life_is_never_shorter_than_a_millisecond() {
    let hours = |hours| Config { session_ttl_hours: hours, ..Config::default() }.time_to_live();
    assert_eq!(hours(0.0), None);
    assert_eq!(hours(1e-12).unwrap().milliseconds, 1);
    assert_eq!(hours(24.0).unwrap().milliseconds, 86_400_000);
    assert!(!hours(1.0).unwrap().sliding);
}
