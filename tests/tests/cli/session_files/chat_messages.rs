//! Chat messages and files of conversations, in every command that accepts them.

use super::*;

const BLANKS: &str = include_str!("../../../cases/set-messages-blanks.jsonl");
const INTERLEAVED: &str = include_str!("../../../cases/set-messages-calls-interleaved.jsonl");
const CHAT_FORM: &str = include_str!("../../../cases/set-messages-chat-form.jsonl");
const PARTS: &str = include_str!("../../../cases/set-messages-parts.jsonl");
const ANTHROPIC: &str = include_str!("../../../cases/import-langchain-anthropic.jsonl");
const REPEATED_IDS: &str = include_str!("../../../cases/import-langchain-repeated-ids.jsonl");
const SURROGATE: &str = include_str!("../../../cases/import-langchain-surrogate.jsonl");
const REMEMBER: &str = include_str!("../../../cases/remember-anthropic.json");

/// The messages of a session's window.
fn window(place: &Place, session: &str) -> Vec<Value> {
    let told = place.run(&["session", "window", session], b"").ok().json();
    told["memory_messages"].as_array().cloned().unwrap_or_default()
}

/// Sets what standard input holds in a new session.
fn set(place: &Place, session: &str, input: &str) -> Ran {
    place.run(&["session", "create", session], b"").ok();
    place.run(&["session", "set-messages", session, "-"], input.as_bytes()).ok()
}

