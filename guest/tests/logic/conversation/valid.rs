//! Windows are such as APIs for chat completions take, whatever came in and by whichever door.

use crate::admin_calls as admin;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{AnswerEntry, Config, Context, Filter, ToolActivity};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::valid_window::fault;
use super::{UNASKED, act, ask, attached, call, filter, messages, reply, result, s, say, transcript};
use crate::test_host::TestHost;

const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };
const MISSING: &str = "tool: [No result was recorded for this call]";

fn window(filter: &Filter<&TestHost>) -> Value {
    attached(&ask(filter, "?", &s()), "memory_messages")
}

/// Who said what, of a window that is valid.
fn shown(filter: &Filter<&TestHost>) -> Vec<String> {
    let asked = ask(filter, "?", &s());
    let window = attached(&asked, "memory_messages");
    assert_eq!(fault(window.as_array().map_or(&[], Vec::as_slice), false), None, "{window:#}");
    messages(&asked)
}

/// The ids of each message's calls, or of the call that it answers.
fn ids(window: &Value) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for message in window.as_array().unwrap() {
        found.push(match &message["tool_calls"] {
            Value::Array(calls) => calls.iter().filter_map(|call| call["id"].as_str()).collect(),
            _ => message["tool_call_id"].as_str().into_iter().collect(),
        });
    }
    found
}

#[test]
fn calls_and_results_that_interleave_are_all_shown() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "Check three warehouses.", &s()).turn;
    let activity = [
        call("a", "stock", "{}"),
        call("b", "stock", "{}"),
        result("a", "stock", "4"),
        call("c", "stock", "{}"),
        result("b", "stock", "5"),
        result("c", "stock", "6"),
    ];
    act(&filter, "Check three warehouses.", "15 in all.", &turn, &activity);
    let expected = [
        "user: Check three warehouses.",
        "assistant: null",
        "tool: 4",
        "tool: 5",
        "assistant: null",
        "tool: 6",
        "assistant: 15 in all.",
    ];
    assert_eq!(shown(&filter), expected);
    assert_eq!(ids(&window(&filter))[1..6], [vec!["a", "b"], vec!["a"], vec!["b"], vec!["c"], vec!["c"]]);
}

#[test]
fn calls_of_one_id_are_both_shown_under_ids_that_differ() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "Weather?", &s()).turn;
    let activity = [
        call("x", "weather", r#"{"city":"Oslo"}"#),
        call("x", "weather", r#"{"city":"Bergen"}"#),
        call("x-2", "weather", "{}"),
        result("x", "weather", "Oslo: snow"),
        result("x-2", "weather", "dry"),
        result("x", "weather", "Bergen: rain"),
    ];
    act(&filter, "Weather?", "Snow and rain.", &turn, &activity);
    assert_eq!(shown(&filter)[2..5], ["tool: Oslo: snow", "tool: dry", "tool: Bergen: rain"]);
    let window = window(&filter);
    assert_eq!(ids(&window)[1..5], [vec!["x", "x-3", "x-2"], vec!["x"], vec!["x-2"], vec!["x-3"]]);
    assert_eq!(window[1]["tool_calls"][1]["function"]["arguments"], r#"{"city":"Bergen"}"#);
}

#[test]
fn a_call_without_a_result_hides_nothing_and_may_still_get_it() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let named = json!({"session_id": "s", "message_id": "u1"});
    let turn = ask(&filter, "Cancel both orders.", &named).turn;
    let activity = [call("a", "cancel", "{}"), call("b", "cancel", "{}"), result("a", "cancel", "12 euro")];
    act(&filter, "Cancel both orders.", "One did not reply.", &turn, &activity);
    let first = ["user: Cancel both orders.", "assistant: null", "tool: 12 euro", "assistant: One did not reply."];
    assert_eq!(shown(&filter), [&first[..], &[MISSING]].concat());
    reply(&filter, "And the refund?", "12 euro.", &ask(&filter, "And the refund?", &s()).turn);
    let other = ["user: And the refund?", "assistant: 12 euro."];
    assert_eq!(shown(&filter), [&first[..], &[MISSING], &other[..]].concat());
    // Whoever brings the result sees where it goes.
    let again = ask(&filter, "Cancel both orders.", &named);
    assert_eq!(messages(&again)[2..], first);
    act(&filter, "", "Both.", &again.turn, &[result("b", "cancel", "13 euro")]);
    assert_eq!(shown(&filter), [&other[..], &first[..], &["tool: 13 euro", "assistant: Both."]].concat());
}

#[test]
fn pending_calls_may_be_answered_at_different_times() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "Look.", &s()).turn;
    act(&filter, "Look.", "I look.", &turn, &[call("a", "look", "{}"), call("b", "look", "{}")]);
    act(&filter, "", "a is done.", &turn, &[result("a", "look", "1")]);
    let before = ["user: Look.", "assistant: I look.", "tool: 1"];
    assert_eq!(shown(&filter), [&before[..], &[MISSING, "assistant: a is done."]].concat());
    act(&filter, "", "All is done.", &turn, &[result("b", "look", "2")]);
    let after = ["tool: 2", "assistant: a is done.", "assistant: All is done."];
    assert_eq!(shown(&filter), [&before[..], &after[..]].concat());
}

