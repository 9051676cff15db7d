//! Answers to questions whose store failed: whose they are and what is stored of them is as the question said.

use keepline_filter::{Effect, Filter};
use serde_json::{Value, json};

use crate::conversation::{STORED, UNASKED, ask, attached, entry, filter, messages, reply, s, say, transcript};
use crate::test_host::TestHost;

/// The turn of a question that got nothing.
fn failed(host: &TestHost, filter: &Filter<&TestHost>, text: &str, metadata: &Value) -> String {
    host.fail("timed-out");
    let asked = ask(filter, text, metadata);
    assert_eq!((asked.effect, messages(&asked).len()), (Effect::Failed, 0));
    host.works();
    asked.turn
}

#[test]
fn answers_to_failed_questions_of_another_user_are_refused() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let of = |user: &str| json!({"session_id": "s", "user_id": user});
    reply(&filter, "1", "one", &ask(&filter, "1", &of("anna")).turn);
    let turn = failed(&host, &filter, "2", &of("eve"));
    assert_eq!(reply(&filter, "2", "two", &turn).effect, Effect::Foreign);
    let turn = failed(&host, &filter, "3", &of("anna"));
    assert_eq!(reply(&filter, "3", "three", &turn).effect, STORED);
    let said = messages(&ask(&filter, "?", &of("anna")));
    assert_eq!(said, ["user: 1", "assistant: one", "user: 3", "assistant: three"]);
}

#[test]
fn an_answer_to_a_failed_question_gives_a_new_session_its_owner() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = failed(&host, &filter, "1", &json!({"session_id": "s", "user_id": "anna"}));
    assert_eq!(reply(&filter, "1", "one", &turn).effect, STORED);
    assert_eq!(entry(&host, "session", "owner").unwrap(), "anna");
    assert!(host.bucket("User/anna").maps["sessions"].contains_key("s"));
}

#[test]
fn answers_to_failed_questions_of_a_node_are_stored_in_the_node() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let node = json!({"session_id": "s", "memory_mode": "node", "node_id": "n", "app_id": "a"});
    let turn = failed(&host, &filter, "1", &node);
    assert_eq!(reply(&filter, "1", "one", &turn).effect, STORED);
    assert!(transcript(&host, "s").is_empty());
    assert_eq!(messages(&ask(&filter, "2", &node)), ["user: 1", "assistant: one"]);
}

#[test]
fn answers_to_failed_questions_follow_the_questions_directives() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let unwritten = json!({"session_id": "s", "memory": {"write": false}});
    let turn = failed(&host, &filter, "secret", &unwritten);
    assert_eq!(reply(&filter, "secret", "one", &turn).effect, STORED);
    assert_eq!(messages(&ask(&filter, "?", &s())), [UNASKED, "assistant: one"]);

    let named = json!({"session_id": "t", "message_id": "m1", "files": [{"id": "f"}]});
    for effect in [STORED, Effect::Repeated] {
        host.pass(1);
        let turn = failed(&host, &filter, "2", &named);
        assert_eq!(reply(&filter, "2", "two", &turn).effect, effect);
    }
    let records = transcript(&host, "t");
    assert_eq!((records.len(), &records[0]["id"], &records[0]["files"]), (2, &json!("m1"), &json!([{"id": "f"}])));
}

#[test]
fn answers_to_failed_questions_keep_the_thread_weight_exact() {
    let host = TestHost::new();
    let filter = filter(&host, r#""memory_trace": true"#);
    for number in 0..3 {
        let question = format!("question {number}");
        reply(&filter, &question, "answer", &ask(&filter, &question, &s()).turn);
    }
    let turn = failed(&host, &filter, "question 3", &s());
    reply(&filter, "question 3", "answer", &turn);
    let trace = attached(&ask(&filter, "?", &s()), "memory_trace");
    let turns = trace["turns"].as_array().unwrap();
    let weight: u64 = turns.iter().map(|turn| turn["tokens"].as_u64().unwrap()).sum();
    assert_eq!((turns.len(), trace["thread_tokens"].as_u64().unwrap()), (4, weight), "{trace}");
}

#[test]
fn answers_to_failed_questions_follow_the_questions_parent_message() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    crate::conversation::turn(&filter, "1", None);
    crate::conversation::turn(&filter, "2", None);
    let branch = json!({"session_id": "s", "message_id": "q3", "parent_message_id": "a1"});
    let turn = failed(&host, &filter, "question 3", &branch);
    let answer = json!({"message_id": "a3"});
    assert_eq!(say(&filter, "question 3", "answer 3", &turn, &answer).effect, STORED);
    let after = json!({"session_id": "s", "parent_message_id": "a3"});
    let said = messages(&ask(&filter, "?", &after));
    assert_eq!(said, ["user: question 1", "assistant: answer 1", "user: question 3", "assistant: answer 3"]);
}

#[test]
fn answers_are_not_stored_if_a_required_node_is_missing() {
    let host = TestHost::new();
    let filter = filter(&host, r#""require_node": true"#);
    let fails = |metadata: Value| {
        let asked = ask(&filter, "1", &metadata);
        assert_eq!((asked.effect, &*asked.turn), (Effect::Failed, ""), "{metadata}");
        assert_eq!(asked.problem.unwrap().code, "no-node");
        assert_eq!(reply(&filter, "1", "one", "").effect, Effect::Passed);
    };
    fails(json!({"session_id": "s", "memory_mode": "node"}));
    // An id that is no text could be any.
    fails(json!({"session_id": "s", "memory_mode": "node", "node_id": 5}));
    fails(json!({"session_id": "s", "memory_mode": "node", "node_id": "n", "app_id": 5}));
    fails(json!({"memory_mode": "node", "node_id": "n"}));
    assert_eq!(say(&filter, "1", "one", "", &json!({"memory_mode": "node"})).effect, Effect::Failed);
    assert!(host.names().is_empty());
    // Conversations need none.
    assert_eq!(reply(&filter, "1", "one", &ask(&filter, "1", &s()).turn).effect, STORED);
}
