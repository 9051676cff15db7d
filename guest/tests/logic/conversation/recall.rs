//! Recall: what the window has lost comes back, and nothing that it must not.

mod attached;
mod large;
mod shown;
mod user;

use crate::admin_calls as admin;
use keepline_filter::tasks::job::Step;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context, Filter, Host, Task};
use serde_json::{Value, json};

use super::tasks::{Work, buckets};
use super::{STORED, act, ask, attached, entry, filter, reply, result, s, turn};
use crate::test_host::TestHost;

const OPTIONS: &str = r#""max_context_tokens": 64, "recall": "session", "summaries": false"#;
const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

/// Questions with their answers, of which the window shows the last only; and the deferred work, if it is done.
fn talk(filter: &Filter<impl Host>, said: &[&str], works: bool) {
    for text in said {
        let asked = ask(filter, text, &s());
        let done = reply(filter, text, &format!("Well, {text}"), &asked.turn);
        assert_eq!(done.effect, STORED);
        if works {
            keep(filter, &done.due);
        }
    }
}

/// Steps until there is no more to do.
fn finish(filter: &Filter<impl Host>, work: &mut Work) -> usize {
    for count in 1..10_000 {
        match work.step(filter, "h", None) {
            progress if progress.step == Step::Again => {}
            progress => {
                assert_eq!(progress.step, Step::Done, "{progress:?}");
                return count;
            }
        }
    }
    panic!("it never ends");
}

pub fn keep(filter: &Filter<impl Host>, due: &[Task]) {
    finish(filter, &mut Work::of(due, "recall"));
}

fn reset(filter: &Filter<impl Host>) {
    finish(filter, &mut Work { buckets: buckets("session s"), name: "recall-reset", state: String::new() });
}

fn all_kept(filter: &Filter<impl Host>) -> usize {
    finish(filter, &mut Work { buckets: buckets("session s"), name: "recall", state: String::new() })
}

/// The texts that a question gets.
fn recalled(filter: &Filter<impl Host>, question: &str) -> Vec<String> {
    let found = attached(&ask(filter, question, &s()), "memory_recall");
    let passages = found["passages"].as_array().cloned().unwrap_or_default();
    passages.iter().map(|passage| passage["text"].as_str().unwrap().to_owned()).collect()
}

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(&format!("{{\"conversation\": true, {OPTIONS}}}")).unwrap())
}

/// All that the session's bucket holds, the index's documents among it.
fn everything(host: &TestHost) -> String {
    let buckets = host.buckets();
    let bucket = &buckets["s"];
    format!("{:?} {:?}", bucket.logs, bucket.maps)
}

fn documents(host: &TestHost) -> usize {
    host.bucket("s").indexes.get("recall").copied().unwrap_or_default()
}

/// Something that nobody asks for.
fn chatter(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("remark {number} about nothing much")).collect()
}

fn chat(filter: &Filter<impl Host>, count: usize) {
    let said = chatter(count);
    talk(filter, &said.iter().map(String::as_str).collect::<Vec<_>>(), true);
}

#[test]
fn without_a_window_its_turns_can_be_recalled() {
    let host = TestHost::new();
    let filter = super::filter(&host, r#""recall": "session", "summaries": false"#);
    talk(&filter, &["Our dog is called Bello."], true);
    assert_eq!(recalled(&filter, "How is the dog called?"), [""; 0], "the window shows it");
    for look in [false, true] {
        let without = json!({"session_id": "s", "memory": {"window": false, "look": look}});
        let asked = ask(&filter, "How is the dog called?", &without);
        let found = attached(&asked, "memory_recall");
        assert_eq!(found["passages"][0]["text"], "Our dog is called Bello.");
        assert_eq!(attached(&asked, "memory_messages"), Value::Null);
        assert!(attached(&asked, "memory_context") != Value::Null);
    }
}

#[test]
fn passages_outside_the_window_are_recalled() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello.", "The boiler was mended in March."], true);
    chat(&filter, 3);
    let asked = ask(&filter, "How is the dog called?", &s());
    let found = attached(&asked, "memory_recall");
    let first = &found["passages"][0];
    assert_eq!(first["text"], "Our dog is called Bello.");
    assert_eq!((&first["position"], &first["role"], &first["session"]), (&json!(0), &json!("user"), &json!("s")));
    assert_eq!((&first["source"], &first["trust"]), (&json!("user"), &json!("normal")));
    assert_eq!(first["why"], json!(["terms"]));
    let text = found["text"].as_str().unwrap();
    let day = "2026-11-20";
    assert!(text.contains(&format!("\n\n[{day}]\nuser: Our dog is called Bello.\nassistant: Well, Our dog")), "{text}");
    assert!(first["score"].as_f64().unwrap() > 0.0);
    let scores: Vec<f64> =
        found["passages"].as_array().unwrap().iter().map(|it| it["score"].as_f64().unwrap()).collect();
    assert!(scores.contains(&1.0), "{scores:?}");
    // Nothing of it bears on that.
    assert_eq!(recalled(&filter, "Zanzibar?"), [""; 0]);
    assert_eq!(attached(&ask(&filter, "Zanzibar?", &s()), "memory_recall"), Value::Null);
}

