//! Sessions, their values and their messages over HTTP.

use std::process::Stdio;

use keepline_tests::programs::{self, program};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

fn answer(server: &Server, session: &str, question: &str, text: &str) {
    let body = json!({"text": text, "question_text": question, "metadata": {"session_id": session}});
    assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
}

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect()
}

/// All pages of a list, in one.
fn all_pages(server: &Server, path: &str) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}limit=2{after}")).ok();
        items.extend(page["data"].as_array().unwrap().iter().cloned());
        if page["has_more"] == false {
            return items;
        }
        after = format!("&after={}", page["last_id"].as_str().unwrap());
    }
}

#[test]
fn a_session_is_begun_described_changed_and_deleted() {
    let server = Server::of_conversations(&[]);
    let created = server.post("/sessions", &json!({"id": "s", "title": "Parcels"}));
    assert_eq!((created.status, created.headers["location"].as_str()), (201, "/keepline/v1/sessions/s"));
    let created = created.json();
    assert_eq!((&created["id"], &created["title"], &created["messages"]), (&"s".into(), &"Parcels".into(), &0.into()));
    assert_eq!(server.post("/sessions", &json!({"id": "s"})).error(409).0, "already_exists");
    answer(&server, "s", "a", "b");
    let changes = json!({"title": null, "settings": {"max_context_tokens": 1000}});
    let changed = server.patch("/sessions/s", &changes).ok();
    assert_eq!((&changed["title"], &changed["settings"]["max_context_tokens"]), (&Value::Null, &1000.into()));
    let shown = server.get("/sessions/s").ok();
    assert_eq!((&shown["messages"], &shown["answers"]), (&2.into(), &1.into()));
    // What is left out stays.
    let changed = server.patch("/sessions/s", &json!({"settings": {"model": "m"}})).ok();
    assert_eq!(
        changed["settings"],
        json!({
            "max_context_tokens": 1000, "context_window": null, "reserve_tokens": null, "model": "m",
        })
    );
    assert_eq!(server.post("/sessions/s/resume", &json!({})).ok()["generation"], shown["generation"]);
    assert_eq!(server.delete("/sessions/s").ok()["keys"], json!(["answer_count", "last_answer"]));
    assert_eq!(server.get("/sessions/s").error(404).0, "not_found");
    assert_eq!(server.delete("/sessions/s").error(404).0, "not_found");
    let named = server.post("/sessions", &json!({})).ok();
    assert!(named["id"].as_str().unwrap().starts_with("ses_"), "{named}");
}

#[test]
fn sessions_are_listed_page_by_page() {
    let server = Server::of_conversations(&[]);
    for number in 0..5 {
        answer(&server, &format!("s{number}"), "?", "!");
    }
    let mut found: Vec<String> =
        all_pages(&server, "/sessions?").iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect();
    found.sort();
    assert_eq!(found, ["s0", "s1", "s2", "s3", "s4"]);
    assert_eq!(ids(&server.get("/sessions?prefix=s3").ok()), ["s3"]);
    for limit in ["0", "101", "x"] {
        assert_eq!(server.get(&format!("/sessions?limit={limit}")).error(400).1.as_deref(), Some("limit"));
    }
    let deleted = server.delete("/sessions").ok();
    assert_eq!((&deleted["deleted"], &deleted["has_more"]), (&5.into(), &false.into()));
    assert_eq!(server.get("/stats").ok()["sessions"], 0);
}

#[test]
fn values_are_stored_as_they_were_sent() {
    let server = Server::of_conversations(&[]);
    server.post("/sessions", &json!({"id": "s"})).ok();
    let value = r#"{"b":1.50,"a":12345678901234567890}"#;
    assert_eq!(server.send("PUT", "/sessions/s/keys/k", &[], value).ok()["existed"], false);
    assert!(server.get("/sessions/s/keys/k").body.contains(value));
    assert_eq!(server.post("/sessions/s/keys/n/increment", &json!({"amount": 3})).ok()["value"], 3);
    assert_eq!(server.send("POST", "/sessions/s/keys/n/increment", &[], "").ok()["value"], 4);
    assert_eq!(server.get("/sessions/s/keys").ok()["data"], json!(["k", "n"]));
    assert_eq!(server.get("/sessions/s/keys/none").error(404).0, "key_not_found");
    assert_eq!(server.send("PUT", "/sessions/s/keys/k", &[], "x").error(400).1.as_deref(), Some("value"));
    assert_eq!(server.put("/sessions/s/keys/__meta__", &json!(1)).error(400).1.as_deref(), Some("key"));
    assert_eq!(server.send("POST", "/sessions/s/keys/k/increment", &[], "{}").error(409).0, "not_a_counter");
    let history = all_pages(&server, "/sessions/s/history?");
    let operations: Vec<_> = history.iter().map(|it| it["record"]["op"].as_str().unwrap()).collect();
    assert_eq!(operations, ["increment", "increment", "put"]);
    assert_eq!(server.delete("/sessions/s/keys/k").ok()["deleted"], true);
    assert_eq!(server.delete("/sessions/s/keys/k").ok()["deleted"], false);
    assert_eq!(server.delete("/sessions/s/keys").ok()["keys"], json!(["n"]));
}

