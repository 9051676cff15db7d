//! How windows are chosen and rendered.

use keepline_filter::text::tokens;
use keepline_filter::transcript::record::{RecordKind, Role, StoredRecord, ToolDetails};
use keepline_filter::transcript::turns::group_into_turns;
use keepline_filter::window::select::{ContextWindow, WindowLimits, select_window};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{act, ask, attached, call, filter, messages, reply, result, s};
use crate::test_host::TestHost;

fn limits(budget: u64) -> WindowLimits {
    WindowLimits { budget, keep: 50, messages: 500, results: 40_000, reach: None, pinned: None }
}

/// A turn's records: a question, calls and results of these sizes, an answer.
fn made(turn: &str, question: usize, results: &[usize], answer: usize) -> Vec<StoredRecord<'static>> {
    let record = |role, kind, size: usize, call: Option<usize>| {
        let mut record = StoredRecord::new("", role, "x".repeat(size).into(), "0");
        record.turn = turn.to_owned().into();
        record.kind = kind;
        record.tool = call.map(|call| ToolDetails { call_id: format!("c{call}").into(), ..ToolDetails::default() });
        record.weight = tokens::estimate_for_bytes(size) + tokens::MESSAGE_TOKENS;
        record
    };
    let mut records = vec![record(Role::User, RecordKind::Message, question, None)];
    records.extend((0..results.len()).map(|call| record(Role::Assistant, RecordKind::ToolCall, 0, Some(call))));
    records.extend(
        results.iter().enumerate().map(|(call, size)| record(Role::Tool, RecordKind::ToolResult, *size, Some(call))),
    );
    records.push(record(Role::Assistant, RecordKind::Message, answer, None));
    records[0].begins = true;
    records
}

fn numbered<'r>(records: &'r [StoredRecord<'static>]) -> Vec<(u64, &'r StoredRecord<'static>)> {
    (0..).zip(records).collect()
}

