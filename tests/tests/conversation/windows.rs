//! Windows of conversations, over every store.

use keepline::pipe::Effect;
use keepline_tests::on_every_store;
use serde_json::json;

use super::{Given, ask, call, reply, result, said, talking, turn};

on_every_store! {
    a_window_is_within_its_budget_and_the_same_for_every_process,
    a_window_costs_one_read_however_long_the_conversation_is,
    the_window_can_be_formatted_as_text,
}

async fn a_window_is_within_its_budget_and_the_same_for_every_process(given: Given) {
    let options = json!({"max_context_tokens": 600, "memory_trace": true, "summaries": false});
    let mut nodes = [talking(&given, &options).await, talking(&given, &options).await];
    let metadata = json!({"session_id": "s"});
    let (mut kept, mut whole) = (0, 0);
    let mut before = String::new();
    for number in 0..60 {
        let [one, other] = &mut nodes;
        let (got, there) = (ask(one, "?", &metadata).await, ask(other, "?", &metadata).await);
        assert_eq!(got, there);
        let trace = &got["memory_trace"];
        let trace: serde_json::Value = trace.as_str().map_or(trace.clone(), |text| serde_json::from_str(text).unwrap());
        assert!(trace["tokens"].as_u64().unwrap() <= 600, "{trace}");
        // Whole turns, and no call without its result.
        let messages = said(&got);
        assert!(messages.first().is_none_or(|first| first.starts_with("user: ")), "{messages:?}");
        let count = |part: &str| messages.iter().filter(|text| text.contains(part)).count();
        assert_eq!(count("assistant: -c"), count("toolc: "));
        assert_eq!(messages.is_empty(), number == 0);
        let now = got["memory_messages"].to_string();
        let same = now.bytes().zip(before.bytes()).take_while(|(one, other)| one == other).count();
        (kept, whole) = (kept + same, whole + before.len());
        before = now;

        let answering = &mut nodes[number % 2];
        ask(answering, &format!("question {number}"), &metadata).await;
        if number % 3 == 0 {
            answering.pipe.tool(call("c"));
            answering.pipe.tool(result("c", &"long ".repeat(number)));
        }
        assert_eq!(reply(answering, &format!("answer {number}"), &json!({})).await.effect, Effect::Stored);
    }
    // Most of a prompt begins as the one before.
    assert!(kept * 100 > whole * 80, "{kept} of {whole}");
}

async fn a_window_costs_one_read_however_long_the_conversation_is(given: Given) {
    let mut node = talking(&given, &json!({"max_context_tokens": 400, "summaries": false})).await;
    for number in 0..150 {
        turn(&mut node, "s", &format!("question {number}"), &"word ".repeat(20)).await;
    }
    node.store.calls();
    let got = ask(&mut node, "?", &json!({"session_id": "s"})).await;
    assert_eq!(node.store.calls(), 1);
    let messages = said(&got);
    assert!((2..40).contains(&messages.len()), "{}", messages.len());
    assert_eq!(messages[messages.len() - 2], "user: question 149");
    // Switched off for one entry.
    let got = ask(&mut node, "?", &json!({"session_id": "s", "memory": {"read": false}})).await;
    assert!(got["memory_messages"].is_null() && got["memory_context"].is_null());
    let passed = reply(&mut node, "!", &json!({"memory": {"write": false}})).await;
    assert_eq!(passed.effect, Effect::Skipped);
}

async fn the_window_can_be_formatted_as_text(given: Given) {
    let options =
        json!({"window_form": "text", "human_prefix": "H", "query_prompt_template": "{{history}}\nH: {{query}}"});
    let mut node = talking(&given, &options).await;
    turn(&mut node, "s", "1", "one").await;
    let got = ask(&mut node, "2 {{history}}", &json!({"session_id": "s"})).await;
    assert_eq!(got["memory_messages"], "H: 1\nAssistant: one\nH: 2 {{history}}");
}
