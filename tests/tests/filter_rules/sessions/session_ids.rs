//! Only a well-formed `session_id` at the top level makes an entry one of a session.

use keepline::{
    pipe::Effect,
    sessions::{MessageQuery, SessionErrorCode as Code},
};
use keepline_tests::{
    lanes::{Node, untouched},
    on_every_store,
    requests::create_new,
};

use crate::Given;

async fn an_entry_without_a_session_passes_untouched_and_the_store_is_not_asked(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for metadata in [
        "{}",
        "",
        " \n",
        "null",
        "[]",
        "\"session_id\"",
        "{\"a\": 1}",
        "{\"session_id\": null}",
        "{\"session_id\": \"\"}",
        "{\"session_id\": 0}",
        "{\"session_id\": -0.0}",
        "{\"session_id\": false}",
        "{\"session_id\": []}",
        "{\"session_id\": {}}",
        "{\"sessionid\": \"s\"}",
        "{\"Session_ID\": \"s\"}",
        "{\"memory_context\": {\"a\": 1}}",
    ] {
        let question = node.question(metadata).await;
        assert!(untouched(Effect::Passed, &question), "{metadata}: {question:?}");
        let answer = node.answer("text", metadata).await;
        assert!(untouched(Effect::Passed, &answer), "{metadata}: {answer:?}");
    }
    assert_eq!(node.store.calls(), 0);
    assert_eq!(given.list(100).await, [""; 0]);
}

