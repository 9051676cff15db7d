#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;

fn session(text: &str) -> Session<'_> {
    Metadata::parse(text, false, SessionIds::Strict).session
}

fn named(name: &str) -> Session<'_> {
    Session::Named(name.into())
}

#[test]
fn the_session_is_found_at_the_top_level_only() {
    assert_eq!(session(r#"{"session_id":"s1"}"#), named("s1"));
    assert_eq!(session(" {\n\"a\" : 1 , \"session_id\" : \"s1\" } "), named("s1"));
    assert_eq!(session(r#"{"a":{"session_id":"s1"}}"#), Session::None);
    assert_eq!(session(r#"["session_id"]"#), Session::None);
    assert_eq!(session(r#"{"a":"session_id"}"#), Session::None);
    assert_eq!(session(r#"{"x":"\"session_id\":\"s\""}"#), Session::None);
}

#[test]
fn the_last_of_two_sessions_counts() {
    assert_eq!(session(r#"{"session_id":"a","session_id":"b"}"#), named("b"));
    assert_eq!(session(r#"{"session_id":"a","session_id":null}"#), Session::None);
}

#[test]
fn escapes_hide_no_session() {
    assert_eq!(session(r#"{"\u0073ession_id":"s1"}"#), named("s1"));
    assert_eq!(session(r#"{"session_id":"\u0073-1"}"#), named("s-1"));
}

#[test]
fn falsy_sessions_are_none() {
    for raw in ["null", "\"\"", "0", "-0", "0.0", "0e7", "false", "[]", "[ ]", "{}", "{\n}"] {
        assert_eq!(session(&format!("{{\"session_id\": {raw} }}")), Session::None, "{raw}");
    }
}

#[test]
fn other_sessions_are_malformed() {
    for (raw, shown) in [
        ("1", "1"),
        ("true", "True"),
        ("[0]", "[0]"),
        ("{\"a\":1}", "{\"a\":1}"),
        ("\"a b\"", "'a b'"),
        ("\"a\\n\"", "'a\\n'"),
        ("\"\\ud800\"", "'\u{fffd}'"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
    ] {
        let text = format!("{{\"session_id\": {raw} }}");
        let Session::Malformed { shown: told, why } = session(&text) else { panic!("{raw}") };
        assert_eq!(
            (&*told, why),
            (shown, if raw.starts_with('"') { InvalidId::Characters } else { InvalidId::Type }),
            "{raw}"
        );
    }
}

#[test]
fn an_id_that_is_hashed_is_told_beside_the_name() {
    for (raw, id) in
        [(r#""telegram:42""#, "telegram:42"), (r#""tele\u0067ram:42""#, "telegram:42"), (r#""a\n""#, "a\n")]
    {
        let text = format!("{{\"session_id\": {raw}}}");
        let metadata = Metadata::parse(&text, false, SessionIds::Hash);
        let name = SessionIds::Hash.name(id).unwrap();
        assert_eq!((metadata.session, metadata.session_id.as_deref()), (Session::Named(name), Some(id)), "{raw}");
    }
    let plain = Metadata::parse(r#"{"session_id": "s1"}"#, false, SessionIds::Hash);
    assert_eq!((plain.session, plain.session_id), (named("s1"), None));
    for raw in ["7", "[\"s\"]", "true"] {
        let text = format!("{{\"session_id\": {raw}}}");
        let session = Metadata::parse(&text, false, SessionIds::Hash).session;
        assert!(matches!(session, Session::Malformed { why: InvalidId::Type, .. }), "{raw}");
    }
}

#[test]
fn what_is_not_an_object_has_no_session() {
    for text in [
        "session_id",
        "[\"session_id\"]",
        "{\"session_id\":\"a\"",
        "{\"session_id\":\"a\"}}",
        "{\"session_id\":nan}",
        "{'session_id':'a'}",
        "{\"session_id\":\"a\",}",
    ] {
        let metadata = Metadata::parse(text, true, SessionIds::Strict);
        assert_eq!(metadata.session, Session::None, "{text}");
        assert!(metadata.unreadable, "{text}");
        assert_eq!(metadata.stripped(), None);
    }
    assert!(!Metadata::parse("not looked through", false, SessionIds::Strict).unreadable);
}

#[test]
fn what_common_writers_emit_beside_json_hides_no_session_and_no_context() {
    for (before, after) in [
        (r#"{"memory_context":1,"x":NaN,"session_id":"s"}"#, r#"{"x":NaN,"session_id":"s"}"#),
        (
            r#"{"x":[{"y":-Infinity}],"memory_context":Infinity,"session_id":"s"}"#,
            r#"{"x":[{"y":-Infinity}],"session_id":"s"}"#,
        ),
        ("\u{feff} {\"memory_context\":1,\"session_id\":\"s\"}", "\u{feff} {\"session_id\":\"s\"}"),
        (
            r#"{"memory_context":NaN,"session_id":0,"memory_context":NaN,"session_id":"s","memory_context":NaN}"#,
            r#"{"session_id":0,"session_id":"s"}"#,
        ),
    ] {
        let metadata = Metadata::parse(before, false, SessionIds::Strict);
        assert_eq!(metadata.session, named("s"));
        assert_eq!(metadata.stripped().as_deref(), Some(after));
        let expected = format!("{},\"memory_context\":NEW}}", after.strip_suffix('}').unwrap());
        assert_eq!(metadata.enriched(3, |out| out.push_str("NEW")), expected);
    }
}

#[test]
fn what_nobody_can_read_carries_no_context_when_it_is_to_be_stripped() {
    for text in [
        r#"{"memory_context":1"#,
        r#"{"memory_context":1,}"#,
        r#"{memory_context:1}"#,
        r#"{'\x6demory_context':1}"#,
        r#"{"memory\u005fcontext":1,"x":nan}"#,
        r#"{"memory_context":1} // "#,
        r#"{"session_id":"s","memory_context":1"#,
    ] {
        let metadata = Metadata::parse(text, true, SessionIds::Strict);
        assert!(metadata.withheld, "{text}");
        assert_eq!(metadata.stripped().as_deref(), Some("{}"), "{text}");
        assert_eq!(Metadata::parse(text, false, SessionIds::Strict).stripped(), None, "{text}");
    }
    // Nothing can be hidden in these.
    for text in ["", "nonsense", "{\"session_id\":\"s\"", "[\"memory_context\"]", "\"memory_context\"", "\"\\n\""] {
        assert_eq!(Metadata::parse(text, true, SessionIds::Strict).stripped(), None, "{text}");
    }
}

#[test]
fn cuts_take_the_context_and_one_comma() {
    for (before, after) in [
        (r#"{"memory_context":1}"#, "{}"),
        (r#"{ "memory_context" : {"a":[1,2]} }"#, "{  }"),
        (r#"{"memory_context":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{ "memory_context":1 , "a":2 }"#, r#"{ "a":2 }"#),
        (r#"{"a":2, "memory_context":1}"#, r#"{"a":2}"#),
        (r#"{"a":2 , "memory_context":1 , "b": 3 }"#, r#"{"a":2 , "b": 3 }"#),
        (
            r#"{"memory_context":1,"memory_context":2,"a":2,"memory_context":3,"memory_context":4,"b":1}"#,
            r#"{"a":2,"b":1}"#,
        ),
        (r#"{"memory_context":1,"memory_context":2}"#, "{}"),
        (r#"{"a":1,"\u006demory_context":2}"#, r#"{"a":1}"#),
    ] {
        let metadata = Metadata::parse(before, true, SessionIds::Strict);
        assert_eq!(metadata.stripped().as_deref(), Some(after), "{before}");
    }
    assert_eq!(Metadata::parse(r#"{"a":{"memory_context":1}}"#, true, SessionIds::Strict).stripped(), None);
}

#[test]
fn whatever_is_the_filters_own_is_cut_and_nothing_else() {
    for name in ["context", "messages", "summary", "recall", "trace", "sections", "model"] {
        let before = format!("{{\"a\":1,\"memory_{name}\":[2],\"session_id\":\"s\",\"memory\\u005f{name}\":3}}");
        for unbound in [false, true] {
            let metadata = Metadata::parse(&before, unbound, SessionIds::Strict);
            assert_eq!(metadata.stripped().as_deref(), Some(r#"{"a":1,"session_id":"s"}"#), "{name}");
        }
        let without = format!("{{\"memory_{name}\":1}}");
        assert_eq!(Metadata::parse(&without, true, SessionIds::Strict).stripped().as_deref(), Some("{}"), "{name}");
        assert_eq!(Metadata::parse(&without, false, SessionIds::Strict).stripped(), None, "{name}");
        assert!(Metadata::parse(&format!("{{memory_{name}:1}}"), true, SessionIds::Strict).withheld, "{name}");
    }
    let kept = r#"{"session_id":"s","memory":1,"memory_":1,"memory_mode":1,"memory_question":1,"memory_contexts":1,"memorycontext":1,"my_memory_trace":1,"Memory_trace":1}"#;
    assert_eq!(Metadata::parse(kept, true, SessionIds::Strict).stripped(), None);
}

#[test]
fn the_message_id_is_a_text_at_the_top_level() {
    let id = |text: &str| Metadata::parse(text, false, SessionIds::Strict).message_id.map(Cow::into_owned);
    assert_eq!(id(r#"{"message_id":"m"}"#).as_deref(), Some("m"));
    assert_eq!(id(r#"{"message\u005fid":"\u006d","session_id":"s"}"#).as_deref(), Some("m"));
    assert_eq!(id(r#"{"message_id":"a","message_id":"b"}"#).as_deref(), Some("b"));
    for raw in ["null", "\"\"", "7", "{\"message_id\":\"m\"}", "[\"m\"]", "true"] {
        assert_eq!(id(&format!("{{\"x\":{{\"message_id\":\"m\"}},\"message_id\":{raw}}}")), None, "{raw}");
    }
    assert_eq!(id(r#"{"message_id":"m""#), None);
}

#[test]
fn the_new_context_is_put_at_the_end() {
    for (before, after) in [
        (r#"{"session_id":"s"}"#, r#"{"session_id":"s","memory_context":NEW}"#),
        (" {\"session_id\" : \"s\"\t}\n", " {\"session_id\" : \"s\",\"memory_context\":NEW\t}\n"),
        (
            r#"{"memory_context":0,"session_id":"s", "z": 1.50}"#,
            r#"{"session_id":"s", "z": 1.50,"memory_context":NEW}"#,
        ),
        (r#"{"session_id":"s","memory_context":{"forged":1}}"#, r#"{"session_id":"s","memory_context":NEW}"#),
    ] {
        let metadata = Metadata::parse(before, false, SessionIds::Strict);
        assert_eq!(metadata.enriched(3, |out| out.push_str("NEW")), after);
    }
    let empty = Metadata::parse(r#" { "memory_context":1 } "#, true, SessionIds::Strict);
    assert_eq!(empty.enriched(0, |out| out.push('2')), r#" { "memory_context":2 } "#);
    let empty = Metadata::parse(r#"{ "\u0020":1,"memory_context":1 } "#, true, SessionIds::Strict);
    assert_eq!(empty.enriched(0, |out| out.push('2')), r#"{ "\u0020":1,"memory_context":2 } "#);
}

#[test]
fn deep_metadata_are_no_danger() {
    let text = format!("{{\"a\":{}{},\"session_id\":\"s\"}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(session(&text), named("s"));
}
