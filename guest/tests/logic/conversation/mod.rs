//! Conversations, over the memory store.

mod omissions;
mod operators;
mod profile;
mod reach;
mod recall;
mod tasks;
mod transcript;
mod turns;
mod users;
mod valid;
#[path = "../../../../tests/src/valid_window.rs"]
mod valid_window;
mod vectors;
mod windows;

use keepline_filter::{
    AnswerEntry, AnswerReply, Config, Effect, Filter, Host, QuestionEntry, QuestionReply, ToolActivity,
};
use serde_json::{Value, json};

use crate::test_host::TestHost;

/// A filter that keeps the conversation.
pub fn filter<'a>(host: &'a TestHost, options: &str) -> Filter<&'a TestHost> {
    let separator = if options.is_empty() { "" } else { "," };
    Filter::new(host, Config::parse(&format!("{{\"conversation\": true{separator}{options}}}")).unwrap())
}

pub fn ask(filter: &Filter<impl Host>, text: &str, metadata: &Value) -> QuestionReply {
    filter.question(&QuestionEntry { text, metadata: &metadata.to_string(), ..QuestionEntry::default() })
}

/// The answer to a question, which the host hands in again.
pub fn reply(filter: &Filter<impl Host>, question: &str, answer: &str, turn: &str) -> AnswerReply {
    say(filter, question, answer, turn, &json!({}))
}

pub fn say(filter: &Filter<impl Host>, question: &str, answer: &str, turn: &str, metadata: &Value) -> AnswerReply {
    let metadata = metadata.to_string();
    let entry = AnswerEntry { text: answer, metadata: &metadata, turn, ..AnswerEntry::default() };
    filter.answer(&AnswerEntry { question_text: question, ..entry })
}

/// A step of a turn, with what tools did.
pub fn act(
    filter: &Filter<impl Host>,
    question: &str,
    answer: &str,
    turn: &str,
    activity: &[ToolActivity<'_>],
) -> AnswerReply {
    let entry = AnswerEntry { text: answer, metadata: "{}", turn, activity, ..AnswerEntry::default() };
    filter.answer(&AnswerEntry { question_text: question, ..entry })
}

/// A question with an id and its answer with one, `q…` and `a…`.
pub fn turn(filter: &Filter<impl Host>, name: &str, after: Option<&str>) -> AnswerReply {
    let mut metadata = json!({"session_id": "s", "message_id": format!("q{name}")});
    if let Some(after) = after {
        metadata["parent_message_id"] = after.into();
    }
    let question = format!("question {name}");
    let asked = ask(filter, &question, &metadata);
    let answer = json!({"message_id": format!("a{name}")});
    say(filter, &question, &format!("answer {name}"), &asked.turn, &answer)
}

/// A member that was attached.
pub fn attached(reply: &QuestionReply, name: &str) -> Value {
    let Some(metadata) = &reply.metadata else { return Value::Null };
    serde_json::from_str::<Value>(metadata).unwrap()[name].take()
}

/// Who said what, of what a question got.
pub fn messages(reply: &QuestionReply) -> Vec<String> {
    let messages = attached(reply, "memory_messages");
    let show = |message: &Value| match &message["content"] {
        Value::String(text) => format!("{}: {text}", message["role"].as_str().unwrap()),
        content => format!("{}: {content}", message["role"].as_str().unwrap()),
    };
    messages.as_array().map_or_else(Vec::new, |all| all.iter().map(show).collect())
}

/// The records of a bucket's transcript.
pub fn transcript(host: &TestHost, bucket: &str) -> Vec<Value> {
    host.records(bucket, "transcript").iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// An entry of a map of session `s`.
pub fn entry(host: &TestHost, map: &str, key: &str) -> Option<String> {
    host.entry("s", map, key)
}

pub fn s() -> Value {
    json!({"session_id": "s"})
}

pub fn call(call_id: &'static str, name: &'static str, arguments: &'static str) -> ToolActivity<'static> {
    ToolActivity { call_id, name, arguments: Some(arguments), ..ToolActivity::default() }
}

pub fn result<'a>(call_id: &'a str, name: &'a str, output: &'a str) -> ToolActivity<'a> {
    ToolActivity { call_id, name, output: Some(output), ..ToolActivity::default() }
}

/// What stands for the question of a turn that has none, where a window begins with it.
pub const UNASKED: &str = "user: [The user's message was not recorded]";

pub const STORED: Effect = Effect::Stored;

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_entries_are_answered(
        record in ".{0,40}|\\{\"v\":1,\"turn\":\"t\",\"role\":\"[a-z]*\",\"weight\":[0-9]{1,3},\"after\":[0-9]{1,3}\\}",
        state in ".{0,30}|\\{\"s\":\"s\",\"t\":\"t\",\"q\":\"q\",\"p\":\"p\",\"a\":[0-9]{1,20},\"b\":1,\"x\":[0-3]\\}",
        said in ".{0,40}", details in ".{0,20}|\\{\"raw\":.{0,9}\\}", parent in "[a-z]{0,2}",
    ) {
        let host = TestHost::new();
        let filter = filter(&host, r#""max_context_tokens": 64, "pin_first_turn": true, "memory_trace": true"#);
        reply(&filter, &said, &said, &ask(&filter, &said, &s()).turn);
        if let Some(bucket) = host.buckets_mut().get_mut("s") {
            bucket.logs.entry("transcript".into()).or_default().1.extend([record.clone(), record]);
        }
        let metadata = json!({"session_id": "s", "parent_message_id": parent, "files": [said], "user_id": "u"});
        let asked = ask(&filter, &said, &metadata);
        for turn in [asked.turn, format!("k2:{state}"), state] {
            let metadata = metadata.to_string();
            let entry =
                AnswerEntry { text: &said, metadata: &metadata, turn: &turn, details: &details, ..AnswerEntry::default() };
            filter.answer(&entry);
        }
        ask(&filter, &said, &s());
    }
}
