//! An answer is stored and counted as one, and comes back as the very text it was.

use keepline::pipe::Effect;
use keepline_tests::{
    lanes::{Node, untouched},
    on_every_store,
};
use serde_json::Value;

use super::Given;

async fn an_answer_is_stored_and_counted_in_one_transaction(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    for count in 1..=3 {
        let passed = node.say("s1", &format!("answer {count}")).await;
        assert!(untouched(Effect::Stored, &passed), "{passed:?}");
        assert_eq!(node.store.calls(), 1);
        assert_eq!(
            node.memory("s1").await.unwrap(),
            format!(r#"{{"answer_count":{count},"last_answer":"answer {count}"}}"#)
        );
        node.store.calls();
    }
    assert_eq!(node.log.take()[0], "keepline.session: Stored answer in session s1");
}

async fn an_answer_that_can_not_be_counted_is_not_stored(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    for uncountable in ["\"7\"", "1.5", "true", "9223372036854775807"] {
        node.sessions.put("s1", "answer_count", uncountable).await.unwrap();
        let before = node.history("s1").await;
        let passed = node.say("s1", "lost").await;
        assert_eq!(passed.effect, Effect::Failed, "{uncountable}");
        assert_eq!(node.memory("s1").await.unwrap(), format!("{{\"answer_count\":{uncountable}}}"));
        assert_eq!(node.history("s1").await, before);
    }
}

async fn every_text_comes_back_as_the_same_string(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    let all: String = (0..0x300).filter_map(char::from_u32).collect();
    for text in [
        "",
        " ",
        "\0",
        "a\r\nb\tc",
        "\"quoted\" \\ back",
        "{\"an\": \"object\"}",
        "7",
        "null",
        "🎉👩‍👩‍👧‍👦\u{10ffff}\u{202e}",
        &all,
        &"long ".repeat(20_000),
    ] {
        assert_eq!(node.say("s1", text).await.effect, Effect::Stored);
        let memory: Value = serde_json::from_str(&node.memory("s1").await.unwrap()).unwrap();
        assert_eq!(memory["last_answer"], Value::from(text));
    }
}

async fn several_answers_to_one_question_are_all_counted_and_the_last_wins(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.ask("s1").await;
    for text in ["one", "two", "three"] {
        assert_eq!(node.reply(text).await.effect, Effect::Stored);
    }
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":3,"last_answer":"three"}"#);
}

on_every_store! {
    an_answer_is_stored_and_counted_in_one_transaction,
    an_answer_that_can_not_be_counted_is_not_stored,
    every_text_comes_back_as_the_same_string,
    several_answers_to_one_question_are_all_counted_and_the_last_wins,
}
