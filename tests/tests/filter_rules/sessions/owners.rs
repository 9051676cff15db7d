//! An answer belongs to the session that it names or to its question's, and revives none.

use keepline::{Plugin, Sandbox, pipe::Effect, sessions::SessionErrorCode as Code};
use keepline_tests::{
    lanes::{Node, metadata_of, operations_told, untouched},
    on_every_store,
};

use crate::{Given, HOUR};

async fn an_answer_without_a_session_belongs_to_the_question_before_it(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    for (count, metadata) in ["{}", "", "null", r#"{"session_id":null}"#, r#"{"session_id":""}"#].iter().enumerate() {
        assert_eq!(node.answer("x", metadata).await.effect, Effect::Stored, "{metadata}");
        assert!(node.memory("s1").await.unwrap().contains(&format!("\"answer_count\":{},", count + 1)));
    }
    // Its own session goes before.
    node.say("s2", "for another").await;
    assert_eq!(node.memory("s2").await.unwrap(), r#"{"answer_count":1,"last_answer":"for another"}"#);
    assert!(node.memory("s1").await.unwrap().contains("\"answer_count\":5,"));
    // And changes nothing about whose the next one is.
    node.reply("back").await;
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":6,"last_answer":"back"}"#);
}

async fn an_answer_with_a_malformed_session_does_not_fall_back(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    for metadata in [r#"{"session_id":"a b"}"#, r#"{"session_id":5}"#, r#"{"session_id":"s1\n"}"#] {
        assert!(untouched(Effect::Ignored, &node.answer("x", metadata).await), "{metadata}");
    }
    assert_eq!(node.memory("s1").await, None);
}

async fn the_last_of_two_questions_owns_the_answers(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.ask("s2").await;
    node.reply("x").await;
    node.reply("y").await;
    assert_eq!(node.memory("s1").await, None);
    assert_eq!(node.memory("s2").await.unwrap(), r#"{"answer_count":2,"last_answer":"y"}"#);
}

async fn a_question_without_a_session_ends_the_one_before_it(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for metadata in ["{}", r#"{"session_id":"a b"}"#, r#"{"session_id":null}"#] {
        node.ask("s1").await;
        node.question(metadata).await;
        assert!(untouched(Effect::Passed, &node.reply("x").await), "{metadata}");
    }
    assert_eq!(node.memory("s1").await, None);
}

async fn opening_an_object_ends_the_previous_question(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.reply("first").await;
    node.pipe.open();
    assert!(untouched(Effect::Passed, &node.reply("second").await));
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":1,"last_answer":"first"}"#);
}

async fn pipes_do_not_share_their_questions(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let mut other = node.keepline.pipe();
    node.ask("s1").await;
    other.question("", &metadata_of("s2")).await.unwrap();
    node.reply("one").await;
    other.answer("two", "{}").await.unwrap();
    assert!(node.memory("s1").await.unwrap().contains("\"one\""));
    assert!(node.memory("s2").await.unwrap().contains("\"two\""));
    let mut fresh = node.keepline.pipe();
    assert!(untouched(Effect::Passed, &fresh.answer("three", "{}").await.unwrap()));
}

async fn an_answer_is_not_stored_in_a_later_generation_of_its_questions_session(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.sessions.delete("s1").await.unwrap();
    node.sessions.create("s1").await.unwrap();
    assert!(untouched(Effect::Ended, &node.reply("for the first life").await));
    assert_eq!(node.memory("s1").await, None);
    assert_eq!(node.history("s1").await.len(), 0);
    let told = "plugin: keepline.session: Answer not stored: its question's session has ended: s1";
    assert_eq!(node.log.warnings(), [told]);
    // Nor one that names the session itself.
    assert!(untouched(Effect::Ended, &node.say("s1", "for the first life").await));
    assert_eq!(node.memory("s1").await, None);
    // Whatever other sessions ask meanwhile.
    node.ask("s2").await;
    assert!(untouched(Effect::Ended, &node.say("s1", "for the first life").await));
    // That of no question means the one that is there.
    node.pipe.open();
    assert_eq!(node.say("s1", "for this one").await.effect, Effect::Stored);
}

async fn an_answer_revives_no_session_that_was_deleted(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    node.reply("first").await;
    node.sessions.delete("s1").await.unwrap();
    for _ in 0..3 {
        assert!(untouched(Effect::Ended, &node.reply("late").await));
        assert!(untouched(Effect::Ended, &node.say("s1", "late").await));
    }
    assert_eq!(given.list(100).await, [""; 0]);
    assert_eq!(node.sessions.resume("s1").await.unwrap_err().code, Code::NotFound);
}

async fn an_answer_revives_no_session_that_has_expired(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    node.ask("s1").await;
    node.reply("first").await;
    given.pass_time(HOUR);
    assert!(untouched(Effect::Ended, &node.reply("late").await));
    assert!(untouched(Effect::Ended, &node.say("s1", "later").await));
    assert!(!given.is_there("s1").await);
    assert_eq!(given.list(100).await, [""; 0]);

    // Nor a second life of it, which another client's question has begun.
    let mut other = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    other.ask("s1").await;
    assert!(untouched(Effect::Ended, &node.reply("latest").await));
    assert_eq!(node.memory("s1").await, None);
}

async fn an_answer_that_names_its_session_creates_it(given: Given) {
    let mut node = Node::new(&given.store, r#"{"session_ttl_hours": 1}"#).await;
    assert_eq!(node.say("s1", "x").await.effect, Effect::Stored);
    let state = node.sessions.resume("s1").await.unwrap();
    assert_eq!((state.key_count, state.history_length), (2, 2));
    assert!(state.expires_in.unwrap() > 3_500_000);
}

async fn instances_hold_no_state_between_calls(given: Given) {
    // A fresh instance for each call.
    let mut sandbox = Sandbox::default();
    sandbox.calls_per_instance = 1;
    let plugin = Plugin::bundled(&sandbox).unwrap();
    let mut node = Node::of(plugin, &given.store, r#"{"max_history": 4}"#, |_| {}).await.unwrap();
    node.ask("s1").await;
    for _ in 0..10 {
        assert_eq!(node.reply("x").await.effect, Effect::Stored);
    }
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":10,"last_answer":"x"}"#);
    assert_eq!(operations_told(&node.history("s1").await), 20);
}

on_every_store! {
    an_answer_without_a_session_belongs_to_the_question_before_it,
    an_answer_with_a_malformed_session_does_not_fall_back,
    the_last_of_two_questions_owns_the_answers,
    a_question_without_a_session_ends_the_one_before_it,
    opening_an_object_ends_the_previous_question,
    pipes_do_not_share_their_questions,
    an_answer_is_not_stored_in_a_later_generation_of_its_questions_session,
    an_answer_revives_no_session_that_was_deleted,
    an_answer_revives_no_session_that_has_expired,
    an_answer_that_names_its_session_creates_it,
    instances_hold_no_state_between_calls,
}