#[test]
fn redaction_keeps_arguments_and_details_valid_json() {
    let patterns = r#""redact": ["{d4+}", "secret\": \"{w+}", "in\\{"]"#;
    for (arguments, expected) in [
        (r#"{"pin": 12345, "n": 1}"#, r#"{"pin": "[redacted]", "n": 1}"#),
        (
            r#"{"a": "x 12345", "b": [1234.5, -12345e3, true]}"#,
            r#"{"a": "x [redacted]", "b": ["[redacted].5", "-[redacted]e3", true]}"#,
        ),
        (r#"{"secret": "abc"}"#, r#"{"redacted":"[redacted]"}"#),
        (r#"{"a": "\u0031234"}"#, r#"{"a": "[redacted]"}"#),
        (r#"{"12345": {"k\"ey": 99999}}"#, r#"{"[redacted]": {"k\"ey": "[redacted]"}}"#),
        ("no JSON 12345", "no JSON [redacted]"),
    ] {
        let host = TestHost::new();
        let filter = filter(&host, patterns);
        let turn = ask(&filter, "?", &s()).turn;
        let done = ToolActivity {
            output: Some("done"),
            details: r#"{"raw": {"id": 12345}}"#,
            arguments: Some(arguments),
            ..result("c", "pay", "done")
        };
        act(&filter, "?", "!", &turn, &[done]);
        let window = window(&filter);
        assert_eq!(window[1]["tool_calls"][0]["function"]["arguments"], expected);
        assert_eq!(transcript(&host, "s")[1]["raw"], json!({"id": "[redacted]"}));
    }
}

#[test]
fn a_blank_answer_with_an_id_is_not_shown_but_can_be_followed() {
    let host = TestHost::new();
    let thinking = filter(&host, r#""strip_thinking": true"#);
    for answer in ["", " \n", "<think>on?</think>"] {
        host.buckets_mut().clear();
        let turn = ask(&thinking, "Turn the light on.", &s()).turn;
        let done = ToolActivity { output: Some("on"), ..call("a", "light", "{}") };
        let entry = AnswerEntry {
            text: answer,
            metadata: r#"{"message_id": "a1"}"#,
            turn: &turn,
            question_text: "Turn the light on.",
            activity: &[done],
            ..AnswerEntry::default()
        };
        thinking.answer(&entry);
        let expected = ["user: Turn the light on.", "assistant: null", "tool: on"];
        assert_eq!(shown(&thinking), expected);
        assert_eq!(messages(&ask(&thinking, "?", &json!({"session_id": "s", "parent_message_id": "a1"}))), expected);
    }
}

#[test]
fn a_question_or_an_answer_of_files_alone_is_remembered() {
    for question in ["", "  "] {
        let host = TestHost::new();
        let filter = filter(&host, "");
        let metadata = json!({"session_id": "s", "message_id": "m1", "files": [{"type": "image", "url": "x"}]});
        let turn = ask(&filter, question, &metadata).turn;
        let files = json!({"files": [{"type": "image", "url": "y"}]});
        say(&filter, question, "", &turn, &files);
        reply(&filter, "ok", "Yes.", &ask(&filter, "ok", &s()).turn);
        let file = |url: &str| json!([{"type": "file", "file": {"type": "image", "url": url}}]);
        let window = window(&filter);
        assert_eq!((&window[0]["content"], &window[1]["content"]), (&file("x"), &file("y")));
        assert_eq!(shown(&filter).len(), 4);
    }
    // Where there is no room for files, something stands for them.
    let host = TestHost::new();
    let small = filter(&host, r#""max_context_tokens": 64"#);
    let metadata = json!({"session_id": "s", "files": [{"url": "x".repeat(500)}]});
    reply(&small, "", "A pier.", &ask(&small, "", &metadata).turn);
    assert_eq!(shown(&small), ["user: [file]", "assistant: A pier."]);
}

#[test]
fn a_window_begins_with_a_users_message_although_none_was_recorded() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 64"#);
    reply(&filter, "", "Welcome!", &ask(&filter, "", &s()).turn);
    assert_eq!(shown(&filter), [UNASKED, "assistant: Welcome!"]);
    reply(&filter, "", &"long ".repeat(100), &ask(&filter, "", &s()).turn);
    let found = shown(&filter);
    assert!(found.len() == 2 && found[0].starts_with("user: [The") && found[1].len() > 40, "{found:?}");
}

#[test]
fn a_turn_that_goes_on_after_any_number_of_others_is_shown() {
    for others in [63, 64, 65, 300] {
        let host = TestHost::new();
        let filter = filter(&host, "");
        let turn = ask(&filter, "Look.", &s()).turn;
        act(&filter, "Look.", "", &turn, &[call("a", "look", "{}")]);
        for number in 0..others {
            reply(&filter, "?", &number.to_string(), &ask(&filter, "?", &s()).turn);
        }
        act(&filter, "", "Seen.", &turn, &[result("a", "look", "a tree")]);
        let found = shown(&filter);
        assert_eq!(found[found.len() - 4..], ["user: Look.", "assistant: null", "tool: a tree", "assistant: Seen."]);
    }
}

#[test]
fn a_resumed_turn_is_shown_although_it_began_before_the_read() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 400"#);
    let turn = ask(&filter, "Look.", &s()).turn;
    act(&filter, "Look.", "", &turn, &[call("a", "look", "{}")]);
    for number in 0..200 {
        reply(&filter, "?", &format!("{number} {}", "word ".repeat(40)), &ask(&filter, "?", &s()).turn);
    }
    act(&filter, "", "Seen.", &turn, &[result("a", "look", "a tree")]);
    for more in 0..3 {
        let found = shown(&filter);
        let at = found.len() - 4 - 2 * more;
        let expected = ["user: Look.", "assistant: null", "tool: a tree", "assistant: Seen."];
        assert_eq!(found[at..at + 4], expected, "{found:?}");
        reply(&filter, "?", "!", &ask(&filter, "?", &s()).turn);
    }
}

#[test]
fn a_question_asked_again_gets_the_thread_before_its_long_turn() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 1000, "max_message_length": 0"#);
    for name in ["1", "2", "3"] {
        super::turn(&filter, name, None);
    }
    let long = json!({"session_id": "s", "message_id": "long"});
    let turn = ask(&filter, "long", &long).turn;
    say(&filter, "long", &"long ".repeat(20_000), &turn, &json!({"message_id": "along"}));
    let expected = ["user: question 3", "assistant: answer 3"];
    assert_eq!(messages(&ask(&filter, "long", &long))[4..], expected);
}

#[test]
fn a_long_turn_stays_as_long_as_it_fits() {
    // The long turn begins just before a step of the window.
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 4000, "max_message_length": 0, "memory_trace": true"#);
    let mut least = u64::MAX;
    for number in 0..60 {
        let answer = if number % 9 == 4 { "long ".repeat(2300) } else { "short".to_owned() };
        reply(&filter, &number.to_string(), &answer, &ask(&filter, "?", &s()).turn);
        let asked = ask(&filter, "?", &s());
        let trace = attached(&asked, "memory_trace");
        assert!(trace["tokens"].as_u64().unwrap() <= 4000);
        if trace["thread_tokens"].as_u64().unwrap() > 4000 {
            least = least.min(trace["tokens"].as_u64().unwrap());
        }
    }
    assert!(least >= 1600, "{least}");
}

#[test]
fn a_pinned_first_turn_is_shown_whole_or_reported_as_too_long() {
    let pinning = r#""max_context_tokens": 4000, "pin_first_turn": true, "memory_trace": true"#;
    let host = TestHost::new();
    let filter = filter(&host, pinning);
    let first = json!({"session_id": "s", "message_id": "q"});
    for answer in ["a", "b"] {
        let turn = ask(&filter, "first", &first).turn;
        let done: Vec<_> = (0..25).map(|_| ToolActivity { output: Some("ok"), ..call("c", "look", "{}") }).collect();
        let (metadata, question) = (json!({"message_id": answer}).to_string(), "first");
        let entry = AnswerEntry {
            text: answer,
            metadata: &metadata,
            turn: &turn,
            question_text: question,
            activity: &done,
            ..AnswerEntry::default()
        };
        filter.answer(&entry);
    }
    for number in 0..200 {
        reply(&filter, &number.to_string(), &"word ".repeat(20), &ask(&filter, "?", &s()).turn);
    }
    let found = shown(&filter);
    assert_eq!(found[0], "user: first");
    assert_eq!(found.iter().filter(|text| *text == "tool: ok").count(), 25);
    assert_eq!((&*found[51], found.contains(&"assistant: a".to_owned())), ("assistant: b", false));

    let host = TestHost::new();
    let filter = super::filter(&host, pinning);
    reply(&filter, "first", &"long ".repeat(1500), &ask(&filter, "first", &s()).turn);
    for number in 0..200 {
        reply(&filter, &number.to_string(), &"word ".repeat(20), &ask(&filter, "?", &s()).turn);
    }
    let trace = attached(&ask(&filter, "?", &s()), "memory_trace");
    assert_eq!(trace["first_turn"], "over a quarter of the budget");
    assert!(host.lines().iter().any(|line| line.contains("not shown before the window")));
}

#[test]
fn the_trace_reports_gaps_even_without_a_summary() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 400, "memory_trace": true"#);
    let mut gaps = 0;
    for number in 0..60 {
        let asked = ask(&filter, "?", &s());
        let trace = attached(&asked, "memory_trace");
        let is_all = messages(&asked).len() == 2 * number;
        assert_eq!(trace["gap"] == true, !is_all, "{number}");
        gaps += u32::from(!is_all);
        reply(&filter, &number.to_string(), "Some words.", &asked.turn);
    }
    assert!(gaps > 10);
}

/// One thing that happens to a conversation. Each fault that is known to break windows comes in a tenth of all steps.
fn happens(
    host: &TestHost,
    filter: &Filter<&TestHost>,
    number: usize,
    (what, more, index): (u8, u8, Index),
    open: &mut Vec<String>,
) {
    let question = format!("question {number}");
    let id = format!("u{number}");
    let named = json!({"session_id": "s", "message_id": id});
    let turn = |metadata: &Value| ask(filter, &question, metadata).turn;
    let (answer, answer_id) = match more % 4 {
        0 => ("", Some(format!("a{number}"))),
        1 => ("<think>Hm.</think>", Some(format!("a{number}"))),
        2 => ("An answer.", None),
        _ => ("An answer of more words.", Some(format!("a{number}"))),
    };
    let step = |turn: &str, answer: &str, activity: &[ToolActivity<'_>]| {
        let metadata = json!({"message_id": answer_id}).to_string();
        let entry = AnswerEntry {
            text: answer,
            metadata: &metadata,
            turn,
            question_text: &question,
            activity,
            ..AnswerEntry::default()
        };
        filter.answer(&entry);
    };
    let long = "result ".repeat(usize::from(more) * 4);
    match what {
        // Calls and results that interleave.
        0 => step(
            &turn(&named),
            answer,
            &[
                call("a", "look", "{}"),
                call("b", "look", "{}"),
                result("b", "look", &long),
                call("c", "look", "{}"),
                result("a", "look", "1"),
                result("c", "look", "3"),
            ],
        ),
        // Of one id.
        1 => step(
            &turn(&named),
            answer,
            &[
                call("a", "look", "{}"),
                call("a", "look", "{}"),
                result("a", "look", "1"),
                call("a", "look", "{}"),
                result("a", "look", &long),
                result("a", "look", "3"),
            ],
        ),
        // Pending ones, answered later, or never.
        2 => {
            let turn = turn(&named);
            step(&turn, answer, &[call("p", "look", "{}"), call("q", "look", "{}")]);
            open.push(turn);
        }
        3 if !open.is_empty() => {
            let turn = open.remove(index.index(open.len()));
            let first = if more % 2 == 0 { "p" } else { "q" };
            act(filter, "", "One of them.", &turn, &[result(first, "look", &long)]);
            if more % 3 > 0 {
                open.push(turn);
            }
        }
        // Patterns in arguments.
        4 => step(
            &turn(&named),
            answer,
            &[ToolActivity { output: Some("paid"), ..call("a", "pay", r#"{"card":12345678}"#) }],
        ),
        // Nothing but a file, on either side.
        5 => {
            let metadata = json!({"session_id": "s", "message_id": id, "files": [{"url": "x"}]});
            let asked = ask(filter, "", &metadata).turn;
            say(filter, "", answer, &asked, &json!({"files": [{"url": "y"}]}));
        }
        // The question again, of any turn so far.
        6 => {
            let again = json!({"session_id": "s", "message_id": format!("u{}", index.index(number + 1))});
            let asked = ask(filter, &question, &again).turn;
            step(&asked, answer, &[]);
        }
        // On any branch.
        7 => {
            let parent = format!("{}{}", if more % 2 == 0 { "u" } else { "a" }, index.index(number + 1));
            step(&turn(&json!({"session_id": "s", "message_id": id, "parent_message_id": parent})), answer, &[]);
        }
        // By an operator: messages as other programs keep them, or one that is removed.
        8 => {
            let records = transcript(host, "s").len();
            let sessions = Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap());
            if more % 2 == 0 && records > 0 {
                let _ = admin::rewrite_message(&sessions, &S, index.index(records) as u64, None);
            } else {
                let given = [
                    json!({"role": "assistant", "content": if more % 3 == 0 { "" } else { "Hello." }}),
                    json!({"role": "user", "content": if more % 4 == 0 { json!([]) } else { json!([""]) }}),
                    json!({"role": "assistant", "content": "", "tool": {"call_id": "a", "name": "n", "arguments": "{}"}}),
                    json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}),
                    json!({"role": "user", "content": "Still there?"}),
                ];
                let given: Vec<String> = given.iter().take(1 + usize::from(more) % 5).map(Value::to_string).collect();
                let added = admin::set_messages(&sessions, &S, &given, Some(records as u64));
                assert!(added.is_ok() || records == 0, "{added:?}");
            }
        }
        // Without a question, or plain.
        _ => {
            let asked = if more % 5 == 0 { String::new() } else { turn(&named) };
            step(&asked, answer, &[]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_window_is_valid_and_within_its_budget(
        steps in prop::collection::vec((0..10_u8, any::<u8>(), any::<Index>()), 1..60),
        budget in prop_oneof![64..400_u64, 400..4000_u64, Just(50_000)],
        limit in prop_oneof![Just(500), 2..40_u64],
        pins in any::<bool>(), keep in 10..90_u8, results in prop_oneof![Just(40_000), 0..200_u64],
    ) {
        let host = TestHost::new();
        let options = format!(
            r#""max_context_tokens": {budget}, "message_limit": {limit}, "pin_first_turn": {pins}, "window_keep": {keep},
            "tool_result_tokens": {results}, "strip_thinking": true, "redact": ["{{d8}}"], "memory_trace": true"#
        );
        let filter = filter(&host, &options);
        let mut open = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            happens(&host, &filter, number, step, &mut open);
            let (_, _, index) = step;
            let newest = s();
            let other = json!({"session_id": "s", "parent_message_id": format!("u{}", index.index(number + 1))});
            for (metadata, waits) in [(&newest, false), (&other, true)] {
                let asked = ask(&filter, "?", metadata);
                let window = attached(&asked, "memory_messages");
                let messages = window.as_array().map_or(&[][..], Vec::as_slice);
                prop_assert_eq!(fault(messages, waits), None, "{:#}", window);
                let trace = attached(&asked, "memory_trace");
                prop_assert!(trace["tokens"].as_u64().unwrap() <= budget, "{} of {}", trace["tokens"], budget);
                for call in messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten() {
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    prop_assert!(serde_json::from_str::<Value>(arguments).is_ok(), "{}", arguments);
                }
            }
        }
    }
}
