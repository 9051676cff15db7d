//! Branches of a conversation.

use std::collections::BTreeMap;

use keepline_filter::Effect;
use proptest::prelude::*;
use serde_json::json;

use crate::conversation::{STORED, ask, entry, filter, messages, reply, s, say, transcript, turn};
use crate::test_host::TestHost;

const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// What is shown of turns by these names.
fn shown(names: &[&str]) -> Vec<String> {
    names.iter().flat_map(|name| [format!("user: question {name}"), format!("assistant: answer {name}")]).collect()
}

fn after(parent: &str) -> serde_json::Value {
    json!({"session_id": "s", "parent_message_id": parent})
}

#[test]
fn a_turn_continues_from_the_parent_message_that_it_names() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    turn(&filter, "1", None);
    turn(&filter, "2", Some("a1"));
    turn(&filter, "3", Some("a2"));
    assert_eq!(host.waits.get(), 6, "the newest message is no branch");
    assert_eq!(turn(&filter, "4", Some("a1")).effect, STORED);
    assert_eq!(host.waits.get(), 8, "the question knows where its branch goes");
    assert_eq!(entry(&host, "branches", "6").unwrap(), r#"{"after":1,"total":15}"#);
    assert_eq!(messages(&ask(&filter, "?", &s())), shown(&["1", "4"]));
    assert_eq!(messages(&ask(&filter, "?", &after("a4"))), shown(&["1", "4"]));
    assert_eq!(messages(&ask(&filter, "?", &after("a3"))), shown(&["1", "2", "3"]));
    assert_eq!(messages(&ask(&filter, "?", &after("a2"))), shown(&["1", "2"]));
    assert_eq!(messages(&ask(&filter, "?", &after("q2")))[..2], shown(&["1"]));
    // What names nobody, or nobody that is known, follows the newest.
    for (parent, position) in [(NIL, "8"), ("who?", "10"), ("", "12")] {
        assert_eq!(messages(&ask(&filter, "?", &after(parent)))[..4], shown(&["1", "4"]), "{parent}");
        turn(&filter, &format!("x{parent}"), Some(parent));
        assert!(entry(&host, "branches", position).is_none());
    }
}

#[test]
fn a_second_answer_to_a_question_is_a_branch_of_its_own() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    turn(&filter, "1", None);
    let asked = ask(&filter, "2", &s());
    assert_eq!(reply(&filter, "2", "two", &asked.turn).effect, STORED);
    assert_eq!(reply(&filter, "", "better", &asked.turn).effect, STORED);
    let mut expected = shown(&["1"]);
    expected.extend(["user: 2".to_owned(), "assistant: better".to_owned()]);
    assert_eq!(messages(&ask(&filter, "?", &s())), expected);
    // And a third one, with an id; and the question sent again with an id of its answer.
    assert_eq!(say(&filter, "2", "best", &asked.turn, &json!({"message_id": "a2c"})).effect, STORED);
    expected[3] = "assistant: best".to_owned();
    assert_eq!(messages(&ask(&filter, "?", &s())), expected);
    assert_eq!(transcript(&host, "s").len(), 6);

    turn(&filter, "3", Some("a2c"));
    let again = ask(&filter, "question 3", &json!({"session_id": "s", "message_id": "q3", "parent_message_id": "a2c"}));
    say(&filter, "question 3", "another 3", &again.turn, &json!({"message_id": "a3b"}));
    expected.extend(["user: question 3".to_owned(), "assistant: another 3".to_owned()]);
    assert_eq!(messages(&ask(&filter, "?", &s())), expected);
    expected[5] = "assistant: answer 3".to_owned();
    assert_eq!(messages(&ask(&filter, "?", &after("a3"))), expected);
}