fn weight(records: &[StoredRecord<'_>]) -> u64 {
    records.iter().map(|record| record.weight).sum()
}

/// The window over all of these records, looked at through `look`.
fn with<T>(
    records: &[StoredRecord<'static>],
    limits: &WindowLimits,
    look: impl FnOnce(&ContextWindow<'_, '_>) -> T,
) -> T {
    let numbered = numbered(records);
    let total = weight(records);
    let turns = group_into_turns(&numbered, total);
    look(&select_window(&turns, total, None, limits, None))
}

/// The share of each prompt's tokens that begins as the one before did, over many questions.
fn stable_share(turn_tokens: u64, limits: &WindowLimits) -> f64 {
    let size = usize::try_from((turn_tokens / 2 - tokens::MESSAGE_TOKENS) * 16 / 5).unwrap();
    let mut records = Vec::new();
    let (mut stable, mut all) = (0, 0);
    let mut before: Vec<(u64, u64)> = Vec::new();
    for turn in 0..600 {
        let now: Vec<(u64, u64)> =
            with(&records, limits, |window| window.items.iter().map(|item| (item.position, item.cost())).collect());
        if turn >= 300 {
            all += now.iter().map(|(_, cost)| cost).sum::<u64>();
            stable += now.iter().zip(&before).take_while(|(a, b)| a == b).map(|((_, cost), _)| cost).sum::<u64>();
        }
        before = now;
        records.extend(made(&turn.to_string(), size, &[], size));
    }
    stable as f64 / all as f64
}

#[test]
fn most_of_a_prompt_is_a_prefix_of_the_previous_one() {
    for (turn, budget, wanted) in
        [(72, 4000, 0.9), (72, 8000, 0.9), (350, 4000, 0.75), (350, 8000, 0.84), (350, 32_000, 0.9), (72, 32_000, 0.9)]
    {
        let share = stable_share(turn, &limits(budget));
        println!("turns of {turn} tokens, budget {budget}: {:.1} % stable", share * 100.0);
        assert!(share >= wanted, "turns of {turn} tokens, budget {budget}: {share}");
    }
}

#[test]
fn the_windows_start_moves_only_once_per_step() {
    let mut records = Vec::new();
    let mut starts: Vec<(u64, u64)> = Vec::new();
    for turn in 0..400 {
        records.extend(made(&turn.to_string(), 100, &[], 100));
        let start = with(&records, &limits(4000), |window| window.items[0].position);
        if starts.last().is_none_or(|(last, _)| *last != start) {
            starts.push((start, weight(&records)));
        }
    }
    assert!(starts.len() > 5);
    for pair in starts.windows(2).skip(1) {
        let grown = pair[1].1 - pair[0].1;
        assert!((1900..=2100).contains(&grown), "{starts:?}");
    }
}

#[test]
fn the_newest_turn_is_shown_whatever_its_size() {
    for (records, budget) in [
        (made("t", 10, &[], 100_000), 500),
        (made("t", 100_000, &[100_000, 50, 70_000], 100_000), 500),
        (made("t", 100, &[100_000, 50, 70_000], 100), 2000),
        (made("t", 100, &[9; 300], 100), 64),
        (made("t", 5000, &[], 5000), 64),
    ] {
        let mut all = made("before", 100, &[], 100);
        all.extend(records);
        with(&all, &limits(budget), |window| {
            assert!(window.is_cut && window.cost <= budget, "{} of {budget}", window.cost);
            let texts: Vec<usize> = window.items.iter().map(|item| item.text().len()).collect();
            assert!(texts.len() >= 2 && texts.iter().sum::<usize>() > 30, "{texts:?}");
            assert!(window.items.iter().all(|item| item.record.turn == "t"));
        });
    }
    // Short texts are left whole where cutting the long ones does.
    with(&made("t", 100, &[100_000, 50], 100), &limits(2000), |window| {
        let texts: Vec<usize> = window.items.iter().map(|item| item.text().len()).collect();
        assert_eq!((texts[0], texts[4], texts[5]), (100, 50, 100));
        assert!(texts[3] > 4000, "{texts:?}");
    });
}

#[test]
fn old_results_become_placeholders_before_turns_are_dropped() {
    let limits = WindowLimits { results: 1000, ..limits(4000) };
    let mut records = Vec::new();
    let mut most = 0;
    for turn in 0..40 {
        records.extend(made(&turn.to_string(), 40, &[1000], 40));
        with(&records, &limits, |window| {
            assert!(window.cost <= 4000);
            most = most.max(window.items.len() / 4);
            if weight(&records) <= 4000 {
                assert_eq!(window.cleared, 0);
            }
        });
    }
    // Ten of them fit as they are.
    assert!(most > 12, "{most}");
}

#[test]
fn an_earlier_read_of_a_file_points_to_the_newest() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 500"#);
    let text = "line\n".repeat(60);
    for number in 0..8 {
        let question = format!("question {number}");
        let turn = ask(&filter, &question, &s()).turn;
        let arguments = if number % 2 == 0 { r#"{"path":"a.rs"}"# } else { r#"{"path":"b.rs","lines":3}"# };
        act(&filter, &question, "Read.", &turn, &[call("c", "read", arguments), result("c", "read", &text)]);
    }
    let found = messages(&ask(&filter, "?", &s()));
    let again = found.iter().filter(|text| text.contains("read again below")).count();
    let whole = found.iter().filter(|text| text.contains("line\nline")).count();
    assert!(again > 0 && whole >= 2, "{found:?}");
    let last_note = found.iter().rposition(|text| text.contains("read again")).unwrap();
    assert!(found[last_note..].iter().any(|text| text.contains("line\nline")));
}

#[test]
fn a_pinned_first_turn_stays() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 400, "pin_first_turn": true, "memory_trace": true"#);
    for number in 0..60 {
        let question = format!("question {number}");
        let asked = ask(&filter, &question, &s());
        if number > 0 {
            assert_eq!(messages(&asked)[0], "user: question 0");
            assert!(attached(&asked, "memory_trace")["tokens"].as_u64().unwrap() <= 400);
        }
        reply(&filter, &question, "answer", &asked.turn);
    }
    let found = messages(&ask(&filter, "?", &s()));
    assert_ne!(found[2], "user: question 1");
    assert_eq!(found.iter().filter(|text| *text == "user: question 0").count(), 1);
}

#[test]
fn no_more_messages_are_shown_than_the_limit() {
    let mut records = Vec::new();
    for turn in 0..100 {
        records.extend(made(&turn.to_string(), 20, &[], 20));
        let limits = WindowLimits { messages: 11, ..limits(4000) };
        with(&records, &limits, |window| {
            let shown = window.items.len();
            assert!(shown <= 11 && shown >= 2.min(records.len()), "{shown}");
        });
    }
}

#[test]
fn message_and_byte_limits_keep_as_much_as_the_budget_does() {
    let host_counts_more = |records: &mut Vec<StoredRecord<'static>>| {
        for record in records {
            record.tokens = Some(record.weight * 3 / 2);
        }
    };
    for (budget, limit, counts_more) in
        [(50_000, 100, false), (50_000, 500, false), (4000, 500, true), (9000, 120, true)]
    {
        let limits = WindowLimits { messages: limit, ..limits(budget) };
        let mut records = Vec::new();
        let (mut starts, mut full) = (Vec::new(), 0);
        for turn in 0..700 {
            let mut made = made(&turn.to_string(), 60, &[], 140);
            if counts_more {
                host_counts_more(&mut made);
            }
            records.extend(made);
            with(&records, &limits, |window| {
                let messages = window.items.len() as u64;
                assert!(window.cost <= budget && messages <= limit);
                if window.start > 0 {
                    full += 1;
                    assert!(messages * 5 >= limit * 2 || window.cost * 5 >= budget * 2, "{messages} {}", window.cost);
                }
                starts.push(window.start);
            });
        }
        assert!(starts.is_sorted(), "{starts:?}");
        starts.dedup();
        assert!(full > 200 && starts.len() < full / 5, "{full}, {starts:?}");
    }
}

