//! The host's own fields: one table that everything else follows.
//!
//! A field is added in [`host_fields!`] below and nowhere else: parsing, ranges, errors, `keepline config`
//! and its help all read the table. What is not in it belongs to the filter, which knows its own rules.

use super::{Field, Kind, Preset, Setting, field::Typed};
use crate::{plugin::PluginLimits, store::Secret};

macro_rules! host_fields {
    ($( #[doc = $about:literal] $name:ident: $type:ty = $default:expr, $kind:expr; )+) => {
        /// The values of the host's fields, checked.
        #[derive(Debug, Clone)]
        pub struct HostFields {
            $( #[doc = $about] pub $name: $type, )+
        }

        /// The host's fields, in the order in which they are shown.
        pub static FIELDS: &[Field] = &[
            $( Field { name: stringify!($name), kind: $kind, default: $default, about: $about.trim_ascii() }, )+
        ];

        impl HostFields {
            /// None: a row of the table has a type that its kind does not yield. A test rules it out.
            pub(super) fn collect<'a>(value: impl Fn(&str) -> Option<&'a Setting>) -> Option<Self> {
                Some(Self { $( $name: Typed::typed(value(stringify!($name))?)?, )+ })
            }
        }
    };
}

const HOUR_MS: u64 = 3_600_000;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

host_fields! {
    /// Where sessions are kept: in this process ("memory"), in a directory, or in Redis.
    backend: String = Preset::Text("memory"), Kind::Choice(&["redis", "memory", "directory"]);
    /// Backend "directory": its path. Created if missing; several processes of one machine can share it.
    directory: String = Preset::Text(""), Kind::Text;
    /// Backend "directory": sync writes in groups, each by itself, or never, which a power cut can undo.
    directory_sync: String = Preset::Text("group"), Kind::Choice(&["group", "always", "off"]);
    /// Backend "directory": maximum size of the database (bytes).
    directory_max_bytes: u64 = Preset::Number(64 * GIB), Kind::Number { min: MIB, max: 16_384 * GIB };
    /// Redis server: host name or address.
    redis_host: String = Preset::Text("localhost"), Kind::Text;
    /// Redis server: port.
    redis_port: u64 = Preset::Number(6379), Kind::Number { min: 1, max: 65_535 };
    /// Redis server: password. Empty: none.
    redis_password: Secret = Preset::Text(""), Kind::Secret;
    /// Redis server: ACL user. Empty: the default user.
    redis_username: String = Preset::Text(""), Kind::Text;
    /// Redis server: number of the database.
    redis_database: u64 = Preset::Number(0), Kind::Number { min: 0, max: 1_000_000 };
    /// Redis server: encrypt the connection.
    redis_tls: bool = Preset::Flag(false), Kind::Flag;
    /// Redis server: PEM file of the CA certificates to trust instead of the public ones. Empty: the public ones.
    redis_tls_ca: String = Preset::Text(""), Kind::Text;
    /// Redis server as one URL, redis://user:password@host:port/database (rediss:// for TLS), instead of host and port.
    redis_url: Secret = Preset::Text(""), Kind::Url;
    /// Whether Redis is a Redis Cluster; its keys are then spread over 4096 hash tags.
    redis_cluster: bool = Preset::Flag(false), Kind::Flag;
    /// Redis Cluster: a few of its nodes as host:port, instead of host and port; the rest are discovered.
    redis_nodes: Vec<String> = Preset::Text(""), Kind::List;
    /// Redis: how many replicas must have what an entry writes before it counts as stored.
    redis_wait_replicas: u64 = Preset::Number(0), Kind::Number { min: 0, max: 100 };
    /// Prefix of all keys in Redis: one per tenant, and none that is another one followed by a colon and more.
    key_prefix: String = Preset::Text("rr:memory"), Kind::Text;
    /// How long an entry may wait in total: for an instance, and for the store including retries and reconnects (ms).
    store_timeout_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 300_000 };
    /// Consecutive failed transactions after which requests to the store are suspended for a while.
    breaker_failures: u64 = Preset::Number(3), Kind::Number { min: 1, max: 1_000_000 };
    /// How long they are suspended at first (ms); this doubles, up to ten times as long.
    breaker_cooldown_ms: u64 = Preset::Number(500), Kind::Number { min: 1, max: HOUR_MS };
    /// How long the store is left idle before it is probed, so that a circuit breaker closes without an entry (ms); 0: never.
    probe_interval_ms: u64 = Preset::Number(10_000), Kind::Number { min: 0, max: HOUR_MS };
    /// Whether to start only if the store can be used; without it, entries pass without memory until it can be.
    require_store: bool = Preset::Flag(false), Kind::Flag;
    /// What to do with an entry when the store fails: forward it unchanged, or fail it.
    on_store_error: String = Preset::Text("forward"), Kind::Choice(&["forward", "fail"]);
    /// Largest entry that is passed to the filter (bytes). A larger one is forwarded unchanged.
    max_entry_bytes: u64 = Preset::Number(4 * MIB), Kind::Number { min: 1, max: GIB };
    /// Instances of the filter, which is how many entries are served at a time; at least one per pipe of keepline run.
    max_instances: u64 = Preset::Number(256), Kind::Number { min: 1, max: 1_000_000 };
    /// How many entries may wait for an instance; further ones are forwarded unchanged.
    max_waiting: u64 = Preset::Number(4096), Kind::Number { min: 0, max: 1_000_000 };
    /// How much of its time an entry may wait for an instance (ms); after that it is forwarded unchanged.
    max_wait_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 300_000 };
    /// Backend "memory": maximum number of sessions.
    memory_max_sessions: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Backend "memory": maximum size (bytes).
    memory_max_bytes: u64 = Preset::Number(256 * MIB), Kind::Number { min: 1, max: 1024 * GIB };
    /// Backend "memory": what to do at either maximum: "refuse" the write, or "evict" the sessions used longest ago.
    session_limit_policy: String = Preset::Text("refuse"), Kind::Choice(&["refuse", "evict"]);
    /// How many times in a row a plugin must be stopped before entries are forwarded unchanged for a while.
    plugin_breaker_failures: u64 = Preset::Number(5), Kind::Number { min: 1, max: 1_000_000 };
    /// How long they are at first (ms), before it is tried again; this doubles, up to ten times as long.
    plugin_breaker_cooldown_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: HOUR_MS };
    /// Sandbox: everything that an instance holds: memories, tables, globals and its own state (bytes).
    sandbox_memory_bytes: u64 = Preset::Number(64 * MIB), Kind::Number { min: 2 * MIB, max: 4 * GIB };
    /// Sandbox: everything that all instances hold (bytes); with more, entries are forwarded unchanged.
    sandbox_pool_memory_bytes: u64 = Preset::Number(GIB), Kind::Number { min: 2 * MIB, max: 1024 * GIB };
    /// Sandbox: elements of each of an instance's tables.
    sandbox_table_elements: u64 = Preset::Number(10_000), Kind::Number { min: 1, max: 10_000_000 };
    /// Sandbox: how long the filter may compute for one entry in total, not counting waits for the store (ms).
    sandbox_cpu_ms: u64 = Preset::Number(1000), Kind::Number { min: 10, max: HOUR_MS };
    /// Sandbox: what may be copied out of an instance for one entry: log messages, store calls, the reply (bytes).
    sandbox_copy_bytes: u64 = Preset::Number(32 * MIB), Kind::Number { min: 65_536, max: 4 * GIB };
    /// Sandbox: how many calls to the host one entry may make.
    sandbox_host_calls: u64 = Preset::Number(10_000), Kind::Number { min: 8, max: 1_000_000_000 };
    /// Sandbox: how many store calls one entry may make.
    sandbox_store_calls: u64 = Preset::Number(256), Kind::Number { min: 2, max: 1_000_000 };
    /// Sandbox: how many operations, keys, records and so on all store calls of one entry may have.
    sandbox_store_pieces: u64 = Preset::Number(40_000), Kind::Number { min: 100, max: 1_000_000_000 };
    /// Sandbox: how much one entry may read from the store (bytes).
    sandbox_read_bytes: u64 = Preset::Number(64 * MIB), Kind::Number { min: 65_536, max: 4 * GIB };
    /// Sandbox: how many messages one entry may log; further ones are dropped.
    sandbox_log_lines: u64 = Preset::Number(64), Kind::Number { min: 0, max: 1_000_000 };
    /// Sandbox: entries that an instance serves before it is replaced.
    sandbox_calls_per_instance: u64 = Preset::Number(10_000), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Sandbox: whose entries an instance serves one after the other: everybody's, one tenant's, or one entry alone.
    sandbox_isolation: String = Preset::Text("tenant"), Kind::Choice(&["shared", "tenant", "entry"]);
    /// Plugin: size (bytes).
    plugin_max_bytes: u64 = Preset::Number(PluginLimits::DEFAULT.max_bytes), Kind::Number { min: 1, max: 4 * GIB };
    /// Plugin: levels of components in components.
    plugin_max_nesting: u64 = Preset::Number(PluginLimits::DEFAULT.max_nesting), Kind::Number { min: 1, max: 1000 };
    /// Plugin: core modules.
    plugin_max_modules: u64 = Preset::Number(PluginLimits::DEFAULT.max_modules), Kind::Number { min: 1, max: 1000 };
    /// Plugin: instances of components and core modules, also of nested ones.
    plugin_max_instances: u64 = Preset::Number(PluginLimits::DEFAULT.max_instances), Kind::Number { min: 1, max: 1_000_000 };
    /// Plugin: types, imports, exports and the like, those of a nested component as often as it is instantiated.
    plugin_max_definitions: u64 = Preset::Number(PluginLimits::DEFAULT.max_definitions), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Plugin: linear memories.
    plugin_max_memories: u64 = Preset::Number(PluginLimits::DEFAULT.max_memories), Kind::Number { min: 1, max: 10_000 };
    /// Plugin: tables.
    plugin_max_tables: u64 = Preset::Number(PluginLimits::DEFAULT.max_tables), Kind::Number { min: 1, max: 10_000 };
    /// Plugin: initial elements of its tables.
    plugin_max_table_elements: u64 = Preset::Number(PluginLimits::DEFAULT.max_table_elements), Kind::Number { min: 1, max: 100_000_000 };
    /// Plugin: levels of types in types.
    plugin_max_type_nesting: u64 = Preset::Number(PluginLimits::DEFAULT.max_type_nesting), Kind::Number { min: 1, max: 100 };
    /// Plugin: parts of a type, written out.
    plugin_max_type_size: u64 = Preset::Number(PluginLimits::DEFAULT.max_type_size), Kind::Number { min: 1, max: 1_000_000 };
    /// Plugin: functions of its core modules, with their types, exports and references in tables.
    plugin_max_functions: u64 = Preset::Number(PluginLimits::DEFAULT.max_functions), Kind::Number { min: 1, max: 1_000_000 };
    /// Plugin: code of one function (bytes).
    plugin_max_function_bytes: u64 = Preset::Number(PluginLimits::DEFAULT.max_function_bytes), Kind::Number { min: 1, max: 8 * MIB };
    /// Plugin: locals of one function.
    plugin_max_locals: u64 = Preset::Number(PluginLimits::DEFAULT.max_locals), Kind::Number { min: 1, max: 50_000 };
    /// Plugin: estimated compile steps for one function.
    plugin_max_function_cost: u64 = Preset::Number(PluginLimits::DEFAULT.max_function_cost), Kind::Number { min: 1, max: u64::MAX };
    /// Plugin: estimated compile steps for all functions.
    plugin_max_cost: u64 = Preset::Number(PluginLimits::DEFAULT.max_cost), Kind::Number { min: 1, max: u64::MAX };
    /// Plugin: processor time of the compiler (ms, counted in whole seconds).
    plugin_compile_ms: u64 = Preset::Number(10_000), Kind::Number { min: 1000, max: HOUR_MS };
    /// Plugin: memory of the compiler (bytes).
    plugin_compile_memory_bytes: u64 = Preset::Number(PluginLimits::DEFAULT.compile_memory_bytes), Kind::Number { min: 64 * MIB, max: 1024 * GIB };
    /// Where compiled plugins are cached: a directory, "default" or "off".
    cache_dir: String = Preset::Text("default"), Kind::Text;
    /// How tokens of what is said in conversations are counted: estimated, or with the vocabulary of a family of models.
    token_counter: String = Preset::Text("estimate"), Kind::Choice(&["estimate", "cl100k_base", "o200k_base"]);
    /// Who writes summaries and titles: nobody (digests and first messages stand in for them), or an OpenAI-compatible server.
    model: String = Preset::Text("none"), Kind::Choice(&["none", "openai"]);
    /// Model "openai": the base URL of the API, for example http://localhost:11434/v1.
    model_url: String = Preset::Text(""), Kind::Text;
    /// Model "openai": the name that the server knows the model by.
    model_name: String = Preset::Text(""), Kind::Text;
    /// Model "openai": the API key. Best given as KEEPLINE_MODEL_KEY in the environment. Empty: none.
    model_key: Secret = Preset::Text(""), Kind::Secret;
    /// Model "openai": how long it may take for a summary or a title, retries included (ms).
    model_timeout_ms: u64 = Preset::Number(60_000), Kind::Number { min: 1, max: HOUR_MS };
    /// Model "openai": how many times a request is repeated that failed in a way that may pass by itself.
    model_retries: u64 = Preset::Number(2), Kind::Number { min: 0, max: 100 };
    /// Who makes embeddings, by which recall finds what shares no word with a question: nobody, or an OpenAI-compatible server.
    embedding: String = Preset::Text("none"), Kind::Choice(&["none", "openai"]);
    /// Embedding "openai": the base URL of the API, for example http://localhost:11434/v1.
    embedding_url: String = Preset::Text(""), Kind::Text;
    /// Embedding "openai": the name that the server knows the model by.
    embedding_name: String = Preset::Text(""), Kind::Text;
    /// Embedding "openai": the API key. Best given as KEEPLINE_EMBEDDING_KEY in the environment. Empty: none.
    embedding_key: Secret = Preset::Text(""), Kind::Secret;
    /// Embedding "openai": how long it may take for up to 64 passages, retries included (ms).
    embedding_timeout_ms: u64 = Preset::Number(30_000), Kind::Number { min: 1, max: HOUR_MS };
    /// Embedding "openai": how many times a request is repeated that failed in a way that may pass by itself.
    embedding_retries: u64 = Preset::Number(2), Kind::Number { min: 0, max: 100 };
    /// How long a question waits for its embedding before it goes on without (ms); 0: not at all.
    embedding_wait_ms: u64 = Preset::Number(150), Kind::Number { min: 0, max: 300_000 };
    /// Embedding "openai": how many dimensions the server is asked for; 0: the model's own. The first 256 are kept.
    embedding_dimensions: u64 = Preset::Number(0), Kind::Number { min: 0, max: 4096 };
    /// Deferred work: a directory to which a session is exported before its oldest turns are removed. Empty: they are not kept.
    archive_dir: String = Preset::Text(""), Kind::Text;
    /// Deferred work: summaries, titles and the like that are done at a time.
    maintenance_concurrency: u64 = Preset::Number(4), Kind::Number { min: 1, max: 1024 };
    /// Deferred work: how many may wait or be at work; one more is dropped, and due again at the session's next answer.
    maintenance_max_tasks: u64 = Preset::Number(256), Kind::Number { min: 0, max: 1_000_000 };
}

/// The field of that name.
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;

    #[test]
    fn every_default_and_preset_is_allowed_by_its_own_field() {
        for row in FIELDS {
            assert!(row.accept(&row.default.json()).is_some(), "{}", row.name);
        }
        for (name, preset) in Profile::ALL.iter().flat_map(|profile| profile.presets()) {
            if let Some(row) = field(name) {
                assert!(row.accept(&preset.json()).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_row_yields_the_type_that_its_member_has() {
        let defaults: Vec<(&str, Setting)> =
            FIELDS.iter().map(|row| (row.name, row.accept(&row.default.json()).unwrap())).collect();
        let found = HostFields::collect(|name| defaults.iter().find(|(of, _)| *of == name).map(|(_, value)| value));
        assert!(found.is_some());
    }
}
