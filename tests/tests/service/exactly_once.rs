//! Each write counts once, however often its connection is cut or its service killed: the client sends it again, with the
//! same message id or idempotency key, until it is told what became of it.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    thread,
    time::Duration,
};

use keepline_tests::{random, servers};
use serde_json::{Value, json};

use crate::server::Server;

/// What is sent for each number, one after the other.
#[derive(Clone, Copy)]
enum Sent {
    Answer,
    Increment,
    Append,
}

const WRITES: [Sent; 3] = [Sent::Answer, Sent::Increment, Sent::Append];

/// A write, as it goes over the wire.
fn request_of(write: Sent, number: u64, host: &str) -> Vec<u8> {
    let (path, body) = match write {
        Sent::Answer => ("answers", answer_of(number)),
        Sent::Increment => ("sessions/s/keys/n/increment", json!({"amount": 2})),
        Sent::Append => ("sessions/t/messages", json!([{"role": "user", "content": format!("message {number}")}])),
    };
    let (body, keyed) = (body.to_string(), !matches!(write, Sent::Answer));
    let key = if keyed { format!("idempotency-key: k{number}\r\n") } else { String::new() };
    let head = format!("POST /keepline/v1/{path} HTTP/1.1\r\nconnection: close\r\n{key}");
    format!("{head}host: {host}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn answer_of(number: u64) -> Value {
    let metadata = json!({"session_id": "s", "user_id": "anna"});
    let (text, question) = (format!("answer {number}"), format!("question {number}"));
    json!({"text": text, "question_text": question, "message_id": format!("m{number}"), "metadata": metadata})
}

/// What the service says, if it says all of it.
fn try_read(mut connection: TcpStream) -> Option<Value> {
    let mut reply = String::new();
    connection.read_to_string(&mut reply).ok()?;
    let (head, body) = reply.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).ok()).flatten()
}

/// Sends all writes of a number, each until the service says that it is stored.
fn send_all(number: u64, mut server: impl FnMut(u64) -> String, mut disturb: impl FnMut(&TcpStream, u64)) {
    for write in WRITES {
        send_until_stored(write, number, &mut server, &mut disturb);
    }
}

fn send_until_stored(
    write: Sent,
    number: u64,
    server: &mut impl FnMut(u64) -> String,
    disturb: &mut impl FnMut(&TcpStream, u64),
) {
    for attempt in 0.. {
        assert!(attempt < 10_000, "write {number} is never stored");
        let address = server(attempt);
        let Ok(connection) = TcpStream::connect(&address) else {
            thread::sleep(Duration::from_millis(2));
            continue;
        };
        if (&connection).write_all(&request_of(write, number, &address)).is_err() {
            continue;
        }
        disturb(&connection, attempt);
        if let Some(reply) = try_read(connection) {
            let effect = reply["effect"].as_str();
            assert!(matches!((write, effect), (Sent::Answer, Some("stored" | "repeated")) | (_, None)), "{reply}");
            return;
        }
    }
}

/// Each answer, increment and message is there once, in order, and is counted once.
fn assert_each_once(server: &Server, count: u64) {
    assert_eq!(server.get("/sessions/s/keys/answer_count").ok()["value"], count);
    assert_eq!(server.get("/sessions/s/keys/n").ok()["value"], 2 * count);
    let expected = (0..count).flat_map(|number| [format!("question {number}"), format!("answer {number}")]);
    assert_eq!(contents(server, "s"), expected.collect::<Vec<_>>());
    let expected = (0..count).map(|number| format!("message {number}"));
    assert_eq!(contents(server, "t"), expected.collect::<Vec<_>>());
}

fn contents(server: &Server, session: &str) -> Vec<String> {
    let (mut after, mut said) = (String::new(), Vec::new());
    loop {
        let page = server.get(&format!("/sessions/{session}/messages?order=asc&limit=100{after}")).ok();
        let texts = page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["message"]["content"].as_str().unwrap().to_owned());
        said.extend(texts);
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", page["last_id"].as_str().unwrap());
    }
    said
}

#[test]
fn writes_of_cut_connections_count_once_with_two_services_on_one_redis() {
    let redis = servers::start();
    let mut random = fastrand::Rng::with_seed(random::seed());
    let url = format!("redis_url={}", redis.url());
    let arguments = ["--profile", "chat", "--set", "backend=redis", "--set", &url];
    let services = [Server::start(&arguments), Server::start(&arguments)];
    let cuts = random::rounds(100_u64);
    let mut cut = 0;
    let mut number = 0;
    while cut < cuts {
        let mut choice = random.fork();
        let disturb = |connection: &TcpStream, _| {
            if random.bool() {
                thread::sleep(Duration::from_micros(random.u64(..2000)));
                let _ = connection.shutdown(Shutdown::Both);
                cut += 1;
            }
        };
        send_all(number, |_| services[choice.usize(..2)].address().to_owned(), disturb);
        number += 1;
    }
    for service in &services {
        assert_each_once(service, number);
    }
}

#[test]
fn writes_count_once_when_their_service_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(random::seed());
    let arguments = ["--profile", "chat", "--dir", folder.path().to_str().unwrap()];
    let service = std::cell::RefCell::new(Server::start(&arguments));
    let kills = random::rounds(20_u64);
    let mut killed = 0;
    let mut number = 0;
    while killed < kills {
        let disturb = |_: &TcpStream, _| {
            if random.bool() {
                thread::sleep(Duration::from_micros(random.u64(..3000)));
                service.borrow().signal("-KILL");
                service.replace(Server::start(&arguments));
                killed += 1;
            }
        };
        send_all(number, |_| service.borrow().address().to_owned(), disturb);
        number += 1;
    }
    assert_each_once(&service.borrow(), number);
}
