//! Entries as records: everything known of an entry reaches the plugin, and an answer comes with its turn if the plugin
//! wants that.

use std::sync::Arc;

use keepline::{
    Options,
    pipe::{Answer, AnswerStatus, Effect, Pipe, Question, ToolActivity, Vector},
    store::{MemoryStore, Store},
};
use keepline_tests::{
    guests::{self, HOSTILE},
    lanes::{Node, untouched},
};

use super::replacement::loaded;

/// A plugin that tells which answer it was given, and wants turns or not.
async fn telling(options: &str, change: impl FnOnce(&mut Options)) -> Node {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    Node::of(loaded(HOSTILE), &store, options, change).await.unwrap()
}

fn activity(output: &str) -> ToolActivity {
    ToolActivity {
        call_id: "call-1".into(),
        name: "weather".into(),
        arguments: Some("{}".into()),
        output: Some(output.into()),
        error: None,
        details: String::new(),
    }
}

async fn told(pipe: &mut Pipe, answer: Answer<'_>) -> String {
    guests::told(&pipe.reply(Answer { text: "tell me", ..answer }, None).await.unwrap()).unwrap()
}

fn assert_tells(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}

#[tokio::test]
async fn facts_about_an_answer_reach_the_plugin() {
    let mut node = telling("{}", |_| {}).await;
    let vector = Vector { model: "small".into(), data: "AAAAAA==".into() };
    let question =
        Question { text: "turn mine", metadata: "{}", message_id: Some("q-1"), tokens: Some(2), vector: Some(&vector) };
    assert_eq!(node.pipe.ask(question, None).await.unwrap().effect, Effect::Passed);
    let activity = [activity("sunny"), ToolActivity { error: Some("no wind".into()), ..ToolActivity::default() }];
    let answer = Answer {
        metadata: r#"{"a":1}"#,
        message_id: Some("a-1"),
        question_text: Some("What?"),
        activity: &activity,
        status: AnswerStatus::Incomplete,
        question_tokens: Some(3),
        tokens: Some(u32::MAX),
        details: r#"{"model":"m"}"#,
        ..Answer::default()
    };
    let all = told(&mut node.pipe, answer).await;
    assert_tells(
        &all,
        &[
            r#"metadata: "{\"a\":1}""#,
            r#"turn: "mine""#,
            r#"message-id: Some("a-1")"#,
            r#"TurnQuestion { text: "What?", tokens: Some(3) }"#,
            r#"output: Some("sunny")"#,
            r#"error: Some("no wind")"#,
            r#"status: Some("incomplete")"#,
            "tokens: Some(4294967295)",
            r#"details: Some("{\"model\":\"m\"}")"#,
        ],
    );
    assert!(all.find("sunny") < all.find("no wind"));
    // What is not known is none.
    node.pipe.open();
    let none = ["message-id: None", r#"TurnQuestion { text: "", tokens: None }"#, "tools: []", "status: None"];
    assert_tells(&told(&mut node.pipe, Answer::default()).await, &none);
}

#[tokio::test]
async fn a_plugin_that_wants_turns_gets_the_question_and_tools_with_an_answer() {
    let mut node = telling("turns", |_| {}).await;
    node.pipe.question("What?", "{}").await.unwrap();
    node.pipe.tool(activity("sunny"));
    let later = [activity("windy")];
    let first = told(&mut node.pipe, Answer { activity: &later, ..Answer::default() }).await;
    assert_tells(&first, &[r#"TurnQuestion { text: "What?", tokens: None }"#, "sunny", "windy"]);
    assert!(first.find("sunny") < first.find("windy"));
    // Once: what comes next goes on from there.
    let second = told(&mut node.pipe, Answer::default()).await;
    assert_tells(&second, &[r#"TurnQuestion { text: "", tokens: None }"#, "tools: []"]);
    // Nor does anything of it reach the next question's.
    node.pipe.tool(activity("rainy"));
    node.pipe.question("And now?", "{}").await.unwrap();
    let third = told(&mut node.pipe, Answer::default()).await;
    assert_tells(&third, &[r#"TurnQuestion { text: "And now?", tokens: None }"#, "tools: []"]);
}

#[tokio::test]
async fn a_plugin_that_wants_no_turns_gets_no_turn_parts() {
    let mut node = telling("{}", |_| {}).await;
    node.pipe.question("What?", "{}").await.unwrap();
    node.pipe.tool(activity("sunny"));
    assert_tells(
        &told(&mut node.pipe, Answer::default()).await,
        &[r#"TurnQuestion { text: "", tokens: None }"#, "tools: []"],
    );
}

#[tokio::test]
async fn tool_activity_is_limited_by_max_entry_bytes() {
    let mut node = telling("turns", |options| options.max_entry_bytes = 2000).await;
    node.pipe.question("What?", "{}").await.unwrap();
    for number in 0..1000 {
        node.pipe.tool(activity(&format!("{number:0500}")));
    }
    let all = told(&mut node.pipe, Answer::default()).await;
    assert_eq!(all.matches("call-1").count(), 3, "{}", all.len());
    assert!(node.log.of("keepline.limit")[0].contains("max_entry_bytes (2000)"));
    // An entry as a whole has the same limit.
    let large = [activity(&"x".repeat(2000))];
    let passed = node.pipe.reply(Answer { activity: &large, ..Answer::default() }, None).await.unwrap();
    assert_eq!(passed.effect, Effect::Limited);
}

/// The bundled filter takes them as records, too, and does with less.
#[tokio::test]
async fn members_that_the_filter_does_not_use_do_no_harm() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut node = Node::new(&store, "{}").await;
    assert!(!node.keepline.wants_vectors() && !node.keepline.wants_tokens());
    let vector = Vector { model: String::new(), data: "no base64".into() };
    let metadata = r#"{"session_id":"s1"}"#;
    let question = Question { metadata, message_id: Some(""), vector: Some(&vector), ..Question::default() };
    assert!(untouched(Effect::Resumed, &node.pipe.ask(question, None).await.unwrap()));
    let activity = [ToolActivity::default(), activity("not JSON {")];
    let answer = Answer { text: "x", message_id: Some(""), activity: &activity, details: "[", ..Answer::default() };
    for _ in 0..2 {
        assert!(untouched(Effect::Stored, &node.pipe.reply(answer, None).await.unwrap()));
    }
    assert_eq!(node.memory("s1").await.unwrap(), r#"{"answer_count":2,"last_answer":"x"}"#);
}