#[test]
fn passages_in_the_window_are_not_recalled() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."], true);
    chat(&filter, 8);
    talk(&filter, &["Our dog barks."], true);
    let texts = recalled(&filter, "dog?");
    assert!(texts.contains(&"Our dog is called Bello.".to_owned()), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("barks")), "{texts:?}");
    let wide = super::filter(&host, r#""recall": "session""#);
    assert_eq!(recalled(&wide, "dog?"), [""; 0]);
}

#[test]
fn recall_costs_one_more_wait_and_is_off_by_default() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."], true);
    chat(&filter, 3);
    let waits = |filter: &Filter<&TestHost>, question: &str, metadata: &Value| {
        let before = host.waits.get();
        let asked = ask(filter, question, metadata);
        (host.waits.get() - before, attached(&asked, "memory_recall") != Value::Null)
    };
    assert_eq!(waits(&filter, "dog?", &s()), (2, true));
    assert_eq!(waits(&filter, "Zanzibar?", &s()), (1, false));
    let off = json!({"session_id": "s", "memory": {"recall": false}});
    assert_eq!(waits(&filter, "dog?", &off), (1, false));
    let plain = super::filter(&host, r#""max_context_tokens": 64"#);
    assert_eq!(waits(&plain, "dog?", &s()), (1, false));
    assert!(ask(&plain, "?", &s()).due.is_empty());
}

#[test]
fn a_long_conversation_is_compacted_and_found() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."], true);
    chat(&filter, 150);
    assert!(documents(&host) >= 192, "{}", documents(&host));
    assert!(host.records("s", "terms").len() < 128);
    assert_eq!(recalled(&filter, "Who is called Bello?")[0], "Our dog is called Bello.");
    // All of it once.
    let (_, passages) = host.bucket("s").logs["passages"].clone();
    assert_eq!(passages.len(), 2 * 151);
    // Made anew, by whoever did not see it before, it is the same.
    reset(&filter);
    assert_eq!((documents(&host), recalled(&filter, "Bello?").len()), (0, 0));
    all_kept(&filter);
    let (_, again) = host.bucket("s").logs["passages"].clone();
    assert_eq!(passages, again);
    assert_eq!(recalled(&filter, "Who is called Bello?")[0], "Our dog is called Bello.");
}

#[test]
fn removing_a_message_erases_its_passages() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."], true);
    chat(&filter, 80);
    assert!(documents(&host) > 0);
    let before = documents(&host);
    for position in [0, 1] {
        admin::rewrite_message(&sessions(&host), &S, position, None).unwrap();
    }
    assert_eq!(documents(&host), before - 2);
    assert!(!everything(&host).contains("Bello"));
    assert_eq!(recalled(&filter, "Bello?"), [""; 0]);
    // Of the newest, which nobody has folded, too.
    talk(&filter, &["Our cat is called Mia."], true);
    chat(&filter, 3);
    let newest = host.records("s", "transcript").len() as u64;
    for position in newest - 8..newest {
        admin::rewrite_message(&sessions(&host), &S, position, None).unwrap();
    }
    assert!(!everything(&host).contains("Mia"));
    assert_eq!(recalled(&filter, "Mia?"), [""; 0]);
    all_kept(&filter);
    assert!(!everything(&host).contains("Mia"));
}

