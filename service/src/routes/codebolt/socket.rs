//! The socket of agents: requests and their replies, and the events of the tenant.
//!
//! One loop serves a socket: it reads, sends, and waits for requests that are worked on. So what a reader does not take
//! holds up only that reader: its requests are read no faster than their replies go out, and events wait in the tenant's
//! log. Whoever takes nothing for a while is dropped.

use std::{pin::pin, time::Duration};

use axum::{
    extract::{
        FromRequestParts,
        ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code},
    },
    http::{Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use keepline::{
    events::{Delivery, Subscription},
    store::{Deadline, Failure},
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout},
};

use super::{
    desk::Desk,
    request_table::{Outcome, answer},
};
use crate::{
    events::{EventFrame, TYPES, is_visible},
    http::{ApiError, Call, JsonObject, raw},
    time::timestamp,
};

/// Requests of one socket that are worked on at once. The next ones are not read until one is done.
const MOST_REQUESTS: usize = 16;
/// How long one request may take.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Between two pings.
const PING: Duration = Duration::from_secs(30);
/// Whoever answers no ping for so long is gone.
const SILENCE: Duration = Duration::from_secs(90);
/// How long a closed socket may take to answer.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// After an event that could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Answers an upgrade. Events from then on arrive.
pub async fn open(call: Call) -> Result<Response, ApiError> {
    let upgrade = upgrade_of(&call).await?;
    let too_many = |_| ApiError::unavailable("too many sockets are open");
    let slot = call.sockets.clone().try_acquire_owned().map_err(too_many)?;
    let events = call.tenant.events().subscribe(None).await?;
    let (desk, limit) = (Desk::of(&call), call.body_limit);
    // One that is over the limit, but not by much, is read and told so; one that is longer ends with the connection.
    let most = limit.saturating_mul(2).saturating_add(1 << 16);
    let upgrade = upgrade.max_message_size(most).max_frame_size(most);
    // Half of what the connection lets a reader take: so that there is time to say why it ends.
    let patience = call.write_timeout / 2;
    let ended = call.end.wait();
    Ok(upgrade.on_upgrade(move |socket| async move {
        let mut session = Session {
            socket,
            desk,
            events,
            limit,
            patience,
            requests: JoinSet::new(),
            not_before: Instant::now(),
            heard: Instant::now(),
        };
        let end = session.serve(ended).await;
        session.end(end).await;
        drop(slot);
    }))
}

async fn upgrade_of(call: &Call) -> Result<WebSocketUpgrade, ApiError> {
    let mut request = Request::new(());
    *request.headers_mut() = call.headers().clone();
    *request.extensions_mut() = call.parts.extensions.clone();
    let (mut parts, ()) = request.into_parts();
    WebSocketUpgrade::from_request_parts(&mut parts, &()).await.map_err(|rejection| {
        let status = rejection.into_response().status();
        let has_upgrade = call.headers().contains_key(header::UPGRADE);
        let status = if has_upgrade { status } else { StatusCode::UPGRADE_REQUIRED };
        ApiError::new(status, "upgrade_required", "this is a WebSocket: the request must ask for an upgrade")
    })
}

/// Why a socket ends.
enum End {
    /// The other side went.
    Gone,
    /// With this code and reason.
    Close(u16, &'static str),
}

/// One socket.
struct Session {
    socket: WebSocket,
    desk: Desk,
    events: Subscription,
    /// Of a message, in bytes.
    limit: usize,
    /// How long the reader may take for a frame.
    patience: Duration,
    /// Replies of requests that are worked on.
    requests: JoinSet<String>,
    /// When the next event may be looked for.
    not_before: Instant,
    /// When the other side was last heard of.
    heard: Instant,
}

/// A reply.
#[derive(Serialize)]
struct Reply<'a> {
    r#type: &'a str,
    #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a RawValue>,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    timestamp: String,
}

