//! Turns that lack a tool's result, and questions that go on with them.

use keepline_filter::{AnswerEntry, AnswerReply, Filter, Host, ToolActivity};
use serde_json::{Value, json};

use crate::conversation::{STORED, ask, attached, call, filter, messages, result, s, transcript, turn};
use crate::test_host::TestHost;

fn named(id: &str) -> Value {
    json!({"session_id": "s", "message_id": id})
}

fn after(id: &str, parent: &str) -> Value {
    json!({"session_id": "s", "message_id": id, "parent_message_id": parent})
}

/// A step of a turn; `id` may be empty.
fn step(
    filter: &Filter<impl Host>,
    question: &str,
    turn: &str,
    activity: &[ToolActivity<'_>],
    answer: (&str, &str),
) -> AnswerReply {
    let (text, id) = answer;
    let (message_id, question_text) = (Some(id).filter(|id| !id.is_empty()), question);
    filter.answer(&AnswerEntry {
        text,
        metadata: "{}",
        turn,
        message_id,
        question_text,
        activity,
        ..AnswerEntry::default()
    })
}

/// A turn whose call has no result, and what it shows.
fn open(filter: &Filter<impl Host>) -> [String; 3] {
    let asked = ask(filter, "one", &named("u1"));
    assert_eq!(step(filter, "one", &asked.turn, &[call("a", "look", "{}")], ("", "m1")).effect, STORED);
    ["user: one", "assistant: ", "tool: late"].map(str::to_owned)
}

fn with<'a>(shown: &[String], more: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    shown.iter().cloned().chain(more.into_iter().map(str::to_owned)).collect()
}

#[test]
fn the_same_question_again_closes_its_turn() {
    for again in [named("u1"), after("u1", "m1")] {
        let host = TestHost::new();
        let filter = filter(&host, "");
        let shown = open(&filter);
        let waits = host.waits.get();
        let asked = ask(&filter, "one", &again);
        assert_eq!(messages(&asked), shown[..2]);
        assert_eq!(step(&filter, "one", &asked.turn, &[result("a", "look", "late")], ("Done.", "m3")).effect, STORED);
        assert_eq!(host.waits.get(), waits + 2);
        assert_eq!(messages(&ask(&filter, "?", &s())), with(&shown, ["assistant: Done."]));
        let records = transcript(&host, "s");
        assert!(records.len() == 5 && records.iter().all(|record| record["turn"] == records[0]["turn"]));
        // What comes next follows it.
        turn(&filter, "2", Some("m3"));
        let expected = with(&shown, ["assistant: Done.", "user: question 2", "assistant: answer 2"]);
        assert_eq!(messages(&ask(&filter, "?", &s())), expected);
    }
}

