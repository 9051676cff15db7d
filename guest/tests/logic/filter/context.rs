//! Attaching values to questions: limits, broken parts of a session, failures of the store.

use keepline_filter::Effect;
use serde_json::{Value, json};

use super::{S, filter};
use crate::test_host::TestHost;

#[test]
fn a_memory_over_its_limit_attaches_the_smallest_values_that_fit() {
    let host = TestHost::new();
    host.set("s", "answer_count", "7");
    host.set("s", "last_answer", "\"text\"");
    host.set("s", "big", "1".repeat(60));
    for (key, size) in [("d", 9), ("c", 10), ("b", 30), ("a", 40)] {
        host.set("s", key, "1".repeat(size));
    }
    let own = r#""answer_count":7,"last_answer":"text""#;
    let (b, c, d) = ("1".repeat(30), "1".repeat(10), "1".repeat(9));
    for (limit, attached, left_out) in [
        // The own keys come to 13 and 17 bytes.
        (30, format!("{{{own}}}"), "5 keys: 'a', 'b', 'big', 'c', 'd'"),
        (39, format!("{{{own}}}"), "5 keys: 'a', 'b', 'big', 'c', 'd'"),
        (40, format!("{{{own},\"d\":{d}}}"), "4 keys: 'a', 'b', 'big', 'c'"),
        (51, format!("{{{own},\"c\":{c},\"d\":{d}}}"), "3 keys: 'a', 'b', 'big'"),
        // More than its share, and there is room.
        (82, format!("{{{own},\"b\":{b},\"c\":{c},\"d\":{d}}}"), "2 keys: 'a', 'big'"),
    ] {
        host.lines();
        let before = host.transactions.get();
        let filter = filter(&host, &format!("{{\"max_context_bytes\":{limit}}}"));
        let question = filter.question("q", r#"{"memory_context":"forged","session_id":"s"}"#);
        assert_eq!(question.effect, Effect::Enriched, "{limit}");
        let metadata: Value = serde_json::from_str(&question.metadata.unwrap()).unwrap();
        let attached: Value = serde_json::from_str(&attached).unwrap();
        assert_eq!(metadata, json!({"session_id": "s", "memory_context": attached}));
        assert_eq!(question.attached as usize, attached.as_object().unwrap().len());
        let problem = question.problem.unwrap();
        assert_eq!(problem.code, "limit");
        assert!(
            problem.message.ends_with(&format!("is over max_context_bytes ({limit}); left out {left_out}")),
            "{}",
            problem.message
        );
        let warnings: Vec<_> = host.lines().into_iter().filter(|line| line.starts_with("Warn")).collect();
        assert_eq!(warnings, [format!("Warn keepline.limit {}", problem.message)]);
        assert!(host.transactions.get() - before <= 4);
        // Its answers are stored in the life that it saw.
        assert_eq!(filter.answer("text", "{}", &question.turn).effect, Effect::Stored);
        host.set("s", "answer_count", "7");
    }
}

#[test]
fn values_that_strict_parsers_refuse_are_left_out_whole_and_reported() {
    let host = TestHost::new();
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for (key, text) in [
        ("deep", deep(200_000)),
        ("long", "7".repeat(5000)),
        ("half", r#"["\ud800"]"#.to_owned()),
        ("inside", format!(r#"{{"a":[1,{{"b":-0.{}}}]}}"#, "3".repeat(200))),
        ("good", deep(100)),
        ("number", "1234567890123456789".to_owned()),
        ("pair", r#""\ud83d\ude00""#.to_owned()),
        ("point", "1.0".to_owned()),
    ] {
        host.set("s", key, text);
    }
    let question = filter(&host, "{}").question("q", S);
    assert_eq!(question.effect, Effect::Enriched);
    let metadata = question.metadata.unwrap();
    let expected = format!(
        r#""memory_context":{{"good":{},"number":1234567890123456789,"pair":"\ud83d\ude00","point":1.0}}"#,
        deep(100)
    );
    assert!(metadata.contains(&expected), "{metadata}");
    let told = "Warn keepline.value Skipped 4 stored values of session s that strict JSON parsers refuse: 'deep', 'half', 'inside', 'long'";
    let lines = host.lines();
    assert!(lines.iter().any(|line| line == told), "{lines:?}");
}

#[test]
fn an_answer_of_full_length_is_attached_whatever_else_there_is() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let longest = "x".repeat((1 << 20) - 2);
    assert_eq!(filter.answer(&longest, S, "").effect, Effect::Stored);
    let question = filter.question("q", S);
    assert_eq!((question.effect, question.attached, question.problem), (Effect::Enriched, 2, None));
    host.set("s", "a", "1".repeat(1 << 20));
    host.set("s", "k", "1");
    let question = filter.question("q", S);
    assert_eq!((question.effect, question.attached), (Effect::Enriched, 3));
    assert!(question.problem.unwrap().message.ends_with("left out 1 keys: 'a'"));
    assert!(question.metadata.unwrap().contains(&longest));
}

#[test]
fn the_smallest_values_of_a_memory_over_max_keys_are_attached() {
    let host = TestHost::new();
    for (key, value) in [("a", "12345"), ("b", "1"), ("last_answer", "\"x\""), ("c", "123")] {
        host.set("s", key, value);
    }
    let filter = self::filter(&host, r#"{"max_keys":2}"#);
    let question = filter.question("q", S);
    assert_eq!(question.metadata.unwrap(), r#"{"session_id":"s","memory_context":{"b":1,"last_answer":"x"}}"#);
    assert_eq!(
        host.lines()[1],
        "Warn keepline.limit Memory of session s (4 keys) is over max_keys (2); left out 2 keys: 'a', 'c'"
    );
}

#[test]
fn a_memory_of_which_nothing_fits_is_left_out_with_one_warning() {
    let host = TestHost::new();
    host.set("s", "a", "12345");
    let question = filter(&host, r#"{"max_context_bytes":5}"#).question("q", S);
    assert_eq!((question.effect, question.attached, question.metadata), (Effect::Limited, 0, None));
    assert!(!question.turn.is_empty());
    assert_eq!(question.problem.unwrap().code, "limit");
    let told = "Warn keepline.limit Memory of session s is over max_context_bytes (5); left out 1 keys: 'a'";
    assert_eq!(host.lines(), [told]);
    assert_eq!(filter(&host, r#"{"max_context_bytes":6}"#).question("q", S).effect, Effect::Enriched);
}

#[test]
fn broken_values_of_a_memory_over_its_limit_are_left_out_alone() {
    let host = TestHost::new();
    for key in ["a", "b", "k\n", "last_answer", "list"] {
        host.set("s", key, "12345");
    }
    host.set("s", "bad", "{");
    host.set("s", "bytes", b"\xff".to_vec());
    host.set("s", "big", "1".repeat(100));
    host.spoil("list");
    host.spoil("last_answer");
    let question = filter(&host, r#"{"max_context_bytes":60}"#).question("q", S);
    assert_eq!(question.metadata.unwrap(), r#"{"session_id":"s","memory_context":{"a":12345,"b":12345}}"#);
    assert!(question.problem.unwrap().message.ends_with("; left out 1 keys: 'big'"));
    let told = "Warn keepline.value Skipped 4 stored values of session s that strict JSON parsers refuse: 'bytes', 'last_answer', 'list', 'bad'";
    assert!(host.lines().contains(&told.to_owned()));
}

#[test]
fn a_store_failure_while_an_oversized_memory_is_read_is_reported() {
    for at in [2, 3] {
        let host = TestHost::new();
        host.set("s", "a", "12345");
        host.before_each(move |host, n| {
            if n == at {
                host.fail("unavailable");
            }
        });
        let filter = filter(&host, r#"{"max_context_bytes":5}"#);
        let question = filter.question("q", r#"{"memory_context":1,"session_id":"s"}"#);
        assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Failed, Some(S)));
        assert_eq!(question.problem.unwrap().code, "unavailable");
        assert_eq!(host.lines(), ["Warn keepline.store No memory for a question of session s: It broke"]);
        // The life was seen all the same.
        assert_eq!(question.turn, "k1:s:life-1");
        // One that ends in the midst of it has nothing to tell.
        host.works();
        let last = host.transactions.get() + at;
        host.before_each(move |host, n| {
            if n == last {
                host.end("s");
            }
        });
        let question = filter.question("q", r#"{"memory_context":1,"session_id":"s"}"#);
        assert_eq!((question.effect, question.metadata.as_deref()), (Effect::Limited, Some(S)));
        assert!(host.names().is_empty());
    }
}

#[test]
fn values_that_are_not_json_are_skipped_once_and_kept() {
    let host = TestHost::new();
    host.set("s", "bad", "{oops");
    host.set("s", "bytes", b"\"\xff\"".to_vec());
    host.set("s", "nan", "NaN");
    host.set("s", "good", "[1,\r\n 2]\n");
    let question = filter(&host, "{}").question("q", S);
    assert_eq!(question.metadata.unwrap(), r#"{"session_id":"s","memory_context":{"good":[1,   2]}}"#);
    assert_eq!(question.attached, 1);
    let lines = host.lines();
    assert_eq!(
        lines[0],
        "Warn keepline.value Skipped 3 stored values of session s that strict JSON parsers refuse: 'bytes', 'bad', 'nan'"
    );
    assert_eq!(lines.len(), 2);
    assert_eq!(host.get("s", "bad").unwrap(), "{oops");
}

#[test]
fn stored_keys_with_invalid_names_are_not_attached() {
    let host = TestHost::new();
    host.set("s", "a\":1,\"b", "1");
    host.set("s", "__meta__", "1");
    let question = filter(&host, "{}").question("q", S);
    assert_eq!((question.effect, question.metadata), (Effect::Resumed, None));
    assert_eq!(host.lines().len(), 1);
}
