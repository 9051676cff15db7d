//! Questions, answers and tools over HTTP.

use std::{
    io::{BufReader, Write},
    process::Stdio,
};

use fastrand::Rng;
use keepline_tests::{
    programs::{self, program},
    random, servers,
};
use serde_json::{Value, json};

use crate::server::{Server, read_chunk, read_head};

fn question(server: &Server, session: &str, text: &str) -> Value {
    server.post("/questions", &json!({"text": text, "metadata": {"session_id": session}})).ok()
}

/// Role and text of a session's messages, oldest first.
fn said(server: &Server, session: &str) -> Vec<(String, String)> {
    let page = server.get(&format!("/sessions/{session}/messages?order=asc&limit=100")).ok();
    let text = |message: &Value, name: &str| message["message"][name].as_str().unwrap_or_default().to_owned();
    page["data"].as_array().unwrap().iter().map(|it| (text(it, "role"), text(it, "content"))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_question_gains_what_its_session_remembers_and_its_metadata_stay() {
    let server = Server::of_conversations(&[]);
    let first = question(&server, "anna", "Where is my parcel?");
    assert_eq!((&first["effect"], &first["object"]), (&"resumed".into(), &"question".into()));
    let answer = json!({"text": "In Leipzig.", "turn": first["turn"]});
    assert_eq!(server.post("/answers", &answer).ok()["effect"], "stored");
    // Digits stay as they were sent.
    let body = r#"{"text":"And now?","metadata":{"session_id":"anna","n":12345678901234567890.10}}"#;
    let second = server.send("POST", "/questions", &[], body);
    assert!(second.body.contains("12345678901234567890.10"), "{second:?}");
    let second = second.ok();
    assert_eq!(second["effect"], "enriched");
    assert_eq!(second["metadata"]["memory_context"]["last_answer"], "In Leipzig.");
    assert_eq!(second["metadata"]["memory_messages"].as_array().unwrap().len(), 2);
}

#[test]
fn how_much_of_prompts_begins_as_before_is_counted() {
    let server = Server::of_conversations(&[]);
    let counted = |name: &str| -> f64 {
        let metrics = server.send_to("GET", "/metrics", &[], "").body;
        let sample = metrics.lines().find_map(|line| line.strip_prefix(&format!("keepline_prompt_{name}_total ")));
        sample.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    };
    let ask = || {
        let turn = question(&server, "anna", &"x".repeat(500))["turn"].clone();
        server.post("/answers", &json!({"text": "y".repeat(500), "turn": turn})).ok();
    };
    // The first has no conversation, and the second no question before it that had one.
    (0..2).for_each(|_| ask());
    assert_eq!(counted("bytes"), 0.0);
    ask();
    let (all, stable) = (counted("bytes"), counted("stable_bytes"));
    assert!(all > 2000.0 && (768.0..all / 2.0 + 256.0).contains(&stable), "{stable} of {all}");
    // As lines, too.
    let line = json!({"text": "?", "metadata": {"session_id": "anna"}}).to_string();
    let sent = server.send("POST", "/questions", &[("content-type", "application/x-ndjson")], &line);
    assert_eq!(sent.status, 200);
    assert!(counted("stable_bytes") > stable + 1792.0 && counted("bytes") > all + 3000.0);
}

#[test]
fn an_answer_that_is_sent_again_with_its_idempotency_key_counts_once() {
    let server = Server::of_conversations(&[]);
    let turn = question(&server, "anna", "?")["turn"].clone();
    let body = json!({"text": "!", "turn": turn}).to_string();
    let send = || server.send("POST", "/answers", &[("idempotency-key", "k1")], &body).ok()["effect"].clone();
    assert_eq!((send(), send()), ("stored".into(), "repeated".into()));
    assert_eq!(server.get("/sessions/anna/keys/answer_count").ok()["value"], 1);
    let refused = server.send("POST", "/answers", &[("idempotency-key", "a b")], &body).error(400);
    assert_eq!(refused.1.as_deref(), Some("idempotency-key"));
}

#[test]
fn a_turn_is_answered_by_another_service_of_the_store_with_what_its_tools_did() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let [asking, answering] = [(); 2].map(|()| Server::of_conversations(&["--dir", place]));
    let turn = question(&asking, "anna", "Rain?")["turn"].clone();
    let call = json!({"call_id": "c1", "name": "look", "arguments": {"city": "Bonn"}});
    let turn = asking.post("/tools", &json!({"tool": call, "turn": turn})).ok()["turn"].clone();
    let result = json!({"call_id": "c1", "output": "sunny"});
    let turn = answering.post("/tools", &json!({"tool": result, "turn": turn})).ok()["turn"].clone();
    assert_eq!(answering.post("/answers", &json!({"text": "No.", "turn": turn})).ok()["effect"], "stored");
    let said = said(&asking, "anna");
    assert_eq!(said.first(), pairs(&[("user", "Rain?")]).first());
    assert_eq!(said.last(), pairs(&[("assistant", "No.")]).first());
    assert!(said.contains(&("tool".into(), "sunny".into())), "{said:?}");
}

#[test]
fn an_answer_without_a_turn_is_stored_in_the_session_that_its_metadata_name() {
    let server = Server::of_conversations(&[]);
    let body = json!({"text": "b", "question_text": "a", "metadata": {"session_id": "s"}, "tokens": 3});
    assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
    assert_eq!(said(&server, "s"), pairs(&[("user", "a"), ("assistant", "b")]));
}

#[test]
fn an_answer_to_an_earlier_life_of_its_session_is_not_stored() {
    let server = Server::of_conversations(&[]);
    let turn = question(&server, "anna", "?")["turn"].clone();
    server.delete("/sessions/anna").ok();
    assert_eq!(server.post("/answers", &json!({"text": "late", "turn": turn})).ok()["effect"], "ended");
    assert_eq!(server.get("/sessions/anna").error(404).0, "not_found");
}

#[test]
fn what_is_wrong_in_a_body_is_named() {
    let server = Server::of_conversations(&[]);
    for (path, body, code, param) in [
        ("/questions", "{", "malformed", None),
        ("/questions", "[]", "malformed", None),
        ("/questions", r#"{"lane":"answers","text":"x"}"#, "invalid", Some("lane")),
        ("/questions", r#"{"text":"x","tokens":-1}"#, "invalid", Some("tokens")),
        ("/questions", r#"{"text":"x","vector":{"model":"m"}}"#, "invalid", Some("vector")),
        ("/answers", r#"{"text":"x","turn":"x"}"#, "invalid", Some("turn")),
        ("/answers", r#"{"text":"x","status":"half"}"#, "invalid", Some("status")),
        ("/tools", r#"{"tool":{"call_id":"1","output":"x"}}"#, "invalid", Some("turn")),
        ("/tools", r#"{"tool":{}}"#, "malformed", None),
    ] {
        let refused = server.send("POST", path, &[], body).error(400);
        assert_eq!(refused, (code.to_owned(), param.map(str::to_owned)), "{path} {body}");
    }
}

#[test]
fn a_session_of_another_user_is_as_if_it_were_absent() {
    let server = Server::of_conversations(&[]);
    let metadata = |user: &str| json!({"session_id": "s", "user_id": user});
    server.post("/answers", &json!({"text": "x", "question_text": "?", "metadata": metadata("anna")})).ok();
    let asked = server.post("/questions", &json!({"text": "?", "metadata": metadata("bob")}));
    assert_eq!(asked.error(404).0, "not_found");
}

#[test]
fn lines_come_back_one_for_one_and_in_order() {
    let server = Server::of_conversations(&[]);
    let lines = [
        r#"{"lane":"questions","text":"a","metadata":{"session_id":"s"}}"#,
        r#"{"lane":"answers","text":"b"}"#,
        "{",
        r#"{"text":"c","metadata":{"session_id":"s"}, "n": 1.50}"#,
    ];
    let reply = server.send("POST", "/questions", &[("content-type", "application/x-ndjson")], &lines.join("\n"));
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "application/x-ndjson"));
    let out: Vec<&str> = reply.body.lines().collect();
    assert_eq!((out.len(), &out[..2]), (4, &lines[..2]));
    let wrong: Value = serde_json::from_str(out[2]).unwrap();
    assert_eq!((&wrong["error"]["code"], &wrong["error"]["line"]), (&"malformed".into(), &3.into()));
    // The line gains its memory, and nothing else moves.
    assert!(out[3].starts_with(r#"{"text":"c","metadata":{"session_id":"s""#) && out[3].ends_with(r#", "n": 1.50}"#));
    assert!(out[3].contains(r#""last_answer":"b""#), "{}", out[3]);
    assert_eq!(said(&server, "s"), pairs(&[("user", "a"), ("assistant", "b")]));
}

#[test]
fn a_line_is_answered_while_the_next_one_is_still_to_be_sent() {
    let server = Server::of_conversations(&[]);
    let mut connection = server.connect();
    let head = "POST /keepline/v1/questions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-ndjson\r\n\
                transfer-encoding: chunked\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut send = |line: &str| write!(connection, "{:x}\r\n{line}\r\n", line.len()).unwrap();
    let first = "{\"text\":\"a\",\"metadata\":{\"session_id\":\"s\"}}\n";
    send(first);
    assert_eq!(read_head(&mut reader).0, 200);
    assert_eq!(read_chunk(&mut reader).as_deref(), Some(first));
    let second = "{\"lane\":\"answers\",\"text\":\"b\"}\n";
    send(second);
    assert_eq!(read_chunk(&mut reader).as_deref(), Some(second));
    send("");
    assert_eq!(read_chunk(&mut reader), None);
    assert_eq!(server.get("/sessions/s/keys/last_answer").ok()["value"], "b");
}

/// What `keepline run` with these arguments makes of lines.
fn run(arguments: &[&str], lines: &[String]) -> Vec<String> {
    let mut command = programs::command(program("--bin", "keepline"));
    command.arg("run").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.concat().as_bytes()).unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    out.split_inclusive('\n').map(str::to_owned).collect()
}

/// A line of a conversation: of the sessions `a` and `b`, of a node, of none, or no entry at all.
fn random_line(random: &mut Rng, number: usize) -> String {
    let pick = |random: &mut Rng, texts: &[&str]| texts[random.usize(..texts.len())].to_owned();
    let whose = [
        r#"{"session_id":"a"}"#,
        r#"{"session_id":"b","user_id":"anna"}"#,
        r#"{ "session_id" : "b", "n":1.50, "memory": {"look": true} }"#,
        r#"{"session_id":"a","app_id":"shop","node_id":"llm"}"#,
        r#"{"session_id":"not an id"}"#,
        r#"{"x":12345678901234567890}"#,
    ];
    let metadata = pick(random, &whose);
    let text = pick(random, &[r#""What now?""#, r#""é \ud83d\ude00""#, r#"{"parts": [1.50]}"#, r#""""#]);
    // The rest of a line stays as it is, wherever it stands.
    let rest = pick(random, &["", r#","n":1.50"#, r#", "turn" : null"#]);
    let call = format!("c{}", number.saturating_sub(random.usize(..2)));
    let line = match random.u32(..20) {
        0..8 => format!(r#"{{"lane":"questions","text":{text},"metadata":{metadata}{rest}}}"#),
        8..14 => format!(r#"{{"lane":"answers","text":{text},"metadata":{metadata}{rest}}}"#),
        14 => format!(r#"{{"lane":"answers","text":{text}{rest}}}"#),
        15 => format!(r#"{{"lane":"tools","tool":{{"call_id":"{call}","name":"look","arguments":{{}}}}{rest}}}"#),
        16 => format!(r#"{{"lane":"tools","tool":{{"call_id":"{call}","output":"7"}},"metadata":{metadata}}}"#),
        17 => format!(r#"{{"lane":"open","metadata":{metadata}}}"#),
        18 => "  ".to_owned(),
        _ => pick(random, &["nonsense", "[]", r#"{"lane":"answers","#, r#"{"lane":"others","text":"?"}"#]),
    };
    line + "\n"
}

/// The same without the ids of turns, which are made of the time.
fn without_turns(line: &str) -> String {
    let mut parts = line.split(r#""turn":""#);
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |out, part| out + r#""turn":""# + &part[part.find('"').unwrap()..])
}

/// Through the route of any lane, whichever store they share.
#[test]
fn a_stream_of_lines_becomes_what_run_makes_of_it() {
    let redis = [servers::start(), servers::start()];
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for seed in random::seeds(6) {
        let mut random = Rng::with_seed(seed);
        let lines: Vec<String> = (0..60).map(|number| random_line(&mut random, number)).collect();
        let kind = seed % 3;
        // Two of the same kind, each its own, and new.
        let stores = [0, 1].map(|place| match kind {
            0 => vec!["--profile".to_owned(), "memory".to_owned()],
            1 => vec!["--dir".to_owned(), folders[place].path().join(seed.to_string()).display().to_string()],
            _ => ["--set", "backend=redis", "--set", &format!("redis_url={}", redis[place].url()), "--set"]
                .iter()
                .map(|argument| (*argument).to_owned())
                .chain([format!("key_prefix=of-{seed}")])
                .collect(),
        });
        let conversation = format!("conversation={}", random.u32(..3) > 0);
        let arguments = stores.each_ref().map(|store| {
            let store = store.iter().map(String::as_str);
            store.chain(["--set", &conversation]).collect::<Vec<_>>()
        });
        let expected = run(&arguments[0], &lines);
        let server = Server::start(&arguments[1]);
        let path = ["/questions", "/answers", "/tools"][random.usize(..3)];
        let sent = server.send("POST", path, &[("content-type", "application/x-ndjson")], &lines.concat());
        let out: Vec<&str> = sent.body.split_inclusive('\n').collect();
        assert_eq!((out.len(), expected.len()), (lines.len(), lines.len()), "KEEPLINE_SEED={seed}");
        let mut gained = 0;
        for (index, ((line, expected), out)) in lines.iter().zip(&expected).zip(out).enumerate() {
            let refusal: Option<Value> = serde_json::from_str(out).ok().filter(|out: &Value| !out["error"].is_null());
            match refusal {
                // `run` lets pass what is no entry, and says on stderr what the service says in its place.
                Some(refusal) if refusal["error"]["code"] == "malformed" => {
                    assert_eq!((&refusal["error"]["line"], expected), (&(index + 1).into(), line));
                }
                // And what its memory fails for.
                Some(mut refusal) => {
                    refusal.as_object_mut().unwrap().remove("error");
                    assert_eq!(refusal, serde_json::from_str::<Value>(expected).unwrap(), "KEEPLINE_SEED={seed}");
                }
                None => {
                    assert_eq!(without_turns(out), without_turns(expected), "line {}, KEEPLINE_SEED={seed}", index + 1)
                }
            }
            gained += usize::from(out.len() > line.len());
        }
        assert!(gained > 5, "only {gained} lines gained something, KEEPLINE_SEED={seed}");
    }
}

#[test]
fn a_line_whose_memory_fails_comes_back_with_an_error() {
    let redis = servers::start();
    let url = format!("redis_url={}", redis.url());
    let server = Server::start(&["--profile", "chat", "--set", "backend=redis", "--set", &url]);
    let mut lines = server.lines();
    let question = r#"{"text":"a","metadata":{"session_id":"s"}}"#;
    assert_eq!(lines.pass(question), question);
    drop(redis);
    let failed = |line: &str| -> Value {
        let came: Value = serde_json::from_str(line).unwrap();
        assert_eq!(came["error"]["code"], "unavailable", "{came}");
        came
    };
    let answer = failed(&lines.pass(r#"{"lane":"answers","text":"b","n":1}"#));
    assert_eq!((&answer["text"], &answer["n"]), (&"b".into(), &1.into()));
    // Without the memory that somebody made up.
    let forged = failed(&lines.pass(r#"{"text":"c","metadata":{"session_id":"s","memory_context":{"forged":1}}}"#));
    assert_eq!((&forged["text"], &forged["metadata"]), (&"c".into(), &json!({"session_id": "s"})));
}
