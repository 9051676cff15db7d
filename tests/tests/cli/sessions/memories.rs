//! Memories from the shell: stored once, and found by another process.

use std::sync::Arc;

use keepline_tests::{on_stores, stores::StoreUnderTest};
use serde_json::{Value, json};

use crate::{PATIENT, Ran, dead_url, finish, keepline};

type Given = Arc<StoreUnderTest>;

const RECALL: &str = "--set=recall=session";
const DOG: [&str; 2] = ["Our dog Bruno chased a squirrel.", "Did he catch it?"];
const TEA: [&str; 2] = ["I like green tea.", "Without sugar, I hope."];

fn on(given: &Given, arguments: &[&str], input: &str) -> Ran {
    let mut command = keepline(arguments.iter().copied());
    command.envs(given.environment()).env("KEEPLINE_CONVERSATION", "true");
    finish(command.spawn().unwrap(), input.as_bytes())
}

fn messages(said: &[[&str; 2]]) -> String {
    let rows = said.iter().flat_map(|[question, answer]| {
        [
            json!({"role": "human", "content": question}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c"}]}),
            json!({"role": "tool", "tool_call_id": "c", "content": "looked it up"}),
            json!({"role": "ai", "content": answer}),
        ]
    });
    Value::from_iter(rows).to_string()
}

fn remember(given: &Given, said: &[[&str; 2]], more: &[&str]) -> Value {
    let arguments = [&["remember", "--json", RECALL], more].concat();
    on(given, &arguments, &messages(said)).ok().json()
}

async fn a_memory_is_found_by_another_process(given: Given) {
    let anna = ["--user", "anna@example.org", "--session", "a"];
    let stored = remember(&given, &[TEA], &[&anna[..], &["--source", "desk", "--metadata", "{\"n\":1.50}"]].concat());
    assert_eq!((&stored["outcome"], &stored["session"]), (&json!("stored"), &json!("a")));
    // The whole conversation again, and longer: its newest exchange.
    assert_eq!(remember(&given, &[TEA, DOG], &anna)["outcome"], "stored");
    for _ in 0..2 {
        assert_eq!(remember(&given, &[TEA, DOG], &anna)["outcome"], "repeated");
    }
    let again = remember(&given, &[TEA], &anna);
    assert_eq!((&again["outcome"], &again["message_id"]), (&json!("repeated"), &stored["message_id"]));
    let described = on(&given, &["session", "describe", "a", "--json"], "").ok().json();
    assert_eq!((&described["next"], &described["title"]), (&json!(4), &json!(TEA[0])));

    let memories = |arguments: &[&str]| on(&given, &[&["memories", RECALL], arguments].concat(), "");
    let search = [&anna[..], &["What did Bruno chase?"]].concat();
    let told = memories(&[&search[..], &["--json"]].concat()).ok().json();
    assert_eq!((&told["method"], &told["query"]), (&json!("lexical"), &json!("What did Bruno chase?")));
    let best = &told["memories"][0];
    assert_eq!((&best["user_message"], &best["ai_response"]), (&json!(DOG[0]), &json!(DOG[1])));
    assert_eq!(best["combined_text"], format!("User: {}\n\nAssistant: {}", DOG[0], DOG[1]));
    assert_eq!((&best["similarity"], &best["position"], &best["session"]), (&json!(1.0), &json!(2), &json!("a")));
    assert_eq!(best["metadata"], json!({"source": "chat", "auto_generated": true, "storage_version": "v1"}));
    let words = memories(&["--user", "anna@example.org", "SUGAR", "--keyword", "--json"]).ok();
    let tea = &words.json()["memories"];
    assert_eq!((tea.as_array().unwrap().len(), &tea[0]["user_message"]), (1, &json!(TEA[0])));
    assert_eq!((&tea[0]["similarity"], &tea[0]["metadata"]["source"]), (&Value::Null, &json!("desk")));
    assert!(words.text().contains("\"n\":1.50"), "as it was written: {words:?}");

    let table = memories(&[&search[..], &["--limit", "1"]].concat()).ok();
    assert_eq!(table.text(), format!("1.00\ta\t{}\t2\t{}\t{}\n", TEA[0], DOG[0], DOG[1]));
    let prompt = memories(&[&search[..], &["--prompt"]].concat()).ok();
    for part in ["### Memory 1 (Relevance: 100%)\n", "**User said:** Our dog", "**You responded:** Did he"] {
        assert!(prompt.text().contains(part), "{prompt:?}");
    }
    assert_eq!(memories(&[&search[..], &["--prompt", "--max-chars", "100"]].concat()).ok().text(), "");
    // Nothing of it is another user's.
    assert_eq!(memories(&["--user", "ben", "--keyword", "Bruno", "--json"]).ok().json()["memories"], json!([]));
    for more in [&[][..], &["--keyword"]] {
        let foreign = memories(&[&["--user", "ben", "--session", "a", "Bruno", "--json"], more].concat());
        assert!(foreign.code == 1 && foreign.err.contains("\"not-found\""), "{foreign:?}");
    }
    let own = memories(&[&anna[..], &["--keyword", "Bruno", "--json"]].concat()).ok().json();
    assert_eq!(own["memories"][0]["user_message"], DOG[0]);
    assert_eq!(remember(&given, &[TEA], &["--user", "ben", "--session", "a"])["code"], "foreign");
}

on_stores!(run on directory, redis, cluster: [a_memory_is_found_by_another_process,]);

#[test]
fn a_memory_without_a_session_is_found_in_all_of_the_users() {
    const USER: &str = "--set=recall=user";
    let given = Arc::new(StoreUnderTest::directory());
    let remember = |more: &[&str], said: [&str; 2]| {
        on(&given, &[&["remember", "--json", USER], more].concat(), &messages(&[said])).ok().json()
    };
    let anna = ["--user", "anna"];
    let own = remember(&anna, DOG);
    assert!(own["session"].as_str().unwrap().starts_with("memories-") && own["outcome"] == "stored", "{own}");
    for anna in [&anna[..], &["--user", "anna", "--session", ""]] {
        let again = remember(anna, DOG);
        assert_eq!((&again["outcome"], &again["session"]), (&json!("repeated"), &own["session"]));
    }
    remember(&["--user", "anna", "--session", "chat"], TEA);
    let other = remember(&["--user", "ben"], TEA);
    assert_ne!(other["session"], own["session"]);
    let found = |more: &[&str], query: &str| {
        let told = on(&given, &[&["memories", USER, "--json"], more, &[query]].concat(), "").ok().json();
        let said = |memory: &Value| memory["user_message"].as_str().unwrap().to_owned();
        told["memories"].as_array().unwrap().iter().map(said).collect::<Vec<_>>()
    };
    assert_eq!(found(&anna, "What did Bruno chase?"), [DOG[0]]);
    let described = on(&given, &["session", "describe", own["session"].as_str().unwrap(), "--json"], "").ok().json();
    assert_eq!(described["title"], DOG[0]);
    assert_eq!(found(&anna, "green tea"), [TEA[0]]);
    assert_eq!(found(&["--user", "anna", "--session", "chat"], "Bruno"), [""; 0]);
    assert_eq!(found(&["--user", "ben"], "Bruno"), [""; 0]);
    on(&given, &["user", "forget", "anna", "--yes", USER], "").ok();
    assert_eq!(found(&anna, "Bruno"), [""; 0]);
    assert_eq!(remember(&anna, DOG)["code"], "ended", "forgotten less than a day ago");
}

#[test]
fn skipped_memories_are_reported_with_the_reason() {
    let given = Arc::new(StoreUnderTest::directory());
    let (anna, said) = (["--user", "anna", "--session", "a"], messages(&[TEA]));
    let short = r#"[{"role":"user","content":"Tea?"},{"role":"assistant","content":"No"}]"#;
    let open = r#"{"messages":[{"role":"user","content":"Tea?"},{"role":"tool","content":"x"}]}"#;
    for (arguments, input, code) in [
        (&[][..], &*said, "no-user"),
        (&["--user", "anna"], &*said, "no-session"),
        (&["--user", "anna", "--session", ""], &*said, "no-session"),
        (&anna, "[]", "too-few-messages"),
        (&anna, open, "no-pair"),
        (&[&anna[..], &["--set=min_message_length=3"]].concat(), short, "too-short"),
        (&["--user", "anna", "--session", "a b"], &*said, "invalid-session"),
    ] {
        let ran = on(&given, &[&["remember"], arguments].concat(), input).ok();
        assert!(ran.text().starts_with(&format!("skipped\t{code}\t")), "{ran:?}");
    }
    assert_eq!(on(&given, &["session", "list", "--json"], "").ok().json()["sessions"], json!([]));

    let refused = |ran: Ran, told: &str| assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
    let remember = |more: &[&str], input: &str| on(&given, &[&["remember"], &anna[..], more].concat(), input);
    refused(remember(&["--set=conversation=false"], &said), "conversation=true");
    refused(remember(&[], "{"), "Message 1: it is not a JSON object");
    refused(remember(&[], "{\"messages\":1}"), "array");
    refused(remember(&["--metadata", "[]"], &said), "--metadata must be a JSON object");
    let memories = |more: &[&str]| on(&given, &[&["memories", "--user", "anna"], more].concat(), "");
    refused(memories(&["tea"]), "recall=user");
    refused(memories(&["tea", RECALL]), "a single session");
    refused(memories(&["tea", "--threshold", "2"]), "0 to 1");
    refused(on(&given, &["memories"], ""), "--user");
}

#[test]
fn a_missing_store_is_reported() {
    let url = dead_url();
    let arguments = ["remember", "--user", "anna", "--session", "a", "--json", "--set=store_timeout_ms=500"];
    let mut command = keepline(arguments);
    command.envs([PATIENT]).envs([("KEEPLINE_BACKEND", "redis"), ("KEEPLINE_REDIS_URL", &*url)]);
    command.env("KEEPLINE_CONVERSATION", "true");
    let ran = finish(command.spawn().unwrap(), messages(&[TEA]).as_bytes());
    assert!(ran.code == 1 && ran.err.contains("\"not-stored\""), "{ran:?}");
}
