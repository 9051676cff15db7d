//! Whose a session is, and the transcripts of nodes.

use crate::admin_calls as admin;
use keepline_filter::contract::FailureCode;
use keepline_filter::{AnswerEntry, Effect};
use keepline_filter::{Config, Context};
use serde_json::{Value, json};

use super::{STORED, ask, attached, call, entry, filter, messages, reply, s, say, transcript};
use crate::test_host::TestHost;

fn of(user: &str) -> Value {
    json!({"session_id": "s", "user_id": user})
}

fn of_bucket(host: &TestHost, bucket: &str, map: &str, key: &str) -> Option<String> {
    host.entry(bucket, map, key)
}

fn put(host: &TestHost, bucket: &str, map: &str, key: &str, text: &str) {
    host.put(bucket, map, key, text);
}

#[test]
fn the_first_turn_gives_a_session_its_owner() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let asked = ask(&filter, "1", &of("anna"));
    assert_eq!((host.waits.get(), entry(&host, "session", "owner")), (1, None));
    assert_eq!(reply(&filter, "1", "one", &asked.turn).effect, STORED);
    assert_eq!(host.waits.get(), 3);
    assert_eq!(entry(&host, "session", "owner").unwrap(), "anna");
    assert_eq!(
        of_bucket(&host, "User/anna", "sessions", "s").unwrap(),
        r#"{"incarnation":"life-1","at":1795186917.032595}"#
    );
    // From then on it is one wait again.
    let asked = ask(&filter, "2", &of("anna"));
    assert_eq!(messages(&asked).len(), 2);
    reply(&filter, "2", "two", &asked.turn);
    assert_eq!(host.waits.get(), 5);
}

#[test]
fn an_entry_with_an_invalid_user_passes_without_memory() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "1", &of("anna")).turn;
    reply(&filter, "1", "one", &turn);
    host.lines();
    for user in [json!(7), json!(["bob"]), json!({}), json!(false), json!("x".repeat(1025))] {
        let metadata = json!({"session_id": "s", "user_id": user});
        let waits = host.waits.get();
        let asked = ask(&filter, "2", &metadata);
        assert_eq!((asked.effect, &*asked.turn, messages(&asked).len()), (Effect::Ignored, "k3:s", 0), "{user}");
        let problem = asked.problem.unwrap();
        assert_eq!((&*problem.code, &*problem.subject), ("invalid", "user_id"), "{user}");
        for turn in ["", &turn] {
            let told = say(&filter, "2", "two", turn, &metadata);
            assert_eq!((told.effect, &*told.problem.unwrap().subject), (Effect::Ignored, "user_id"), "{user}");
        }
        let tools = [call("c", "n", "{}")];
        let entry =
            AnswerEntry { metadata: &metadata.to_string(), turn: &turn, activity: &tools, ..AnswerEntry::default() };
        assert_eq!(filter.answer(&entry).effect, Effect::Ignored, "{user}");
        assert_eq!(host.waits.get(), waits);
        let lines = host.lines();
        let is_told = |line: &String| line.contains("of session s: its user_id is no text of at most 1,024 bytes");
        assert!(lines.len() == 4 && lines.iter().any(is_told), "{lines:?}");
    }
    assert_eq!(transcript(&host, "s").len(), 2);
    for user in [Value::Null, json!("")] {
        assert_eq!(messages(&ask(&filter, "2", &json!({"session_id": "s", "user_id": user}))).len(), 2);
    }
}

#[test]
fn another_users_entry_passes_without_memory() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    reply(&filter, "1", "one", &ask(&filter, "1", &of("anna")).turn);
    host.lines();
    let forged = json!({"session_id": "s", "user_id": "ben", "memory_messages": 1});
    let asked = ask(&filter, "2", &forged);
    assert_eq!((asked.effect, &*asked.turn), (Effect::Foreign, "k3:s"));
    assert_eq!(asked.metadata.unwrap(), r#"{"session_id":"s","user_id":"ben"}"#);
    assert!(host.lines()[0].contains("session s belongs to another user"));
    assert_eq!(say(&filter, "2", "two", "", &of("ben")).effect, Effect::Foreign);
    let anna = ask(&filter, "2", &of("anna")).turn;
    assert_eq!(say(&filter, "2", "two", &anna, &json!({"user_id": "ben"})).effect, Effect::Foreign);
    assert_eq!(transcript(&host, "s").len(), 2);
    // One that names nobody is a part of the pipeline.
    assert_eq!(messages(&ask(&filter, "2", &s())).len(), 2);
}

