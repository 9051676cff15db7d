//! Conversations, by the compiled component over every store: what was said comes back, whole, to whoever goes on.

use std::sync::Arc;

use keepline::{
    Passed,
    pipe::{Effect, Question, ToolActivity},
    store::Store,
};
use keepline_tests::{lanes::Node, schemas, stores::StoreUnderTest};
use serde_json::{Value, json};

mod concurrency;
mod forgetting;
mod kills;
mod model;
mod nodes;
mod operators;
mod recall;
mod recall_of_users;
mod transcripts;
mod users;
mod windows;

/// What stands for the question of a turn that has none, where a window begins with it.
const UNASKED: &str = "user: [The user's message was not recorded]";

type Given = Arc<StoreUnderTest>;

/// A filter that keeps conversations.
async fn talking(given: &Given, options: &Value) -> Node {
    talking_on(&given.store, options).await
}

/// The same on any store.
async fn talking_on(store: &Arc<dyn Store>, options: &Value) -> Node {
    let mut all = json!({"conversation": true});
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    Node::new(store, &all.to_string()).await
}

/// A question, and the metadata that it goes on with.
async fn ask(node: &mut Node, text: &str, metadata: &Value) -> Value {
    let metadata = metadata.to_string();
    let asked = Question { text, metadata: &metadata, ..Question::default() };
    let passed = node.pipe.ask(asked, None).await.unwrap();
    let got = serde_json::from_str(passed.metadata.as_deref().unwrap_or(&metadata)).unwrap();
    if passed.effect == Effect::Enriched {
        schemas::check(&got);
    }
    got
}

/// An answer to the question before.
async fn reply(node: &mut Node, text: &str, metadata: &Value) -> Passed {
    node.pipe.answer(text, &metadata.to_string()).await.unwrap()
}

/// A question and its answer. What the question got.
async fn turn(node: &mut Node, session: &str, question: &str, answer: &str) -> Value {
    let got = ask(node, question, &json!({"session_id": session})).await;
    assert_eq!(reply(node, answer, &json!({})).await.effect, Effect::Stored);
    got
}

/// Who said what, in what a question got.
fn said(metadata: &Value) -> Vec<String> {
    let show = |message: &Value| {
        let content = message["content"].as_str().unwrap_or("-");
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<&str> = calls.map(|call| call["id"].as_str().unwrap()).collect();
        let of = message["tool_call_id"].as_str().unwrap_or_default();
        format!("{}{of}: {content}{}", message["role"].as_str().unwrap(), calls.concat())
    };
    metadata["memory_messages"].as_array().map_or_else(Vec::new, |messages| messages.iter().map(show).collect())
}

fn call(call_id: &str) -> ToolActivity {
    ToolActivity {
        call_id: call_id.into(),
        name: "look".into(),
        arguments: Some("{}".into()),
        ..ToolActivity::default()
    }
}

fn result(call_id: &str, output: &str) -> ToolActivity {
    ToolActivity { call_id: call_id.into(), output: Some(output.into()), ..ToolActivity::default() }
}
