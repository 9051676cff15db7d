//! History is summarised, and its counts add up.

use keepline_filter::Effect;
use serde_json::{Value, json};

use super::{S, counts, filter, told};
use crate::test_host::TestHost;

#[test]
fn history_is_summarised_beyond_max_history_and_counts_add_up() {
    for max in [0_u64, 1, 2, 3, 5, 100] {
        let host = TestHost::new();
        let filter = filter(&host, &format!("{{\"max_history\":{max}}}"));
        for n in 1..=150 {
            host.pass(1);
            assert_eq!(filter.answer("a", S, "").effect, Effect::Stored);
            let history = host.history("s");
            assert!(history.len() as u64 <= max.max(1), "{max}: {}", history.len());
            assert_eq!(told(&history), 2 * n, "{max}");
        }
        let (count, sum) = counts(&host.history("s")[0]);
        assert_eq!(count, sum);
    }
}

#[test]
fn a_summary_is_written_as_the_original_does_and_merged() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"max_history":4}"#);
    for _ in 0..3 {
        filter.answer("a", S, "");
    }
    let history = host.history("s");
    assert_eq!(history.len(), 3);
    assert_eq!(
        history[0],
        r#"{"op": "summary", "summarized_count": 4, "op_counts": {"put": 2, "increment": 2}, "keys_touched": ["answer_count", "last_answer"], "timestamp": 1795186917.032595}"#
    );
    filter.answer("a", S, "");
    assert_eq!(counts(&host.history("s")[0]), (6, 6));
    // Two answers, three transactions: the second was needed for the summary only.
    assert_eq!(host.transactions.get(), 6);
}

#[test]
fn auto_summarize_off_keeps_all() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"max_history":1,"auto_summarize":false}"#);
    for _ in 0..50 {
        filter.answer("a", S, "");
    }
    assert_eq!(host.history("s").len(), 100);
    assert_eq!(host.transactions.get(), 50);
}

#[test]
fn a_long_history_is_summarised_bit_by_bit() {
    let host = TestHost::new();
    let off = filter(&host, r#"{"auto_summarize":false}"#);
    for _ in 0..2000 {
        off.answer("a", S, "");
    }
    let on = filter(&host, "{}");
    for n in 1..=20 {
        on.answer("a", S, "");
        assert_eq!(told(&host.history("s")), 4000 + 2 * n);
    }
    assert!(host.history("s").len() <= 100);
}

#[test]
fn the_first_to_summarise_wins() {
    let host = TestHost::new();
    host.before_each(|host, n| {
        if n == 3 {
            // Another writer, between the answer and its summary.
            filter(host, r#"{"max_history":2}"#).answer("theirs", S, "");
        }
    });
    let filter = filter(&host, r#"{"max_history":2}"#);
    filter.answer("a", S, "");
    host.lines();
    assert_eq!(filter.answer("b", S, "").effect, Effect::Stored);
    assert_eq!(told(&host.history("s")), 6);
    assert_eq!(host.get("s", "answer_count").unwrap(), "3");
    assert!(host.lines().iter().all(|line| line.starts_with("Debug")));
}

#[test]
fn a_summary_is_not_stored_in_another_generation_of_the_session() {
    let host = TestHost::new();
    let summarising = filter(&host, r#"{"max_history":2}"#);
    let turn = summarising.question("q", S).turn;
    for bound in [true, false] {
        let (metadata, turn) = if bound { ("{}", &*turn) } else { (S, "") };
        summarising.answer("a", metadata, turn);
        let summary = host.transactions.get() + 2;
        host.before_each(move |host, n| {
            if n == summary {
                // Its history begins with the very same record.
                host.end("s");
                let other = filter(host, r#"{"auto_summarize":false}"#);
                for _ in 0..2 {
                    other.answer("theirs", S, "");
                }
            }
        });
        assert_eq!(summarising.answer("b", metadata, turn).effect, Effect::Stored);
        assert!(host.transactions.get() > summary, "there was a summary to write");
        assert_eq!(host.history("s").len(), 4);
        host.before_each(|_, _| {});
        host.end("s");
    }
}

#[test]
fn a_failed_summary_never_makes_the_answer_fail() {
    let host = TestHost::new();
    host.before_each(|host, n| {
        if n == 2 {
            host.fail("unavailable");
        }
    });
    let answer = filter(&host, r#"{"max_history":1}"#).answer("a", S, "");
    assert_eq!((answer.effect, answer.problem), (Effect::Stored, None));
    assert_eq!(host.lines()[1], "Warn keepline.store History of session s not summarized: It broke");
}

#[test]
fn a_history_whose_oldest_record_is_unreadable_is_summarised() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"max_history":2}"#);
    filter.answer("a", S, "");
    // As a store hands it out, once and again.
    host.rewrite("s", |_, records| records[0] = "{\"op\": \"\u{fffd}\"".into());
    host.lines();
    let before = host.transactions.get();
    assert_eq!(filter.answer("b", S, "").effect, Effect::Stored);
    assert_eq!(host.lines(), ["Debug keepline.session Stored answer in session s"]);
    assert_eq!(host.transactions.get() - before, 2);
    let history = host.history("s");
    assert_eq!((history.len(), counts(&history[0])), (2, (3, 3)));
    let summary: Value = serde_json::from_str(&history[0]).unwrap();
    assert_eq!(summary["op_counts"]["unknown"], 1);
}

#[test]
fn huge_records_of_others_do_not_stop_the_summaries() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"max_history":4}"#);
    filter.answer("a", S, "");
    let long = "x".repeat(300_000);
    // A summary over any limit, a record over any limit, and one that is no record.
    let keys: Vec<String> = (0..30_000).map(|n| format!("key-{n:06}")).collect();
    let records = vec![
        json!({"op": "summary", "summarized_count": 7, "op_counts": {"put": 7}, "keys_touched": keys}).to_string(),
        json!({"op": "put", "key": long}).to_string(),
        "garbage".into(),
        json!({"op": "clear", "key": null, "cleared": ["k1", "k2", 7, ""]}).to_string(),
    ];
    host.rewrite("s", |_, history| *history = records);
    for _ in 0..6 {
        filter.answer("a", S, "");
    }
    let history = host.history("s");
    assert!(history.len() <= 4, "{}", history.len());
    assert_eq!(told(&history), 7 + 3 + 12);
    let summary: Value = serde_json::from_str(&history[0]).unwrap();
    assert_eq!(summary["op_counts"]["unknown"], 1);
    assert_eq!(summary["op_counts"]["clear"], 1);
    assert_eq!(summary["keys_touched"].as_array().unwrap().len(), 256);
    assert_eq!(summary["keys_truncated"], true);
    assert!(history[0].len() < 10_000);
}
