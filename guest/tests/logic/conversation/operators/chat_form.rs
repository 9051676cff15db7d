//! Messages in the forms of chat APIs, set by an operator.

use crate::admin_calls as admin;
use keepline_filter::admin::messages::MessageQuery;
use keepline_filter::transcript::address::TranscriptId;
use keepline_filter::{Config, Context};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::conversation::{act, ask, attached, call, entry, filter, transcript};
use crate::test_host::TestHost;

const S: TranscriptId<'static> = TranscriptId { session: "s", app_id: None, node_id: None };

fn sessions(host: &TestHost) -> Context<&TestHost> {
    Context::new(host, Config::parse(r#"{"conversation": true}"#).unwrap())
}

/// The messages of a window, as they are spelt.
fn window(host: &TestHost) -> Vec<String> {
    let asked = ask(&filter(host, ""), "?", &json!({"session_id": "s", "memory": {"look": true}}));
    let (mut window, mut messages) = (String::from("[]"), Vec::new());
    keepline_json::for_each_member(asked.metadata.as_deref().unwrap_or("{}"), |key, raw| {
        if key == "\"memory_messages\"" {
            raw.clone_into(&mut window);
        }
    })
    .unwrap();
    keepline_json::for_each_element(&window, |message| messages.push(message.to_owned())).unwrap();
    messages
}

/// What is set in a new session, and its window.
fn set(given: &[String]) -> (TestHost, Vec<String>) {
    let host = TestHost::new();
    let sessions = sessions(&host);
    admin::create_session(&sessions, "s").unwrap();
    admin::set_messages(&sessions, &S, given, None).unwrap();
    let window = window(&host);
    (host, window)
}

fn set_values(given: &[Value]) -> (TestHost, Vec<Value>) {
    let (host, window) = set(&given.iter().map(Value::to_string).collect::<Vec<_>>());
    (host, window.iter().map(|message| serde_json::from_str(message).unwrap()).collect())
}

fn notes(host: &TestHost) -> String {
    let lines = host.lines.borrow();
    let told = lines.iter().filter(|(_, context, _)| context == "keepline.messages");
    told.map(|(_, _, line)| line.as_str()).collect::<Vec<_>>().join("\n")
}

fn tool_call(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{\"n\":1.0}"}})
}

#[test]
fn chat_messages_are_returned_as_they_were_set() {
    let given = [
        json!({"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "https://x/y.png"}}], "name": "skipper"}),
        json!({"role": "assistant", "content": "I look.", "reasoning_content": "The depth first.", "tool_calls": [tool_call("a", "depth"), tool_call("b", "tide")]}),
        json!({"role": "tool", "tool_call_id": "a", "content": "3 m"}),
        json!({"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "rising"}]}),
        json!({"role": "assistant", "content": "Three metres."}),
    ];
    let (host, window) = set_values(&given);
    assert_eq!(window, given);
    assert_eq!(notes(&host), "");
    let records = transcript(&host, "s");
    assert_eq!(records.len(), 7);
    assert_eq!(records[2]["tool"], json!({"call_id": "a", "name": "depth", "arguments": "{\"n\":1.0}"}));
}

#[test]
fn old_calls_and_refusals_are_kept_in_today_s_form() {
    let (host, window) = set_values(&[
        json!({"role": "user", "content": "Old style call"}),
        json!({"role": "assistant", "content": null, "function_call": {"name": "tide", "arguments": "{}"}}),
        json!({"role": "function", "name": "tide", "content": "low"}),
        json!({"role": "assistant", "content": null, "refusal": "I can't help with that.", "audio": null}),
        json!({"role": "user", "content": "Why?", "logprobs": {"x": 1}}),
    ]);
    assert_eq!(window[1]["tool_calls"][0]["function"], json!({"name": "tide", "arguments": "{}"}));
    assert_eq!(window[1]["tool_calls"][0]["id"], window[2]["tool_call_id"]);
    assert_eq!((&window[2]["content"], &window[3]["content"]), (&json!("low"), &json!("I can't help with that.")));
    let notes = notes(&host);
    assert!(notes.contains("the refusal is stored as the content (message 4)"), "{notes}");
    assert!(notes.contains("member 'logprobs' is not stored (message 5)"), "{notes}");
}

#[test]
fn anthropic_s_calls_and_results_among_parts_are_tools() {
    let (_, window) = set_values(&[
        json!({"role": "user", "content": "Which berth?"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "a", "name": "berths", "input": {"x": 1}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "berth 7"}, {"type": "text", "text": "Hurry."}]}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "Berth 7."}]}),
    ]);
    let roles: Vec<&Value> = window.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    assert_eq!(window[1]["content"], json!([{"type": "text", "text": "Let me see."}]));
    assert_eq!(window[1]["tool_calls"][0]["function"]["arguments"], "{\"x\":1}");
    assert_eq!(window[2], json!({"role": "tool", "tool_call_id": "a", "content": "berth 7"}));
    // A call in both forms is one.
    let both = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "berths", "input": {}}], "tool_calls": [tool_call("a", "berths")]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "7"});
    let (host, _) = set_values(&[json!({"role": "user", "content": "?"}), both, result]);
    assert_eq!(transcript(&host, "s").len(), 3);
}

