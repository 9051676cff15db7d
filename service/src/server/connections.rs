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
    sync::{OwnedSemaphorePermit, Semaphore, watch},
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
            let slot = slots.clone().acquire_owned().await.ok();
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
        let served = Served { limits, router: router.clone(), stopping: stopping.subscribe(), _slot: slot };
        // Replies are written whole: waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        match tls.clone() {
            None => tokio::spawn(serve_stream(stream, served)),
            Some(tls) => tokio::spawn(serve_encrypted(stream, tls, served)),
        };
    }
    drop(listener);
    stopping.send_replace(true);
    // Each connection holds a slot for as long as it lasts.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    if time::timeout(limits.grace, slots.acquire_many(all)).await.is_err() {
        tracing::warn!(target: "keepline.service", "requests were cut off: they were not finished within the grace period");
    }
}

/// What serves a connection, for as long as it lasts.
struct Served {
    limits: ConnectionLimits,
    router: Router,
    stopping: watch::Receiver<bool>,
    _slot: Option<OwnedSemaphorePermit>,
}

async fn serve_encrypted(stream: TcpStream, tls: TlsAcceptor, served: Served) {
    // Boxed: what a handshake needs is gone when the connection is idle.
    match time::timeout(HANDSHAKE, Box::pin(tls.accept(stream))).await {
        Ok(Ok(stream)) => serve_stream(stream, served).await,
        Ok(Err(error)) => tracing::debug!(target: "keepline.service", "a TLS handshake failed: {error}"),
        Err(_) => tracing::debug!(target: "keepline.service", "a TLS handshake took too long"),
    }
}

/// Its future is what an idle connection costs beside the buffers of hyper: thousands of streams are open at once.
async fn serve_stream(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, served: Served) {
    let Served { limits, router, mut stopping, _slot } = served;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_connection_is_a_small_task() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_stop, stopping) = watch::channel(false);
        let second = Duration::from_secs(1);
        let limits = ConnectionLimits { connections: 1, header_timeout: second, write_timeout: second, grace: second };
        let slot = Arc::new(Semaphore::new(1)).acquire_owned().await.ok();
        let task = serve_stream(stream, Served { limits, router: Router::new(), stopping, _slot: slot });
        let bytes = size_of_val(&task);
        assert!(bytes <= 2048, "{bytes}");
    }
}