#[test]
fn a_question_asked_again_gets_the_thread_before_it() {
    let host = TestHost::new();
    let filter = filter(&host, r#""pin_first_turn": true"#);
    let named = |id: &str| json!({"session_id": "s", "message_id": id});
    for name in ["1", "2", "3"] {
        turn(&filter, name, None);
    }
    // One that has an answer without an id leads to that, and to others that came in between.
    reply(&filter, "unnamed", "x", &ask(&filter, "unnamed", &named("qx")).turn);
    for (id, before) in [("q1", &[][..]), ("q2", &["1"]), ("q3", &["1", "2"]), ("qx", &["1", "2", "3"])] {
        let waits = host.waits.get();
        assert_eq!(messages(&ask(&filter, "again", &named(id))), shown(before), "{id}");
        assert_eq!(host.waits.get(), waits + 1);
    }
    let asked = ask(&filter, "question 2", &named("q2"));
    assert_eq!(say(&filter, "question 2", "better 2", &asked.turn, &json!({"message_id": "b2"})).effect, STORED);
    let better: Vec<String> =
        shown(&["1", "2"])[..3].iter().cloned().chain(["assistant: better 2".to_owned()]).collect();
    assert_eq!(messages(&ask(&filter, "?", &s())), better);
    assert_eq!(messages(&ask(&filter, "again", &named("q2"))), shown(&["1"]));
    assert_eq!(messages(&ask(&filter, "?", &after("a3"))), shown(&["1", "2", "3"]));
    assert_eq!(messages(&ask(&filter, "?", &named("new"))), better);
}

#[test]
fn a_question_that_was_asked_long_ago_is_read_in_a_second_wait() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 64"#);
    for number in 0..300 {
        turn(&filter, &number.to_string(), None);
    }
    let waits = host.waits.get();
    let asked = ask(&filter, "again", &json!({"session_id": "s", "message_id": "q40"}));
    assert_eq!(host.waits.get(), waits + 2);
    let found = messages(&asked);
    assert!(found.len() >= 4, "{found:?}");
    assert_eq!(found[found.len() - 2..], shown(&["39"]));
}

#[test]
fn the_slower_writer_gets_a_branch() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    turn(&filter, "1", None);
    let named = |name: &str| json!({"session_id": "s", "message_id": name, "parent_message_id": "a1"});
    let (one, two) = (ask(&filter, "x", &named("qx")), ask(&filter, "y", &named("qy")));
    say(&filter, "x", "x", &one.turn, &json!({"message_id": "ax"}));
    let before = host.waits.get();
    assert_eq!(say(&filter, "y", "y", &two.turn, &json!({"message_id": "ay"})).effect, STORED);
    assert!(host.waits.get() - before <= 4);
    let mut expected = shown(&["1"]);
    expected.extend(["user: y".to_owned(), "assistant: y".to_owned()]);
    assert_eq!(messages(&ask(&filter, "?", &s())), expected);
    // Those that name nobody go one after the other.
    let (one, two) = (ask(&filter, "v", &s()), ask(&filter, "w", &s()));
    reply(&filter, "v", "v", &one.turn);
    reply(&filter, "w", "w", &two.turn);
    let tail = ["user: v", "assistant: v", "user: w", "assistant: w"];
    assert_eq!(messages(&ask(&filter, "?", &s()))[4..], tail);
}

#[test]
fn a_branch_is_attached_to_its_parent_after_concurrent_writes() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    for (name, parent) in [("1", None), ("2", Some("a1")), ("3", Some("a2"))] {
        turn(&filter, name, parent);
    }
    let asked = ask(&filter, "x", &json!({"session_id": "s", "message_id": "qx", "parent_message_id": "a1"}));
    turn(&filter, "4", Some("a3"));
    assert_eq!(say(&filter, "x", "x", &asked.turn, &json!({"message_id": "ax"})).effect, STORED);
    assert_eq!(messages(&ask(&filter, "?", &after("ax")))[2..], ["user: x", "assistant: x"]);
    assert_eq!(messages(&ask(&filter, "?", &after("a4"))), shown(&["1", "2", "3", "4"]));

    // Without end: it gives up, and says so.
    let asked = ask(&filter, "y", &json!({"session_id": "s", "message_id": "qy", "parent_message_id": "a1"}));
    host.before_each(|host, _| {
        let mut buckets = host.buckets_mut();
        if let Some((_, records)) = buckets.get_mut("s").and_then(|bucket| bucket.logs.get_mut("transcript")) {
            records.push("{}".to_owned());
        }
    });
    let failed = say(&filter, "y", "y", &asked.turn, &json!({"message_id": "ay"}));
    assert_eq!(failed.effect, Effect::Failed);
    assert!(failed.problem.unwrap().message.contains("others kept writing"));
}

