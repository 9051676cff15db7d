//! The filter's rules, each held by the compiled component over every store.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use keepline::{
    EntryError, KeeplineError, OnStoreError, Plugin, Sandbox, SessionError,
    pipe::Effect,
    sessions::SessionProblemCode as Code,
    store::{FailureCode, FoundValue, MemoryLimits, MemoryStore, Outcome, Store},
};
use keepline_tests::{
    lanes::{Node, StillClock, metadata_of, operations_told, problem_code, problem_message, refused_with, untouched},
    on_every_store,
    requests::{create, get, put},
    stores::StoreUnderTest,
};
use serde_json::{Value, json};

type Given = Arc<StoreUnderTest>;

const HOUR: Duration = Duration::from_secs(3600);

on_every_store! {
    // Who has a session.
    an_entry_without_a_session_passes_untouched_and_the_store_is_not_asked,
    a_malformed_session_id_leaves_the_entry_untouched_and_is_logged,
    a_session_id_is_matched_whole_up_to_128_characters,
    no_spelling_hides_a_session_id,
    the_last_of_two_session_ids_counts,
    only_the_top_level_names_a_session,
    // What a question gets.
    a_question_gets_all_that_its_session_holds,
    a_question_of_a_new_session_is_told_nothing_and_creates_it,
    a_clients_memory_context_never_survives_in_a_session,
    a_memory_context_without_a_session_stays_or_is_cut_out_as_configured,
    what_one_process_stored_the_next_question_of_another_sees,
    numbers_and_texts_come_back_as_they_were_put,
    // What an answer leaves.
    an_answer_is_stored_and_counted_in_one_transaction,
    an_answer_that_can_not_be_counted_is_not_stored,
    every_text_comes_back_as_the_same_string,
    several_answers_to_one_question_are_all_counted_and_the_last_wins,
    // Whose an answer is.
    an_answer_without_a_session_belongs_to_the_question_before_it,
    an_answer_with_a_malformed_session_does_not_fall_back,
    the_last_of_two_questions_owns_the_answers,
    a_question_without_a_session_ends_the_one_before_it,
    opening_an_object_forgets_the_question_before_it,
    pipes_do_not_share_their_questions,
    an_answer_never_reaches_a_second_life_of_its_questions_session,
    an_answer_revives_no_session_that_was_deleted,
    an_answer_revives_no_session_that_has_expired,
    an_answer_that_names_its_session_creates_it,
    instances_hold_no_conversation,
    // History.
    history_tells_of_operations_and_never_of_values,
    a_summary_takes_the_place_of_all_but_the_newest_half,
    over_hundreds_of_answers_no_operation_is_lost_from_the_history,
    a_clear_can_make_a_summary_due,
    the_keys_touched_are_bounded_and_a_cut_is_flagged,
    a_history_of_none_is_one_summary,
    without_auto_summarize_history_is_kept_whole,
    long_histories_are_read_in_full_and_from_the_newest_end,
    // Expiry.
    a_fixed_time_to_live_runs_from_creation,
    a_sliding_time_to_live_runs_from_the_last_use,
    without_a_time_to_live_a_session_stays,
    an_expired_session_begins_anew_with_its_next_question,
    // Limits.
    an_answer_over_the_value_limit_is_neither_stored_nor_counted,
    an_enrichment_over_its_limit_is_left_out,
    a_session_with_too_many_keys_takes_no_answer,
    an_entry_over_the_entry_limit_is_forwarded_unchanged,
    the_operator_meets_the_same_limits,
    // What can't be read.
    values_that_are_not_json_are_skipped_and_not_overwritten,
    a_session_of_unreadable_values_has_nothing_to_tell,
    // When the store fails.
    when_the_store_fails_the_entry_goes_on_unchanged,
    on_request_a_failed_store_is_an_error,
    a_failing_store_does_not_let_a_forged_memory_through,
    a_value_of_the_wrong_kind_fails_one_entry_and_no_other,
    // Metadata.
    metadata_that_are_no_object_pass_untouched,
    the_rest_of_the_metadata_stays_byte_for_byte,
    deep_metadata_are_no_danger,
    huge_metadata_are_no_danger,
    // The operator's calls.
    create_and_delete_say_what_they_did,
    calls_on_a_session_that_is_not_there_say_so,
    names_outside_the_rules_are_refused_with_the_rule,
    bookkeeping_names_are_reserved,
    put_takes_json_and_nothing_else,
    get_of_a_key_that_is_not_there_is_no_error,
    keys_are_listed_sorted,
    clear_says_what_it_cleared_and_leaves_the_session,
    increment_counts_integers_of_64_bits_and_nothing_else,
    resume_tells_what_a_session_holds,
    sessions_are_listed_page_by_page,
    an_expired_session_is_reported_as_gone,
    // All together.
    every_fate_of_an_entry_is_counted,
}

// Who has a session. ----------------------------------------------------------------------------------

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
        (r#""\ud800""#, r#""\ud800""#),
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
                    format!("keepline.session: Ignoring invalid session_id in question metadata: {shown}"),
                    format!("keepline.session: Ignoring invalid session_id in answer metadata: {shown}"),
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

// What a question gets. -------------------------------------------------------------------------------

async fn a_question_gets_all_that_its_session_holds(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "Hello, wörld").await;
    node.sessions.put("s1", "user.name", "\"Ada\"").await.unwrap();
    node.sessions.put("s1", "Z", "[1, 2]").await.unwrap();
    node.log.take();

    let passed = node.question("{ \"session_id\" : \"s1\", \"k\": 1.50 }").await;
    assert_eq!((passed.effect, passed.attached, &passed.problem), (Effect::Enriched, 4, &None));
    assert_eq!(
        passed.metadata.as_deref(),
        Some(concat!(
            "{ \"session_id\" : \"s1\", \"k\": 1.50,\"memory_context\":{",
            "\"Z\":[1, 2],\"answer_count\":1,\"last_answer\":\"Hello, wörld\",\"user.name\":\"Ada\"} }",
        ))
    );
    assert_eq!(node.log.take(), ["keepline.session: Attached 4 memory keys to question for session s1"]);
}

async fn a_question_of_a_new_session_is_told_nothing_and_creates_it(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    assert!(untouched(Effect::Resumed, &node.ask("s1").await));
    assert!(untouched(Effect::Resumed, &node.ask("s1").await));
    assert_eq!(given.list(100).await, ["s1"]);
    assert_eq!(node.sessions.resume("s1").await.unwrap().key_count, 0);
}

