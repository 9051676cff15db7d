//! Messages that are put in the place of a transcript.

use crate::admin_calls as admin;
use keepline_filter::admin::messages::MessageQuery;
use keepline_filter::contract::transcripts::Message;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::conversation::{act, ask, call, entry, filter, messages, reply, result, s, say, transcript, turn};
use crate::test_host::TestHost;

const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(r#"{"conversation": true, "max_context_tokens": 1000}"#).unwrap())
}

fn texts(messages: &[Value]) -> Vec<String> {
    messages.iter().map(Value::to_string).collect()
}

/// All messages.
fn all(sessions: &Context<&TestHost>) -> Vec<Message> {
    let page = admin::find_messages(sessions, &S, &MessageQuery { limit: 1000, ..MessageQuery::default() }).unwrap();
    page.messages
}

fn window(host: &TestHost, parent: Option<&str>) -> Vec<String> {
    let mut metadata = json!({"session_id": "s", "memory": {"look": true}});
    if let Some(parent) = parent {
        metadata["parent_message_id"] = parent.into();
    }
    messages(&ask(&filter(host, ""), "?", &metadata))
}

#[test]
fn imported_messages_form_a_conversation() {
    let host = TestHost::new();
    let sessions = sessions(&host);
    admin::create_session(&sessions, "s").unwrap();
    let given = texts(&[
        json!({"role": "user", "content": "Where is it?", "id": "q1", "at": 1700000000.5}),
        json!({"role": "assistant", "content": "", "tool": {"call_id": "c", "name": "track", "arguments": "{}"}}),
        json!({"role": "tool", "content": "Bonn", "tool": {"call_id": "c", "name": "track"}}),
        json!({"role": "assistant", "content": "In Bonn.", "id": "a1"}),
        json!({"role": "user", "content": "And now?", "id": "q2"}),
        json!({"role": "assistant", "content": "In Köln.", "id": "a2"}),
        json!({"role": "user", "content": "Really?", "id": "q3", "parent": "a1"}),
        json!({"role": "assistant", "content": "No.", "id": "a3"}),
        json!({"role": "assistant", "content": "Yes.", "id": "a4", "parent": "q3"}),
    ]);
    assert_eq!(admin::set_messages(&sessions, &S, &given, None), Ok(9));
    let records = transcript(&host, "s");
    assert!(records.iter().all(|record| record["source"] == "import" && record["trust"] == "low"));
    assert_eq!((&records[0]["at"], &records[1]["at"]), (&json!(1700000000.5), &json!(1795186917.032595)));
    let begins: Vec<bool> = records.iter().map(|record| record["begins"] == true).collect();
    assert_eq!(begins, [true, false, false, false, true, false, true, false, false]);
    let after: Vec<Option<u64>> = records.iter().map(|record| record["after"].as_u64()).collect();
    assert_eq!(after, [None, None, None, None, None, None, Some(3), None, Some(6)]);
    let whole = ["user: Where is it?", "assistant: null", "tool: Bonn", "assistant: In Bonn."].map(str::to_owned);
    let with = |more: &[&str]| [&whole[..], &more.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()].concat();
    assert_eq!(window(&host, None), with(&["user: Really?", "assistant: Yes."]));
    assert_eq!(window(&host, Some("a3")), with(&["user: Really?", "assistant: No."]));
    assert_eq!(window(&host, Some("a2")), with(&["user: And now?", "assistant: In Köln."]));
    assert_eq!(window(&host, Some("a1")), whole);
    assert_eq!(entry(&host, "session", "title").unwrap(), "Where is it?");

    // The conversation goes on from there.
    assert_eq!(turn(&filter(&host, ""), "5", Some("a2")).effect, crate::conversation::STORED);
    assert_eq!(window(&host, None).last().unwrap(), "assistant: answer 5");
    assert_eq!(window(&host, Some("a5")).len(), 8);
}

