//! What a configuration makes: a store, a sandbox, options.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::Config;
use crate::{
    options::{OnStoreError, Options},
    sandbox::{CodeCache, Sandbox},
    store::{MemoryLimits, MemoryStore, RedisOptions, RedisOptionsError, RedisStore, Secret, Store},
};

impl Config {
    /// What the plugin may use of the machine.
    pub fn sandbox(&self) -> Sandbox {
        let host = &self.host;
        Sandbox {
            memory_bytes: size(host.sandbox_memory_bytes),
            table_elements: size(host.sandbox_table_elements),
            cpu_time: Duration::from_millis(host.sandbox_cpu_ms),
            copy_bytes: size(host.sandbox_copy_bytes),
            store_calls_per_entry: u32::try_from(host.sandbox_store_calls).unwrap_or(u32::MAX),
            log_lines_per_entry: u32::try_from(host.sandbox_log_lines).unwrap_or(u32::MAX),
            calls_per_instance: host.sandbox_calls_per_instance,
            cache: match host.cache_dir.as_str() {
                "" | "default" => CodeCache::Default,
                "off" => CodeCache::Off,
                path => CodeCache::At(PathBuf::from(path)),
            },
        }
    }

    /// How entries are treated, and what the filter is configured with.
    pub fn options(&self) -> Options {
        let host = &self.host;
        Options {
            filter: self.filter_options(),
            on_store_error: if host.on_store_error == "fail" { OnStoreError::Fail } else { OnStoreError::Forward },
            max_entry_bytes: size(host.max_entry_bytes),
            max_instances: u32::try_from(host.max_instances).unwrap_or(u32::MAX),
            max_waiting: size(host.max_waiting),
            max_wait: Duration::from_millis(host.max_wait_ms),
            entry_timeout: Duration::from_millis(host.store_timeout_ms),
            ..Options::default()
        }
    }

    /// How much the memory backend takes.
    pub fn memory_limits(&self) -> MemoryLimits {
        MemoryLimits { max_sessions: self.host.memory_max_sessions, max_bytes: self.host.memory_max_bytes }
    }

    /// How Redis is reached.
    pub fn redis_options(&self) -> RedisOptions {
        let host = &self.host;
        RedisOptions {
            url: (!host.redis_url.is_empty()).then(|| self.completed_url()),
            host: host.redis_host.trim().to_owned(),
            port: u16::try_from(host.redis_port).unwrap_or(u16::MAX),
            username: (!host.redis_username.is_empty()).then(|| host.redis_username.clone()),
            password: (!host.redis_password.is_empty()).then(|| host.redis_password.clone()),
            database: i64::try_from(host.redis_database).unwrap_or(i64::MAX),
            tls: host.redis_tls,
            tls_ca: (!host.redis_tls_ca.is_empty()).then(|| host.redis_tls_ca.clone().into()),
            cluster: host.redis_cluster,
            nodes: host.redis_nodes.clone(),
            wait_replicas: u32::try_from(host.redis_wait_replicas).unwrap_or(u32::MAX),
            key_prefix: host.key_prefix.clone(),
            store_timeout: Duration::from_millis(host.store_timeout_ms),
            breaker_failures: u32::try_from(host.breaker_failures).unwrap_or(u32::MAX),
            breaker_cooldown: Duration::from_millis(host.breaker_cooldown_ms),
        }
    }

    /// The URL, with what it leaves out taken from the single fields: so a password can travel by itself.
    fn completed_url(&self) -> Secret {
        let host = &self.host;
        let Ok(mut url) = url::Url::parse(host.redis_url.expose()) else { return host.redis_url.clone() };
        // None of these can fail on a URL that has a host, which was checked.
        if url.username().is_empty() && !host.redis_username.is_empty() {
            let _ = url.set_username(&host.redis_username);
        }
        if url.password().is_none() && !host.redis_password.is_empty() {
            let _ = url.set_password(Some(host.redis_password.expose()));
        }
        if url.path().trim_matches('/').is_empty() && host.redis_database != 0 {
            url.set_path(&host.redis_database.to_string());
        }
        if host.redis_tls {
            let _ = url.set_scheme("rediss");
        }
        Secret::new(url)
    }

    /// The store. Redis is connected to when it is first needed, not here.
    ///
    /// # Errors
    /// When the options of Redis make no sense together.
    pub fn store(&self) -> Result<Arc<dyn Store>, RedisOptionsError> {
        if self.is_redis() {
            return Ok(Arc::new(RedisStore::new(self.redis_options())?));
        }
        Ok(Arc::new(MemoryStore::new(self.memory_limits())))
    }

    /// Whether sessions outlive the process.
    pub fn is_redis(&self) -> bool {
        self.host.backend == "redis"
    }
}

/// A 32-bit machine has no more than this.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
