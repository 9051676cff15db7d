//! Options of a store in Redis, and the clients made from them.

pub(crate) mod acl;
pub(crate) mod address;

use std::{fs, path::PathBuf, time::Duration};

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};
use rustls::crypto::CryptoProvider;

use self::address::{ServerAddress, without_brackets};
use crate::secret::Secret;

/// Half as long as a bucket remembers its writers.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(300);

/// How to reach a Redis, and how long to wait for it. Start from [`RedisOptions::default`].
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// `redis://[user[:password]@]host[:port][/database]`, or `rediss://…` for TLS. It replaces all
    /// single parts below, down to `tls`.
    pub url: Option<Secret>,
    /// Default `localhost`.
    pub host: String,
    /// Default 6379.
    pub port: u16,
    /// An ACL user; none: the default user.
    pub username: Option<String>,
    /// None: no authentication.
    pub password: Option<Secret>,
    /// Default 0.
    pub database: i64,
    /// Default false.
    pub tls: bool,
    /// A PEM file of CA certificates to trust instead of the public ones. Only with TLS.
    pub tls_ca: Option<PathBuf>,
    /// Whether this is a Redis Cluster, which has a layout of its own. Default false.
    pub cluster: bool,
    /// A few nodes of the cluster as `host:port`; the rest are discovered. None: what the URL or host and port
    /// name.
    pub nodes: Vec<String>,
    /// How many replicas must have what is written or deleted before it counts as done. Default 0: none. It costs
    /// a round trip to the replicas, and two more where an earlier try turns out to have done it.
    pub wait_replicas: u32,
    /// The prefix of all keys, before a colon. Default `rr:memory`, the original's.
    pub key_prefix: String,
    /// How long a transaction may take, with its retries and reconnects. Default 1 s.
    pub store_timeout: Duration,
    /// Consecutive failed transactions before requests to Redis are suspended for a while. Default 3.
    pub breaker_failures: u32,
    /// How long they are suspended at first; this doubles, up to ten times as long. Default 500 ms.
    pub breaker_cooldown: Duration,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            url: None,
            host: "localhost".into(),
            port: 6379,
            username: None,
            password: None,
            database: 0,
            tls: false,
            tls_ca: None,
            cluster: false,
            nodes: Vec::new(),
            wait_replicas: 0,
            key_prefix: "rr:memory".into(),
            store_timeout: Duration::from_secs(1),
            breaker_failures: 3,
            breaker_cooldown: Duration::from_millis(500),
        }
    }
}

/// Why a store can't be made of these options. The text holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisOptionsError {
    /// No host.
    #[error("redis_host is empty: set it to the Redis server's host, or set redis_url")]
    NoHost,
    /// The URL can't be read.
    #[error("redis_url is not a Redis URL: redis://[user[:password]@]host[:port][/database], or rediss:// for TLS")]
    Url,
    /// The client refuses the whole.
    #[error("invalid Redis settings: {0}")]
    Client(String),
    /// None at all, or so long that a retry could outlive what recognises it.
    #[error("store_timeout_ms must be 1 to 300000 (five minutes)")]
    Timeout,
    /// The certificates can't be used.
    #[error("redis_tls_ca: {0}")]
    TlsCa(String),
    /// A node's address is not valid.
    #[error("redis_nodes: {0:?} is not a valid address: use host:port, with a port from 1 to 65535")]
    Node(String),
    /// Nodes without a cluster.
    #[error("redis_nodes requires redis_cluster: set it to true, or use redis_host and redis_port for a single server")]
    NodesOfNoCluster,
    /// A cluster has one database.
    #[error("a Redis Cluster has only database 0: leave redis_database unset")]
    Database,
    /// A prefix that would not stay one.
    #[error(
        "key_prefix must be 1-200 printable ASCII characters without spaces, quotes, braces or glob characters, and no \
         part of it may begin with @"
    )]
    Prefix,
}

const PEM_BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Refuses what would not stay a prefix.
pub(crate) fn check_key_prefix(prefix: &str) -> Result<(), RedisOptionsError> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"{}*?[]\\\"'".contains(&byte);
    // Where another store with a shorter prefix keeps its users.
    let is_within = prefix.split(':').any(|part| part.starts_with('@'));
    let is_prefix = (1..=200).contains(&prefix.len()) && prefix.bytes().all(plain) && !is_within;
    if is_prefix { Ok(()) } else { Err(RedisOptionsError::Prefix) }
}

impl RedisOptions {
    /// Checks them all, and makes of them what connects.
    pub(crate) fn build_clients(&self) -> Result<ClientFactory, RedisOptionsError> {
        if self.store_timeout.is_zero() || self.store_timeout > MAX_TIMEOUT {
            return Err(RedisOptionsError::Timeout);
        }
        check_key_prefix(&self.key_prefix)?;
        let info = self.connection_info()?;
        if self.cluster && info.redis_settings().db() != 0 {
            return Err(RedisOptionsError::Database);
        }
        if !self.cluster && !self.nodes.is_empty() {
            return Err(RedisOptionsError::NodesOfNoCluster);
        }
        let parse = |node: &String| node.parse().map_err(|()| RedisOptionsError::Node(node.clone()));
        let mut seeds = self.nodes.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if seeds.is_empty() {
            seeds.push(to_server_address(info.addr()));
        }
        let clients = ClientFactory { certificates: self.certificates(&info)?, info, seeds };
        clients.single_client()?;
        Ok(clients)
    }

