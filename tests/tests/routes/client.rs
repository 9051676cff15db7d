//! A client as small as can be: one request a connection.

use std::{collections::BTreeMap, net::SocketAddr};

use keepline_pipelines::value::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What a request was answered with.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Reply {
    /// The body as JSON. None: it is none.
    pub fn json(&self) -> Option<Value> {
        Value::parse(&self.body).ok()
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("no whole head came");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: BTreeMap<String, String> = lines
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap();
                (name.to_ascii_lowercase(), value.trim().to_owned())
            })
            .collect();
        let body = &bytes[end + 4..];
        let is_chunked = headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        Self { status, headers, body: String::from_utf8(body).unwrap() }
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + size + 4..];
    }
}

/// What a case sends.
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

/// Sends a request and reads the whole reply.
pub async fn send(address: SocketAddr, request: &Request<'_>) -> Reply {
    let Request { method, path, headers, body } = request;
    let mut connection = TcpStream::connect(address).await.unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body.as_deref().unwrap_or_default());
    // A body over the limit may not be read to its end.
    let _ = connection.write_all(text.as_bytes()).await;
    let mut bytes = Vec::new();
    let read = connection.read_to_end(&mut bytes).await;
    assert!(read.is_ok() || !bytes.is_empty(), "{read:?}");
    Reply::parse(&bytes)
}
