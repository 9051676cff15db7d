//! Conversations from the shell: the profile `chat`, and the lane of tools.

use serde_json::{Value, json};

use crate::{answer, call, question};

/// What a question of the session gets.
fn messages(path: &str, session: &str) -> Value {
    let ran = call(&["run", "--profile", "chat", "--dir", path], question(session, "?").as_bytes()).ok();
    serde_json::from_str::<Value>(ran.text()).unwrap()["metadata"]["memory_messages"].clone()
}

fn tool(metadata: &Value, tool: &Value) -> String {
    format!("{}\n", json!({"lane": "tools", "tool": tool, "metadata": metadata}))
}

#[test]
fn a_conversation_with_tools_continues_in_another_process() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    let input = [
        question("a", "Where is it?"),
        tool(&json!({}), &json!({"call_id": "c1", "name": "track", "arguments": {"parcel": 7}})),
        tool(&json!({"session_id": "a"}), &json!({"call_id": "c1", "output": ["Bonn", 1]})),
        tool(&json!({"session_id": "b"}), &json!({"call_id": "c2", "output": "of another session"})),
        answer("In Bonn."),
        question("a", "Never answered?"),
        tool(&json!({}), &json!({"call_id": "c3", "arguments": {}, "output": "lost"})),
        "{\"lane\":\"open\"}\n".to_owned(),
    ]
    .concat();
    let ran = call(&["run", "--summary", "--profile", "chat", "--dir", &path], input.as_bytes()).ok();
    // Only the second question is changed.
    assert_eq!(ran.text().lines().zip(input.lines()).filter(|(out, came)| out != came).count(), 1);
    assert_eq!(ran.text().lines().count(), input.lines().count());
    assert!(ran.err.contains("tools              4") && ran.err.contains("opened             1"), "{}", ran.err);
    let call = json!({"id": "c1", "type": "function", "function": {"name": "track", "arguments": "{\"parcel\":7}"}});
    assert_eq!(
        messages(&path, "a"),
        json!([
            {"role": "user", "content": "Where is it?"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "[\"Bonn\",1]"},
            {"role": "assistant", "content": "In Bonn."},
        ])
    );
    assert_eq!(messages(&path, "b"), Value::Null);
}

#[test]
fn the_chat_profile_requires_a_directory_and_shows_its_settings() {
    let ran = call(&["run", "--profile", "chat"], b"");
    assert!(ran.code == 2 && ran.err.contains("--dir PATH"), "{ran:?}");
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    let shown = call(&["config", "--json", "--profile", "chat", "--dir", &path], b"").ok();
    let text = shown.text();
    for (name, value) in [
        ("conversation", json!(true)),
        ("session_ttl_hours", json!(720)),
        ("session_ttl_mode", json!("sliding")),
        ("backend", json!("directory")),
    ] {
        assert!(text.contains(&format!("\"{name}\"")) && text.contains(&value.to_string()), "{name}: {text}");
    }
}

#[test]
fn an_empty_tools_line_is_invalid_and_passes() {
    let lines = ["{\"lane\":\"tools\"}\n", "{\"lane\":\"tools\",\"tool\":{\"call_id\":\"c\"}}\n"].concat();
    let ran = call(&["run"], lines.as_bytes());
    assert_eq!((ran.code, ran.text()), (1, &*lines));
    assert!(ran.err.contains("missing tool") && ran.err.contains("neither arguments nor an output"), "{}", ran.err);
    // Without conversations, what tools do passes and is nothing to remember.
    let line = tool(&json!({}), &json!({"call_id": "c", "output": "x"}));
    assert_eq!(call(&["run"], line.as_bytes()).ok().text(), line);
}

