//! `--metrics ADDRESS`: serves a run's counters for Prometheus and its view of the store for an orchestrator.
//!
//! A scrape costs the lanes nothing (the library counts anyway) and reveals no text, session name or address. There is
//! no encryption and no password: only the scraper should be able to reach the address.

use std::{
    net::{SocketAddr, TcpListener},
    thread,
};

use anyhow::{Context, Result};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use keepline::{Keepline, maintenance::Maintenance};
use keepline_service::metrics::{OPEN_METRICS, StoreMetrics, encode_metrics};
use serde_json::json;
use tokio::runtime::Handle;

use crate::{
    app::{error::UsageError, runtime},
    operations::health as store_health,
    terminal,
};

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

/// Serves until the process ends, on a thread of its own, so that a scrape never waits for the lanes. Needs a runtime, for
/// the store.
pub fn serve(listener: TcpListener, keepline: Keepline, deferred: Maintenance, backend: String) -> Result<()> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true).context("can't serve metrics")?;
    let source = MetricsSource { keepline, deferred, backend, runtime: Handle::current() };
    let routes = Router::new().route("/metrics", get(serve_metrics)).route("/health", get(serve_health));
    let router = routes.with_state(source);
    let own_runtime = runtime::build_single_threaded()?;
    let serve = move || {
        let served =
            own_runtime.block_on(async { axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await });
        if let Err(error) = served {
            terminal::print_warning(&format!("metrics are no longer served: {error}"));
        }
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(serve).context("can't serve metrics")?;
    terminal::print_note(&format!("metrics are served at http://{address}/metrics, the store's health at /health"));
    Ok(())
}

async fn serve_metrics(State(source): State<MetricsSource>) -> Result<impl IntoResponse, StatusCode> {
    let store = StoreMetrics::read(&source.keepline, source.deferred.counters(), None);
    let text = encode_metrics(&source.backend, vec![store], Some((&source.keepline, None)));
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?))
}

/// This process's view of the store, circuit breaker included: 200 or 503.
async fn serve_health(State(source): State<MetricsSource>) -> Result<impl IntoResponse, StatusCode> {
    let keepline = source.keepline.clone();
    let looked = source.runtime.spawn(async move { keepline.health(None).await });
    let health = looked.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let status = if health.is_good() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "backend": source.backend,
        "reachable": health.is_good(),
        "round_trip_ms": store_health::rounded_milliseconds(health.round_trip),
        "breaker": health.breaker.name(),
        "problem": health.problem.as_ref().map(store_health::failure_json),
    });
    Ok((status, Json(body)))
}
