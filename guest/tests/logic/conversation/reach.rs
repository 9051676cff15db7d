//! Questions where less of the conversation was read, stored or named than exists.

use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::transcript::record::{Role, StoredRecord};
use keepline_filter::transcript::turns::group_into_turns;
use keepline_filter::window::select::{WindowLimits, select_window};
use keepline_filter::{Config, Context, Filter};
use serde_json::json;

use super::tasks::until_due;
use super::{STORED, act, ask, attached, call, filter, messages, reply, result, s, say, turn};
use crate::admin_calls as admin;
use crate::test_host::TestHost;

/// Records of turns that weigh 20 each, a question and an answer.
fn short_turns(count: usize) -> Vec<StoredRecord<'static>> {
    let record = |turn: usize, role| {
        let mut record = StoredRecord::new("", role, "x".into(), "0");
        record.turn = turn.to_string().into();
        (record.weight, record.begins) = (10, role == Role::User);
        record
    };
    (0..count).flat_map(|turn| [record(turn, Role::User), record(turn, Role::Assistant)]).collect()
}

#[test]
fn a_partly_read_window_shows_its_share_and_rarely_moves_its_start() {
    let limits = WindowLimits { budget: 50_000, keep: 50, messages: 500, results: 40_000, reach: None, pinned: None };
    let records = short_turns(6000);
    // So many were read: the rest was over a limit of the read.
    for read in [10, 81, 300, 2000] {
        let (mut starts, mut windows) = (Vec::new(), 0);
        for all in (read + 1..records.len()).step_by(2).skip(read) {
            let numbered: Vec<_> = (0..).zip(&records).take(all + 1).skip(all + 1 - read).collect();
            let total = 10 * (all as u64 + 1);
            let turns = group_into_turns(&numbered, total);
            let window = select_window(&turns, total, Some(0), &limits, None);
            let shown = window.items.len();
            assert!(shown * 2 + 2 >= read.min(500), "{shown} of {read} that were read");
            assert_eq!(window.stable_since, None);
            windows += 1;
            starts.push(window.items[0].position);
        }
        assert!(starts.is_sorted());
        starts.dedup();
        // It moves once in a quarter of what is shown, at most.
        assert!(starts.len() <= windows * 16 / read.min(500) + 2, "{} of {windows}, {read} read", starts.len());
    }
}

#[test]
fn turns_after_the_summary_are_shown_as_long_as_they_fit() {
    let limits = WindowLimits { budget: 4000, keep: 50, messages: 500, results: 40_000, reach: None, pinned: None };
    let records = short_turns(1000);
    for all in (1..=1000).map(|turns| turns * 2) {
        let numbered: Vec<_> = (0..).zip(&records).take(all).collect();
        let total = 10 * all as u64;
        let turns = group_into_turns(&numbered, total);
        for behind in [4, 100, 400, 402, 600] {
            let reach = (all as u64).checked_sub(behind + 1);
            let window = select_window(&turns, total, None, &WindowLimits { reach, ..limits }, None);
            let shown = window.items.len() as u64;
            if reach.is_some() && behind <= 400 {
                assert_eq!((shown, window.has_gap), (behind, false), "{all} {behind}");
            }
            assert!(
                window.cost <= 4000 && (shown >= 200.min(behind) || shown == all as u64),
                "{all} {behind}: {shown}"
            );
        }
    }
}

#[test]
fn a_branch_gets_a_summary_of_its_own() {
    let options = r#""max_context_tokens": 300, "auto_generate_titles": false"#;
    // Turns from the first one on until a summary is due.
    let until_due_after_the_first = |filter: &Filter<&TestHost>| {
        let mut parent = "afirst".to_owned();
        (0..100).find(|number| {
            let name = format!("branch{number}");
            let due = turn(filter, &name, Some(&parent)).due;
            parent = format!("a{name}");
            due.iter().any(|task| task.name == "summary")
        })
    };
    let (host, other) = (TestHost::new(), TestHost::new());
    let (filter, alone) = (filter(&host, options), filter(&other, options));
    turn(&alone, "first", None);
    let expected = until_due_after_the_first(&alone);
    turn(&filter, "first", None);
    let (_, mut work) = until_due(&filter, 0);
    work.step(&filter, "h", None);
    work.step(&filter, "h", Some("What was said."));
    assert!(expected.is_some_and(|turns| turns > 5));
    assert_eq!(until_due_after_the_first(&filter), expected);
}

