//! Properties that hold for any input.

use keepline_filter::values::history_summary::summarize_history;
use keepline_filter::{Config, Effect};
use proptest::prelude::*;
use serde_json::Value;

use crate::filter::Filter;
use crate::test_host::TestHost;

/// JSON with the names that matter in it, now and then.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 4.0)),
        ".{0,12}".prop_map(Value::from),
        "[a-z-]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let name = prop_oneof![
            Just("session_id".to_owned()),
            Just("memory_context".to_owned()),
            Just("op".to_owned()),
            Just("summarized_count".to_owned()),
            Just("op_counts".to_owned()),
            ".{0,4}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..5).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,60}",
        r#"[{}\[\]":, \\u0-9a-z_\n]{0,60}"#,
        json().prop_map(|value| value.to_string()),
        json().prop_map(|value| serde_json::to_string_pretty(&value).unwrap()),
        (json(), 0..40_usize).prop_map(|(value, at)| {
            let text = value.to_string();
            text.chars().take(at).collect()
        }),
        ".{0,20}".prop_map(|id| serde_json::json!({ "session_id": id, "memory_context": 1 }).to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_entries_are_answered(metadata in text(), options in text(), turn in text(), said in text()) {
        let host = TestHost::new();
        let config = Config::parse(&options).unwrap_or_default();
        let filter = Filter::new(&host, config);
        filter.question(&said, &metadata);
        filter.answer(&said, &metadata, &turn);
        filter.answer(&said, &metadata, &format!("k1:{turn}"));
        filter.question(&said, &metadata);
    }

    #[test]
    fn metadata_without_a_session_passes_unchanged(metadata in text()) {
        let host = TestHost::new();
        let parsed: Option<Value> = serde_json::from_str(&metadata).ok();
        let session = parsed.as_ref().and_then(|value| value.get("session_id")).and_then(Value::as_str);
        let reply = Filter::new(&host, Config::default()).question("", &metadata);
        if session.is_none_or(str::is_empty) {
            prop_assert_eq!(&reply.metadata, &None);
            prop_assert_eq!(host.transactions.get(), 0);
        }
    }

    #[test]
    fn enrichment_changes_the_context_and_nothing_else(mut value in json(), pretty: bool) {
        let host = TestHost::new();
        host.set("s", "k", "[1]");
        if let Some(object) = value.as_object_mut() {
            object.insert("session_id".into(), "s".into());
        }
        let before = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let reply = Filter::new(&host, Config::default()).question("", &before);
        if let Some(object) = value.as_object_mut() {
            prop_assert_eq!(reply.effect, Effect::Enriched);
            object.insert("memory_context".into(), serde_json::json!({"k": [1]}));
            let after: Value = serde_json::from_str(&reply.metadata.unwrap()).unwrap();
            prop_assert_eq!(after, value);
        }
    }

    #[test]
    fn answers_are_stored_as_they_were_said(said in "\\PC{0,40}|.{0,40}|[\\x00-\\x7f]{0,40}") {
        let host = TestHost::new();
        Filter::new(&host, Config::default()).answer(&said, r#"{"session_id":"s"}"#, "");
        let stored: String = serde_json::from_str(&host.get("s", "last_answer").unwrap()).unwrap();
        prop_assert_eq!(stored, said);
    }

    #[test]
    fn summaries_of_summaries_add_up(
        records in prop::collection::vec(prop_oneof![
            json().prop_map(|value| value.to_string()),
            ("[a-z]{1,2}", "[a-z]{0,3}").prop_map(|(op, key)| serde_json::json!({"op": op, "key": key}).to_string()),
            any::<[i64; 2]>().prop_map(|[count, op]| serde_json::json!({
                "op": "summary", "summarized_count": count, "op_counts": {"put": op, "x": -1, "y": 1e300}
            }).to_string()),
            ".{0,9}",
        ], 1..60),
        at in 0..60_usize,
    ) {
        let at = at.min(records.len() - 1);
        let whole = read(&summarize_history(&records, "1.0"));
        let mut halves = vec![summarize_history(&records[..at], "1.0")];
        halves.extend_from_slice(&records[at..]);
        let halves = read(&summarize_history(&halves, "1.0"));
        prop_assert_eq!(&whole["summarized_count"], &halves["summarized_count"]);
        let sum: u64 = whole["op_counts"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        let count = whole["summarized_count"].as_u64().unwrap();
        prop_assert!(sum == count || count == (1 << 53) - 1, "{whole}");
    }
}

fn read(summary: &str) -> Value {
    serde_json::from_str(summary).unwrap()
}
