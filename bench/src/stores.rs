//! Opens the stores under test.

use std::sync::Arc;

use anyhow::{Context, Result};
use keepline::{
    Keepline, Options, Plugin,
    store::{
        DirectoryOptions, DirectoryStore, DirectorySync, MemoryLimits, MemoryStore, RedisOptions, RedisStore, Store,
    },
};
use keepline_local_redis::RedisServer;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

/// A store under test.
pub struct Tested {
    pub name: &'static str,
    pub store: Arc<dyn Store>,
    /// The same store without syncs, for filling it.
    pub unsafely: Arc<dyn Store>,
}

/// Memory, a directory and, where it is installed, Redis.
pub struct Stores {
    pub all: Vec<Tested>,
    pub server: Option<RedisServer>,
    _directory: TempDir,
}

impl Stores {
    pub fn open() -> Result<Self> {
        let directory = tempfile::tempdir().context("can't make a directory")?;
        let in_directory = |sync| {
            let options = DirectoryOptions { sync, ..DirectoryOptions::default() };
            DirectoryStore::open(directory.path(), options).map(Arc::new)
        };
        let limits = MemoryLimits { max_sessions: 1_000_000, max_bytes: 8 << 30, ..MemoryLimits::default() };
        let memory = Arc::new(MemoryStore::new(limits));
        let mut all = vec![
            Tested { name: "memory", store: memory.clone(), unsafely: memory },
            Tested {
                name: "directory",
                store: in_directory(DirectorySync::default())?,
                unsafely: in_directory(DirectorySync::Off)?,
            },
        ];
        let server = if RedisServer::is_installed() { Some(RedisServer::start()?) } else { None };
        if let Some(server) = &server {
            let redis = Arc::new(RedisStore::new(redis_options(server))?);
            all.push(Tested { name: "Redis", store: redis.clone(), unsafely: redis });
        }
        Ok(Self { all, server, _directory: directory })
    }
}

/// A Keepline over that store. `filter` are the filter's options.
pub async fn keepline(plugin: &Plugin, store: &Arc<dyn Store>, filter: impl Into<String>) -> Result<Keepline> {
    let mut options = Options::default();
    options.filter = filter.into();
    Ok(Keepline::new(plugin.clone(), store.clone(), options).await?)
}

/// Options of the filter: sessions live for a day, as with the profile `redis`.
pub const A_DAY: &str = r#"{"session_ttl_hours": 24}"#;

/// A Keepline over a server, and a bare connection to it.
pub async fn connect(plugin: &Plugin, server: &RedisServer, filter: &str) -> Result<(Keepline, MultiplexedConnection)> {
    let store: Arc<dyn Store> = Arc::new(RedisStore::new(redis_options(server))?);
    let client = redis::Client::open(server.url())?;
    Ok((keepline(plugin, &store, filter).await?, client.get_multiplexed_async_connection().await?))
}

pub fn redis_options(server: &RedisServer) -> RedisOptions {
    RedisOptions { host: "127.0.0.1".into(), port: server.port(), ..RedisOptions::default() }
}
