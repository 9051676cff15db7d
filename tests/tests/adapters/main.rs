//! Adapters for hosts that know nothing of Keepline: the store over `wasi:keyvalue` as a component, and the filter composed
//! with it. `make hosts` runs them on the hosts themselves.

mod composed;

use std::time::{Duration, Instant};

use keepline::store::{ManualClock, capability};
use keepline_adapters::{Log, STORE_KEYVALUE, keyvalue};
use keepline_stores_tests::{kit, stores::StoreUnderTest};
use keepline_tests::{
    component_host::{Host, HostedComponent},
    component_store::StoreComponent,
};
use serde_json::{Value, json};

use self::composed::Composed;

const CONVERSATION: &str = r#"{"conversation": true}"#;

#[tokio::test]
async fn the_store_over_wasi_keyvalue_passes_the_store_kit() {
    let component = StoreComponent::compile(STORE_KEYVALUE);
    for topic in kit::topics() {
        println!("{topic}");
        kit::replay(&topic, || {
            let clock = ManualClock::new();
            StoreUnderTest::component(component.instantiate(clock.clone()), clock)
        })
        .await;
    }
}

#[test]
fn the_components_import_what_they_are_for_and_nothing_else() {
    let imports = |component: &[u8]| {
        let mut imports = HostedComponent::compile(component).imports();
        imports.sort_unstable();
        imports
    };
    let stderr = ["wasi:cli/stderr@0.2.0", "wasi:io/error@0.2.0", "wasi:io/streams@0.2.0"];
    let store = [
        "wasi:clocks/wall-clock@0.2.0",
        "wasi:keyvalue/atomics@0.2.0-draft",
        "wasi:keyvalue/batch@0.2.0-draft",
        "wasi:keyvalue/store@0.2.0-draft",
    ];
    assert_eq!(imports(STORE_KEYVALUE), store);
    let logging = ["wasi:logging/logging@0.1.0-draft"];
    for (log, lent) in [(Log::Stderr, &stderr[..]), (Log::WasiLogging, &logging), (Log::None, &[])] {
        let mut all = [lent, &store].concat();
        all.sort_unstable();
        assert_eq!(imports(keyvalue(log)), all, "{log:?}");
    }
}

/// What a question gets attached.
fn attached(metadata: Option<String>) -> Value {
    metadata.map_or(Value::Null, |metadata| serde_json::from_str(&metadata).unwrap())
}

#[test]
fn a_composed_filter_remembers_and_another_instance_after_it() {
    let component = HostedComponent::compile(keyvalue(Log::Stderr));
    let host = Host::default();
    let mut first = Composed::start(&component, host.clone(), CONVERSATION);
    let question = first.ask("s", "My name is Ada.");
    first.say("s", "Hello Ada.", &question.turn, "My name is Ada.");
    let question = first.ask("s", "What is my name?");
    let metadata = attached(question.metadata);
    assert_eq!(metadata["memory_context"], json!({"answer_count": 1, "last_answer": "Hello Ada."}));
    assert_eq!(metadata["memory_messages"].as_array().map(Vec::len), Some(2), "{metadata}");
    first.say("s", "Ada.", &question.turn, "What is my name?");
    drop(first);
    let mut second = Composed::start(&component, host, CONVERSATION);
    let metadata = attached(second.ask("s", "And now?").metadata);
    assert_eq!(metadata["memory_context"], json!({"answer_count": 2, "last_answer": "Ada."}));
    assert_eq!(metadata["memory_messages"].as_array().map(Vec::len), Some(4), "{metadata}");
    assert_eq!(attached(second.ask("another", "Who am I?").metadata)["memory_context"], Value::Null);
}

#[test]
fn configuring_warns_that_a_session_must_have_one_writer() {
    let composed = Composed::start(&HostedComponent::compile(keyvalue(Log::Stderr)), Host::default(), "{}");
    let [(subject, message)] = &composed.warnings[..] else { panic!("{:?}", composed.warnings) };
    assert_eq!(subject, capability::COMPARE);
    assert!(message.contains("updates are lost where a session has more than one writer at a time"), "{message}");
}