#[test]
fn a_call_without_arguments_and_a_result_that_is_null_are_part_of_the_turn() {
    let shown = |tools: &[Value]| {
        let lines: String = tools.iter().map(|one| tool(&json!({}), one)).collect();
        let input = [question("s", "When?"), lines, answer("Now."), question("s", "Sure?")].concat();
        let ran = call(&["run", "--set", "conversation=true"], input.as_bytes()).ok();
        let last: Value = serde_json::from_str(ran.text().lines().last().unwrap()).unwrap();
        last["metadata"]["memory_messages"].clone()
    };
    let turn = |name: &str, arguments: &str, content: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!([
            {"role": "user", "content": "When?"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": "c", "content": content},
            {"role": "assistant", "content": "Now."},
        ])
    };
    let line = |more: Value| {
        let mut one = json!({"call_id": "c"});
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        one
    };
    let delete = json!({"name": "delete", "arguments": {"f": 7}});
    let mut both = delete.clone();
    both["output"] = Value::Null;
    let deleted = turn("delete", "{\"f\":7}", "null");
    assert_eq!(shown(&[line(both)]), deleted);
    assert_eq!(shown(&[line(delete), line(json!({"output": null}))]), deleted);
    let now = turn("now", "{}", "12:00");
    assert_eq!(shown(&[line(json!({"name": "now", "output": "12:00"}))]), now);
    assert_eq!(shown(&[line(json!({"name": "now", "arguments": null, "output": "12:00"}))]), now);
    let split = [json!({"name": "now", "arguments": null}), json!({"name": "now", "output": "12:00"})];
    assert_eq!(shown(&split.map(line)), now);
}

#[test]
fn tokens_are_counted_with_the_configured_vocabulary() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    let input = question("a", "Привет, как дела?") + &answer("goodbye, world");
    for counter in ["estimate", "cl100k_base", "o200k_base"] {
        let set = format!("token_counter={counter}");
        call(&["run", "--profile", "chat", "--dir", &path, "--set", &set], input.as_bytes()).ok();
    }
    let ran = call(&["session", "messages", "a", "--profile", "chat", "--dir", &path, "--json"], b"").ok();
    let of = |message: &Value| message["message"]["tokens"].as_u64();
    let found: Vec<_> = ran.json()["messages"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(found, [None, None, Some(8), Some(4), Some(6), Some(4)]);
}

/// Tokenizers recurse over blanks, and take long for letters without one.
#[test]
fn no_text_crashes_the_token_counter() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    let texts = [" ".repeat(1_000_000), "a".repeat(1_000_000), "\n ".repeat(400_000), "x".repeat(2 << 20)];
    let model = |model: &str| json!({"session_id": "a", "memory": {"model": model}});
    let mut input = String::new();
    for (text, name) in texts.iter().zip(["gpt-4", "gpt2", "davinci", "openai/gpt-4o"]) {
        input += &format!("{}\n", json!({"lane": "questions", "text": text, "metadata": model(name)}));
        input += &answer(text);
    }
    for counter in ["cl100k_base", "o200k_base"] {
        let set = format!("token_counter={counter}");
        let arguments = ["run", "--profile", "chat", "--dir", &path, "--set", &set, "--set", "store_timeout_ms=60000"];
        let ran = call(&arguments, input.as_bytes()).ok();
        assert_eq!(ran.text().lines().count(), 2 * texts.len(), "{counter}: {}", ran.err);
        assert!(ran.err.contains("is over 1 MiB, so its tokens are estimated"), "{counter}: {}", ran.err);
    }
}

#[test]
fn the_example_has_branches_tools_a_summary_and_two_users() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("memory").to_str().unwrap().to_owned();
    let chat = |arguments: &[&str], input: &[u8]| {
        call(&[arguments, &["--profile", "chat", "--dir", &path]].concat(), input).ok()
    };
    let example = include_bytes!("../../../../examples/conversation.jsonl");
    let ran = chat(&["run"], example);
    let asked: Vec<Value> = ran.text().lines().rev().take(2).map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |question: &Value| question["metadata"]["memory_messages"].to_string();
    // Ben's, and Anna's, who goes on from before her last answer.
    assert!(said(&asked[0]).contains("there is no invoice 12") && !said(&asked[0]).contains("parcel"), "{asked:?}");
    assert!(said(&asked[1]).contains("tell me the address") && !said(&asked[1]).contains("neighbour"), "{asked:?}");
    for (user, session) in [("anna@example.org", "anna-parcel"), ("ben@example.org", "ben-invoice")] {
        assert!(chat(&["user", "sessions", user], b"").text().starts_with(session));
        chat(&["session", "upkeep", session, "--set=max_context_tokens=64"], b"");
    }
    let described = chat(&["session", "describe", "anna-parcel"], b"");
    assert!(described.text().contains("4711?") && described.text().contains("\nsummary"), "{described:?}");
}