#[test]
fn an_import_is_refused_by_message_number_and_stores_nothing() {
    let user = json!({"role": "user", "content": "Hello", "id": "m"});
    let call = json!({"role": "assistant", "content": "", "tool": {"call_id": "c", "name": "n", "arguments": "{}"}});
    let result = json!({"role": "tool", "content": "r", "tool": {"call_id": "c", "name": "n"}});
    let with = |name: &str, value: Value| {
        let mut changed = user.clone();
        changed[name] = value;
        changed.to_string()
    };
    let [user_text, call, result] = [&user, &call, &result].map(Value::to_string);
    let no_call = with("id", Value::Null).replace("user", "tool");
    let cases: Vec<(Vec<String>, &str)> = vec![
        (vec!["[]".into()], "Message 1: it is not a JSON object"),
        (vec![String::new()], "Message 1: it is not a JSON object"),
        (vec!["{}".into()], "Message 1: it has no role"),
        (
            vec![with("role", "critic".into())],
            "Message 1: its role is 'critic', not user, assistant, tool, system or developer",
        ),
        (vec![with("source", "a b".into())], "Message 1: its source is not 1 to 64 letters"),
        (vec![with("line", 40.into()).replace("user", "critic")], "Message 40: its role is 'critic'"),
        (vec![with("role", 7.into())], "Message 1: it has no role"),
        (vec![with("content", 7.into())], "Message 1: its content is neither a string nor an array"),
        (vec![user_text.clone(), user_text.clone()], "Message 2: an earlier message has its id 'm', too"),
        (vec![with("parent", "who".into())], "Message 1: its parent 'who' is not the id of an earlier message"),
        (vec![user_text.clone(), no_call], "Message 2: it has no tool.call_id"),
        (
            vec![with("metadata", json!({"x": "y".repeat(65_536)}))],
            "Message 1: its files, model, metadata, chat or raw is longer than 64 KiB",
        ),
        (
            vec![call, result.replace("\"c\"", &format!("\"{}\"", "c".repeat(300)))],
            "Message 2: the name or the call_id",
        ),
    ];
    for (given, told) in cases {
        let host = TestHost::new();
        let sessions = sessions(&host);
        admin::create_session(&sessions, "s").unwrap();
        let problem = admin::set_messages(&sessions, &S, &given, None).unwrap_err();
        assert!(problem.message.starts_with(told), "{given:?}: {}", problem.message);
        assert_eq!((&*problem.code, transcript(&host, "s").len()), ("invalid", 0));
    }
    let host = TestHost::new();
    let sessions = sessions(&host);
    let missing = admin::set_messages(&sessions, &S, &[], None).unwrap_err();
    assert_eq!((&*missing.code, host.names().len()), ("not-found", 0));
}

#[test]
fn messages_set_in_one_call_are_limited_in_number() {
    let host = TestHost::new();
    let sessions = sessions(&host);
    admin::create_session(&sessions, "s").unwrap();
    let said = |number: usize, text: &str| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": text}).to_string()
    };
    let many: Vec<String> = (0..10_001).map(|number| said(number, "x")).collect();
    let problem = admin::set_messages(&sessions, &S, &many, None).unwrap_err();
    assert_eq!((&*problem.code, &*problem.subject, problem.limit), ("limit", "messages", 10_000));
    assert!(problem.message.contains("10001 messages") && problem.message.contains("`next`"), "{}", problem.message);
    assert_eq!(admin::set_messages(&sessions, &S, &many[..10_000], None), Ok(10_000));
    assert_eq!(transcript(&host, "s").len(), 10_000);
    let long: Vec<String> = (0..20).map(|number| said(number, &"x".repeat(900_000))).collect();
    let uncut = Config::parse(r#"{"conversation": true, "max_message_length": 0}"#).unwrap();
    let sessions = Context::new(&host, uncut);
    // More bytes than a transaction takes go in pieces.
    assert_eq!(admin::set_messages(&sessions, &S, &long, None), Ok(20));
    assert_eq!(admin::set_messages(&sessions, &S, &long[..16], None), Ok(16));
    assert_eq!(transcript(&host, "s").len(), 16);
}

