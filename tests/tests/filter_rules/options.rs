//! A wrong option is refused by name; the effective options are reported.

use std::sync::Arc;

use keepline::{
    KeeplineError,
    store::{MemoryStore, Store},
};
use keepline_tests::lanes::Node;
use serde_json::{Value, json};

#[tokio::test]
async fn a_wrong_option_is_refused_with_its_name_and_the_allowed_values() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    for (options, field, words) in [
        (r#"{"max_histroy": 5}"#, "max_histroy", "Unknown option 'max_histroy'; there are session_ttl_hours, "),
        (r#"{"redis_password": "x"}"#, "redis_password", "Unknown option 'redis_password'"),
        (r#"{"auto_summarize": "false"}"#, "auto_summarize", "auto_summarize must be true or false, not \"false\""),
        (r#"{"auto_summarize": 0}"#, "auto_summarize", "auto_summarize must be true or false, not 0"),
        (r#"{"max_history": -1}"#, "max_history", "max_history must be an integer from 0 to 1000000, not -1"),
        (r#"{"max_history": 2.5}"#, "max_history", "not 2.5"),
        (r#"{"max_history": "100"}"#, "max_history", "not \"100\""),
        (r#"{"max_history": 1e300}"#, "max_history", "not 1e300"),
        (r#"{"session_ttl_hours": -1}"#, "session_ttl_hours", "a number from 0 (for ever) to 876000, not -1"),
        (r#"{"session_ttl_hours": 1e12}"#, "session_ttl_hours", "not 1e12"),
        (r#"{"session_ttl_hours": 1e999}"#, "session_ttl_hours", "not 1e999"),
        (r#"{"session_ttl_hours": "24"}"#, "session_ttl_hours", "not \"24\""),
        (r#"{"session_ttl_mode": "Sliding"}"#, "session_ttl_mode", "\"fixed\" or \"sliding\", not \"Sliding\""),
        (r#"{"unbound_context": true}"#, "unbound_context", "\"keep\" or \"strip\", not true"),
        (r#"{"max_value_bytes": 0}"#, "max_value_bytes", "an integer from 1 to 8388608, not 0"),
        (r#"{"max_context_bytes": 99999999999}"#, "max_context_bytes", "an integer from 1 to 8389632"),
        (r#"{"max_keys": 1}"#, "max_keys", "an integer from 2 to 10000, not 1"),
        (r#"{"max_keys": 9007199254740993}"#, "max_keys", "not 9007199254740993"),
        ("[]", "", "The configuration must be a JSON object, not []"),
        ("", "", "The configuration must be a JSON object"),
        ("{\"max_keys\": 5", "", "The configuration must be a JSON object"),
        ("null", "", "The configuration must be a JSON object, not null"),
    ] {
        let refused = Node::of(keepline_tests::lanes::plugin(), &store, options, |_| {}).await.err();
        match refused {
            Some(KeeplineError::Config { field: told, message }) => {
                assert_eq!(told, field, "{options}");
                assert!(message.contains(words), "{options}: {message}");
            }
            other => panic!("{options}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_effective_options_are_reported() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let node = Node::new(&store, r#"{"max_history": null, "max_keys": 7, "session_ttl_hours": 0.5}"#).await;
    let told: Value = serde_json::from_str(&node.keepline.filter_options()).unwrap();
    assert_eq!(
        told,
        json!({
            "session_ttl_hours": 0.5, "session_ttl_mode": "fixed", "max_history": 100, "auto_summarize": true, "memory_enabled": true,
            "unbound_context": "keep", "session_ids": "strict", "max_value_bytes": 1_048_576, "max_context_bytes": 2_097_152, "max_keys": 7,
            "conversation": false,
        })
    );
}
