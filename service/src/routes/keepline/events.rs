//! Events as they happen, as a stream of server-sent events.
//!
//! Each has an id that means the same at every service of the store: a client that was cut off sends the last one it got,
//! here or elsewhere, and goes on behind it. What is no longer kept is reported as a gap. A slow reader is not waited for:
//! events lie in the store's log meanwhile, and a gap tells of those that it no longer has.

use std::{convert::Infallible, pin::Pin, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use futures::{Stream, StreamExt, stream};
use keepline::events::{Delivery, EventId, Subscription};
use tokio::time;

use super::ownership::OwnedSession;
use crate::{
    access::Caller,
    events::{EventFrame, is_visible},
    http::{ApiError, Call},
};

/// A comment after so long without an event, by which both ends notice that the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long to wait when the store can't be read.
const RETRY: Duration = Duration::from_secs(1);

/// Follows the tenant's events, or those of one session.
pub async fn follow(call: Call) -> Result<Response, ApiError> {
    let after = call.query.get("after").or_else(|| call.headers().get("last-event-id")?.to_str().ok());
    let after: Option<EventId> = match after.filter(|after| !after.is_empty()) {
        Some(text) => Some(text.parse().map_err(|_| ApiError::invalid("after", "after must be the id of an event"))?),
        None => None,
    };
    let session = call.query.get("session").map(str::to_owned);
    if let Some(session) = &session {
        OwnedSession::open_or_absent(&call, session).await?;
    }
    let events = call.tenant.events().subscribe(after).await?;
    let followed = Followed { events, caller: (*call.caller).clone(), session };
    let end: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(call.end.wait());
    // At once, so that clients see that they are connected.
    let begin = stream::once(async { ": connected\n\n".to_owned() });
    let frames = stream::unfold((followed, end), |(mut followed, mut end)| async {
        let frame = tokio::select! {
            biased;
            () = &mut end => return None,
            frame = followed.next_frame() => frame,
        };
        Some((frame, (followed, end)))
    });
    let mut response = Response::new(Body::from_stream(as_body(begin.chain(frames))));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

fn as_body(frames: impl Stream<Item = String>) -> impl Stream<Item = Result<String, Infallible>> {
    frames.map(Ok)
}

struct Followed {
    events: Subscription,
    caller: Caller,
    session: Option<String>,
}

impl Followed {
    /// The next frame that the caller is to be sent.
    async fn next_frame(&mut self) -> String {
        loop {
            let delivery = match time::timeout(KEEP_ALIVE, self.events.next()).await {
                Ok(Ok(delivery)) => delivery,
                Ok(Err(failure)) => {
                    tracing::debug!(target: "keepline.service", "events can't be read: {}", failure.code);
                    time::sleep(RETRY).await;
                    continue;
                }
                Err(_) => return ": keep-alive\n\n".to_owned(),
            };
            match delivery {
                Delivery::Gap => return "event: gap\ndata: {\"type\":\"gap\"}\n\n".to_owned(),
                Delivery::Event { id, text } => {
                    if let Some(frame) = self.frame(&id, &text) {
                        return frame;
                    }
                }
            }
        }
    }

    fn frame(&self, id: &EventId, text: &str) -> Option<String> {
        let event = EventFrame::parse(text)?;
        let is_of_session = self.session.is_none() || event.session() == self.session.as_deref();
        let name = &event.r#type;
        // JSON on one line: a line break would end the frame's data.
        let is_whole = !text.contains(['\n', '\r']) && !name.contains(['\n', '\r']);
        (is_of_session && is_whole && is_visible(&event, &self.caller))
            .then(|| format!("id: {id}\nevent: {name}\ndata: {text}\n\n"))
    }
}
