//! What is noted of each request: an id, a line in the access log, a count. Never a text, a name in a path, or a key.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    http::{HeaderMap, HeaderValue, Method},
    response::Response,
};

use crate::{access::Caller, metrics::RequestCounters};

pub const REQUEST_ID: &str = "x-request-id";

/// A request that is being served.
pub struct RequestLog {
    /// The client's own id, or one that was made here.
    pub id: String,
    method: Method,
    /// The route that matched, with its parameters' names in place of what they are.
    route: &'static str,
    /// Of a trace that the request is part of.
    trace_id: Option<String>,
    started: Instant,
}

impl RequestLog {
    pub fn begin(method: &Method, headers: &HeaderMap, route: &'static str) -> Self {
        let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let given = given.filter(|id| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()));
        let trace_id = headers.get("traceparent").and_then(|parent| trace_id(parent.to_str().ok()?));
        let id = given.map_or_else(new_id, str::to_owned);
        Self { id, method: method.clone(), route, trace_id, started: Instant::now() }
    }

    /// Notes how it ended, and lets the reply carry its id.
    pub fn end(self, response: &mut Response, caller: Option<&Caller>, counters: &RequestCounters) {
        let took = self.started.elapsed();
        let status = response.status().as_u16();
        counters.count(self.method.as_str(), self.route, status, took);
        tracing::info!(
            target: "keepline.access",
            method = %self.method,
            route = self.route,
            status,
            ms = took.as_secs_f64() * 1e3,
            request_id = self.id,
            trace_id = self.trace_id,
            key = caller.and_then(|caller| caller.key_id.as_deref()),
        );
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
    }
}

/// Different for each request of each process.
fn new_id() -> String {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| fastrand::u64(..));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("req_{:016x}{:08x}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The trace's id of a `traceparent` (W3C Trace Context): `00-TRACE-SPAN-FLAGS`.
fn trace_id(parent: &str) -> Option<String> {
    let mut parts = parent.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let is_hex = trace.len() == 32 && trace.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (version.len() == 2 && is_hex && trace.bytes().any(|byte| byte != b'0')).then(|| trace.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn ids_of_clients_are_kept_if_they_can_be_printed() {
        let id = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, given.parse().unwrap());
            RequestLog::begin(&Method::GET, &headers, "/x").id
        };
        assert_eq!(id("abc-1"), "abc-1");
        for given in ["", "a b", &"x".repeat(129)] {
            assert!(id(given).starts_with("req_"), "{given}");
        }
        assert_ne!(id(""), id(""));
    }

    #[test]
    fn a_trace_is_known_by_its_id() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_id(&format!("00-{trace}-00f067aa0ba902b7-01")).as_deref(), Some(trace));
        for wrong in ["", "00", "00-x-y-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"] {
            assert_eq!(trace_id(wrong), None, "{wrong}");
        }
    }
}
