//! Settings of one session: its window and its model.

use crate::admin_calls as admin;
use keepline_filter::contract::transcripts::TranscriptSettings as Settings;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context};
use serde_json::{Value, json};

use crate::conversation::tasks::{summary, until_due};
use crate::conversation::{STORED, act, ask, attached, call, entry, filter, messages, reply, result, s, transcript};
use crate::test_host::TestHost;

const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap())
}

fn tokens(number: u64) -> Settings {
    Settings { max_context_tokens: Some(number), ..Settings::default() }
}

fn talk(host: &TestHost, turns: usize) {
    let filter = filter(host, "");
    for number in 0..turns {
        let question = format!("What is the weather like on day {number}?");
        reply(&filter, &question, "As on the day before.", &ask(&filter, &question, &s()).turn);
    }
}

#[test]
fn a_session_gets_the_window_that_would_be_configured() {
    let host = TestHost::new();
    talk(&host, 200);
    let model = Some("m".to_owned());
    for (settings, configured, waits) in [
        (tokens(64), r#""max_context_tokens": 64"#, 1),
        (tokens(300), r#""max_context_tokens": 300"#, 1),
        (tokens(3000), r#""max_context_tokens": 3000"#, 2),
        (tokens(2_000_000), r#""max_context_tokens": 2000000"#, 2),
        (Settings { context_window: Some(4000), ..Settings::default() }, r#""context_window": 4000"#, 2),
        (
            Settings { context_window: Some(4000), reserve_tokens: Some(100), model, ..Settings::default() },
            r#""context_window": 4000, "reserve_tokens": 100"#,
            2,
        ),
        (Settings { reserve_tokens: Some(9000), ..Settings::default() }, r#""max_context_tokens": 1000"#, 1),
    ] {
        let plain = filter(&host, configured);
        admin::set_settings(&sessions(&host), &S, &Settings::default()).unwrap();
        let wanted = messages(&ask(&plain, "?", &s()));
        admin::set_settings(&sessions(&host), &S, &settings).unwrap();
        assert_eq!(admin::describe_transcript(&sessions(&host), &S).unwrap().settings, settings);
        // Whatever is configured; a reserve does nothing beside a budget that is given.
        let own = filter(&host, r#""max_context_tokens": 1000, "reserve_tokens": 3000"#);
        let before = host.waits.get();
        assert_eq!(messages(&ask(&own, "?", &s())), wanted, "{settings:?}");
        assert_eq!(host.waits.get() - before, waits, "{settings:?}");
    }
}

#[test]
fn settings_of_an_entry_override_the_sessions_for_that_entry_only() {
    let host = TestHost::new();
    talk(&host, 100);
    let filter = filter(&host, r#""memory_trace": true"#);
    let model = Some("of the session".to_owned());
    admin::set_settings(&sessions(&host), &S, &Settings { model, ..tokens(500) }).unwrap();
    let told = |memory: Value| {
        let asked = ask(&filter, "?", &json!({"session_id": "s", "memory": memory, "memory_model": "forged"}));
        (attached(&asked, "memory_trace")["budget"].as_u64().unwrap(), attached(&asked, "memory_model"))
    };
    let own = (500, json!("of the session"));
    assert_eq!(told(json!({"max_context_tokens": 700, "model": "mine"})), (700, json!("mine")));
    assert_eq!(told(json!({"context_window": 10_000})), (5200, own.1.clone()), "four fifths of 65 %");
    assert_eq!(told(json!({"max_context_tokens": 1})), (64, own.1.clone()));
    for nothing in
        [json!({}), json!({"max_context_tokens": "9", "model": ""}), json!({"context_window": 0, "model": "\n"})]
    {
        assert_eq!(told(nothing), own);
    }
    admin::set_settings(&sessions(&host), &S, &Settings::default()).unwrap();
    assert_eq!((entry(&host, "session", "settings"), told(json!({}))), (None, (50_000, Value::Null)));
}

#[test]
fn summaries_follow_the_budget_of_the_session() {
    for (configured, set) in [(50_000, 500), (500, 2000)] {
        let host = TestHost::new();
        let filter = filter(&host, &format!(r#""max_context_tokens": {configured}"#));
        ask(&filter, "?", &s());
        admin::set_settings(&sessions(&host), &S, &tokens(set)).unwrap();
        let (_, mut work) = until_due(&filter, 0);
        let weight: u64 = transcript(&host, "s").iter().map(|record| record["weight"].as_u64().unwrap()).sum();
        assert!((set..set + 100).contains(&weight), "{weight}");
        let need = crate::conversation::tasks::completion(work.step(&filter, "h", None));
        assert_eq!(u64::from(need.max_tokens), set / 4);
        let told = "word ".repeat(2000);
        work.step(&filter, "h", Some(&told));
        let kept = summary(&host)["text"].as_str().unwrap().len() as u64;
        assert!((set / 2..2 * set).contains(&kept), "{kept}");
    }
}

#[test]
fn a_budget_for_one_entry_makes_no_summary_due_for_the_others() {
    let host = TestHost::new();
    let filter = filter(&host, "");
    for number in 0..20 {
        let question = format!("What is the weather like on day {number}?");
        let asked = ask(&filter, &question, &json!({"session_id": "s", "memory": {"max_context_tokens": 64}}));
        assert!(messages(&asked).len() <= 4);
        let due = reply(&filter, &question, "As on the day before.", &asked.turn).due;
        assert!(due.iter().all(|task| task.name != "summary"), "{due:?}");
    }
    assert_eq!(messages(&ask(&filter, "?", &s())).len(), 40);
}

#[test]
fn a_result_is_cut_by_the_budget_of_the_session() {
    let long = "x".repeat(10_000);
    for (set, is_cut) in [(None, false), (Some(4000), true), (Some(200_000), false)] {
        let host = TestHost::new();
        let filter = filter(&host, r#""max_context_tokens": 120000"#);
        ask(&filter, "?", &s());
        if let Some(set) = set {
            admin::set_settings(&sessions(&host), &S, &tokens(set)).unwrap();
        }
        let activity = [call("c", "read", "{}"), result("c", "read", &long)];
        assert_eq!(act(&filter, "?", "!", &ask(&filter, "?", &s()).turn, &activity).effect, STORED);
        assert_eq!(transcript(&host, "s")[2]["truncated"] == json!(true), is_cut, "{set:?}");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name_and_skipped_when_stored() {
    let host = TestHost::new();
    talk(&host, 2);
    let none = Settings::default;
    for (settings, told) in [
        (tokens(63), "max_context_tokens must be an integer from 64 to 2000000"),
        (Settings { context_window: Some(255), ..none() }, "context_window must be an integer from 256 to 8000000"),
        (Settings { reserve_tokens: Some(0), ..none() }, "reserve_tokens must be an integer from 1 to 8000000"),
        (Settings { model: Some(String::new()), ..none() }, "model must be a text of 1 to 128 bytes"),
        (Settings { model: Some("é".repeat(65)), ..none() }, "model must be a text of 1 to 128 bytes"),
        (Settings { model: Some("a\nb".into()), ..none() }, "without control characters"),
    ] {
        let problem = admin::set_settings(&sessions(&host), &S, &settings).unwrap_err();
        assert!(problem.code == "invalid" && problem.message.contains(told), "{}", problem.message);
    }
    assert_eq!(entry(&host, "session", "settings"), None);
    let absent = admin::set_settings(&sessions(&host), &TranscriptId { session: "t", ..S }, &tokens(64)).unwrap_err();
    assert_eq!(absent.code, "not-found");
    for text in ["", "[]", "{", r#"{"max_context_tokens":"x","model":3}"#, r#"{"context_window":-1}"#] {
        let mut buckets = host.buckets_mut();
        buckets.get_mut("s").unwrap().maps.get_mut("session").unwrap().insert("settings".into(), text.into());
        drop(buckets);
        assert_eq!(messages(&ask(&filter(&host, ""), "?", &s())).len(), 4, "{text}");
    }
}

#[test]
fn settings_are_kept_when_messages_are_cleared_or_set() {
    let host = TestHost::new();
    talk(&host, 3);
    admin::set_settings(&sessions(&host), &S, &tokens(100)).unwrap();
    assert_eq!(admin::clear_messages(&sessions(&host), &S, None), Ok(6));
    let message = r#"{"role": "user", "content": "hello"}"#.to_owned();
    assert_eq!(admin::set_messages(&sessions(&host), &S, &[message], None), Ok(1));
    assert_eq!(admin::describe_transcript(&sessions(&host), &S).unwrap().settings, tokens(100));
}