async fn a_clients_memory_context_never_survives_in_a_session(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let forged = r#"{"memory_context":{"a":"forged"},"session_id":"s1","memory_context":"forged","b":2}"#;
    let empty = node.question(forged).await;
    assert_eq!((empty.effect, empty.metadata.as_deref()), (Effect::Resumed, Some(r#"{"session_id":"s1","b":2}"#)));

    node.sessions.put("s1", "a", "true").await.unwrap();
    let enriched = node.question(forged).await;
    assert_eq!(enriched.metadata.as_deref(), Some(r#"{"session_id":"s1","b":2,"memory_context":{"a":true}}"#));

    node.sessions.clear("s1", None).await.unwrap();
    assert_eq!(node.question(forged).await.metadata.as_deref(), Some(r#"{"session_id":"s1","b":2}"#));
}

async fn a_memory_context_without_a_session_stays_or_is_cut_out_as_configured(given: Given) {
    let cases = [
        (r#"{"memory_context":1}"#, "{}"),
        (r#"{"a":1, "memory_context":{"x":[1,2]}, "b":2}"#, r#"{"a":1, "b":2}"#),
        (r#"{"session_id":"","memory_context":1}"#, r#"{"session_id":""}"#),
        (r#"{"session_id":"a b","memory_context":1}"#, r#"{"session_id":"a b"}"#),
        (r#"{"memory\u005fcontext":1,"a":0}"#, r#"{"a":0}"#),
    ];
    let mut keep = Node::new(&given.store, "{}").await;
    let mut strip = Node::new(&given.store, r#"{"unbound_context": "strip"}"#).await;
    for (metadata, stripped) in cases {
        assert_eq!(keep.question(metadata).await.metadata, None, "{metadata}");
        assert_eq!(strip.question(metadata).await.metadata.as_deref(), Some(stripped), "{metadata}");
    }
    for nothing_to_strip in ["{}", r#"{"a":{"memory_context":1}}"#, "memory_context", r#"{"memory_context":1"#] {
        assert_eq!(strip.question(nothing_to_strip).await.metadata, None, "{nothing_to_strip}");
    }
}

async fn what_one_process_stored_the_next_question_of_another_sees(given: Given) {
    let mut one = Node::new(&given.store, "{}").await;
    let mut other = Node::new(&given.store, "{}").await;
    for round in 1..=20 {
        one.say("s1", &format!("round {round}")).await;
        let seen = other.memory("s1").await.unwrap();
        assert_eq!(seen, format!(r#"{{"answer_count":{},"last_answer":"round {round}"}}"#, 2 * round - 1));
        other.say("s1", "other").await;
        let seen = one.memory("s1").await.unwrap();
        assert_eq!(seen, format!(r#"{{"answer_count":{},"last_answer":"other"}}"#, 2 * round));
    }
}

async fn numbers_and_texts_come_back_as_they_were_put(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let digits = "9".repeat(5000);
    for value in [
        "9007199254740993",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "1.0",
        "1e400",
        "-0",
        "0.1000000000000000055511151231257827",
        "\"Grüße, 世界 🎉\"",
        r#""\ud83c\udf89 \u0000 \ud800 \/""#,
        r#"{"b":1,"a":2,"b":3}"#,
        "[ 1 ,\t2 ]",
        "\"\u{2028}\u{7f}\"",
        "null",
        &digits,
    ] {
        node.sessions.put("s1", "v", value).await.unwrap();
        assert_eq!(node.sessions.get("s1", "v").await.unwrap().value.as_deref(), Some(value));
        assert_eq!(node.memory("s1").await.unwrap(), format!("{{\"v\":{value}}}"));
    }
    // On one line, whatever blanks were between the tokens: entries are lines.
    node.sessions.put("s1", "v", "\n[1,\r\n 2]\n").await.unwrap();
    let memory = node.memory("s1").await.unwrap();
    assert!(!memory.contains(['\n', '\r']));
    assert_eq!(serde_json::from_str::<Value>(&memory).unwrap(), json!({ "v": [1, 2] }));
}

// What an answer leaves. ------------------------------------------------------------------------------

async fn an_answer_is_stored_and_counted_in_one_transaction(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for count in 1..=3 {
        let passed = node.say("s1", &format!("answer {count}")).await;
        assert!(untouched(Effect::Stored, &passed), "{passed:?}");
        assert_eq!(node.store.calls(), 1);
        assert_eq!(
            node.memory("s1").await.unwrap(),
            format!(r#"{{"answer_count":{count},"last_answer":"answer {count}"}}"#)
        );
        node.store.calls();
    }
    assert_eq!(node.log.take()[0], "keepline.session: Stored answer in session s1");
}

async fn an_answer_that_can_not_be_counted_is_not_stored(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    for uncountable in ["\"7\"", "1.5", "true", "9223372036854775807"] {
        node.sessions.put("s1", "answer_count", uncountable).await.unwrap();
        let before = node.history("s1").await;
        let passed = node.say("s1", "lost").await;
        assert_eq!(passed.effect, Effect::Failed, "{uncountable}");
        assert_eq!(node.memory("s1").await.unwrap(), format!("{{\"answer_count\":{uncountable}}}"));
        assert_eq!(node.history("s1").await, before);
    }
}

async fn every_text_comes_back_as_the_same_string(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let all: String = (0..0x300).filter_map(char::from_u32).collect();
    for text in [
        "",
        " ",
        "\0",
        "a\r\nb\tc",
        "\"quoted\" \\ back",
        "{\"an\": \"object\"}",
        "7",
        "null",
        "🎉👩‍👩‍👧‍👦\u{10ffff}\u{202e}",
        &all,
        &"long ".repeat(20_000),
    ] {
        assert_eq!(node.say("s1", text).await.effect, Effect::Stored);
        let memory: Value = serde_json::from_str(&node.memory("s1").await.unwrap()).unwrap();
        assert_eq!(memory["last_answer"], Value::from(text));
    }
}

async fn several_answers_to_one_question_are_all_counted_and_the_last_wins(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    for text in ["one", "two", "three"] {
        assert_eq!(node.reply(text).await.effect, Effect::Stored);
    }
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":3,"last_answer":"three"}"#);
}

// Whose an answer is. ---------------------------------------------------------------------------------

async fn an_answer_without_a_session_belongs_to_the_question_before_it(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    for (count, metadata) in ["{}", "", "null", r#"{"session_id":null}"#, r#"{"session_id":""}"#].iter().enumerate() {
        assert_eq!(node.answer("x", metadata).await.effect, Effect::Stored, "{metadata}");
        assert!(node.memory("s1").await.unwrap().contains(&format!("\"answer_count\":{},", count + 1)));
    }
    // Its own session goes before.
    node.say("s2", "for another").await;
    assert_eq!(node.memory("s2").await.unwrap(), r#"{"answer_count":1,"last_answer":"for another"}"#);
    assert!(node.memory("s1").await.unwrap().contains("\"answer_count\":5,"));
    // And changes nothing about whose the next one is.
    node.reply("back").await;
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":6,"last_answer":"back"}"#);
}

async fn an_answer_with_a_malformed_session_does_not_fall_back(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    for metadata in [r#"{"session_id":"a b"}"#, r#"{"session_id":5}"#, r#"{"session_id":"s1\n"}"#] {
        assert!(untouched(Effect::Ignored, &node.answer("x", metadata).await), "{metadata}");
    }
    assert_eq!(node.memory("s1").await, None);
}

async fn the_last_of_two_questions_owns_the_answers(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.ask("s2").await;
    node.reply("x").await;
    node.reply("y").await;
    assert_eq!(node.memory("s1").await, None);
    assert_eq!(node.memory("s2").await.unwrap(), r#"{"answer_count":2,"last_answer":"y"}"#);
}

async fn a_question_without_a_session_ends_the_one_before_it(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for metadata in ["{}", r#"{"session_id":"a b"}"#, r#"{"session_id":null}"#] {
        node.ask("s1").await;
        node.question(metadata).await;
        assert!(untouched(Effect::Passed, &node.reply("x").await), "{metadata}");
    }
    assert_eq!(node.memory("s1").await, None);
}

async fn opening_an_object_forgets_the_question_before_it(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.reply("first").await;
    node.pipe.open();
    assert!(untouched(Effect::Passed, &node.reply("second").await));
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"first"}"#);
}

async fn pipes_do_not_share_their_questions(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let mut other = node.keepline.pipe();
    node.ask("s1").await;
    other.question("", &metadata_of("s2")).await.unwrap();
    node.reply("one").await;
    other.answer("two", "{}").await.unwrap();
    assert!(node.memory("s1").await.unwrap().contains("\"one\""));
    assert!(node.memory("s2").await.unwrap().contains("\"two\""));
    let mut fresh = node.keepline.pipe();
    assert!(untouched(Effect::Passed, &fresh.answer("three", "{}").await.unwrap()));
}

async fn an_answer_never_reaches_a_second_life_of_its_questions_session(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.sessions.delete("s1").await.unwrap();
    node.sessions.create("s1").await.unwrap();
    assert!(untouched(Effect::Ended, &node.reply("for the first life").await));
    assert_eq!(node.memory("s1").await, None);
    assert_eq!(node.history("s1").await.len(), 0);
    assert_eq!(node.log.of("keepline.session"), ["Answer not stored: its question's session has ended: s1"]);
    // An answer that names the session means the one that is there.
    assert_eq!(node.say("s1", "for this one").await.effect, Effect::Stored);
}

async fn an_answer_revives_no_session_that_was_deleted(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.reply("first").await;
    node.sessions.delete("s1").await.unwrap();
    for _ in 0..3 {
        assert!(untouched(Effect::Ended, &node.reply("late").await));
    }
    assert_eq!(given.list(100).await, [""; 0]);
    assert_eq!(node.sessions.resume("s1").await.unwrap_err().code, Some(Code::NotFound));
}

async fn an_answer_revives_no_session_that_has_expired(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    node.ask("s1").await;
    node.reply("first").await;
    given.pass_time(HOUR);
    assert!(untouched(Effect::Ended, &node.reply("late").await));
    assert!(untouched(Effect::Ended, &node.reply("later").await));
    assert!(!given.is_there("s1").await);
    assert_eq!(given.list(100).await, [""; 0]);

    // Nor a second life of it, which another client's question has begun.
    let mut other = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    other.ask("s1").await;
    assert!(untouched(Effect::Ended, &node.reply("latest").await));
    assert_eq!(node.memory("s1").await, None);
}

async fn an_answer_that_names_its_session_creates_it(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    let state = node.sessions.resume("s1").await.unwrap();
    assert_eq!((state.key_count, state.history_length), (2, 2));
    assert!(state.expires_in.unwrap() > 3_500_000);
}

async fn instances_hold_no_conversation(given: Given) {
    // A fresh instance for each call.
    let mut sandbox = Sandbox::default();
    sandbox.calls_per_instance = 1;
    let plugin = Plugin::bundled(&sandbox).unwrap();
    let mut node = Node::of(plugin, &given.store, r#"{"max_history": 4}"#, |_| {}).await.unwrap();
    node.ask("s1").await;
    for _ in 0..10 {
        assert_eq!(node.reply("x").await.effect, Effect::Stored);
    }
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":10,"last_answer":"x"}"#);
    assert_eq!(operations_told(&node.history("s1").await), 20);
}

// History. --------------------------------------------------------------------------------------------

async fn history_tells_of_operations_and_never_of_values(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.reply("a secret").await;
    node.clock.advance(Duration::from_micros(967_405));
    node.sessions.put("s1", "k", "\"a secret\"").await.unwrap();
    node.sessions.increment("s1", "n", 5).await.unwrap();
    node.sessions.clear("s1", Some("k")).await.unwrap();
    node.sessions.clear("s1", Some("absent")).await.unwrap();
    node.sessions.clear("s1", None).await.unwrap();
    let entries = node.sessions.history("s1", 0).await.unwrap().entries;
    let start = StillClock::START;
    assert_eq!(entries, [
        format!(r#"{{"op": "put", "key": "last_answer", "timestamp": {start}}}"#),
        format!(r#"{{"op": "increment", "key": "answer_count", "timestamp": {start}}}"#),
        r#"{"op": "put", "key": "k", "timestamp": 1795186918.0}"#.into(),
        r#"{"op": "increment", "key": "n", "timestamp": 1795186918.0}"#.into(),
        r#"{"op": "clear", "key": "k", "timestamp": 1795186918.0}"#.into(),
        r#"{"op": "clear", "key": "absent", "timestamp": 1795186918.0}"#.into(),
        r#"{"op": "clear", "key": null, "cleared": ["answer_count", "last_answer", "n"], "timestamp": 1795186918.0}"#
            .into(),
    ]);
}

async fn a_summary_takes_the_place_of_all_but_the_newest_half(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_history": 5}"#).await;
    node.sessions.create("s1").await.unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    assert_eq!(node.sessions.resume("s1").await.unwrap().history_length, 5);
    node.sessions.increment("s1", "f", 1).await.unwrap();
    let start = StillClock::START;
    let entries = node.sessions.history("s1", 0).await.unwrap().entries;
    assert_eq!(
        entries,
        [
            format!(
                r#"{{"op": "summary", "summarized_count": 4, "op_counts": {{"put": 4}}, "keys_touched": ["a", "b", "c", "d"], "timestamp": {start}}}"#
            ),
            format!(r#"{{"op": "put", "key": "e", "timestamp": {start}}}"#),
            format!(r#"{{"op": "increment", "key": "f", "timestamp": {start}}}"#),
        ]
    );

    // The next one is merged with it.
    for key in ["g", "a", "e"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    let entries = node.sessions.history("s1", 0).await.unwrap().entries;
    assert_eq!(entries.len(), 3);
    assert_eq!(
        entries[0],
        format!(
            r#"{{"op": "summary", "summarized_count": 7, "op_counts": {{"put": 6, "increment": 1}}, "keys_touched": ["a", "b", "c", "d", "e", "f", "g"], "timestamp": {start}}}"#
        )
    );
}

async fn over_hundreds_of_answers_no_operation_is_lost_from_the_history(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    for answers in 1..=400_u64 {
        node.reply("x").await;
        if answers % 10 == 0 {
            node.sessions.clear("s1", Some("absent")).await.unwrap();
        }
        if answers % 25 == 0 {
            let history = node.history("s1").await;
            assert!(history.len() <= 100, "{}", history.len());
            assert_eq!(operations_told(&history), answers * 2 + answers / 10);
        }
    }
    let history = node.history("s1").await;
    let summaries: Vec<_> = history.iter().filter(|record| record["op"] == "summary").collect();
    let [summary] = *summaries else { panic!("{summaries:?}") };
    let mut counts = summary["op_counts"].clone();
    for record in &history {
        if let Some(count) = counts.get_mut(record["op"].as_str().unwrap()) {
            *count = (count.as_u64().unwrap() + 1).into();
        }
    }
    assert_eq!(counts, json!({ "put": 400, "increment": 400, "clear": 40 }));
    assert_eq!(summary["keys_touched"], json!(["absent", "answer_count", "last_answer"]));
    assert_eq!(summary["keys_truncated"], Value::Null);
}

async fn a_clear_can_make_a_summary_due(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_history": 5}"#).await;
    node.sessions.create("s1").await.unwrap();
    for round in 0..20 {
        let key = (round % 2 == 0).then_some("k");
        node.sessions.clear("s1", key).await.unwrap();
        assert!(node.sessions.resume("s1").await.unwrap().history_length <= 5);
    }
    assert_eq!(operations_told(&node.history("s1").await), 20);
}

async fn the_keys_touched_are_bounded_and_a_cut_is_flagged(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_history": 10}"#).await;
    node.sessions.create("s1").await.unwrap();
    for number in 0..400 {
        node.sessions.put("s1", &format!("{}{number}", "k".repeat(200)), "0").await.unwrap();
    }
    let history = node.history("s1").await;
    assert!(history.len() <= 10);
    assert_eq!(operations_told(&history), 400);
    let summary = &history[0];
    assert_eq!(summary["keys_truncated"], true);
    let touched = summary["keys_touched"].as_array().unwrap();
    assert!((100..=256).contains(&touched.len()), "{}", touched.len());
    assert!(touched.is_sorted_by_key(|key| key.as_str()));
}

async fn a_history_of_none_is_one_summary(given: Given) {
    for max_history in [0, 1] {
        let session = format!("s{max_history}");
        let mut node = Node::new(&given.store, &format!("{{\"max_history\": {max_history}}}")).await;
        for answers in 1..=20 {
            node.say(&session, "x").await;
            let history = node.history(&session).await;
            assert_eq!(history.len(), 1, "{history:?}");
            assert_eq!(history[0]["summarized_count"], answers * 2);
        }
    }
}

async fn without_auto_summarize_history_is_kept_whole(given: Given) {
    let mut node = Node::new(&given.store, r#"{"auto_summarize": false, "max_history": 3}"#).await;
    for _ in 0..60 {
        node.say("s1", "x").await;
    }
    assert_eq!(node.history("s1").await.len(), 120);
    // Who summarises later has all of it.
    let mut node = Node::new(&given.store, r#"{"max_history": 3}"#).await;
    node.say("s1", "x").await;
    let history = node.history("s1").await;
    assert!(history.len() <= 3, "{}", history.len());
    assert_eq!(operations_told(&history), 122);
}

async fn long_histories_are_read_in_full_and_from_the_newest_end(given: Given) {
    let mut node = Node::new(&given.store, r#"{"auto_summarize": false}"#).await;
    node.sessions.create("s1").await.unwrap();
    for number in 0..1200 {
        node.sessions.clear("s1", Some(&format!("k{number}"))).await.unwrap();
    }
    let keys = |entries: Vec<String>| -> Vec<String> {
        let key = |entry: &String| serde_json::from_str::<Value>(entry).unwrap()["key"].as_str().unwrap().to_owned();
        entries.iter().map(key).collect()
    };
    let all: Vec<_> = (0..1200).map(|number| format!("k{number}")).collect();
    assert_eq!(keys(node.sessions.history("s1", 0).await.unwrap().entries), all);
    assert_eq!(keys(node.sessions.history("s1", u32::MAX).await.unwrap().entries), all);
    for limit in [1, 2, 999, 1000, 1001, 1199, 1200, 1201] {
        let entries = node.sessions.history("s1", limit).await.unwrap().entries;
        assert_eq!(keys(entries), all[1200 - (limit as usize).min(1200)..]);
    }
}

// Expiry. ---------------------------------------------------------------------------------------------

const MINUTE: Duration = Duration::from_secs(60);

async fn a_fixed_time_to_live_runs_from_creation(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    node.ask("s1").await;
    for _ in 0..5 {
        given.pass_time(10 * MINUTE);
        assert_eq!(node.reply("x").await.effect, Effect::Stored);
        node.ask("s1").await;
        node.sessions.resume("s1").await.unwrap();
    }
    given.pass_time(9 * MINUTE);
    let left = node.sessions.resume("s1").await.unwrap().expires_in.unwrap();
    assert!((30_000..=60_000).contains(&left), "{left}");
    given.pass_time(MINUTE);
    assert!(!given.is_there("s1").await);
    assert!(untouched(Effect::Ended, &node.reply("late").await));
}

async fn a_sliding_time_to_live_runs_from_the_last_use(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1, "session_ttl_mode": "sliding"}"#).await;
    node.ask("s1").await;
    node.reply("x").await;
    for _ in 0..3 {
        given.pass_time(50 * MINUTE);
        assert_eq!(node.reply("x").await.effect, Effect::Stored);
        given.pass_time(50 * MINUTE);
        assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
        given.pass_time(50 * MINUTE);
        let left = node.sessions.resume("s1").await.unwrap().expires_in.unwrap();
        assert!(left > 3_500_000, "{left}");
        // A renewal that is due for less than 1 % may be left out.
        given.pass_time(Duration::from_secs(20));
        node.sessions.get("s1", "last_answer").await.unwrap();
    }
    given.pass_time(HOUR);
    assert!(!given.is_there("s1").await);
    assert!(untouched(Effect::Ended, &node.reply("late").await));
}

async fn without_a_time_to_live_a_session_stays(given: Given) {
    for options in ["{}", r#"{"session_ttl_hours": 0}"#, r#"{"session_ttl_hours": 0.0, "session_ttl_mode": "sliding"}"#]
    {
        let mut node = Node::new(&given.store, options).await;
        node.say("s1", "x").await;
        assert_eq!(node.sessions.resume("s1").await.unwrap().expires_in, None);
        given.pass_time(24 * 365 * 50 * HOUR);
        assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    }
}

async fn an_expired_session_begins_anew_with_its_next_question(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    for _ in 0..3 {
        assert!(untouched(Effect::Resumed, &node.ask("s1").await));
        node.reply("x").await;
        node.sessions.put("s1", "k", "1").await.unwrap();
        assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"k":1,"last_answer":"x"}"#);
        assert_eq!(node.history("s1").await.len(), 3);
        given.pass_time(HOUR);
    }
}

// Limits. ---------------------------------------------------------------------------------------------

async fn an_answer_over_the_value_limit_is_neither_stored_nor_counted(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_value_bytes": 10}"#).await;
    node.ask("s1").await;
    assert_eq!(node.reply("12345678").await.effect, Effect::Stored);
    // Counted as it is stored: with quotes and escapes, in bytes.
    for (warned, text) in ["123456789", "1234567\n", "1234567é", &"x".repeat(100_000)].into_iter().enumerate() {
        let passed = node.reply(text).await;
        assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Limited, None));
        assert_eq!(problem_code(&passed), "limit");
        assert_eq!(problem_message(&passed), "Answer in session s1 is over max_value_bytes (10)");
        if warned == 0 {
            assert_eq!(node.log.warnings(), ["keepline.limit: Answer in session s1 is over max_value_bytes (10)"]);
        }
    }
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"12345678"}"#);
    assert_eq!(node.history("s1").await.len(), 2);
    // A malformed or missing session is no matter of limits.
    node.pipe.open();
    assert!(untouched(Effect::Passed, &node.reply(&"x".repeat(100)).await));
}

async fn an_enrichment_over_its_limit_is_left_out(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_context_bytes": 30}"#).await;
    node.sessions.create("s1").await.unwrap();
    // Key and value together.
    node.sessions.put("s1", "key", &"1".repeat(27)).await.unwrap();
    assert_eq!(node.ask("s1").await.effect, Effect::Enriched);
    node.sessions.put("s1", "key", &"1".repeat(28)).await.unwrap();
    let passed = node.question(r#"{"session_id":"s1","memory_context":"forged"}"#).await;
    assert_eq!((passed.effect, passed.attached), (Effect::Limited, 0));
    assert_eq!(passed.metadata.as_deref(), Some(r#"{"session_id":"s1"}"#));
    assert_eq!(problem_code(&passed), "limit");
    assert_eq!(problem_message(&passed), "Memory of session s1 (31 bytes) is over max_context_bytes (30)");
    assert_eq!(node.log.warnings(), ["keepline.limit: Memory of session s1 (31 bytes) is over max_context_bytes (30)"]);
    // Its answers are stored all the same.
    assert_eq!(node.reply("x").await.effect, Effect::Stored);
}

async fn a_session_with_too_many_keys_takes_no_answer(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_keys": 3}"#).await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "a", "1").await.unwrap();
    node.sessions.put("s1", "b", "2").await.unwrap();
    let passed = node.say("s1", "x").await;
    assert_eq!(passed.effect, Effect::Limited);
    assert_eq!(problem_message(&passed), "Answer in session s1 finds no room within max_keys (3)");
    assert_eq!(node.log.warnings(), ["keepline.limit: Answer in session s1 finds no room within max_keys (3)"]);
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"a":1,"b":2}"#);
    assert_eq!(node.history("s1").await.len(), 2);

    node.sessions.clear("s1", Some("a")).await.unwrap();
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    assert_eq!(node.say("s1", "y").await.effect, Effect::Stored);
    let full = node.sessions.put("s1", "c", "3").await.unwrap_err();
    assert_eq!(full, refusal(Code::Limit, "Session 's1' holds max_keys (3) keys"));
    // What is there can be changed.
    node.sessions.put("s1", "b", "3").await.unwrap();
    assert_eq!(node.say("s1", "z").await.effect, Effect::Stored);

    // Somebody else's limit may have been a higher one.
    let mut smaller = Node::new(&given.store, r#"{"max_keys": 2}"#).await;
    let passed = smaller.ask("s1").await;
    assert_eq!(passed.effect, Effect::Limited);
    assert_eq!(problem_message(&passed), "Memory of session s1 (3 keys) is over max_keys (2)");
}

async fn an_entry_over_the_entry_limit_is_forwarded_unchanged(given: Given) {
    let mut node = Node::with(&given.store, "{}", |options| options.max_entry_bytes = 60).await;
    let metadata = metadata_of("s1");
    let room = 60 - metadata.len();
    assert_eq!(node.answer(&"x".repeat(room), &metadata).await.effect, Effect::Stored);
    node.store.calls();
    for passed in [
        node.pipe.question(&"x".repeat(room + 1), &metadata).await.unwrap(),
        node.pipe.answer(&"x".repeat(room + 1), &metadata).await.unwrap(),
        node.question(&format!("{}{metadata}", " ".repeat(60))).await,
    ] {
        assert_eq!((passed.effect, &passed.metadata), (Effect::Limited, &None));
        assert!(problem_message(&passed).contains("max_entry_bytes (60)"), "{passed:?}");
    }
    assert_eq!(node.store.calls(), 0);
    assert_eq!(node.counters().limited, 3);
    assert!(node.log.warnings()[0].starts_with("keepline.limit: an entry of 61 bytes is over max_entry_bytes (60)"));
    assert!(node.memory("s1").await.unwrap().contains("\"answer_count\":1"));
}

async fn the_operator_meets_the_same_limits(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_value_bytes": 5, "max_keys": 2}"#).await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "a", "12345").await.unwrap();
    let refused = node.sessions.put("s1", "a", "123456").await.unwrap_err();
    assert_eq!(refused, refusal(Code::Limit, "Value of 6 bytes is over max_value_bytes (5)"));
    node.sessions.increment("s1", "b", 1).await.unwrap();
    let refused = node.sessions.increment("s1", "c", 1).await.unwrap_err();
    assert_eq!(refused, refusal(Code::Limit, "Session 's1' holds max_keys (2) keys"));
    assert_eq!(node.history("s1").await.len(), 2);
    assert_eq!(
        node.log.of("keepline.limit"),
        ["Value of 6 bytes is over max_value_bytes (5)", "Session 's1' holds max_keys (2) keys"]
    );

    given.apply("s1", create(), [put("a", "1234567")]).await;
    let refused = node.sessions.get("s1", "a").await.unwrap_err();
    assert_eq!(refused, refusal(Code::Limit, "Stored value of key 'a' is over max_value_bytes (5)"));
}

// What can't be read. ---------------------------------------------------------------------------------

async fn values_that_are_not_json_are_skipped_and_not_overwritten(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "x").await;
    node.log.take();
    given.apply("s1", create(), [put("nan", "NaN"), put("cut", "{\"a\": "), put("two", "1 2"), put("void", "")]).await;
    let passed = node.ask("s1").await;
    assert_eq!((passed.effect, passed.attached), (Effect::Enriched, 2));
    assert_eq!(
        passed.metadata.as_deref(),
        Some(r#"{"session_id":"s1","memory_context":{"answer_count":1,"last_answer":"x"}}"#)
    );
    assert_eq!(
        node.log.warnings(),
        ["keepline.value: Skipped 4 stored values of session s1 that are not valid JSON: 'cut', 'nan', 'two', 'void'"]
    );

    assert_eq!(node.reply("y").await.effect, Effect::Stored);
    let keys = node.sessions.keys("s1").await.unwrap().keys;
    assert_eq!(keys, ["answer_count", "cut", "last_answer", "nan", "two", "void"]);
    let refused = node.sessions.get("s1", "cut").await.unwrap_err();
    assert_eq!(refused, refusal(Code::InvalidValue, "Stored value of key 'cut' is not valid JSON"));
    assert_eq!(
        given.apply_one("s1", get("cut")).await,
        Outcome::Value(FoundValue { json: Some("{\"a\": ".into()), unreadable: false })
    );

    // The operator can mend it.
    node.sessions.put("s1", "cut", "{}").await.unwrap();
    node.sessions.clear("s1", Some("nan")).await.unwrap();
    assert_eq!(node.ask("s1").await.attached, 3);
}

async fn a_session_of_unreadable_values_has_nothing_to_tell(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let broken: Vec<_> = (0..20).map(|number| put(&format!("k{number:02}"), "'")).collect();
    given.apply("s1", create(), broken).await;
    let passed = node.question(r#"{"session_id":"s1","memory_context":1}"#).await;
    assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Resumed, Some(r#"{"session_id":"s1"}"#)));
    let warnings = node.log.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("keepline.value: Skipped 20 stored values"), "{warnings:?}");
    assert!(warnings[0].ends_with("'k07', …"), "{warnings:?}");
}

// When the store fails. -------------------------------------------------------------------------------

async fn when_the_store_fails_the_entry_goes_on_unchanged(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.say("s1", "before").await;
    node.log.take();
    node.store.fail(Some(FailureCode::Unavailable));
    let question = node.ask("s1").await;
    let answer = node.reply("lost").await;
    for passed in [&question, &answer] {
        assert_eq!((passed.effect, passed.metadata.as_deref(), passed.attached), (Effect::Failed, None, 0));
        assert_eq!(problem_code(passed), "unavailable");
        assert_eq!(problem_message(passed), "the store is out of order");
    }
    assert_eq!(
        node.log.take(),
        [
            "keepline.store: No memory for a question of session s1: the store is out of order",
            "keepline.store: Answer not stored in session s1: the store is out of order",
        ]
    );
    // Thousands of them are a few warnings.
    for _ in 0..500 {
        node.ask("s1").await;
        node.reply("lost").await;
    }
    assert!(node.log.warnings().len() <= 3);
    assert_eq!(node.counters().failed, 1002);

    // A question that could not look is followed by an answer that is stored, once the store is back.
    node.store.fail(None);
    assert_eq!(node.reply("after").await.effect, Effect::Stored);
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":2,"last_answer":"after"}"#);
}

async fn on_request_a_failed_store_is_an_error(given: Given) {
    let mut node = Node::with(&given.store, "{}", |options| options.on_store_error = OnStoreError::Fail).await;
    let metadata = metadata_of("s1");
    node.say("s1", "before").await;
    for (code, spelt) in [
        (FailureCode::Unavailable, "unavailable"),
        (FailureCode::TimedOut, "timed-out"),
        (FailureCode::Denied, "denied"),
        (FailureCode::ReadOnly, "read-only"),
        (FailureCode::Full, "full"),
        (FailureCode::WrongType, "wrong-type"),
        (FailureCode::Other, "other"),
    ] {
        node.store.fail(Some(code));
        let question = node.pipe.question("", &metadata).await;
        assert!(refused_with(spelt, &question), "{question:?}");
        assert!(refused_with(spelt, &node.pipe.answer("x", &metadata).await));
        assert!(refused_with(spelt, &node.pipe.answer("x", "{}").await));
        let EntryError { message, .. } = question.unwrap_err();
        assert_eq!(message, "the store is out of order");
    }
    // Entries without a session don't need a store; limits are no failure of it.
    assert!(untouched(Effect::Passed, &node.question("{}").await));
    node.store.fail(None);
    assert_eq!(node.reply("x").await.effect, Effect::Passed);
    assert_eq!(node.say("s1", &"x".repeat(2 << 20)).await.effect, Effect::Limited);
    assert!(node.memory("s1").await.unwrap().contains("before"));
}

async fn a_failing_store_does_not_let_a_forged_memory_through(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.store.fail(Some(FailureCode::TimedOut));
    let passed = node.question(r#"{"session_id":"s1","memory_context":{"a":1},"b":2}"#).await;
    assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Failed, Some(r#"{"session_id":"s1","b":2}"#)));
}

async fn a_value_of_the_wrong_kind_fails_one_entry_and_no_other(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "answer_count", "\"many\"").await.unwrap();
    node.log.take();
    node.ask("s1").await;
    let passed = node.reply("x").await;
    assert_eq!((passed.effect, problem_code(&passed)), (Effect::Failed, "not-a-counter"));
    assert_eq!(node.log.warnings().len(), 1);
    assert_eq!(node.say("s2", "x").await.effect, Effect::Stored);
}

// Metadata. -------------------------------------------------------------------------------------------

async fn metadata_that_are_no_object_pass_untouched(given: Given) {
    let mut node = Node::new(&given.store, r#"{"unbound_context": "strip"}"#).await;
    for metadata in [
        "session_id",
        "[\"session_id\", \"s1\"]",
        "{\"session_id\":\"s1\"",
        "{\"session_id\":\"s1\"}}",
        "{\"session_id\":\"s1\",}",
        "{\"session_id\":\"s1\"} {\"session_id\":\"s1\"}",
        "{'session_id':'s1'}",
        "{session_id:\"s1\"}",
        "{\"session_id\":\"s1\",\"x\":NaN}",
        "{\"session_id\":\"s1\",\"x\":Infinity}",
        "{\"session_id\":\"s1\",\"x\":01}",
        "{\"session_id\":\"s1\",\"x\":\"\u{1}\"}",
        "{\"session_id\":\"s1\",\"x\":\"\\x\"}",
        "\u{feff}{\"session_id\":\"s1\"}",
        "{\"session_id\":\"s1\"}\0",
        "{\"memory_context\":1,\"session_id\":\"s1\"",
    ] {
        let question = node.question(metadata).await;
        assert!(untouched(Effect::Passed, &question), "{metadata}: {question:?}");
        assert!(untouched(Effect::Passed, &node.answer("x", metadata).await), "{metadata}");
    }
    assert_eq!(node.store.calls(), 0);
    assert_eq!(node.log.take()[0], "keepline.session: No JSON object in question metadata: no session");
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

async fn deep_metadata_are_no_danger(given: Given) {
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
        node.sessions.put("s1", "deep", &deep).await.unwrap();
        assert_eq!(node.memory("s1").await.unwrap(), format!("{{\"deep\":{deep},\"k\":1}}"));
        node.sessions.clear("s1", Some("deep")).await.unwrap();
    }
}

async fn huge_metadata_are_no_danger(given: Given) {
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
    let line = node.log.of("keepline.session").pop().unwrap();
    assert!(line.len() < 1000, "{}", line.len());
}

// The operator's calls. -------------------------------------------------------------------------------

fn refusal(code: Code, message: &str) -> SessionError {
    let mut error = Err::<(), _>(keepline::contract::sessions::SessionProblem { code, message: message.into() });
    SessionError::from(std::mem::replace(&mut error, Ok(())).unwrap_err())
}

async fn create_and_delete_say_what_they_did(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let created = node.sessions.create("s1").await.unwrap();
    assert_eq!(created.session, "s1");
    assert_eq!(
        node.sessions.create("s1").await.unwrap_err(),
        refusal(Code::AlreadyExists, "Session 's1' already exists")
    );
    node.say("s1", "x").await;
    let deleted = node.sessions.delete("s1").await.unwrap();
    assert_eq!(
        (&*deleted.session, &*deleted.keys_cleared),
        ("s1", &["answer_count".to_owned(), "last_answer".into()][..])
    );
    assert_eq!(node.sessions.delete("s1").await.unwrap_err(), refusal(Code::NotFound, "Session 's1' not found"));
    let again = node.sessions.create("s1").await.unwrap();
    assert_ne!(again.incarnation, created.incarnation);
    assert_eq!(node.sessions.resume("s1").await.unwrap().incarnation, again.incarnation);
    assert_eq!(node.history("s1").await.len(), 0);
}

async fn calls_on_a_session_that_is_not_there_say_so(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let missing = refusal(Code::NotFound, "Session 's1' not found");
    assert_eq!(node.sessions.resume("s1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.delete("s1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.put("s1", "k", "1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.get("s1", "k").await.unwrap_err(), missing);
    assert_eq!(node.sessions.keys("s1").await.unwrap_err(), missing);
    assert_eq!(node.sessions.clear("s1", Some("k")).await.unwrap_err(), missing);
    assert_eq!(node.sessions.clear("s1", None).await.unwrap_err(), missing);
    assert_eq!(node.sessions.increment("s1", "k", 1).await.unwrap_err(), missing);
    assert_eq!(node.sessions.history("s1", 0).await.unwrap_err(), missing);
    assert_eq!(given.list(100).await, [""; 0]);
}

async fn names_outside_the_rules_are_refused_with_the_rule(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    node.store.calls();
    let long = "x".repeat(129);
    for (name, shown) in [
        ("", "''"),
        ("a\n", "'a\\n'"),
        ("a.b", "'a.b'"),
        ("it's", "\"it's\""),
        ("é", "'é'"),
        (&*long, &*format!("'{long}'")),
    ] {
        let refused = refusal(
            Code::InvalidSession,
            &format!("Invalid session_id: {shown}. Must be 1-128 alphanumeric characters, hyphens, or underscores."),
        );
        assert_eq!(node.sessions.create(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.resume(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.delete(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.put(name, "k", "1").await.unwrap_err(), refused);
        assert_eq!(node.sessions.get(name, "k").await.unwrap_err(), refused);
        assert_eq!(node.sessions.keys(name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.clear(name, None).await.unwrap_err(), refused);
        assert_eq!(node.sessions.increment(name, "k", 1).await.unwrap_err(), refused);
        assert_eq!(node.sessions.history(name, 0).await.unwrap_err(), refused);
    }
    let long = "x".repeat(257);
    for (name, shown) in
        [("", "''"), ("k\n", "'k\\n'"), ("a b", "'a b'"), ("a:b", "'a:b'"), ("é", "'é'"), (&*long, "'xxx")]
    {
        let begin = format!("Invalid key: {shown}");
        let end = ". Must be 1-256 alphanumeric characters, hyphens, underscores, or dots.";
        for error in [
            node.sessions.put("s1", name, "1").await.unwrap_err(),
            node.sessions.get("s1", name).await.unwrap_err(),
            node.sessions.clear("s1", Some(name)).await.unwrap_err(),
            node.sessions.increment("s1", name, 1).await.unwrap_err(),
        ] {
            assert_eq!(error.code, Some(Code::InvalidKey));
            assert!(error.message.starts_with(&begin) && error.message.ends_with(end), "{error}");
        }
    }
    assert_eq!(node.store.calls(), 0);
    for good in ["x".repeat(256), "-".into(), "..".into(), "_a.B-9".into()] {
        node.sessions.put("s1", &good, "1").await.unwrap();
    }
}

async fn bookkeeping_names_are_reserved(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    for name in ["__keys__", "__history__", "__meta__", "__writers__", "__transcript__", "__x__", "____", "__"] {
        let message = format!("Invalid key: '{name}'. Names that begin and end with two underscores are reserved.");
        let refused = refusal(Code::InvalidKey, &message);
        assert_eq!(node.sessions.put("s1", name, "1").await.unwrap_err(), refused);
        assert_eq!(node.sessions.get("s1", name).await.unwrap_err(), refused);
        assert_eq!(node.sessions.clear("s1", Some(name)).await.unwrap_err(), refused);
        assert_eq!(node.sessions.increment("s1", name, 1).await.unwrap_err(), refused);
    }
    for name in ["__keys", "keys__", "_keys_"] {
        node.sessions.put("s1", name, "1").await.unwrap();
    }
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
}

async fn put_takes_json_and_nothing_else(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let stored = node.sessions.put("s1", "k", " {\"a\": [1, null]} \n").await.unwrap();
    assert_eq!((&*stored.session, &*stored.key), ("s1", "k"));
    assert_eq!(node.sessions.get("s1", "k").await.unwrap().value.as_deref(), Some("{\"a\": [1, null]}"));
    let refused = refusal(Code::InvalidValue, "Value of key 'k' is not valid JSON");
    for value in ["", " ", "x", "{", "1 2", "NaN", "Infinity", "'a'", "[1,]", "\"\n\"", "01", "+1", "\"\\x\"", "tru"] {
        assert_eq!(node.sessions.put("s1", "k", value).await.unwrap_err(), refused, "{value}");
    }
    assert_eq!(node.history("s1").await.len(), 1);
}

async fn get_of_a_key_that_is_not_there_is_no_error(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let found = node.sessions.get("s1", "k").await.unwrap();
    assert_eq!((&*found.session, &*found.key, found.value), ("s1", "k", None));
}

async fn keys_are_listed_sorted(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    assert_eq!(node.sessions.keys("s1").await.unwrap().keys, [""; 0]);
    for key in ["b", "a.z", "B", "-", "_", "10", "9", "a"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    assert_eq!(node.sessions.keys("s1").await.unwrap().keys, ["-", "10", "9", "B", "_", "a", "a.z", "b"]);
}

async fn clear_says_what_it_cleared_and_leaves_the_session(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let created = node.sessions.create("s1").await.unwrap();
    for key in ["c", "a", "b"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    assert_eq!(node.sessions.clear("s1", Some("b")).await.unwrap().cleared, ["b"]);
    assert_eq!(node.sessions.clear("s1", Some("b")).await.unwrap().cleared, [""; 0]);
    assert_eq!(node.sessions.clear("s1", None).await.unwrap().cleared, ["a", "c"]);
    assert_eq!(node.sessions.clear("s1", None).await.unwrap().cleared, [""; 0]);
    let state = node.sessions.resume("s1").await.unwrap();
    assert_eq!((state.key_count, state.history_length, state.incarnation), (0, 7, created.incarnation));
    // A counter starts anew.
    node.say("s1", "x").await;
    assert!(node.memory("s1").await.unwrap().contains("\"answer_count\":1,"));
}

async fn increment_counts_integers_of_64_bits_and_nothing_else(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", 3).await.unwrap().value, 3);
    assert_eq!(node.sessions.increment("s1", "n", -5).await.unwrap().value, -2);
    assert_eq!(node.sessions.increment("s1", "n", 0).await.unwrap().value, -2);
    node.sessions.put("s1", "n", "9007199254740993").await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", 2).await.unwrap().value, 9_007_199_254_740_995);
    assert_eq!(node.sessions.get("s1", "n").await.unwrap().value.as_deref(), Some("9007199254740995"));

    let message = "Counter 'n' in session 's1' would leave the range of a signed 64-bit integer";
    node.sessions.put("s1", "n", &i64::MAX.to_string()).await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", 1).await.unwrap_err(), refusal(Code::NotACounter, message));
    node.sessions.put("s1", "n", &(i64::MIN + 1).to_string()).await.unwrap();
    assert_eq!(node.sessions.increment("s1", "n", -2).await.unwrap_err(), refusal(Code::NotACounter, message));
    assert_eq!(node.sessions.increment("s1", "n", i64::MAX).await.unwrap().value, 0);
    assert_eq!(node.sessions.increment("s1", "m", i64::MIN).await.unwrap().value, i64::MIN);

    let refused = refusal(Code::NotACounter, "Value of key 'v' in session 's1' is not a counter");
    for value in ["\"7\"", "1.5", "1.0", "true", "null", "[1]", "9223372036854775808", "-0", "1e2"] {
        node.sessions.put("s1", "v", value).await.unwrap();
        assert_eq!(node.sessions.increment("s1", "v", 1).await.unwrap_err(), refused, "{value}");
        assert_eq!(node.sessions.get("s1", "v").await.unwrap().value.as_deref(), Some(value));
    }
}

async fn resume_tells_what_a_session_holds(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 2}"#).await;
    let created = node.sessions.create("s1").await.unwrap();
    node.say("s1", "x").await;
    node.sessions.clear("s1", Some("last_answer")).await.unwrap();
    let state = node.sessions.resume("s1").await.unwrap();
    assert_eq!((&*state.session, state.incarnation), ("s1", created.incarnation));
    assert_eq!((state.key_count, state.history_length), (1, 3));
    let left = state.expires_in.unwrap();
    assert!((7_100_000..=7_200_000).contains(&left), "{left}");
}

async fn sessions_are_listed_page_by_page(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    assert_eq!(node.sessions.list("", 10).await.unwrap().sessions, [""; 0]);
    let mut all: Vec<_> = (0..250).map(|number| format!("s{number}")).collect();
    for session in &all {
        node.sessions.create(session).await.unwrap();
    }
    all.sort_unstable();
    for limit in [0, 1, 7, 100, 250, 10_000, u32::MAX] {
        let (mut listed, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = node.sessions.list(&cursor, limit).await.unwrap();
            assert!(page.sessions.is_sorted());
            listed.extend(page.sessions);
            cursor = page.cursor;
            if cursor.is_empty() {
                break;
            }
        }
        listed.sort_unstable();
        listed.dedup();
        assert_eq!(listed, all, "{limit}");
    }
    node.sessions.list("no cursor of ours", 5).await.unwrap();
}

async fn an_expired_session_is_reported_as_gone(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    let (expired, missing) =
        (refusal(Code::Expired, "Session 's1' has expired"), refusal(Code::NotFound, "Session 's1' not found"));
    for call in 0..9 {
        node.sessions.create("s1").await.unwrap();
        given.pass_time(HOUR);
        let told = match call {
            0 => node.sessions.resume("s1").await.unwrap_err(),
            1 => node.sessions.put("s1", "k", "1").await.unwrap_err(),
            2 => node.sessions.get("s1", "k").await.unwrap_err(),
            3 => node.sessions.keys("s1").await.unwrap_err(),
            4 => node.sessions.clear("s1", Some("k")).await.unwrap_err(),
            5 => node.sessions.clear("s1", None).await.unwrap_err(),
            6 => node.sessions.increment("s1", "k", 1).await.unwrap_err(),
            7 => node.sessions.history("s1", 0).await.unwrap_err(),
            _ => node.sessions.delete("s1").await.unwrap_err(),
        };
        assert_eq!(told, expired, "{call}");
        assert_eq!(node.sessions.resume("s1").await.unwrap_err(), missing, "{call}");
    }
}

// All together. ---------------------------------------------------------------------------------------

async fn every_fate_of_an_entry_is_counted(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_value_bytes": 100}"#).await;
    node.question("{}").await;
    node.ask("a b").await;
    node.ask("s1").await;
    node.reply("x").await;
    node.ask("s1").await;
    node.reply(&"x".repeat(200)).await;
    node.sessions.delete("s1").await.unwrap();
    node.reply("x").await;
    node.store.fail(Some(FailureCode::Other));
    node.ask("s1").await;
    let counters = node.counters();
    assert_eq!([counters.passed, counters.ignored, counters.resumed, counters.enriched], [1, 1, 1, 1]);
    assert_eq!([counters.stored, counters.limited, counters.ended, counters.failed, counters.faults], [1, 1, 1, 1, 0]);
}

// On one store only. ----------------------------------------------------------------------------------

#[tokio::test]
async fn the_store_in_memory_takes_a_thousand_sessions_and_says_so() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(MemoryLimits::default()));
    let mut node = Node::new(&store, "{}").await;
    for number in 0..1000 {
        assert_eq!(node.say(&format!("s{number}"), "x").await.effect, Effect::Stored);
    }
    node.log.take();
    for passed in [node.ask("one-more").await, node.say("one-more", "x").await] {
        assert_eq!((passed.effect, passed.metadata.as_deref()), (Effect::Failed, None));
        assert_eq!(problem_code(&passed), "too-many-buckets");
        assert_eq!(problem_message(&passed), "Maximum sessions (1000) reached");
    }
    assert_eq!(node.log.warnings().len(), 2);
    let refused = node.sessions.create("one-more").await.unwrap_err();
    assert_eq!(refused, refusal(Code::TooManySessions, "Maximum sessions (1000) reached"));
    // What comes before the cap, as in the original: that it is there already.
    let refused = node.sessions.create("s7").await.unwrap_err();
    assert_eq!(refused, refusal(Code::AlreadyExists, "Session 's7' already exists"));
    assert_eq!(node.ask("s999").await.effect, Effect::Enriched);
    node.sessions.delete("s0").await.unwrap();
    assert_eq!(node.say("one-more", "x").await.effect, Effect::Stored);
}

#[tokio::test]
async fn a_wrong_option_is_refused_with_its_name_and_what_is_allowed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    for (options, field, words) in [
        (r#"{"max_histroy": 5}"#, "max_histroy", "Unknown option 'max_histroy'; there are session_ttl_hours, "),
        (r#"{"redis_password": "x"}"#, "redis_password", "Unknown option 'redis_password'"),
        (r#"{"auto_summarize": "false"}"#, "auto_summarize", "auto_summarize must be true or false, not \"false\""),
        (r#"{"auto_summarize": 0}"#, "auto_summarize", "auto_summarize must be true or false, not 0"),
        (r#"{"max_history": -1}"#, "max_history", "max_history must be an integer from 0 to 1000000, not -1"),
        (r#"{"max_history": 2.5}"#, "max_history", "not 2.5"),
        (r#"{"max_history": "100"}"#, "max_history", "not \"100\""),
        (r#"{"max_history": 1e300}"#, "max_history", "not 1e300"),
        (r#"{"session_ttl_hours": -1}"#, "session_ttl_hours", "a number from 0 (for ever) to 876000, not -1"),
        (r#"{"session_ttl_hours": 1e12}"#, "session_ttl_hours", "not 1e12"),
        (r#"{"session_ttl_hours": 1e999}"#, "session_ttl_hours", "not 1e999"),
        (r#"{"session_ttl_hours": "24"}"#, "session_ttl_hours", "not \"24\""),
        (r#"{"session_ttl_mode": "Sliding"}"#, "session_ttl_mode", "\"fixed\" or \"sliding\", not \"Sliding\""),
        (r#"{"unbound_context": true}"#, "unbound_context", "\"keep\" or \"strip\", not true"),
        (r#"{"max_value_bytes": 0}"#, "max_value_bytes", "an integer from 1 to 8388608, not 0"),
        (r#"{"max_context_bytes": 99999999999}"#, "max_context_bytes", "an integer from 1 to 8388608"),
        (r#"{"max_keys": 1}"#, "max_keys", "an integer from 2 to 10000, not 1"),
        (r#"{"max_keys": 9007199254740993}"#, "max_keys", "not 9007199254740993"),
        ("[]", "", "The configuration must be a JSON object, not []"),
        ("", "", "The configuration must be a JSON object"),
        ("{\"max_keys\": 5", "", "The configuration must be a JSON object"),
        ("null", "", "The configuration must be a JSON object, not null"),
    ] {
        let refused = Node::of(keepline_tests::lanes::plugin(), &store, options, |_| {}).await.err();
        match refused {
            Some(KeeplineError::Config { field: told, message }) => {
                assert_eq!(told, field, "{options}");
                assert!(message.contains(words), "{options}: {message}");
            }
            other => panic!("{options}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_options_in_force_are_told() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let node = Node::new(&store, r#"{"max_history": null, "max_keys": 7, "session_ttl_hours": 0.5}"#).await;
    let told: Value = serde_json::from_str(node.keepline.filter_options()).unwrap();
    assert_eq!(
        told,
        json!({
            "session_ttl_hours": 0.5, "session_ttl_mode": "fixed", "max_history": 100, "auto_summarize": true,
            "unbound_context": "keep", "max_value_bytes": 1_048_576, "max_context_bytes": 1_048_576, "max_keys": 7,
        })
    );
}