impl Session {
    async fn serve(&mut self, ended: impl Future<Output = ()>) -> End {
        let mut ended = pin!(ended);
        let mut ping = interval_at(Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let step = tokio::select! {
                () = &mut ended => return End::Close(close_code::AWAY, "the service shuts down, or the key is revoked"),
                message = self.socket.recv(), if self.requests.len() < MOST_REQUESTS => self.take(message),
                Some(reply) = self.requests.join_next() => self.send(reply.ok()).await,
                event = next_event(&mut self.events, self.not_before) => self.pass_on(event).await,
                _ = ping.tick() => self.ping().await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    /// Takes what came. Requests are worked on while the next ones are read.
    fn take(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        self.heard = Instant::now();
        let text = match message {
            None | Some(Ok(Message::Close(_))) => return Err(End::Gone),
            Some(Err(error)) if is_too_long(&error) => return Err(too_large()),
            Some(Err(_)) => return Err(End::Gone),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Binary(_))) => return Err(End::Close(close_code::UNSUPPORTED, "only texts are taken")),
            Some(Ok(Message::Text(text))) => text,
        };
        if text.len() > self.limit {
            return Err(too_large());
        }
        let desk = self.desk.until(Deadline::after(REQUEST_TIME));
        self.requests.spawn(async move { reply_to(&desk, &text).await });
        Ok(())
    }

    async fn pass_on(&mut self, event: Result<Delivery, Failure>) -> Result<(), End> {
        match event {
            Ok(Delivery::Event { text, .. }) if self.is_told(&text) => self.send(Some(text.to_string())).await,
            Ok(Delivery::Event { .. }) => Ok(()),
            // Whoever keeps a copy by events has to read anew.
            Ok(Delivery::Gap) => Err(End::Close(close_code::AGAIN, "events are missing: connect again")),
            Err(failure) => {
                tracing::warn!(target: "keepline.service", "events can't be read: {failure}");
                self.not_before = Instant::now() + PAUSE;
                Ok(())
            }
        }
    }

    /// Others use the same log, and not every caller is told of everything.
    fn is_told(&self, text: &str) -> bool {
        let event = EventFrame::parse(text);
        event.is_some_and(|event| TYPES.contains(&&*event.r#type) && is_visible(&event, self.desk.caller()))
    }

    async fn ping(&mut self) -> Result<(), End> {
        if self.heard.elapsed() > SILENCE {
            return Err(End::Close(close_code::POLICY, "no ping was answered"));
        }
        self.send_message(Message::Ping(bytes::Bytes::new())).await
    }

    /// Sends a frame; none: the request's own task failed, and there is nothing to be sent.
    async fn send(&mut self, text: Option<String>) -> Result<(), End> {
        let Some(text) = text else { return Err(End::Close(close_code::ERROR, "a request failed")) };
        self.send_message(Message::Text(text.into())).await
    }

    async fn send_message(&mut self, message: Message) -> Result<(), End> {
        match timeout(self.patience, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Close(close_code::POLICY, "the reader is too slow")),
        }
    }

    /// Says why, and waits for the answer a little: so the other side reads it before the connection is gone. Requests that
    /// are worked on are finished, and their events announced.
    async fn end(mut self, end: End) {
        self.requests.detach_all();
        let End::Close(code, reason) = end else { return };
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        let closing = async {
            if self.socket.send(Message::Close(Some(frame))).await.is_err() {
                return;
            }
            while let Some(Ok(message)) = self.socket.recv().await {
                if matches!(message, Message::Close(_)) {
                    return;
                }
            }
        };
        let _ = timeout(CLOSE_TIME, closing).await;
    }
}

async fn next_event(events: &mut Subscription, not_before: Instant) -> Result<Delivery, Failure> {
    sleep_until(not_before).await;
    events.next().await
}

fn too_large() -> End {
    End::Close(close_code::SIZE, "the message is over the limit")
}

/// The library has no other way to tell.
fn is_too_long(error: &axum::Error) -> bool {
    error.to_string().contains("too long")
}

/// The reply to a text.
async fn reply_to(desk: &Desk, text: &str) -> String {
    let refused = |message: &str, request_id| failed("error", request_id, message);
    let Ok(message) = serde_json::from_str::<JsonObject>(text) else {
        return refused("a message must be a JSON object", None);
    };
    let request_id = message.get("requestId");
    let Some(kind) = message.read::<String>("type") else {
        return refused("a message must have a type", request_id);
    };
    if kind == "register" {
        return registered(&message);
    }
    // Without parameters, there are none.
    let params = match message.expect::<JsonObject>("params", "an object") {
        Ok(params) => params.unwrap_or_default(),
        Err(error) => return failed(&kind, request_id, &error.message),
    };
    let Outcome { data, error } = answer(desk, &kind, params).await;
    let reply = Reply { r#type: &kind, request_id, success: error.is_none(), data, error, timestamp: timestamp() };
    serde_json::to_string(&reply).unwrap_or_default()
}

fn failed(kind: &str, request_id: Option<&RawValue>, message: &str) -> String {
    let error = Some(message.to_owned());
    let reply = Reply { r#type: kind, request_id, success: false, data: None, error, timestamp: timestamp() };
    serde_json::to_string(&reply).unwrap_or_default()
}

/// What an agent that introduces itself is told.
fn registered(message: &JsonObject) -> String {
    let mut reply = JsonObject::default();
    reply.put("type", &"registered");
    reply.set("connectionId", message.get("agentId").map_or_else(|| raw(&""), ToOwned::to_owned));
    reply.set("connectionType", message.get("clientType").map_or_else(|| raw(&"agent"), ToOwned::to_owned));
    reply.put("timestamp", &timestamp());
    if let Some(request_id) = message.get("requestId") {
        reply.set("requestId", request_id.to_owned());
    }
    reply.to_text()
}