#[test]
fn of_two_first_users_one_becomes_the_owner() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let (anna, ben) = (ask(&filter, "1", &of("anna")), ask(&filter, "1", &of("ben")));
    assert_eq!(reply(&filter, "1", "for ben", &ben.turn).effect, STORED);
    assert_eq!(reply(&filter, "1", "for anna", &anna.turn).effect, Effect::Foreign);
    assert_eq!(entry(&host, "session", "owner").unwrap(), "ben");
    assert_eq!(ask(&filter, "2", &of("anna")).effect, Effect::Foreign);
}

#[test]
fn user_ids_that_are_not_valid_names_are_hashed() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    reply(&filter, "1", "one", &ask(&filter, "1", &of("anna@example.org")).turn);
    let owner = entry(&host, "session", "owner").unwrap();
    assert!(owner.starts_with("h-") && owner.len() == 54);
    assert_eq!(ask(&filter, "2", &of("anna@example.com")).effect, Effect::Foreign);
    assert_eq!(ask(&filter, "2", &of(&owner)).effect, Effect::Foreign);
}

#[test]
fn a_users_values_come_with_each_question_that_names_them() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    put(&host, "User/anna", "values", "language", "\"es\"");
    put(&host, "User/anna", "values", "last_answer", "\"not this one\"");
    let asked = ask(&filter, "1", &of("anna"));
    assert_eq!(attached(&asked, "memory_context")["language"], "es");
    assert_eq!(host.waits.get(), 1);
    reply(&filter, "1", "one", &asked.turn);
    let context = attached(&ask(&filter, "2", &of("anna")), "memory_context");
    assert_eq!(context, json!({"answer_count": 1, "language": "es", "last_answer": "one"}));
    assert_eq!(attached(&ask(&filter, "2", &s()), "memory_context")["language"], json!(null));
}

#[test]
fn late_answers_of_a_forgotten_user_are_refused_until_a_new_question() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let late = ask(&filter, "1", &of("anna"));
    put(&host, "User/anna", "user", "forgotten", "1795186900.5");
    assert_eq!(reply(&filter, "1", "one", &late.turn).effect, Effect::Ended);
    assert!(transcript(&host, "s").is_empty() && entry(&host, "session", "owner").is_none());
    assert_eq!(say(&filter, "1", "one", "", &of("anna")).effect, Effect::Ended);
    let back = ask(&filter, "2", &of("anna"));
    assert_eq!(reply(&filter, "2", "two", &back.turn).effect, STORED);
    // Forgotten once more, and the tombstone is another one.
    let late = ask(&filter, "3", &json!({"session_id": "t", "user_id": "anna"}));
    put(&host, "User/anna", "user", "forgotten", "1795186901.5");
    assert_eq!(reply(&filter, "3", "three", &late.turn).effect, Effect::Ended);
}

#[test]
fn an_answer_without_a_question_registers_its_session_first() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    assert_eq!(say(&filter, "1", "one", "", &of("anna")).effect, STORED);
    // The last one is for the title, once a session.
    assert_eq!((host.waits.get(), entry(&host, "session", "title").as_deref()), (4, Some("1")));
    assert_eq!(entry(&host, "session", "owner").unwrap(), "anna");
    assert_eq!(
        of_bucket(&host, "User/anna", "sessions", "s").unwrap(),
        r#"{"incarnation":"life-1","at":1795186917.032595}"#
    );
}

#[test]
fn an_unreadable_user_leaves_the_session_its_memory() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    reply(&filter, "1", "one", &ask(&filter, "1", &s()).turn);
    // Of the two, the user's is the second.
    let before = host.transactions.get();
    host.before_each(
        move |host, number| {
            if number == before + 2 { host.fail(FailureCode::Unavailable) } else { host.works() }
        },
    );
    let asked = ask(&filter, "2", &of("anna"));
    assert_eq!((asked.effect, messages(&asked).len()), (Effect::Enriched, 2));
    assert!(host.lines().iter().any(|line| line.contains("No values of the user")));
}

fn node(node: &str) -> Value {
    json!({"session_id": "s", "memory_mode": "node", "app_id": "app", "node_id": node})
}

