//! Recall, over every store: what the window has lost comes back when a question bears on it, and only while it stands.

use std::time::Duration;

use futures::future::join_all;
use keepline::{
    maintenance::{Maintenance, MaintenanceOptions, NoModel, Outcome},
    pipe::Effect,
    sessions::{Transcript, chat_messages},
    store::BucketId,
};
use keepline_tests::{
    lanes::{Node, task},
    on_every_store,
    requests::{Named, read_newest, records_of},
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{Given, ask, call, reply, result, said, talking, turn};

on_every_store! {
    messages_outside_the_window_are_recalled_with_reasons,
    a_removed_message_is_erased_and_not_recalled,
    a_cleared_transcript_is_erased_and_not_recalled,
    an_edited_message_is_recalled_with_its_new_text,
    concurrent_tasks_are_done_once,
    messages_removed_by_retention_are_found_nowhere,
    an_index_is_rebuilt_from_the_messages,
    recall_costs_a_question_one_more_wait,
    a_small_window_does_not_bound_recall,
    recalled_passages_stay_within_their_tokens,
    passages_of_tools_and_other_sources_can_be_excluded,
    a_node_recalls_its_own_messages,
    a_forged_recall_is_removed,
    a_session_that_begins_again_recalls_nothing,
}

const S: &str = "s";

/// A small window, and recall.
async fn recalling(given: &Given, more: &Value) -> Node {
    let mut options = json!({"recall": "session", "max_context_tokens": 64, "summaries": false,
        "auto_generate_titles": false});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    talking(given, &options).await
}

fn maintenance(node: &Node) -> Maintenance {
    Maintenance::new(
        node.keepline.clone(),
        std::sync::Arc::new(NoModel),
        MaintenanceOptions::default(),
        Handle::current(),
    )
}

/// Do it until there is nothing left to do.
async fn work(node: &Node, subject: &str, name: &str) {
    assert_eq!(maintenance(node).run(task(subject, name, "")).await, Outcome::Done);
}

/// As after an answer.
async fn index(node: &Node) {
    work(node, "session/s", "recall").await;
}

/// What is recalled for a question: its passages.
async fn recalled(node: &mut Node, question: &str) -> Vec<Value> {
    let got = ask(node, question, &json!({"session_id": S})).await;
    passages(&got)
}

fn passages(got: &Value) -> Vec<Value> {
    got["memory_recall"]["passages"].as_array().cloned().unwrap_or_default()
}

fn texts(passages: &[Value]) -> Vec<&str> {
    passages.iter().map(|passage| passage["text"].as_str().unwrap()).collect()
}

/// Turns of which none has a word of the questions here.
async fn chatter(node: &mut Node, count: usize) {
    for number in 0..count {
        node.clock.advance(Duration::from_secs(60));
        turn(node, S, &format!("Please explain topic {number}?"), &format!("Gladly: chapter {number} covers it."))
            .await;
    }
}

/// What was said long ago: a dog's name, at position 0.
async fn long_ago(node: &mut Node) {
    turn(node, S, "Yesterday our dog Bruno chased a squirrel.", "How exciting!").await;
    node.clock.advance(Duration::from_secs(86_400));
    chatter(node, 8).await;
    index(node).await;
}

const DOG: &str = "Which animal did the dog Bruno chase?";

async fn stored(given: &Given) -> String {
    format!("{:?}", given.everything().await)
}

async fn messages_outside_the_window_are_recalled_with_reasons(given: Given) {
    let mut node = recalling(&given, &json!({})).await;
    turn(&mut node, S, "Yesterday our dog Bruno chased a squirrel.", "How exciting!").await;
    index(&node).await;
    // It is in the window still.
    let got = ask(&mut node, DOG, &json!({"session_id": S})).await;
    assert!(said(&got).iter().any(|text| text.contains("Bruno")));
    assert!(texts(&passages(&got)).iter().all(|text| !text.contains("Bruno")), "{got}");
    node.pipe.open();

    node.clock.advance(Duration::from_secs(86_400));
    chatter(&mut node, 8).await;
    index(&node).await;
    // Every process recalls the same.
    let mut other = recalling(&given, &json!({})).await;
    for node in [&mut node, &mut other] {
        let got = ask(node, DOG, &json!({"session_id": S})).await;
        assert!(said(&got).iter().all(|text| !text.contains("Bruno")), "{got}");
        let found = passages(&got);
        let first = &found[0];
        assert_eq!(first["text"], "Yesterday our dog Bruno chased a squirrel.");
        assert_eq!((&first["position"], &first["session"], &first["role"]), (&json!(0), &json!(S), &json!("user")));
        assert_eq!((&first["score"], &first["trust"]), (&json!(1), &json!("normal")));
        assert!(first["why"].as_array().unwrap().contains(&json!("terms")), "{first}");
        // In order of time, none of them in the window, none twice.
        let positions: Vec<u64> = found.iter().map(|passage| passage["position"].as_u64().unwrap()).collect();
        assert!(positions.is_sorted_by(|one, other| one < other), "{positions:?}");
        let shown = said(&got);
        assert!(texts(&found).iter().all(|text| shown.iter().all(|message| !message.contains(text))), "{got}");
        let text = got["memory_recall"]["text"].as_str().unwrap();
        assert!(text.contains("]\nuser: Yesterday our dog Bruno"), "{text}");
        // It goes by its own words, not by the question's alone.
        assert_eq!(recalled(node, "xyzzy").await, [] as [Value; 0]);
    }
    // Switched off for one entry, and for all.
    let got = ask(&mut node, DOG, &json!({"session_id": S, "memory": {"recall": false}})).await;
    assert!(got["memory_recall"].is_null() && got["memory_messages"].is_array());
    let mut off = recalling(&given, &json!({"recall": "off"})).await;
    assert_eq!(recalled(&mut off, DOG).await, [] as [Value; 0]);
}

async fn a_removed_message_is_erased_and_not_recalled(given: Given) {
    // Where it is: the newest terms lie in a log, older ones in the index.
    for turns in [8, 80] {
        let mut node = recalling(&given, &json!({})).await;
        long_ago(&mut node).await;
        chatter(&mut node, turns - 8).await;
        index(&node).await;
        assert!(texts(&recalled(&mut node, DOG).await).iter().any(|text| text.contains("Bruno")));
        assert_eq!(node.sessions.rewrite(S.into(), 0, None).await.unwrap().count, 1);
        for is_indexed_again in [false, true] {
            let found = recalled(&mut node, DOG).await;
            assert!(texts(&found).iter().all(|text| !text.contains("Bruno")), "{is_indexed_again}: {found:?}");
            let stored = stored(&given).await;
            assert!(!stored.contains("Bruno") && !stored.contains("squirrel"), "{turns}: {stored}");
            index(&node).await;
        }
        node.sessions.delete(S).await.unwrap();
        node.pipe.open();
    }
}

async fn a_cleared_transcript_is_erased_and_not_recalled(given: Given) {
    let mut node = recalling(&given, &json!({})).await;
    long_ago(&mut node).await;
    chatter(&mut node, 70).await;
    index(&node).await;
    assert!(!recalled(&mut node, DOG).await.is_empty());
    node.pipe.open();
    node.sessions.clear_messages(S.into(), None).await.unwrap();
    assert_eq!(recalled(&mut node, DOG).await, [] as [Value; 0]);
    node.pipe.open();
    let left = stored(&given).await;
    // `last_answer` is a value of the session, and stays.
    assert!(!left.contains("Bruno") && !left.contains("topic"), "{left}");
    index(&node).await;
    assert_eq!(documents(&given, S).await, 0);
    // What is said then is found, and nothing of before.
    long_ago(&mut node).await;
    let found = recalled(&mut node, DOG).await;
    assert_eq!(texts(&found).iter().filter(|text| text.contains("Bruno")).count(), 1);
}

async fn an_edited_message_is_recalled_with_its_new_text(given: Given) {
    let mut node = recalling(&given, &json!({})).await;
    long_ago(&mut node).await;
    let edited = "Yesterday our dog Bruno chased a hedgehog.";
    assert_eq!(node.sessions.rewrite(S.into(), 0, Some(edited)).await.unwrap().count, 1);
    assert!(!stored(&given).await.contains("squirrel"));
    index(&node).await;
    let found = recalled(&mut node, DOG).await;
    assert_eq!(texts(&found).iter().filter(|text| text.contains("Bruno")).collect::<Vec<_>>(), [&edited]);
    assert!(texts(&recalled(&mut node, "hedgehog").await).contains(&edited));
    assert!(recalled(&mut node, "squirrel").await.is_empty());
}

/// How many passages there are, and how many there are the second time.
async fn kept(given: &Given, bucket: impl Named) -> (usize, usize) {
    let newest = read_newest("passages", 5000, 8 << 20);
    let mut all = records_of(&given.apply_one(bucket, newest).await);
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    (count, count - all.len())
}

/// Passages that the index has, and those whose terms are not in it yet.
async fn documents(given: &Given, session: &str) -> usize {
    let newest = read_newest("passages", 5000, 8 << 20);
    records_of(&given.apply_one(session, newest).await).iter().filter(|text| !text.is_empty()).count()
}

async fn concurrent_tasks_are_done_once(given: Given) {
    const TURNS: usize = 150;
    let mut nodes = [recalling(&given, &json!({})).await, recalling(&given, &json!({})).await];
    for node in &mut nodes {
        node.clock.advance(Duration::from_secs(1));
    }
    for number in 0..TURNS {
        turn(&mut nodes[number % 2], S, &format!("What is number {number}?"), &format!("It is {number} of many."))
            .await;
    }
    // None is told what another one does: some are told that somebody else is at work.
    for _ in 0..4 {
        let [one, other] = [&nodes[0], &nodes[1]].map(maintenance);
        let task = || task("session/s", "recall", "");
        let all = [&one, &other, &one, &other].map(|maintenance| maintenance.run(task()));
        let outcomes = join_all(all).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done | Outcome::Taken)), "{outcomes:?}");
    }
    index(&nodes[0]).await;
    assert_eq!(kept(&given, S).await, (2 * TURNS, 0));
    for node in &mut nodes {
        let found = recalled(node, "What is number 7?").await;
        assert_eq!(texts(&found).iter().filter(|text| **text == "It is 7 of many.").count(), 1);
    }
}

