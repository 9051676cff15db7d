//! Answers with a message id.

use keepline_filter::contract::FailureCode;
use keepline_filter::{AnswerEntry, AnswerReply, Config, Effect, Filter};

use crate::test_host::TestHost;

fn filter<'a>(host: &'a TestHost, options: &str) -> Filter<&'a TestHost> {
    Filter::new(host, Config::parse(options).unwrap())
}

fn answer(filter: &Filter<&TestHost>, metadata: &str, message_id: Option<&str>) -> AnswerReply {
    filter.answer(&AnswerEntry { text: "a", metadata, turn: "", message_id, ..AnswerEntry::default() })
}

/// The ids that a session knows, with their positions.
fn known(host: &TestHost) -> Vec<(String, String)> {
    let buckets = host.buckets();
    let messages = buckets["s"].maps.get("messages");
    let text = |(key, position): (&String, &String)| (key.clone(), position.clone());
    messages.into_iter().flatten().map(text).collect()
}

fn log(host: &TestHost) -> Vec<String> {
    host.bucket("s").logs.get("answers").cloned().unwrap_or_default().1
}

const S: &str = r#"{"session_id":"s"}"#;

#[test]
fn an_answer_that_is_sent_again_counts_once() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let metadata = r#"{"session_id":"s","message_id":"m-1"}"#;
    assert_eq!(answer(&filter, metadata, None).effect, Effect::Stored);
    assert_eq!(host.transactions.get(), 1);
    host.lines();
    let again = answer(&filter, metadata, None);
    assert_eq!((again.effect, again.problem), (Effect::Repeated, None));
    assert_eq!(host.lines(), ["Debug keepline.session Answer already stored in session s"]);
    // By way of the entry it is the same id, and it goes before that of the metadata.
    assert_eq!(answer(&filter, S, Some("m-1")).effect, Effect::Repeated);
    assert_eq!(answer(&filter, metadata, Some("m-2")).effect, Effect::Stored);
    assert_eq!(host.get("s", "answer_count").unwrap(), "2");
    assert_eq!(host.history("s").len(), 4);
    assert_eq!(known(&host), [("m-1".into(), "0".into()), ("m-2".into(), "1".into())]);
    assert_eq!(log(&host), ["\"m-1\"", "\"m-2\""]);
    // One that names no session takes the turn's, and has its id all the same.
    let named = r#"{"message_id":"m-2"}"#;
    let entry = AnswerEntry { text: "a", metadata: named, turn: "k1:s:life-1", ..AnswerEntry::default() };
    assert_eq!(filter.answer(&entry).effect, Effect::Repeated);
    // Another life knows nothing of it.
    host.end("s");
    assert_eq!(answer(&filter, metadata, None).effect, Effect::Stored);
}

#[test]
fn an_answer_without_an_id_stores_no_id() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    for id in ["null", "\"\"", "7", "{}", "[\"m\"]"] {
        for given in [None, Some("")] {
            let metadata = format!("{{\"session_id\":\"s\",\"message_id\":{id}}}");
            assert_eq!(answer(&filter, &metadata, given).effect, Effect::Stored);
        }
    }
    assert_eq!(host.get("s", "answer_count").unwrap(), "10");
    assert_eq!(host.transactions.get(), 10);
    let buckets = host.buckets();
    assert!(!buckets["s"].logs.contains_key("answers") && !buckets["s"].maps.contains_key("messages"));
}

#[test]
fn any_text_is_a_distinct_message_id() {
    let host = TestHost::new();
    let filter = filter(&host, "{}");
    let long = "m".repeat(257);
    let longer = "m".repeat(100_000);
    let hash = "h-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq";
    let ids = ["a b", "é", "\u{0}", "\n", "h-", hash, &long, &longer, "\u{1f389}", "!~", "{\"a\":1}"];
    for effect in [Effect::Stored, Effect::Repeated] {
        for id in ids {
            let metadata = serde_json::json!({ "session_id": "s", "message_id": id }).to_string();
            assert_eq!(answer(&filter, &metadata, None).effect, effect, "{id:?}");
        }
    }
    let known = known(&host);
    assert_eq!(known.len(), ids.len());
    assert!(known.iter().all(|(key, _)| key.len() <= 256 && key.bytes().all(|byte| byte.is_ascii_graphic())));
    assert_eq!(host.get("s", "answer_count").unwrap(), ids.len().to_string());
}

