//! Sessions of other programs, in their own formats.

use super::*;

fn send(server: &RedisServer, words: &[&str]) {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| _ = command.arg(*word));
    command.exec(&mut connection).unwrap();
}

/// All that is in a Redis, with types.
fn dump(server: &RedisServer) -> Vec<String> {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    keys.sort();
    let dumped = |key: &String| {
        let bytes: Vec<u8> = redis::cmd("DUMP").arg(key).query(&mut connection).unwrap();
        format!("{key} {bytes:?}")
    };
    keys.iter().map(dumped).collect()
}

/// From a server of theirs, which stays as it is.
fn moved(place: &Place, server: &RedisServer, format: &str, more: &[&str]) -> Ran {
    let before = dump(server);
    let ran = place.run(
        &[&["session", "import", "--from-redis", &server.url(), "--format", format, "--json"], more].concat(),
        b"",
    );
    assert_eq!(dump(server), before, "it is only read");
    ran
}

fn skipped(told: &Value) -> Vec<&str> {
    told["skipped"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect()
}

/// As `RedisChatMessageHistory` of langchain-community writes them: `json.dumps(message_to_dict(message))`, pushed at the
/// head of the list.
fn langchain_history(server: &RedisServer, key: &str) {
    let call = json!({"name": "track", "args": {"n": 7}, "id": "call_1", "type": "tool_call"});
    for (kind, data) in [
        ("system", json!({"content": "You are helpful."})),
        ("human", json!({"content": "Where is it?", "additional_kwargs": {}, "id": "h1", "name": null})),
        ("ai", json!({"content": "", "tool_calls": [call], "response_metadata": {"model_name": "gpt-x"}, "id": "r1"})),
        ("tool", json!({"content": "Bonn", "tool_call_id": "call_1", "name": "track", "status": "success"})),
        ("tool", json!({"content": "lost", "tool_call_id": "call_9", "name": "track", "status": "error"})),
        ("ai", json!({"content": "In Bonn.", "id": "r2", "tool_calls": []})),
        (
            "human",
            json!({"content": [{"type": "text", "text": "And this?"}, {"type": "image_url", "image_url": {"url": "x"}}]}),
        ),
        ("ai", json!({"content": "A picture."})),
    ] {
        let message = json!({"type": kind, "data": data}).to_string();
        send(server, &["LPUSH", key, &message]);
    }
}

#[test]
fn langchain_histories_are_imported_from_redis_and_from_a_dump() {
    let server = RedisServer::start().unwrap();
    langchain_history(&server, "message_store:anna");
    langchain_history(&server, "message_store:with:colon");
    send(&server, &["SET", "message_store:text", "x"]);
    send(&server, &["RPUSH", "others:list", "x"]);
    let place = Place::directory();
    let dry = moved(&place, &server, "langchain", &["--dry-run"]).json();
    assert_eq!((&dry["imported"], &dry["messages"]), (&json!(1), &json!(7)), "{dry}");
    // By its place in the list, which has the newest first.
    assert_eq!(skipped(&dry), ["message 4: a tool result without a call"; 2]);
    let ran = moved(&place, &server, "langchain", &[]);
    assert_eq!(ran.code, 1);
    for told in
        ["\\\"with:colon\\\" can't be a session's id; allowed are", "message_store:text: it is not a list of messages"]
    {
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let page = place.run(&["session", "messages", "anna", "--json"], b"").ok().json();
    let records: Vec<&Value> = page["messages"].as_array().unwrap().iter().map(|entry| &entry["message"]).collect();
    assert!(records.iter().all(|record| record["source"] == "import" && record["trust"] == "low"));
    assert_eq!((&records[0]["kind"], &records[0]["role"]), (&json!("instruction"), &json!("system")));
    assert_eq!(records[2]["tool"], json!({"call_id": "call_1", "name": "track", "arguments": "{\"n\":7}"}));
    assert_eq!((&records[3]["content"], &records[4]["content"]), (&json!("Bonn"), &json!("In Bonn.")));
    assert_eq!(records[2]["model"], json!({"name": "gpt-x"}));
    assert_eq!(records[5]["content"][1]["image_url"]["url"], "x");
    let window = place.run(&["session", "window", "anna"], b"").ok().json();
    assert_eq!(window["memory_messages"].as_array().unwrap().len(), 7);
    // Again: what is there is left alone.
    let again = moved(&place, &server, "langchain", &[]);
    assert!(again.err.contains("session anna: there is already a session with that name"), "{}", again.err);
    assert_eq!(moved(&place, &server, "langchain", &["--replace"]).json()["imported"], 1);

    // A dump of the same, recognised by its first line.
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let list: Vec<String> =
        redis::cmd("LRANGE").arg("message_store:anna").arg(0).arg(-1).query(&mut connection).unwrap();
    let other = Place::directory();
    let told = other.told(&json!({"key": "message_store:anna", "value": list}).to_string(), &[]);
    assert_eq!(told["messages"], 7, "{told}");
    let shown = |place: &Place| place.run(&["session", "window", "anna"], b"").ok().json()["memory_messages"].clone();
    assert_eq!(shown(&other), shown(&place));
    // Another prefix, and documents of langchain-redis as lines.
    langchain_history(&server, "mine:ben");
    assert_eq!(moved(&other, &server, "langchain", &["--prefix", "mine:"]).json()["imported"], 1);
    let document = |kind: &str, text: &str, at: f64| {
        json!({"type": kind, "session_id": "carl", "timestamp": at, "data": {"content": text, "type": kind}})
            .to_string()
    };
    let documents = [document("ai", "Second", 1700000002.5), document("human", "First", 1700000001.5)].join("\n");
    assert_eq!(other.told(&documents, &[])["messages"], 2);
    assert_eq!(other.said("carl", &[]), ["user: First", "assistant: Second"]);
}

fn neurolink_session() -> Value {
    json!({
        "id": "0b5c", "title": "Parcel questions", "sessionId": "NL_1", "userId": "u1",
        "createdAt": "2024-05-01T10:00:00.000Z", "updatedAt": "2024-05-01T10:01:00.000Z",
        "messages": [
            {"id": "m1", "role": "user", "content": "Where is it?", "timestamp": "2024-05-01T10:00:00.000Z"},
            {"id": "m2", "role": "tool_call", "content": "", "tool": "track", "args": {"n": 7}},
            {"id": "m3", "role": "tool_call", "content": "", "tool": "weather", "args": {}},
            {"id": "m4", "role": "tool_result", "content": "\"Bonn\"", "tool": "track", "result": {"success": true}},
            {"id": "m5", "role": "tool_result", "content": "rain", "tool": "weather", "result": {"success": false, "error": "late"}},
            {"id": "m6", "role": "assistant", "content": "In Bonn.", "timestamp": "2024-05-01T10:00:05.250Z",
             "metadata": {"modelUsed": "m"}, "events": [{"type": "tool:end", "seq": 1}]},
            {"id": "m7", "role": "user", "content": "Thanks"},
            {"id": "m8", "role": "assistant", "content": "[generation was interrupted]"},
            {"id": "m9", "role": "system", "content": "Summary of previous conversation turns:", "metadata": {"isSummary": true}},
        ],
        "summarizedUpToMessageId": "m1", "summarizedMessage": "A parcel.", "tokenThreshold": 100,
        "lastApiTokenCount": {"inputTokens": 7}, "additionalMetadata": {"agenticLoopReports": []},
    })
}

#[test]
fn neurolink_sessions_keep_owner_title_and_tools() {
    let server = RedisServer::start().unwrap();
    send(&server, &["SET", "neurolink:conversation:u1:NL_1", &neurolink_session().to_string()]);
    let mut nobody = neurolink_session();
    (nobody["sessionId"], nobody["userId"], nobody["title"]) =
        ("NL_2".into(), "randomUser".into(), "New Conversation".into());
    send(&server, &["SET", "neurolink:conversation:session-only:NL_2", &nobody.to_string()]);
    send(&server, &["SET", "neurolink:conversation:u1:broken", "{\"sessionId\":\"x\"}"]);
    send(&server, &["SADD", "neurolink:user:sessions:u1", "NL_1"]);
    let place = Place::redis(&server);
    let prefix = place.arguments.last().unwrap().clone();
    let ran = moved(&Place::directory(), &server, "neurolink", &["--dry-run"]);
    assert_eq!((&ran.json()["imported"], ran.code), (&json!(2), 1));
    assert!(ran.err.contains("neurolink:conversation:u1:broken: it has no messages"), "{}", ran.err);
    let url = server.url();
    let ran = place.run(&["session", "import", "--from-redis", &url, "--format", "neurolink", "--json"], b"");
    let told = ran.json();
    assert_eq!((&told["imported"], &told["messages"]), (&json!(2), &json!(14)), "{told} {prefix}");
    assert!(
        skipped(&told).contains(&"its summary, which will be made anew")
            && skipped(&told).contains(&"message 8: it is empty")
    );
    let said = [
        "user: Where is it?",
        "assistant: ",
        "assistant: ",
        "tool: \"Bonn\"",
        "tool: rain",
        "assistant: In Bonn.",
        "user: Thanks",
    ];
    assert_eq!(place.said("NL_1", &[]), said);
    let shown = place.run(&["session", "describe", "NL_1", "--json"], b"").ok().json();
    assert_eq!((&shown["title"], &shown["owner"]), (&json!("Parcel questions"), &json!("u1")));
    let other = place.run(&["session", "describe", "NL_2", "--json"], b"").ok().json();
    assert_eq!((&other["title"], &other["owner"]), (&json!("Where is it?"), &Value::Null));
    let owned = place.run(&["user", "sessions", "u1", "--json"], b"").ok().json();
    assert_eq!(owned["sessions"].as_array().unwrap().len(), 1);
    let page = place.run(&["session", "messages", "NL_1", "--json"], b"").ok().json();
    let record = |index: usize| &page["messages"][index]["message"];
    assert_eq!((&record(0)["at"], &record(5)["at"]), (&json!(1714557600.0), &json!(1714557605.25)));
    // Rows without a time are as old as those before them.
    assert_eq!((&record(1)["at"], &record(6)["at"]), (&json!(1714557600.0), &json!(1714557605.25)));
    let kept = json!({"modelUsed": "m", "events": [{"type": "tool:end", "seq": 1}]});
    assert_eq!((&record(5)["metadata"], &record(0)["metadata"]), (&kept, &Value::Null));
    for name in ["tokenThreshold", "lastApiTokenCount", "additionalMetadata"] {
        let told_of = format!("its {name}, which has no place here");
        assert!(skipped(&told).contains(&&*told_of), "{told}");
    }
    assert_eq!((&record(3)["tool"]["call_id"], &record(4)["tool"]["call_id"]), (&json!("m2"), &json!("m3")));
    assert_eq!(record(4)["tool"]["error"], "late");
    // Documents as lines.
    let place = Place::directory();
    assert_eq!(place.told(&neurolink_session().to_string(), &[])["messages"], 7);
}

#[test]
fn a_neurolink_result_that_is_only_an_error_is_kept_as_one() {
    let row = |role: &str, content: &str| json!({"role": role, "content": content, "tool": "f", "args": {}});
    let mut failed = row("tool_result", "");
    failed["result"] = json!({"success": false, "error": "the disk is full"});
    let rows = [row("user", "x"), row("tool_call", ""), failed, row("assistant", "It failed.")];
    let place = Place::directory();
    assert_eq!(place.told(&json!({"sessionId": "s", "messages": rows}).to_string(), &[])["imported"], 1);
    assert_eq!(place.said("s", &[])[2], "tool: the disk is full");
    let page = place.run(&["session", "messages", "s", "--json"], b"").ok().json();
    assert_eq!(page["messages"][2]["message"]["tool"]["error"], "the disk is full");
}

#[test]
fn two_sessions_with_the_same_id_do_not_replace_each_other() {
    let server = RedisServer::start().unwrap();
    for user in ["u1", "u2"] {
        let rows = json!([{"role": "user", "content": format!("I am {user}")}, {"role": "assistant", "content": "Hi"}]);
        let document = json!({"sessionId": "same", "userId": user, "messages": rows}).to_string();
        send(&server, &["SET", &format!("neurolink:conversation:{user}:same"), &document]);
    }
    let place = Place::directory();
    let check = |more: &[&str]| {
        let ran = moved(&place, &server, "neurolink", more);
        assert_eq!((ran.code, &ran.json()["imported"]), (1, &json!(1)), "{ran:?}");
        let told = ran.json()["left"].clone();
        assert_eq!((told.as_array().unwrap().len(), &told[0]["session"]), (1, &json!("same")));
        let why = told[0]["why"].as_str().unwrap();
        for user in ["u1", "u2"] {
            assert!(why.contains(&format!("neurolink:conversation:{user}:same")), "{why}");
        }
        assert!(!why.contains("--replace"), "{why}");
        // Whose came first.
        why.find(":u1:") < why.find(":u2:")
    };
    check(&["--dry-run"]);
    check(&["--dry-run", "--replace"]);
    for more in [&[][..], &["--replace"]] {
        let first = if check(more) { "user: I am u1" } else { "user: I am u2" };
        assert_eq!(place.said("same", &[]), [first, "assistant: Hi"]);
    }

    // A dump, and nodes of one name in two directories.
    let document = json!({"sessionId": "same", "messages": []}).to_string();
    let told = Place::directory().told(&format!("{document}\n{document}\n"), &["--dry-run"]);
    let why = told["left"][0]["why"].as_str().unwrap();
    assert!(why.contains("from line 1 and from line 2"), "{told}");
    let folder = tempfile::tempdir().unwrap();
    for (copy, node) in [("a", "llm"), ("a", "other"), ("b", "llm")] {
        let path = folder.path().join(copy).join("node_memory/app/c1");
        fs::create_dir_all(&path).unwrap();
        let rows = json!([{"message_id": "1", "role": "user", "content": copy}]);
        fs::write(path.join(format!("{node}.json")), json!({"version": 1, "messages": rows}).to_string()).unwrap();
    }
    let ran = place.run(&["session", "import", folder.path().to_str().unwrap(), "--replace", "--json"], b"");
    assert!(ran.code == 1 && ran.json()["messages"] == 2, "{ran:?}");
    assert_eq!(place.said("c1", &["--app", "app", "--node", "llm"]), ["user: a"]);
}

#[test]
fn rocketride_sessions_are_imported_unchanged() {
    let server = RedisServer::start().unwrap();
    let history = "{\"op\": \"put\", \"key\": \"last_answer\", \"timestamp\": 1795186917.1}";
    for words in [
        &["SADD", "rr:memory:__sessions__", "anna"][..],
        &["HSET", "rr:memory:anna:__meta__", "created_at", "1795186917.032595", "ttl_seconds", "None"],
        &["SET", "rr:memory:anna:last_answer", "\"H\\u00e9llo\""],
        &["SET", "rr:memory:anna:answer_count", "3"],
        &["SADD", "rr:memory:anna:__keys__", "last_answer", "answer_count"],
        &["RPUSH", "rr:memory:anna:__history__", history, history],
    ] {
        send(&server, words);
    }
    let place = Place::directory();
    assert_eq!(moved(&place, &server, "rocketride", &["--dry-run"]).ok().json()["imported"], 1);
    assert_eq!(moved(&place, &server, "rocketride", &[]).ok().json()["imported"], 1);
    assert_eq!(moved(&place, &server, "rocketride", &[]).ok().json()["already_there"], 1);
    let exported = place.export(&["anna"]);
    assert!(exported.contains("{\"key\":\"last_answer\",\"value\":\"H\\u00e9llo\"}\n"), "{exported}");
    assert_eq!(place.run(&["session", "get", "anna", "answer_count"], b"").ok().text(), "3\n");
    let dump = [
        json!({"key": "rr:memory:__sessions__", "value": ["anna"]}),
        json!({"key": "rr:memory:anna:__meta__", "value": {"created_at": "1795186917.032595", "ttl_seconds": "None"}}),
        json!({"key": "rr:memory:anna:last_answer", "value": "\"H\\u00e9llo\""}),
        json!({"key": "rr:memory:anna:answer_count", "value": "3"}),
        json!({"key": "rr:memory:anna:__keys__", "value": ["last_answer", "answer_count"]}),
        json!({"key": "rr:memory:anna:__history__", "value": [history, history]}),
        json!({"key": "rr:memory:ben:last_answer", "value": "1"}),
    ];
    let dump = dump.map(|line| line.to_string()).join("\n");
    let other = Place::directory();
    let told = other.told(&dump, &[]);
    assert_eq!((&told["imported"], &told["left"][0]["session"]), (&json!(1), &json!("ben")), "{told}");
    assert_eq!(other.export(&["anna"]), exported);
}

/// A folder that others fill may hold links to itself, to devices, and to what they could not read themselves.
#[cfg(unix)]
#[test]
fn a_folder_of_documents_is_read_without_following_links() {
    let (place, parent) = (Place::directory(), tempfile::tempdir().unwrap());
    let folder = parent.path().join("node_memory");
    let nodes = folder.join("app").join("c1");
    fs::create_dir_all(&nodes).unwrap();
    let document = json!({"version": 1, "messages": [
        {"role": "user", "content": "?", "message_id": "m1"}, {"role": "assistant", "content": "!", "message_id": "m1"},
    ]});
    fs::write(nodes.join("n1.json"), document.to_string()).unwrap();
    for (name, target) in [
        ("again", folder.to_str().unwrap()),
        ("zero.json", "/dev/zero"),
        ("other.json", nodes.join("n1.json").to_str().unwrap()),
        ("nothing.json", "nowhere"),
    ] {
        std::os::unix::fs::symlink(target, nodes.join(name)).unwrap();
    }
    let ran = place.run(&["session", "import", folder.to_str().unwrap(), "--json"], b"");
    let told = ran.json();
    assert_eq!((ran.code, &told["imported"], &told["messages"]), (1, &json!(1), &json!(2)), "{ran:?}");
    let left: Vec<_> = told["left"].as_array().unwrap().iter().map(|left| left["why"].as_str().unwrap()).collect();
    assert!(left.len() == 4 && left.iter().all(|why| why.contains("it is a link")), "{left:?}");
    let named = place.run(&["session", "import", nodes.join("zero.json").to_str().unwrap()], b"");
    assert!(named.code == 1 && named.err.contains("it is not a regular file"), "{named:?}");
}

#[test]
fn dify_documents_are_imported_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let write = |app: &str, session: &str, node: &str, document: &Value| {
        let folder = folder.path().join("node_memory").join(app).join(session);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{node}.json")), serde_json::to_string_pretty(document).unwrap()).unwrap();
    };
    let file =
        json!({"type": "image", "transfer_method": "remote_url", "url": "https://x/y.png", "belongs_to": "user"});
    let row = |id: &str, parent: Value, role: &str, content: &str, files: Value| {
        json!({"message_id": id, "parent_message_id": parent, "role": role, "content": content, "files": files,
               "token_count": 15, "created_at": "2024-05-01T10:00:00"})
    };
    let none = "00000000-0000-0000-0000-000000000000";
    write(
        "app",
        "c1",
        "llm1",
        &json!({"version": 1, "messages": [
            row("x1", json!(none), "user", "Where?", json!([file])), row("x1", json!(none), "assistant", "In Bonn.", json!([])),
            row("x2", json!("x1"), "user", "And?", json!([])), row("x2", json!("x1"), "assistant", "In Köln.", json!([])),
            row("x3", json!("x1"), "user", "Or?", json!([])), row("x3", json!("x1"), "assistant", "In Rom.", json!([])),
        ]}),
    );
    // In the order in which they are written, whatever the runs are called.
    let turns = r#"{"version": 1, "turns": {
        "run-b": {"user_content": "First", "user_files": [], "assistant_content": "One", "assistant_files": []},
        "run-a": {"user_content": "Second", "user_files": [], "assistant_content": "Two", "assistant_files": []}}}"#;
    fs::write(folder.path().join("node_memory/app/c1/llm2.json"), turns).unwrap();
    write("app", "c2", "llm1", &json!({"version": 2}));
    let path = folder.path().join("node_memory").to_str().unwrap().to_owned();
    let place = Place::directory();
    let ran = place.run(&["session", "import", &path, "--format", "dify", "--json"], b"");
    assert_eq!((ran.code, &ran.json()["imported"], &ran.json()["messages"]), (1, &json!(1), &json!(10)), "{ran:?}");
    assert!(ran.err.contains("c2/llm1.json: its version is 2, and only version 1 can be read"), "{}", ran.err);
    let node = |node: &str| place.said("c1", &["--app", "app", "--node", node]);
    assert_eq!(node("llm2"), ["user: First", "assistant: One", "user: Second", "assistant: Two"]);
    let thread =
        place.run(&["session", "messages", "c1", "--app", "app", "--node", "llm1", "--thread", "x3", "--json"], b"");
    let page = thread.ok().json();
    let contents: Vec<&Value> =
        page["messages"].as_array().unwrap().iter().map(|entry| &entry["message"]["content"]).collect();
    assert_eq!(contents, ["Where?", "In Bonn.", "Or?", "In Rom."]);
    assert_eq!(
        (&page["messages"][0]["message"]["files"][0]["url"], &page["messages"][0]["message"]["tokens"]),
        (&json!("https://x/y.png"), &json!(15))
    );
    // A node of a conversation that is there already.
    write(
        "app",
        "c1",
        "llm3",
        &json!({"version": 1, "turns": {"r": {"user_content": "Third", "assistant_content": "Three"}}}),
    );
    let one = format!("{path}/app/c1/llm3.json");
    assert_eq!(place.run(&["session", "import", &one, "--json"], b"").ok().json()["imported"], 1);
    assert_eq!(node("llm3"), ["user: Third", "assistant: Three"]);
    assert_eq!(node("llm2").len(), 4);

    // And out again.
    let out = folder.path().join("out");
    place.run(&["session", "export", "c1", "--format", "dify", "--output", out.to_str().unwrap()], b"").ok();
    let document: Value = serde_json::from_slice(&fs::read(out.join("node_memory/app/c1/llm1.json")).unwrap()).unwrap();
    assert_eq!((&document["version"], document["messages"].as_array().unwrap().len()), (&json!(1), 6));
    let row = &document["messages"][5];
    assert_eq!(
        (&row["message_id"], &row["role"], &row["content"]),
        (&json!("x3"), &json!("assistant"), &json!("In Rom."))
    );
    assert_eq!((&row["token_count"], &row["created_at"]), (&json!(15), &json!("2024-05-01T10:00:00Z")));
    let again = Place::directory();
    let imported =
        again.run(&["session", "import", out.to_str().unwrap(), "--format", "dify", "--json"], b"").ok().json();
    assert_eq!(imported["messages"], 12, "{imported}");
    for node in ["llm1", "llm2", "llm3"] {
        let arguments = ["--app", "app", "--node", node];
        assert_eq!(again.said("c1", &arguments), place.said("c1", &arguments));
    }
    assert_eq!(place.run(&["session", "export", "c1", "--format", "dify"], b"").code, 2);
}