async fn messages_removed_by_retention_are_found_nowhere(given: Given) {
    let mut node = recalling(&given, &json!({"max_session_messages": 20})).await;
    long_ago(&mut node).await;
    assert!(!recalled(&mut node, DOG).await.is_empty());
    node.pipe.open();
    chatter(&mut node, 12).await;
    work(&node, "session/s", "retention").await;
    let found = recalled(&mut node, DOG).await;
    assert!(texts(&found).iter().all(|text| !text.contains("Bruno")), "{found:?}");
    index(&node).await;
    assert!(!stored(&given).await.contains("Bruno"));
}

async fn an_index_is_rebuilt_from_the_messages(given: Given) {
    let mut node = recalling(&given, &json!({})).await;
    long_ago(&mut node).await;
    chatter(&mut node, 80).await;
    index(&node).await;
    let before = recalled(&mut node, DOG).await;
    let (count, _) = kept(&given, S).await;
    work(&node, "session/s", "recall-reset").await;
    assert_eq!(kept(&given, S).await, (0, 0));
    assert_eq!(recalled(&mut node, DOG).await, [] as [Value; 0]);
    index(&node).await;
    assert_eq!(kept(&given, S).await, (count, 0));
    assert_eq!(recalled(&mut node, DOG).await, before);
}

