//! Opens the stores under test.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Result;
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
    pub unsynced: Arc<dyn Store>,
}

/// Memory, a directory and, where it is installed, Redis.
pub struct Stores {
    pub all: Vec<Tested>,
    pub server: Option<RedisServer>,
    _directory: TempDir,
}

impl Stores {
    /// A directory below `parent`.
    pub fn open(parent: &Path) -> Result<Self> {
        let directory = tempfile::tempdir_in(parent)?;
        let limits = MemoryLimits { max_sessions: 2_000_000, max_bytes: 8 << 30, ..MemoryLimits::default() };
        let memory = Arc::new(MemoryStore::new(limits));
        let mut all = vec![
            Tested { name: "memory", store: memory.clone(), unsynced: memory },
            Tested {
                name: "directory",
                store: open_directory(directory.path(), DirectorySync::default())?,
                unsynced: open_directory(directory.path(), DirectorySync::Off)?,
            },
        ];
        let server = if RedisServer::is_installed() { Some(RedisServer::start()?) } else { None };
        if let Some(server) = &server {
            let redis = open_redis(server)?;
            all.push(Tested { name: "Redis", store: redis.clone(), unsynced: redis });
        }
        Ok(Self { all, server, _directory: directory })
    }
}

/// Even 64 conversations that sync each by itself, on a slow disk, are measured and not cut short.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn open_directory(path: &Path, sync: DirectorySync) -> Result<Arc<DirectoryStore>> {
    let options = DirectoryOptions { sync, timeout: PATIENCE, ..DirectoryOptions::default() };
    Ok(Arc::new(DirectoryStore::open(path, options)?))
}

pub fn open_redis(server: &RedisServer) -> Result<Arc<RedisStore>> {
    Ok(Arc::new(RedisStore::new(redis_options(server))?))
}

pub fn redis_options(server: &RedisServer) -> RedisOptions {
    RedisOptions { host: "127.0.0.1".into(), port: server.port(), ..RedisOptions::default() }
}

/// A connection that knows nothing of Keepline.
pub async fn connect(server: &RedisServer) -> Result<MultiplexedConnection> {
    Ok(redis::Client::open(server.url())?.get_multiplexed_async_connection().await?)
}

/// Options of the filter: sessions live for a day, as with the profile `redis`.
pub const A_DAY: &str = r#"{"session_ttl_hours": 24}"#;

/// A Keepline over that store. `filter` are the filter's options.
pub async fn keepline(plugin: &Plugin, store: &Arc<dyn Store>, filter: impl Into<String>) -> Result<Keepline> {
    let mut options = Options::default();
    (options.entry_timeout, options.filter) = (PATIENCE, filter.into());
    Ok(Keepline::new(plugin.clone(), store.clone(), options).await?)
}