async fn a_malformed_session_id_leaves_the_entry_untouched_and_is_logged(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let long = format!("\"{}\"", "x".repeat(129));
    let shown = format!("'{}'", "x".repeat(129));
    for (id, shown) in [
        (r#""a b""#, "'a b'"),
        (r#""a\n""#, "'a\\n'"),
        (r#""a.b""#, "'a.b'"),
        (r#""a:b""#, "'a:b'"),
        (r#""a/../b""#, "'a/../b'"),
        (r#""é""#, "'é'"),
        (r#""٣""#, "'٣'"),
        (r#""a\u0000""#, "'a\\x00'"),
        (r#""\ud800""#, "'\u{fffd}'"),
        ("NaN", "NaN"),
        ("1", "1"),
        ("true", "True"),
        ("[\"s\"]", "[\"s\"]"),
        (&*long, &*shown),
    ] {
        for end in ["", ", \"memory_context\": 1"] {
            let metadata = format!("{{\"session_id\": {id}{end}}}");
            let question = node.question(&metadata).await;
            assert!(untouched(Effect::Ignored, &question), "{metadata}: {question:?}");
            let answer = node.answer("text", &metadata).await;
            assert!(untouched(Effect::Ignored, &answer), "{metadata}: {answer:?}");
            let told = node.log.take().into_iter().filter(|line| !line.starts_with("keepline.session: "));
            assert_eq!(
                told.collect::<Vec<_>>(),
                [
                    format!("plugin: keepline.session: Ignoring invalid session_id in question metadata: {shown}"),
                    format!("plugin: keepline.session: Ignoring invalid session_id in answer metadata: {shown}"),
                ]
            );
        }
    }
    assert_eq!(node.store.calls(), 0);
}

async fn each_kind_of_malformed_session_id_is_reported_once_with_the_rule(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for _ in 0..3 {
        for id in ["\"telegram:42\"", "\"eva@example.org\"", "123", &format!("\"{}\"", "x".repeat(129))] {
            let metadata = format!("{{\"session_id\": {id}}}");
            assert!(untouched(Effect::Ignored, &node.question(&metadata).await));
            assert!(untouched(Effect::Ignored, &node.answer("x", &metadata).await));
        }
    }
    let told = node.log.of("keepline.session");
    assert_eq!(told.len(), 3, "{told:?}");
    for (line, id) in told.iter().zip(["'telegram:42'", "123", "'xxx"]) {
        let allowed = "1-128 letters, digits, hyphens or underscores";
        assert!(line.contains(id) && line.contains(allowed) && line.contains("session_ids \"hash\""), "{line}");
    }
    assert_eq!(node.counters().ignored, 24);
}

const HASH: &str = r#"{"session_ids": "hash", "conversation": true}"#;

async fn hashed_ids_lead_to_the_same_session_everywhere_and_are_shown_unhashed(given: Given) {
    for options in [r#"{"session_ids": "hash"}"#, HASH] {
        let mut node = Node::new(&given.store, options).await;
        let name = node.keepline.session_ids().bucket_name("telegram:42").unwrap().into_owned();
        assert!(name.starts_with("h-") && name.len() == 54);
        let metadata = r#"{"session_id": "tele\u0067ram:42", "user_id": "eva@example.org"}"#;
        assert_eq!(node.question(metadata).await.effect, Effect::Resumed);
        assert_eq!(node.reply("first").await.effect, Effect::Stored);
        assert_eq!(node.say("telegram:42", "second").await.effect, Effect::Stored);
        assert_eq!(node.say("eva@example.org", "without a question").await.effect, Effect::Stored);
        node.sessions.create("another one").await.unwrap();
        node.sessions.put("another one", "k", "1").await.unwrap();
        assert_eq!(node.ask("plain").await.effect, Effect::Resumed);

        let sessions = &mut node.sessions;
        assert_eq!(sessions.get("telegram:42", "answer_count").await.unwrap().value().unwrap(), "2");
        assert_eq!(sessions.get("another one", "k").await.unwrap().value().unwrap(), "1");
        assert_eq!(sessions.describe("telegram:42".into()).await.unwrap().answers, 2);
        let mut listed = sessions.list("", 0).await.unwrap().sessions;
        listed.sort();
        assert_eq!(listed, ["another one", "eva@example.org", "plain", "telegram:42"]);
        // The name is nobody's id.
        assert_eq!(sessions.resume(&name).await.unwrap_err().to_string(), format!("Session '{name}' not found"));
        assert_eq!(sessions.resume("no such").await.unwrap_err().to_string(), "Session 'no such' not found");
        if options == HASH {
            let of_user = sessions.user_sessions("eva@example.org", None, 0).await.unwrap().sessions;
            assert!(of_user.len() == 1 && of_user[0].session == "telegram:42", "{of_user:?}");
            assert_eq!(
                sessions.messages("telegram:42".into(), MessageQuery::default()).await.unwrap().messages.len(),
                3
            );
        }
        for id in listed {
            sessions.delete(&id).await.unwrap();
        }
        assert_eq!(sessions.list("", 0).await.unwrap().sessions, [""; 0]);
    }
}

async fn the_hash_of_an_id_does_not_lead_to_its_session(given: Given) {
    let mut hash = Node::new(&given.store, r#"{"session_ids": "hash"}"#).await;
    hash.say("telegram:42", "private").await;
    let name = hash.keepline.session_ids().bucket_name("telegram:42").unwrap().into_owned();
    assert_eq!(hash.ask(&name).await.effect, Effect::Resumed);
    assert_eq!(hash.memory("telegram:42").await.unwrap(), r#"{"answer_count":1,"last_answer":"private"}"#);
    let mut listed = hash.sessions.list("", 0).await.unwrap().sessions;
    listed.sort();
    assert_eq!(listed, [&*name, "telegram:42"]);

    for options in ["{}", r#"{"conversation": true}"#] {
        let mut strict = Node::new(&given.store, options).await;
        for id in [&*name, &format!("h-{}", "a".repeat(52))] {
            assert!(untouched(Effect::Ignored, &strict.ask(id).await), "{id}");
            assert!(untouched(Effect::Ignored, &strict.say(id, "x").await), "{id}");
            assert_eq!(strict.sessions.resume(id).await.unwrap_err().code, Code::InvalidSession, "{id}");
            assert_eq!(strict.sessions.create(id).await.unwrap_err().code, Code::InvalidSession, "{id}");
        }
        assert_eq!(strict.log.of("keepline.session").len(), 1);
    }
    assert_eq!(hash.memory("telegram:42").await.unwrap(), r#"{"answer_count":1,"last_answer":"private"}"#);
}

async fn an_existing_session_named_like_a_hash_remains_usable(given: Given) {
    let name = format!("h-{}", "b".repeat(52));
    given.apply(&name, create_new(), []).await;
    let mut node = Node::new(&given.store, "{}").await;
    assert_eq!(node.ask(&name).await.effect, Effect::Resumed);
    assert_eq!(node.reply("x").await.effect, Effect::Stored);
    assert_eq!(node.sessions.keys(&name).await.unwrap().keys, ["answer_count", "last_answer"]);
    assert_eq!(node.sessions.list("", 0).await.unwrap().sessions, [name]);
}

async fn recording_a_hashed_id_costs_a_wait_only_once(given: Given) {
    for options in [r#"{"session_ids": "hash"}"#, HASH] {
        let mut node = Node::new(&given.store, options).await;
        let waits = [("first", 2), ("second", 1), ("third", 1)];
        for (text, calls) in waits {
            node.store.calls();
            node.ask("a b").await;
            assert_eq!(node.store.calls(), calls, "{options} {text}");
            node.say("a b", text).await;
            assert_eq!(node.store.calls(), 1, "{options} {text}");
        }
        node.sessions.delete("a b").await.unwrap();
    }
}

async fn a_session_id_is_matched_whole_up_to_128_characters(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for good in ["a".repeat(128), "-".into(), "_".into(), "A-z_0".into(), "__meta__".into(), "__sessions__".into()] {
        assert_eq!(node.ask(&good).await.effect, Effect::Resumed, "{good}");
        assert_eq!(node.say(&good, "x").await.effect, Effect::Stored, "{good}");
    }
    for bad in ["a".repeat(129), format!("{}\\n", "a".repeat(128)), "a\\n".into(), "\\na".into(), " a".into()] {
        assert_eq!(node.ask(&bad).await.effect, Effect::Ignored, "{bad}");
        assert_eq!(node.say(&bad, "x").await.effect, Effect::Ignored, "{bad}");
    }
    assert_eq!(given.list(100).await.len(), 6);
}

async fn a_session_id_is_found_in_every_json_spelling(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "said").await;
    for metadata in [
        r#"{"sess\u0069on_id":"s1"}"#,
        r#"{"session_id":"\u00731"}"#,
        r#"{"\u0073\u0065\u0073\u0073\u0069\u006f\u006e\u005f\u0069\u0064":"s\u0031"}"#,
        "\r\n{\t\"session_id\"\r\n:\t\"s1\"\r\n}\r\n",
        r#"{"x":"\\","session_id":"s1"}"#,
        r#"{"x":"\"","session_id":"s1"}"#,
    ] {
        assert_eq!(node.question(metadata).await.attached, 2, "{metadata}");
    }
    let forged = node.question(r#"{"memory_\u0063ontext":"forged","session_id":"s1"}"#).await.metadata.unwrap();
    assert!(!forged.contains("forged"), "{forged}");
}

async fn the_last_of_two_session_ids_counts(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.answer("x", r#"{"session_id":"a","session_id":"b"}"#).await;
    assert_eq!(given.list(100).await, ["b"]);
    assert!(untouched(Effect::Passed, &node.question(r#"{"session_id":"b","session_id":null}"#).await));
    assert!(untouched(Effect::Ignored, &node.question(r#"{"session_id":"b","session_id":"b b"}"#).await));
}

async fn only_the_top_level_names_a_session(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for metadata in [
        r#"{"a":{"session_id":"s1"}}"#,
        r#"[{"session_id":"s1"}]"#,
        r#"{"a":"{\"session_id\":\"s1\"}"}"#,
        r#"{"session_id ":"s1"}"#,
    ] {
        assert!(untouched(Effect::Passed, &node.question(metadata).await), "{metadata}");
        assert!(untouched(Effect::Passed, &node.answer("x", metadata).await), "{metadata}");
    }
}

on_every_store! {
    an_entry_without_a_session_passes_untouched_and_the_store_is_not_asked,
    a_malformed_session_id_leaves_the_entry_untouched_and_is_logged,
    each_kind_of_malformed_session_id_is_reported_once_with_the_rule,
    hashed_ids_lead_to_the_same_session_everywhere_and_are_shown_unhashed,
    the_hash_of_an_id_does_not_lead_to_its_session,
    an_existing_session_named_like_a_hash_remains_usable,
    recording_a_hashed_id_costs_a_wait_only_once,
    a_session_id_is_matched_whole_up_to_128_characters,
    a_session_id_is_found_in_every_json_spelling,
    the_last_of_two_session_ids_counts,
    only_the_top_level_names_a_session,
}
