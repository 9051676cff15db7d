//! The example of an HTTP service, as a process: concurrent requests, a memory across them, a plugin that is replaced
//! meanwhile, and a shutdown that answers what was accepted.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Stdio},
    thread,
};

use keepline::plugin::BUNDLED;
use keepline_local_redis::RedisServer;
use keepline_tests::{
    programs::{command, end, program, signal},
    until::until,
};
use serde_json::{Value, json};

struct Service {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Service {
    fn start(environment: &[(&str, &str)]) -> Self {
        let mut command = command(program("--example", "embed"));
        command.arg("127.0.0.1:0").envs(environment.iter().copied()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut service = Self { process, output, address: String::new() };
        let told = service.line();
        service.address = told.strip_prefix("listening on http://").unwrap_or_else(|| panic!("{told}")).to_owned();
        service
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn entries(&self, effect: &str) -> u64 {
        let (status, metrics) = request(&self.address, "GET", "/metrics", "");
        assert_eq!(status, 200);
        let line = format!("keepline_entries_total{{effect=\"{effect}\"}} ");
        metrics.lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse().unwrap()
    }

    /// A turn of each session, all at once.
    fn turns(&self, sessions: usize) -> Vec<thread::JoinHandle<Value>> {
        let turn = |n| {
            let address = self.address.clone();
            thread::spawn(move || turn(&address, &format!("s{n}"), &format!("Question {n}?")))
        };
        (0..sessions).map(turn).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Status and body of the reply.
fn request(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}");
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn turn(address: &str, session: &str, question: &str) -> Value {
    let body = json!({"session_id": session, "question": question}).to_string();
    let (status, reply) = request(address, "POST", "/v1/turn", &body);
    assert_eq!(status, 200, "{reply}");
    serde_json::from_str(&reply).unwrap()
}

fn serves_until_stopped(environment: &[(&str, &str)]) {
    const SESSIONS: usize = 16;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plugin.wasm");
    fs::write(&file, BUNDLED).unwrap();
    let mut environment = environment.to_vec();
    environment.push(("KEEPLINE_PLUGIN", file.to_str().unwrap()));
    let mut service = Service::start(&environment);

    let mut last = Vec::new();
    for (n, turn) in service.turns(SESSIONS).into_iter().enumerate() {
        let answer = format!("Question {n}? This is the first time that you ask");
        assert_eq!(turn.join().unwrap(), json!({"answer": answer, "forgotten": null}));
        last.push(answer);
    }
    assert_eq!(request(&service.address, "POST", "/v1/turn", "nonsense").0, 400);

    // A file that is no plugin, and one that is: while requests are served.
    for (content, told) in [(&b"nonsense"[..], "the plugin was not replaced"), (BUNDLED, "the plugin was replaced")] {
        fs::write(&file, content).unwrap();
        let turns = service.turns(SESSIONS);
        signal(&service.process, "-HUP");
        let line = service.line();
        assert!(line.starts_with(told), "{line}");
        for ((n, turn), last) in turns.into_iter().enumerate().zip(&mut last) {
            let answer = turn.join().unwrap();
            assert_eq!(answer["forgotten"], Value::Null);
            let answer = answer["answer"].as_str().unwrap();
            assert!(answer.starts_with(&format!("Question {n}? After ")), "{answer}");
            assert!(answer.ends_with(&format!("the last was {}", Value::from(&**last))), "{answer}");
            *last = answer.to_owned();
        }
    }

    // The end, while all wait for the model.
    let before = service.entries("enriched");
    let turns = service.turns(SESSIONS);
    until("all are asked", || (service.entries("enriched") == before + SESSIONS as u64).then_some(()));
    signal(&service.process, "-TERM");
    for turn in turns {
        let answer = turn.join().unwrap();
        assert_eq!(answer["forgotten"], Value::Null);
        assert!(answer["answer"].as_str().unwrap().contains("After 3 answers"), "{answer}");
    }
    assert_eq!(service.line(), "ended; 0 calls were not finished");
    assert_eq!(end(&mut service.process), Some(0));
}

#[test]
fn the_example_service_runs_until_signalled_on_the_memory_store() {
    serves_until_stopped(&[]);
}

#[test]
fn the_example_service_runs_until_signalled_on_redis() {
    let server = RedisServer::start().unwrap();
    serves_until_stopped(&[("KEEPLINE_PROFILE", "redis"), ("KEEPLINE_REDIS_URL", &server.url())]);
}
