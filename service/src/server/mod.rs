//! The server: makes a router of the table of routes, and serves it within limits.

mod conditions;
mod connections;
mod dispatch;
mod request_log;
mod stalled_writes;
mod tls;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use axum::Router;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    time,
};
use tokio_rustls::TlsAcceptor;

use self::connections::ConnectionLimits;
use crate::{
    access::{KeyRing, OriginPolicy},
    metrics::RequestCounters,
    tenants::{Backend, Tenants},
};

/// How long sockets may take to end with the service.
const SOCKETS_END: Duration = Duration::from_secs(5);

/// How a service is run.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// The keys that it takes; none are asked for by default, which only an address on loopback allows.
    pub keys: Arc<KeyRing>,
    /// Names by which it may be reached, beside those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may call it, beside its own: `https://app.example`.
    pub allowed_origins: Vec<String>,
    /// Certificate and key, PEM; none: no encryption.
    pub tls: Option<TlsFiles>,
    /// The most bytes of a request's body, decompressed: 16 MiB by default.
    pub body_limit: usize,
    /// How long a request may take, its body included: 30 s by default. Streams may go on.
    pub request_timeout: Duration,
    /// How long a connection may take for a request's head, or wait for the next request: 75 s by default.
    pub header_timeout: Duration,
    /// How long a reader may take nothing of a reply: 30 s by default.
    pub write_timeout: Duration,
    /// Connections at once, 4,096 by default. More wait to be accepted. As many sockets may be open.
    pub connection_limit: usize,
    /// Requests at work at once, 1,024 by default. More are refused with 503.
    pub request_limit: usize,
    /// How long requests may go on once the service is to stop: 30 s by default.
    pub grace: Duration,
    /// What the store is called in metrics.
    pub store_name: String,
}

/// Where a certificate and its key lie, as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, with those that it is signed by.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            keys: KeyRing::open_to_all(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: None,
            body_limit: 16 << 20,
            request_timeout: Duration::from_secs(30),
            header_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            connection_limit: 4096,
            request_limit: 1024,
            grace: Duration::from_secs(30),
            store_name: String::new(),
        }
    }
}

/// A service that listens.
pub struct Service {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: ConnectionLimits,
    router: Router,
    sockets: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

/// What all requests share.
pub struct Shared {
    tenants: Arc<Tenants>,
    keys: Arc<KeyRing>,
    origins: OriginPolicy,
    body_limit: usize,
    request_timeout: Duration,
    write_timeout: Duration,
    at_work: Arc<Semaphore>,
    sockets: Arc<Semaphore>,
    counters: Arc<RequestCounters>,
    stop: watch::Receiver<bool>,
}

impl Shared {
    fn new(
        backend: Arc<dyn Backend>,
        options: &ServiceOptions,
        origins: OriginPolicy,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            tenants: Arc::new(Tenants::new(backend)),
            keys: options.keys.clone(),
            origins,
            body_limit: options.body_limit,
            request_timeout: options.request_timeout,
            write_timeout: options.write_timeout,
            at_work: Arc::new(Semaphore::new(options.request_limit)),
            sockets: Arc::new(Semaphore::new(options.connection_limit)),
            counters: Arc::new(RequestCounters::new(&options.store_name)),
            stop,
        }
    }
}

impl Service {
    /// Listens at an address.
    ///
    /// # Errors
    /// When that is not possible, when others could reach the service without a key, or the certificate can't be used.
    pub async fn bind(address: SocketAddr, backend: Arc<dyn Backend>, options: ServiceOptions) -> anyhow::Result<Self> {
        let is_local = address.ip().is_loopback();
        if !is_local && !options.keys.asks_for_keys() {
            bail!(
                "others could read and change everything at {address}: listen on loopback (127.0.0.1), or ask for keys \
                 (`keepline key create` makes one, --keys names their file)"
            );
        }
        let policy = if is_local { OriginPolicy::of_loopback } else { OriginPolicy::of_public };
        let (stop, stopping) = watch::channel(false);
        let origins = policy(&options.allowed_hosts, &options.allowed_origins);
        let shared = Shared::new(backend, &options, origins, stopping);
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let listener = TcpListener::bind(address).await.with_context(|| format!("can't listen at {address}"))?;
        let limits = ConnectionLimits {
            connections: options.connection_limit,
            header_timeout: options.header_timeout,
            write_timeout: options.write_timeout,
            grace: options.grace,
        };
        let sockets = shared.sockets.clone();
        Ok(Self { listener, tls, limits, router: dispatch::router(Arc::new(shared))?, sockets, stop })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system can't say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is ready; then no connection is accepted any more, streams end, and what was accepted is finished,
    /// or cut off when the grace period is over.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) {
        let Self { listener, tls, limits, router, sockets, stop: stopping } = self;
        connections::serve(listener, tls, limits, router, stop, stopping).await;
        // A connection that became a socket counts as one no longer.
        let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        let _ = time::timeout(SOCKETS_END, sockets.acquire_many(all)).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
