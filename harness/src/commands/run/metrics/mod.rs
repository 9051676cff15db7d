//! `--metrics ADDRESS`: serves a run's counters for Prometheus and its view of the store for an orchestrator.
//!
//! A scrape costs the lanes nothing (the library counts anyway) and reveals no text, session name or address. There is
//! no encryption and no password: only the scraper should be able to reach the address.

mod exposition;

use std::{
    net::{SocketAddr, TcpListener},
    thread,
};

use anyhow::{Context, Result};
use keepline::{Keepline, maintenance::Maintenance};
use serde_json::json;
use tokio::runtime::Handle;
use xitca_web::{
    App,
    body::ResponseBody,
    error::ErrorStatus,
    handler::{handler_service, state::StateRef},
    http::{HeaderName, HeaderValue, Method, StatusCode, header::CONTENT_TYPE},
    route::Route,
};

use crate::{app::error::UsageError, operations::health as store_health, terminal};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Methods that are answered; the server omits the body for HEAD.
const READ_METHODS: [Method; 2] = [Method::GET, Method::HEAD];

#[derive(Clone)]
struct MetricsSource {
    keepline: Keepline,
    deferred: Maintenance,
    backend: String,
    /// The lanes' runtime, to which the store's connection belongs.
    runtime: Handle,
}

/// Binds the address; port 0 picks a free one.
pub fn bind_address(address: SocketAddr) -> Result<TcpListener> {
    let bound = TcpListener::bind(address);
    Ok(bound.map_err(|error| UsageError(format!("--metrics: can't listen at {address}: {error}")))?)
}

/// Serves until the process ends, on threads of its own, because a runtime must not be dropped within another one. Needs
/// a runtime, for the store.
pub fn serve(listener: TcpListener, keepline: Keepline, deferred: Maintenance, backend: String) -> Result<()> {
    let address = listener.local_addr()?;
    let server = App::new()
        .with_state(MetricsSource { keepline, deferred, backend, runtime: Handle::current() })
        .at("/metrics", Route::new(READ_METHODS).route(handler_service(serve_metrics)))
        .at("/health", Route::new(READ_METHODS).route(handler_service(serve_health)))
        .serve()
        .disable_signal()
        .worker_threads(1)
        .listen(listener)
        .context("can't serve metrics")?
        .run();
    let serve = move || {
        if let Err(error) = server.wait() {
            terminal::print_warning(&format!("metrics are no longer served: {error}"));
        }
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(serve).context("can't serve metrics")?;
    terminal::print_note(&format!("metrics are served at http://{address}/metrics, the store's health at /health"));
    Ok(())
}

type ContentTypeHeader = (HeaderName, HeaderValue);

fn content_type_header(kind: &'static str) -> ContentTypeHeader {
    (CONTENT_TYPE, HeaderValue::from_static(kind))
}

// A `String` as a body would set a Content-Type of its own.
async fn serve_metrics(
    StateRef(source): StateRef<'_, MetricsSource>,
) -> Result<(ResponseBody, ContentTypeHeader), ErrorStatus> {
    let deferred = source.deferred.counters();
    let text =
        exposition::encode_metrics(&source.keepline, deferred, &source.backend).map_err(|_| ErrorStatus::internal())?;
    Ok((ResponseBody::bytes(text), content_type_header(OPEN_METRICS)))
}

/// This process's view of the store, circuit breaker included: 200 or 503.
async fn serve_health(
    StateRef(source): StateRef<'_, MetricsSource>,
) -> Result<(ResponseBody, ContentTypeHeader, StatusCode), ErrorStatus> {
    let keepline = source.keepline.clone();
    let looked = source.runtime.spawn(async move { keepline.health(None).await });
    let health = looked.await.map_err(|_| ErrorStatus::internal())?;
    let status = if health.is_good() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let text = json!({
        "backend": source.backend,
        "reachable": health.is_good(),
        "round_trip_ms": store_health::rounded_milliseconds(health.round_trip),
        "breaker": health.breaker.name(),
        "problem": health.problem.as_ref().map(store_health::failure_json),
    });
    Ok((ResponseBody::bytes(text.to_string()), content_type_header("application/json"), status))
}