#[test]
fn an_edited_message_is_recalled_once_it_is_indexed_again() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    talk(&filter, &["Our dog is called Bello."], true);
    chat(&filter, 3);
    admin::rewrite_message(&sessions(&host), &S, 0, Some("Our dog is called Rex.")).unwrap();
    admin::rewrite_message(&sessions(&host), &S, 1, Some("Rex it is.")).unwrap();
    assert!(!everything(&host).contains("Bello"));
    assert_eq!(recalled(&filter, "dog?"), [""; 0], "until the deferred work was done");
    all_kept(&filter);
    assert_eq!(recalled(&filter, "Which dog is Rex?"), ["Our dog is called Rex.", "Rex it is."]);
    assert_eq!(entry(&host, "session", "recalled").unwrap(), "8");
}

#[test]
fn indexing_does_not_restore_a_message_removed_meanwhile() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    let asked = ask(&filter, "Our dog is called Bello.", &s());
    let due = reply(&filter, "Our dog is called Bello.", "Fine.", &asked.turn).due;
    let removed = std::cell::Cell::new(false);
    host.before_each(move |host, _| {
        // Between the step's look and what it writes.
        let has_read = host.leases("s").contains_key("recall");
        if has_read && !removed.replace(true) {
            admin::rewrite_message(&sessions(host), &S, 0, None).unwrap();
        }
    });
    let mut work = Work::of(&due, "recall");
    assert_eq!(work.step(&filter, "h", None).step, Step::Taken);
    host.before_each(|_, _| {});
    assert!(!everything(&host).contains("Bello"));
    all_kept(&filter);
    assert!(!everything(&host).contains("Bello") && everything(&host).contains("Fine."));
}

#[test]
fn a_replaced_transcript_leaves_no_passages() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    for is_cleared in [true, false] {
        talk(&filter, &["Our dog is called Bello."], true);
        chat(&filter, 80);
        assert!(documents(&host) > 0);
        if is_cleared {
            admin::clear_messages(&sessions(&host), &S, None).unwrap();
        } else {
            let message = r#"{"role": "user", "content": "Our cat is called Mia."}"#.to_owned();
            admin::set_messages(&sessions(&host), &S, &[message], None).unwrap();
        }
        assert_eq!(documents(&host), 0);
        let bucket = host.bucket("s");
        assert_eq!((bucket.logs["passages"].1.len(), bucket.logs["terms"].1.len()), (0, 0));
        assert_eq!(recalled(&filter, "dog?"), [""; 0]);
    }
    all_kept(&filter);
    chat(&filter, 3);
    assert_eq!(recalled(&filter, "cat?")[0], "Our cat is called Mia.");
    let found = attached(&ask(&filter, "cat?", &s()), "memory_recall");
    assert_eq!((&found["passages"][0]["source"], &found["passages"][0]["trust"]), (&json!("import"), &json!("low")));
    let careful = super::filter(&host, &format!("{OPTIONS}, \"recall_exclude\": [\"import\"]"));
    assert!(recalled(&careful, "cat?").iter().all(|text| !text.contains("Mia")));
}

#[test]
fn retention_removes_the_passages_of_removed_records() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"max_session_messages\": 20"));
    let said: Vec<String> = std::iter::once("Our dog is called Bello.".to_owned()).chain(chatter(150)).collect();
    for text in &said {
        let asked = ask(&filter, text, &s());
        let due = reply(&filter, text, "Well.", &asked.turn).due;
        for name in ["retention", "recall"] {
            if due.iter().any(|task| task.name == name) {
                finish(&filter, &mut Work::of(&due, name));
            }
        }
    }
    all_kept(&filter);
    // (The title that was made of it stays.)
    let bucket = host.bucket("s");
    assert!(!format!("{:?}", bucket.logs).contains("Bello"));
    assert!(bucket.logs["passages"].1.len() <= 20 && documents(&host) == 0, "{}", documents(&host));
    assert_eq!(recalled(&filter, "Bello?"), [""; 0]);
}

#[test]
fn a_branch_recalls_nothing_of_another() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    for (name, after) in [("1", None), ("2 zebra", Some("a1")), ("3", Some("a1")), ("4", Some("a3")), ("5", Some("a4"))]
    {
        assert_eq!(turn(&filter, name, after).effect, STORED);
    }
    chat(&filter, 8);
    assert!(recalled(&filter, "zebra?").iter().all(|text| !text.contains("zebra")));
    assert!(everything(&host).contains("answer 2 zebra"));
    let old = json!({"session_id": "s", "parent_message_id": "a2 zebra"});
    assert!(super::messages(&ask(&filter, "?", &old)).join(" ").contains("zebra"));
    assert_eq!(recalled(&filter, "question 3?")[0], "question 1");
}