#[test]
fn setting_messages_replaces_the_summary_and_the_generated_title() {
    let host = TestHost::new();
    turn(&filter(&host, ""), "1", None);
    let sessions = sessions(&host);
    let put = |key: &str, text: &str| {
        let mut buckets = host.buckets_mut();
        let map = buckets.get_mut("s").unwrap().maps.entry("session".into()).or_default();
        map.insert(key.into(), text.into());
    };
    put("summary", r#"{"text":"question 1","to":1,"total":9}"#);
    let new = texts(&[json!({"role": "user", "content": "Other words"})]);
    assert_eq!(admin::set_messages(&sessions, &S, &new, None), Ok(1));
    assert_eq!(
        (entry(&host, "session", "summary"), entry(&host, "session", "title").as_deref()),
        (None, Some("Other words"))
    );
    // What said of the old ones is gone with them.
    assert_eq!((entry(&host, "messages", "a1"), transcript(&host, "s").len()), (None, 1));
    admin::set_title(&sessions, &S, Some("Mine")).unwrap();
    assert_eq!(admin::set_messages(&sessions, &S, &texts(&[json!({"role": "user", "content": "Third"})]), None), Ok(1));
    assert_eq!(entry(&host, "session", "title").as_deref(), Some("Mine"));
    // The values are as they were.
    assert_eq!(host.get("s", "last_answer").as_deref(), Some("\"answer 1\""));
    admin::set_title(&sessions, &S, None).unwrap();
    assert_eq!(admin::set_messages(&sessions, &S, &[], None), Ok(0));
    assert_eq!((entry(&host, "session", "title"), entry(&host, "session", "head")), (None, None));
    assert_eq!(window(&host, None), [""; 0]);
}

#[test]
fn messages_set_in_pieces_must_follow_each_other() {
    let said = |number: usize| {
        let parent = (number == 7).then_some("m2");
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("text {number}"), "id": format!("m{number}"), "parent": parent})
            .to_string()
    };
    let given: Vec<String> = (0..10).map(said).collect();
    let (at_once, in_pieces) = (TestHost::new(), TestHost::new());
    for (host, size) in [(&at_once, 10), (&in_pieces, 2)] {
        let sessions = sessions(host);
        admin::create_session(&sessions, "s").unwrap();
        for (index, piece) in given.chunks(size).enumerate() {
            let next = (index > 0).then_some((index * size) as u64);
            assert_eq!(admin::set_messages(&sessions, &S, piece, next), Ok(size as u64), "{size} {index}");
        }
    }
    let without_turns = |host: &TestHost| {
        let mut records = transcript(host, "s");
        records.iter_mut().for_each(|record| record["turn"] = Value::Null);
        records
    };
    // But for turns, which are told apart by when they came.
    assert_eq!(without_turns(&at_once), without_turns(&in_pieces));
    for map in ["messages", "branches"] {
        assert_eq!(at_once.bucket("s").maps.get(map), in_pieces.bucket("s").maps.get(map), "{map}");
    }
    for key in ["head", "total", "bytes"] {
        assert_eq!(entry(&at_once, "session", key), entry(&in_pieces, "session", key), "{key}");
    }
    let sessions = sessions(&in_pieces);
    for (piece, next, code) in [(&given[..1], 11, "conflict"), (&given[..1], 10, "conflict")] {
        let problem = admin::set_messages(&sessions, &S, piece, Some(next)).unwrap_err();
        assert_eq!(problem.code, code, "{next}");
    }
    assert_eq!(transcript(&in_pieces, "s").len(), 10);
}

#[test]
fn a_long_result_is_kept_whole_beside_the_transcript() {
    let host = TestHost::new();
    let sessions = sessions(&host);
    admin::create_session(&sessions, "s").unwrap();
    let whole = "é".repeat(5000);
    let given = texts(&[
        json!({"role": "assistant", "tool": {"call_id": "c", "name": "n", "arguments": "{}"}}),
        json!({"role": "tool", "content": whole, "tool": {"call_id": "c", "whole": "forged"}}),
    ]);
    assert_eq!(admin::set_messages(&sessions, &S, &given, None), Ok(2));
    assert_eq!(admin::read_message_content(&sessions, &S, 1, 0, 0).unwrap().text, whole);
    assert_eq!(host.bucket("s").maps["results"].len(), 1);
}

