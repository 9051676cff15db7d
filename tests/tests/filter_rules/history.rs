//! History records every operation but no values, bounded by summaries that lose no count.

use std::time::Duration;

use keepline::{pipe::Effect, sessions::HistoryRecord};
use keepline_tests::{
    lanes::{Node, operations_told, untouched},
    on_every_store,
    requests::{read_all, records_of},
    stores::StoreUnderTest,
};
use serde_json::{Value, json};

use super::Given;

/// When the clock stands still, as far as a history tells it.
const START_MILLISECONDS: &str = "1795186917.032";

/// As JSON, oldest first.
async fn history_of(node: &mut Node, limit: u32) -> Vec<String> {
    let page = node.sessions.history("s1", None, limit).await.unwrap();
    page.records.iter().map(HistoryRecord::to_json).collect()
}

/// As it is stored, parsed: with what the contract's records don't tell.
async fn stored_history(given: &Given) -> Vec<Value> {
    let stored = records_of(&given.apply_one("s1", read_all("history")).await);
    stored.iter().map(|record| serde_json::from_str(record).unwrap()).collect()
}

async fn history_records_operations_but_no_values(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.reply("a secret").await;
    node.clock.advance(Duration::from_micros(967_405));
    node.sessions.put("s1", "k", "\"a secret\"").await.unwrap();
    node.sessions.increment("s1", "n", 5).await.unwrap();
    node.sessions.clear("s1", Some("k")).await.unwrap();
    node.sessions.clear("s1", Some("absent")).await.unwrap();
    node.sessions.clear("s1", None).await.unwrap();
    let entries = history_of(&mut node, 0).await;
    let start = START_MILLISECONDS;
    assert_eq!(
        entries,
        [
            format!(r#"{{"op":"put","key":"last_answer","timestamp":{start}}}"#),
            format!(r#"{{"op":"increment","key":"answer_count","timestamp":{start}}}"#),
            r#"{"op":"put","key":"k","timestamp":1795186918.000}"#.into(),
            r#"{"op":"increment","key":"n","timestamp":1795186918.000}"#.into(),
            r#"{"op":"clear","key":"k","timestamp":1795186918.000}"#.into(),
            r#"{"op":"clear","key":"absent","timestamp":1795186918.000}"#.into(),
            r#"{"op":"clear","key":null,"cleared":["answer_count","last_answer","n"],"timestamp":1795186918.000}"#
                .into(),
        ]
    );
}

async fn a_summary_replaces_all_but_the_newest_half_of_the_history(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_history":5}"#).await;
    node.sessions.create("s1").await.unwrap();
    for key in ["a", "b", "c", "d", "e"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    assert_eq!(node.sessions.resume("s1").await.unwrap().history_length, 5);
    node.sessions.increment("s1", "f", 1).await.unwrap();
    let start = START_MILLISECONDS;
    let entries = history_of(&mut node, 0).await;
    assert_eq!(
        entries,
        [
            format!(
                r#"{{"op":"summary","summarized_count":4,"op_counts":{{"put":4}},"keys_touched":["a","b","c","d"],"timestamp":{start}}}"#
            ),
            format!(r#"{{"op":"put","key":"e","timestamp":{start}}}"#),
            format!(r#"{{"op":"increment","key":"f","timestamp":{start}}}"#),
        ]
    );

    // The next one is merged with it.
    for key in ["g", "a", "e"] {
        node.sessions.put("s1", key, "1").await.unwrap();
    }
    let entries = history_of(&mut node, 0).await;
    assert_eq!(entries.len(), 3);
    assert_eq!(
        entries[0],
        format!(
            r#"{{"op":"summary","summarized_count":7,"op_counts":{{"put":6,"increment":1}},"keys_touched":["a","b","c","d","e","f","g"],"timestamp":{start}}}"#
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
    assert_eq!(stored_history(&given).await[0]["keys_truncated"], Value::Null);
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
    assert_eq!(stored_history(&given).await[0]["keys_truncated"], true);
    let touched = history[0]["keys_touched"].as_array().unwrap();
    assert!((100..=256).contains(&touched.len()), "{}", touched.len());
    assert!(touched.is_sorted_by_key(|key| key.as_str()));
}

async fn max_history_of_zero_or_one_keeps_a_single_summary(given: Given) {
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
    assert_eq!(keys(history_of(&mut node, 0).await), all);
    assert_eq!(keys(history_of(&mut node, u32::MAX).await), all);
    for limit in [1, 2, 999, 1000, 1001, 1199, 1200, 1201] {
        let entries = history_of(&mut node, limit).await;
        assert_eq!(keys(entries), all[1200 - (limit as usize).min(1200)..]);
    }
}

on_every_store! {
    history_records_operations_but_no_values,
    a_summary_replaces_all_but_the_newest_half_of_the_history,
    over_hundreds_of_answers_no_operation_is_lost_from_the_history,
    a_clear_can_make_a_summary_due,
    the_keys_touched_are_bounded_and_a_cut_is_flagged,
    max_history_of_zero_or_one_keeps_a_single_summary,
    without_auto_summarize_history_is_kept_whole,
    long_histories_are_read_in_full_and_from_the_newest_end,
}

/// What others wrote stands at its place until it is its turn to be summarised, as an operation that can't be told.
#[tokio::test]
async fn a_history_with_unreadable_records_is_summarised_like_any_other() {
    for broken in [&b"\xff\xfe"[..], b"{\"op\": \"put\", \"key\": \"\xff\"}", b"", b"nonsense", b"\xed\xa0\x80"] {
        let given = StoreUnderTest::redis();
        let mut node = Node::new(&given.store, r#"{"max_history": 4}"#).await;
        node.say("s1", "x").await;
        let mut set = ::redis::cmd("LSET");
        set.arg(given.raw().address("s1:__history__")).arg(0).arg(broken);
        given.raw().run::<()>(&set);
        for answers in 2..=10 {
            assert!(untouched(Effect::Stored, &node.say("s1", "x").await), "{broken:?}");
            let history = node.sessions.history("s1", None, 0).await.unwrap();
            assert!(history.records.len() <= 4, "{broken:?}: {:?}", history.records);
            if answers >= 3 {
                // The summary is JSON again, whatever it was made of.
                assert_eq!(operations_told(&node.history("s1").await), 2 * answers, "{broken:?}");
            }
        }
        assert_eq!(node.log.warnings(), [""; 0], "{broken:?}");
    }
}
