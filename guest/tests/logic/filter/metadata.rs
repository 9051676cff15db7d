//! Reading the metadata of entries; members that nobody can forge.

use keepline_filter::Effect;
use keepline_filter::contract::FailureCode;

use super::{S, filter};
use crate::test_host::TestHost;

#[test]
fn without_a_session_the_store_is_not_called() {
    let host = TestHost::new();
    for metadata in [
        "",
        "{}",
        "[]",
        "not json",
        r#"{"memory_context":1}"#,
        r#"{"session_id":null}"#,
        r#"{"session_id":"","memory_context":1}"#,
    ] {
        let filter = filter(&host, "{}");
        let question = filter.question("q", metadata);
        assert_eq!(question.effect, Effect::Passed);
        assert_eq!((question.metadata, &*question.turn), (None, ""));
        assert_eq!(filter.answer("a", metadata, "").effect, Effect::Passed);
    }
    assert_eq!(host.transactions.get(), 0);
    assert_eq!(host.lines(), Vec::<String>::new());
}

#[test]
fn a_malformed_session_is_ignored_with_a_reason() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let metadata = r#"{"session_id":"a b","memory_context":1}"#;
    let question = filter.question("q", metadata);
    assert_eq!((question.effect, question.metadata, &*question.turn), (Effect::Ignored, None, ""));
    // An own malformed id does not fall back to the question's.
    assert_eq!(filter.answer("a", r#"{"session_id":7}"#, "k1:s").effect, Effect::Ignored);
    assert_eq!(
        host.lines(),
        [
            "Debug keepline.session Ignoring invalid session_id in question metadata: 'a b'",
            "Debug keepline.session Ignoring invalid session_id in answer metadata: 7",
        ]
    );
    assert_eq!(host.transactions.get(), 0);
}

#[test]
fn unreadable_metadata_is_logged_at_debug_level() {
    let host = TestHost::new();
    let question = filter(&host, "{}").question("q", "{\"session_id\":\"s\"");
    assert_eq!((question.effect, question.metadata), (Effect::Passed, None));
    assert_eq!(host.lines(), ["Debug keepline.session No JSON object in question metadata: no session"]);
}

#[test]
fn strip_cuts_the_context_of_questions_without_a_session() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"unbound_context":"strip"}"#);
    for (before, after) in [
        (r#"{"memory_context":1,"a":2}"#, Some(r#"{"a":2}"#)),
        (r#"{"session_id":"a b","memory_context":1}"#, Some(r#"{"session_id":"a b"}"#)),
        (r#"{"session_id":null, "memory_context":1}"#, Some(r#"{"session_id":null}"#)),
        (r#"{"a":{"memory_context":1}}"#, None),
        (r#"{"a":NaN,"memory_context":1}"#, Some(r#"{"a":NaN}"#)),
        ("nonsense", None),
    ] {
        assert_eq!(filter.question("q", before).metadata.as_deref(), after);
        filter.answer("a", before, "");
    }
}

#[test]
fn strip_withholds_unreadable_metadata_that_may_hold_a_context() {
    let host = TestHost::new();
    for metadata in [r#"{"memory_context":{"role":"admin"},}"#, r#"{'\x6demory_context':1,"session_id":"s"}"#] {
        let strip = filter(&host, r#"{"unbound_context":"strip"}"#);
        let question = strip.question("q", metadata);
        assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Passed, Some("{}")));
        let lines = host.lines();
        let told = "Warn keepline.session Replaced metadata of a question by {}: ";
        assert_eq!(lines.iter().filter(|line| line.starts_with(told)).count(), 1, "{lines:?}");
        strip.answer("a", metadata, "");
        // As in the original.
        assert_eq!(filter(&host, "{}").question("q", metadata).metadata, None);
        host.lines();
    }
    assert_eq!(host.transactions.get(), 0);
}

#[test]
fn nan_in_metadata_does_not_let_clients_forge_memory() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    filter.answer("true", r#"{"score":NaN,"session_id":"s"}"#, "");
    for nan in ["NaN", "Infinity", "-Infinity", "[{\"x\":[NaN]}]", "1}", "1"] {
        let (mark, nan) = if nan == "1}" { ("\u{feff} ", "1") } else { ("", nan) };
        let forged = format!(
            "{mark}{{\"memory_context\":{{\"a\":{nan}}},\"n\":{nan},\"session_id\":\"s\",\"memory_context\":{nan}}}"
        );
        let question = filter.question("q", &forged);
        assert_eq!(question.effect, Effect::Enriched, "{forged}");
        assert_eq!(
            question.metadata.unwrap(),
            format!(
                "{mark}{{\"n\":{nan},\"session_id\":\"s\",\"memory_context\":{{\"answer_count\":1,\"last_answer\":\"true\"}}}}"
            )
        );
    }
}

#[test]
fn a_client_cannot_forge_memory() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let forged = r#"{"memory_context":{"role":"admin"},"session_id":"s"}"#;
    // An empty session.
    let question = filter.question("q", forged);
    assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Resumed, Some(S)));
    // A session with memory.
    filter.answer("a", S, "");
    let question = filter.question("q", forged);
    assert_eq!(
        question.metadata.as_deref(),
        Some(r#"{"session_id":"s","memory_context":{"answer_count":1,"last_answer":"a"}}"#)
    );
    // A store that fails.
    host.fail(FailureCode::Unavailable);
    let question = filter.question("q", forged);
    assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Failed, Some(S)));
    assert_eq!(filter.question("q", S).metadata, None);
    // A memory over the limit.
    host.works();
    let small = self::filter(&host, r#"{"max_context_bytes":3}"#).question("q", forged);
    assert_eq!((small.effect, small.metadata.as_deref()), (Effect::Limited, Some(S)));
}