#[test]
fn an_old_branch_is_read_by_spans_in_a_second_wait() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 64"#);
    turn(&filter, "root", None);
    turn(&filter, "old", Some("aroot"));
    let mut parent = "aroot".to_owned();
    for number in 0..300 {
        turn(&filter, &number.to_string(), Some(&parent));
        parent = format!("a{number}");
    }
    let before = host.waits.get();
    assert_eq!(messages(&ask(&filter, "?", &after("aold"))), shown(&["root", "old"]));
    assert_eq!(host.waits.get(), before + 2);
    ask(&filter, "?", &after("a299"));
    assert_eq!(host.waits.get(), before + 3);
    let tail = messages(&ask(&filter, "?", &after("a120")));
    assert_eq!(tail.last().unwrap(), "assistant: answer 120");
    assert_eq!(tail[..2], shown(&[&format!("{}", 121 - tail.len() / 2)]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each turn follows a random earlier one, or names none. The reference is a map of parents.
    #[test]
    fn threads_match_a_reference_tree(
        parents in prop::collection::vec(prop::option::weighted(0.7, any::<prop::sample::Index>()), 1..40),
        budget in prop_oneof![Just(64_u64), Just(100_000)],
    ) {
        let host = TestHost::new();
        let filter = filter(&host, &format!("\"max_context_tokens\": {budget}"));
        let mut tree: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        for (number, parent) in parents.iter().enumerate() {
            let parent = parent.filter(|_| number > 0).map(|index| index.index(number));
            let name = number.to_string();
            turn(&filter, &name, parent.map(|parent| format!("a{parent}")).as_deref());
            // Who names none follows the newest.
            tree.insert(number, parent.or_else(|| number.checked_sub(1)));
        }
        for number in 0..parents.len() {
            let mut path = vec![number];
            while let Some(&Some(parent)) = path.last().and_then(|last| tree.get(last)) {
                path.push(parent);
            }
            path.reverse();
            let names: Vec<String> = path.iter().map(ToString::to_string).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let found = messages(&ask(&filter, "?", &after(&format!("a{number}"))));
            let expected = shown(&names);
            prop_assert!(!found.is_empty());
            prop_assert_eq!(&found[..], &expected[expected.len() - found.len()..]);
            if budget > 1000 {
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn a_regenerated_answer_is_a_branch_without_a_question() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let turn = ask(&filter, "1", &json!({"session_id": "s", "message_id": "q"})).turn;
    // The host hands the question in with the first answer only.
    assert_eq!(say(&filter, "1", "one", &turn, &json!({"message_id": "a"})).effect, STORED);
    assert_eq!(say(&filter, "", "eins", &turn, &json!({"message_id": "b"})).effect, STORED);
    for (parent, answer) in [("a", "assistant: one"), ("b", "assistant: eins")] {
        let got = ask(&filter, "?", &json!({"session_id": "s", "parent_message_id": parent}));
        assert_eq!(messages(&got), ["user: 1", answer]);
    }
}

#[test]
fn a_repeated_question_stores_a_different_answer_but_not_the_same_one() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    let question = json!({"session_id": "s", "message_id": "m1"});
    for (answer, effect) in
        [("first", STORED), ("first", Effect::Repeated), ("second", STORED), ("second", Effect::Repeated)]
    {
        host.pass(1);
        let asked = ask(&filter, "?", &question);
        assert_eq!(messages(&asked), [""; 0], "{answer}");
        assert_eq!(reply(&filter, "?", answer, &asked.turn).effect, effect, "{answer}");
    }
    assert_eq!(host.get("s", "answer_count").unwrap(), "2");
    assert_eq!(messages(&ask(&filter, "And?", &s())), ["user: ?", "assistant: second"]);
}
