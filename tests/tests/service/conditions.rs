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
fn a_value_of_a_user_is_changed_only_where_its_tag_is_the_one_that_was_read() {
    const VALUE: &str = "/users/anna/keys/k";
    let server = begun();
    let put = |condition: (&str, &str), value: &str| server.send("PUT", VALUE, &[condition], value);
    for condition in ["*", "\"x\""] {
        assert_eq!(put(("if-match", condition), "1").error(412).0, "changed");
        assert_eq!(server.send("DELETE", VALUE, &[("if-match", condition)], "").error(412).0, "changed");
    }
    let first = tag(&put(("if-none-match", "*"), "1"));
    assert_eq!(put(("if-none-match", "*"), "2").error(412).0, "changed");
    assert_eq!(tag(&server.get(VALUE)), first);
    let second = tag(&put(("if-match", &first), r#"{"a": 1.50}"#));
    for method in ["PUT", "DELETE"] {
        assert_eq!(server.send(method, VALUE, &[("if-match", &first)], "3").error(412).0, "changed");
    }
    assert_eq!(server.get(VALUE).ok()["value"], json!({"a": 1.50}));
    assert_eq!(server.send("DELETE", VALUE, &[("if-match", &second)], "").ok()["deleted"], true);
    assert_eq!(server.get(VALUE).error(404).0, "key_not_found");
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
        ("DELETE", "/users/anna/keys/k", "if-none-match", ""),
        ("DELETE", "/users/anna", "if-match", ""),
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

/// A session with a question and its answer, and what its routes are.
fn answered() -> Server {
    let server = Server::of_conversations(&[]);
    answer(&server, "a");
    server
}

fn answer(server: &Server, text: &str) {
    let body = json!({"text": text, "question_text": "?", "metadata": {"session_id": "s"}});
    assert_eq!(server.post("/answers", &body).ok()["effect"], "stored");
}

#[test]
fn messages_title_and_settings_are_changed_only_in_the_version_that_was_read() {
    // Each change that takes one, with a body.
    let changes = [
        ("PUT", "/sessions/s/messages", r#"[{"role": "user", "content": "new"}]"#),
        ("PATCH", "/sessions/s/messages/1", r#"{"content": "new"}"#),
        ("DELETE", "/sessions/s/messages/1", ""),
        ("DELETE", "/sessions/s/messages", ""),
        ("PATCH", "/sessions/s", r#"{"title": "new"}"#),
        ("PATCH", "/sessions/s", r#"{"settings": {"model": "new"}}"#),
    ];
    let meanwhile = [
        ("POST", "/answers", r#"{"text": "b", "question_text": "?", "metadata": {"session_id": "s"}}"#),
        ("PATCH", "/sessions/s", r#"{"title": "other"}"#),
        ("PATCH", "/sessions/s", r#"{"settings": {"model": "other"}}"#),
        ("PATCH", "/sessions/s/messages/0", r#"{"content": "other"}"#),
    ];
    for (method, path, body) in changes {
        for (other, other_path, other_body) in meanwhile {
            let server = answered();
            let seen = tag(&server.get("/sessions/s"));
            assert_eq!(tag(&server.get("/sessions/s/messages?order=asc")), seen);
            assert_eq!(tag(&server.get("/sessions/s/messages")), seen);
            server.send(other, other_path, &[], other_body).ok();
            let change = |tag: &str| server.send(method, path, &[("if-match", tag)], body);
            let there = |server: &Server| [server.get("/sessions/s").ok(), server.get("/sessions/s/messages").ok()];
            let before = there(&server);
            assert_eq!(change(&seen).error(412).0, "changed", "{method} {path} after {other} {other_path}");
            assert_eq!(there(&server), before, "{method} {path} after {other} {other_path}");
            let now = tag(&server.get("/sessions/s"));
            assert_ne!(now, seen);
            change(&now).ok();
            assert_eq!(change(&now).error(412).0, "changed", "{method} {path} twice");
        }
    }
}

#[test]
fn what_cannot_be_changed_in_one_transaction_is_refused_under_a_condition() {
    let server = answered();
    let seen = tag(&server.get("/sessions/s"));
    let both = r#"{"title": "t", "settings": {"model": "m"}}"#;
    for (method, path, body) in [
        ("PATCH", "/sessions/s", both),
        ("PATCH", "/sessions/s", "{}"),
        ("DELETE", "/sessions/s/messages?branch=1", ""),
        ("DELETE", "/sessions/s", ""),
        ("POST", "/sessions/s/messages", r#"[{"role": "user", "content": "?"}]"#),
    ] {
        let refused = server.send(method, path, &[("if-match", &seen)], body).error(400);
        assert_eq!(refused.1.as_deref(), Some("if-match"), "{method} {path}");
    }
    let any = server.send("PATCH", "/sessions/s", &[("if-match", "*")], r#"{"title": "t"}"#).error(400);
    assert_eq!(any.1.as_deref(), Some("if-match"));
    assert_eq!(tag(&server.get("/sessions/s")), seen);
    // What a change replies has the next tag.
    let changed = server.send("PATCH", "/sessions/s", &[("if-match", &seen)], r#"{"title": "t"}"#);
    assert_eq!(tag(&changed), tag(&server.get("/sessions/s")));
}

#[test]
fn a_nodes_transcript_has_a_version_of_its_own() {
    let server = answered();
    let node = "/sessions/s/messages?node=n&app=a";
    server.send("PUT", node, &[("if-match", "\"x\"")], r#"[{"role": "user", "content": "1"}]"#).error(412);
    server.send("PUT", node, &[], r#"[{"role": "user", "content": "1"}]"#).ok();
    let (session, seen) = (tag(&server.get("/sessions/s")), tag(&server.get(node)));
    assert_ne!(session, seen);
    answer(&server, "b");
    let put = || server.send("PUT", node, &[("if-match", &seen)], r#"[{"role": "user", "content": "2"}]"#);
    put().ok();
    assert_eq!(put().error(412).0, "changed");
}

#[test]
fn messages_that_are_replaced_again_under_an_idempotency_key_are_not_refused() {
    let server = answered();
    let seen = tag(&server.get("/sessions/s/messages"));
    let headers = [("if-match", &*seen), ("idempotency-key", "a")];
    let put = || server.send("PUT", "/sessions/s/messages", &headers, r#"[{"role": "user", "content": "new"}]"#);
    let first = put().ok();
    assert_eq!(put().ok(), first);
    answer(&server, "b");
    put().ok();
    assert_eq!(server.get("/sessions/s").ok()["messages"], 3);
}
