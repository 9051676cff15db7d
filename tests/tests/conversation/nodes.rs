//! Node mode: each node of a pipeline has a transcript of its own.

use keepline::pipe::Effect;
use keepline_tests::on_every_store;
use serde_json::{Value, json};

use super::{Given, UNASKED, ask, reply, said, talking, turn};

on_every_store! {
    a_node_shows_only_its_own_turns,
    an_answer_goes_to_the_node_that_it_names,
    an_entry_without_a_node_passes_without_memory_or_fails_as_configured,
    a_nodes_transcript_expires_when_unused,
}

fn of(node: &str) -> Value {
    json!({"session_id": "s", "app_id": "a", "node_id": node, "memory_mode": "node"})
}

async fn a_node_shows_only_its_own_turns(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    turn(&mut node, "s", "1", "one").await;
    for round in 0..3 {
        // A loop within one run keeps every turn.
        assert_eq!(said(&ask(&mut node, "n1?", &of("n1")).await).len(), 2 * round);
        assert_eq!(reply(&mut node, "n1!", &json!({})).await.effect, Effect::Stored);
    }
    assert_eq!(said(&ask(&mut node, "?", &of("n2")).await), [""; 0]);
    assert_eq!(said(&ask(&mut node, "?", &json!({"session_id": "s"})).await), ["user: 1", "assistant: one"]);
    let other = json!({"session_id": "s", "app_id": "b", "node_id": "n1", "memory_mode": "node"});
    assert_eq!(said(&ask(&mut node, "?", &other).await), [""; 0]);
    // Long and odd names, too.
    let odd = format!("é\0 {}", "x".repeat(2000));
    ask(&mut node, "odd?", &of(&odd)).await;
    reply(&mut node, "odd!", &json!({})).await;
    assert_eq!(said(&ask(&mut node, "?", &of(&odd)).await), ["user: odd?", "assistant: odd!"]);
    assert_eq!(node.counters().denied, 0);
}

async fn an_answer_goes_to_the_node_that_it_names(given: Given) {
    let mut node = talking(&given, &json!({})).await;
    ask(&mut node, "n1?", &of("n1")).await;
    assert_eq!(reply(&mut node, "for n1", &of("n1")).await.effect, Effect::Stored);
    // Another one than its question's: as an answer without a question.
    let passed = reply(&mut node, "for n2", &json!({"node_id": "n2"})).await;
    assert_eq!((passed.effect, passed.problem), (Effect::Stored, None));
    let passed = reply(&mut node, "for b", &json!({"app_id": "b"})).await;
    assert_eq!((passed.effect, passed.problem), (Effect::Stored, None));
    assert_eq!(said(&ask(&mut node, "?", &of("n1")).await), ["user: n1?", "assistant: for n1"]);
    assert_eq!(said(&ask(&mut node, "?", &of("n2")).await), [UNASKED, "assistant: for n2"]);
    let other = json!({"session_id": "s", "app_id": "b", "node_id": "n1", "memory_mode": "node"});
    assert_eq!(said(&ask(&mut node, "?", &other).await), [UNASKED, "assistant: for b"]);
    assert_eq!(node.counters().denied, 0);
}

async fn an_entry_without_a_node_passes_without_memory_or_fails_as_configured(given: Given) {
    let nameless = json!({"session_id": "s", "memory_messages": "forged"});
    for (require, effect) in [(false, Effect::Passed), (true, Effect::Failed)] {
        let mut node = talking(&given, &json!({"memory_mode": "node", "require_node": require})).await;
        node.store.calls();
        let asked = node.pipe.question("?", &nameless.to_string()).await;
        let answered = node.pipe.answer("!", &nameless.to_string()).await;
        if require {
            for error in [asked.unwrap_err(), answered.unwrap_err()] {
                assert!(error.code.to_string() == "no-node" && error.message.contains("no node_id"), "{error:?}");
            }
            assert_eq!(node.counters().failed, 2);
        } else {
            let asked = asked.unwrap();
            assert_eq!((asked.effect, asked.problem), (effect, None));
            assert_eq!(asked.metadata.unwrap(), r#"{"session_id":"s"}"#);
            assert_eq!(answered.unwrap().effect, effect);
        }
        assert_eq!(node.store.calls(), 0);
    }
}

async fn a_nodes_transcript_expires_when_unused(given: Given) {
    let mut node = talking(&given, &json!({"node_ttl_hours": 2})).await;
    let hour = std::time::Duration::from_secs(3600);
    for round in 0..4 {
        assert_eq!(said(&ask(&mut node, "?", &of("n")).await).len(), 2 * round);
        reply(&mut node, "!", &json!({})).await;
        given.pass_time(hour);
    }
    given.pass_time(hour);
    assert_eq!(said(&ask(&mut node, "?", &of("n")).await), [""; 0]);
}
