//! Makes the store, the sandbox and the options that a configuration describes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Config, Setting, fields::HostFields, neurolink};
use crate::{
    keepline::options::{OnStoreError, Options},
    maintenance::MaintenanceOptions,
    pipelines::{AssemblyOptions, Owner},
    sandbox::{CodeCache, Compiler, Isolation, PluginLimits, Sandbox},
    store::{
        BreakerOptions, Deadline, DirectoryError, DirectoryOptions, DirectoryStore, DirectorySync, Failure,
        MemoryLimits, MemoryStore, RedisOptions, RedisOptionsError, RedisStore, Secret, SessionLimitPolicy, Store,
        kind,
    },
};

/// Why a configuration makes no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The options of Redis make no sense together.
    #[error(transparent)]
    Redis(#[from] RedisOptionsError),
    /// The directory can't be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

#[allow(clippy::multiple_inherent_impl, reason = "methods of the same room's type, by what they are for")]
impl Config {
    /// What the plugin may use of the machine. It is compiled in this process, unless the caller changes that.
    pub fn sandbox(&self) -> Sandbox {
        let host = &self.host;
        Sandbox {
            memory_bytes: size(host.sandbox_memory_bytes),
            pool_memory_bytes: size(host.sandbox_pool_memory_bytes),
            table_elements: size(host.sandbox_table_elements),
            cpu_time: Duration::from_millis(host.sandbox_cpu_ms),
            copy_bytes: size(host.sandbox_copy_bytes),
            host_calls_per_entry: count(host.sandbox_host_calls),
            store_calls_per_entry: count(host.sandbox_store_calls),
            store_pieces_per_entry: count(host.sandbox_store_pieces),
            read_bytes_per_entry: size(host.sandbox_read_bytes),
            log_lines_per_entry: count(host.sandbox_log_lines),
            calls_per_instance: host.sandbox_calls_per_instance,
            isolation: match host.sandbox_isolation.as_str() {
                "shared" => Isolation::Shared,
                "entry" => Isolation::Entry,
                _ => Isolation::Tenant,
            },
            plugin: self.plugin_limits(),
            compiler: Compiler::InProcess,
            cache: match host.cache_dir.as_str() {
                "" | "default" => CodeCache::Default,
                "off" => CodeCache::Off,
                path => CodeCache::At(PathBuf::from(path)),
            },
        }
    }

    fn plugin_limits(&self) -> PluginLimits {
        let host = &self.host;
        PluginLimits {
            max_bytes: host.plugin_max_bytes,
            max_definitions: host.plugin_max_definitions,
            max_type_nesting: host.plugin_max_type_nesting,
            max_type_size: host.plugin_max_type_size,
            max_function_cost: host.plugin_max_function_cost,
            max_cost: host.plugin_max_cost,
            compile_time: Duration::from_millis(host.plugin_compile_ms),
            compile_memory_bytes: host.plugin_compile_memory_bytes,
        }
    }

    /// How entries are treated, and what the filter is configured with.
    pub fn options(&self) -> Options {
        let host = &self.host;
        Options {
            filter: self.filter_options(),
            on_store_error: if host.on_store_error == "fail" { OnStoreError::Fail } else { OnStoreError::Forward },
            max_entry_bytes: size(host.max_entry_bytes),
            max_instances: count(host.max_instances),
            max_waiting: size(host.max_waiting),
            max_wait: Duration::from_millis(host.max_wait_ms),
            entry_timeout: Duration::from_millis(host.store_timeout_ms),
            require_store: host.require_store,
            embedding_wait: Duration::from_millis(host.embedding_wait_ms),
            probe_interval: (host.probe_interval_ms > 0).then(|| Duration::from_millis(host.probe_interval_ms)),
            plugin_breaker: BreakerOptions {
                failures: count(host.plugin_breaker_failures),
                cooldown: Duration::from_millis(host.plugin_breaker_cooldown_ms),
            },
            ..Options::default()
        }
    }

    /// Which memories contribute to questions; none: no memory does.
    pub fn assembly(&self) -> Option<AssemblyOptions> {
        let HostFields { project, tenant, assemble, assemble_tokens, .. } = &self.host;
        if assemble.is_empty() {
            return None;
        }
        let mut options = AssemblyOptions::new(Owner::project(project));
        options.tenant.clone_from(tenant);
        options.max_tokens = count(*assemble_tokens);
        for name in assemble {
            match (name.strip_prefix("rules/"), &mut options.rule_engines) {
                (Some("*"), engines) => *engines = None,
                (Some(id), Some(engines)) => engines.push(id.to_owned()),
                (Some(_), None) => {}
                (None, _) => options.memories.push(name.clone()),
            }
        }
        Some(options)
    }

    /// How deferred work is done.
    pub fn maintenance_options(&self) -> MaintenanceOptions {
        let host = &self.host;
        let embedding_timeout_ms = if host.embedding == "none" { 0 } else { host.embedding_timeout_ms };
        MaintenanceOptions {
            concurrency: size(host.maintenance_concurrency),
            max_tasks: size(host.maintenance_max_tasks),
            model_timeout: Duration::from_millis(host.model_timeout_ms.max(embedding_timeout_ms)),
            ..MaintenanceOptions::default()
        }
    }

    /// How much the memory backend takes.
    pub fn memory_limits(&self) -> MemoryLimits {
        let host = &self.host;
        MemoryLimits {
            max_sessions: host.memory_max_sessions,
            max_bytes: host.memory_max_bytes,
            session_limit_policy: match host.session_limit_policy.as_str() {
                "evict" => SessionLimitPolicy::Evict,
                _ => SessionLimitPolicy::Refuse,
            },
        }
    }

    /// How the directory is used.
    pub fn directory_options(&self) -> DirectoryOptions {
        let host = &self.host;
        DirectoryOptions {
            sync: match host.directory_sync.as_str() {
                "always" => DirectorySync::Always,
                "off" => DirectorySync::Off,
                _ => DirectorySync::Group,
            },
            max_bytes: host.directory_max_bytes,
            timeout: Duration::from_millis(host.store_timeout_ms),
            ..DirectoryOptions::default()
        }
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

    /// The store. Redis is connected to when it is first needed, not here; a directory is opened, and created if need be,
    /// which waits for the disk.
    ///
    /// # Errors
    /// When the options of Redis make no sense together, or the directory can't be used.
    pub fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self.host.backend.as_str() {
            "redis" => Arc::new(RedisStore::new(self.redis_options())?),
            "directory" => Arc::new(DirectoryStore::open(&self.host.directory, self.directory_options())?),
            _ => Arc::new(MemoryStore::new(self.memory_limits())),
        })
    }

    /// Whether earlier versions would have used another key prefix: that of `REDIS_KEY_PREFIX` itself. Then
    /// [`Self::settle_key_prefix`] decides.
    pub fn has_earlier_key_prefix(&self) -> bool {
        self.is_redis() && self.earlier_key_prefix().is_some()
    }

    fn earlier_key_prefix(&self) -> Option<String> {
        neurolink::earlier_key_prefix(&self.host.key_prefix, &self.origin("key_prefix")).map(str::to_owned)
    }

    /// Goes on with the key prefix that earlier versions made of `REDIS_KEY_PREFIX`, if sessions lie there: so they stay
    /// where they are, and new deployments keep clear of NeuroLink's own keys.
    ///
    /// # Errors
    /// When Redis can't be asked. The earlier prefix is used then, so that no memory seems lost.
    pub async fn settle_key_prefix(&mut self) -> Result<(), Failure> {
        let Some(earlier) = self.earlier_key_prefix().filter(|_| self.is_redis()) else { return Ok(()) };
        let options = RedisOptions { key_prefix: earlier.clone(), ..self.redis_options() };
        let deadline = Deadline::after(options.store_timeout);
        // Inconsistent options are reported where the store is made.
        let Ok(store) = RedisStore::new(options) else { return Ok(()) };
        let mut cursor = String::new();
        let found = loop {
            match store.list_buckets(kind::SESSION, &cursor, 100, deadline).await {
                Ok(page) if page.names.is_empty() && !page.cursor.is_empty() => cursor = page.cursor,
                found => break found.map(|page| !page.names.is_empty()),
            }
        };
        if *found.as_ref().unwrap_or(&true) {
            self.settings.insert("key_prefix", (Setting::Text(earlier.clone()), self.origin("key_prefix")));
            self.host.key_prefix = earlier;
        }
        found.map(drop)
    }

    /// The directory that sessions are kept in; none: another backend is chosen.
    pub fn directory(&self) -> Option<&Path> {
        (self.host.backend == "directory").then_some(Path::new(&self.host.directory))
    }

    /// Whether sessions are kept in Redis.
    pub fn is_redis(&self) -> bool {
        self.host.backend == "redis"
    }

    /// Whether sessions outlive the process.
    pub fn is_durable(&self) -> bool {
        self.host.backend != "memory"
    }
}

/// A 32-bit machine has no more than this.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