#[test]
fn a_store_that_fails_is_reported_on_standard_error_without_what_the_host_says() {
    let host = Host::default();
    let mut composed = Composed::start(&HostedComponent::compile(keyvalue(Log::Stderr)), host.clone(), "{}");
    host.values.fail_after_writes(Some(0));
    assert_eq!(composed.say("s", "lost", "", "").problem.as_deref(), Some("unavailable"));
    let stderr = String::from_utf8(composed.host().stderr.clone()).unwrap();
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(matches!(&lines[..], [line] if line.starts_with("warning: keepline.store: ")), "{stderr}");
    assert!(!stderr.contains("password"), "{stderr}");
    host.values.fail_after_writes(None);
    assert_eq!(composed.say("s", "kept", "", "").problem, None);
}

#[test]
fn a_store_that_fails_is_reported_where_the_log_goes_and_nowhere_else() {
    for log in [Log::WasiLogging, Log::None] {
        let host = Host::default();
        let mut composed = Composed::start(&HostedComponent::compile(keyvalue(log)), host.clone(), "{}");
        host.values.fail_after_writes(Some(0));
        assert_eq!(composed.say("s", "lost", "", "").problem.as_deref(), Some("unavailable"));
        let Host { stderr, logged, .. } = composed.host();
        assert!(stderr.is_empty());
        let topics: Vec<&str> = logged.iter().map(|(topic, _)| &**topic).collect();
        // A host with a log decides itself what it shows.
        assert_eq!(topics.contains(&"keepline.store"), log == Log::WasiLogging, "{topics:?}");
        assert!(log == Log::WasiLogging || topics.is_empty(), "{topics:?}");
        assert!(logged.iter().all(|(_, message)| !message.contains("password")), "{logged:?}");
    }
}

/// Calls of the key-value store, and time.
struct PairCost {
    question: (u64, Duration),
    answer: (u64, Duration),
}

/// What each of so many pairs in one session costs.
fn pairs(component: &HostedComponent, host: &Host, options: &str, count: usize) -> Vec<PairCost> {
    let mut composed = Composed::start(component, host.clone(), options);
    let mut costs = Vec::new();
    for pair in 0..count {
        let (calls, began) = (host.values.calls(), Instant::now());
        let said = format!("question {pair}, {}", "which is of the usual length ".repeat(5));
        let question = composed.ask("s", &said);
        let (asked, asked_at) = (host.values.calls(), Instant::now());
        let answer = format!("answer {pair}, {}", "which is a little longer than the question was ".repeat(10));
        composed.say("s", &answer, &question.turn, &said);
        costs.push(PairCost {
            question: (asked - calls, asked_at - began),
            answer: (host.values.calls() - asked, asked_at.elapsed()),
        });
    }
    costs
}

fn print_times(what: &str, costs: &mut [PairCost]) {
    let middle = costs.len() / 2;
    costs.sort_unstable_by_key(|cost| cost.question.1);
    let question = costs[middle].question.1;
    costs.sort_unstable_by_key(|cost| cost.answer.1);
    println!("{what}: question {question:?}, answer {:?}", costs[middle].answer.1);
}

#[test]
fn a_conversation_of_300_pairs_has_a_small_head_and_costs_no_more_than_a_short_one() {
    let component = HostedComponent::compile(keyvalue(Log::Stderr));
    // Printed, never asserted.
    print_times("values alone", &mut pairs(&component, &Host::default(), "{}", 300));
    print_times("a conversation of 10 pairs", &mut pairs(&component, &Host::default(), CONVERSATION, 10));
    let host = Host::default();
    let mut costs = pairs(&component, &host, CONVERSATION, 300);
    let count = |cost: &PairCost| (cost.question.0, cost.answer.0);
    // The first question also creates the session.
    let (question, answer) =
        costs.iter().skip(1).map(count).fold((0, 0), |most, cost| (most.0.max(cost.0), most.1.max(cost.1)));
    println!(
        "calls: at most {question} a question, {answer} an answer; the first and the last: {:?}",
        (count(&costs[0]), count(&costs[299]))
    );
    print_times("a conversation of 300 pairs", &mut costs);
    assert!(question <= 7 && answer <= 12, "{question} calls a question, {answer} an answer");
    let values = host.values.values();
    let head = values["keepline.session.s"].len();
    let part = values.iter().filter(|(key, _)| key.starts_with("keepline.session.s.")).map(|(_, part)| part.len());
    let part = part.max().unwrap_or(0);
    assert!(head <= 1024 && part <= 16 << 10, "head {head} bytes, largest part {part} bytes");
}