#[test]
fn dify_documents_as_python_writes_them_are_imported_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("node_memory/app/c1");
    fs::create_dir_all(&session).unwrap();
    // Half a surrogate pair, and numbers that JSON has not.
    let document = r#"{"version": 1, "messages": [
        {"message_id": "x1", "parent_message_id": null, "role": "user", "content": "Half \ud83d a face?", "files": [],
         "token_count": NaN, "created_at": "2024-05-01T10:00:00"},
        {"message_id": "x1", "parent_message_id": null, "role": "assistant", "content": "Yes.", "files": [],
         "token_count": -Infinity, "created_at": "2024-05-01T10:00:00"}]}"#;
    fs::write(session.join("llm1.json"), document).unwrap();
    let place = Place::directory();
    let path = folder.path().join("node_memory").to_str().unwrap().to_owned();
    place.run(&["session", "import", &path, "--format", "dify"], b"").ok();
    let node = ["--app", "app", "--node", "llm1"];
    let said = ["user: Half \u{fffd} a face?", "assistant: Yes."];
    assert_eq!(place.said("c1", &node), said);
    let out = folder.path().join("out");
    place.run(&["session", "export", "c1", "--format", "dify", "--output", out.to_str().unwrap()], b"").ok();
    let written = fs::read(out.join("node_memory/app/c1/llm1.json")).unwrap();
    let document: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(document["messages"][0]["content"], "Half \u{fffd} a face?");
    let again = Place::directory();
    again.run(&["session", "import", out.to_str().unwrap(), "--format", "dify"], b"").ok();
    assert_eq!(again.said("c1", &node), said);
}

