//! Turns with tools at work.

use keepline_filter::{AnswerEntry, ToolActivity};
use serde_json::{Value, json};

use crate::conversation::{
    STORED, act, ask, attached, call, entry, filter, messages, reply, result, s, transcript, turn,
};
use crate::test_host::TestHost;

#[test]
fn calls_and_results_are_stored_with_the_turn_and_paired() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "Weather?", &s()).turn;
    let activity = [
        call("c1", "weather", r#"{"city":"Leipzig"}"#),
        call("c2", "weather", r#"{"city":"Rome"}"#),
        result("c2", "weather", "hot"),
        result("c1", "weather", "wet"),
    ];
    assert_eq!(act(&filter, "Weather?", "Wet and hot.", &turn, &activity).effect, STORED);
    assert_eq!(transcript(&host, "s").len(), 6);
    let messages = attached(&ask(&filter, "?", &s()), "memory_messages");
    let function = |id: &str, city: &str| {
        let arguments = json!({"city": city}).to_string();
        json!({"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}})
    };
    assert_eq!(
        messages,
        json!([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": null, "tool_calls": [function("c1", "Leipzig"), function("c2", "Rome")]},
            {"role": "tool", "tool_call_id": "c2", "content": "hot"},
            {"role": "tool", "tool_call_id": "c1", "content": "wet"},
            {"role": "assistant", "content": "Wet and hot."},
        ])
    );
}

#[test]
fn a_turn_is_written_step_by_step_and_shown_at_each() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    reply(&filter, "1", "one", &ask(&filter, "1", &s()).turn);
    let named = json!({"session_id": "s", "message_id": "q2"});
    let turn = ask(&filter, "2", &named).turn;
    assert_eq!(act(&filter, "2", "Let me look.", &turn, &[call("c", "look", "{}")]).effect, STORED);
    let missing = "tool: [No result was recorded for this call]";
    let so_far = ["user: 1", "assistant: one", "user: 2", "assistant: Let me look."];
    assert_eq!(messages(&ask(&filter, "3", &s())), [&so_far[..], &[missing]].concat());
    assert_eq!(
        messages(&ask(&filter, "", &json!({"session_id": "s", "message_id": "q2"}))),
        ["user: 1", "assistant: one", "user: 2", "assistant: Let me look."]
    );
    // The result, another call, and the end: steps of the same turn, in one transaction each.
    let before = host.waits.get();
    assert_eq!(act(&filter, "", "", &turn, &[result("c", "look", "a"), call("d", "look", "{}")]).effect, STORED);
    assert_eq!(act(&filter, "", "Done.", &turn, &[result("d", "look", "b")]).effect, STORED);
    assert_eq!(host.waits.get(), before + 2);
    assert_eq!(
        messages(&ask(&filter, "3", &s())),
        [
            "user: 1",
            "assistant: one",
            "user: 2",
            "assistant: Let me look.",
            "tool: a",
            "assistant: null",
            "tool: b",
            "assistant: Done."
        ]
    );
    assert_eq!(host.get("s", "answer_count").unwrap(), "3");
    assert_eq!(entry(&host, "branches", "2"), None);
}

#[test]
fn interleaved_steps_stay_in_their_turn() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let open = ask(&filter, "1", &s()).turn;
    act(&filter, "1", "", &open, &[call("c", "look", "{}")]);
    reply(&filter, "2", "two", &ask(&filter, "2", &s()).turn);
    act(&filter, "", "one", &open, &[result("c", "look", "a")]);
    // Where it went on: who asked meanwhile has not seen it.
    assert_eq!(
        messages(&ask(&filter, "?", &s())),
        ["user: 2", "assistant: two", "user: 1", "assistant: null", "tool: a", "assistant: one"]
    );
}

#[test]
fn a_last_step_without_tools_continues_its_turn_too() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "1", &s()).turn;
    let whole = [keepline_filter::ToolActivity { output: Some("a"), ..call("c", "look", "{}") }];
    act(&filter, "1", "", &turn, &whole);
    assert_eq!(reply(&filter, "1", "one", &turn).effect, STORED);
    assert_eq!(messages(&ask(&filter, "?", &s())), ["user: 1", "assistant: null", "tool: a", "assistant: one"]);
    assert_eq!(transcript(&host, "s").len(), 4);
}