#[test]
fn the_trace_names_the_fate_of_each_turn() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 100, "memory_trace": true"#);
    for number in 0..12 {
        let question = format!("question {number}");
        reply(&filter, &question, "answer", &ask(&filter, &question, &s()).turn);
    }
    let open = ask(&filter, "open", &s()).turn;
    act(&filter, "open", "", &open, &[call("c", "look", "{}")]);
    let trace = attached(&ask(&filter, "?", &s()), "memory_trace");
    assert_eq!((&trace["budget"], &trace["estimate"]), (&json!(100), &json!("bytes-1")));
    let fates: Vec<&str> =
        trace["turns"].as_array().unwrap().iter().map(|turn| turn["fate"].as_str().unwrap()).collect();
    assert!(fates.contains(&"over budget") && fates.ends_with(&["kept", "kept"]), "{fates:?}");
    assert!(trace["tokens"].as_u64().unwrap() <= 100);
}

#[test]
fn the_trace_distinguishes_the_message_limit_from_cutting_back() {
    let host = TestHost::new();
    let filter = filter(&host, r#""message_limit": 10, "memory_trace": true"#);
    for number in 0..12 {
        let question = format!("question {number}");
        reply(&filter, &question, "answer", &ask(&filter, &question, &s()).turn);
    }
    let trace = attached(&ask(&filter, "?", &s()), "memory_trace");
    let fates: Vec<&str> =
        trace["turns"].as_array().unwrap().iter().map(|turn| turn["fate"].as_str().unwrap()).collect();
    let newest = fates.iter().rev().take_while(|fate| **fate == "kept").count();
    assert!((1..=5).contains(&newest), "{fates:?}");
    let (too_many, cut_back) = fates[..12 - newest].split_at(7);
    assert!(too_many.iter().all(|fate| *fate == "over message_limit"), "{fates:?}");
    assert!(cut_back.iter().all(|fate| *fate == "cut back"), "{fates:?}");
    // Since when it is stable depends on turns that are not known any more.
    assert_eq!(trace["stable_since"], serde_json::Value::Null);
}

#[test]
fn reading_costs_the_same_however_long_the_conversation_is() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 1000, "auto_summarize": false"#);
    let mut sizes = Vec::new();
    for number in 0..1000 {
        let turn = ask(&filter, "What is the weather like?", &s());
        sizes.push(turn.metadata.map_or(0, |metadata| metadata.len()));
        reply(&filter, "What is the weather like?", &format!("As on day {number}."), &turn.turn);
    }
    assert_eq!(host.waits.get(), 2000);
    let most = |range: std::ops::Range<usize>| sizes[range].iter().max().copied().unwrap();
    assert!(most(500..1000) <= most(100..500) + 200);
}

