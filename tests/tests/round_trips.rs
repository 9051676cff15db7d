//! Counts what an entry costs the store: calls of it, and requests over the network.

use std::sync::Arc;

use keepline::pipe::Effect;
use keepline_tests::{
    lanes::Node,
    on_every_store,
    requests::{create, put},
    stores::StoreUnderTest,
};

on_every_store! {
    an_entry_without_a_session_costs_nothing,
    a_question_costs_one_round_trip,
    an_answer_costs_one_round_trip,
    an_answer_that_makes_a_summary_due_costs_two,
    a_steady_conversation_costs_two_round_trips_a_pair_plus_summaries,
    an_entry_over_a_limit_costs_no_or_one_round_trip,
    a_memory_over_its_limit_costs_three_or_four,
    an_answer_costs_one_more_round_trip_for_a_broken_value,
    the_operators_calls_cost_few_round_trips,
    an_entry_of_a_user_waits_once_and_a_first_answer_once_more,
    an_old_branch_costs_a_second_wait,
    operators_calls_about_users_take_a_bounded_number_of_round_trips,
}

/// A filter whose store knows its scripts.
async fn warm(given: &StoreUnderTest, options: &str) -> Node {
    let mut node = Node::new(&given.store, options).await;
    // A connection to each server that there is.
    given.store.check().await.unwrap();
    node.ask("warm").await;
    node.sessions.resume("warm").await.unwrap();
    node.sessions.list("", 1).await.unwrap();
    node.sessions.delete("warm").await.unwrap();
    node.store.calls();
    node
}

/// Counts what has been asked since it was last called.
struct Meter {
    is_remote: bool,
    round_trips: u64,
}

impl Meter {
    fn new(given: &StoreUnderTest, node: &Node) -> Self {
        Self { is_remote: ["redis", "cluster"].contains(&given.name), round_trips: node.store.behind().round_trips() }
    }

    fn read(&mut self, node: &Node) -> u64 {
        let calls = node.store.calls();
        let round_trips = node.store.behind().round_trips() - self.round_trips;
        self.round_trips += round_trips;
        assert_eq!(round_trips, if self.is_remote { calls } else { 0 });
        calls
    }
}

async fn an_entry_without_a_session_costs_nothing(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, "{}").await;
    let mut meter = Meter::new(&given, &node);
    for metadata in ["{}", "", "{\"session_id\":\"a b\"}", "{\"session_id\":null}", "{\"a\":\"session_id\"}"] {
        node.question(metadata).await;
        node.answer("x", metadata).await;
    }
    assert_eq!(meter.read(&node), 0);
}

async fn a_question_costs_one_round_trip(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, r#"{"session_ttl_hours": 1, "session_ttl_mode": "sliding"}"#).await;
    let mut meter = Meter::new(&given, &node);
    // A session that is created, one without keys, one with a hundred.
    assert_eq!(node.ask("s1").await.effect, Effect::Resumed);
    assert_eq!(meter.read(&node), 1);
    assert_eq!(node.ask("s1").await.effect, Effect::Resumed);
    assert_eq!(meter.read(&node), 1);
    for number in 0..100 {
        node.sessions.put("s1", &format!("k{number}"), "1").await.unwrap();
    }
    meter.read(&node);
    assert_eq!(node.ask("s1").await.attached, 100);
    assert_eq!(meter.read(&node), 1);
    // One whose life is due to be renewed, and one whose life is over.
    given.pass_time(std::time::Duration::from_secs(1800));
    assert_eq!(node.ask("s1").await.attached, 100);
    assert_eq!(meter.read(&node), 1);
    given.pass_time(std::time::Duration::from_secs(3600));
    assert_eq!(node.ask("s1").await.effect, Effect::Resumed);
    assert_eq!(meter.read(&node), 1);
}

async fn an_answer_costs_one_round_trip(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, "{}").await;
    let mut meter = Meter::new(&given, &node);
    // One that creates its session, one to a question, one whose session is gone.
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    assert_eq!(meter.read(&node), 1);
    node.ask("s1").await;
    meter.read(&node);
    assert_eq!(node.reply("x").await.effect, Effect::Stored);
    assert_eq!(meter.read(&node), 1);
    node.sessions.delete("s1").await.unwrap();
    meter.read(&node);
    assert_eq!(node.reply("x").await.effect, Effect::Ended);
    assert_eq!(meter.read(&node), 1);
}