#[test]
fn an_answer_that_is_stored_already_needs_no_room() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"max_keys":2}"#);
    assert_eq!(answer(&filter, S, Some("m")).effect, Effect::Stored);
    host.set("s", "k", "1");
    host.set("s", "l", "1");
    host.buckets_mut().get_mut("s").unwrap().maps.get_mut("values").unwrap().remove("last_answer");
    assert_eq!(answer(&filter, S, Some("m")).effect, Effect::Repeated);
    let other = answer(&filter, S, Some("other"));
    assert_eq!((other.effect, &*other.problem.unwrap().code), (Effect::Limited, "limit"));
    assert_eq!(known(&host).len(), 1);
}

#[test]
fn old_ids_are_forgotten_and_new_ones_kept() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"auto_summarize":false}"#);
    for n in 0..1000 {
        assert_eq!(answer(&filter, S, Some(&format!("m{n}"))).effect, Effect::Stored);
    }
    assert_eq!((host.transactions.get(), known(&host).len()), (1000, 1000));
    // What others left among them is no id, or the same one twice.
    host.buckets_mut().get_mut("s").unwrap().logs.get_mut("answers").unwrap().1[3..6].clone_from_slice(&[
        "{".into(),
        "\"a b\"".into(),
        "\"m7\"".into(),
    ]);
    assert_eq!(answer(&filter, S, Some("m1000")).effect, Effect::Stored);
    assert_eq!(host.transactions.get(), 1002);
    assert_eq!(log(&host).len(), 500);
    let known = known(&host);
    assert_eq!(known.len(), 500 + 3);
    assert!(known.contains(&("m1000".into(), "1000".into())) && known.contains(&("m501".into(), "501".into())));
    assert_eq!(answer(&filter, S, Some("m501")).effect, Effect::Repeated);
    assert_eq!(answer(&filter, S, Some("m500")).effect, Effect::Stored);
    assert_eq!(host.transactions.get(), 1004);
    assert!(host.lines().iter().all(|line| line.starts_with("Debug")));
}

#[test]
fn concurrent_removals_of_old_ids_do_not_conflict_and_failures_are_reported() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"auto_summarize":false}"#);
    for n in 0..1000 {
        answer(&filter, S, Some(&format!("m{n}")));
    }
    host.lines();
    host.before_each(|host, n| match n {
        1002 => host.fail(FailureCode::Unavailable),
        1004 => {
            // Another writer was faster.
            let mut buckets = host.buckets_mut();
            let (first, records) = buckets.get_mut("s").unwrap().logs.get_mut("answers").unwrap();
            records.drain(..400);
            *first += 400;
        }
        _ => host.works(),
    });
    assert_eq!(answer(&filter, S, Some("m1000")).effect, Effect::Stored);
    assert_eq!(
        host.lines(),
        [
            "Debug keepline.session Stored answer in session s",
            "Warn keepline.store Old message ids of session s not forgotten: It broke"
        ]
    );
    assert_eq!(answer(&filter, S, Some("m1001")).effect, Effect::Stored);
    assert_eq!((host.transactions.get(), log(&host).len(), known(&host).len()), (1004, 602, 1002));
    assert_eq!(host.lines(), ["Debug keepline.session Stored answer in session s"]);
}

#[test]
fn history_is_summarised_and_ids_are_forgotten_in_one_answer() {
    let host = TestHost::new();
    let filter = filter(&host, r#"{"max_history":1}"#);
    for n in 0..1002 {
        assert_eq!(answer(&filter, S, Some(&format!("m{n}"))).effect, Effect::Stored);
        assert_eq!(host.history("s").len(), 1);
    }
    assert_eq!((log(&host).len(), known(&host).len()), (501, 501));
    assert_eq!(host.get("s", "answer_count").unwrap(), "1002");
}

#[test]
fn an_answer_is_stored_despite_broken_message_ids() {
    for name in ["messages", "answers"] {
        let host = TestHost::new();
        let filter = filter(&host, "{}");
        host.spoil(name);
        for count in ["1", "2"] {
            let reply = answer(&filter, S, Some("m"));
            assert_eq!(reply.effect, Effect::Stored);
            let problem = reply.problem.unwrap();
            assert_eq!((&*problem.code, &*problem.subject), ("broken", name));
            assert_eq!(
                problem.message,
                format!("Answer in session s stored without {name}: what is stored there has the wrong type")
            );
            assert_eq!(host.get("s", "answer_count").unwrap(), count);
        }
        assert_eq!(host.transactions.get(), 4);
        assert_eq!(host.history("s").len(), 4);
    }
}
