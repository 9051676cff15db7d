//! The host's own fields: one table that everything else follows.
//!
//! A field is added in [`host_fields!`] below and nowhere else: parsing, ranges, errors, `keepline config`
//! and its help all read the table. What is not in it belongs to the filter, which knows its own rules.

use super::{Field, Kind, Preset, Setting, field::FromSetting};
use crate::{sandbox::PluginLimits, store::Secret};

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
                Some(Self { $( $name: FromSetting::from_setting(value(stringify!($name))?)?, )+ })
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
    /// Backend "directory": its path. It is created if missing; several processes on one machine can share it.
    directory: String = Preset::Text(""), Kind::Text;
    /// Backend "directory": whether writes are synced to disk in groups, one by one, or never (a power cut can then undo them).
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
    /// Redis server: database number.
    redis_database: u64 = Preset::Number(0), Kind::Number { min: 0, max: 1_000_000 };
    /// Redis server: encrypt the connection.
    redis_tls: bool = Preset::Flag(false), Kind::Flag;
    /// Redis server: PEM file with the CA certificates to trust instead of the public ones. Empty: the public ones.
    redis_tls_ca: String = Preset::Text(""), Kind::Text;
    /// Redis server as one URL, redis://user:password@host:port/database (rediss:// for TLS), instead of host and port.
    redis_url: Secret = Preset::Text(""), Kind::Url;
    /// Whether Redis is a Redis Cluster. Keys are then spread over 4096 hash tags.
    redis_cluster: bool = Preset::Flag(false), Kind::Flag;
    /// Redis Cluster: a few of its nodes as host:port, instead of host and port; the rest are discovered.
    redis_nodes: Vec<String> = Preset::Text(""), Kind::List;
    /// Redis: how many replicas must have received what an entry writes before it counts as stored.
    redis_wait_replicas: u64 = Preset::Number(0), Kind::Number { min: 0, max: 100 };
    /// Prefix of all keys in Redis: one per tenant. No prefix may be another one followed by a colon and more.
    key_prefix: String = Preset::Text("rr:memory"), Kind::Text;
    /// Pipelines: the project whose definitions and data sets are used.
    project: String = Preset::Text("default"), Kind::Text;
    /// Pipelines: the tenant that ${org_id} names.
    tenant: String = Preset::Text("default"), Kind::Text;
    /// Memories of the project that contribute to each question, in memory_sections: ids, rules/ID for a rule engine that calls for memories, or rules/* for all engines.
    assemble: Vec<String> = Preset::Text(""), Kind::List;
    /// How many tokens they may contribute together.
    assemble_tokens: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 1_000_000 };
    /// Pipelines: items in a step's result, and read by a run.
    pipeline_max_items: u64 = Preset::Number(10_000), Kind::Number { min: 1, max: 100_000 };
    /// Pipelines: bytes that a run reads, and of a step's result.
    pipeline_max_run_bytes: u64 = Preset::Number(16 * MIB), Kind::Number { min: 1, max: 64 * MIB };
    /// Pipelines: reads of a run.
    pipeline_max_reads: u64 = Preset::Number(64), Kind::Number { min: 1, max: 256 };
    /// Pipelines: size of a definition (bytes).
    pipeline_max_definition_bytes: u64 = Preset::Number(256 << 10), Kind::Number { min: 1, max: MIB };
    /// Pipelines: steps of a definition, with those of branches.
    pipeline_max_steps: u64 = Preset::Number(100), Kind::Number { min: 1, max: 1_000 };
    /// Pipelines: levels of steps.
    pipeline_max_levels: u64 = Preset::Number(8), Kind::Number { min: 1, max: 16 };
    /// Pipelines: characters of a rule's pattern.
    pipeline_max_pattern_characters: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 10_000 };
    /// How long an entry may wait in total (ms): for an instance, and for the store with all retries and reconnects.
    store_timeout_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 300_000 };
    /// Consecutive failed transactions after which requests to the store are suspended for a while.
    breaker_failures: u64 = Preset::Number(3), Kind::Number { min: 1, max: 1_000_000 };
    /// How long they are suspended at first (ms). It doubles each time, up to ten times this value.
    breaker_cooldown_ms: u64 = Preset::Number(500), Kind::Number { min: 1, max: HOUR_MS };
    /// How long the store may be idle before it is probed (ms), so that the circuit breaker can close without an entry; 0: never.
    probe_interval_ms: u64 = Preset::Number(10_000), Kind::Number { min: 0, max: HOUR_MS };
    /// Whether to start only if the store can be used. Otherwise, entries pass without memory until it can.
    require_store: bool = Preset::Flag(false), Kind::Flag;
    /// What happens to an entry when the store fails: it is forwarded unchanged, or it fails.
    on_store_error: String = Preset::Text("forward"), Kind::Choice(&["forward", "fail"]);
    /// Largest entry that is passed to the filter (bytes). Larger ones are forwarded unchanged.
    max_entry_bytes: u64 = Preset::Number(4 * MIB), Kind::Number { min: 1, max: GIB };
    /// Maximum number of filter instances, and so of entries served at a time; keepline run has at least one per pipe.
    max_instances: u64 = Preset::Number(256), Kind::Number { min: 1, max: 1_000_000 };
    /// How many entries may wait for an instance. Further ones are forwarded unchanged.
    max_waiting: u64 = Preset::Number(4096), Kind::Number { min: 0, max: 1_000_000 };
    /// How long an entry may wait for an instance, as part of its time (ms). After that, it is forwarded unchanged.
    max_wait_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 300_000 };
    /// Backend "memory": maximum number of sessions.
    memory_max_sessions: u64 = Preset::Number(1000), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Backend "memory": maximum size (bytes).
    memory_max_bytes: u64 = Preset::Number(256 * MIB), Kind::Number { min: 1, max: 1024 * GIB };
    /// Backend "memory": what happens at either maximum: "refuse" the write, or "evict" the least recently used sessions.
    session_limit_policy: String = Preset::Text("refuse"), Kind::Choice(&["refuse", "evict"]);
    /// How many times in a row, or in more than every third call, the plugin is stopped before it is left alone for a while.
    plugin_breaker_failures: u64 = Preset::Number(5), Kind::Number { min: 1, max: 1_000_000 };
    /// How long the plugin is then left alone before it is tried again (ms). It doubles each time, up to ten times this value.
    plugin_breaker_cooldown_ms: u64 = Preset::Number(1000), Kind::Number { min: 1, max: HOUR_MS };
    /// Sandbox: maximum size of an instance (bytes): its memories, tables, globals and own state.
    sandbox_memory_bytes: u64 = Preset::Number(64 * MIB), Kind::Number { min: 2 * MIB, max: 4 * GIB };
    /// Sandbox: maximum size of all instances together (bytes). Beyond it, entries are forwarded unchanged.
    sandbox_pool_memory_bytes: u64 = Preset::Number(GIB), Kind::Number { min: 2 * MIB, max: 1024 * GIB };
    /// Sandbox: maximum number of elements in each table of an instance.
    sandbox_table_elements: u64 = Preset::Number(10_000), Kind::Number { min: 1, max: 10_000_000 };
    /// Sandbox: how long the filter may compute for one entry in total (ms), not counting waits for the store.
    sandbox_cpu_ms: u64 = Preset::Number(1000), Kind::Number { min: 10, max: HOUR_MS };
    /// Sandbox: how much may be copied out of an instance for one entry (bytes): log messages, store calls, the reply.
    sandbox_copy_bytes: u64 = Preset::Number(32 * MIB), Kind::Number { min: 65_536, max: 4 * GIB };
    /// Sandbox: how many calls to the host one entry may make.
    sandbox_host_calls: u64 = Preset::Number(10_000), Kind::Number { min: 8, max: 1_000_000_000 };
    /// Sandbox: how many store calls one entry may make.
    sandbox_store_calls: u64 = Preset::Number(256), Kind::Number { min: 2, max: 1_000_000 };
    /// Sandbox: how many operations, keys, records and the like the store calls of one entry may have in total.
    sandbox_store_pieces: u64 = Preset::Number(40_000), Kind::Number { min: 100, max: 1_000_000_000 };
    /// Sandbox: how much one entry may read from the store (bytes).
    sandbox_read_bytes: u64 = Preset::Number(64 * MIB), Kind::Number { min: 65_536, max: 4 * GIB };
    /// Sandbox: how many messages one entry may log. Further ones are dropped.
    sandbox_log_lines: u64 = Preset::Number(64), Kind::Number { min: 0, max: 1_000_000 };
    /// Sandbox: how many entries an instance serves before it is replaced.
    sandbox_calls_per_instance: u64 = Preset::Number(10_000), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Sandbox: whose entries an instance serves: everybody's, one tenant's, or just one entry.
    sandbox_isolation: String = Preset::Text("tenant"), Kind::Choice(&["shared", "tenant", "entry"]);
    /// Plugin: maximum size (bytes).
    plugin_max_bytes: u64 = Preset::Number(PluginLimits::DEFAULT.max_bytes), Kind::Number { min: 1, max: 4 * GIB };
    /// Plugin: maximum number of types, imports, exports, modules and the like; those of a nested component count for each of its instances.
    plugin_max_definitions: u64 = Preset::Number(PluginLimits::DEFAULT.max_definitions), Kind::Number { min: 1, max: 1_000_000_000 };
    /// Plugin: maximum nesting of types within types.
    plugin_max_type_nesting: u64 = Preset::Number(PluginLimits::DEFAULT.max_type_nesting), Kind::Number { min: 1, max: 100 };
    /// Plugin: maximum number of parts of a type, written out in full.
    plugin_max_type_size: u64 = Preset::Number(PluginLimits::DEFAULT.max_type_size), Kind::Number { min: 1, max: 1_000_000 };
    /// Plugin: maximum number of estimated compile steps for one function.
    plugin_max_function_cost: u64 = Preset::Number(PluginLimits::DEFAULT.max_function_cost), Kind::Number { min: 1, max: u64::MAX };
    /// Plugin: maximum number of estimated compile steps for all functions.
    plugin_max_cost: u64 = Preset::Number(PluginLimits::DEFAULT.max_cost), Kind::Number { min: 1, max: u64::MAX };
    /// Plugin: maximum processor time of the compiler (ms, counted in whole seconds).
    plugin_compile_ms: u64 = Preset::Number(10_000), Kind::Number { min: 1000, max: HOUR_MS };
    /// Plugin: maximum memory of the compiler (bytes).
    plugin_compile_memory_bytes: u64 = Preset::Number(PluginLimits::DEFAULT.compile_memory_bytes), Kind::Number { min: 64 * MIB, max: 1024 * GIB };
    /// Where compiled plugins are cached: a directory, "default" or "off".
    cache_dir: String = Preset::Text("default"), Kind::Text;
    /// How the tokens of conversations are counted: by an estimate, or with the vocabulary of a family of models.
    token_counter: String = Preset::Text("estimate"), Kind::Choice(&["estimate", "cl100k_base", "o200k_base"]);
    /// Who writes summaries and titles: an OpenAI-compatible server, or nobody (digests and first messages are used instead).
    model: String = Preset::Text("none"), Kind::Choice(&["none", "openai"]);
    /// Model "openai": the base URL of the API, for example http://localhost:11434/v1.
    model_url: String = Preset::Text(""), Kind::Text;
    /// Model "openai": the model's name on that server.
    model_name: String = Preset::Text(""), Kind::Text;
    /// Model "openai": the API key, best set as KEEPLINE_MODEL_KEY in the environment. Empty: none.
    model_key: Secret = Preset::Text(""), Kind::Secret;
    /// Model "openai": how long a summary or a title may take, retries included (ms).
    model_timeout_ms: u64 = Preset::Number(60_000), Kind::Number { min: 1, max: HOUR_MS };
    /// Model "openai": how often a request is retried after a temporary failure.
    model_retries: u64 = Preset::Number(2), Kind::Number { min: 0, max: 100 };
    /// Who makes embeddings, with which recall finds passages that share no word with the question: nobody, or an OpenAI-compatible server.
    embedding: String = Preset::Text("none"), Kind::Choice(&["none", "openai"]);
    /// Embedding "openai": the base URL of the API, for example http://localhost:11434/v1.
    embedding_url: String = Preset::Text(""), Kind::Text;
    /// Embedding "openai": the model's name on that server.
    embedding_name: String = Preset::Text(""), Kind::Text;
    /// Embedding "openai": the API key, best set as KEEPLINE_EMBEDDING_KEY in the environment. Empty: none.
    embedding_key: Secret = Preset::Text(""), Kind::Secret;
    /// Embedding "openai": how long up to 64 passages may take, retries included (ms).
    embedding_timeout_ms: u64 = Preset::Number(30_000), Kind::Number { min: 1, max: HOUR_MS };
    /// Embedding "openai": how often a request is retried after a temporary failure.
    embedding_retries: u64 = Preset::Number(2), Kind::Number { min: 0, max: 100 };
    /// How long a question waits for its embedding before it continues without one (ms); 0: not at all.
    embedding_wait_ms: u64 = Preset::Number(150), Kind::Number { min: 0, max: 300_000 };
    /// Embedding "openai": how many dimensions to ask the server for; 0: the model's default. The first 256 are kept.
    embedding_dimensions: u64 = Preset::Number(0), Kind::Number { min: 0, max: 4096 };
    /// Deferred work: the directory to which a session is exported before its oldest turns are removed. Empty: they are not kept.
    archive_dir: String = Preset::Text(""), Kind::Text;
    /// Deferred work: how many tasks (summaries, titles and the like) are done at a time.
    maintenance_concurrency: u64 = Preset::Number(4), Kind::Number { min: 1, max: 1024 };
    /// Deferred work: how many tasks may wait or be under way. Further ones are dropped, and due again at the session's next answer.
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
            assert!(row.accept_json(&row.default.json()).is_some(), "{}", row.name);
        }
        for (name, preset) in Profile::ALL.iter().flat_map(|profile| profile.presets()) {
            if let Some(row) = field(name) {
                assert!(row.accept_json(&preset.json()).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_row_yields_the_type_that_its_member_has() {
        let defaults: Vec<(&str, Setting)> =
            FIELDS.iter().map(|row| (row.name, row.accept_json(&row.default.json()).unwrap())).collect();
        let found = HostFields::collect(|name| defaults.iter().find(|(of, _)| *of == name).map(|(_, value)| value));
        assert!(found.is_some());
    }
}