#[test]
fn contradicting_options_are_refused() {
    let place = Place::directory();
    for (arguments, told) in [
        (&["session", "import", "--from-redis", "redis://127.0.0.1:1"][..], "--from-redis needs --format"),
        (
            &["session", "import", "--from-redis", "redis://127.0.0.1:1", "--format", "dify"],
            "--from-redis needs --format",
        ),
        (&["session", "import"], "required"),
        (&["session", "import", "x", "--from-redis", "y"], "cannot be used with"),
        (
            &["session", "import", "--from-redis", "redis://127.0.0.1:1", "--format", "openai"],
            "--from-redis needs --format",
        ),
        (&["session", "import", "x", "--rename", "user"], "it must be OLD=NEW"),
    ] {
        let ran = place.run(arguments, b"");
        assert!(ran.code == 2 && ran.err.contains(told), "{arguments:?}: {ran:?}");
    }
    // In memory nothing would be left of it.
    for arguments in [&["session", "import", "x"][..], &["session", "import", "x", "--dry-run"]] {
        let ran = call(arguments, b"");
        assert!(ran.code == 2 && ran.err.contains("ends with this process"), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("--dir PATH or --profile redis"), "{ran:?}");
    }
    let url = "redis://user:secret@127.0.0.1:1";
    let ran = place.run(&["session", "import", "--from-redis", url, "--format", "langchain"], b"");
    assert!(ran.code == 1 && ran.err.contains("can't reach the Redis server of --from-redis"), "{ran:?}");
    assert!(!ran.err.contains("secret"), "{ran:?}");
    // A directory is one of Dify's.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    for format in [&[][..], &["--format", "dify"]] {
        let path = folder.path().to_str().unwrap();
        let ran = place.run(&[&["session", "import", path], format].concat(), b"");
        assert!(ran.code == 2 && ran.err.contains("node_memory/APP/CONVERSATION/NODE.json"), "{ran:?}");
    }
    let missing = place.run(&["session", "import", "/nowhere"], b"");
    assert!(missing.code == 1 && missing.err.contains("can't read /nowhere"), "{missing:?}");
}