#[test]
fn a_continuing_question_is_stored_after_the_results_it_brings() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let shown = open(&filter);
    let asked = ask(&filter, "And?", &after("u2", "m1"));
    assert_eq!(messages(&asked), shown[..2]);
    // In two steps, the first of which asks for more.
    let first = [result("a", "look", "late"), call("b", "look", "{}")];
    assert_eq!(step(&filter, "And?", &asked.turn, &first, ("Let me see.", "m2")).effect, STORED);
    let second = [result("b", "look", "later")];
    assert_eq!(step(&filter, "And?", &asked.turn, &second, ("Done.", "m3")).effect, STORED);
    let window = attached(&ask(&filter, "?", &s()), "memory_messages");
    let calls: Vec<&Value> = window.as_array().unwrap().iter().map(|message| &message["tool_calls"][0]["id"]).collect();
    assert_eq!((calls[1], calls[4]), (&json!("a"), &json!("b")));
    let whole = with(&shown, ["user: And?", "assistant: Let me see.", "tool: later", "assistant: Done."]);
    assert_eq!(messages(&ask(&filter, "?", &s())), whole);
    assert_eq!(transcript(&host, "s").iter().filter(|record| record["begins"] == true).count(), 1);
    // It is found by its id, and another answer to it goes on from it.
    assert_eq!(messages(&ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": "u2"}))), whole[..4]);
    let again = ask(&filter, "And?", &after("u2", "m1"));
    assert_eq!(step(&filter, "And?", &again.turn, &[], ("Never mind.", "m4")).effect, STORED);
    let newest = with(&whole[..4], ["assistant: Never mind."]);
    assert_eq!(messages(&ask(&filter, "?", &s())), newest);
}

#[test]
fn a_final_step_without_tools_continues_the_resumed_turn() {
    for again in [named("u1"), after("u2", "u1")] {
        let host = TestHost::new();
        let filter = filter(&host, "");
        step(&filter, "one", &ask(&filter, "one", &named("u1")).turn, &[call("a", "look", "{}")], ("", ""));
        let asked = ask(&filter, "", &again);
        let entry = AnswerEntry { metadata: "{}", turn: &asked.turn, ..AnswerEntry::default() };
        let activity = [result("a", "look", "late")];
        assert_eq!(filter.answer(&AnswerEntry { activity: &activity, ..entry }).effect, STORED);
        assert_eq!(filter.answer(&AnswerEntry { text: "Done.", ..entry }).effect, STORED);
        let expected = ["user: one", "assistant: null", "tool: late", "assistant: Done."];
        assert_eq!(messages(&ask(&filter, "?", &s())), expected);
    }
}

#[test]
fn an_open_turn_is_continued_on_its_branch_after_concurrent_writes() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    turn(&filter, "0", None);
    let asked = ask(&filter, "one", &after("u1", "a0"));
    step(&filter, "one", &asked.turn, &[call("a", "look", "{}")], ("", "m1"));
    turn(&filter, "other", Some("a0"));
    let asked = ask(&filter, "And?", &after("u2", "m1"));
    assert_eq!(step(&filter, "And?", &asked.turn, &[result("a", "look", "late")], ("Done.", "m3")).effect, STORED);
    let expected = ["user: one", "assistant: ", "tool: late", "user: And?", "assistant: Done."];
    assert_eq!(messages(&ask(&filter, "?", &s()))[2..], expected);
    let other = ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": "aother"}));
    assert_eq!(messages(&other)[2..], ["user: question other", "assistant: answer other"]);
}

#[test]
fn a_question_that_brings_no_result_is_a_turn_of_its_own() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    open(&filter);
    let asked = ask(&filter, "Never mind.", &after("u2", "m1"));
    assert_eq!(step(&filter, "Never mind.", &asked.turn, &[], ("Well.", "m2")).effect, STORED);
    let left = ["user: one", "assistant: ", "tool: [No result was recorded for this call]"];
    let expected = [&left[..], &["user: Never mind.", "assistant: Well."]].concat();
    assert_eq!(messages(&ask(&filter, "?", &s())), expected);
    // And one that is asked again gets an answer beside the open step.
    let asked = ask(&filter, "one", &named("u1"));
    assert_eq!(step(&filter, "one", &asked.turn, &[], ("Anew.", "m3")).effect, STORED);
    assert_eq!(messages(&ask(&filter, "?", &s())), ["user: one", "assistant: Anew."]);
}

#[test]
fn turns_that_went_on_are_shown_whole_although_their_beginnings_lie_far_back() {
    let host = TestHost::new();
    // Only who reads all of it can go on with them.
    let [filter, small] = ["200000", "600"].map(|tokens| filter(&host, &format!(r#""max_context_tokens": {tokens}"#)));
    let names = ["a", "b", "c", "d"];
    for name in names {
        let asked = ask(&filter, &format!("Ask {name}."), &named(&format!("u{name}")));
        let looks = [call(name, "look", "{}")];
        let id = format!("m{name}");
        assert_eq!(step(&filter, &format!("Ask {name}."), &asked.turn, &looks, ("Looking.", &id)).effect, STORED);
        // What stands between is longer than what the window has room for.
        for number in 0..40 {
            let text = format!("{name} {number} ").repeat(60);
            let asked = ask(&filter, &text, &s());
            assert_eq!(step(&filter, &text, &asked.turn, &[], (&text, "")).effect, STORED);
        }
    }
    for name in names {
        let asked = ask(&filter, "", &named(&format!("u{name}")));
        let found = [result(name, "look", "found")];
        let (text, id) = (format!("Found {name}."), format!("n{name}"));
        assert_eq!(step(&filter, "", &asked.turn, &found, (&text, &id)).effect, STORED);
    }
    let whole = |name| {
        [
            format!("user: Ask {name}."),
            "assistant: Looking.".into(),
            "tool: found".into(),
            format!("assistant: Found {name}."),
        ]
    };
    let expected: Vec<String> = names.into_iter().flat_map(whole).collect();
    let shown = messages(&ask(&small, "?", &s()));
    assert!(shown.ends_with(&expected), "{shown:?}");
}
