//! The sockets of a case, each with what came and was not taken yet.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use futures::{SinkExt, StreamExt};
use keepline_pipelines::value::Value;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest, http::HeaderName},
};

/// How long a frame may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Under load a machine takes longer, and no case tells by that.
const SLACK: u32 = 5;

pub struct Socket {
    stream: WebSocketStream<TcpStream>,
    frames: VecDeque<Value>,
    closed: Option<u16>,
}

impl Socket {
    /// Opens a socket. `Err`: it was refused with that status.
    pub async fn open(address: SocketAddr, path: &str, headers: &[(String, String)]) -> Result<Self, u16> {
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let connection = TcpStream::connect(address).await.unwrap();
        match client_async(request, connection).await {
            Ok((stream, _)) => Ok(Self { stream, frames: VecDeque::new(), closed: None }),
            Err(Error::Http(reply)) => Err(reply.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn send(&mut self, text: String) {
        self.send_message(Message::Text(text.into())).await;
    }

    pub async fn send_message(&mut self, message: Message) {
        // A frame that is refused by its length is not read to its end.
        let _ = self.stream.send(message).await;
    }

    /// The next frame is read. Whether one came in time.
    async fn read(&mut self, until: Instant) -> bool {
        while self.closed.is_none() {
            match timeout_at(until, self.stream.next()).await {
                Err(_) => return false,
                Ok(Some(Ok(Message::Text(text)))) => {
                    self.frames.push_back(Value::parse(&text).unwrap());
                    return true;
                }
                Ok(Some(Ok(Message::Close(frame)))) => {
                    self.closed = frame.map(|frame| frame.code.into()).or(Some(1005))
                }
                // Pings are answered by the library.
                Ok(Some(Ok(_))) => {}
                Ok(None | Some(Err(_))) => self.closed = Some(1006),
            }
        }
        false
    }

    /// The frame that a matcher means: a reply by its id, or the oldest event or reply.
    pub async fn receive(&mut self, expected: &Value) -> Option<Value> {
        let is_reply = expected.member("success").is_some();
        let id = expected.member("requestId").filter(|id| id.as_text().is_some());
        let is_meant = |frame: &Value| {
            let is_kind = frame.member("success").is_some() == is_reply;
            is_kind && (!is_reply || id.is_none() || frame.member("requestId") == id)
        };
        let until = Instant::now() + PATIENCE * SLACK;
        loop {
            if let Some(position) = self.frames.iter().position(is_meant) {
                return self.frames.remove(position);
            }
            if !self.read(until).await {
                return None;
            }
        }
    }

    /// What comes in that time, and what was not taken before.
    pub async fn rest(&mut self, time: Duration) -> Vec<Value> {
        let until = Instant::now() + time;
        while self.read(until).await {}
        self.frames.drain(..).collect()
    }

    /// The code with which the service closes it. None: it stays open.
    pub async fn closed(&mut self) -> Option<u16> {
        let until = Instant::now() + PATIENCE * SLACK;
        while self.read(until).await {}
        self.closed
    }
}
