//! Counts of what was cut or left out when it was stored, in the session and in the trace.

use crate::admin_calls as admin;
use keepline_filter::contract::FailureCode;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context, Effect};
use serde_json::{Value, json};

use super::{STORED, act, ask, attached, call, entry, filter, messages, reply, result, s, say};
use crate::test_host::TestHost;

fn trace(host: &TestHost, metadata: &Value) -> Value {
    attached(&ask(&filter(host, r#""memory_trace": true"#), "?", metadata), "memory_trace")
}

#[test]
fn skipped_answers_are_counted_by_their_reason() {
    let host = TestHost::new();
    let filter = filter(&host, r#""min_message_length": 3"#);
    let asked = ask(&filter, "?", &s());
    let waits = host.waits.get();
    for answer in [" \n", "", "[generation was interrupted]", "no"] {
        assert_eq!(reply(&filter, "?", answer, &asked.turn).effect, Effect::Skipped);
    }
    assert_eq!(host.waits.get(), waits + 4);
    // Whoever wants nothing written has nothing counted, either.
    let off = json!({"memory": {"write": false}});
    assert_eq!(say(&filter, "?", "Yes!", &asked.turn, &off).effect, Effect::Skipped);
    assert_eq!(host.waits.get(), waits + 4);
    let expected = json!({"blank": 2, "marker": 1, "too-short": 1});
    let told = trace(&host, &s());
    assert_eq!((&told["skipped"], &told["truncated"]), (&expected, &Value::Null));
    let look = json!({"session_id": "s", "memory": {"look": true}});
    assert_eq!(attached(&ask(&filter, "?", &look), "memory_trace")["skipped"], expected);
}

#[test]
fn texts_that_are_cut_are_counted_with_their_answer() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_message_length": 5"#);
    for (question, answer, count) in [("longer than that", "also too long", 2), ("short", "too long", 3)] {
        let turn = ask(&filter, question, &s()).turn;
        let waits = host.waits.get();
        assert_eq!(reply(&filter, question, answer, &turn).effect, STORED);
        assert_eq!(host.waits.get(), waits + 1);
        assert_eq!(trace(&host, &s())["truncated"], count);
    }
    reply(&filter, "?", " ", &ask(&filter, "?", &s()).turn);
    let told = trace(&host, &s());
    assert_eq!((&told["skipped"], &told["truncated"]), (&json!({"blank": 1}), &json!(3)));
    // They are about what was said, and go with it.
    let sessions = Context::new(&host, Config::default());
    admin::clear_messages(&sessions, &TranscriptId { session: "s", ..TranscriptId::default() }, None).unwrap();
    let told = trace(&host, &s());
    assert_eq!((&told["skipped"], &told["truncated"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_answer_that_is_too_long_for_a_value_is_stored_as_a_message_that_is_cut() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_message_length": 5"#);
    reply(&filter, "1", "one", &ask(&filter, "1", &s()).turn);
    let most = (1 << 20) - 2;
    for (length, is_value, count) in [(most, true, "2"), (most + 1, false, "3"), (3 << 20, false, "4")] {
        host.lines();
        let turn = ask(&filter, "2", &s()).turn;
        let waits = host.waits.get();
        let activity = [call("c", "look", "{}"), result("c", "look", "kept")];
        let stored = act(&filter, "2", &"x".repeat(length), &turn, &activity);
        assert_eq!((stored.effect, host.waits.get()), (STORED, waits + 1));
        let told = stored.problem.map(|problem| (problem.code, problem.message));
        let message = "Answer in session s stored without last_answer: it is over max_value_bytes";
        assert_eq!(told, (!is_value).then(|| ("limit".to_owned(), message.to_owned())));
        assert_eq!(host.lines().iter().any(|line| line.contains(message)), !is_value);
        let said = messages(&ask(&filter, "?", &s()));
        assert_eq!(said[said.len() - 4..], ["user: 2", "assistant: null", "tool: kept", "assistant: xxxxx"]);
        assert_eq!(host.get("s", "answer_count").as_deref(), Some(count));
        // The last one that could be a value stays.
        assert_eq!(host.get("s", "last_answer").unwrap().len(), most + 2);
    }
    assert_eq!(host.history("s").len(), 6);
}

#[test]
fn an_answer_stored_in_full_writes_no_omission_counts() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    reply(&filter, "?", "!", &ask(&filter, "?", &s()).turn);
    let told = trace(&host, &s());
    assert!(told["budget"].is_u64() && told.get("skipped").is_none() && told.get("truncated").is_none(), "{told}");
    for counter in ["skipped-blank", "truncated"] {
        assert_eq!(entry(&host, "session", counter), None);
    }
}

#[test]
fn a_skipped_answer_creates_no_session_and_is_counted_only_in_its_own() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    assert_eq!(say(&filter, "", " ", "", &s()).effect, Effect::Skipped);
    assert!(host.names().is_empty());

    let asked = ask(&filter, "?", &s());
    host.end("s");
    let anna = json!({"session_id": "s", "user_id": "anna"});
    say(&filter, "?", "!", &ask(&filter, "?", &anna).turn, &anna);
    reply(&filter, "?", " ", &asked.turn);
    say(&filter, "", " ", "", &json!({"session_id": "s", "user_id": "ben"}));
    assert_eq!(entry(&host, "session", "skipped-blank"), None);
    say(&filter, "", " ", "", &anna);
    assert_eq!(entry(&host, "session", "skipped-blank").unwrap(), "1");
}

#[test]
fn a_count_that_fails_changes_nothing_and_is_reported() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "?", &s()).turn;
    host.fail(FailureCode::Unavailable);
    host.lines();
    let skipped = reply(&filter, "?", " ", &turn);
    assert_eq!((skipped.effect, &*skipped.problem.unwrap().code), (Effect::Skipped, "blank"));
    assert!(host.lines()[0].contains("Skipped answer not counted in session s: "), "{:?}", host.lines());
}