#[test]
fn imported_sessions_are_found_with_their_owner_and_forgotten_with_them() {
    let host = TestHost::new();
    let sessions = sessions(&host);
    admin::create_session(&sessions, "s").unwrap();
    let node = TranscriptId { app_id: Some("a"), node_id: Some("n"), ..S };
    assert_eq!(admin::set_messages(&sessions, &node, &texts(&[json!({"role": "user", "content": "x"})]), None), Ok(1));
    assert_eq!(admin::register_transcript(&sessions, &S, None), Ok(None));
    for _ in 0..2 {
        assert_eq!(admin::register_transcript(&sessions, &S, Some("anna")), Ok(Some("anna".into())));
    }
    assert_eq!(admin::register_transcript(&sessions, &node, None), Ok(Some("anna".into())));
    let foreign = admin::register_transcript(&sessions, &S, Some("ben")).unwrap_err();
    assert_eq!(foreign.code, "already-exists");
    assert_eq!(admin::list_user_sessions(&sessions, "anna", None, 0).unwrap().sessions.len(), 1);
    assert_eq!(host.bucket("s").maps["nodes"].len(), 1);
    let gone = admin::forget_user(&sessions, "anna").unwrap();
    assert_eq!((gone.sessions, gone.nodes, gone.remaining), (1, 1, 0));
}

/// As many messages with ids as a call takes: more than one transaction does.
fn many() -> Vec<String> {
    let message = |number: u64| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("new {number}"), "id": format!("n{number}")}).to_string()
    };
    (0..10_000).map(message).collect()
}

/// Every call from this transaction on fails.
fn fail_from(host: &TestHost, last: usize) {
    host.before_each(move |host, number| {
        if number >= last {
            host.fail("unavailable");
        }
    });
}

#[test]
fn messages_set_in_pieces_replace_the_old_ones_at_once() {
    let host = TestHost::new();
    let lanes = filter(&host, "");
    for name in ["1", "2"] {
        turn(&lanes, name, None);
    }
    let sessions = sessions(&host);
    let seen = |host: &TestHost| (window(host, None), window(host, Some("a1")), all(&self::sessions(host)));
    let (before, given) = (seen(&host), many());
    let (mut failures, mut unseen) = (0, 0);
    loop {
        fail_from(&host, host.transactions.get() + 1 + failures);
        let done = admin::set_messages(&sessions, &S, &given, None);
        host.before_each(|_, _| {});
        host.works();
        if done.is_ok() {
            break;
        }
        failures += 1;
        // The last of them drops what nothing leads to any more.
        if entry(&host, "messages", "n9999").is_none() {
            assert!(seen(&host) == before, "after {failures} transactions");
            unseen = failures;
        } else {
            let oldest = MessageQuery { before: Some(8), ..MessageQuery::default() };
            let shown = admin::find_messages(&self::sessions(&host), &S, &oldest).unwrap().messages;
            assert!(shown.iter().all(|message| message.content.starts_with("new")), "after {failures} transactions");
        }
    }
    assert!(unseen >= 5 && failures < 20, "{unseen} of {failures}");
    let newest = MessageQuery { limit: 1000, ..MessageQuery::default() };
    let page = admin::find_messages(&sessions, &S, &newest).unwrap();
    let last = page.messages.last().unwrap();
    assert_eq!(
        (&*last.id, &*last.content, last.position + 1),
        ("n9999", "new 9999", { admin::describe_transcript(&sessions, &S).unwrap().next })
    );
    assert_eq!(window(&host, None).last().unwrap(), "assistant: new 9999");
    let shown = window(&host, Some("n4001"));
    assert_eq!(shown.last().unwrap(), "assistant: new 4001");
    assert_eq!(window(&host, Some("n1")), ["user: new 0", "assistant: new 1"]);
    let kept = transcript(&host, "s");
    assert!(kept.len() < 10_010, "the old ones and what was left are gone: {}", kept.len());
    assert!(!kept.iter().any(|record| record["content"] == "question 1"));
    assert_eq!(entry(&host, "messages", "a1"), None);
    // The conversation goes on from there.
    turn(&lanes, "5", None);
    assert_eq!(window(&host, None).last().unwrap(), "assistant: answer 5");
}

