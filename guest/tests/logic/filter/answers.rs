//! Storing answers: limits, broken parts of a session, failures of the store.

use keepline_filter::Effect;
use keepline_filter::contract::FailureCode;

use super::{S, filter};
use crate::test_host::TestHost;

#[test]
fn an_answer_over_its_limit_is_neither_stored_nor_counted() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"max_value_bytes":10}"#);
    assert_eq!(filter.answer("12345678", S, "").effect, Effect::Stored);
    host.lines();
    // Nine bytes, and nine when escaped.
    for text in ["123456789", "1234567\""] {
        let answer = filter.answer(text, S, "");
        assert_eq!(answer.effect, Effect::Limited);
        assert_eq!(answer.problem.unwrap().code, "limit");
    }
    assert_eq!(host.get("s", "answer_count").unwrap(), "1");
    assert_eq!(host.lines(), ["Warn keepline.limit Answer in session s is over max_value_bytes (10)"; 2]);
}

#[test]
fn answers_never_push_a_session_over_max_keys() {
    let host = TestHost::new();
    host.set("s", "a", "1");
    host.set("s", "b", "1");
    let three = filter(&host, r#"{"max_keys":3}"#);
    let answer = three.answer("x", S, "");
    assert_eq!(answer.effect, Effect::Limited);
    assert!(answer.problem.unwrap().message.contains("max_keys (3)"));
    assert_eq!(three.question("q", S).effect, Effect::Enriched);
    let four = filter(&host, r#"{"max_keys":4}"#);
    assert_eq!(four.answer("x", S, "").effect, Effect::Stored);
    assert_eq!(four.answer("y", S, "").effect, Effect::Stored);
    assert_eq!(four.question("q", S).attached, 4);

    // Room for what is missing is enough.
    host.set("t", "a", "1");
    host.set("t", "last_answer", "1");
    assert_eq!(three.answer("x", r#"{"session_id":"t"}"#, "").effect, Effect::Stored);
    assert_eq!(three.question("q", r#"{"session_id":"t"}"#).attached, 3);
}

#[test]
fn too_many_sessions_are_reported_in_the_originals_words() {
    let host = TestHost::with_room_for(0);
    let filter = filter(&host, "{}");
    for problem in [filter.question("q", S).problem, filter.answer("a", S, "").problem] {
        let problem = problem.unwrap();
        assert_eq!(problem.code, "too-many-buckets");
        assert_eq!(problem.message, "Maximum sessions (0) reached");
    }
    assert_eq!(host.lines().len(), 2);
}

#[test]
fn a_failed_answer_warns_once_and_changes_nothing() {
    let host = TestHost::new();
    host.set("s", "answer_count", "7");
    for code in [FailureCode::Full, FailureCode::TimedOut, FailureCode::WrongType] {
        host.fail(code);
        host.fails.borrow_mut().as_mut().unwrap().subject = "__meta__".into();
        let answer = filter(&host, "{}").answer("a", S, "");
        assert_eq!(answer.effect, Effect::Failed);
        assert_eq!(answer.problem.unwrap().code, code.as_str());
        assert_eq!(host.get("s", "last_answer"), None);
        assert_eq!(host.lines(), ["Warn keepline.store Answer not stored in session s: It broke"]);
    }
    assert_eq!(host.transactions.get(), 3);
}

#[test]
fn an_answer_is_stored_without_the_broken_parts_of_its_session() {
    let put = r#"{"op": "put", "key": "last_answer", "timestamp": 1795186917.032595}"#;
    let increment = r#"{"op": "increment", "key": "answer_count", "timestamp": 1795186917.032595}"#;
    // The count before, what is of a wrong type, and what is stored then: the text, the count, history.
    type Case<'a> = (&'a str, &'a [&'a str], Option<&'a str>, Option<&'a str>, &'a [&'a str]);
    let cases: [Case<'_>; 6] = [
        ("\"seven\"", &[], Some("\"a\""), Some("\"seven\""), &[put]),
        ("9223372036854775807", &[], Some("\"a\""), Some("9223372036854775807"), &[put]),
        ("7", &["answer_count"], Some("\"a\""), Some("7"), &[put]),
        ("7", &["last_answer"], None, Some("8"), &[increment]),
        ("7", &["history"], Some("\"a\""), Some("8"), &[]),
        ("x", &["history"], Some("\"a\""), Some("x"), &[]),
    ];
    for (count, spoilt, text, counted, history) in cases {
        let host = TestHost::new();
        host.set("s", "answer_count", count);
        spoilt.iter().for_each(|name| host.spoil(name));
        let answer = filter(&host, r#"{"max_history":1}"#).answer("a", S, "");
        assert_eq!(answer.effect, Effect::Stored, "{count} {spoilt:?}");
        let problem = answer.problem.unwrap();
        let broken = spoilt.first().unwrap_or(&"answer_count");
        assert_eq!((&*problem.code, &*problem.subject), ("broken", *broken));
        assert_eq!(host.get("s", "last_answer").as_deref(), text);
        assert_eq!(host.get("s", "answer_count").as_deref(), counted);
        assert_eq!(host.history("s").len(), history.len());
        let lines = host.lines();
        assert_eq!(lines[0], format!("Warn keepline.value {}", problem.message));
        assert!(
            problem.message.starts_with(&format!("Answer in session s stored without {broken}: ")),
            "{}",
            problem.message
        );
        assert_eq!(count == "x", problem.message.contains("; without answer_count: its value is no counter"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(history.is_empty() || host.transactions.get() <= 3);
    }
    // With neither text nor count there is nothing to store.
    let host = TestHost::new();
    host.set("s", "answer_count", "7");
    ["answer_count", "last_answer"].iter().for_each(|name| host.spoil(name));
    let answer = filter(&host, "{}").answer("a", S, "");
    assert_eq!((answer.effect, &*answer.problem.unwrap().code), (Effect::Failed, "wrong-type"));
    assert_eq!(host.history("s").len(), 0);
    assert_eq!(host.lines().len(), 1);
}

#[test]
fn a_session_has_the_configured_time_to_live() {
    let host = TestHost::new();
    filter(&host, r#"{"session_ttl_hours":0.001,"session_ttl_mode":"sliding"}"#).question("q", S);
    let life = host.bucket("s").time_to_live.unwrap();
    assert_eq!((life.milliseconds, life.sliding), (3600, true));
    filter(&host, "{}").answer("q", r#"{"session_id":"t"}"#, "");
    assert_eq!(host.bucket("t").time_to_live, None);
}