fn skipped(told: &Value) -> Vec<&str> {
    told["skipped"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect()
}

fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn a_window_can_be_set_in_each_accepted_form() {
    let place = Place::directory();
    let parts = set(&place, "parts", PARTS);
    assert!(parts.err.contains("the refusal is stored as the content (message 4)"), "{parts:?}");
    let first = window(&place, "parts");
    assert_eq!((&first[0]["name"], &first[0]["content"][1]["type"]), (&json!("skipper"), &json!("image_url")));
    assert_eq!(first[1]["reasoning_content"], "I look at the depth first.");
    assert_eq!(first[3]["content"], "I can't help with that.");
    let lines: String = first.iter().map(|message| format!("{message}\n\n")).collect();
    let array = serde_json::to_string_pretty(&first).unwrap();
    let object = json!({"messages": first}).to_string();
    let printed = place.run(&["session", "messages", "parts", "--limit", "0", "--json"], b"").ok();
    for (name, input) in [("lines", &*lines), ("array", &*array), ("object", &*object), ("printed", printed.text())] {
        let ran = set(&place, name, input);
        assert_eq!(ran.err, "", "{name}");
        assert_eq!(window(&place, name), first, "{name}");
    }
}

#[test]
fn dropped_parts_of_set_messages_are_reported() {
    let place = Place::directory();
    let blanks = set(&place, "blanks", BLANKS);
    assert!(blanks.err.contains("blank messages are not stored (messages 2, 5, 6, 7, 8)"), "{blanks:?}");
    assert_eq!(blanks.text(), "3\n");
    assert!(
        window(&place, "blanks").iter().all(|message| message["content"].as_str().is_some_and(|text| !text.is_empty()))
    );

    set(&place, "interleaved", INTERLEAVED);
    let shown = window(&place, "interleaved");
    let results: Vec<&Value> = shown.iter().filter(|message| message["role"] == "tool").collect();
    let results: Vec<_> = results.iter().map(|result| (&result["tool_call_id"], &result["content"])).collect();
    for (call, content) in [("a", "4"), ("b", "5"), ("c", "6")] {
        assert!(results.contains(&(&json!(call), &json!(content))), "{shown:?}");
    }
    set(&place, "chat", CHAT_FORM);
    let stored = place.run(&["session", "messages", "chat", "--json"], b"").ok().json();
    assert_eq!(stored["messages"][1]["message"]["tool"], json!({"call_id": "q1", "name": "berths", "arguments": "{}"}));
    // What is wrong is named by its line.
    let bad = place.run(&["session", "set-messages", "chat", "-"], b"{\"role\":\"user\",\"content\":\"x\"}\n\n{\n");
    assert!(bad.code == 1 && bad.err.contains("Message 3: it is not a JSON object"), "{bad:?}");
    // As of a program that failed: `failing | keepline session set-messages chat -`.
    let empty = place.run(&["session", "set-messages", "chat", "-"], b"");
    assert!(empty.code == 1 && empty.err.contains("[] removes"), "{empty:?}");
    assert_eq!(place.run(&["session", "messages", "chat", "--json"], b"").ok().json(), stored);
    place.run(&["session", "set-messages", "chat", "-"], b"[]").ok();
    assert_eq!(window(&place, "chat"), Vec::<Value>::new());
}

#[test]
fn messages_are_appended_to_existing_ones() {
    let place = Place::directory();
    let append = |input: &str| place.run(&["session", "append", "a", "-", "--user", "anna"], input.as_bytes());
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    assert_eq!(append(&format!("[{{\"role\":\"user\",\"content\":\"1\"}},{call}]")).ok().text(), "2\n");
    // The result of a call that is older.
    append("{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"one\"}\n{\"role\":\"assistant\",\"content\":\"ok\",\"source\":\"crm\"}").ok();
    assert_eq!(roles(&window(&place, "a")), ["user", "assistant", "tool", "assistant"]);
    let described = place.run(&["session", "describe", "a", "--json"], b"").ok().json();
    assert_eq!((&described["owner"], &described["next"]), (&json!("anna"), &json!(4)));
    let stored = place.run(&["session", "messages", "a", "--json"], b"").ok().json();
    let sources: Vec<&Value> =
        stored["messages"].as_array().unwrap().iter().map(|entry| &entry["message"]["source"]).collect();
    assert_eq!(sources, ["import", "import", "import", "crm"]);
    let both = place.run(&["session", "append", "a", "-", "--answer", "x"], b"");
    assert!(both.code == 2 && both.err.contains("cannot be used with"), "{both:?}");
    assert_eq!(append("{").code, 1);
}

#[test]
fn an_exchange_in_anthropics_form_is_remembered_whole() {
    let place = Place::directory();
    let remember = |session: &str, input: &str| {
        let arguments = ["remember", "--json", "--user", "anna", "--session", session];
        place.run(&arguments, input.as_bytes()).ok().json()["outcome"].clone()
    };
    let lines: Vec<String> =
        serde_json::from_str::<Vec<Value>>(REMEMBER).unwrap().iter().map(Value::to_string).collect();
    let printed: Vec<Value> = (0..)
        .zip(serde_json::from_str::<Vec<Value>>(REMEMBER).unwrap())
        .map(|(position, message)| json!({"position": position, "message": message}))
        .collect();
    let printed = json!({"session": "x", "messages": printed}).to_string();
    for (session, input) in [("array", REMEMBER), ("lines", &*lines.join("\n")), ("printed", &*printed)] {
        assert_eq!(remember(session, input), "stored");
        assert_eq!(place.said(session, &[]), ["user: Which berth has shore power?", "assistant: Berth 7 has it."]);
    }
    // What Python writes is no reason to remember nothing.
    let python = r#"[{"role":"user","content":"otter \ud83e","score":NaN},{"role":"assistant","content":"yes"}]"#;
    assert_eq!(remember("python", python), "stored");
    assert_eq!(place.said("python", &[])[0], "user: otter \u{fffd}");
    let nothing = place.run(&["remember", "--user", "anna", "--session", "a"], b"7");
    assert!(nothing.code == 2 && nothing.err.contains("JSON lines, a JSON array, or an object"), "{nothing:?}");
}

#[test]
fn dropped_parts_of_a_langchain_history_are_reported() {
    let place = Place::directory();
    let told = place.told(ANTHROPIC, &[]);
    assert_eq!((&told["imported"], skipped(&told).len()), (&json!(1), 0), "{told}");
    let shown = window(&place, "anthropic");
    assert_eq!(roles(&shown), ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    assert_eq!(shown[1]["content"], json!([{"text": "I look.", "type": "text"}]), "a call is shown once");
    assert_eq!(shown[1]["tool_calls"][0]["id"], "tu1");

    let told = place.told(REPEATED_IDS, &[]);
    assert_eq!((&told["messages"], skipped(&told).len()), (&json!(10), 0), "{told}");
    let shown = window(&place, "repeat");
    let results: Vec<&Value> =
        shown.iter().filter(|message| message["role"] == "tool").map(|message| &message["content"]).collect();
    assert_eq!(results, ["eel found", "cod found"]);
    assert_eq!(shown.len(), 8);

    let told = place.told(SURROGATE, &[]);
    assert_eq!(skipped(&told), ["message 3: its id is a duplicate and was dropped"]);
    assert_eq!(place.said("uni", &[])[0], "user: half \u{fffd} pair and nul \0 end");
    let found = place.run(&["session", "messages", "uni", "--search", "pair"], b"").ok();
    assert!(found.text().contains("half"), "{found:?}");
}

#[test]
fn sessions_can_be_renamed_and_given_to_a_user() {
    let place = Place::directory();
    let document = |session: &str, user: &str| {
        let rows = json!([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]);
        json!({"sessionId": session, "userId": user, "messages": rows}).to_string()
    };
    let dump = [document("user:42", "randomUser"), document("b", "ben")].join("\n");
    let refused = place.import(&dump, &["--dry-run"]);
    assert!(refused.code == 1 && refused.err.contains("--rename"), "{refused:?}");
    let renamed = ["--rename", "user:42=anna-42", "--rename", "other=x", "--user", "anna"];
    let ran = place.import(&dump, &renamed).ok();
    assert!(ran.err.contains("--rename: no session \"other\" was imported"), "{ran:?}");
    assert_eq!(place.said("anna-42", &[]).len(), 2);
    for (session, owner) in [("anna-42", "anna"), ("b", "ben")] {
        assert_eq!(place.run(&["session", "describe", session, "--json"], b"").ok().json()["owner"], owner);
    }
    let owned = place.run(&["user", "sessions", "anna", "--json"], b"").ok().json();
    assert_eq!(owned["sessions"].as_array().unwrap().len(), 1);
    // Or under the id that it has, for whoever hashes ids.
    assert_eq!(place.import(&dump, &["--hash-ids"]).code, 1, "the other session is there");
    let hash = "--set=session_ids=hash";
    assert_eq!(place.said("user:42", &[hash]).len(), 2);
    assert_eq!(place.run(&["session", "show", "user:42", hash, "--json"], b"").ok().json()["session"], "user:42");
    assert!(place.import(&dump, &["--hash-ids"]).err.contains("already"), "it has come in");
    // An export comes back as it was.
    let export = place.export(&["b"]);
    let ran = Place::directory().import(&export, &["--user", "anna"]);
    assert!(ran.code == 2 && ran.err.contains("an export comes back as it was"), "{ran:?}");
}

/// A conversation of ChatGPT's export: an answer that was asked for again, and a tool.
fn chatgpt() -> Value {
    let node = |id: &str, parent: Value, children: Value, message: Value| json!({"id": id, "parent": parent, "children": children, "message": message});
    let said = |id: &str, role: &str, text: &str, recipient: &str| {
        json!({"id": id, "author": {"role": role}, "create_time": 1700000000.5, "recipient": recipient,
               "content": {"content_type": "text", "parts": [text]}, "metadata": {"model_slug": "gpt-x"}})
    };
    json!({
        "title": "Berths", "conversation_id": "c-1", "current_node": "a2", "create_time": 1700000000.5,
        "mapping": {
            "root": node("root", Value::Null, json!(["sys"]), Value::Null),
            "sys": node("sys", "root".into(), json!(["q1"]), said("sys", "system", "", "all")),
            "q1": node("q1", "sys".into(), json!(["a2", "a1"]), said("q1", "user", "Which berth?", "all")),
            "a1": node("a1", "q1".into(), json!([]), said("a1", "assistant", "Berth 1.", "all")),
            "a2": node("a2", "q1".into(), json!(["q2"]), said("a2", "assistant", "Berth 2.", "all")),
            "q2": node("q2", "a2".into(), json!(["t1"]), said("q2", "user", "Sure?", "all")),
            "t1": node("t1", "q2".into(), json!(["t2"]), said("t1", "assistant", "look()", "python")),
            "t2": node("t2", "t1".into(), json!(["a3"]), said("t2", "tool", "2", "all")),
            "a3": node("a3", "t2".into(), json!([]), said("a3", "assistant", "Yes.", "all")),
        },
    })
}

#[test]
fn a_chatgpt_export_is_imported_with_its_branches() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("conversations.json");
    let mut current = chatgpt();
    current["current_node"] = "a3".into();
    fs::write(&file, json!([current]).to_string()).unwrap();
    let place = Place::directory();
    let told = place.run(&["session", "import", file.to_str().unwrap(), "--json"], b"").ok().json();
    assert_eq!((&told["imported"], &told["messages"]), (&json!(1), &json!(7)), "{told}");
    let shown = window(&place, "c-1");
    assert_eq!(roles(&shown), ["user", "assistant", "user", "assistant", "tool", "assistant"]);
    assert_eq!(
        (&shown[1]["content"], &shown[4]["content"], &shown[5]["content"]),
        (&json!("Berth 2."), &json!("2"), &json!("Yes."))
    );
    assert_eq!(shown[3]["tool_calls"][0]["function"], json!({"name": "python", "arguments": "{\"input\":\"look()\"}"}));
    let other = place.run(&["session", "messages", "c-1", "--thread", "a1", "--json"], b"").ok().json();
    let other: Vec<&Value> =
        other["messages"].as_array().unwrap().iter().map(|entry| &entry["message"]["content"]).collect();
    assert_eq!(other, ["Which berth?", "Berth 1."]);
    let described = place.run(&["session", "describe", "c-1", "--json"], b"").ok().json();
    assert_eq!(described["title"], "Berths");
    let stored = place.run(&["session", "messages", "c-1", "--json"], b"").ok().json();
    assert_eq!(
        (&stored["messages"][0]["message"]["at"], &stored["messages"][1]["message"]["model"]["name"]),
        (&json!(1700000000.5), &json!("gpt-x"))
    );

    // A first question that was edited begins a conversation of its own.
    let mut edited = chatgpt();
    edited["mapping"]["sys"]["children"] = json!(["q1", "q0"]);
    edited["mapping"]["q0"] = edited["mapping"]["a1"].clone();
    edited["mapping"]["q0"]["parent"] = "sys".into();
    edited["mapping"]["q0"]["message"]["author"]["role"] = "user".into();
    edited["mapping"]["q0"]["message"]["content"]["parts"] = json!(["Which harbour?"]);
    let told = Place::directory().told(&json!([edited]).to_string(), &["--dry-run"]);
    assert_eq!((&told["sessions"][0]["session"], &told["sessions"][1]["session"]), (&json!("c-1"), &json!("c-1-2")));
    assert_eq!(told["sessions"][1]["messages"], 1);
}

#[test]
fn sharegpt_and_chat_api_messages_are_imported() {
    let place = Place::directory();
    let rows = json!([{"from": "system", "value": "Be brief."}, {"from": "human", "value": "Hi"},
        {"from": "function_call", "value": "{\"name\":\"f\",\"arguments\":{\"x\":1}}"}, {"from": "observation", "value": "7"},
        {"from": "gpt", "value": "Seven."}, {"from": "critic", "value": "no"}]);
    let told = place.told(&json!([{"id": "s-1", "conversations": rows}]).to_string(), &[]);
    assert_eq!((&told["imported"], skipped(&told)), (&json!(1), vec!["message 6: its sender is \"critic\""]), "{told}");
    let shown = window(&place, "s-1");
    assert_eq!(roles(&shown), ["system", "user", "assistant", "tool", "assistant"]);
    assert_eq!(shown[2]["tool_calls"][0]["function"], json!({"name": "f", "arguments": "{\"x\":1}"}));

    let messages = [json!({"role": "user", "content": "Hello"}), json!({"role": "assistant", "content": "Hi"})];
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("chat.jsonl", lines.clone()),
        ("array.json", json!(messages).to_string()),
        (
            "tuning.jsonl",
            format!("{}\n{}\n", json!({"messages": messages}), json!({"messages": messages, "id": "own"})),
        ),
        ("pretty.json", serde_json::to_string_pretty(&json!({"messages": messages})).unwrap()),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        place
            .run(
                &[
                    "session",
                    "import",
                    file.to_str().unwrap(),
                    "--format",
                    if name == "chat.jsonl" { "openai" } else { "auto" },
                ],
                b"",
            )
            .ok();
    }
    for session in ["chat", "array", "tuning-1", "own", "pretty"] {
        assert_eq!(place.said(session, &[]), ["user: Hello", "assistant: Hi"], "{session}");
    }
    // What a session's messages are printed as.
    let printed = place.run(&["session", "messages", "chat", "--json"], b"").ok();
    let told = Place::directory().told(printed.text(), &[]);
    assert_eq!((&told["imported"], &told["messages"]), (&json!(1), &json!(2)), "{told}");
}

#[test]
fn an_unknown_json_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::directory();
    for text in ["{\"a\": 1}", "[1, 2]", "{\n \"a\": 1\n}", "7"] {
        let file = folder.path().join("x.json");
        fs::write(&file, text).unwrap();
        let ran = place.run(&["session", "import", file.to_str().unwrap()], b"");
        assert!(ran.code == 2 && ran.err.contains("x.json has no known format"), "{text}: {ran:?}");
    }
}
