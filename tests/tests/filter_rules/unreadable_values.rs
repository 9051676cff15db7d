//! Stored values that can't be read are skipped, reported and kept.

use keepline::{pipe::Effect, sessions::SessionErrorCode as Code};
use keepline_tests::{
    lanes::Node,
    on_every_store,
    requests::{create, entries, get, put},
};

use super::{Given, refusal};

async fn values_that_are_not_json_are_skipped_and_not_overwritten(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "x").await;
    node.log.take();
    given.apply("s1", create(), [put("nan", "NaN"), put("cut", "{\"a\": "), put("two", "1 2"), put("void", "")]).await;
    let passed = node.ask("s1").await;
    assert_eq!((passed.effect, passed.attached), (Effect::Enriched, 2));
    assert_eq!(
        passed.metadata.as_deref(),
        Some(r#"{"session_id":"s1","memory_context":{"answer_count":1,"last_answer":"x"}}"#)
    );
    assert_eq!(
        node.log.warnings(),
        [
            "plugin: keepline.value: Skipped 4 stored values of session s1 that strict JSON parsers refuse: 'cut', 'nan', 'two', 'void'"
        ]
    );

    assert_eq!(node.reply("y").await.effect, Effect::Stored);
    let keys = node.sessions.keys("s1").await.unwrap().keys;
    assert_eq!(keys, ["answer_count", "cut", "last_answer", "nan", "two", "void"]);
    let refused = node.sessions.get("s1", "cut").await.unwrap_err();
    assert_eq!(refused, refusal(Code::InvalidValue, "Stored value of key 'cut' is not valid JSON"));
    assert_eq!(given.apply_one("s1", get("cut")).await, entries(&[("cut", "{\"a\": ")]));

    // The operator can mend it.
    node.sessions.put("s1", "cut", "{}").await.unwrap();
    node.sessions.clear("s1", Some("nan")).await.unwrap();
    assert_eq!(node.ask("s1").await.attached, 3);
}

async fn a_session_with_only_unreadable_values_attaches_nothing(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let broken: Vec<_> = (0..20).map(|number| put(&format!("k{number:02}"), "'")).collect();
    given.apply("s1", create(), broken).await;
    let passed = node.question(r#"{"session_id":"s1","memory_context":1}"#).await;
    assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Resumed, Some(r#"{"session_id":"s1"}"#)));
    let warnings = node.log.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("plugin: keepline.value: Skipped 20 stored values"), "{warnings:?}");
    assert!(warnings[0].ends_with("'k07', …"), "{warnings:?}");
}

on_every_store! {
    values_that_are_not_json_are_skipped_and_not_overwritten,
    a_session_with_only_unreadable_values_attaches_nothing,
}
