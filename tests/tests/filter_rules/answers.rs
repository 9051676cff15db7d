//! An answer is stored and counted as one, and comes back as the same text.

use keepline::pipe::Effect;
use keepline_tests::{
    lanes::{Node, problem_code, problem_message, untouched},
    on_every_store,
    requests::{create, put},
    stores::StoreUnderTest,
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
    assert_eq!(node.log.take()[0], "plugin: keepline.session: Stored answer in session s1");
}

async fn an_answer_is_stored_even_if_it_cannot_be_counted(given: Given) {
    let mut node = Node::new(&given.store, "{}").await;
    node.sessions.create("s1").await.unwrap();
    let (no_counter, overflow) = ("its value is no counter", "it can't be counted any further");
    for (number, (uncountable, why)) in
        [("\"7\"", no_counter), ("1.5", no_counter), ("9223372036854775807", overflow), ("true", no_counter)]
            .into_iter()
            .enumerate()
    {
        given.apply("s1", create(), [put("answer_count", uncountable)]).await;
        let before = node.history("s1").await;
        node.log.take();
        let passed = node.say("s1", why).await;
        assert_eq!((passed.effect, problem_code(&passed)), (Effect::Stored, "broken"));
        let told = problem_message(&passed);
        assert_eq!(told, format!("Answer in session s1 stored without answer_count: {why}"));
        // The host lets a few of one kind pass.
        let warned = if number < 3 { vec![format!("plugin: keepline.value: {told}")] } else { vec![] };
        assert_eq!(node.log.take(), warned);
        assert_eq!(
            node.memory("s1").await.unwrap(),
            format!("{{\"answer_count\":{uncountable},\"last_answer\":\"{why}\"}}")
        );
        let after = node.history("s1").await;
        assert_eq!(after[..before.len()], before);
        assert_eq!((after.len(), &after[before.len()]["key"]), (before.len() + 1, &Value::from("last_answer")));
    }
    // The operator can mend it.
    node.sessions.put("s1", "answer_count", "4").await.unwrap();
    assert!(untouched(Effect::Stored, &node.say("s1", "x").await));
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":5,"last_answer":"x"}"#);
}

#[tokio::test]
async fn damage_in_a_session_does_not_stop_the_rest_of_an_answer() {
    for (name, broken, memory, told) in [
        ("s1:last_answer", "last_answer", r#"{"answer_count":2}"#, 3),
        ("s1:answer_count", "answer_count", r#"{"last_answer":"two"}"#, 3),
        ("s1:__history__", "history", r#"{"answer_count":2,"last_answer":"two"}"#, 0),
    ] {
        let given = StoreUnderTest::redis();
        let mut node = Node::new(&given.store, "{}").await;
        node.ask("s1").await;
        node.reply("one").await;
        given.raw().on::<()>("DEL", name, &[]);
        given.raw().on::<()>("HSET", name, &["not", "ours"]);
        node.log.take();
        let passed = node.reply("two").await;
        assert_eq!((passed.effect, problem_code(&passed)), (Effect::Stored, "broken"), "{name}");
        let why = "what is stored there has the wrong type";
        assert_eq!(problem_message(&passed), format!("Answer in session s1 stored without {broken}: {why}"));
        assert_eq!(node.log.take(), [format!("plugin: keepline.value: {}", problem_message(&passed))]);
        assert_eq!(node.memory("s1").await.unwrap(), memory);
        let kept: String = given.raw().on("HGET", name, &["not"]);
        assert_eq!(kept, "ours");
        if told > 0 {
            assert_eq!(node.history("s1").await.len(), told);
        }
    }
}

async fn every_answer_text_is_returned_as_the_same_string(given: Given) {
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
    an_answer_is_stored_even_if_it_cannot_be_counted,
    every_answer_text_is_returned_as_the_same_string,
    several_answers_to_one_question_are_all_counted_and_the_last_wins,
}