#[test]
fn a_nodes_turns_are_its_own() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    reply(&filter, "1", "one", &ask(&filter, "1", &s()).turn);
    let asked = ask(&filter, "a", &node("llm"));
    assert_eq!(messages(&asked), Vec::<String>::new());
    // A loop inside one run keeps every turn.
    for answer in ["b", "c"] {
        let asked = ask(&filter, "a", &node("llm"));
        assert_eq!(reply(&filter, "a", answer, &asked.turn).effect, STORED);
    }
    assert_eq!(messages(&ask(&filter, "?", &node("llm"))), ["user: a", "assistant: b", "user: a", "assistant: c"]);
    assert_eq!(messages(&ask(&filter, "?", &node("other"))), Vec::<String>::new());
    assert_eq!(messages(&ask(&filter, "?", &s())), ["user: 1", "assistant: one"]);

    let buckets = host.buckets();
    let nodes: Vec<_> = buckets.keys().filter(|name| name.starts_with("Node/")).collect();
    assert_eq!(nodes.len(), 2);
    let listed = &buckets["s"].maps["nodes"];
    assert_eq!(listed.len(), 1, "only nodes with turns are listed");
    let (name, ids) = listed.first_key_value().unwrap();
    assert!(nodes.contains(&&format!("Node/{name}")));
    assert_eq!(serde_json::from_str::<Value>(ids).unwrap(), json!({"app_id": "app", "node_id": "llm"}));
    assert!(buckets[&format!("Node/{name}")].time_to_live.is_some_and(|life| life.sliding));
}

#[test]
fn a_nodes_owner_is_its_sessions() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let with = |user: &str| {
        let mut metadata = node("llm");
        metadata["user_id"] = user.into();
        metadata
    };
    let asked = ask(&filter, "a", &with("anna"));
    assert_eq!(reply(&filter, "a", "b", &asked.turn).effect, STORED);
    assert_eq!(entry(&host, "session", "owner").unwrap(), "anna");
    assert_eq!(ask(&filter, "a", &with("ben")).effect, Effect::Foreign);
    assert_eq!(say(&filter, "a", "b", "", &with("ben")).effect, Effect::Foreign);
    assert_eq!(ask(&filter, "a", &of("ben")).effect, Effect::Foreign);
    let buckets = host.buckets();
    let nodes = &buckets["User/anna"].maps["nodes"];
    assert_eq!(nodes.values().next().unwrap(), "s");
}

#[test]
fn node_mode_without_a_node_passes_or_fails_as_configured() {
    let host = TestHost::new();
    let metadata = json!({"session_id": "s", "memory_mode": "node", "memory_messages": 1});
    for (option, effect) in [("false", Effect::Passed), ("true", Effect::Failed)] {
        let filter = filter(&host, &format!("\"require_node\": {option}"));
        let asked = ask(&filter, "?", &metadata);
        assert_eq!(asked.effect, effect);
        assert_eq!(asked.metadata.unwrap(), r#"{"memory_mode":"node","session_id":"s"}"#);
        let answered = say(&filter, "?", "!", "", &metadata);
        assert_eq!(answered.effect, effect);
        assert_eq!(answered.problem.is_some(), option == "true");
    }
    assert_eq!(host.transactions.get(), 0);
}

#[test]
fn tombstones_are_unique_and_increasing() {
    let host = TestHost::new();
    let sessions = Context::new(&host, Config::parse(r#"{"conversation": true}"#).unwrap());
    let stamp = || {
        assert_eq!(admin::forget_user(&sessions, "anna").unwrap().remaining, 0);
        host.entry("User/anna", "user", "forgotten").unwrap()
    };
    let mut stamps = Vec::new();
    // In the same microsecond, with decimals that are left out, and by clocks that are behind.
    for micros in [1_795_186_917_500_000, 1_795_186_917_500_000, 1_795_186_917_499_999, 5, 1_795_186_918_000_000] {
        host.micros.set(micros);
        stamps.push(stamp());
    }
    let expected = ["1795186917.5", "1795186917.500001", "1795186917.500002", "1795186917.500003", "1795186918.0"];
    assert_eq!(stamps, expected);
    // Whoever begins between another one's look and its tombstone goes first.
    let begin = host.transactions.get();
    host.before_each(move |host, count| {
        if count == begin + 2 {
            let sessions = Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap());
            assert_eq!(admin::forget_user(&sessions, "anna").unwrap().remaining, 0);
        }
    });
    assert_eq!(admin::forget_user(&sessions, "anna").unwrap().remaining, 1);
    host.before_each(|_, _| {});
    assert_eq!(admin::forget_user(&sessions, "anna").unwrap().remaining, 0);
}
