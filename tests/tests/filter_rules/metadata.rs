//! Metadata stays as it was byte for byte, except for the memory in it.

use std::fmt::Write as _;

use keepline::{pipe::Effect, sessions::SessionErrorCode};
use keepline_tests::{
    lanes::{Node, untouched},
    on_every_store,
};

use super::Given;

async fn metadata_that_is_not_an_object_passes_unchanged(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for metadata in [
        "session_id",
        "[\"session_id\", \"s1\"]",
        "{\"session_id\":\"s1\"",
        "{\"session_id\":\"s1\"}}",
        "{\"session_id\":\"s1\",}",
        "{\"session_id\":\"s1\"} {\"session_id\":\"s1\"}",
        "{'session_id':'s1'}",
        "{session_id:\"s1\"}",
        "{\"session_id\":\"s1\",\"x\":nan}",
        "{\"session_id\":\"s1\",\"x\":+Infinity}",
        "{\"session_id\":\"s1\",\"x\":01}",
        "{\"session_id\":\"s1\",\"x\":\"\u{1}\"}",
        "{\"session_id\":\"s1\",\"x\":\"\\x\"}",
        "\u{feff}\u{feff}{\"session_id\":\"s1\"}",
        "{\"session_id\":\"s1\"}\0",
        "{\"memory_context\":1,\"session_id\":\"s1\"",
    ] {
        let question = node.question(metadata).await;
        assert!(untouched(Effect::Passed, &question), "{metadata}: {question:?}");
        assert!(untouched(Effect::Passed, &node.answer("x", metadata).await), "{metadata}");
    }
    assert_eq!(node.store.calls(), 0);
    assert_eq!(node.log.take()[0], "plugin: keepline.session: No JSON object in question metadata: no session");
}

async fn unreadable_metadata_that_may_hold_a_context_is_emptied_with_strip(given: Given) {
    let mut node = Node::new(&given.store, r#"{"unbound_context": "strip"}"#).await;
    for metadata in [
        "{\"memory_context\":1,\"session_id\":\"s1\"",
        "{\"memory_context\":1,}",
        "{memory_context:1}",
        "{'\\x6demory_context':1}",
    ] {
        node.log.take();
        let passed = node.question(metadata).await;
        assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Passed, Some("{}")), "{metadata}");
        assert!(untouched(Effect::Passed, &node.answer("x", metadata).await), "{metadata}");
    }
    for metadata in ["nonsense", "[\"memory_context\"]", "{\"session_id\":\"s1\""] {
        assert!(untouched(Effect::Passed, &node.question(metadata).await), "{metadata}");
    }
    assert_eq!(node.store.calls(), 0);
}

async fn nan_and_byte_order_marks_hide_no_session_and_no_forgery(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for rest in ["\"x\":NaN", "\"x\":[{\"y\":-Infinity},Infinity]", "\"memory_context\":{\"forged\":NaN},\"x\":1"] {
        for mark in ["", "\u{feff}", "\u{feff}\r\n"] {
            let kept = rest.replace("\"memory_context\":{\"forged\":NaN},", "");
            let metadata =
                format!("{mark}{{\"memory_context\":0,{rest},\"session_id\":\"s1\",\"memory_context\":Infinity}}");
            let passed = node.question(&metadata).await;
            let expected = format!("{mark}{{{kept},\"session_id\":\"s1\"}}");
            assert_eq!((passed.effect, passed.metadata), (Effect::Resumed, Some(expected)));
            assert_eq!(node.answer("x", &metadata).await.effect, Effect::Stored);
            let passed = node.question(&metadata).await;
            let memory = r#"{"answer_count":1,"last_answer":"x"}"#;
            let expected = format!("{mark}{{{kept},\"session_id\":\"s1\",\"memory_context\":{memory}}}");
            assert_eq!((passed.effect, passed.metadata), (Effect::Enriched, Some(expected)));
            node.sessions.delete("s1").await.unwrap();
        }
    }
}

