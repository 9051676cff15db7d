//! Changes under a condition: made on what the client has seen, or not at all.

use std::thread;

use keepline_tests::{random, servers};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

const VALUE: &str = "/sessions/s/keys/k";

/// A service with the session `s`.
fn begun() -> Server {
    let server = Server::of_conversations(&[]);
    server.post("/sessions", &json!({"id": "s"})).ok();
    server
}

fn tag(reply: &Reply) -> String {
    reply.headers.get("etag").unwrap_or_else(|| panic!("{reply:?}")).clone()
}

fn put(server: &Server, headers: &[(&str, &str)], value: &str) -> Reply {
    server.send("PUT", VALUE, headers, value)
}

#[test]
fn a_value_is_changed_only_where_its_tag_is_the_one_that_was_read() {
    let server = begun();
    // Where there is none, no tag is the right one.
    for condition in ["*", "\"x\"", "\"\""] {
        let status = if condition == "\"\"" { 400 } else { 412 };
        put(&server, &[("if-match", condition)], "1").error(status);
        server.send("DELETE", VALUE, &[("if-match", condition)], "").error(status);
    }
    let first = tag(&put(&server, &[("if-none-match", "*")], "1"));
    assert_eq!(put(&server, &[("if-none-match", "*")], "2").error(412).0, "changed");
    assert_eq!(tag(&server.get(VALUE)), first);
    let second = tag(&put(&server, &[("if-match", &first)], r#"{"a": 1.50}"#));
    assert_ne!(first, second);
    assert_eq!(tag(&server.get(VALUE)), second);
    for method in ["PUT", "DELETE"] {
        assert_eq!(server.send(method, VALUE, &[("if-match", &first)], "3").error(412).0, "changed");
    }
    assert_eq!(server.get(VALUE).ok()["value"], json!({"a": 1.50}));
    put(&server, &[("if-match", "*")], "4").ok();
    // A tag is that of a text: the same text has the same one.
    put(&server, &[], r#"{"a": 1.50}"#).ok();
    assert_eq!(server.send("DELETE", VALUE, &[("if-match", &second)], "").ok()["deleted"], true);
    assert_eq!(server.get(VALUE).error(404).0, "key_not_found");
    // Of a refused one nothing is left.
    let history = server.get("/sessions/s/history?limit=100").ok();
    let operations: Vec<_> = history["data"].as_array().unwrap().iter().map(|it| &it["record"]["op"]).collect();
    assert_eq!(operations, ["clear", "put", "put", "put", "put"]);
    // A counter's tag is that of its number.
    server.send("POST", "/sessions/s/keys/n/increment", &[], "").ok();
    let counted = tag(&server.get("/sessions/s/keys/n"));
    server.send("PUT", "/sessions/s/keys/n", &[("if-match", &counted)], "10").ok();
    assert_eq!(server.send("POST", "/sessions/s/keys/n/increment", &[], "").ok()["value"], 11);
    server.send("PUT", "/sessions/none/keys/k", &[("if-match", "*")], "1").error(404);
}

#[test]
fn a_conditional_write_that_is_sent_again_under_its_idempotency_key_is_not_refused() {
    let server = begun();
    let first = tag(&put(&server, &[], "1"));
    let change = [("if-match", &*first), ("idempotency-key", "a")];
    put(&server, &change, "2").ok();
    assert_eq!(put(&server, &change, "2").ok()["existed"], true);
    put(&server, &[], "3").ok();
    put(&server, &change, "2").ok();
    assert_eq!(server.get(VALUE).ok()["value"], 3);
    // One that was refused has left no key behind.
    let late = [("if-match", &*first), ("idempotency-key", "b")];
    assert_eq!(put(&server, &late, "4").error(412).0, "changed");
    put(&server, &[], "1").ok();
    put(&server, &late, "4").ok();
    assert_eq!(server.get(VALUE).ok()["value"], 4);
    let found = tag(&server.get(VALUE));
    let remove = || server.send("DELETE", VALUE, &[("if-match", &found), ("idempotency-key", "c")], "");
    assert_eq!(remove().ok()["deleted"], true);
    assert_eq!(remove().ok()["deleted"], false);
    let begin = [("if-none-match", "*"), ("idempotency-key", "d")];
    put(&server, &begin, "5").ok();
    put(&server, &begin, "5").ok();
}

/// Adds one by reading and writing, again until nobody came between.
fn add_one(server: &Server, losses: &mut u64) {
    loop {
        let found = server.get(VALUE);
        let (condition, value) = match found.status {
            404 => (("if-none-match", "*".to_owned()), 1),
            _ => (("if-match", tag(&found)), found.ok()["value"].as_u64().unwrap() + 1),
        };
        let written = put(server, &[(condition.0, &condition.1)], &Value::from(value).to_string());
        match written.status {
            200 => return,
            412 => *losses += 1,
            _ => panic!("{written:?}"),
        }
    }
}

#[test]
fn no_change_is_lost_where_many_writers_at_two_services_read_and_write_under_a_condition() {
    let redis = servers::start();
    let url = format!("redis_url={}", redis.url());
    let arguments = ["--profile", "chat", "--set", "backend=redis", "--set", &url];
    let services = [Server::start(&arguments), Server::start(&arguments)];
    services[0].post("/sessions", &json!({"id": "s"})).ok();
    let (writers, each) = (8_u64, random::rounds(25_u64));
    let losses: u64 = thread::scope(|scope| {
        let writers = (0..writers).map(|writer| {
            let services = &services;
            scope.spawn(move || {
                let mut losses = 0;
                let server = &services[usize::from(writer % 2 == 1)];
                (0..each).for_each(|_| add_one(server, &mut losses));
                losses
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    for service in &services {
        assert_eq!(service.get(VALUE).ok()["value"], writers * each);
    }
    // Otherwise nobody came between, and nothing was shown.
    assert!(losses > 0);
}

#[test]
fn a_condition_that_a_route_does_not_take_is_refused_and_nothing_is_done() {
    let server = begun();
    put(&server, &[], "1").ok();
    let refused: &[(&str, &str, &str, &str)] = &[
        ("DELETE", "/sessions/s", "if-match", ""),
        ("DELETE", "/sessions", "if-match", ""),
        ("DELETE", "/sessions/s/keys", "if-match", ""),
        ("POST", "/sessions/s/keys/n/increment", "if-match", ""),
        ("DELETE", VALUE, "if-none-match", ""),
        ("PUT", VALUE, "if-unmodified-since", "2"),
        ("POST", "/sessions/s/messages", "if-none-match", r#"[{"role": "user", "content": "?"}]"#),
        ("PUT", "/users/anna/keys/k", "if-match", "1"),
        ("POST", "/answers", "if-match", r#"{"text": "!", "metadata": {"session_id": "s"}}"#),
        ("PATCH", "/definitions/memories/m", "if-none-match", "{}"),
    ];
    for (method, path, header, body) in refused {
        let reply = server.send(method, path, &[(header, "*")], body);
        let message = reply.json()["error"]["message"].to_string();
        assert_eq!(reply.error(400).1.as_deref(), Some(*header), "{method} {path}");
        let taker = "PUT /keepline/v1/sessions/{id}/keys/{key}";
        assert_eq!(message.contains(taker), *header != "if-unmodified-since", "{method} {path}: {message}");
    }
    assert_eq!(server.get("/sessions/s/keys").ok()["data"], json!(["k"]));
    assert_eq!((&server.get(VALUE).ok()["value"], &server.get("/sessions/s").ok()["messages"]), (&1.into(), &0.into()));
    // What only reads does not ask.
    server.send("GET", VALUE, &[("if-match", "\"x\""), ("if-none-match", "*")], "").ok();
}