async fn an_answer_that_makes_a_summary_due_costs_two(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, r#"{"max_history": 10}"#).await;
    let mut meter = Meter::new(&given, &node);
    for answer in 1..=5 {
        node.say("s1", "x").await;
        assert_eq!(meter.read(&node), 1, "answer {answer}");
    }
    node.say("s1", "x").await;
    assert_eq!(meter.read(&node), 2);
    node.say("s1", "x").await;
    assert_eq!(meter.read(&node), 1);
}

async fn a_steady_conversation_costs_two_round_trips_a_pair_plus_summaries(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, "{}").await;
    let mut meter = Meter::new(&given, &node);
    for _ in 0..300 {
        node.ask("s1").await;
        node.reply("x").await;
    }
    // Of a hundred records half are folded at a time: one answer in 25.
    let summaries = meter.read(&node) - 600;
    assert!((8..=12).contains(&summaries), "{summaries}");
}

async fn an_entry_over_a_limit_costs_no_or_one_round_trip(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, r#"{"max_value_bytes": 10, "max_keys": 2, "max_context_bytes": 5}"#).await;
    node.sessions.create("s1").await.unwrap();
    node.sessions.put("s1", "k", "123456").await.unwrap();
    let mut meter = Meter::new(&given, &node);
    node.store.calls();
    assert_eq!(node.say("s1", "far too long").await.effect, Effect::Limited);
    assert_eq!(meter.read(&node), 0);
    assert_eq!(node.say("s1", "x").await.effect, Effect::Limited);
    assert_eq!(meter.read(&node), 1);
}

async fn a_memory_over_its_limit_costs_three_or_four(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, r#"{"max_context_bytes": 100}"#).await;
    node.say("s1", "x").await;
    for number in 0..20 {
        node.sessions.put("s1", &format!("k{number:02}"), "123456").await.unwrap();
    }
    let mut meter = Meter::new(&given, &node);
    node.store.calls();
    // None is as small as its share: sizes first, and then those that fit.
    assert_eq!(node.ask("s1").await.attached, 10);
    assert_eq!(meter.read(&node), 4);
    for number in 2..20 {
        node.sessions.clear("s1", Some(&format!("k{number:02}"))).await.unwrap();
    }
    node.sessions.put("s1", "big", &"1".repeat(100)).await.unwrap();
    meter.read(&node);
    assert_eq!(node.ask("s1").await.attached, 4);
    assert_eq!(meter.read(&node), 3);
}

async fn an_answer_costs_one_more_round_trip_for_a_broken_value(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, "{}").await;
    given.apply("s1", create(), [put("answer_count", "\"x\"")]).await;
    let mut meter = Meter::new(&given, &node);
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    assert_eq!(meter.read(&node), 2);
}

async fn the_operators_calls_cost_few_round_trips(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, "{}").await;
    let mut meter = Meter::new(&given, &node);
    node.sessions.create("s1").await.unwrap();
    assert_eq!(meter.read(&node), 1);
    node.sessions.put("s1", "k", "1").await.unwrap();
    assert_eq!(meter.read(&node), 1);
    node.sessions.get("s1", "k").await.unwrap();
    assert_eq!(meter.read(&node), 1);
    node.sessions.increment("s1", "k", 1).await.unwrap();
    assert_eq!(meter.read(&node), 1);
    // That of the count of answers is looked at first.
    node.sessions.increment("s1", "answer_count", 1).await.unwrap();
    assert_eq!(meter.read(&node), 2);
    node.sessions.keys("s1").await.unwrap();
    assert_eq!(meter.read(&node), 1);
    node.sessions.history("s1", None, 0).await.unwrap();
    assert_eq!(meter.read(&node), 1);
    if given.name != "cluster" {
        // There each hash tag has a list of its own.
        node.sessions.list("", 100).await.unwrap();
        assert_eq!(meter.read(&node), 1);
    }
    node.sessions.clear("s1", Some("k")).await.unwrap();
    assert_eq!(meter.read(&node), 1);
    // It looks at the keys first.
    node.sessions.clear("s1", None).await.unwrap();
    assert_eq!(meter.read(&node), 2);
    node.sessions.resume("s1").await.unwrap();
    assert_eq!(meter.read(&node), 1);
    // It looks whose the session is, and what that has elsewhere: nodes, and copies with its owner.
    node.sessions.delete("s1").await.unwrap();
    assert_eq!(meter.read(&node), 3);
    // A name outside the rules never gets as far as the store.
    node.sessions.put("s 1", "k", "1").await.unwrap_err();
    node.sessions.put("s1", "__keys__", "1").await.unwrap_err();
    assert_eq!(meter.read(&node), 0);
}

const OF_ANNA: &str = r#"{"session_id":"s1","user_id":"anna"}"#;