async fn the_rest_of_the_metadata_stays_byte_for_byte(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "k", "1").await.unwrap();
    let digits = "7".repeat(4000);
    for rest in [
        "\"a\":1,\"a\":2,\"a\":3",
        "\"n\":1e999999,\"m\":-0.0,\"o\":123456789012345678901234567890.123456789",
        &format!("\"n\":{digits}.{digits}e-{digits}"),
        "\"\":\"\",\" \":null",
        "\"crlf\":\r\n[\r\n1\r\n]",
        r#""nul":"\u0000","half":"\ud83c","slash":"\/","pair":"\ud83c\udf89""#,
        r#""\ud800":1,"\u0000":2"#,
        "\"text\":\"世界\u{7f}\u{2028}\u{fffd}🎉\"",
        r#""inner":{"session_id":"other","memory_context":{"x":1}}"#,
        "\"nan\":NaN,\"inf\":[Infinity,\t-Infinity ]",
    ] {
        for (before, after) in [
            (
                format!("{{{rest},\"session_id\":\"s1\"}}"),
                format!("{{{rest},\"session_id\":\"s1\",\"memory_context\":{{\"k\":1}}}}"),
            ),
            (
                format!("{{\"session_id\":\"s1\",{rest}}}\r\n"),
                format!("{{\"session_id\":\"s1\",{rest},\"memory_context\":{{\"k\":1}}}}\r\n"),
            ),
            (
                format!("{{\"memory_context\":[{{}}],{rest}, \"session_id\":\"s1\", \"memory_context\":0}}"),
                format!("{{{rest}, \"session_id\":\"s1\",\"memory_context\":{{\"k\":1}}}}"),
            ),
        ] {
            assert_eq!(node.question(&before).await.metadata, Some(after));
        }
        assert!(untouched(Effect::Passed, &node.question(&format!("{{{rest}}}")).await), "{rest}");
    }
}

async fn deeply_nested_metadata_is_handled_like_any_other(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_value_bytes": 4000000, "max_context_bytes": 4000000}"#).await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "k", "1").await.unwrap();
    let depth = 100_000;
    for (open, close) in [("[", "]"), ("{\"session_id\":", "}"), ("[{\"a\":", "}]")] {
        let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let metadata = format!("{{\"x\":{deep},\"session_id\":\"s1\"}}");
        let passed = node.question(&metadata).await;
        assert_eq!(passed.effect, Effect::Enriched);
        assert_eq!(
            passed.metadata.unwrap(),
            format!("{{\"x\":{deep},\"session_id\":\"s1\",\"memory_context\":{{\"k\":1}}}}")
        );
        assert_eq!(node.answer("x", &metadata).await.effect, Effect::Stored);
        node.sessions.clear("s1", Some("last_answer")).await.unwrap();
        node.sessions.clear("s1", Some("answer_count")).await.unwrap();
        // As the session itself, without a session, cut, and as a value.
        assert_eq!(node.question(&format!("{{\"session_id\":{deep}}}")).await.effect, Effect::Ignored);
        assert!(untouched(Effect::Passed, &node.question(&open.repeat(depth)).await));
        // As a value it would make lines of it that strict parsers refuse.
        let refused = node.sessions.put("s1", "deep", &deep).await.unwrap_err();
        assert_eq!(refused.code, SessionErrorCode::InvalidValue);
        let deep = format!("{}1{}", open.repeat(50), close.repeat(50));
        node.sessions.put("s1", "deep", &deep).await.unwrap();
        assert_eq!(node.memory("s1").await.unwrap(), format!("{{\"deep\":{deep},\"k\":1}}"));
        node.sessions.clear("s1", Some("deep")).await.unwrap();
    }
}

async fn huge_metadata_is_handled_like_any_other(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "x").await;
    let mut many = String::from("{");
    for number in 0..50_000 {
        write!(many, "\"key {number}\":{number},").unwrap();
    }
    let metadata = format!("{many}\"session_id\":\"s1\"}}");
    let enriched =
        format!("{many}\"session_id\":\"s1\",\"memory_context\":{{\"answer_count\":1,\"last_answer\":\"x\"}}}}");
    assert_eq!(node.question(&metadata).await.metadata, Some(enriched));
    let forged = format!("{{{}\"session_id\":\"s1\"}}", "\"memory_context\":0,".repeat(50_000));
    assert_eq!(
        node.question(&forged).await.metadata.unwrap(),
        r#"{"session_id":"s1","memory_context":{"answer_count":1,"last_answer":"x"}}"#
    );
    let long = format!("{{\"session_id\":\"{}\"}}", "s".repeat(3 << 20));
    assert_eq!(node.question(&long).await.effect, Effect::Ignored);
    let line = node.log.of("plugin: keepline.session").pop().unwrap();
    assert!(line.len() < 1000, "{}", line.len());
}

on_every_store! {
    metadata_that_is_not_an_object_passes_unchanged,
    unreadable_metadata_that_may_hold_a_context_is_emptied_with_strip,
    nan_and_byte_order_marks_hide_no_session_and_no_forgery,
    the_rest_of_the_metadata_stays_byte_for_byte,
    deeply_nested_metadata_is_handled_like_any_other,
    huge_metadata_is_handled_like_any_other,
}