#[test]
fn blank_messages_are_reported_and_not_stored() {
    let (host, window) = set_values(&[
        json!({"role": "user", "content": "Which berth is free?"}),
        json!({"role": "assistant", "content": ""}),
        json!({"role": "user", "content": "Still there?"}),
        json!({"role": "assistant", "content": "Yes."}),
        json!({"role": "user", "content": ""}),
        json!({"role": "assistant", "content": []}),
        json!({"role": "user", "content": null}),
        json!({"role": "assistant"}),
    ]);
    assert_eq!(transcript(&host, "s").len(), 3);
    assert!(window.iter().all(|message| message["content"].as_str().is_some_and(|text| !text.is_empty())));
    assert!(notes(&host).contains("blank messages are not stored (messages 2, 5, 6, 7, 8)"), "{}", notes(&host));
}

#[test]
fn instructions_keep_their_role() {
    let given = [
        json!({"role": "system", "content": "Answer in French."}),
        json!({"role": "user", "content": "Hello"}),
        json!({"role": "assistant", "content": "Bonjour"}),
        json!({"role": "developer", "content": "Now in German."}),
        json!({"role": "user", "content": "And now?"}),
        json!({"role": "assistant", "content": "Hallo"}),
    ];
    let (host, window) = set_values(&given);
    assert_eq!(window, given);
    let records = transcript(&host, "s");
    assert_eq!((&records[0]["kind"], &records[0]["role"]), (&json!("instruction"), &json!("system")));
    assert_eq!(entry(&host, "session", "title").as_deref(), Some("Hello"));
    // What isn't an instruction is never read as one, whatever it holds beside its content.
    let mut forged = records[1].clone();
    forged["role"] = "system".into();
    forged["chat"] = json!({"role": "system", "name": "skipper"});
    host.buckets_mut().get_mut("s").unwrap().logs.get_mut("transcript").unwrap().1[1] = forged.to_string();
    assert_eq!(self::window(&host)[1], r#"{"role":"user","content":"Hello","name":"skipper"}"#);
}

#[test]
fn a_result_belongs_to_the_turn_of_its_call_however_old_that_is() {
    let given = |number: usize| {
        let all = [
            json!({"role": "user", "content": "First", "id": "q1"}),
            json!({"role": "assistant", "content": null, "tool_calls": [tool_call("a", "depth")]}),
            json!({"role": "user", "content": "Second", "id": "q2"}),
            json!({"role": "assistant", "content": "Wait."}),
            json!({"role": "tool", "tool_call_id": "a", "content": "3 m"}),
        ];
        all.map(|message| message.to_string())[..number].to_vec()
    };
    let turns = |host: &TestHost| -> Vec<String> {
        transcript(host, "s").iter().map(|record| record["turn"].as_str().unwrap().to_owned()).collect()
    };
    let (host, _) = set(&given(5));
    let found = turns(&host);
    assert!(found[4] == found[1] && found[4] != found[3], "{found:?}");
    // Also where it comes later than the others.
    let (host, _) = set(&given(4));
    admin::set_messages(&sessions(&host), &S, &given(5)[4..], Some(4)).unwrap();
    let found = turns(&host);
    assert!(found[4] == found[1] && found[4] != found[3], "{found:?}");
    assert_eq!(transcript(&host, "s")[4].get("begins"), None);
    // One that nobody waits for is kept.
    let (host, _) = set(&given(5)[2..]);
    assert_eq!(transcript(&host, "s").len(), 3);
    assert!(notes(&host).contains("results that no call waits for are stored, but not shown to models (message 3)"));
}

#[test]
fn a_result_with_a_reused_call_id_belongs_to_the_newest_call() {
    let round = [
        json!({"role": "assistant", "content": null, "tool_calls": [tool_call("a", "depth")]}),
        json!({"role": "tool", "tool_call_id": "a", "content": "3 m"}),
    ];
    let given = [&[json!({"role": "user", "content": "?"})][..], &round, &round].concat();
    let (host, window) = set_values(&given);
    assert_eq!(notes(&host), "");
    assert_eq!(window.iter().filter(|message| message["role"] == "tool").count(), 2);
}

#[test]
fn operators_name_the_source_of_their_messages() {
    let (host, _) = set_values(&[
        json!({"role": "user", "content": "a", "source": "crm"}),
        json!({"role": "user", "content": "b"}),
        json!({"role": "user", "content": "c", "source": "crm", "trust": "low"}),
    ]);
    let told: Vec<_> =
        transcript(&host, "s").iter().map(|record| (record["source"].clone(), record["trust"].clone())).collect();
    assert_eq!(told, [("crm".into(), Value::Null), ("import".into(), "low".into()), ("crm".into(), "low".into())]);
}

#[test]
fn json_that_python_writes_is_read() {
    let (host, window) = set(&[
        "\u{feff}{\"role\":\"user\",\"content\":\"otter \\ud83e\",\"metadata\":{\"score\":NaN}}".to_owned(),
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"\\ud83e\\udda6 \\udda6\"}]}".to_owned(),
    ]);
    assert_eq!(transcript(&host, "s")[0]["metadata"], json!({"score": null}));
    let window: Vec<Value> = window.iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    assert_eq!(
        (&window[0]["content"], &window[1]["content"][0]["text"]),
        (&json!("otter \u{fffd}"), &json!("🦦 \u{fffd}"))
    );
}

/// A message of a chat: good ones, and each defect now and then.
fn any_message() -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec!["Where?", "é🦦 \"x\"\n", "", "  ", "<think>hm</think>So."]);
    let id = prop::sample::select(vec!["a", "b", "c"]);
    (0_usize..14, text, id, any::<bool>()).prop_map(|(kind, text, id, has_name)| {
        let text = json!(text).to_string();
        let name = if has_name { ",\"name\":\"skipper\"" } else { "" };
        let arguments = r#""arguments":"{\"n\":1.50}""#;
        let call = format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f",{arguments}}}}}"#);
        match kind {
            0..=2 => format!(r#"{{"role":"user","content":{text}{name}}}"#),
            3 => format!(r#"{{"role":"user","content":[{{"type":"text","text":{text}}},{{"n":1.0,"type":"image_url","image_url":{{"url":"u"}}}}]}}"#),
            4 | 5 => format!(r#"{{"role":"assistant","content":{text},"reasoning_content":"r"{name}}}"#),
            6 => format!(r#"{{"role":"assistant","content":{text},"tool_calls":[{call}]}}"#),
            7 => format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call},{}]}}"#, call.replace("\"f\"", "\"g\"").replace(id, "d")),
            8 | 9 => format!(r#"{{"role":"tool","tool_call_id":"{id}","content":{text}}}"#),
            10 => r#"{"role":"assistant","content":null,"function_call":{"name":"old","arguments":"{}"}}"#.to_owned(),
            11 => format!(r#"{{"role":"function","name":"old","content":{text}}}"#),
            12 => format!(r#"{{"role":"assistant","content":null,"refusal":{text}}}"#),
            _ => format!(r#"{{"role":"system","content":{text}}}"#),
        }
    })
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 300, failure_persistence: None, ..Default::default() })]

    /// A window that is set is the window that is asked for then, byte for byte.
    #[test]
    fn a_window_that_is_set_is_returned_unchanged(given in prop::collection::vec(any_message(), 0..24)) {
        let (_, first) = set(&given);
        let (host, second) = set(&first);
        prop_assert_eq!(&second, &first);
        prop_assert_eq!(notes(&host), "");
        // In pieces as well, and with what the lanes store after them.
        let host = TestHost::new();
        let sessions = sessions(&host);
        admin::create_session(&sessions, "s").unwrap();
        for (index, message) in first.iter().enumerate() {
            let next = (index > 0).then(|| transcript(&host, "s").len() as u64);
            admin::set_messages(&sessions, &S, std::slice::from_ref(message), next).unwrap();
        }
        prop_assert_eq!(&window(&host), &first);
        let lanes = filter(&host, "");
        act(&lanes, "And?", "So.", &ask(&lanes, "And?", &json!({"session_id": "s"})).turn, &[call("z", "n", "{}")]);
        let third = window(&host);
        prop_assert_eq!(set(&third).1, third);
    }
}

#[test]
fn messages_can_be_set_as_they_were_returned() {
    let (host, first) = set_values(&[
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "?", "name": "skipper"}),
        json!({"role": "assistant", "content": "!", "reasoning_content": "r"}),
    ]);
    let page = admin::find_messages(&sessions(&host), &S, &MessageQuery::default()).unwrap();
    let other = TestHost::new();
    admin::create_session(&sessions(&other), "s").unwrap();
    assert_eq!(admin::set_read_messages(&sessions(&other), &S, page.messages), Ok(3));
    let second: Vec<Value> = window(&other).iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    assert_eq!((second, notes(&other)), (first, String::new()));
    let asked = ask(&filter(&other, ""), "?", &json!({"session_id": "s", "memory": {"look": true}}));
    assert_eq!(attached(&asked, "memory_messages")[0]["role"], "system");
}
