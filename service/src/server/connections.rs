//! Accepts connections, and serves each within its limits.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time,
};
use tokio_rustls::TlsAcceptor;

use super::stalled_writes::StalledWrites;

/// The most bytes of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait when the system has no room for one more connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What connections are held to.
#[derive(Clone, Copy)]
pub struct ConnectionLimits {
    pub connections: usize,
    pub header_timeout: Duration,
    pub write_timeout: Duration,
    pub grace: Duration,
}

/// Serves until `stop` is ready and what was accepted is finished, or the grace period is over.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
    router: Router,
    stop: impl Future<Output = ()> + Send,
    stopping: watch::Sender<bool>,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let mut stop = pin!(stop);
    loop {
        let accept = async {
            // The semaphore is never closed.
            let slot = slots.clone().acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = &mut stop => break,
            accepted = accept => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(target: "keepline.service", "can't accept a connection: {error}");
                time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (tls, router, stopping) = (tls.clone(), router.clone(), stopping.subscribe());
        tokio::spawn(async move {
            serve_connection(stream, tls, limits, router, stopping).await;
            drop(slot);
        });
    }
    drop(listener);
    stopping.send_replace(true);
    // Each connection holds a slot for as long as it lasts.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    if time::timeout(limits.grace, slots.acquire_many(all)).await.is_err() {
        tracing::warn!(target: "keepline.service", "requests were cut off: they were not finished within the grace period");
    }
}

async fn serve_connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
    router: Router,
    stopping: watch::Receiver<bool>,
) {
    // Replies are written whole: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return serve_stream(stream, limits, router, stopping).await };
    match time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve_stream(stream, limits, router, stopping).await,
        Ok(Err(error)) => tracing::debug!(target: "keepline.service", "a TLS handshake failed: {error}"),
        Err(_) => tracing::debug!(target: "keepline.service", "a TLS handshake took too long"),
    }
}

async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    limits: ConnectionLimits,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let stream = TokioIo::new(StalledWrites::new(stream, limits.write_timeout));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(stream, TowerToHyperService::new(router))
        .with_upgrades();
    let mut connection = pin!(connection);
    // An error: nobody is left who could stop the service.
    let stop = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // What strangers send wrongly is not worth more.
        tracing::debug!(target: "keepline.service", "a connection ended: {error}");
    }
}