#[test]
fn a_write_that_is_sent_again_under_its_idempotency_key_counts_once() {
    let server = Server::of_conversations(&[]);
    let send =
        |method: &str, path: &str, key: &str, body: &str| server.send(method, path, &[("idempotency-key", key)], body);
    // Also what makes an id of its own, and begins a session.
    let begun = send("POST", "/sessions", "a", r#"{"title": "first"}"#).ok();
    assert_eq!(send("POST", "/sessions", "a", r#"{"title": "first"}"#).ok(), begun);
    assert_ne!(send("POST", "/sessions", "b", "{}").ok()["id"], begun["id"]);
    assert_eq!(server.get("/stats").ok()["sessions"], 2);
    let path = format!("/sessions/{}", begun["id"].as_str().unwrap());
    for key in ["1", "1", "2", "1", "2"] {
        send("POST", &format!("{path}/keys/n/increment"), key, "").ok();
        // Of another value it is another request.
        send("POST", &format!("{path}/keys/m/increment"), key, r#"{"amount": 10}"#).ok();
        send("POST", &format!("{path}/messages"), key, r#"[{"role": "user", "content": "?"}]"#).ok();
    }
    assert_eq!(server.get(&format!("{path}/keys/n")).ok()["value"], 2);
    assert_eq!(server.get(&format!("{path}/keys/m")).ok()["value"], 20);
    assert_eq!(server.get(&path).ok()["messages"], 2);
    // A repetition that comes late undoes nothing.
    for (key, value) in [("old", "1"), ("new", "2"), ("old", "1")] {
        send("PUT", &format!("{path}/keys/k"), key, value).ok();
    }
    assert_eq!(server.get(&format!("{path}/keys/k")).ok()["value"], 2);
    for key in ["", "a b", &"x".repeat(129)] {
        let refused = send("POST", &format!("{path}/keys/n/increment"), key, "").error(400);
        assert_eq!(refused.1.as_deref(), Some("idempotency-key"), "{key}");
    }
}

#[test]
fn messages_are_appended_listed_either_way_rewritten_and_removed() {
    let server = Server::of_conversations(&[]);
    let message = |number: usize| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("m{number}")})
    };
    let messages: Vec<Value> = (0..5).map(message).collect();
    // A session that is missing is begun.
    assert_eq!(server.post("/sessions/s/messages", &json!(messages)).ok()["count"], 5);
    let contents = |items: &[Value]| -> Vec<String> {
        items.iter().map(|it| it["message"]["content"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(contents(&all_pages(&server, "/sessions/s/messages?order=asc&")), ["m0", "m1", "m2", "m3", "m4"]);
    let newest = all_pages(&server, "/sessions/s/messages?");
    assert_eq!(contents(&newest), ["m4", "m3", "m2", "m1", "m0"]);
    let position = newest[1]["position"].as_u64().unwrap();
    let path = format!("/sessions/s/messages/{position}");
    assert_eq!(server.patch(&path, &json!({"content": "first\nsecond"})).ok()["count"], 1);
    assert_eq!(server.get(&format!("{path}/text?offset=6")).ok()["text"], "second");
    let lines = server.get(&format!("{path}/lines?text=SEC&ignore_case=true")).ok();
    assert_eq!((&lines["lines"][0]["number"], &lines["lines"][0]["text"]), (&2.into(), &"second".into()));
    assert_eq!(server.delete(&path).ok()["count"], 1);
    let replaced = server.put("/sessions/s/messages", &json!({"messages": [message(0)]})).ok();
    assert_eq!(replaced["count"], 1);
    assert_eq!(contents(&all_pages(&server, "/sessions/s/messages?")), ["m0"]);
    assert_eq!(server.post("/sessions/s/messages", &json!([1])).error(400).1.as_deref(), Some("messages"));
    assert_eq!(server.get("/sessions/s/messages?order=up").error(400).1.as_deref(), Some("order"));
    assert_eq!(server.get("/sessions/s/messages/x/text").error(400).1.as_deref(), Some("position"));
    assert_eq!(server.delete("/sessions/s/messages").ok()["count"], 1);
}

#[test]
fn a_node_has_messages_settings_and_branches_of_its_own() {
    let server = Server::of_conversations(&[]);
    answer(&server, "s", "a", "b");
    let of_node = "?node=llm&app=shop";
    assert_eq!(server.get(&format!("/sessions/s{of_node}")).error(404).0, "not_found");
    let messages = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]);
    assert_eq!(server.post(&format!("/sessions/s/messages{of_node}"), &messages).ok()["count"], 2);
    assert_eq!(server.post(&format!("/sessions/s/messages{of_node}"), &messages).ok()["next"], 4);
    let changes = json!({"settings": {"model": "m"}});
    let changed = server.patch(&format!("/sessions/s{of_node}"), &changes).ok();
    assert_eq!((&changed["settings"]["model"], &changed["messages"]), (&"m".into(), &4.into()));
    let shown = server.get(&format!("/sessions/s{of_node}")).ok();
    for member in ["settings", "messages", "tokens", "generation", "node"] {
        assert_eq!(shown[member], changed[member], "{member}");
    }
    assert_eq!((&changed["id"], &changed["node"], &changed["app"]), (&"s".into(), &"llm".into(), &"shop".into()));
    let session = server.get("/sessions/s").ok();
    assert_eq!((&session["settings"]["model"], &session["messages"]), (&Value::Null, &2.into()));
    assert!(session.get("node").is_none(), "{session}");
    assert_eq!(server.get(&format!("/sessions/s/branches{of_node}")).ok()["data"].as_array().unwrap().len(), 1);
    assert_eq!(server.delete(&format!("/sessions/s/messages{of_node}")).ok()["count"], 4);
    assert_eq!(server.get("/sessions/s").ok()["messages"], 2);
}

#[test]
fn the_window_is_what_explain_prints() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let server = Server::of_conversations(&["--dir", place]);
    for number in 0..4 {
        answer(&server, "s", &format!("question {number}"), &"word ".repeat(40));
    }
    let mut shown = server.get("/sessions/s/window?budget=100&query=why").ok();
    let mut explain = programs::command(program("--bin", "keepline"));
    explain.args(["explain", "s", "--budget", "100", "--query", "why", "--json", "--set", "conversation=true"]);
    let printed = explain.args(["--dir", place]).stderr(Stdio::inherit()).output().unwrap();
    let members = shown.as_object_mut().unwrap();
    assert_eq!(members.remove("session"), Some("s".into()));
    assert_eq!(members.remove("object"), Some("session.window".into()));
    assert_eq!(shown, serde_json::from_slice::<Value>(&printed.stdout).unwrap());
    assert!(shown["turns"].as_array().unwrap().iter().any(|turn| turn["fate"] != "kept"), "{shown}");
    assert_eq!(server.get("/sessions/s/window?budget=1").error(400).1.as_deref(), Some("budget"));
    assert_eq!(server.get("/sessions/none/window").error(404).0, "not_found");
    assert_eq!(server.get("/sessions/s/window?parent=none").error(404).0, "not_found");
}

#[test]
fn branches_are_told_by_their_newest_message() {
    let server = Server::of_conversations(&[]);
    let answer = |id: &str, parent: Option<&str>| {
        let mut metadata = json!({"session_id": "s", "message_id": id});
        if let Some(parent) = parent {
            metadata["parent_message_id"] = parent.into();
        }
        let body = json!({"text": id, "question_text": "?", "metadata": metadata});
        assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
    };
    answer("a1", None);
    answer("a2", None);
    answer("a3", Some("a1"));
    let branches = server.get("/sessions/s/branches").ok();
    assert_eq!(ids(&branches), ["a3", "a2"]);
    let fork = |at: usize| branches["data"][at]["fork_position"].clone();
    assert!(fork(0).is_u64() && fork(0) == fork(1), "{branches}");
    let of_branch = server.get("/sessions/s/messages?branch=a3").ok();
    let texts: Vec<_> =
        of_branch["data"].as_array().unwrap().iter().map(|it| it["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["a3", "?", "a1", "?"]);
}

#[test]
fn an_id_that_no_session_can_have_is_a_bad_request() {
    let server = Server::of_conversations(&[]);
    for path in ["/sessions/a%20b", "/sessions/a%20b/keys", "/sessions/a%20b/messages"] {
        assert_eq!(server.get(path).error(400).1.as_deref(), Some("session"), "{path}");
    }
    assert_eq!(server.post("/sessions", &json!({"id": "a b"})).error(400).1.as_deref(), Some("session"));
    assert_eq!(server.post("/sessions", &json!({"name": "a"})).error(400).0, "malformed");
}

#[test]
fn an_error_about_messages_names_the_parameter_that_is_wrong() {
    let server = Server::of_conversations(&[]);
    server.post("/sessions", &json!({"id": "s"})).ok();
    let messages = json!([{"role": "user", "content": "a"}]);
    server.post("/sessions/s/messages", &messages).ok();
    let param = |reply: Reply| reply.error(400).1.unwrap_or_default();
    assert_eq!(param(server.get("/sessions/s/messages?role=nobody")), "role");
    let long = "x".repeat(5000);
    assert_eq!(param(server.get(&format!("/sessions/s/messages?role=user&contains={long}"))), "contains");
    let wrong = json!([{"content": "nobody says it"}]);
    assert_eq!(param(server.post("/sessions/s/messages", &wrong)), "messages");
    assert_eq!(param(server.put("/sessions/s/messages", &wrong)), "messages");
    // What a program leaves that failed removes nothing; an empty array does.
    for body in ["", "\n \n"] {
        assert_eq!(param(server.send("PUT", "/sessions/s/messages", &[], body)), "messages");
    }
    let stored = || server.get("/sessions/s/messages").ok()["data"].as_array().map_or(0, Vec::len);
    assert_eq!(stored(), 1);
    server.put("/sessions/s/messages", &json!([])).ok();
    assert_eq!(stored(), 0);
}