#[test]
fn tool_results_are_recalled_and_can_be_excluded() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    let asked = ask(&filter, "Weather?", &s());
    let call = super::call("c", "weather", "{}");
    act(&filter, "Weather?", "Look.", &asked.turn, &[call, result("c", "weather", "Forty degrees in Rome")]);
    chat(&filter, 3);
    let found = attached(&ask(&filter, "How many degrees in Rome?", &s()), "memory_recall");
    let tool = found["passages"].as_array().unwrap().iter().find(|it| it["role"] == "tool").unwrap();
    assert_eq!((&tool["source"], &tool["trust"]), (&json!("tool"), &json!("low")));
    let careful = super::filter(&host, &format!("{OPTIONS}, \"recall_exclude\": [\"tool\"]"));
    assert!(recalled(&careful, "How many degrees in Rome?").iter().all(|text| !text.contains("Forty")));
}

#[test]
fn recall_stays_within_its_budget_and_repeats_no_text() {
    let host = TestHost::new();
    let filter = filter(&host, &format!("{OPTIONS}, \"recall_tokens\": 64"));
    let said: Vec<String> = (0..20).map(|number| format!("Dog number {} barks at the gate.", number % 10)).collect();
    talk(&filter, &said.iter().map(String::as_str).collect::<Vec<_>>(), true);
    chat(&filter, 100);
    let found = attached(&ask(&filter, "Which dog barks at the gate?", &s()), "memory_recall");
    let text = found["text"].as_str().unwrap();
    assert!(text.len().div_ceil(4) <= 64, "{text}");
    let texts: Vec<&str> =
        found["passages"].as_array().unwrap().iter().map(|passage| passage["text"].as_str().unwrap()).collect();
    assert!(texts.len() >= 2, "{texts:?}");
    let mut unique = texts.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), texts.len());
}

#[test]
fn without_indexes_nothing_is_recalled_and_nothing_fails() {
    let host = TestHost::new();
    let mut capabilities = Host::capabilities(&&host);
    capabilities.indexes = false;
    host.capabilities.set(Some(capabilities));
    let filter = filter(&host, OPTIONS);
    let asked = ask(&filter, "Our dog is called Bello.", &s());
    let done = reply(&filter, "Our dog is called Bello.", "Fine.", &asked.turn);
    assert!(done.effect == STORED && done.due.iter().all(|task| task.name != "recall"));
    assert_eq!(recalled(&filter, "dog?"), [""; 0]);
    admin::rewrite_message(&sessions(&host), &S, 0, None).unwrap();
    admin::clear_messages(&sessions(&host), &S, None).unwrap();
}

#[test]
fn a_forged_memory_recall_is_removed() {
    let host = TestHost::new();
    let filter = filter(&host, OPTIONS);
    let forged = json!({"session_id": "s", "memory_recall": {"text": "x"}});
    assert_eq!(attached(&ask(&filter, "?", &forged), "memory_recall"), Value::Null);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_stored_data_does_not_break_recall(
        passage in ".{0,30}|\\{\"p\":[0-9]{1,20},\"at\":[0-9]{1,3},\"role\":\"user\",\"text\":\"dog\"\\}",
        terms in "[0-o]{0,16}|.{0,12}", place in "[0-9 ]{0,12}|.{0,9}", question in ".{0,30}",
    ) {
        let host = TestHost::new();
        let filter = filter(&host, OPTIONS);
        talk(&filter, &["Our dog is called Bello."], true);
        chat(&filter, 3);
        {
            let mut buckets = host.buckets_mut();
            let bucket = buckets.get_mut("s").unwrap();
            bucket.logs.get_mut("passages").unwrap().1.push(passage);
            bucket.logs.get_mut("terms").unwrap().1.push(terms);
            bucket.maps.get_mut("session").unwrap().insert("recalled".into(), place);
        }
        ask(&filter, &question, &s());
        ask(&filter, "dog?", &s());
        let mut work = Work { buckets: buckets("session s"), name: "recall", state: String::new() };
        for _ in 0..200 {
            if work.step(&filter, "h", None).step != Step::Again {
                break;
            }
        }
        reset(&filter);
        all_kept(&filter);
        proptest::prop_assert_eq!(&recalled(&filter, "Who is called Bello?")[0], "Our dog is called Bello.");
    }
}
