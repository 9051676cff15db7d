//! What a stranger can send, and how a service ends.

use std::{
    io::{BufReader, Read, Write},
    process::Command,
};

use keepline_tests::until::until;
use serde_json::{Value, json};

use crate::server::{Reply, Server, read_head};

/// Sends these bytes, and reads the status of the reply; 0: the connection was closed without one.
fn status_of(server: &Server, request: &str) -> u16 {
    let mut connection = server.connect();
    connection.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    // An end by reset is one, too.
    let _ = BufReader::new(connection).take(64).read_to_string(&mut reply);
    reply.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

#[test]
fn requests_of_strangers_are_refused_before_they_are_read() {
    let server = Server::of_conversations(&["--max-body", "1024"]);
    let get =
        |headers: &str| status_of(&server, &format!("GET /healthz HTTP/1.1\r\n{headers}connection: close\r\n\r\n"));
    assert_eq!(get("host: localhost\r\n"), 200);
    assert_eq!(get("host: evil.test\r\n"), 403);
    assert_eq!(get(""), 403);
    assert_eq!(get("host: localhost\r\norigin: http://evil.test\r\n"), 403);
    let proxied = "GET http://localhost/healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(status_of(&server, proxied), 403);
    assert_eq!(get(&format!("host: localhost\r\nx: {}\r\n", "x".repeat(20_000))), 431);
    assert_eq!(get(&format!("host: localhost\r\n{}", "x: x\r\n".repeat(70))), 431);
    let both = "content-length: 2\r\ntransfer-encoding: chunked\r\n";
    let smuggled =
        format!("POST /keepline/v1/answers HTTP/1.1\r\nhost: localhost\r\n{both}connection: close\r\n\r\n{{}}");
    assert_eq!(status_of(&server, &smuggled), 400);
    // Bodies: as they are sent, and as they are when they are decompressed.
    let long = json!({"text": "x".repeat(2000)}).to_string();
    assert_eq!(server.send("POST", "/questions", &[], &long).error(413).0, "too_large");
    assert_eq!(
        server.send("POST", "/questions", &[("content-encoding", "br")], "x").error(415).0,
        "unsupported_media_type"
    );
    assert_eq!(server.send("GET", "/nowhere", &[], "").error(404).0, "not_found");
    let refused = server.send("PATCH", "/questions", &[], "{}");
    assert_eq!(refused.headers["allow"], "POST");
    assert_eq!(refused.error(405).0, "method_not_allowed");
    assert_eq!(server.send("GET", "/sessions/%ff", &[], "").error(404).0, "not_found");
}

#[test]
fn a_request_that_is_sent_too_slowly_is_ended() {
    let server = Server::of_conversations(&["--request-timeout", "0.3"]);
    let mut connection = server.connect();
    let head = "POST /keepline/v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    connection.write_all(head.as_bytes()).unwrap();
    let (status, _) = read_head(&mut BufReader::new(connection));
    assert_eq!(status, 504);
}

#[test]
fn a_service_that_has_too_much_to_do_says_when_to_try_again_and_still_tells_its_health() {
    let server = Server::of_conversations(&["--max-requests", "1"]);
    // A request whose body doesn't come is at work: it has been asked for its body.
    let mut waiting = BufReader::new(server.connect());
    let head =
        "POST /keepline/v1/answers HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\nexpect: 100-continue\r\n\r\n";
    waiting.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(read_head(&mut waiting).0, 100);
    let refused = server.get("/sessions");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.error(503).0, "unavailable");
    assert_eq!(server.send_to("GET", "/healthz", &[], "").status, 200);
    assert_eq!(server.send_to("GET", "/readyz", &[], "").ok()["status"], "ready");
    drop(waiting);
    until("there is room again", || (server.get("/sessions").status == 200).then_some(()));
}

#[test]
fn what_was_accepted_is_finished_when_a_service_ends() {
    let mut server = Server::of_conversations(&[]);
    let mut events = server.follow("/events", &[]);
    let body = json!({"text": "x", "question_text": "?", "metadata": {"session_id": "s"}}).to_string();
    let mut accepted = BufReader::new(server.connect());
    let length = format!("content-length: {}\r\nexpect: 100-continue", body.len());
    let head = format!("POST /keepline/v1/answers HTTP/1.1\r\nhost: localhost\r\n{length}\r\n\r\n");
    accepted.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(read_head(&mut accepted).0, 100, "it is at work");
    server.signal("-TERM");
    assert_eq!(events.next_event(), None, "streams end at once");
    until("nothing more is accepted", || (std::net::TcpStream::connect(server.address()).is_err()).then_some(()));
    accepted.get_mut().write_all(body.as_bytes()).unwrap();
    let reply: Value = Reply::read(&mut accepted).ok();
    assert_eq!(reply["effect"], "stored");
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn connections_are_encrypted_when_there_is_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("crt.pem"), path("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout", &key, "-out", &certificate])
        .output();
    assert!(made.unwrap().status.success());
    let server = Server::of_conversations(&["--tls-certificate", &certificate, "--tls-key", &key]);
    let port = server.address().rsplit_once(':').unwrap().1;
    let fetched = Command::new("curl")
        .args(["-sS", "--cacert", &certificate, &format!("https://localhost:{port}/healthz")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&fetched.stdout), r#"{"status":"alive"}"#, "{fetched:?}");
    assert_eq!(status_of(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"), 0, "unencrypted");
}
