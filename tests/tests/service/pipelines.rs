//! Definitions, data sets and runs over HTTP.

use serde_json::{Value, json};

use crate::server::Server;

fn rules() -> Value {
    json!({"id": "rules", "label": "House rules", "inputs_scope": ["project"], "retrieval": {"pipeline": [
        {"type": "kv_get", "instance": "house", "namespace": "style", "keys": ["indent"]}]}})
}

#[test]
fn a_definition_is_stored_run_changed_under_a_condition_and_removed() {
    let server = Server::start(&["--profile", "memory"]);
    let path = "/definitions/memories/rules";
    let stored = server.put(path, &rules());
    assert_eq!((stored.status, stored.headers["etag"].as_str()), (200, "\"1\""));
    let items = json!({"items": [{"id": "indent", "item": "four spaces"}]});
    assert_eq!(server.put("/items/values?name=house&namespace=style", &items).ok()["added"], 1);
    let listed = server.get("/items/values?name=house&namespace=style").ok();
    assert_eq!(listed["data"], json!([{"object": "item", "id": "indent", "item": "four spaces"}]));
    let run = server.post("/memories/rules/run", &json!({})).ok();
    assert!(run["success"] == true && run.to_string().contains("four spaces"), "{run}");

    let exists = server.send("PUT", path, &[("if-none-match", "*")], &rules().to_string()).error(412);
    assert_eq!(exists.0, "changed");
    let rename = |tag: &str| server.send("PATCH", path, &[("if-match", tag)], r#"{"label":"Rules"}"#);
    assert_eq!(rename("\"1\"").headers["etag"], "\"2\"");
    assert_eq!(rename("\"1\"").error(412).0, "changed");
    assert_eq!(rename("1").error(400).1.as_deref(), Some("if-match"));
    assert_eq!(server.get(path).ok()["definition"]["label"], "Rules");
    let copy = server.post(&format!("{path}/duplicate"), &json!({})).ok();
    assert_eq!(copy["id"], "rules-copy");
    let listed = server.get("/definitions/memories").ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    assert_eq!(server.send("DELETE", path, &[("if-match", "\"1\"")], "").error(412).0, "changed");
    assert_eq!(server.delete(path).ok()["revision"], 2);
    assert_eq!(server.get(path).error(404).0, "not_found");
    let removed = server.post("/items/values/remove?name=house&namespace=style", &json!({"ids": ["indent"]})).ok();
    assert_eq!(removed["changed"], 1);
}

#[test]
fn events_that_are_sent_again_under_their_idempotency_key_or_id_are_appended_once() {
    let server = Server::start(&["--profile", "memory"]);
    let event = |minute: usize| {
        let at = format!("2026-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60);
        json!({"item": {"timestamp": at, "event_type": "x", "payload": minute}})
    };
    let send = |path: &str, key: &str, minutes: std::ops::Range<usize>| {
        let body = json!({"items": minutes.map(event).collect::<Vec<_>>()});
        server.send("PUT", path, &[("idempotency-key", key)], &body.to_string()).ok()["added"].clone()
    };
    let log = "/items/events?name=log";
    // More than one call of the library takes.
    assert_eq!(send(log, "a", 0..300), 300);
    assert_eq!(send(log, "b", 300..302), 2);
    // Also once there are newer ones.
    assert_eq!(send(log, "a", 0..300), 0);
    // A request that got half way goes on.
    assert_eq!(send(log, "half", 302..303), 1);
    assert_eq!(send(log, "half", 302..305), 2);
    assert_eq!(send(log, "new", 304..305), 1);
    // Another log has its own keys.
    assert_eq!(send("/items/events?name=other", "a", 0..2), 2);
    let mut with_id = event(305);
    with_id["id"] = "mine".into();
    let with_id = json!({"items": [with_id]});
    for (key, added) in [("c", 1), ("d", 0)] {
        let put = server.send("PUT", log, &[("idempotency-key", key)], &with_id.to_string());
        assert_eq!(put.ok()["added"], added);
    }
    assert_eq!(server.put(log, &with_id).ok()["added"], 0);
    let newest = server.get(&format!("{log}&limit=6")).ok();
    let newest: Vec<_> = newest["data"].as_array().unwrap().iter().map(|it| it["item"]["payload"].clone()).collect();
    assert_eq!(newest, [305, 304, 304, 303, 302, 301]);
    let refused = server.send("PUT", log, &[("idempotency-key", "a b")], &with_id.to_string()).error(400);
    assert_eq!(refused.1.as_deref(), Some("idempotency-key"));
}

#[test]
fn faults_of_a_definition_are_told_with_their_places() {
    let server = Server::start(&["--profile", "memory"]);
    let wrong = json!({"id": "a", "label": "x", "inputs_scope": [], "retrieval": {"pipeline": [{"type": "none"}]}});
    let checked = server.post("/definitions/memories/check", &wrong).ok();
    assert_eq!(
        (&checked["valid"], &checked["errors"][0]["path"]),
        (&false.into(), &"retrieval.pipeline[0].type".into())
    );
    assert_eq!(server.put("/definitions/memories/a", &wrong).error(400).0, "invalid");
    assert_eq!(server.put("/definitions/memories/b", &rules()).error(400).1.as_deref(), Some("id"));
    assert_eq!(server.get("/definitions/others").error(404).0, "not_found");
    assert!(server.get("/steps").ok()["data"].as_array().unwrap().len() > 10);
    let items = server.put("/items/values?name=house&namespace=style", &json!({"items": [{"item": 1}]}));
    assert_eq!(items.error(400).0, "invalid");
}

#[test]
fn an_error_names_the_parameter_or_header_that_is_wrong() {
    let server = Server::start(&["--profile", "memory"]);
    let param = |method: &str, path: &str, headers: &[(&str, &str)], body: &str, status: u16| {
        server.send(method, path, headers, body).error(status).1.unwrap_or_default()
    };
    let no_id = "/definitions/memories/%20";
    for (method, path, body) in [
        ("GET", no_id, ""),
        ("PATCH", no_id, "{}"),
        ("DELETE", no_id, ""),
        ("POST", "/definitions/memories/%20/duplicate", "{}"),
        ("POST", "/memories/%20/run", "{}"),
    ] {
        assert_eq!(param(method, path, &[], body, 400), "definition", "{method} {path}");
    }
    server.put("/definitions/memories/rules", &rules()).ok();
    let path = "/definitions/memories/rules";
    assert_eq!(param("PATCH", path, &[("if-match", "\"9\"")], "{}", 412), "if-match");
    assert_eq!(param("PUT", path, &[("if-none-match", "*")], &rules().to_string(), 412), "id");
}

#[test]
fn memories_are_assembled_under_a_budget() {
    let server = Server::start(&["--profile", "memory"]);
    server.put("/definitions/memories/rules", &rules()).ok();
    let items = json!({"items": [{"id": "indent", "item": "four spaces"}]});
    server.put("/items/values?name=house&namespace=style", &items).ok();
    let request = json!({"scope_variables": {"project": {"project_id": "default"}}, "input": {"text": "x"},
        "explicit_memory": ["rules"], "constraints": {"max_tokens": 1000}});
    let assembled = server.post("/assemble", &request).ok();
    assert!(assembled["text"].as_str().unwrap().contains("four spaces"), "{assembled}");
    assert_eq!(server.post("/evaluate", &json!({"scope_variables": {}})).ok()["success"], true);
    assert_eq!(server.send("POST", "/assemble", &[], "[]").error(400).0, "malformed");
}