    /// Where the servers are, for people: never for a component, and without user and password. None: the options are
    /// wrong.
    pub fn place(&self) -> Option<String> {
        let clients = self.build_clients().ok()?;
        let seeds: Vec<_> = clients.seeds().iter().map(ToString::to_string).collect();
        Some(format!("{} at {}", if self.cluster { "Redis Cluster" } else { "Redis" }, seeds.join(", ")))
    }

    fn certificates(&self, info: &ConnectionInfo) -> Result<Option<TlsCertificates>, RedisOptionsError> {
        let is_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        if is_tls && CryptoProvider::get_default().is_none() {
            // Without one rustls panics. That somebody else was quicker is fine, too.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let Some(file) = &self.tls_ca else { return Ok(None) };
        if !is_tls {
            return Err(RedisOptionsError::TlsCa("it requires redis_tls or a rediss:// URL".into()));
        }
        let pem = fs::read(file).map_err(|error| self.unusable_ca(&error))?;
        if !pem.windows(PEM_BEGIN.len()).any(|window| window == PEM_BEGIN) {
            return Err(self.unusable_ca(&"it contains no PEM certificate"));
        }
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem) };
        Client::build_with_tls(info.clone(), certificates.clone())
            .map_err(|error| self.unusable_ca(&error.category()))?;
        Ok(Some(certificates))
    }

    fn unusable_ca(&self, why: &dyn std::fmt::Display) -> RedisOptionsError {
        let file = self.tls_ca.as_deref().unwrap_or("".as_ref());
        RedisOptionsError::TlsCa(format!("can't use {}: {why}", file.display()))
    }

    fn connection_info(&self) -> Result<ConnectionInfo, RedisOptionsError> {
        let info = match &self.url {
            Some(url) => url.expose().into_connection_info().map_err(|_| RedisOptionsError::Url)?,
            None => self.info_of_parts()?,
        };
        // One command less that the user must be allowed.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(info.set_redis_settings(settings))
    }

    fn info_of_parts(&self) -> Result<ConnectionInfo, RedisOptionsError> {
        // A cluster's nodes stand for host and port; each gets the address that is its own.
        let first = self.nodes.first().and_then(|node| node.parse().ok());
        let ServerAddress { host, port } =
            first.unwrap_or(ServerAddress { host: self.host.trim().to_owned(), port: self.port });
        // As people write an IPv6 address.
        let host = without_brackets(&host).to_owned();
        if host.is_empty() {
            return Err(RedisOptionsError::NoHost);
        }
        let info = (host.as_str(), port)
            .into_connection_info()
            .map_err(|error| RedisOptionsError::Client(error.category().to_owned()))?;
        let mut settings = info.redis_settings().clone().set_db(self.database);
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password.expose());
        }
        let info = info.set_redis_settings(settings);
        if !self.tls {
            return Ok(info);
        }
        let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
        Ok(info.set_addr(address))
    }
}

/// What connects to servers, all with the same settings.
pub(crate) struct ClientFactory {
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
    /// Where somebody is known to be: at least one.
    seeds: Vec<ServerAddress>,
}

impl ClientFactory {
    /// Whom they log in as, and where.
    pub(crate) fn connection_settings(&self) -> &RedisConnectionInfo {
        self.info.redis_settings()
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    pub(crate) fn seeds(&self) -> &[ServerAddress] {
        &self.seeds
    }

    /// For the one server that the options name.
    pub(crate) fn single_client(&self) -> Result<(ServerAddress, Client), RedisOptionsError> {
        Ok((to_server_address(self.info.addr()), self.client(self.info.clone())?))
    }

    pub(crate) fn client_for(&self, address: &ServerAddress) -> Result<Client, RedisOptionsError> {
        let ServerAddress { host, port } = address.clone();
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.client(self.info.clone().set_addr(addr))
    }

    fn client(&self, info: ConnectionInfo) -> Result<Client, RedisOptionsError> {
        match self.certificates.clone() {
            Some(certificates) => Client::build_with_tls(info, certificates),
            None => Client::open(info),
        }
        .map_err(|error| RedisOptionsError::Client(error.category().to_owned()))
    }
}

fn to_server_address(addr: &ConnectionAddr) -> ServerAddress {
    let (host, port) = match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host.as_str(), *port),
        // A socket in the file system has neither, and needs none.
        _ => ("localhost", 0),
    };
    ServerAddress { host: host.to_owned(), port }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_ipv6_address_with_or_without_brackets() {
        let seeds = |options: RedisOptions| options.build_clients().unwrap().seeds().to_vec();
        for host in ["::1", "[::1]", " [::1] "] {
            let options = RedisOptions { host: host.into(), port: 7000, ..RedisOptions::default() };
            assert_eq!(seeds(options), [ServerAddress { host: "::1".into(), port: 7000 }], "{host}");
        }
        let url = RedisOptions { url: Some("redis://[::1]:7000".into()), ..RedisOptions::default() };
        assert_eq!(seeds(url), [ServerAddress { host: "::1".into(), port: 7000 }]);
    }
}
