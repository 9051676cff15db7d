//! A model on a server of its own: what chat completions and embeddings are asked for, and whatever a test has it answer.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::until::until;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The model says this.
    Say(String),
    /// Embeddings, in that order.
    Embed(Vec<Vec<f32>>),
    /// The server answers so, with headers that end a line each.
    Raw(u16, &'static str, Vec<u8>),
    /// Nothing, until whoever asked gives up.
    Hang,
    /// The connection ends in the middle of the answer.
    Break,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of the request line.
    pub path: String,
    /// The header, if there was one.
    pub authorization: Option<String>,
    /// The JSON.
    pub body: Value,
}

impl Asked {
    /// Who is told what: `system` or `user`.
    pub fn content(&self, role: &str) -> &str {
        let messages = self.body["messages"].as_array().unwrap();
        messages.iter().find(|message| message["role"] == role).unwrap()["content"].as_str().unwrap()
    }

    /// The texts that embeddings are wanted of.
    pub fn texts(&self) -> Vec<&str> {
        self.body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
    }

    /// Whether it is for a title, not for a summary.
    pub fn is_title(&self) -> bool {
        self.content("system").contains("title")
    }
}

/// The server. It ends when it is dropped.
pub struct ModelServer {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    is_over: Arc<AtomicBool>,
}

impl ModelServer {
    /// On a free port; each request is answered on a thread of its own.
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let answer = Arc::new(answer);
        let (seen, over) = (asked.clone(), is_over.clone());
        thread::spawn(move || {
            for connection in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (answer, seen) = (answer.clone(), seen.clone());
                // Who asked may be gone meanwhile.
                thread::spawn(move || serve(connection?, &seen, &*answer));
            }
        });
        Self { port, asked, is_over }
    }

    /// For `model_url`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    /// Until so many requests have come.
    pub fn until_asked(&self, count: usize) -> Vec<Asked> {
        until("the model is asked", || Some(self.asked()).filter(|asked| asked.len() >= count))
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(mut connection: TcpStream, seen: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked) -> Reply) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match &*name.to_ascii_lowercase() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let asked = Asked { path, authorization, body: serde_json::from_slice(&body).unwrap() };
    seen.lock().push(asked.clone());
    let (status, headers, body) = match answer(&asked) {
        Reply::Say(text) => {
            let body = json!({"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]});
            (200, "", body.to_string().into_bytes())
        }
        Reply::Embed(all) => {
            let datum = |(index, values)| json!({"object": "embedding", "index": index, "embedding": values});
            let data: Vec<Value> = all.into_iter().enumerate().map(datum).collect();
            (200, "", json!({"object": "list", "data": data, "model": "?"}).to_string().into_bytes())
        }
        Reply::Raw(status, headers, body) => (status, headers, body),
        Reply::Hang => {
            reader.read_to_end(&mut Vec::new())?;
            return Ok(());
        }
        Reply::Break => {
            return connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\":[");
        }
    };
    let length = body.len();
    write!(connection, "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n")?;
    connection.write_all(&body)
}