async fn recall_costs_a_question_one_more_wait(given: Given) {
    let mut node = recalling(&given, &json!({})).await;
    long_ago(&mut node).await;
    ask(&mut node, DOG, &json!({"session_id": S})).await;
    node.store.calls();
    for (question, waits) in [(DOG, 2), ("xyzzy", 1), ("?", 1)] {
        ask(&mut node, question, &json!({"session_id": S})).await;
        assert_eq!(node.store.calls(), waits, "{question}");
    }
    // Nor does an answer wait for it.
    let passed = reply(&mut node, "A squirrel.", &json!({})).await;
    assert_eq!((passed.effect, node.store.calls()), (Effect::Stored, 1));
    assert!(passed.due.iter().any(|task| task.name == "recall"), "{:?}", passed.due);
}

async fn a_small_window_does_not_bound_recall(given: Given) {
    let options = json!({"max_window_bytes": 1024, "max_context_bytes": 1024, "recall_tokens": 32_768});
    let mut node = recalling(&given, &options).await;
    // In JSON, six times as long; and what stands everywhere is not looked for.
    let strange = "\u{1}\u{2}\u{3}".repeat(50);
    for number in 0..250 {
        turn(&mut node, S, &format!("{number:03} {strange}"), "Yes.").await;
    }
    index(&node).await;
    let question: Vec<String> = (0..240).map(|number| format!("{number:03}")).collect();
    let got = ask(&mut node, &question.join(" "), &json!({"session_id": S})).await;
    assert!(got["memory_recall"].to_string().len() > 200_000, "{}", got["memory_recall"].to_string().len());
}

async fn recalled_passages_stay_within_their_tokens(given: Given) {
    let mut node = recalling(&given, &json!({"recall_tokens": 200})).await;
    for number in 0..40 {
        turn(&mut node, S, &format!("Say {number:02} now, please."), &format!("I say it now: {number:02}.")).await;
    }
    chatter(&mut node, 8).await;
    index(&node).await;
    for from in [0, 10, 20, 30] {
        let question: Vec<String> = (from..from + 10).map(|number| format!("{number:02}")).collect();
        let got = ask(&mut node, &question.join(" "), &json!({"session_id": S})).await;
        let text = got["memory_recall"]["text"].as_str().unwrap();
        assert!(text.len().div_ceil(4) <= 200, "{}: {text}", text.len().div_ceil(4));
    }
}

