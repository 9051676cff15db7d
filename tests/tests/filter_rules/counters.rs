//! Every entry is counted by its effect.

use keepline::store::FailureCode;
use keepline_tests::{lanes::Node, on_every_store};

use super::Given;

async fn every_outcome_of_an_entry_is_counted(given: Given) {
    let mut node = Node::new(&given.store, r#"{"max_value_bytes": 100}"#).await;
    node.question("{}").await;
    node.ask("a b").await;
    node.ask("s1").await;
    node.reply("x").await;
    node.ask("s1").await;
    node.reply(&"x".repeat(200)).await;
    node.sessions.delete("s1").await.unwrap();
    node.reply("x").await;
    node.store.fail(Some(FailureCode::Other));
    node.ask("s1").await;
    let counters = node.counters();
    assert_eq!([counters.passed, counters.ignored, counters.resumed, counters.enriched], [1, 1, 1, 1]);
    assert_eq!([counters.stored, counters.limited, counters.ended, counters.failed, counters.faults], [1, 1, 1, 1, 0]);
}

on_every_store! {
    every_outcome_of_an_entry_is_counted,
}