#[test]
fn messages_added_in_pieces_follow_the_old_ones_at_once() {
    let host = TestHost::new();
    let lanes = filter(&host, "");
    turn(&lanes, "1", None);
    let sessions = sessions(&host);
    admin::register_transcript(&sessions, &S, Some("anna")).unwrap();
    host.micros.set(host.micros.get() + 3_600_000_000);
    let seen = |host: &TestHost| {
        let sessions = self::sessions(host);
        let listed = admin::list_user_sessions(&sessions, "anna", None, 0).unwrap().sessions.remove(0);
        let last_at = admin::describe_transcript(&sessions, &S).unwrap().last_at;
        assert_eq!(listed.last_at, last_at);
        (window(host, None), all(&sessions), listed.preview, last_at)
    };
    let (before, given) = (seen(&host), many());
    assert_eq!(before.2, "answer 1");
    let mut failures = 0;
    loop {
        fail_from(&host, host.transactions.get() + 1 + failures);
        let done = admin::set_messages(&sessions, &S, &given, Some(2));
        host.before_each(|_, _| {});
        host.works();
        if done.is_ok() {
            break;
        }
        failures += 1;
        assert!(seen(&host) == before, "after {failures} transactions");
    }
    assert!(failures >= 4, "{failures}");
    assert_eq!(window(&host, None).last().unwrap(), "assistant: new 9999");
    let first = ["user: question 1", "assistant: answer 1", "user: new 0", "assistant: new 1"];
    assert_eq!(window(&host, Some("n1")), first);
    let found = MessageQuery { thread: Some("n1"), ..MessageQuery::default() };
    let thread = admin::find_messages(&sessions, &S, &found).unwrap().messages;
    assert_eq!(thread.iter().map(|message| &*message.id).collect::<Vec<_>>(), ["q1", "a1", "n0", "n1"]);
    assert_eq!(admin::set_messages(&sessions, &S, &given, Some(2)).unwrap_err().subject, "next");
}

#[test]
fn an_answer_between_two_pieces_is_kept_until_the_messages_are_set() {
    let host = TestHost::new();
    let lanes = filter(&host, "");
    turn(&lanes, "1", None);
    let sessions = sessions(&host);
    fail_from(&host, host.transactions.get() + 4);
    admin::set_messages(&sessions, &S, &many(), None).unwrap_err();
    host.before_each(|_, _| {});
    host.works();
    assert_eq!(turn(&lanes, "2", Some("a1")).effect, crate::conversation::STORED);
    assert_eq!(turn(&lanes, "3", None).effect, crate::conversation::STORED);
    let old = ["user: question 1", "assistant: answer 1", "user: question 2", "assistant: answer 2"];
    assert_eq!(window(&host, Some("a2")), old);
    assert_eq!(window(&host, None)[..4], old);
    assert_eq!(window(&host, None)[5], "assistant: answer 3");
    assert_eq!(all(&sessions).len(), 6);
    assert_eq!(admin::set_messages(&sessions, &S, &many(), None), Ok(10_000));
    assert_eq!(window(&host, Some("n1")), ["user: new 0", "assistant: new 1"]);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 60, failure_persistence: None, ..Default::default() })]

    /// What is read and set again is the same conversation.
    #[test]
    fn records_read_can_be_set_again(steps in proptest::collection::vec((0_usize..4, any::<bool>(), any::<bool>()), 1..8)) {
        let host = TestHost::new();
        let filter = filter(&host, "");
        for (number, (parent, has_tools, is_named)) in steps.iter().enumerate() {
            let mut metadata = s();
            if *is_named {
                metadata["message_id"] = format!("q{number}").into();
            }
            if let Some(parent) = number.checked_sub(*parent + 1) {
                metadata["parent_message_id"] = format!("a{parent}").into();
            }
            let question = format!("question {number}");
            let asked = ask(&filter, &question, &metadata);
            if *has_tools {
                let activity = [call("c", "n", "{}"), result("c", "n", "r")];
                act(&filter, &question, "answer", &asked.turn, &activity);
            } else if *is_named {
                say(&filter, &question, "answer", &asked.turn, &json!({"message_id": format!("a{number}")}));
            } else {
                reply(&filter, &question, "answer", &asked.turn);
            }
        }
        let sessions = sessions(&host);
        let kept = |host: &TestHost| {
            let names = (0..steps.len()).flat_map(|number| [format!("q{number}"), format!("a{number}")]);
            let known = names.filter(|name| entry(host, "messages", name).is_some());
            let windows: Vec<_> = known.map(|name| (name.clone(), window(host, Some(&name)))).collect();
            (window(host, None), windows, entry(host, "session", "total"), entry(host, "session", "head"))
        };
        let (messages, before) = (all(&sessions), kept(&host));
        let count = messages.len() as u64;
        prop_assert_eq!(admin::set_read_messages(&sessions, &S, messages), Ok(count));
        prop_assert_eq!(&kept(&host), &before);
    }
}