#[test]
fn a_turn_resumed_after_many_others_is_shown_then_and_afterwards() {
    for options in [r#""max_context_tokens": 300"#, r#""max_context_tokens": 300, "summaries": false"#] {
        let host = TestHost::new();
        let filter = filter(&host, options);
        let named = json!({"session_id": "s", "message_id": "u0"});
        act(&filter, "Look!", "", &ask(&filter, "Look!", &named).turn, &[call("c", "look", "{}")]);
        if let Some(mut work) = until_due_or_many(&filter) {
            work.step(&filter, "h", None);
            work.step(&filter, "h", Some("What was said."));
        }
        let again = ask(&filter, "Look!", &named);
        assert_eq!(messages(&again).last().unwrap(), "assistant: null");
        assert!(messages(&again).contains(&"user: Look!".to_owned()));
        assert_eq!(act(&filter, "", "Seen.", &again.turn, &[result("c", "look", "a tree")]).effect, STORED);
        let shown = messages(&ask(&filter, "?", &s()));
        let newest = shown.len() - 4;
        assert_eq!(shown[newest..], ["user: Look!", "assistant: null", "tool: a tree", "assistant: Seen."]);
    }
}

/// Some turns, and the summary that they make due, if it is.
fn until_due_or_many(filter: &Filter<&TestHost>) -> Option<super::tasks::Work> {
    for number in 0..12 {
        let question = format!("question {number}: what is this about?");
        let asked = ask(filter, &question, &s());
        let due = reply(filter, &question, &format!("It is about {number}."), &asked.turn).due;
        if due.iter().any(|task| task.name == "summary") {
            return Some(super::tasks::Work::of(&due, "summary"));
        }
    }
    None
}

#[test]
fn message_ids_older_than_the_transcript_are_unknown() {
    let host = TestHost::new();
    let before = Filter::new(&host, Config::parse("{}").unwrap());
    for number in 0..8 {
        let asked = ask(&before, "?", &s());
        say(&before, "?", "!", &asked.turn, &json!({"message_id": format!("old{number}")}));
    }
    let filter = filter(&host, "");
    turn(&filter, "0", None);
    turn(&filter, "1", None);
    let expected = messages(&ask(&filter, "?", &s()));
    assert_eq!(expected.len(), 4);
    for old in ["old0", "old1", "old2", "old3", "old7"] {
        let asked = ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": old}));
        assert_eq!(messages(&asked), expected, "{old}");
    }
    say(
        &filter,
        "2",
        "two",
        &ask(&filter, "2", &json!({"session_id": "s", "parent_message_id": "old2"})).turn,
        &json!({}),
    );
    assert_eq!(messages(&ask(&filter, "?", &s()))[..4], expected);
}

#[test]
fn an_old_branch_that_ends_in_a_long_turn_of_tools_is_shown() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 4000"#);
    turn(&filter, "0", None);
    let ids: Vec<String> = (0..150).map(|number| format!("c{number}")).collect();
    let activity: Vec<_> = ids
        .iter()
        .flat_map(|id| [keepline_filter::ToolActivity { arguments: Some("{}"), ..result(id, "look", "ok") }])
        .collect();
    let asked = ask(&filter, "Do it all.", &s());
    let answer = keepline_filter::AnswerEntry {
        text: "Done.",
        metadata: "{}",
        turn: &asked.turn,
        message_id: Some("long"),
        question_text: "Do it all.",
        activity: &activity,
        ..keepline_filter::AnswerEntry::default()
    };
    assert_eq!(filter.answer(&answer).effect, STORED);
    for number in 1..31 {
        turn(&filter, &format!("{number} {}", "and so on ".repeat(50)), None);
    }
    let asked = ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": "long"}));
    assert_eq!(messages(&asked).last().unwrap(), "assistant: Done.");
}

#[test]
fn the_first_question_again_does_not_recall_itself() {
    let host = TestHost::new();
    let filter = filter(&host, r#""recall": "session", "auto_generate_titles": false"#);
    let first = json!({"session_id": "s", "message_id": "q0"});
    let asked = ask(&filter, "Where is the zebra?", &first);
    let due = say(&filter, "Where is the zebra?", "In the zoo.", &asked.turn, &json!({"message_id": "a0"})).due;
    super::recall::keep(&filter, &due);
    let again = ask(&filter, "Where is the zebra?", &first);
    assert_eq!(attached(&again, "memory_recall"), serde_json::Value::Null);
}

#[test]
fn a_turn_before_a_removed_one_is_shown_even_if_it_needs_a_second_read() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 300, "message_limit": 4"#);
    let sessions = Context::new(&host, Config::parse(r#"{"conversation": true}"#).unwrap());
    let asked = ask(&filter, "Look around.", &s());
    let calls = |_| [call("c", "look", "{}"), result("c", "look", "a tree")];
    let activity: Vec<_> = (0..100).flat_map(calls).collect();
    act(&filter, "Look around.", "Trees.", &asked.turn, &activity);
    turn(&filter, "secret", None);
    let at = TranscriptId { session: "s", app_id: None, node_id: None };
    for position in 202..204 {
        assert_eq!(admin::rewrite_message(&sessions, &at, position, None).unwrap(), 1);
    }
    let before = host.waits.get();
    assert_eq!(messages(&ask(&filter, "?", &s())), ["user: Look around.", "assistant: Trees."]);
    assert_eq!(host.waits.get() - before, 2);
}