/// Turns of random shape, some of them left open, with other turns between their steps.
fn conversation() -> impl Strategy<Value = Vec<StoredRecord<'static>>> {
    let turn = (0..3000_usize, prop::collection::vec(0..4000_usize, 0..4), 0..3000_usize, 0..10_u8, any::<u16>());
    prop::collection::vec(turn, 1..40).prop_map(|turns| {
        let mut all: Vec<StoredRecord<'static>> = Vec::new();
        let mut left: Vec<StoredRecord<'static>> = Vec::new();
        for (number, (question, results, answer, fate, tokens)) in turns.into_iter().enumerate() {
            let mut records = made(&number.to_string(), question, &results, answer);
            if tokens % 3 == 0 {
                for record in &mut records {
                    record.tokens = Some(record.weight * u64::from(tokens % 7) / 3);
                }
            }
            // One in five is not finished, or only after others.
            let cut = records.len() * usize::from(fate.min(8)) / 8;
            let rest = records.split_off(cut.max(1));
            all.extend(records);
            all.append(&mut left);
            if fate % 2 == 0 {
                left = rest;
            }
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Turns may be longer than a step, and go on after others.
    #[test]
    fn windows_since_their_stable_weight_have_the_same_start(
        sizes in prop::collection::vec((0..600_usize, 0..600_usize, prop::bool::weighted(0.15), prop::bool::weighted(0.1)), 1..40),
        budget in 64..800_u64, removed in 0..20_usize,
    ) {
        let limits = limits(budget);
        let (mut records, mut seen) = (Vec::new(), Vec::new());
        for (number, (question, answer, is_long, goes_on)) in sizes.iter().enumerate() {
            let long = if *is_long { 5 } else { 1 };
            let name = if *goes_on { number.saturating_sub(2) } else { number };
            let mut turn = made(&name.to_string(), question * long, &[], answer * long);
            turn[0].begins = name == number;
            records.extend(turn);
            let total = weight(&records);
            let left = if number > sizes.len() / 2 { 2 * removed.min(number / 2) } else { 0 };
            // Retention takes whole turns.
            let left = (left..records.len()).find(|at| records[*at].begins).unwrap_or(0);
            let numbered: Vec<_> = (0..).zip(&records).skip(left).collect();
            let all = group_into_turns(&numbered, total);
            let shown = select_window(&all, total, None, &limits, None);
            let shown_from = shown.items.first().map(|item| item.position);
            if let Some(since) = shown.stable_since {
                for (total, before) in seen.iter().filter(|(total, _)| *total >= since) {
                    prop_assert_eq!(*before, shown_from, "since {} at {}", since, total);
                }
            }
            seen.push((total, shown_from));
        }
    }

    #[test]
    fn windows_stay_within_their_limits_and_pair_calls_with_results(
        records in conversation(), budget in 64..20_000_u64, keep in 10..90_u64, results in 0..5000_u64,
        messages in 2..60_u64, dropped in 0..40_usize,
    ) {
        let limits = WindowLimits { budget, keep, messages, results, reach: None, pinned: None };
        let numbered = numbered(&records);
        let total = weight(&records);
        let all = group_into_turns(&numbered, total);
        let shown = select_window(&all, total, None, &limits, None);
        prop_assert!(shown.cost <= budget, "{} > {}", shown.cost, budget);
        prop_assert_eq!(shown.cost, shown.items.iter().map(|item| item.cost()).sum::<u64>());
        prop_assert!(!shown.items.is_empty());

        // Each call has its result, after it, and no result is alone; unless tools were cut out of the newest turn.
        let mut open: Vec<(&str, &str)> = Vec::new();
        for item in &shown.items {
            match item.kind {
                RecordKind::ToolCall => open.push((&item.record.turn, item.call_id())),
                RecordKind::ToolResult => {
                    let at = open.iter().position(|call| *call == (&*item.record.turn, item.call_id()));
                    prop_assert!(at.is_some(), "a result without its call");
                    open.remove(at.unwrap());
                }
                _ => {}
            }
        }
        prop_assert!(open.is_empty(), "calls without results: {:?}", open);

        // A reader that got less of the log comes to the same, or to a later beginning; never to another text. But of a turn
        // that went on after others, and began before what was read, it does not know enough to show it.
        let tail = &numbered[dropped.min(numbered.len() - 1)..];
        let fewer = group_into_turns(tail, total);
        let other = select_window(&fewer, total, dropped.checked_sub(1).map(|at| at as u64), &limits, None);
        let known = tail.iter().map(|(_, record)| record.weight).sum::<u64>();
        let is_known = fewer.iter().skip(1).all(|turn| turn.is_whole);
        if is_known && !shown.is_cut && !other.is_cut && shown.cleared == 0 && other.cleared == 0 {
            let positions = |window: &ContextWindow<'_, '_>| window.items.iter().map(|item| item.position).collect::<Vec<_>>();
            let (whole, part) = (positions(&shown), positions(&other));
            let both = whole.iter().filter(|at| part.contains(at)).count();
            prop_assert!(both == part.len() || known < budget * 2, "{:?} {:?}", whole, part);
        }
    }

    /// What is stored by one process is shown alike by any, whether it looks at all that it reads, so that it can trace it,
    /// or no further back than the window.
    #[test]
    fn every_reader_sees_the_same_window(
        said in prop::collection::vec(("[a-z ]{0,200}", "[a-zé\"\n]{1,300}", 0..4_usize), 1..20),
        budget in 64..2000_u64, results in 0..300_u64,
    ) {
        let host = TestHost::new();
        let options = format!("\"max_context_tokens\": {budget}, \"tool_result_tokens\": {results}");
        let writer = filter(&host, &options);
        let mut is_stored = false;
        for (question, answer, calls) in &said {
            let turn = ask(&writer, question, &s()).turn;
            // Tools are at work in one turn of four.
            let activity = [call("c", "read", r#"{"path":"a"}"#), result("c", "read", answer)];
            act(&writer, question, answer, &turn, if *calls == 3 { &activity } else { &[] });
            let views = [", \"memory_trace\": true", "", ""].map(|more| {
                let reader = filter(&host, &[&*options, more].concat());
                attached(&ask(&reader, "?", &s()), "memory_messages")
            });
            prop_assert_eq!(&views[0], &views[1]);
            prop_assert_eq!(&views[1], &views[2]);
            // Of a blank answer without tools nothing is stored.
            is_stored |= *calls == 3 || !answer.trim().is_empty();
            prop_assert_eq!(views[0].as_array().is_some_and(|all| !all.is_empty()), is_stored);
        }
    }
}

#[test]
fn a_window_stays_within_max_window_bytes() {
    let host = TestHost::new();
    let options = r#""max_window_bytes": 4096, "memory_trace": true"#;
    let limited = filter(&host, options);
    for number in 0..40 {
        let question = format!("question {number} {}", "\u{1}".repeat(30));
        let asked = ask(&limited, &question, &s());
        if number > 1 {
            let found = messages(&asked);
            assert!(found.len() >= 2 && found.len().is_multiple_of(2), "{found:?}");
        }
        let added: usize =
            ["memory_messages", "memory_trace"].map(|name| attached(&asked, name).to_string().len()).iter().sum();
        assert!(added <= 4096, "{added}");
        reply(&limited, &question, "answer", &asked.turn);
    }
    // What can't be made to fit is left out, and told.
    let text =
        filter(&host, r#""max_window_bytes": 4096, "window_form": "text", "query_prompt_template": "{{query}}""#);
    let asked = ask(&text, &"?".repeat(5000), &s());
    assert_eq!((attached(&asked, "memory_messages"), &*asked.problem.unwrap().code), (Value::Null, "limit"));
    assert!(attached(&ask(&text, "?", &s()), "memory_messages").is_string());
}

#[test]
fn the_newest_turn_is_read_whole_whatever_its_size() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_context_tokens": 64, "max_message_length": 0"#);
    let long = "\u{1}\"x".repeat(50_000);
    for number in 0..3 {
        let asked = ask(&filter, "?", &s());
        let before = host.waits.get();
        let found = messages(&ask(&filter, "?", &s()));
        // Once more is read, and no more.
        let waits = if number == 0 { 1 } else { 2 };
        assert_eq!((found.len(), host.waits.get() - before), (if number == 0 { 0 } else { 2 }, waits));
        reply(&filter, &long, &long, &asked.turn);
    }
}

#[test]
fn only_the_summary_is_left_out_if_it_is_too_long() {
    let host = TestHost::new();
    let filter = filter(&host, r#""max_window_bytes": 2048"#);
    for text in ["one", "two", "three"] {
        reply(&filter, text, "Well.", &ask(&filter, text, &s()).turn);
    }
    let put = |bytes: usize| {
        let summary = json!({"text": "x".repeat(bytes), "to": 1, "total": 20}).to_string();
        let mut buckets = host.buckets_mut();
        let map = buckets.get_mut("s").unwrap().maps.get_mut("session").unwrap();
        map.insert("summary".into(), summary);
    };
    put(500);
    let asked = ask(&filter, "?", &s());
    assert_eq!((messages(&asked)[0].as_str(), asked.problem), ("user: two", None));
    put(5000);
    let asked = ask(&filter, "?", &s());
    assert_eq!(messages(&asked)[0], "user: one");
    assert_eq!(attached(&asked, "memory_summary"), Value::Null);
    assert!(asked.problem.unwrap().message.starts_with("The summary left out"));
}
