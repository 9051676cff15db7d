//! Only a well-formed `session_id` at the top level makes an entry one of a session.

use keepline::pipe::Effect;
use keepline_tests::{
    lanes::{Node, untouched},
    on_every_store,
};

use super::Given;

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
            assert_eq!(
                node.log.take(),
                [
                    format!("plugin: keepline.session: Ignoring invalid session_id in question metadata: {shown}"),
                    format!("plugin: keepline.session: Ignoring invalid session_id in answer metadata: {shown}"),
                ]
            );
        }
    }
    assert_eq!(node.store.calls(), 0);
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

async fn no_spelling_hides_a_session_id(given: Given) {
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
    a_session_id_is_matched_whole_up_to_128_characters,
    no_spelling_hides_a_session_id,
    the_last_of_two_session_ids_counts,
    only_the_top_level_names_a_session,
}