#[test]
fn a_result_without_its_call_is_not_shown() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "1", &s()).turn;
    assert_eq!(act(&filter, "1", "one", &turn, &[result("c", "look", "a")]).effect, STORED);
    assert_eq!(messages(&ask(&filter, "?", &s())), ["user: 1", "assistant: one"]);
}

#[test]
fn a_result_without_its_call_does_not_move_a_turn_off_its_branch() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    turn(&filter, "1", None);
    turn(&filter, "2", None);
    let metadata = |id: &str, parent: &str| json!({"session_id": "s", "message_id": id, "parent_message_id": parent});
    let asked = ask(&filter, "regenerated", &metadata("u3", "a1"));
    let stray = [result("zz", "n", "stray")];
    let entry = AnswerEntry {
        text: "three",
        metadata: r#"{"message_id": "a3"}"#,
        turn: &asked.turn,
        question_text: "regenerated",
        activity: &stray,
        ..AnswerEntry::default()
    };
    assert_eq!(filter.answer(&entry).effect, STORED);
    assert_eq!(transcript(&host, "s")[4]["after"], 1);
    let expected = ["user: question 1", "assistant: answer 1", "user: regenerated", "assistant: three"];
    assert_eq!(messages(&ask(&filter, "?", &metadata("u4", "a3"))), expected);
    // Nor does it find its place by chance, where the newest message is another one by then.
    let asked = ask(&filter, "4", &metadata("u4", "a3"));
    turn(&filter, "5", None);
    assert_eq!(act(&filter, "4", "four", &asked.turn, &stray).effect, STORED);
    assert_eq!(
        messages(&ask(&filter, "?", &metadata("u5", "u4")))[2..],
        ["user: regenerated", "assistant: three", "user: 4", "assistant: four"]
    );
}

#[test]
fn a_result_with_an_output_and_an_error_is_shown_with_both() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "?", &s()).turn;
    let failed = |call_id, output| ToolActivity { error: Some("disk full"), ..result(call_id, "copy", output) };
    let activity =
        [call("c", "copy", "{}"), failed("c", "2 of 3 files"), call("d", "copy", "{}"), failed("d", "cp: disk full")];
    act(&filter, "?", "!", &turn, &activity);
    let shown = messages(&ask(&filter, "?", &s()));
    let results: Vec<_> = shown.iter().filter(|text| text.starts_with("tool: ")).collect();
    assert_eq!(results, ["tool: 2 of 3 files\n[Error] disk full", "tool: cp: disk full"]);
    let records = transcript(&host, "s");
    assert_eq!((&records[2]["tool"]["error"], &records[2]["truncated"]), (&json!("disk full"), &Value::Null));
    // Both count: as many tokens as one text of that length.
    assert_eq!(records[2]["weight"], 17);
}

#[test]
fn long_results_are_stored_whole_beside_the_transcript() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 4000"#);
    let turn = ask(&filter, "1", &s()).turn;
    let long = (0..2000).map(|line| format!("line {line}\n")).collect::<String>();
    let failed = keepline_filter::ToolActivity { error: Some("it broke"), ..call("d", "look", "{}") };
    let activity = [call("c", "look", "{}"), result("c", "look", &long), failed];
    act(&filter, "1", "one", &turn, &activity);
    let records = transcript(&host, "s");
    let preview = records[2]["content"].as_str().unwrap();
    assert!(preview.len() <= 1600 && preview.starts_with("line 0\n") && preview.ends_with("line 1999\n"), "{preview}");
    assert_eq!(records[2]["truncated"], true);
    let key = records[2]["tool"]["whole"].as_str().unwrap();
    assert_eq!(entry(&host, "results", key).unwrap(), long);
    assert_eq!((&records[4]["content"], &records[4]["tool"]["error"]), (&json!("it broke"), &json!("it broke")));
    assert!(messages(&ask(&filter, "?", &s()))[2].starts_with("tool: line 0\n"));
}