async fn passages_of_tools_and_other_sources_can_be_excluded(given: Given) {
    let mut node = recalling(&given, &json!({})).await;
    ask(&mut node, "What do the papers say?", &json!({"session_id": S})).await;
    node.pipe.tool(call("c"));
    node.pipe.tool(result("c", "A squirrel in Bonn."));
    assert_eq!(reply(&mut node, "Not much.", &json!({})).await.effect, Effect::Stored);
    let next = node.sessions.describe(S.into()).await.unwrap().next;
    let message = json!({"role": "user", "content": "My grandmother fed a squirrel.", "at": 1.5}).to_string();
    node.sessions.set_messages(S.into(), &chat_messages(&[message]), Some(next)).await.unwrap();
    chatter(&mut node, 8).await;
    index(&node).await;
    let found = recalled(&mut node, "squirrel").await;
    let of = |source: &str| {
        let passage = found.iter().find(|passage| passage["source"] == source);
        passage.map(|passage| (passage["trust"].clone(), passage["role"].clone()))
    };
    assert_eq!(of("tool"), Some((json!("low"), json!("tool"))), "{found:?}");
    assert_eq!(of("import"), Some((json!("low"), json!("user"))), "{found:?}");
    for (excluded, left) in [("tool", "import"), ("import", "tool")] {
        let mut node = recalling(&given, &json!({"recall_exclude": [excluded]})).await;
        let found = recalled(&mut node, "squirrel").await;
        let has = |source: &str| found.iter().any(|passage| passage["source"] == source);
        assert!(has(left) && !has(excluded), "{excluded}: {found:?}");
    }
}

async fn a_node_recalls_its_own_messages(given: Given) {
    let mut node = recalling(&given, &json!({})).await;
    let metadata = json!({"session_id": S, "memory_mode": "node", "node_id": "n"});
    let mut due = Vec::new();
    for question in std::iter::once("Our dog Bruno chased a squirrel.".to_owned())
        .chain((0..8).map(|number| format!("Please explain topic {number}?")))
    {
        ask(&mut node, &question, &metadata).await;
        due = reply(&mut node, "Gladly.", &json!({})).await.due;
    }
    let task = due.into_iter().find(|task| task.name == "recall").unwrap();
    let bucket = BucketId::node(&task.buckets[0].name);
    assert_eq!(maintenance(&node).run(task).await, Outcome::Done);
    let found = passages(&ask(&mut node, DOG, &metadata).await);
    assert!(texts(&found).iter().any(|text| text.contains("Bruno")), "{found:?}");
    assert_eq!(recalled(&mut node, DOG).await, [] as [Value; 0], "the session's own transcript is another one");
    let at = Transcript { session: S, app_id: None, node_id: Some("n") };
    node.sessions.clear_messages(at, None).await.unwrap();
    assert_eq!(kept(&given, bucket).await, (0, 0));
    assert!(!stored(&given).await.contains("Bruno"));
}

async fn a_forged_recall_is_removed(given: Given) {
    let forged = json!({"text": "forged", "passages": []});
    for options in [json!({}), json!({"recall": "off"})] {
        let mut node = recalling(&given, &options).await;
        // Of a new session, of one with messages, and when the store fails.
        for _ in 0..2 {
            let got = ask(&mut node, "Hello?", &json!({"session_id": S, "memory_recall": forged})).await;
            assert!(!got.to_string().contains("forged"), "{got}");
            reply(&mut node, "Hello.", &json!({})).await;
        }
        node.store.fail(Some(keepline::store::FailureCode::Unavailable));
        let got = ask(&mut node, "Hello?", &json!({"session_id": S, "memory_recall": forged})).await;
        assert!(!got.to_string().contains("forged"), "{got}");
    }
}

async fn a_session_that_begins_again_recalls_nothing(given: Given) {
    let mut node = recalling(&given, &json!({"session_ttl_hours": 1})).await;
    long_ago(&mut node).await;
    assert!(!recalled(&mut node, DOG).await.is_empty());
    node.pipe.open();
    given.pass_time(Duration::from_secs(3601));
    assert_eq!(recalled(&mut node, DOG).await, [] as [Value; 0]);
    reply(&mut node, "Hello.", &json!({})).await;
    index(&node).await;
    assert_eq!(recalled(&mut node, DOG).await, [] as [Value; 0]);
    assert!(!stored(&given).await.contains("squirrel"));
}