/// Several transactions can go together: what is counted is how often somebody waits.
async fn an_entry_of_a_user_waits_once_and_a_first_answer_once_more(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, r#"{"conversation": true}"#).await;
    let of_node = r#"{"session_id":"s1","user_id":"anna","memory_mode":"node","node_id":"n"}"#;
    // The first answer registers the session with its user; a node's, with its session, too.
    for (metadata, first) in [(OF_ANNA, 2), (of_node, 3)] {
        for round in 0..12 {
            node.store.calls();
            node.question(metadata).await;
            assert_eq!(node.store.calls(), 1, "question {round}");
            assert_eq!(node.answer("x", "{}").await.effect, Effect::Stored);
            assert_eq!(node.store.calls(), if round == 0 { first } else { 1 }, "answer {round}");
        }
    }
    // Nor does another session of the user's, used in between, cost an entry anything.
    for (session, waits) in [("s2", 2), ("s1", 1), ("s2", 1), ("s1", 1)] {
        node.question(&OF_ANNA.replace("s1", session)).await;
        assert_eq!(node.store.calls(), 1, "{session}");
        node.answer("x", "{}").await;
        assert_eq!(node.store.calls(), waits, "{session}");
    }
    // Without a question it is not known whose the session is: it is looked at, and registered again.
    node.pipe.open();
    node.store.calls();
    assert_eq!(node.answer("x", OF_ANNA).await.effect, Effect::Stored);
    assert_eq!(node.store.calls(), 3);
    // Another user's entry goes no further than its question.
    assert_eq!(node.question(&OF_ANNA.replace("anna", "ben")).await.effect, Effect::Foreign);
    assert_eq!(node.store.calls(), 1);
    // A fold of history adds one.
    let mut folding = warm(&given, r#"{"conversation": true, "max_history": 10}"#).await;
    for round in 1..=6 {
        folding.question(&OF_ANNA.replace("s1", "s3")).await;
        folding.store.calls();
        folding.answer("x", "{}").await;
        assert_eq!(folding.store.calls(), if [1, 6].contains(&round) { 2 } else { 1 }, "answer {round}");
    }
}

async fn an_old_branch_costs_a_second_wait(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, r#"{"conversation": true, "max_context_tokens": 64}"#).await;
    for number in 0..150 {
        node.question(&format!(r#"{{"session_id":"s1","message_id":"q{number}"}}"#)).await;
        node.answer("x", &format!(r#"{{"message_id":"a{number}"}}"#)).await;
    }
    node.store.calls();
    for (parent, waits) in [("a149", 1), ("a0", 2), ("a70", 2)] {
        let metadata = format!(r#"{{"session_id":"s1","user_id":"anna","parent_message_id":"{parent}"}}"#);
        assert_eq!(node.question(&metadata).await.effect, Effect::Enriched);
        assert_eq!(node.store.calls(), waits, "{parent}");
    }
}

async fn operators_calls_about_users_take_a_bounded_number_of_round_trips(given: Arc<StoreUnderTest>) {
    let mut node = warm(&given, r#"{"conversation": true}"#).await;
    for number in 0..40 {
        node.question(&OF_ANNA.replace("s1", &format!("s{number}"))).await;
        node.answer("x", "{}").await;
    }
    node.store.calls();
    node.sessions.put_user_value("anna", "k", Some("1")).await.unwrap();
    assert_eq!(node.store.calls(), 1);
    node.sessions.user_values("anna", None).await.unwrap();
    assert_eq!(node.store.calls(), 1);
    for (limit, waits) in [(1, 3), (16, 3), (17, 4), (40, 5), (100, 5)] {
        node.sessions.user_sessions("anna", None, limit).await.unwrap();
        assert_eq!(node.store.calls(), waits, "{limit}");
    }
    // Eight pages of transcripts at most, whatever is found, and two waits for each; those of the list beside.
    let page = node.sessions.search_user("anna", "nowhere", None, 0).await.unwrap();
    assert!(page.found.is_empty() && page.next.is_some());
    assert_eq!(node.store.calls(), 5 + 8 * 2);
    node.sessions.describe("s1".into()).await.unwrap();
    assert_eq!(node.store.calls(), 1);
    // Whatever their number, up to 32.
    let done = node.sessions.forget_user("anna").await.unwrap();
    assert_eq!((done.sessions, done.remaining), (32, 8));
    assert_eq!(node.store.calls(), 6);
    let done = node.sessions.forget_user("anna").await.unwrap();
    assert_eq!((done.sessions, done.remaining), (8, 0));
    // Two for the definitions and data sets that the user may own.
    assert_eq!(node.store.calls(), 6 + 2);
}