/// What a store would refuse fails the test by itself: the host has the contract's limits.
#[test]
fn steps_of_oversized_entries_stay_within_the_stores_limits() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_message_length": 0, "max_value_bytes": 8388608, "max_context_tokens": 2000000"#);
    let (plain, control) = ("x".repeat(3 << 20), "\u{1}".repeat(1 << 20));
    let ids: Vec<String> = (0..1500).map(|number| number.to_string()).collect();
    let long = "\"".repeat(4096);
    let one = |call_id| ToolActivity {
        call_id,
        name: &long,
        arguments: Some(&control[..4096]),
        output: Some(&long),
        error: Some(&long),
        details: r#"{"raw": 1}"#,
    };
    let many: Vec<_> = ids.iter().map(|id| one(id)).collect();
    let huge = [
        ToolActivity { call_id: &plain, name: &plain, arguments: Some(&control), ..ToolActivity::default() },
        ToolActivity {
            call_id: &plain,
            name: &plain,
            output: Some(&plain),
            error: Some(&control),
            ..ToolActivity::default()
        },
    ];
    for (text, activity) in [(&plain, &many[..]), (&plain, &huge), (&control, &huge), (&plain, &[])] {
        let turn = ask(&filter, text, &s()).turn;
        let before = transcript(&host, "s").len();
        let entry = AnswerEntry {
            text,
            metadata: &json!({"files": [plain]}).to_string(),
            turn: &turn,
            question_text: text,
            activity,
            ..AnswerEntry::default()
        };
        assert_eq!(filter.answer(&entry).effect, STORED);
        let records = transcript(&host, "s").split_off(before);
        let said: Vec<_> = records.iter().filter(|record| record["kind"].is_null()).collect();
        assert_eq!(said.len(), 2);
        for message in said {
            let (kept, note) = message["content"].as_str().unwrap().rsplit_once('\n').unwrap();
            assert!(message["truncated"] == true && text.starts_with(kept) && kept.len() > 100_000, "{}", kept.len());
            assert!(note.ends_with("characters left out …]"), "{note}");
        }
        let kinds = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
        assert_eq!(kinds("tool_call"), kinds("tool_result"));
        for call in records.iter().filter(|record| record["kind"] == "tool_call") {
            let arguments = call["tool"]["arguments"].as_str().unwrap();
            assert!(serde_json::from_str::<Value>(arguments).unwrap()["truncated"].is_string());
        }
        let asked = ask(&filter, "?", &s());
        assert!(messages(&asked).len() >= 2, "{:?}", messages(&asked).len());
    }
    let told = host.lines().join("\n");
    for what in ["beyond the first 1,000", "references to files of more than 64 KiB"] {
        assert!(told.contains(what), "{what}");
    }
}

/// A step of more calls than are kept leaves no call without its result.
#[test]
fn of_too_many_calls_the_first_are_kept_with_their_results() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let ids: Vec<String> = (0..900).map(|number| format!("c{number}")).collect();
    let calls =
        ids.iter().map(|id| ToolActivity { call_id: id, name: "n", arguments: Some("{}"), ..ToolActivity::default() });
    let results = ids.iter().map(|id| result(id, "n", "r"));
    let activity: Vec<_> = calls.chain(results).collect();
    let turn = ask(&filter, "?", &s()).turn;
    assert_eq!(act(&filter, "?", "!", &turn, &activity).effect, STORED);
    let records = transcript(&host, "s");
    assert_eq!(records.len(), 2 + 2 * 100);
    let found = messages(&ask(&filter, "?", &s()));
    assert_eq!(found.iter().filter(|text| *text == "tool: r").count(), 100);
}

#[test]
fn a_step_with_both_calls_and_results_is_one_transaction() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "?", &s()).turn;
    let before = host.waits.get();
    let activity = [call("c", "n", "{}"), call("d", "n", "{}"), result("d", "n", "r"), result("c", "n", "r")];
    assert_eq!(act(&filter, "?", "!", &turn, &activity).effect, STORED);
    assert_eq!(host.waits.get(), before + 1);
}
