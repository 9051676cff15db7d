//! The two lanes.

mod answers;
mod context;
mod lives;
mod metadata;
mod summaries;

use keepline_filter::{AnswerEntry, AnswerReply, Config, Effect, QuestionEntry, QuestionReply};
use serde_json::Value;

use crate::test_host::TestHost;

const S: &str = r#"{"session_id":"s"}"#;

/// The filter, with shorter ways to call it.
pub struct Filter<'a>(keepline_filter::Filter<&'a TestHost>);

impl<'a> Filter<'a> {
    pub fn new(host: &'a TestHost, config: Config) -> Self {
        Self(keepline_filter::Filter::new(host, config))
    }

    pub fn question(&self, text: &str, metadata: &str) -> QuestionReply {
        self.0.question(&QuestionEntry { text, metadata, ..QuestionEntry::default() })
    }

    pub fn answer(&self, text: &str, metadata: &str, turn: &str) -> AnswerReply {
        self.0.answer(&AnswerEntry { text, metadata, turn, ..AnswerEntry::default() })
    }
}

fn filter<'a>(host: &'a TestHost, options: &str) -> Filter<'a> {
    Filter::new(host, Config::parse(options).unwrap())
}

fn counts(record: &str) -> (u64, u64) {
    let record: Value = serde_json::from_str(record).unwrap();
    assert_eq!(record["op"], "summary");
    let ops = record["op_counts"].as_object().unwrap();
    let sum = ops.values().map(|count| count.as_u64().unwrap()).sum();
    (record["summarized_count"].as_u64().unwrap(), sum)
}

/// Operations that the history tells of, summarised or not.
pub fn told(history: &[String]) -> u64 {
    let told = |record: &String| match record.contains("\"op\": \"summary\"") {
        true => counts(record).0,
        false => 1,
    };
    history.iter().map(told).sum()
}

#[test]
fn a_question_gets_the_value_of_the_answer_before() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let first = filter.question("q", S);
    assert_eq!((first.effect, first.metadata, first.attached), (Effect::Resumed, None, 0));
    let answer = filter.answer("Héllo \"you\"\n", "{}", &first.turn);
    assert_eq!((answer.effect, answer.problem), (Effect::Stored, None));
    let second = filter.question("q", r#"{"session_id":"s" , "n": 1.50}"#);
    assert_eq!(second.effect, Effect::Enriched);
    assert_eq!(second.attached, 2);
    assert_eq!(
        second.metadata.unwrap(),
        r#"{"session_id":"s" , "n": 1.50,"memory_context":{"answer_count":1,"last_answer":"Héllo \"you\"\n"}}"#
    );
    assert_eq!(host.transactions.get(), 3);
    assert_eq!(
        host.lines(),
        [
            "Debug keepline.session Stored answer in session s",
            "Debug keepline.session Attached 2 memory keys to question for session s",
        ]
    );
}

#[test]
fn an_answer_leaves_two_records_as_python_writes_them() {
    let host = TestHost::new();
    filter(&host, "{}").answer("a", S, "");
    assert_eq!(
        host.history("s"),
        [
            r#"{"op": "put", "key": "last_answer", "timestamp": 1795186917.032595}"#,
            r#"{"op": "increment", "key": "answer_count", "timestamp": 1795186917.032595}"#,
        ]
    );
    assert_eq!(host.get("s", "answer_count").unwrap(), "1");
    assert_eq!(host.transactions.get(), 1);
}
