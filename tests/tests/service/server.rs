//! Starts `keepline serve`, talks to it, and stops it by its process id.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{Child, Stdio},
    sync::{Arc, Mutex, OnceLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use keepline_tests::{
    programs::{self, program, signal},
    until::until,
};
use serde_json::Value;

use crate::described::Described;

/// Only guards against hanging.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A service that listens.
pub struct Server {
    child: Child,
    address: String,
    /// What it has written to stderr.
    log: Arc<Mutex<String>>,
    /// Writes it there.
    log_reader: Option<JoinHandle<()>>,
    /// What it says of itself.
    described: OnceLock<Described>,
}

impl Server {
    /// Of conversations that are kept in memory, with these arguments beside.
    pub fn of_conversations(arguments: &[&str]) -> Self {
        Self::start(&[&["--profile", "memory", "--set", "conversation=true"], arguments].concat())
    }

    pub fn start(arguments: &[&str]) -> Self {
        let mut command = programs::command(program("--bin", "keepline"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut told = Vec::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it ended: {told:?}")).unwrap();
            if let Some((_, address)) = line.split_once("serving at ").and_then(|(_, url)| url.split_once("://")) {
                break address.trim().to_owned();
            }
            told.push(line);
        };
        // So that it never waits for a reader.
        let log = Arc::new(Mutex::new(told.join("\n")));
        let written = log.clone();
        let log_reader = thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| written.lock().unwrap().push_str(&format!("{line}\n")));
        });
        Self { child, address, log, log_reader: Some(log_reader), described: OnceLock::new() }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it has written to stderr once that has this text.
    pub fn log_until(&self, text: &str) -> String {
        self.log_once(|log| log.contains(text))
    }

    /// The same, once that holds.
    pub fn log_once(&self, holds: impl Fn(&str) -> bool) -> String {
        until("the log has it", || Some(self.log.lock().unwrap().clone()).filter(|log| holds(log)))
    }

    /// Kills it: all that it has written to stderr.
    pub fn end(mut self) -> String {
        self.kill();
        self.log_reader.take().unwrap().join().unwrap();
        self.log.lock().unwrap().clone()
    }

    fn kill(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(&self.child, "-KILL");
        }
        let _ = self.child.wait();
    }

    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Its exit code, once it has ended by itself.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Follows events under `/keepline/v1`; they come from now on.
    pub fn follow(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut connection = self.connect();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("GET /keepline/v1{path} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", self.address);
        connection.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(connection);
        let (status, headers) = read_head(&mut reader);
        assert_eq!((status, headers["content-type"].as_str()), (200, "text/event-stream"));
        Events { reader, received: String::new(), last_id: String::new() }
    }

    /// Begins a stream of lines. Those without a lane are questions.
    pub fn lines(&self) -> Lines {
        let mut connection = self.connect();
        let head = "POST /keepline/v1/questions HTTP/1.1\r\nhost: 127.0.0.1\r\n\
                    content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
        connection.write_all(head.as_bytes()).unwrap();
        let reader = BufReader::new(connection.try_clone().unwrap());
        Lines { connection, reader, is_open: false, received: String::new() }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], &body.to_string())
    }

    pub fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &[], &body.to_string())
    }

    pub fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send("PATCH", path, &[], &body.to_string())
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], "")
    }

    /// One request on a connection of its own, under `/keepline/v1`. The reply is as `/openapi.json` says.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let path = format!("/keepline/v1{path}");
        let reply = self.send_to(method, &path, headers, body);
        if reply.headers.get("content-type").is_some_and(|kind| kind == "application/json") {
            let described = || Described::new(&self.send_to("GET", "/openapi.json", &[], "").ok());
            self.described.get_or_init(described).check(method, &path, reply.status, &reply.json());
        }
        reply
    }

    /// The same at any path, whatever is replied.
    pub fn send_to(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut connection = self.connect();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (host, length) = (self.address(), body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        connection.write_all((head + body).as_bytes()).unwrap();
        Reply::read(&mut BufReader::new(connection))
    }

    /// A connection, for those who send bytes one by one.
    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.address()).unwrap();
        connection.set_read_timeout(Some(TIMEOUT)).unwrap();
        connection
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a request was answered with.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// A stream of server-sent events.
pub struct Events {
    reader: BufReader<TcpStream>,
    received: String,
    last_id: String,
}

/// A stream of lines through the lanes, with each line answered before the next one is sent.
pub struct Lines {
    connection: TcpStream,
    reader: BufReader<TcpStream>,
    /// Whether the reply has begun.
    is_open: bool,
    received: String,
}

impl Lines {
    /// What comes for a line, without its end.
    pub fn pass(&mut self, line: &str) -> String {
        // In one piece, so that no part waits for another to be acknowledged.
        self.connection.write_all(format!("{:x}\r\n{line}\n\r\n", line.len() + 1).as_bytes()).unwrap();
        if !std::mem::replace(&mut self.is_open, true) {
            assert_eq!(read_head(&mut self.reader).0, 200);
        }
        loop {
            if let Some((line, rest)) = self.received.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.received = rest;
                return line;
            }
            self.received += &read_chunk(&mut self.reader).unwrap();
        }
    }
}

impl Events {
    /// The data of the next event. None: the stream has ended.
    pub fn next_event(&mut self) -> Option<Value> {
        loop {
            while let Some((frame, rest)) = self.received.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.received = rest;
                let member = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                if let Some(id) = member("id: ") {
                    self.last_id = id;
                }
                if let Some(data) = member("data: ") {
                    let event: Value = serde_json::from_str(&data).unwrap();
                    assert_eq!(member("event: ").as_deref(), event["type"].as_str(), "{frame}");
                    return Some(event);
                }
            }
            self.received += &read_chunk(&mut self.reader)?;
        }
    }

    /// The id of the last one.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }
}

impl Reply {
    pub fn read(reader: &mut impl BufRead) -> Self {
        let (status, headers) = read_head(reader);
        let mut body = String::new();
        if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            while let Some(chunk) = read_chunk(reader) {
                body.push_str(&chunk);
            }
        } else {
            let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            let mut bytes = vec![0; length];
            reader.read_exact(&mut bytes).unwrap();
            body = String::from_utf8(bytes).unwrap();
        }
        Self { status, headers, body }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a success.
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }

    /// Code and parameter of an error with this status.
    pub fn error(self, status: u16) -> (String, Option<String>) {
        assert_eq!(self.status, status, "{self:?}");
        let body = self.json();
        let text = |name: &str| body["error"][name].as_str().map(str::to_owned);
        (text("code").unwrap(), text("param"))
    }
}

pub fn read_head(reader: &mut impl BufRead) -> (u16, BTreeMap<String, String>) {
    let mut lines = reader.lines().map(Result::unwrap);
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.take_while(|line| !line.is_empty());
    let headers = headers.map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    });
    (status, headers.collect())
}

/// None: the last one has come.
pub fn read_chunk(reader: &mut impl BufRead) -> Option<String> {
    let mut size = String::new();
    reader.read_line(&mut size).unwrap();
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let mut bytes = vec![0; size + 2];
    reader.read_exact(&mut bytes).unwrap();
    bytes.truncate(size);
    (size > 0).then(|| String::from_utf8(bytes).unwrap())
}
